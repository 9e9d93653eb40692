"""The contestants: the C library's allocator, its peers by LD_PRELOAD, and fcmalloc; and any other
that the user names."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

BENCH = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Allocator:
    """A library and its options. `missing` says why it cannot run, and how to install it."""

    name: str
    version: str
    library: Path | None
    options: dict[str, str] = field(default_factory=dict)
    planned: bool = False
    missing: str | None = None

    @property
    def ours(self) -> bool:
        return self.name.startswith("fcmalloc")

    def environment(self, plan: Path) -> dict[str, str]:
        """The environment variables that make a program use this allocator."""
        preload = {"LD_PRELOAD": str(self.library)} if self.library else {}
        return preload | self.options | ({"FCMALLOC_PLAN": str(plan)} if self.planned else {})

    def recording(self, plan: Path) -> dict[str, str]:
        """The environment of the run that records the plan."""
        return {"LD_PRELOAD": str(self.library), "FCMALLOC_RECORD": str(plan)}


GLIBC = "glibc"
JEMALLOC = "jemalloc"
TCMALLOC = "tcmalloc"
MIMALLOC_OLD = "mimalloc 2.0"
MIMALLOC = "mimalloc"
SNMALLOC = "snmalloc"
PLAIN = "fcmalloc"
PLANNED = "fcmalloc, plan"
RESERVED = "fcmalloc, reserve"
SECURE = "fcmalloc, secure"

DEBIAN = (
    (JEMALLOC, "libjemalloc2", "libjemalloc.so.2"),
    (TCMALLOC, "libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
    (MIMALLOC_OLD, "libmimalloc2.0", "libmimalloc.so.2"),
)

CRATES = (
    (MIMALLOC, "libmimalloc-sys", "libpeer_mimalloc.so"),
    (SNMALLOC, "snmalloc-sys", "libpeer_snmalloc.so"),
)

KNOWN = frozenset([GLIBC, *(name for name, *_ in (*DEBIAN, *CRATES))])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of every bench of allocators."""
    parser.add_argument("--fcmalloc", type=Path, required=True, help="where fcmalloc was built")
    parser.add_argument("--build", type=Path, required=True, help="where the programs were built")
    parser.add_argument("--allocators", help="names to run, separated by semicolons")
    parser.add_argument(
        "--also",
        type=also,
        action="append",
        default=[],
        metavar="NAME=LIBRARY.so",
        help="an allocator besides, by preloading its library; may be repeated",
    )


def all_allocators(fcmalloc: Path, build: Path, reserve: str) -> list[Allocator]:
    """All allocators in table order, given the build directories of fcmalloc and the peers."""
    return [
        Allocator(GLIBC, glibc_version(), None),
        *(debian(name, package, soname) for name, package, soname in DEBIAN),
        *(crate(build, name, package, library) for name, package, library in CRATES),
        own(fcmalloc, PLAIN, "libfcmalloc.so"),
        own(fcmalloc, PLANNED, "libfcmalloc.so", planned=True),
        own(fcmalloc, RESERVED, "libfcmalloc.so", options={"FCMALLOC_RESERVE": reserve}),
        own(fcmalloc, SECURE, "libfcmalloc-secure.so"),
    ]


def own(
    fcmalloc: Path,
    name: str,
    library: str,
    options: dict[str, str] | None = None,
    planned: bool = False,
) -> Allocator:
    path = fcmalloc / library
    header = (BENCH.parents[1] / "fcmalloc" / "include" / "fcmalloc.h").read_text()
    found = re.search(r'FC_VERSION "([^"]+)"', header)
    missing = None if path.is_file() else f"{library} is not built: make -C fcmalloc"
    return Allocator(name, found[1] if found else "", path, options or {}, planned, missing)


def glibc_version() -> str:
    said = subprocess.run(["getconf", "GNU_LIBC_VERSION"], stdout=subprocess.PIPE, text=True)
    return said.stdout.strip().removeprefix("glibc ")


