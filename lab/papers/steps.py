"""The steps of `make papers`: benches, each a target of the Makefile, with what they measure.

A step prints one JSON object a line. It has a full form and mostly a quick one; what they measure
are the paths whose change makes old lines worthless.
"""

from __future__ import annotations

from dataclasses import dataclass

# The name of the machine's description among the steps.
ENVIRONMENT = "environment"
# Has make say nothing itself, nor where it is, as one does that another has started.
MAKE = ("make", "--silent", "--no-print-directory")
ENGINE = ("Cargo.lock", "crates", "fcmalloc/src", "fcmalloc/include", "lab/src")

# The papers' job, what they say of other patterns, and the programs that they leave for later.
ALLOC_JOBS = "tables|NTL|producer|free|walk|python|sqlite|redis|gcc|git|nginx"
NUMA = tuple(f"lab/bench/numa_{part}.py" for part in ("copies", "emulated", "library", "model"))


@dataclass(frozen=True)
class Step:
    """A target and the options of its two forms; None where it is not part of quick runs."""

    title: str
    target: str
    measures: tuple[str, ...]
    minutes: float
    quick: tuple[str, ...] | None = ()
    full: tuple[str, ...] = ()

    def command(self, quick: bool) -> list[str] | None:
        options = self.quick if quick else self.full
        return None if options is None else [*MAKE, self.target, *options]


STEPS = {
    "table6": Step(
        "The FCMalloc paper's job with SEAL and with Oboro, by phase",
        "bench-table6",
        (*ENGINE, "lab/bench/table6.py", "lab/bench/fhe_library.py"),
        20,
        quick=("BENCH=--blocks 128",),
    ),
    "support": Step(
        "Counting all pairs: SEAL, plaintext miners, Oboro",
        "bench-support",
        (*ENGINE, "lab/bench/support.py", "lab/bench/fhe_library.py"),
        15,
        quick=("BENCH=--runs 3 --fhe-blocks 16",),
    ),
    "alloc": Step(
        "Allocators on the papers' job, encrypted programs and patterns",
        "bench-alloc",
        ("fcmalloc", "lab/alloc"),
        60,
        quick=(f'BENCH=--quick --only "{ALLOC_JOBS}"',),
        # The whole of that bench takes hours.
        full=(f'BENCH=--quick --runs 3 --only "{ALLOC_JOBS}"',),
    ),
    "alloc-paper": Step(
        "The FCMalloc paper's tables by allocator",
        "bench-alloc-paper",
        ("fcmalloc", "lab/alloc"),
        60,
        quick=("BENCH=--quick",),
    ),
    "numa": Step(
        "Near and far memory, placements, the paper's rules at work, emulated nodes, a model",
        "bench-numa",
        (*ENGINE, "lab/tasks", "lab/alloc/fhe", *NUMA, "lab/bench/fhe_library.py"),
        60,
        quick=("BENCH=--quick",),
    ),
    "tasks": Step(
        "The NUMA paper's scheduler and its orders",
        "bench-tasks",
        ("lab/tasks",),
        10,
        quick=("BENCH=6 20",),
    ),
    "ssd": Step(
        "Mining data larger than memory: swapped and streamed",
        "bench-ssd",
        (*ENGINE, "lab/bench/ssd_plots.py"),
        60,
        quick=("BENCH=--quick --transactions 2400000 --runs 1",),
    ),
    "ssd-genome": Step(
        "Genome search larger than memory, by the length of the query",
        "bench-ssd",
        (*ENGINE, "lab/bench/ssd_plots.py"),
        60,
        quick=("BENCH=--workload genome --quick --haplotypes 50000 --positions 20 --runs 1",),
        full=("BENCH=--workload genome --quick",),
    ),
    "ssd-latency": Step(
        "Mining with swap on devices of chosen latencies, emulated",
        "bench-ssd-latency",
        (*ENGINE, "lab/bench/ssd_machine.py", "lab/bench/ssd_guest.sh", "scripts/vm.sh"),
        90,
        quick=("BENCH=--quick",),
    ),
    "ssd-latency-genome": Step(
        "Genome search with swap on such devices",
        "bench-ssd-latency",
        (*ENGINE, "lab/bench/ssd_machine.py", "lab/bench/ssd_guest.sh", "scripts/vm.sh"),
        60,
        # A panel that swaps takes minutes on each device: an emulated core searches it.
        quick=None,
        full=("BENCH=--workload genome",),
    ),
    "genome": Step(
        "Genome search: SEAL and Oboro, and the server's profile",
        "bench-genome",
        (*ENGINE, "lab/bench/genome.py", "lab/bench/genome_library.py"),
        15,
        quick=("BENCH=--quick",),
    ),
    "mining": Step(
        "Whole mining runs, the SSD paper's data among them",
        "bench-mining",
        (*ENGINE, "lab/bench/mining.py"),
        15,
        quick=("BENCH=--repetitions 1",),
    ),
    "python": Step(
        "Mining a data frame, and mlxtend",
        "bench-python",
        ("Cargo.lock", "crates", "python/oboro", "lab/bench/package.py"),
        15,
        quick=("BENCH=--runs 2",),
    ),
    "growth": Step(
        "Data that grow and shrink",
        "bench-growth",
        ("Cargo.lock", "crates", "lab/bench/growth.py"),
        30,
        quick=None,
    ),
}
