"""The jobs: HElib's and its replay, the programs on encrypted data and the patterns, with their
sizes and threads."""

from dataclasses import dataclass
from pathlib import Path

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Job:
    """One program with its arguments. `reference` is the same with all buffers allocated
    in advance; of the programs on encrypted data, all have one but those of `helib`: the job of the
    papers on HElib, or its replay, which are judged by the least of many runs, and by their first
    phase too.
    """

    program: str
    threads: int
    command: list[str]
    reference: list[str] | None = None
    helib: bool = False
    # How often it is run, unless told; None as often as most.
    runs: int | None = None
    # Why its files are not there.
    absent: str = "not built"

    @property
    def name(self) -> str:
        return f"{self.program}, {self.threads} {'thread' if self.threads == 1 else 'threads'}"

    @property
    def computes_on_ciphertexts(self) -> bool:
        """It is the papers' kind of work, not a pattern of general programs."""
        return self.helib or self.reference is not None

    @property
    def missing(self) -> str | None:
        """Why it cannot run."""
        files = [part for part in self.command if part.startswith("/")]
        return None if all(Path(file).is_file() for file in files) else self.absent


HELIB = "HElib"
REPLAY = "HElib trace"
REPLAY_LARGE = "HElib trace, tables"

# The rows of tables that HElib's context holds: a polynomial for every slot.
TABLES = "8192"


def helib_jobs(build: Path, quick: bool) -> list[Job]:
    """The papers' job at the threads of the traces: replayed in a program that holds nothing else
    (not in quick runs), in one that is as large as HElib's, and on HElib where that is there."""
    rounds = "2" if quick else "4"
    jobs = []
    replays: list[tuple[str, list[str]]] = [(REPLAY, []), (REPLAY_LARGE, [TABLES])]
    for name, tables in replays[1:] if quick else replays:
        for threads in (2, 16):
            trace = str(build / f"helib-pairs-{threads}threads.trace")
            replay = [str(build / "replay"), trace, rounds, *tables]
            runs = 2 if quick else 10
            jobs.append(Job(name, threads, replay, helib=True, runs=runs))
    program = str(build / "helib-support")
    for threads in (2, 16):
        command = [program, str(threads), rounds]
        absent = "not built: make bench-alloc HELIB=PREFIX"
        runs = 1 if quick else 5
        jobs.append(Job(HELIB, threads, command, helib=True, runs=runs, absent=absent))
    return jobs


def fhe_jobs(build: Path, quick: bool) -> list[Job]:
    """Support counting with rows of each size at each number of threads."""
    threads = (2,) if quick else (1, 2, 8, 32, 72)
    rows = [(32 * KIB, "32 KiB", 10), (512 * KIB, "512 KiB", 4), (8 * MIB, "8 MiB", 2)]
    if quick:
        rows = [(8 * MIB, "8 MiB", 1)]
    jobs = [
        ntl(build, f"NTL, rows of {name}", size, rounds, count)
        for size, name, rounds in rows
        for count in threads
    ]
    return jobs + [fhe(build, 1 if quick else 3, count) for count in threads]


def ntl(build: Path, name: str, row_bytes: int, rounds: int, threads: int) -> Job:
    program = str(build / "ntl-support")
    command = [program, str(threads), str(row_bytes), str(rounds)]
    return Job(name, threads, command, [*command, "preallocated"])


def fhe(build: Path, rounds: int, threads: int) -> Job:
    program = str(build / "cargo" / "release" / "fhe-support")
    arguments = [str(threads), str(rounds)]
    return Job("fhe crate", threads, [program, *arguments], [f"{program}-preallocated", *arguments])


def pattern_jobs(build: Path, quick: bool) -> list[Job]:
    """The patterns; patterns.c explains WORK and SIZE."""
    less = 8 if quick else 1
    live = 4 * GIB // less

    def pattern(label: str, name: str, threads: int, work: int, size: int | None = None) -> Job:
        numbers = [str(number) for number in (threads, work, size) if number is not None]
        return Job(label, threads, [str(build / "patterns"), name, *numbers])

    return [
        *(
            pattern("producer-consumer", "producer-consumer", threads, 4_000_000 // less)
            for threads in (2, 8, 72)
        ),
        *(pattern("larson", "larson", threads, 16_000_000 // less) for threads in (2, 8, 72)),
        *(
            pattern("cross-thread frees", "cross-free", threads, 4_000_000 // less)
            for threads in (2, 8, 72)
        ),
        *(
            pattern("growth by realloc", "realloc-growth", threads, 24 // less, 32 * MIB)
            for threads in (1, 2)
        ),
        *(
            pattern(f"freeing {live // MIB} MiB of {label}", "free-live", threads, live, size)
            for size, label in (
                (256, "256 B"),
                (32 * KIB, "32 KiB"),
                (512 * KIB, "512 KiB"),
                (8 * MIB, "8 MiB"),
            )
            for threads in ((1,) if quick else (1, 2))
        ),
        pattern("fork under load", "fork", 2, 200 // less),
        *(pattern("thread churn", "thread-churn", threads, 16_000 // less) for threads in (2, 72)),
    ]


def walk_jobs(build: Path, quick: bool) -> list[Job]:
    """Several arrays of one size read together; `threads` counts the arrays."""
    arrays = (4, 12, 16) if quick else (4, 6, 8, 10, 12, 14, 16, 18)
    program = str(build / "patterns")
    return [
        Job(f"walk of {label}", count, [program, "walk-PLACE", str(count), str(turns), str(size)])
        for size, label, turns in ((32 * KIB, "32 KiB", 300), (8 * MIB, "8 MiB", 2))
        for count in arrays
    ]
