"""The papers' figures on SSDs, with devices told apart by latency, on a machine of their own.

No disk here has the latencies that the papers varied, and throttles of bytes do nothing to them. So
`oboro-lab ssd` runs on a machine under QEMU (scripts/vm.sh) whose swap is a null_blk device in
memory, which completes each request after a chosen time, or compressed memory (zram), the fast
end. Each device has a machine of its own. What swaps is `oboro serve`, which counts all itemsets of
length 1 and 2 in what needs 0.7 GB at the limits of Figures 4 to 6, or searches genomes in memory,
with swap and streamed, as in Figures 2 and 3 of the paper on genome search.

Where KVM works, times are real. Elsewhere they are counted: an instruction takes a nanosecond, idle
time is skipped (scripts/vm.sh --counted), and one core does everything, so that there may be as
many machines at once as cores. Such times put devices in order; they are no processor's seconds.
`floor_microseconds` is the time of a fault on the fastest device less its latency: what the machine
adds to each.

Prints one JSON object a line:

    ssd point       a server on a device with a limit: the fields of `ssd mode`
                    (lab/FIELDS.md), and
    device, latency_us
                    "zram", or the latency as in "100us"; null for zram. None in memory
    clock           "real" or "counted"
    seconds         of a pass: the median of `runs`. By the length of itemsets or patterns in
                    `by_length`
    queue_lengths   requests at the device, each second, the cold pass included; their mean and
                    maximum in `queue_mean` and `queue_max`
    fault_microseconds
                    of one fault without readahead on that device
    ssd left out    a point that could not be had, and `because`; `no_machine` if QEMU or its kernel
                    are missing
    ssd cost        with --price: see ssd_costs.py
    ssd latency     the summary, last:
    workload, quick, devices, limits, transactions, …
                    what was measured
    program         what swaps
    needed_bytes, stored_bytes
                    the peak of the server in memory, and its files
    floor_microseconds, faults
                    the floor, and `fault_microseconds` by device
    findings        what the papers found, in our words, what was `measured` here, and a `verdict`:
                    "reproduced", "contradicted", or null where points are missing
    points          how many there are
    verified        there were answers, and all were those of the plaintext
    skipped         in its place, why there was no machine at all
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

from machine import report
from ssd_costs import costs, price

ROOT = Path(__file__).resolve().parents[2]
GUEST = Path(__file__).with_name("ssd_guest.sh")
MODULES = ["configfs", "null_blk nr_devices=0", "zsmalloc", "lzo-rle", "zram"]
PROGRAMS = ["mkswap", "swapon", "swapoff", "mkfs.ext4"]
# No machine of this kind can be had (scripts/vm.sh).
SKIPPED = 77
ZRAM = "zram"
Line = dict[str, Any]


@dataclass(frozen=True)
class Work:
    """What a run measures by default, quick or in full; sizes in MiB. `seconds` are for all of it,
    less than the step of `make papers` has, so that a machine that hangs does not cost the rest."""

    devices: tuple[str, ...]
    limits: tuple[str, ...]
    size: dict[str, int]
    memory: int
    device: int
    seconds: int


WORKS = {
    ("mining", False): Work(
        devices=(ZRAM, "1us", "10us", "100us", "1000us"),
        limits=("200MB", "400MB", "600MB"),
        size={"transactions": 2_600_000, "runs": 1},
        memory=3584,
        device=1200,
        seconds=5000,
    ),
    ("mining", True): Work(
        devices=("10us", "100us"),
        limits=("200MB",),
        size={"transactions": 1_000_000, "runs": 1},
        memory=2048,
        device=600,
        seconds=1800,
    ),
    # Of a smaller panel, what swaps is what a search needs at a time: the kernel would kill it.
    ("genome", False): Work(
        devices=(ZRAM, "1us", "10us", "100us", "1000us"),
        limits=("60%",),
        size={"haplotypes": 50_000, "sites": 300, "positions": 4, "runs": 1},
        memory=1536,
        device=512,
        seconds=3300,
    ),
    ("genome", True): Work(
        devices=("10us", "100us"),
        limits=("60%",),
        size={"haplotypes": 50_000, "sites": 300, "positions": 4, "runs": 1},
        memory=1536,
        device=512,
        seconds=3300,
    ),
}


def latency(device: str) -> int | None:
    """Of a device in microseconds; none for zram."""
    return None if device == ZRAM else int(device.removesuffix("us"))


def device_name(given: str) -> str:
    """Parses a device, for argparse."""
    if given != ZRAM and not 1 <= int(given.removesuffix("us")) <= 1_000_000:
        raise ValueError(given)
    return given if given == ZRAM else f"{int(given.removesuffix('us'))}us"


class Machine:
    """Where `oboro-lab ssd` runs, with the data that all devices get."""

    def __init__(self, arguments: argparse.Namespace, work: Work, directory: Path) -> None:
        self.arguments = arguments
        self.work = work
        self.data = directory / "data"
        # Of the server in memory, once the first machine has told.
        self.needed = 0
        # That each machine may take, once it is known how many there are one after another.
        self.seconds = work.seconds

    @property
    def limits_are_shares(self) -> bool:
        """Of what the server needs, so that all machines must be told the same."""
        return any(limit.endswith("%") for limit in self.work.limits)

    def options(self) -> list[str]:
        """Of `oboro-lab ssd`, the same wherever it runs."""
        sizes = self.work.size.items()
        shape = [part for name, size in sizes for part in (f"--{name}", str(size))]
        return ["--workload", self.arguments.workload, *shape]

    def prepare(self) -> None:
        """Encrypts here, which takes long there; exits this program if it fails."""
        if self.arguments.workload == "genome":
            return
        lab = str(self.arguments.lab)
        done = subprocess.run([lab, "ssd", "--json", *self.options(), "--prepare", self.data])
        if done.returncode != 0:
            sys.exit("error: the data could not be made; what was said stands above")

    def files(self) -> list[Path]:
        """Everything that the guest needs."""
        lab = self.arguments.lab.resolve()
        programs = [Path(found) for name in PROGRAMS if (found := shutil.which(name, path=PATH))]
        # The owner asks without ciphertext: the server has it.
        ciphertext = self.data / "bench.oboro" / "segments"
        data = [file for file in self.data.rglob("*") if file.is_file()]
        data = [file for file in data if file.parent != ciphertext]
        return [lab, lab.with_name("oboro"), GUEST, *programs, *data]

    def run(self, device: str) -> Iterator[Line]:
        """The lines of `oboro-lab ssd` on that device; one more where they end early."""
        work, genome = self.work, self.arguments.workload == "genome"
        options = [part for limit in work.limits for part in ("--limit", limit)]
        options += [*self.options(), "--threads", "1", "--page-cluster", "3"]
        if not genome:
            options += ["--prepared", str(self.data), "--mode", "swap"]
        if self.needed:
            options += ["--needed", str(self.needed)]
        command = [self.arguments.vm, "--counted", "--memory", str(work.memory)]
        command += [part for module in MODULES for part in ("--module", module)]
        command += [part for file in self.files() for part in ("--file", str(file))]
        command += [str(GUEST), device.removesuffix("us"), str(work.device)]
        command += ["files" if genome else "swap", str(self.arguments.lab.resolve()), *options]
        environment = {"VM_SECONDS": str(self.seconds), "PATH": PATH}
        said = ""
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            for text in process.stdout or ():
                try:
                    yield json.loads(text)
                except json.JSONDecodeError:
                    said = text.strip()
                    print(said, file=sys.stderr)
        if process.returncode == SKIPPED:
            yield {
                "bench": "ssd left out",
                "left_out": device,
                "because": said or "there is no machine of that kind",
                "no_machine": True,
            }
        elif process.returncode != 0:
            said = said or "see standard error"
            because = f"the machine ended with status {process.returncode} ({said})"
            yield {"bench": "ssd left out", "left_out": device, "because": because}


PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def point(line: Line, device: str, clock: str) -> Line:
    """A line `ssd mode` of a machine."""
    queue = [length for length in line["queue_lengths"] if length is not None]
    in_memory = line["mode"] == "memory"
    own = {} if in_memory else {"device": device, "latency_us": latency(device)}
    return {
        **line,
        "bench": "ssd point",
        **own,
        "clock": clock,
        "seconds": line["pass_seconds"],
        "queue_mean": fmean(queue) if queue else None,
        "queue_max": max(queue, default=None),
    }


def measure(machine: Machine, device: str) -> list[Line]:
    """The points of a device, what was left out there, and the summary of `oboro-lab ssd`."""
    clock = ""
    lines: list[Line] = []
    for line in machine.run(device):
        kind = line.get("bench")
        if kind == "ssd machine":
            clock = line["clock"]
        elif kind == "ssd mode":
            lines.append(point(line, device, clock))
        # The guest has no perf.
        elif kind == "ssd left out" and not line["left_out"].startswith("profile"):
            lines.append(line | {"device": device})
        elif kind == "ssd":
            lines.append(line)
            machine.needed = line["needed_bytes"]
    return lines


def measure_all(machine: Machine, devices: list[str], at_once: int) -> dict[str, list[Line]]:
    """The lines of all devices by kind; those of points and what was left out are reported."""
    lines: dict[str, list[Line]] = {"ssd point": [], "ssd left out": [], "ssd": []}
    in_memory = False
    alone = 1 if machine.limits_are_shares else 0
    rounds = alone + ceil((len(devices) - alone) / at_once)
    machine.seconds = machine.work.seconds // rounds
    with ThreadPoolExecutor(at_once) as machines:
        one = partial(measure, machine)
        # Groups one after another: the others begin when the first has told what is needed.
        groups = (machines.map(one, group) for group in (devices[:alone], devices[alone:]))
        for line in chain.from_iterable(chain.from_iterable(groups)):
            # Machines at the same time measure memory each.
            if line.get("mode") == "memory" and in_memory:
                continue
            in_memory |= line.get("mode") == "memory"
            lines[line["bench"]].append(line)
            if line["bench"] != "ssd":
                report(line)
    return lines


def with_swap(points: list[Line], limit: int | None = None) -> list[Line]:
    """Those with swap on a device of a chosen latency, by latency."""
    swapped = [
        line
        for line in points
        if line["mode"] == "swap" and line["latency_us"] and limit in (None, line["limit_bytes"])
    ]
    return sorted(swapped, key=lambda line: line["latency_us"])


def floor(faults: dict[str, float | None]) -> float | None:
    """What the machine adds to a fault: on slow devices hidden in the time that they take."""
    known = [(latency(device) or 0, time) for device, time in faults.items() if time]
    return next((time - lowest for lowest, time in sorted(known)), None)


def finding(paper: str, claim: str, measured: dict[str, Any], holds: bool | None) -> Line:
    """What a paper found, and whether it holds here."""
    verdict = None if holds is None else "reproduced" if holds else "contradicted"
    return {"paper": paper, "finding": claim, "measured": measured, "verdict": verdict}


def rises(values: list[float]) -> bool | None:
    """Whether values rise, up to a hundredth; nothing is known of fewer than two."""
    if len(values) < 2:
        return None
    steps = pairwise(values)
    return values[-1] > values[0] and all(after > before * 0.99 for before, after in steps)


def mining_findings(points: list[Line]) -> list[Line]:
    """Of the paper on secure mining."""
    paper = "ssd-secure-mining"
    limits = sorted({line["limit_bytes"] for line in points if "limit_bytes" in line})
    queues, slowdown = {}, {}
    for limit in limits:
        swapped = with_swap(points, limit)
        queues[str(limit)] = {line["device"]: line["queue_mean"] for line in swapped}
        if len(swapped) > 1:
            slowdown[str(limit)] = swapped[-1]["seconds"] / swapped[0]["seconds"]
    orders = [rises(list(by_device.values())) for by_device in queues.values()]
    ratios = list(slowdown.values())
    return [
        finding(
            paper,
            "at each limit the queue is shortest on the device of the lowest latency",
            {"queue_mean": queues},
            None if not orders or None in orders else all(orders),
        ),
        finding(
            paper,
            "the more memory is missing, the more the device matters",
            {"slowest_over_fastest_seconds": slowdown},
            rises(ratios[::-1]),
        ),
    ]


def genome_findings(points: list[Line]) -> list[Line]:
    """Of the paper on genome search."""
    paper = "ssd-genome-search"
    swapped = with_swap(points)
    if len(swapped) < 2:
        return []
    times = {
        line["device"]: {str(of["length"]): of["seconds"] for of in line["by_length"]}
        for line in swapped
    }
    fast, *others = times.values()
    slow = others[-1]
    gaps = {length: slow[length] - fast[length] for length in fast}
    findings = [
        finding(
            paper,
            "the gap between devices of low and high latency grows with the length of the query",
            {"slowest_less_fastest_seconds": gaps},
            rises(list(gaps.values())),
        )
    ]
    if len(others) > 1:
        ratios = {length: others[0][length] / fast[length] for length in fast}
        findings.append(
            finding(
                paper,
                "the two fastest devices take nearly the same time, at any length",
                {"second_over_fastest": ratios},
                max(ratios.values()) < 1.05,
            )
        )
    return findings


def main() -> int:
    """Prepares, measures on each device and judges."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", type=Path, required=True, help="oboro-lab, beside oboro")
    parser.add_argument("--vm", default=str(ROOT / "scripts" / "vm.sh"), help="scripts/vm.sh")
    parser.add_argument("--workload", choices=["mining", "genome"], default="mining")
    parser.add_argument("--quick", action="store_true", help="fewer devices and limits, less data")
    parser.add_argument(
        "--device",
        type=device_name,
        action="append",
        help="zram, or microseconds such as 100us; may be repeated",
    )
    parser.add_argument(
        "--price",
        type=price,
        action="append",
        default=[],
        help="of a gigabyte of a device, or of memory, such as 100us=0.1; may be repeated",
    )
    arguments = parser.parse_args()
    work = WORKS[arguments.workload, arguments.quick]
    devices = arguments.device or list(work.devices)
    with tempfile.TemporaryDirectory(prefix="oboro-bench-") as directory:
        machine = Machine(arguments, work, Path(directory))
        told = subprocess.run([arguments.vm, "--clock"], stdout=subprocess.PIPE, text=True)
        if told.returncode == 0:
            machine.prepare()
        # The load of this machine matters to real time only.
        at_once = (os.cpu_count() or 1) if told.stdout.strip() == "counted" else 1
        lines = measure_all(machine, devices, at_once)
    points, missing, summaries = lines["ssd point"], lines["ssd left out"], lines["ssd"]
    needed = max((summary["needed_bytes"] for summary in summaries), default=0)
    stored = max((summary["stored_bytes"] for summary in summaries), default=0)
    for line in costs(points, needed, stored, dict(arguments.price)):
        report(line)
    faults = {line["device"]: line.get("fault_microseconds") for line in with_swap(points)}
    judge = mining_findings if arguments.workload == "mining" else genome_findings
    # Nothing was right where nothing was answered.
    verified = bool(summaries) and all(summary["verified"] for summary in summaries)
    # Why there was no machine at all, which is no failure: the runner of `make papers` reads it.
    absent = [line["because"] for line in missing if line.get("no_machine")]
    skipped = {"skipped": absent[0]} if absent and not summaries else {}
    report(
        {
            "bench": "ssd latency",
            "summary": True,
            "workload": arguments.workload,
            "quick": arguments.quick,
            "program": "oboro serve, the server's process alone in a control group",
            "clock": next((line["clock"] for line in points), None),
            "devices": devices,
            "limits": work.limits,
            **work.size,
            "needed_bytes": needed,
            "stored_bytes": stored,
            "floor_microseconds": floor(faults),
            "faults": faults,
            "findings": judge(points),
            "points": len(points),
            "left_out": missing,
            **skipped,
            **({} if skipped else {"verified": verified}),
        }
    )
    return 0 if verified or skipped else 1


if __name__ == "__main__":
    sys.exit(main())
