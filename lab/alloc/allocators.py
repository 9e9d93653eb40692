"""The contestants: the C library's allocator, its peers by LD_PRELOAD, and fcmalloc."""

import re
import subprocess
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
    ("snmalloc", "snmalloc-sys", "libpeer_snmalloc.so"),
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
