"""The machine that measures: processor, caches, nodes, memory, kernel, compilers, disks, peers.

Nothing here identifies a machine among its like: no host name, no serial number, no path. A disk's
rate is what `oboro-lab read` reads past the page cache; its latency that of single 4 KiB reads.
"""

from __future__ import annotations

import json
import mmap
import os
import platform
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any

MIB = 1 << 20
GIB = 1 << 30
# The file whose reading is measured, and the number of single reads.
SAMPLE_BYTES = 512 * MIB
READS = 2000
PAGE = 4096
PEERS = ("seal-python", "numpy", "pandas", "mlxtend")


def describe(root: Path, lab: Path, peers_of: Path, with_disks: bool) -> dict[str, Any]:
    """The whole block. `lab` is oboro-lab, `peers_of` the Python that peers are installed for."""
    processor, caches = processors()
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "sockets": sockets(),
        "virtual": "hypervisor" in first_in("/proc/cpuinfo", "flags").split(),
        "vectors": vectors(),
        "caches": caches,
        "nodes": nodes(),
        "memory_bytes": memory(),
        "huge_pages": bracketed("/sys/kernel/mm/transparent_hugepage/enabled"),
        "kernel": f"{platform.system()} {kernel()}",
        "libc": " ".join(platform.libc_ver()),
        "compilers": {
            name: version
            for name, command in [("Rust", ["rustc", "--version"]), ("C", ["cc", "--version"])]
            if (version := first_line(command, root))
        },
        "disks": disks(),
        "temporary_files": measured_disk(lab) if with_disks else None,
        "peers": peers(peers_of),
    }


def identity(machine: Mapping[str, Any]) -> str:
    """Of what is described so, what tells machines apart whose figures cannot be mixed."""
    version = machine["kernel"].partition(" ")[2]
    return (
        f"{machine['processor']}, {machine['cores']} cores, {len(machine['nodes'])} nodes, "
        f"{round(machine['memory_bytes'] / GIB)} GiB, {version}"
    )


def short(machine: Mapping[str, Any]) -> str:
    """Returns the machine in a few words, as `make nightly` names it."""
    gibibytes = round(machine["memory_bytes"] / GIB)
    return f"{machine['processor']}, {machine['cores']} cores, {gibibytes} GiB"


def kernel() -> str:
    """Its version; what a distribution adds to it names the place of its building."""
    return platform.release().partition("-")[0]


def processors() -> tuple[str, list[dict[str, Any]]]:
    """The model, and the caches of the first core."""
    caches = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        with suppress(OSError):
            caches.append(
                {
                    "level": int(text(index / "level")),
                    "type": text(index / "type"),
                    "size": text(index / "size"),
                    "shared_by": len(numbers(text(index / "shared_cpu_list"))),
                }
            )
    return first_in("/proc/cpuinfo", "model name") or platform.machine(), caches


def vectors() -> str:
    """The widest instructions that kernels could use."""
    flags = first_in("/proc/cpuinfo", "flags").split()
    for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")):
        if flag in flags:
            return name
    return "NEON" if platform.machine() == "aarch64" else "none"


def sockets() -> int:
    packages = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/physical_package_id")
    return len({text(package) for package in packages}) or 1


def nodes() -> list[dict[str, Any]]:
    """Each with its cores, its memory and the distances to all."""
    found = []
    for node in sorted(Path("/sys/devices/system/node").glob("node[0-9]*")):
        kibibytes = re.search(r"MemTotal:\s*(\d+) kB", text(node / "meminfo"))
        found.append(
            {
                "cores": len(numbers(text(node / "cpulist"))),
                "memory_bytes": int(kibibytes[1]) << 10 if kibibytes else None,
                "distances": [int(distance) for distance in text(node / "distance").split()],
            }
        )
    return found


def memory() -> int:
    return int(first_in("/proc/meminfo", "MemTotal").removesuffix(" kB") or 0) << 10


def disks() -> list[dict[str, Any]]:
    """Those with a device behind them."""
    found = []
    for block in sorted(Path("/sys/block").iterdir()):
        if not (block / "device").exists():
            continue
        model = block / "device" / "model"
        found.append(
            {
                "name": block.name,
                "model": text(model) if model.exists() else "virtual, without a model",
                "bytes": int(text(block / "size")) * 512,
            }
        )
    return found


def measured_disk(lab: Path) -> dict[str, Any]:
    """Rate and latency of the disk of temporary files, which benches use; or why there are none."""
    try:
        with tempfile.NamedTemporaryFile(prefix="oboro-papers-") as file:
            begun = time.monotonic()
            piece = os.urandom(MIB)
            for _ in range(SAMPLE_BYTES // MIB):
                file.write(piece)
            os.fsync(file.fileno())
            written = time.monotonic() - begun
            return {
                "write_bytes_per_second": SAMPLE_BYTES / written,
                **rate(lab, file.name),
                **latency(file.name),
            }
    except OSError as error:
        return {"left_out": f"cannot be read past the page cache: {error.strerror}"}


def rate(lab: Path, file: str) -> dict[str, float]:
    if not lab.exists():
        return {}
    read = subprocess.run([lab, "read", "--json", file], capture_output=True, check=False)
    if read.returncode != 0:
        return {}
    return {"read_bytes_per_second": json.loads(read.stdout)["bytes_per_second"]}


def latency(file: str) -> dict[str, float]:
    """Of one 4 KiB read after the other; some microseconds of it are the system call's."""
    descriptor = os.open(file, os.O_RDONLY | os.O_DIRECT)
    times = []
    try:
        with mmap.mmap(-1, PAGE) as buffer:
            for _ in range(READS):
                place = random.randrange(SAMPLE_BYTES // PAGE) * PAGE
                begun = time.perf_counter()
                os.preadv(descriptor, [buffer], place)
                times.append(time.perf_counter() - begun)
    finally:
        os.close(descriptor)
    return {
        "read_latency_seconds": median(times),
        "read_latency_99_percent_seconds": quantiles(times, n=100)[-1],
    }


def peers(python: Path) -> dict[str, str]:
    """The versions of those in the benches' environment; others are in the lines of their bench."""
    if not python.exists():
        return {}
    program = (
        "import json, sys; from importlib.metadata import version, PackageNotFoundError as no\n"
        "found = {}\n"
        "for name in sys.argv[1:]:\n"
        "    try: found[name] = version(name)\n"
        "    except no: pass\n"
        "print(json.dumps(found))"
    )
    done = subprocess.run([python, "-c", program, *PEERS], stdout=subprocess.PIPE, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def text(path: Path) -> str:
    return path.read_text().strip()


def first_in(path: str, key: str) -> str:
    """The value of the first line `key: value`."""
    found = re.search(rf"^{re.escape(key)}\s*:\s*(.*)$", Path(path).read_text(), re.MULTILINE)
    return found[1].strip() if found else ""


def bracketed(path: str) -> str:
    """The chosen one of the kernel's words."""
    with suppress(OSError):
        found = re.search(r"\[(\w+)\]", Path(path).read_text())
        return found[1] if found else ""
    return ""


def numbers(ranges: str) -> list[int]:
    """Of a list such as 0-3,8."""
    return list(each_of(ranges))


def each_of(ranges: str) -> Iterator[int]:
    for part in filter(None, ranges.split(",")):
        low, _, high = part.partition("-")
        yield from range(int(low), int(high or low) + 1)


def first_line(command: list[str], root: Path) -> str:
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else ""
