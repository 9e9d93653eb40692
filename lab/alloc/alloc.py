"""fcmalloc and its peers: HElib's job, programs on encrypted data, and patterns of general ones.

Every job runs under every allocator, one after the other, and then all of them again, so that
changes of the machine affect all equally. Programs on encrypted data run once more with all buffers
allocated in advance, a lower bound for allocators. Prints one JSON object per line, the aims last,
and writes the tables as Markdown. A crash, a hang or a wrong sum is a result. Run by
`make bench-alloc`.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aims import judged, plan_saves
from allocators import PLAIN, RESERVED, Allocator, add_arguments, all_allocators
from jobs import MIB, Job, fhe_jobs, helib_jobs, pattern_jobs, walk_jobs
from launch import Run, launch, memory_calls, warmth
from results import BEFOREHAND, BEFOREHAND_OURS, Result, Results
from tables import PLACES, markdown

RESERVE = "2G"
# More than a first round of HElib's job needs.
WARM = 512 * MIB


def report(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def contestants(
    job: Job, allocators: list[Allocator], plan: Path
) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """A contestant: its name, command and environment."""
    for allocator in allocators:
        reserves = job.helib or (job.computes_on_ciphertexts and job.threads == 2)
        if reserves or allocator.name != RESERVED:
            yield allocator.name, job.command, allocator.environment(plan)
    if job.reference is not None:
        yield BEFOREHAND, job.reference, {}
        for allocator in allocators:
            if allocator.name == PLAIN:
                yield BEFOREHAND_OURS, job.reference, allocator.environment(plan)


def walkers(
    job: Job, allocators: list[Allocator]
) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """The contestants of array walks: the allocators' placement, and the two references."""

    def command(place: str) -> list[str]:
        return [part.replace("PLACE", place) for part in job.command]

    for allocator in allocators:
        if allocator.name != RESERVED and not allocator.planned:
            yield allocator.name, command("malloc"), allocator.environment(Path())
    for name, place in zip(PLACES, ("aligned", "staggered"), strict=True):
        yield name, command(place), {}


def measure(
    job: Job,
    who: list[tuple[str, list[str], dict[str, str]]],
    runs: int,
    timeout: float,
) -> list[Result]:
    """All contestants in turn, `runs` times, each time in a rotated order. A contestant that failed
    is not run again."""
    results = [Result(job, name) for name, _, _ in who]
    for turn in range(runs):
        pairs = list(zip(results, who, strict=True))
        begin = turn % len(pairs)
        for result, (_, command, environment) in pairs[begin:] + pairs[:begin]:
            if result.ok or not result.runs:
                result.runs.append(launch(command, environment, timeout))
    return results


def record(job: Job, allocators: list[Allocator], plan: Path, timeout: float) -> Run | None:
    """Records the plan of a job for the allocators that use one."""
    for allocator in allocators:
        if allocator.planned:
            return launch(job.command, allocator.recording(plan), timeout)
    return None


def count_calls(results: list[Result], job: Job, everyone: bool, timeout: float, who: Any) -> None:
    """Memory system calls: fcmalloc's in every job, the others' in jobs shown by phase."""
    for result, (name, command, environment) in zip(results, who, strict=True):
        if result.ok and (everyone or name.startswith("fcmalloc")):
            result.memory_calls = memory_calls(command, environment, timeout)


def measured(arguments: argparse.Namespace, allocators: list[Allocator]) -> Results:
    """Every job, reported as it is done."""
    build, quick = arguments.build.resolve(), arguments.quick
    cpus = os.cpu_count() or 1
    found = Results()
    jobs = [
        *helib_jobs(build, quick),
        *fhe_jobs(build, quick),
        *pattern_jobs(build, quick),
        *walk_jobs(build, quick),
    ]
    usual = 1 if quick else 3
    skipped = set()
    with tempfile.TemporaryDirectory(prefix="bench-alloc-") as directory:
        plan = Path(directory) / "plan"
        for job in jobs:
            if not re.search(arguments.only, job.name):
                continue
            if job.missing is not None:
                if job.program not in skipped:
                    report({"bench": "alloc", "program": job.program, "skipped": job.missing})
                skipped.add(job.program)
                continue
            if "walk" in job.program:
                who = list(walkers(job, allocators))
            else:
                plan.unlink(missing_ok=True)
                recorded = record(job, allocators, plan, arguments.timeout)
                if recorded is not None and not recorded.ok:
                    report({"bench": "alloc", "program": job.name, "record": recorded.outcome})
                who = list(contestants(job, allocators, plan))
            runs = arguments.runs or job.runs or usual
            if job.helib and not arguments.cold:
                who = [
                    (name, command, {**settings, **warmth(WARM)}) for name, command, settings in who
                ]
            results = measure(job, who, runs, arguments.timeout)
            if job.computes_on_ciphertexts:
                everyone = job.threads == 2 and not job.helib
                count_calls(results, job, everyone, arguments.timeout, who)
            found.add(results)
            for result in results:
                report(result.line(cpus))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--quick", action="store_true", help="small sizes, one run of each")
    parser.add_argument(
        "--runs", type=int, help="repetitions (3, of HElib's job more; fewer with --quick)"
    )
    parser.add_argument(
        "--cold", action="store_true", help="HElib's job on memory as it is, which a host may hold"
    )
    parser.add_argument("--timeout", type=float, default=60, help="seconds that make a hang")
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help="jobs whose names the pattern matches"
    )
    parser.add_argument("--table", type=Path, help="the Markdown file to write")
    arguments = parser.parse_args()

    known = all_allocators(arguments.fcmalloc.resolve(), arguments.build.resolve(), RESERVE)
    if arguments.allocators:
        wanted = arguments.allocators.split(";")
        known = [allocator for allocator in known if allocator.name in wanted]
    known += arguments.also
    for allocator in known:
        if allocator.missing:
            report({"bench": "alloc", "allocator": allocator.name, "skipped": allocator.missing})
    allocators = [allocator for allocator in known if not allocator.missing]
    found = measured(arguments, allocators)

    if arguments.table:
        arguments.table.write_text(markdown(found, allocators, os.cpu_count() or 1))
    peers = [allocator.name for allocator in allocators if not allocator.ours]
    aims = judged(found, peers)
    report(
        {
            "bench": "alloc",
            "summary": True,
            "cpus": os.cpu_count(),
            "versions": {allocator.name: allocator.version for allocator in allocators},
            "skipped": {a.name: a.missing for a in known if a.missing},
            "strace": shutil.which("strace") is not None,
            "plan_against_reserve": plan_saves(found),
            "aims": aims,
            "met": all(aim["met"] for aim in aims),
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
