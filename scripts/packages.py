"""Builds what a release offers, tries it where nothing else is installed, and builds it again.

`make packages` puts into target/packages, for each processor, a wheel, a Debian package and OCI
images; besides the source distribution, SBOMs (CycloneDX), the licences of what is compiled in, and
SHA256SUMS. All dates in them are those of the commit, and no path in them is one of this machine.

`scripts/images.py` puts the command into OCI images of server and owner.

Nothing here is uploaded or signed. `make test-packages` installs every package for this processor
in an environment of its own and runs there what README.md says; `make packages-reproducible` builds
from a clone in another folder and compares byte for byte.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

import images

ROOT = Path(__file__).resolve().parents[1]
# Below the root that is built from: crates/cli/Cargo.toml names what goes into the Debian package.
OUT = Path("target/packages")
BUILD = Path("target/packages-build")
# What is shipped, by the folder of its crate.
SHIPPED = {"cli": "oboro", "python": "oboro-python"}
SUMS = "SHA256SUMS"
LICENCES = "THIRD-PARTY.txt"
# Where the licences are while a wheel is built: pyproject.toml names the file.
IN_PACKAGE = Path("python/oboro") / LICENCES


@dataclass(frozen=True)
class Processor:
    """What packages are built for: by Debian's name, the target's, cross compiler and emulator."""

    debian: str
    triple: str
    compiler: str
    emulator: str

    def environment(self) -> dict[str, str]:
        """Has Cargo and what it calls use the compiler, where it is another than this machine's."""
        if self.triple.startswith(f"{os.uname().machine}-"):
            return {}
        name = self.triple.replace("-", "_")
        return {f"CC_{name}": self.compiler, f"CARGO_TARGET_{name.upper()}_LINKER": self.compiler}


PROCESSORS = {
    processor.debian: processor
    for processor in (
        Processor(
            "amd64",
            "x86_64-unknown-linux-gnu",
            "x86_64-linux-gnu-gcc",
            "qemu-x86_64-static",
        ),
        Processor(
            "arm64",
            "aarch64-unknown-linux-gnu",
            "aarch64-linux-gnu-gcc",
            "qemu-aarch64-static",
        ),
    )
}


