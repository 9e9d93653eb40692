"""Real programs under fcmalloc and its peers by LD_PRELOAD: correctness and cost.

Every program does the same work under every allocator in turn, and then all of them again. Its
result must be that under glibc, and its calls of malloc must go to the allocator, according to the
dynamic linker. Prints one JSON object per line, the summary with the aims last, and a table on
standard error. Fails if fcmalloc crashes, hangs or changes a result. Run by `make bench-alloc`.
"""

import argparse
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from aims import Ratio, at_most, no_slower_on_average
from allocators import (
    BINDING,
    GLIBC,
    MIMALLOC,
    MIMALLOC_OLD,
    PLAIN,
    Allocator,
    add_arguments,
    all_allocators,
)
from workloads import WORKLOADS, Environment, Failure, Outcome, Workload


def report(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


@dataclass
class Contestant:
    """One program under one allocator, and its runs."""

    workload: Workload
    allocator: Allocator
    environment: Environment
    runs: list[Outcome] = field(default_factory=list)
    failure: str | None = None

    def run(self, expected: str) -> None:
        """Runs it again, unless it has failed; `expected` is the digest of the right result."""
        if self.failure is not None:
            return
        try:
            outcome = self.workload.run(self.environment)
            if outcome.digest != expected:
                raise Failure("another result than under glibc")
            self.runs.append(outcome)
        except Failure as failure:
            self.failure = str(failure)

    def check_served(self) -> None:
        """Marks it as failed if the program would not use the allocator."""
        library = self.allocator.library or c_library()
        try:
            with tempfile.TemporaryDirectory(prefix="bench-programs-") as folder:
                told = {
                    "LD_DEBUG": "bindings",
                    "LD_BIND_NOW": "1",
                    "LD_DEBUG_OUTPUT": f"{folder}/ld",
                }
                self.workload.run_to_end(self.workload.idle(), {**self.environment, **told})
                said = "".join(file.read_text() for file in Path(folder).iterdir())
        except Failure as failure:
            self.failure = str(failure)
            return
        servers = {Path(name).resolve() for name in BINDING.findall(said)}
        if servers != {library.resolve()}:
            names = ", ".join(sorted(server.name for server in servers)) or "nobody"
            self.failure = f"malloc is served by {names}"

    def line(self) -> dict[str, Any]:
        """Its JSON output."""
        known = {
            "bench": "programs",
            "program": self.workload.name,
            "allocator": self.allocator.name,
            "outcome": self.failure or "ok",
        }
        if self.failure is not None:
            return known
        times = sorted(run.seconds for run in self.runs)
        return known | {
            "runs": len(self.runs),
            "seconds": {"median": median(times), "least": times[0], "most": times[-1]},
            "cpu_seconds": self.cpu_seconds,
            "least_cpu_seconds": self.least_cpu_seconds,
            "peak_bytes": self.peak,
        }

    @property
    def seconds(self) -> float:
        return median(run.seconds for run in self.runs)

    @property
    def cpu_seconds(self) -> float:
        return median(run.cpu_seconds for run in self.runs)

    @property
    def least_cpu_seconds(self) -> float:
        """Of the run that other work on the machine disturbed least."""
        return min(run.cpu_seconds for run in self.runs)

    @property
    def peak(self) -> float | None:
        known = [run.peak_bytes for run in self.runs if run.peak_bytes is not None]
        return median(known) if known else None


def c_library() -> Path:
    """The C library of this process, and so of every other."""
    found = re.search(r"^\S+ r-x.* (/\S+/libc[.-]\S+)$", Path("/proc/self/maps").read_text(), re.M)
    if not found:
        sys.exit("error: this Python is not linked to a shared C library; use the system's python3")
    return Path(found[1])


def contestants(workload: Workload, allocators: list[Allocator]) -> list[Contestant]:
    """The workload under every allocator. glibc comes first."""
    found = []
    for allocator in allocators:
        environment = allocator.environment(Path())
        if allocator.name == GLIBC and workload.brings_allocator:
            environment = {"LD_PRELOAD": str(c_library())}
        found.append(Contestant(workload, allocator, environment))
    return found


def measured(workload: Workload, allocators: list[Allocator], runs: int) -> list[Contestant]:
    """All contestants in turn, `runs` times, each time in a rotated order. An uncounted run under
    glibc before gives the expected result."""
    workload.prepare()
    found = contestants(workload, allocators)
    expected = workload.run(found[0].environment).digest
    for contestant in found:
        contestant.check_served()
    for turn in range(runs):
        for contestant in found[turn % len(found) :] + found[: turn % len(found)]:
            contestant.run(expected)
    return found


def table(found: list[Contestant]) -> str:
    """Medians, of seconds with the spread, as Markdown."""
    lines = [
        "| program | allocator | seconds (least–most) | processor seconds | peak MB |",
        "| -- | -- | --: | --: | --: |",
    ]
    for contestant in found:
        what = f"| {contestant.workload.name} | {contestant.allocator.name} "
        if contestant.failure is not None:
            lines.append(f"{what}| {contestant.failure} | | |")
            continue
        times = [run.seconds for run in contestant.runs]
        peak = f"{contestant.peak / 1e6:.1f}" if contestant.peak is not None else "small"
        spread = f"{contestant.seconds:.3f} ({min(times):.3f}–{max(times):.3f})"
        lines.append(f"{what}| {spread} | {contestant.cpu_seconds:.3f} | {peak} |")
    return "\n".join(lines)


def ratio(
    ours: Contestant, peers: list[Contestant], figure: Callable[[Contestant], float | None]
) -> float | None:
    """The ratio of our figure to the lowest peer's; None if unknown."""
    least = min((known for peer in peers if (known := figure(peer)) is not None), default=None)
    mine = figure(ours)
    return mine / least if mine is not None and least else None


def against(found: list[Contestant], peer: str) -> list[Ratio]:
    """The ratio of fcmalloc's least processor seconds to a peer's, for every program."""
    ended = {(o.workload.name, o.allocator.name): o for o in found if o.failure is None}
    return [
        (ours.least_cpu_seconds / theirs.least_cpu_seconds, program)
        for (program, allocator), ours in ended.items()
        if allocator == PLAIN and (theirs := ended.get((program, peer))) is not None
    ]


def judged(found: list[Contestant]) -> list[dict[str, Any]]:
    """The aims, by the least of all runs."""
    aims = [
        at_most("processor seconds over glibc's, for every program", against(found, GLIBC), 1.0),
        *(
            no_slower_on_average(
                f"processor seconds over {peer}, geometric mean", against(found, peer)
            )
            for peer in (MIMALLOC_OLD, MIMALLOC)
        ),
    ]
    return [aim for aim in aims if aim is not None]


def summary(found: list[Contestant], skipped: dict[str, str]) -> dict[str, Any]:
    """Each of ours against the best peer, by program: below 1 ours is ahead. And the aims."""
    ratios: dict[str, dict[str, Any]] = {}
    for ours in found:
        if not ours.allocator.ours or ours.failure is not None:
            continue
        peers = [
            peer
            for peer in found
            if peer.workload is ours.workload and not peer.allocator.ours and peer.failure is None
        ]
        ratios.setdefault(ours.workload.name, {})[ours.allocator.name] = {
            "seconds": ratio(ours, peers, lambda one: one.seconds),
            "cpu_seconds": ratio(ours, peers, lambda one: one.cpu_seconds),
            "peak_bytes": ratio(ours, peers, lambda one: one.peak),
        }
    return {
        "bench": "programs",
        "summary": True,
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "against_best_peer": ratios,
        "failures": {
            f"{one.workload.name}, {one.allocator.name}": one.failure
            for one in found
            if one.failure is not None
        },
        "skipped": skipped,
        "aims": judged(found),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--quick", action="store_true", help="small work, one run of each")
    parser.add_argument("--runs", type=int, help="repetitions (5; 1 with --quick)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that make a hang")
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help="programs whose names the pattern matches"
    )
    arguments = parser.parse_args()
    runs = arguments.runs or (1 if arguments.quick else 5)

    skipped = {}
    allocators = []
    wanted = arguments.allocators.split(";") if arguments.allocators else None
    known = all_allocators(arguments.fcmalloc.resolve(), arguments.build.resolve(), reserve="")
    for allocator in [*known, *arguments.also]:
        chosen = allocator.name in wanted if wanted else not allocator.planned
        chosen = chosen or allocator in arguments.also
        if "FCMALLOC_RESERVE" in allocator.options or not (chosen or allocator.name == GLIBC):
            continue
        if allocator.missing:
            skipped[allocator.name] = allocator.missing
        else:
            allocators.append(allocator)

    found: list[Contestant] = []
    for kind in WORKLOADS:
        if not re.search(arguments.only, kind.name):
            continue
        with tempfile.TemporaryDirectory(prefix="bench-programs-") as folder:
            workload = kind(Path(folder), arguments.quick, arguments.timeout)
            missing = workload.missing()
            if missing is not None:
                skipped[kind.name] = missing
                continue
            try:
                ended = measured(workload, allocators, runs)
            except Failure as failure:
                skipped[kind.name] = f"does not work under glibc: {failure}"
                continue
        for contestant in ended:
            report(contestant.line())
        found += ended
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}", file=sys.stderr)
    print(table(found), file=sys.stderr)
    report(summary(found, skipped))
    return 1 if any(one.failure is not None and one.allocator.ours for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
