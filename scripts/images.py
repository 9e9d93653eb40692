"""Makes OCI images of a server and of an owner's command, and runs them without a container engine.

Both images have one layer: the command, the shared libraries of Debian that it needs, and the
certificate authorities. There is no shell and no package manager in it, nothing that runs as
root, and nothing that has to be written: they can run with a read-only root. The same command, date
and packages of Debian make the same bytes.

    scripts/images.py FOLDER ARGUMENT...

runs `oboro ARGUMENT...` by runc in an image that `unpack` put into FOLDER, that of the server for
`oboro serve` and otherwise that of the owner, on the network of this machine and in its current
folder.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# The user and the group of the processes; no account of Debian's.
USER = 10001
# What is unpacked of Debian, to take files from.
PACKAGES = ("base-files", "ca-certificates", "libc6", "libgcc-s1")
SERVER, OWNER = "server", "owner"
# What a compressed layer begins with.
GZIP = b"\x1f\x8b"
# Each image's entry point, working directory, and further settings of `umoci config`.
SETTINGS = {
    SERVER: (
        ["/usr/bin/oboro", "serve"],
        "/data",
        [
            "--config.env=OBORO_SERVE_DATA=/data",
            "--config.volume=/data",
            "--config.exposedports=7171/tcp",
        ],
    ),
    OWNER: (["/usr/bin/oboro"], "/work", ["--config.env=HOME=/work", "--config.env=TMPDIR=/work"]),
}


@dataclass(frozen=True)
class Image:
    """What images are made of."""

    command: Path
    version: str
    revision: str
    # Seconds since 1970.
    date: int
    # As Debian calls the processor.
    processor: str
    # Debian's name.
    release: str
    # Those of what is compiled in.
    licences: Path

    def write(self, archive: Path) -> None:
        """Writes an OCI archive with both images, by the names `server` and `owner`."""
        with tempfile.TemporaryDirectory(prefix="oboro-image-") as name:
            work = Path(name)
            layout, layer = work / "layout", work / "layer.tar"
            self._write_layer(work / "debian", layer)
            umoci("init", "--layout", layout)
            for image in SETTINGS:
                self._add(f"{layout}:{image}", image, layer)
            umoci("gc", "--layout", layout)
            files = {
                path.relative_to(layout): path.read_bytes()
                for path in layout.rglob("*")
                if path.is_file()
            }
            with tarfile.open(archive, "w") as tar:
                for path in sorted(files):
                    add(tar, str(path), self.date, data=files[path])

    def _add(self, target: str, image: str, layer: Path) -> None:
        created = datetime.fromtimestamp(self.date, UTC).isoformat()
        entry_point, folder, further = SETTINGS[image]
        labels = {
            "title": f"oboro-{image}",
            "version": self.version,
            "revision": self.revision,
        }
        settings = {
            "os": "linux",
            "architecture": self.processor,
            "config.user": f"{USER}:{USER}",
            "config.workingdir": folder,
            "config.env": "PATH=/usr/bin",
        }
        words = [f"--{name}={value}" for name, value in settings.items()]
        words += [f"--config.entrypoint={word}" for word in entry_point]
        words += [
            f"--config.label=org.opencontainers.image.{name}={value}"
            for name, value in labels.items()
        ]
        umoci("new", "--image", target)
        umoci("raw", "add-layer", "--image", target, "--history.created", created, layer)
        umoci("config", "--image", target, "--no-history", "--created", created, *words, *further)

    def _write_layer(self, debian: Path, layer: Path) -> None:
        system = ["--quiet", "--variant=extract", f"--architectures={self.processor}"]
        run(["mmdebstrap", *system, f"--include={','.join(PACKAGES)}", self.release, debian])
        users = f"oboro:x:{USER}:{USER}::/:/usr/sbin/nologin\n"
        authorities = sorted((debian / "usr/share/ca-certificates").rglob("*.crt"))
        data = {
            "etc/passwd": users.encode(),
            "etc/group": f"oboro:x:{USER}:\n".encode(),
            "etc/ssl/certs/ca-certificates.crt": b"".join(
                file.read_bytes() for file in authorities
            ),
            "usr/bin/oboro": self.command.read_bytes(),
            "usr/share/doc/oboro/LICENSE": (ROOT / "LICENSE").read_bytes(),
            "usr/share/doc/oboro/THIRD-PARTY.txt": self.licences.read_bytes(),
        }
        data |= {
            str(path.relative_to(debian)): resolve_in(debian, path).read_bytes()
            for path in libraries(self.command, debian)
        }
        # The licences of these packages, and which ones they are.
        texts = [*debian.glob("usr/share/common-licenses/*"), debian / "usr/lib/os-release"]
        for documents in debian.glob("usr/share/doc/*"):
            if re.fullmatch("base-files|ca-certificates|gcc-.*-base|libc6", documents.name):
                texts.append(documents / "copyright")
                name = f"var/lib/dpkg/status.d/{documents.name}"
                data[name] = status(documents, self.processor).encode()
        data |= {
            str(path.relative_to(debian)): resolve_in(debian, path).read_bytes() for path in texts
        }
        own = {"data", "work"}
        folders = (
            {str(above) for path in data for above in Path(path).parents} - {"."} | own | {"tmp"}
        )
        with tarfile.open(layer, "w") as tar:
            for folder in sorted(folders):
                mode = 0o700 if folder in own else 0o1777 if folder == "tmp" else 0o755
                add(tar, folder, self.date, mode=mode, user=USER if folder in own else 0)
            for path in sorted(data):
                is_program = path == "usr/bin/oboro" or Path(path).name.startswith("ld-linux")
                add(tar, path, self.date, data=data[path], mode=0o755 if is_program else 0o644)


def add(
    tar: tarfile.TarFile,
    path: str,
    date: int,
    *,
    data: bytes | None = None,
    mode: int = 0o644,
    user: int = 0,
) -> None:
    """Adds a file, or a folder where there are no data."""
    entry = tarfile.TarInfo(path)
    entry.mtime, entry.mode, entry.uid, entry.gid = date, mode, user, user
    if data is None:
        entry.type = tarfile.DIRTYPE
        tar.addfile(entry)
    else:
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))


def libraries(program: Path, root: Path) -> Iterator[Path]:
    """The files below a root that a program needs to be loaded, by the paths that it looks for."""
    interpreter = re.search(r"interpreter: (/\S+?)]", read_elf("--program-headers", program))
    assert interpreter is not None, f"{program} is not linked to a loader"
    yield root / interpreter[1].lstrip("/")
    folders = [
        folder for above in ("lib", "usr/lib") for folder in root.glob(f"{above}/*-linux-gnu")
    ]
    ahead, seen = [program], set()
    while ahead:
        for name in re.findall(r"\(NEEDED\).*\[(.+)]", read_elf("--dynamic", ahead.pop())):
            if name not in seen:
                seen.add(name)
                found = [folder / name for folder in folders if (folder / name).is_file()]
                # The loader is there already.
                if not name.startswith("ld-linux"):
                    assert found, f"{program} needs {name}, which no package here has"
                    yield found[0]
                    ahead.append(found[0])


def status(folder: Path, processor: str) -> str:
    """What dpkg would say of a package, by the folder of its documents; scanners look for it."""
    # Packages that Debian itself makes have the second only.
    logs = [folder / "changelog.Debian.gz", folder / "changelog.gz"]
    log = next(log for log in logs if log.exists())
    with gzip.open(log, "rt", errors="replace") as lines:
        told = re.match(r"(\S+) \((\S+)\)", next(lines))
    assert told is not None, f"{log} begins with no version"
    fields = {
        "Package": folder.name,
        "Status": "install ok installed",
        "Architecture": processor,
        "Source": told[1],
        "Version": told[2],
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def resolve_in(root: Path, path: Path) -> Path:
    """The file that a path names, with the targets of links below a root."""
    while path.is_symlink():
        target = str(path.readlink())
        path = root / target.lstrip("/") if target.startswith("/") else path.parent / target
    return path


def read_elf(what: str, file: Path) -> str:
    """What readelf says of a file."""
    return run(["readelf", "--wide", what, str(file)])


def umoci(*words: object) -> None:
    """Runs umoci."""
    run(["umoci", *map(str, words)])


def run(command: Sequence[object]) -> str:
    """What a command prints, in English."""
    words = [str(word) for word in command]
    settings = os.environ | {"LC_ALL": "C.UTF-8"}
    return subprocess.run(words, env=settings, stdout=subprocess.PIPE, text=True, check=True).stdout


def contents(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The files in the layers of an archive, by name."""
    with tarfile.open(archive) as tar:
        blobs = [file.read() for member in tar if (file := tar.extractfile(member)) is not None]
    for blob in blobs:
        if blob.startswith(GZIP):
            with tarfile.open(fileobj=io.BytesIO(blob)) as layer:
                for member in layer:
                    if (file := layer.extractfile(member)) is not None:
                        yield member.name, file.read()


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks both images of an archive for `main`."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "layout", filter="data")
    for image in SETTINGS:
        umoci("unpack", "--image", f"{folder / 'layout'}:{image}", folder / image)