class Packages:
    """What is built from the sources in a folder, with Cargo's tools in another."""

    def __init__(self, root: Path, tools: Path) -> None:
        self.root = root
        self.out = root / OUT
        self.stage = root / BUILD / "stage"
        self.environment = environment(root, tools)

    def build(self, processors: Sequence[Processor]) -> None:
        """Builds everything anew."""
        for folder in (self.out, self.stage):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        for crate, name in SHIPPED.items():
            self._list_contents(crate, name, processors)
        self._run(["maturin", "sdist", "--out", str(self.out)])
        # This machine's first: its command writes the manual pages.
        for processor in sorted(processors, key=lambda one: bool(one.environment())):
            self._build_for(processor)
        write_sums(self.out)

    def _build_for(self, processor: Processor) -> None:
        settings = processor.environment()
        chosen = ["--release", "--locked", "--target", processor.triple]
        self._run(["cargo", "build", "--quiet", "-p", "oboro", *chosen], settings)
        shutil.copy(self.stage / f"{LICENCES}.oboro-python", self.root / IN_PACKAGE)
        try:
            self._run(
                [
                    "maturin",
                    "build",
                    "--quiet",
                    *chosen,
                    "--auditwheel",
                    "check",
                    "--out",
                    str(self.out),
                ],
                settings,
            )
        finally:
            (self.root / IN_PACKAGE).unlink()
        if not settings:
            self._write_manual(self.root / BUILD / processor.triple / "release" / "oboro")
        options = ["--quiet", "-p", "oboro", "--locked", "--no-build", "--no-strip"]
        debian = ["cargo", "deb", *options, "--target", processor.triple, "--output", str(self.out)]
        self._run(debian, settings)
        self._write_images(processor)

    def _write_images(self, processor: Processor) -> None:
        """Writes an OCI archive with the command."""
        image = images.Image(
            command=self.root / BUILD / processor.triple / "release" / "oboro",
            version=self._version(),
            revision=run(["git", "rev-parse", "HEAD"], self.root).strip(),
            date=int(self.environment["SOURCE_DATE_EPOCH"]),
            processor=processor.debian,
            release=release(),
            licences=self.stage / f"{LICENCES}.oboro",
        )
        image.write(self.out / f"oboro-{image.version}.{processor.debian}.oci.tar")

    def _version(self) -> str:
        told = tomllib.loads((self.root / "Cargo.toml").read_text())
        version: str = told["workspace"]["package"]["version"]
        return version

    def _write_manual(self, command: Path) -> None:
        """Has the command write what else is in the Debian package."""
        manual = self.stage / "man"
        manual.mkdir()
        self._run([str(command), "man", str(manual)])
        for shell in ("bash", "zsh", "fish"):
            (self.stage / f"oboro.{shell}").write_text(
                self._run([str(command), "completions", shell])
            )
        unit = (self.root / "deploy/systemd/oboro.service").read_text()
        (self.stage / "oboro.service").write_text(unit.replace("/usr/local/bin/", "/usr/bin/"))

    def _list_contents(self, crate: str, name: str, processors: Sequence[Processor]) -> None:
        """Writes the SBOM of a crate, and the licences of what is compiled into it."""
        manifest = self.root / "crates" / crate / "Cargo.toml"
        bom = f"{name}.cdx"
        options = ["--quiet", "--format", "json", "--no-build-deps", "--override-filename", bom]
        self._run(["cargo", "cyclonedx", "--manifest-path", str(manifest), *options])
        listed = (manifest.parent / f"{bom}.json").read_text()
        # It describes every crate of the workspace.
        for left in [
            *self.root.glob(f"crates/**/{bom}.json"),
            *self.root.glob(f"fcmalloc/rust/{bom}.json"),
        ]:
            left.unlink()
        version = self._version()
        (self.out / f"{name}-{version}.cdx.json").write_text(
            listed.replace(f"file://{self.root}/", "file:///")
        )

        licences = self._licences(manifest, processors)
        (self.stage / f"{LICENCES}.{name}").write_text(licences)
        (self.out / f"{name}-{version}.third-party.txt").write_text(licences)

    def _licences(self, manifest: Path, processors: Sequence[Processor]) -> str:
        """The licences of what is compiled into a crate, each text once."""
        asked = [
            "cargo",
            "metadata",
            "--locked",
            "--format-version=1",
            f"--manifest-path={manifest}",
        ]
        crates: dict[str, Any] = {}
        for processor in processors:
            told = self._run([*asked, f"--filter-platform={processor.triple}"])
            crates |= compiled_in(json.loads(told))
        texts: dict[str, list[str]] = {}
        lines = []
        for crate in sorted(crates.values(), key=lambda crate: (crate["name"], crate["version"])):
            name = f"{crate['name']} {crate['version']}"
            lines.append(f"{name}: {crate['license']}, {crate['repository']}\n")
            for text in licence_texts(Path(crate["manifest_path"]).parent):
                texts.setdefault(text, []).append(name)
        rule = "-" * 80
        parts = [f"{rule}\n{', '.join(names)}\n{rule}\n\n{text}\n" for text, names in texts.items()]
        head = "Oboro contains Rust's standard library (MIT OR Apache-2.0) and the crates below,"
        head += "\nwith the licences and texts that they come with; each text is here once.\n\n"
        return "".join([head, *lines, "\n", *parts])

    def _run(self, command: Sequence[str], settings: Mapping[str, str] | None = None) -> str:
        return run(command, self.root, {**self.environment, **(settings or {})})


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """What a command prints."""
    print("+", shlex.join(command), file=sys.stderr, flush=True)
    found = shutil.which(command[0], path=environment["PATH"])
    return subprocess.run(
        [found or command[0], *command[1:]],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def environment(root: Path, tools: Path) -> dict[str, str]:
    """What makes the bytes that are built depend on nothing but the commit and the tools."""
    cargo_home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    renamed = {root: "/oboro", cargo_home: "/cargo"}
    flags = tomllib.loads((root / ".cargo/config.toml").read_text())["build"]["rustflags"]
    flags += [f"--remap-path-prefix={path}={name}" for path, name in renamed.items()]
    date = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=root, text=True)
    return os.environ | {
        "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CARGO_TARGET_DIR": str(root / BUILD),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_PROFILE_RELEASE_STRIP": "symbols",
        "CFLAGS": " ".join(f"-ffile-prefix-map={path}={name}" for path, name in renamed.items()),
        "SOURCE_DATE_EPOCH": date.strip(),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


def compiled_in(metadata: Any) -> dict[str, Any]:
    """Of what `cargo metadata` says of a crate: the crates of others that it is compiled from."""
    nodes = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    found, ahead = set(), [metadata["resolve"]["root"]]
    while ahead:
        if (crate := ahead.pop()) not in found:
            found.add(crate)
            kinds = ((to["pkg"], [kind["kind"] for kind in to["dep_kinds"]]) for to in nodes[crate])
            ahead += [to for to, kind in kinds if None in kind]
    crates = {crate["id"]: crate for crate in metadata["packages"]}
    return {crate: crates[crate] for crate in found if crates[crate]["source"] is not None}


def licence_texts(folder: Path) -> list[str]:
    """The licences in the folder of a crate, those of what it brings along, too."""
    names = re.compile("(un)?licen[cs]e|notice|copyright", re.IGNORECASE)
    files = (file for file in sorted(folder.rglob("*")) if names.match(file.name))
    return [file.read_text(errors="replace").strip() for file in files if file.is_file()]


def digest(file: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def files(out: Path) -> list[Path]:
    """What was built, but for the sums."""
    return sorted(file for file in out.iterdir() if file.name != SUMS)


def write_sums(out: Path) -> None:
    """Writes the sums of what was built, for `sha256sum --check`."""
    lines = [f"{digest(file)}  {file.name}\n" for file in files(out)]
    (out / SUMS).write_text("".join(lines))


def differences(first: Path, second: Path) -> list[str]:
    """The names of files that are not the same in both folders, or not in both."""
    names = {file.name for out in (first, second) for file in out.iterdir()}
    here = [name for name in names if (first / name).exists() and (second / name).exists()]
    alike = {name for name in here if (first / name).read_bytes() == (second / name).read_bytes()}
    return sorted(names - alike)


def one(out: Path, pattern: str) -> Path:
    """The only file of that name."""
    (found,) = out.glob(pattern)
    return found


def contents(package: Path) -> Iterator[tuple[str, bytes]]:
    """The files in a package, by name."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist())
        return
    raw = package.read_bytes()
    if package.suffix == ".tar":
        yield from images.contents(package)
        return
    if package.suffix == ".deb":
        raw = subprocess.check_output(["dpkg-deb", "--fsys-tarfile", str(package)])
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                yield member.name, file.read()


def release() -> str:
    """The name of this Debian, which clean ones are made of."""
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


class Trial:
    """Tries what was built where nothing of it, and no compiler, is."""

    def __init__(self, packages: Packages, work: Path) -> None:
        self.packages = packages
        self.out = packages.out
        self.work = work
        self.script = ROOT / "scripts" / "first-result.sh"

    def run(self, processors: Sequence[Processor]) -> None:
        """Tries every package that can be run here."""
        self._sums()
        self._contents()
        own = [processor.debian for processor in processors if not processor.environment()]
        for name in own:
            machine = PROCESSORS[name].triple.partition("-")[0]
            self._python("wheel", one(self.out, f"*_{machine}.whl"), ["--only-binary=:all:"])
            self._debian(one(self.out, f"*_{name}.deb"))
            self._images(one(self.out, f"*.{name}.oci.tar"))
        for processor in processors:
            if processor.debian not in own:
                self._emulated(processor)
        self._sdist(one(self.out, "*.tar.gz"))

    def _sums(self) -> None:
        run(["sha256sum", "--check", "--quiet", "--strict", SUMS], self.out)

    def _contents(self) -> None:
        """What must be in the packages is there, and nothing that tells of this machine."""
        for name in SHIPPED.values():
            bom = json.loads(one(self.out, f"{name}-[0-9]*.cdx.json").read_text())
            assert bom["bomFormat"] == "CycloneDX"
            crates = {component["name"] for component in bom["components"]}
            assert {"ring", "oboro-rlwe"} <= crates, f"{name}: its SBOM lacks crates"
            assert not {"proptest", "tfhe-ntt"} & crates, f"{name}: its SBOM has crates of tests"
            licences = one(self.out, f"{name}-[0-9]*.third-party.txt").read_text()
            assert all(f"\n{crate} " in licences for crate in ("ring", "tokio")), (
                f"{name}: licences"
            )
        private = [str(ROOT).encode(), self.packages.environment["HOME"].encode()]
        for package in files(self.out):
            if package.suffix not in {".whl", ".deb", ".gz", ".tar"}:
                inside = [(package.name, package.read_bytes())]
            else:
                inside = list(contents(package))
                assert any(LICENCES in name for name, _ in inside) or package.suffix == ".gz"
            told = [name for name, data in inside if any(path in data for path in private)]
            assert told == [], f"{package.name}: {told} have paths of this machine"

    def _python(
        self,
        name: str,
        package: Path,
        options: Sequence[str],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Installs a package of Python into an environment of its own."""
        folder = self.work / name
        run([sys.executable, "-m", "venv", str(folder)], self.work)
        programs = folder / "bin"
        alone = {**os.environ, "PATH": str(programs), **(settings or {})}
        run([str(programs / "pip"), "install", "--quiet", *options, str(package)], folder, alone)
        alone["PATH"] = str(programs)
        run([shutil.which("bash") or "bash", str(self.script), "python"], folder, alone)

    def _sdist(self, package: Path) -> None:
        """Installs the source distribution, with what was compiled already of others' crates."""
        own = next(here for here in PROCESSORS.values() if not here.environment())
        settings = {"MATURIN_PEP517_ARGS": f"--target {own.triple}"}
        self._python("sdist", package, [], self.packages.environment | settings)

    def _debian(self, package: Path) -> None:
        """Installs a Debian package into a system that has nothing but what every system has."""
        inside = [
            "dpkg --install /trial/oboro.deb",
            "oboro --version && oboro serve --help >/dev/null",
            "test -s /usr/share/bash-completion/completions/oboro",
            # Where a minimal system keeps manual pages, which images leave out.
            "dpkg --listfiles oboro | grep -qx /usr/share/man/man1/oboro-mine.1.gz",
            "grep -q ^ExecStart=/usr/bin/oboro /usr/lib/systemd/system/oboro.service",
            "getent passwd oboro",
            "mkdir /work && cd /work && bash /trial/scripts/first-result.sh command",
            "dpkg --purge oboro && ! test -e /usr/bin/oboro && ! test -e /etc/oboro/oboro.toml",
        ]
        trial = self.work / "trial"
        (trial / "scripts").mkdir(parents=True)
        shutil.copy(package, trial / "oboro.deb")
        shutil.copy(ROOT / "README.md", trial)
        shutil.copy(self.script, trial / "scripts")
        hooks = [f'cp -r {shlex.quote(str(trial))} "$1/trial"']
        hooks += [f'chroot "$1" sh -euc {shlex.quote(command)}' for command in inside]
        options = [f"--customize-hook={hook}" for hook in hooks]
        run(
            ["mmdebstrap", "--quiet", "--variant=minbase", *options, release(), "/dev/null"],
            self.work,
            os.environ,
        )

    def _images(self, archive: Path) -> None:
        """Runs the images: not as root, and with nothing to write to but a folder."""
        folder = self.work / "images"
        folder.mkdir()
        images.unpack(archive, folder)
        programs = self.work / "images-programs"
        programs.mkdir()
        script = ROOT / "scripts" / "images.py"
        inside = shlex.join([sys.executable, str(script), str(folder)])
        (programs / "oboro").write_text(f'#!/bin/sh\nexec {inside} "$@" </dev/null\n')
        (programs / "oboro").chmod(0o755)
        there = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
        here = self.work / "images-work"
        here.mkdir()
        os.chown(here, images.USER, images.USER)
        run(["bash", str(self.script), "command"], here, there)
        refused = subprocess.run(
            ["oboro", "keygen", "--key", "/tmp/elsewhere.key"],
            cwd=here,
            env=there,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert refused.returncode != 0 and "Read-only file system" in refused.stderr, refused

    def _emulated(self, processor: Processor) -> None:
        """Tries packages for another processor on an emulated one, in folders of its system."""
        root = self.work / processor.debian
        system = ["--quiet", "--variant=extract", f"--architectures={processor.debian}"]
        # Nothing is installed there, so that no program of it is run by another. NumPy needs the
        # library of C++.
        system.append("--include=python3,libstdc++6")
        run(["mmdebstrap", *system, release(), str(root)], self.work)
        run(
            ["dpkg-deb", "--extract", str(one(self.out, f"*_{processor.debian}.deb")), str(root)],
            self.work,
        )
        site = root / "usr/lib/python3/dist-packages"
        python = (root / "usr/bin/python3").readlink().name
        machine = processor.triple.partition("-")[0]
        tags = [f"manylinux_2_{minor}_{machine}" for minor in range(17, 37)]
        options = [
            "--quiet",
            "--only-binary=:all:",
            f"--python-version={python.removeprefix('python')}",
            f"--target={site}",
        ]
        options += [f"--platform={tag}" for tag in (f"manylinux2014_{machine}", *tags)]
        wheel = one(self.out, f"*_{machine}.whl")
        run([sys.executable, "-m", "pip", "install", *options, str(wheel)], self.work)
        programs = self.work / f"{processor.debian}-programs"
        programs.mkdir()
        for name, program in (("oboro", "oboro"), ("python", python)):
            emulated = shlex.join(
                [processor.emulator, "-L", str(root), f"{root}/usr/bin/{program}"]
            )
            (programs / name).write_text(f'#!/bin/sh\nexec {emulated} "$@"\n')
            (programs / name).chmod(0o755)
        there = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
        for part in ("command", "python"):
            run(["bash", str(self.script), part], programs, there)


def reproducible(packages: Packages, processors: Sequence[Processor], tools: Path) -> None:
    """Builds from a clone in another folder and compares with what is there."""
    if run(["git", "status", "--porcelain"], ROOT):
        sys.exit("error: what is not committed cannot be built from a clone; commit it first")
    with tempfile.TemporaryDirectory(prefix="oboro-built-elsewhere-") as folder:
        clone = Path(folder) / "clone"
        run(["git", "clone", "--quiet", str(ROOT), str(clone)], ROOT)
        again = Packages(clone, tools)
        again.build(processors)
        different = differences(packages.out, again.out)
    if different:
        sys.exit(f"error: built twice, these differ: {', '.join(different)}")
    print(f"built twice, the same: {', '.join(file.name for file in files(packages.out))}")


def main() -> None:
    """Does what is asked of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=["build", "try", "reproducible"])
    parser.add_argument("--tools", type=Path, required=True, help="where Cargo's tools are")
    parser.add_argument(
        "--for", dest="processors", nargs="+", choices=PROCESSORS, default=list(PROCESSORS)
    )
    given = parser.parse_args()
    processors = [PROCESSORS[name] for name in given.processors]
    packages = Packages(ROOT, given.tools)
    match given.what:
        case "build":
            packages.build(processors)
        case "try":
            with tempfile.TemporaryDirectory(prefix="oboro-packages-") as work:
                Trial(packages, Path(work)).run(processors)
        case _:
            reproducible(packages, processors, given.tools)


if __name__ == "__main__":
    main()