def debian(name: str, package: str, soname: str) -> Allocator:
    """A library of the distribution, as found by the loader."""
    loader = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True)
    found = re.search(rf"^\s*{re.escape(soname)} .*=> (\S+)$", loader.stdout, re.MULTILINE)
    if not found:
        return Allocator(name, "", None, missing=f"sudo apt-get install -y {package}")
    asked = ["dpkg-query", "--show", "--showformat=${Version}", package]
    version = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return Allocator(name, version.stdout, Path(found[1]))


def crate(build: Path, name: str, package: str, library: str) -> Allocator:
    """A library that peers/ builds from a crate; its version is in the lock file there."""
    path = build / "cargo" / "release" / library
    lock = (BENCH / "peers" / "Cargo.lock").read_text()
    found = re.search(rf'name = "{package}"\nversion = "([^"]+)"', lock)
    missing = None if path.is_file() else f"{library} is not built: make -C lab/alloc peers"
    return Allocator(name, f"{package} {found[1] if found else ''}", path, missing=missing)


BINDING = re.compile(r"binding file \S+ \[0\] to (\S+) \[0\]: normal symbol `malloc'")
# Seconds that a program may take while the linker speaks of it.
LONGEST = 60
REFUSED = re.compile(r"object '.*' from LD_PRELOAD cannot be preloaded \((.*)\)")


def also(option: str) -> Allocator:
    """The allocator that a user's NAME=LIBRARY.so describes, once a program was served by it."""
    name, equals, file = option.partition("=")
    if not name or not equals or not file:
        raise argparse.ArgumentTypeError(
            f"{option!r} is not NAME=LIBRARY.so; for example, --also hoard=/usr/lib/libhoard.so"
        )
    if name.startswith(PLAIN) or name in KNOWN:
        raise argparse.ArgumentTypeError(
            f"the name {name!r} is that of an allocator of the bench; choose another"
        )
    library = Path(file).resolve()
    if not library.is_file():
        raise argparse.ArgumentTypeError(f"{file}: no such file; name the allocator's library")
    if re.search(r"[\s:]", str(library)):
        raise argparse.ArgumentTypeError(
            f"{library}: the loader takes spaces and colons of a path as the end of it; link or "
            "copy the library to another path"
        )
    reason = unserved(library)
    if reason:
        raise argparse.ArgumentTypeError(f"{file}: {reason}")
    return Allocator(name, "", library)


def unserved(library: Path) -> str | None:
    """Why a program in which it is preloaded does not take malloc from it."""
    command = [sys.executable, "-ISc", ""]
    try:
        found, status, said = servers(command, {"LD_PRELOAD": str(library)})
    except subprocess.TimeoutExpired:
        return f"a program with it preloaded does not end within {LONGEST} s"
    refused = REFUSED.search(said)
    if refused:
        return f"not a shared library of this machine ({refused[1]}); name a .so file"
    if library not in found:
        return "does not define malloc; name a library that replaces the C library's allocator"
    if status != 0:
        return f"a program with it preloaded ends with status {status}"
    return None


def servers(command: list[str], environment: dict[str, str]) -> tuple[set[Path], int, str]:
    """The libraries that a program's calls of malloc go to, according to the dynamic linker; its
    status, and what it and the linker said. Raises TimeoutExpired."""
    with tempfile.TemporaryDirectory(prefix="bench-served-") as folder:
        told = {
            "LD_DEBUG": "bindings",
            "LD_BIND_NOW": "1",
            "LD_DEBUG_OUTPUT": f"{folder}/ld",
        }
        ended = subprocess.run(
            command,
            env={**os.environ, **environment, **told},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST,
        )
        said = "".join(file.read_text(errors="replace") for file in Path(folder).iterdir())
    found = {Path(name).resolve() for name in BINDING.findall(said)}
    return found, ended.returncode, ended.stderr + said
