"""The tables and figures of the FCMalloc paper by allocator, each with its counterpart today.

Prints one JSON object a line, the summary last. Run by `make bench-alloc-paper`. Allocators are
those of `make bench-alloc`: the paper's in its order, younger ones, fcmalloc without and with a
plan, and any that `--also` names. Parts, of which `--only` chooses:

`table6`, a line for each library, number of threads and allocator. The job is a part of the
paper's: all 153 pairs of 18 items, on `blocks` of its 2,124 blocks of transactions; nothing is
scaled to the whole. As in the paper, phases follow each other, and all products are in memory
before the first is freed.
    library         NTL, with HElib's layout of rows of 32 KiB, or HElib (HELIB=PREFIX)
    blocks, products, of_products   the part of the job, and the paper's 324,972
    outcome         ok, or how it failed, and then nothing follows
    runs            a dictionary for each run; runs of the same turn are interleaved
    median, least   of each figure of the runs:
      start_seconds             from the launch to main(): with a plan, memory is touched here
      initial_seconds           that, and making the encrypted database
      modulus_switch_seconds    modDownToLevel()
      product_seconds           tensorProduct()
      freeing_seconds           freeing ciphertexts
      main_seconds              the sum of these three, the paper's total
      add_seconds               adding up the products, which the paper does not show
      terminal_seconds          destroying the database, and the end of the process
      peak_bytes                most resident memory before that
      main_faults               page faults in the three phases
      product_user_share, product_system_share    of all processors' time, 0 to 1 (Figure 2)

`timeline`, a line for each library and allocator: a run of the same job while it is sampled.
    seconds, user_share, system_share, resident_bytes    lists of equal length: the end of a window
                    in seconds since the launch, shares of all processors' time in it, 0 to 1
                    (Figure 2), and the most resident memory in it
    phases          for each the seconds at which it began and ended; in `warming` another process
                    uses memory, so that a virtual machine has it at hand (see bench.h)
    resident_after_freeing_bytes, peak_bytes
    sampler         period_seconds, samples, and cpu_seconds_per_second, what sampling cost

`properties`, a line for each allocator (Table 1, Figure 1), by the experiments of properties.c.
    freed_memory    for a block size, parts of the pages of 64 or 256 MiB of freed blocks that are
                    `unmapped`, `resident`, and of these `lazy`, which the kernel may take when it
                    is short of memory, so many `seconds` later, in which the program does little
    neighbours      part of neighbouring blocks of which two threads allocated one each, by turns:
                    near 0 where threads have heaps of their own
    reuse           part of the memory of blocks that is handed out again to a taker: to `other`,
                    to their `owner` or to a `third` thread, after `other` or the owner freed all
    sleeps_per_million_blocks    how often 72 threads went to sleep in malloc or free
    verdict         the same in words: yes, no, in part

`layers`, a line for each allocator and one for library level (Table 2).
    level           malloc, or library: the program itself changed, its buffers allocated in advance
    outcomes, binaries    by language: whether a program ran with the allocator, and a hash of its
                    file, the same for all allocators
    changed_lines   of the program's source
    main_over_malloc_level    main seconds of the changed program over those of the unchanged one on
                    each allocator

The summary has `main_over_fcmalloc`: for each library and number of threads the best peer's main
seconds, glibc's and jemalloc's over fcmalloc's, medians over turns. `verified` is false if fcmalloc
failed.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from alloc import RESERVE, measure, record, report
from allocators import (
    GLIBC,
    JEMALLOC,
    PLAIN,
    RESERVED,
    SECURE,
    Allocator,
    add_arguments,
    all_allocators,
)
from jobs import HELIB, KIB, MIB, Job
from launch import Run, launch, warmth
from layers import library_level, malloc_level
from properties import Experiments
from results import Result
from timeline import Sampler, resident_at, series

PARTS = ("table6", "timeline", "properties", "layers")

# The paper's job: so many blocks of transactions, each with the products of all pairs.
PAIRS = 153
BLOCKS = 2124
POINTS = 120


@dataclass(frozen=True)
class Part:
    """A part of the paper's job. `block_bytes` is about what a block takes, and `fixed_bytes` what
    the library does."""

    job: Job
    blocks: int
    block_bytes: int
    fixed_bytes: int

    @property
    def bytes(self) -> int:
        return self.blocks * self.block_bytes + self.fixed_bytes

    def known(self) -> dict[str, Any]:
        return {
            "library": self.job.program,
            "threads": self.job.threads,
            "blocks": self.blocks,
            "products": self.blocks * PAIRS,
            "of_products": BLOCKS * PAIRS,
        }


def ntl(build: Path, threads: int, blocks: int) -> Part:
    command = [str(build / "ntl-support"), str(threads), str(32 * KIB), "blocks", str(blocks)]
    absent = "not built: sudo apt-get install -y libntl-dev, and run this again"
    return Part(Job("NTL", threads, command, absent=absent), blocks, 150 * MIB, 150 * MIB)


def helib(build: Path, threads: int, blocks: int) -> Part:
    command = [str(build / "helib-support"), str(threads), "blocks", str(blocks)]
    absent = "not built: make bench-alloc-paper HELIB=PREFIX"
    return Part(Job(HELIB, threads, command, runs=3, absent=absent), blocks, 350 * MIB, 900 * MIB)


def chosen_parts(arguments: argparse.Namespace) -> tuple[list[Part], list[Part]]:
    """Those of Table 6, and those of the timelines."""
    build, quick = arguments.build.resolve(), arguments.quick
    blocks = arguments.blocks
    on_ntl = arguments.threads or ([2, 72] if quick else [1, 2, 8, 16, 32, 72])
    on_helib = arguments.threads or ([72] if quick else [2, 72])
    small, large = blocks or (2 if quick else 8), blocks or (1 if quick else 2)
    table = [
        *(ntl(build, threads, small) for threads in on_ntl),
        *(helib(build, threads, large) for threads in on_helib),
    ]
    watched = max(on_ntl)
    lines = [
        ntl(build, watched, blocks or (8 if quick else 16)),
        *([] if quick else [helib(build, watched, large)]),
    ]
    return table, lines


def available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * KIB
    return sys.maxsize


# The figures of a run, by the names of their fields.
FIGURES: dict[str, Callable[[Run], float]] = {
    "start_seconds": lambda run: run.start,
    "initial_seconds": lambda run: run.start + run.phase("initial"),
    "modulus_switch_seconds": lambda run: run.phase("modulus_switch"),
    "product_seconds": lambda run: run.phase("product"),
    "freeing_seconds": lambda run: run.phase("freeing"),
    "main_seconds": lambda run: total(run, "wall"),
    "add_seconds": lambda run: run.phase("add"),
    "terminal_seconds": lambda run: run.phase("terminal"),
    "peak_bytes": lambda run: run.peak_bytes,
    "main_faults": lambda run: total(run, "faults"),
    "product_user_share": lambda run: share(run, "user"),
    "product_system_share": lambda run: share(run, "system"),
}


def total(run: Run, figure: str) -> float:
    """Of the phases that the paper's total is the sum of."""
    return sum(run.phases[name][figure] for name in ("modulus_switch", "product", "freeing"))


