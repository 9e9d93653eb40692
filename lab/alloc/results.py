"""The runs of every contestant on every job, and their medians or least, for tables and aims."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import exp, log
from statistics import median
from typing import Any

from jobs import Job
from launch import MAIN, Run

# The reference program, with all buffers allocated in advance, is a contestant like the allocators
# that it runs on.
BEFOREHAND = "all beforehand"
BEFOREHAND_OURS = "all beforehand, fcmalloc"


@dataclass
class Result:
    """The runs of one contestant on one job."""

    job: Job
    contestant: str
    runs: list[Run] = field(default_factory=list)
    memory_calls: int | None = None

    @property
    def outcome(self) -> str:
        """`ok`, or the outcome of the first run that failed."""
        return next((run.outcome for run in self.runs if not run.ok), "ok")

    @property
    def ok(self) -> bool:
        return bool(self.runs) and self.outcome == "ok"

    def median(self, figure: Callable[[Run], float]) -> float:
        return median(figure(run) for run in self.runs)

    def least(self, figure: Callable[[Run], float]) -> float:
        """Of many runs, the one that other work on the machine disturbed least."""
        return min(figure(run) for run in self.runs)

    def over(self, other: "Result", figure: Callable[[Run], float]) -> float:
        """The median of the ratios to another's runs in the same turn."""
        pairs = zip(self.runs, other.runs, strict=True)
        return round(median(figure(run) / figure(theirs) for run, theirs in pairs), 4)

    @property
    def main(self) -> float:
        """Seconds of the steady main phase."""
        return self.median(lambda run: run.main("wall"))

    @property
    def faults(self) -> float:
        """Page faults in the steady main phase: the fewest, since others' are the system's."""
        return min(run.main("faults") for run in self.runs)

    @property
    def peak(self) -> float:
        return self.median(lambda run: run.peak_bytes)

    def phase(self, name: str) -> float:
        return self.median(lambda run: run.phase(name))

    def share(self, mode: str, cpus: int) -> float:
        """The share of all CPU time in the steady main phase that was `user` or `system`."""
        return self.median(lambda run: run.main(mode) / (run.main("wall") * cpus))

    def line(self, cpus: int) -> dict[str, Any]:
        """Its JSON output."""
        known = {
            "bench": "alloc",
            "program": self.job.program,
            "threads": self.job.threads,
            "allocator": self.contestant,
            "outcome": self.outcome,
        }
        if not self.ok:
            return known
        mains = sorted(run.main("wall") for run in self.runs)
        return known | {
            "runs": len(self.runs),
            "start_seconds": self.median(lambda run: run.start),
            "phase_seconds": {name: self.phase(name) for name in self.runs[0].phases},
            "main_seconds": {"median": self.main, "least": mains[0], "most": mains[-1]},
            "main_cpu_seconds": self.median(lambda run: run.cpu(*MAIN)),
            "main_user_share": self.share("user", cpus),
            "main_system_share": self.share("system", cpus),
            "main_faults": self.faults,
            "main_memory_calls": self.memory_calls,
            "peak_bytes": self.peak,
            **(
                {"least": {n: figure(self) for n, figure in LEAST.items()}}
                if self.job.helib
                else {}
            ),
        }


# The figures of HElib's job.
LEAST: dict[str, Callable[[Result], float]] = {
    "first_cpu_seconds": lambda result: result.least(lambda run: run.cpu("first")),
    "first_seconds": lambda result: result.least(lambda run: run.phase("first")),
    "first_faults": lambda result: result.least(lambda run: run.phases["first"]["faults"]),
    "main_cpu_seconds": lambda result: result.least(lambda run: run.cpu(*MAIN)),
    "main_seconds": lambda result: result.least(lambda run: run.main("wall")),
    "ending_seconds": lambda result: result.least(lambda run: run.phase("ending")),
    "peak_bytes": lambda result: result.least(lambda run: run.peak_bytes),
}


class Results:
    """All of them, by job and contestant."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Result] = {}

    def add(self, results: Iterable[Result]) -> None:
        for result in results:
            self._found[result.job.name, result.contestant] = result

    def __iter__(self) -> Iterator[Result]:
        return iter(self._found.values())

    def get(self, job: Job, contestant: str) -> Result | None:
        """The result, if that contestant ran that job and all runs were correct."""
        result = self._found.get((job.name, contestant))
        return result if result is not None and result.ok else None

    def jobs(self, chosen: Callable[[Job], bool]) -> list[Job]:
        return list({r.job.name: r.job for r in self if chosen(r.job)}.values())

    def best(
        self, job: Job, contestants: Iterable[str], figure: Callable[[Result], float]
    ) -> Result | None:
        """The contestant with the lowest figure."""
        found = [result for name in contestants if (result := self.get(job, name))]
        return min(found, key=figure) if found else None


def geometric_mean(ratios: list[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def steady_phases(result: Result) -> list[str]:
    """The phases that make up main, in the order of Table 6."""
    return [name for name in MAIN if name in result.runs[0].phases]
