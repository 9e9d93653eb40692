"""What temporary copies cost on one library: the paper's HElib+ on the `fhe` crate.

The paper changed HElib so that a multiplication makes no temporary copies (HElib+), took an
allocator of its own (numalloc), and got 60 to 70 times faster, both changes together. Here the
same program (lab/alloc/fhe, `fhe-products`) multiplies in three ways, `temporaries` as HElib's
interface asks, `results` as HElib+ has it, `destinations` without any allocation, each with the
system's malloc and with fcmalloc. All six take turns, so that each ratio is of two runs one after
the other. Prints a JSON object for each run and the table last:

    seconds           products, sums and freeing, of all pairs in all blocks
    user, system      the processor seconds of that, and its page faults
    ratios            of runs that took turns: one for each run, and their median
    paper_ratio       HElib with glibc over HElib+ with numalloc, placed by transaction (Table 6-3)

Run by `make bench-numa`.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from machine import report

WAYS = ("temporaries", "results", "destinations")
SYSTEM, FCMALLOC = "system malloc", "fcmalloc"
PAPER_RATIO = 480.2 / 7.775

# Numerator and denominator, each a way and an allocator.
Case = tuple[str, str]
RATIOS: dict[str, tuple[Case, Case]] = {
    # What HElib+ removed, with either allocator.
    "copies, system malloc": (("temporaries", SYSTEM), ("results", SYSTEM)),
    "copies, fcmalloc": (("temporaries", FCMALLOC), ("results", FCMALLOC)),
    # What remains of temporaries after that.
    "results, system malloc": (("results", SYSTEM), ("destinations", SYSTEM)),
    "results, fcmalloc": (("results", FCMALLOC), ("destinations", FCMALLOC)),
    # What the allocator is worth, with and without copies.
    "allocator, with copies": (("temporaries", SYSTEM), ("temporaries", FCMALLOC)),
    "allocator, without": (("results", SYSTEM), ("results", FCMALLOC)),
    # Both changes, as the paper made them.
    "both": (("temporaries", SYSTEM), ("results", FCMALLOC)),
}


@dataclass(frozen=True)
class Program:
    """The program, the allocator to give it, and how much it counts."""

    path: Path
    fcmalloc: Path
    blocks: int

    def run(self, case: Case, threads: int) -> dict[str, Any]:
        """The line of one run."""
        way, allocator = case
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        if allocator == FCMALLOC:
            environment["LD_PRELOAD"] = str(self.fcmalloc.resolve())
        command = [str(self.path), way, str(threads), str(self.blocks)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"error: {' '.join(command)} ended with {done.returncode}; see what it said")
        found = json.loads(done.stdout)
        main = found["phases"]["product"]
        return {
            "bench": "numa copies run",
            "way": way,
            "allocator": allocator,
            "threads": threads,
            "seconds": main["wall"],
            "user_seconds": main["user"],
            "system_seconds": main["system"],
            "page_faults": main["faults"],
            "peak_bytes": found["peak_bytes"],
            "verified": found["verified"],
        }


def turns(program: Program, threads: int, runs: int) -> Iterator[dict[str, Any]]:
    """All cases, one after the other, as often as told."""
    for run in range(1, runs + 1):
        for way in WAYS:
            for allocator in (SYSTEM, FCMALLOC):
                yield program.run((way, allocator), threads) | {"run": run}


def compared(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The ratios of the runs with one number of threads."""

    def seconds(case: Case) -> list[float]:
        return [line["seconds"] for line in lines if (line["way"], line["allocator"]) == case]

    ratios = {}
    for name, (above, below) in RATIOS.items():
        runs = [a / b for a, b in zip(seconds(above), seconds(below), strict=True)]
        ratios[name] = {"median": median(runs), "runs": runs}
    return ratios


def main() -> int:
    """A line for each run, then the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", type=Path, required=True, help="fhe-products")
    parser.add_argument("--fcmalloc", type=Path, required=True, help="libfcmalloc.so")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="few blocks, runs and threads")
    arguments = parser.parse_args()
    # The paper's machine has 72 cores; with as many threads here they wait for each other's memory
    # as they do for each other's time.
    threads = [arguments.threads] if arguments.quick else [arguments.threads, 72]
    runs, blocks = (3, 2) if arguments.quick else (10, 4)
    program = Program(arguments.program, arguments.fcmalloc, blocks)
    lines = []
    for count in threads:
        for line in turns(program, count, runs):
            report(line)
            lines.append(line)
    summary = {
        "bench": "numa copies",
        "library": "fhe crate 0.1.1, BGV, N = 16384, eight primes of 50 bits",
        "products": blocks * 18 * 17 // 2,
        "runs": runs,
        "ratios": {
            str(count): compared([line for line in lines if line["threads"] == count])
            for count in threads
        },
        "paper_ratio": PAPER_RATIO,
        "verified": all(line["verified"] for line in lines),
    }
    report(summary)
    return 0 if summary["verified"] else 1


if __name__ == "__main__":
    sys.exit(main())