def share(run: Run, mode: str) -> float:
    product = run.phases["product"]
    return product[mode] / (product["wall"] * (os.cpu_count() or 1))


def figures(run: Run) -> dict[str, float]:
    return {name: round(figure(run), 6) for name, figure in FIGURES.items()}


def table6_line(part: Part, result: Result, version: str) -> dict[str, Any]:
    """The line of Table 6 for an allocator."""
    known = {
        "bench": "alloc-paper",
        "part": "table6",
        **part.known(),
        "allocator": result.contestant,
        "version": version,
        "outcome": result.outcome,
    }
    if not result.ok:
        return known
    runs = [figures(run) for run in result.runs]
    return known | {
        "runs": runs,
        "median": {name: median(run[name] for run in runs) for name in FIGURES},
        "least": {name: min(run[name] for run in runs) for name in FIGURES},
    }


def contestants(
    part: Part, allocators: list[Allocator], plan: Path, timeout: float
) -> list[tuple[str, list[str], dict[str, str]]]:
    """With a plan recorded for those that use one; without it they would run as if they used none,
    and so are left out."""
    plan.unlink(missing_ok=True)
    recorded = record(part.job, allocators, plan, timeout)
    if recorded is not None and not recorded.ok:
        report({"bench": "alloc-paper", **part.known(), "record": recorded.outcome})
        allocators = [allocator for allocator in allocators if not allocator.planned]
    warm = warmth(part.bytes)
    return [(a.name, part.job.command, {**a.environment(plan), **warm}) for a in allocators]