def runtime_config(folder: Path, arguments: Sequence[str]) -> Any:
    """What runc reads: no capabilities, a read-only root, the current folder mounted at /work."""
    image = SERVER if arguments[:1] == ["serve"] else OWNER
    told = json.loads((folder / image / "config.json").read_text())
    told["root"] = {"path": str((folder / image / "rootfs").resolve()), "readonly": True}
    process = told["process"]
    assert process["user"]["uid"] == USER, f"{image} runs as {process['user']}"
    process |= {"terminal": False, "cwd": "/work", "capabilities": {}, "noNewPrivileges": True}
    process["args"] += arguments[1:] if image == SERVER else arguments
    told["mounts"].append(
        {
            "destination": "/work",
            "type": "none",
            "source": str(Path.cwd()),
            "options": ["bind", "rw"],
        }
    )
    spaces = told["linux"]["namespaces"]
    told["linux"]["namespaces"] = [space for space in spaces if space["type"] != "network"]
    return told


def main() -> None:
    """Runs the command in its image."""
    folder = Path(sys.argv[1])
    bundle = Path(tempfile.mkdtemp(prefix="run-", dir=folder))
    (bundle / "config.json").write_text(json.dumps(runtime_config(folder, sys.argv[2:])))
    runc = shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "runc"
    os.execv(runc, [runc, "run", "--bundle", str(bundle), bundle.name])


if __name__ == "__main__":
    main()