def table6(
    part: Part, allocators: list[Allocator], runs: int, timeout: float, plan: Path
) -> Iterator[Result]:
    who = contestants(part, allocators, plan, timeout)
    versions = {allocator.name: allocator.version for allocator in allocators}
    for result in measure(part.job, who, runs, timeout):
        report(table6_line(part, result, versions[result.contestant]))
        yield result


def timelines(part: Part, allocators: list[Allocator], timeout: float, plan: Path) -> None:
    for name, command, environment in contestants(part, allocators, plan, timeout):
        sampler = Sampler()
        run = launch(command, environment, timeout, sampler.watch)
        sampler.finish()
        report(timeline(part, name, run, sampler))


def timeline(part: Part, name: str, run: Run, sampler: Sampler) -> dict[str, Any]:
    known = {
        "bench": "alloc-paper",
        "part": "timeline",
        **part.known(),
        "allocator": name,
        "outcome": run.outcome,
    }
    if not run.ok or not sampler.samples:
        return known
    begin = sampler.samples[0].at
    phases = {
        name: [round(spent["begin"] - begin, 3), round(spent["end"] - begin, 3)]
        for name, spent in run.phases.items()
        if spent["begin"] > 0
    }
    if warmth(part.bytes):
        phases["warming"] = [phases["initial"][1], phases["modulus_switch"][0]]
    return known | {
        **series(sampler.samples, begin, os.cpu_count() or 1, POINTS),
        "phases": phases,
        "resident_after_freeing_bytes": resident_at(
            sampler.samples, run.phases["terminal"]["begin"]
        ),
        "peak_bytes": run.peak_bytes,
        "product_user_share": round(share(run, "user"), 4),
        "product_system_share": round(share(run, "system"), 4),
        "sampler": sampler.cost(),
    }


def properties(build: Path, allocator: Allocator, seconds: int, timeout: float) -> dict[str, Any]:
    known = {
        "bench": "alloc-paper",
        "part": "properties",
        "allocator": allocator.name,
        "version": allocator.version,
    }
    try:
        found = Experiments(build / "properties", allocator, timeout).all(seconds)
    except RuntimeError as failure:
        return known | {"outcome": str(failure)}
    return known | {"outcome": "ok", **found}


def against_ours(part: Part, results: list[Result]) -> dict[str, Any] | None:
    """Main seconds of the best peer, and of glibc and of jemalloc, the paper's best, over
    fcmalloc's."""
    ended = {result.contestant: result for result in results if result.ok}
    ours = ended.get(PLAIN)
    peers = [result for name, result in ended.items() if not name.startswith(PLAIN)]
    if ours is None or not peers:
        return None
    main_seconds = FIGURES["main_seconds"]
    best = min(peers, key=lambda result: result.median(main_seconds))
    found = {
        "library": part.job.program,
        "threads": part.job.threads,
        "best_peer": best.contestant,
        "best_peer_over_fcmalloc": best.over(ours, main_seconds),
    }
    for name in (GLIBC, JEMALLOC):
        if name in ended:
            found[f"{name}_over_fcmalloc"] = ended[name].over(ours, main_seconds)
    return found


def counts(text: str) -> list[int]:
    """Numbers of threads, separated by commas."""
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} are not numbers of threads, such as 2,72")
    return numbers


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def chosen(arguments: argparse.Namespace) -> list[Allocator]:
    """The allocators to run, those that are missing among them."""
    known = all_allocators(arguments.fcmalloc.resolve(), arguments.build.resolve(), RESERVE)
    named = arguments.allocators.split(";") if arguments.allocators else None
    wanted = [
        allocator
        for allocator in known
        if (allocator.name in named if named else allocator.name not in (RESERVED, SECURE))
    ]
    return [*wanted, *arguments.also]


def measured(arguments: argparse.Namespace, allocators: list[Allocator]) -> dict[str, Any]:
    """All parts that are wanted, reported as they are done; and what the summary says of them."""
    build, quick = arguments.build.resolve(), arguments.quick
    wanted = arguments.only or PARTS
    usual = arguments.runs or (1 if quick else 5)
    table, watched = chosen_parts(arguments)
    skipped = {p.job.program: p.job.missing for p in [*table, *watched] if p.job.missing}
    table = [part for part in table if not part.job.missing]
    watched = [part for part in watched if not part.job.missing]
    refuse_what_does_not_fit([*table, *watched])
    ratios, verified = [], True
    with tempfile.TemporaryDirectory(prefix="bench-alloc-paper-") as directory:
        plan = Path(directory) / "plan"
        for part in table if "table6" in wanted else []:
            runs = arguments.runs or min(usual, part.job.runs or usual)
            results = list(table6(part, allocators, runs, arguments.timeout, plan))
            verified &= all(r.ok for r in results if r.contestant.startswith(PLAIN))
            verified &= len(results) == len(allocators)  # a plan was recorded
            ratios.append(against_ours(part, results))
        for part in watched if "timeline" in wanted else []:
            timelines(part, allocators, arguments.timeout, plan)
    plain = [allocator for allocator in allocators if not allocator.planned]
    for allocator in plain if "properties" in wanted else []:
        report(properties(build, allocator, 1 if quick else 12, arguments.timeout))
    if "layers" in wanted:
        for allocator in plain:
            report(malloc_level(build, allocator, arguments.timeout))
        report(library_level(build, plain, usual, arguments.timeout))
    return {
        "skipped": skipped,
        "main_over_fcmalloc": [found for found in ratios if found],
        "verified": verified,
    }


def refuse_what_does_not_fit(parts: list[Part]) -> None:
    most = max((part.bytes for part in parts), default=0)
    if most > available_bytes():
        sys.exit(
            f"error: {most >> 30} GiB are needed and {available_bytes() >> 30} GiB of memory are "
            "free: choose fewer --blocks"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--quick", action="store_true", help="a small part, one run of each")
    parser.add_argument("--runs", type=positive, help="repetitions (5, on HElib 3; 1 with --quick)")
    parser.add_argument("--threads", type=counts, help="numbers of threads, such as 2,72")
    parser.add_argument(
        "--blocks", type=positive, help=f"how much of the paper's job: {BLOCKS} is all of it"
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be repeated")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that make a hang")
    arguments = parser.parse_args()

    known = chosen(arguments)
    allocators = [allocator for allocator in known if not allocator.missing]
    found = measured(arguments, allocators)
    found["skipped"] |= {a.name: a.missing for a in known if a.missing}
    report(
        {
            "bench": "alloc-paper",
            "summary": True,
            "cpus": os.cpu_count(),
            "versions": {allocator.name: allocator.version for allocator in allocators},
            **found,
        }
    )
    return 0 if found["verified"] else 1


if __name__ == "__main__":
    sys.exit(main())
