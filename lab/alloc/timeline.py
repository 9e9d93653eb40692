"""Processor time and resident memory of a process while it runs, from /proc.

A thread of the harness reads two small files each period; the kernel keeps both figures anyway, so
that the process does not notice. `cost` says what the reading took.
"""

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

TICK = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

# Processor time is counted in ticks of 10 ms: shorter windows would show them.
SHORTEST_WINDOW = 0.05


@dataclass(frozen=True)
class Sample:
    """What a process had used by a moment of the monotonic clock; seconds and bytes."""

    at: float
    user: float
    system: float
    resident: int


class Sampler:
    """Samples one process from the moment that `watch` is told it until it has ended."""

    def __init__(self, period: float = 0.02) -> None:
        self.period = period
        self.samples: list[Sample] = []
        self._spent = 0.0
        self._thread: threading.Thread | None = None

    def watch(self, process: int) -> None:
        self._thread = threading.Thread(target=self._follow, args=(process,))
        self._thread.start()

    def finish(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _follow(self, process: int) -> None:
        before = time.thread_time()
        due = time.monotonic()
        with Process(process) as watched:
            while (sample := watched.sample()) is not None:
                self.samples.append(sample)
                due = max(due + self.period, time.monotonic())
                time.sleep(max(0.0, due - time.monotonic()))
        self._spent = time.thread_time() - before

    def cost(self) -> dict[str, float]:
        """The period, and the processor seconds that sampling took for each second sampled."""
        seconds = self.samples[-1].at - self.samples[0].at if len(self.samples) > 1 else 0.0
        return {
            "period_seconds": self.period,
            "samples": len(self.samples),
            "cpu_seconds_per_second": self._spent / seconds if seconds else 0.0,
        }


class Process:
    """The files of a process, which stay open: finding them takes longer than reading them."""

    def __init__(self, number: int) -> None:
        self._files: list[int] = []
        self._number = number

    def __enter__(self) -> "Process":
        # Where the process was collected already, there are none.
        with suppress(FileNotFoundError):
            for name in ("stat", "statm"):
                self._files.append(os.open(f"/proc/{self._number}/{name}", os.O_RDONLY))
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            os.close(file)

    def sample(self) -> Sample | None:
        """A sample, None if the process has ended."""
        at = time.monotonic()
        try:
            stat, statm = (os.pread(file, 4096, 0) for file in self._files)
        except (ValueError, ProcessLookupError):
            return None
        state, *fields = stat.rpartition(b")")[2].split()
        if state in (b"Z", b"X"):
            return None
        resident = int(statm.split()[1]) * PAGE
        return Sample(at, int(fields[10]) * TICK, int(fields[11]) * TICK, resident)


def series(samples: list[Sample], begin: float, cpus: int, points: int) -> dict[str, Any]:
    """At most that many windows of equal length: seconds since `begin` at the end of each, the
    share of all processors' time that was the process's in user and in system mode, and the most
    memory that was resident."""
    made: dict[str, list[float]] = {
        "seconds": [],
        "user_share": [],
        "system_share": [],
        "resident_bytes": [],
    }
    if len(samples) < 2:
        return made
    length = samples[-1].at - samples[0].at
    window = max(length / points, SHORTEST_WINDOW)
    first, most = samples[0], 0
    for sample in samples[1:]:
        most = max(most, sample.resident)
        passed = sample.at - first.at
        if passed < window * 0.999 and sample is not samples[-1]:
            continue
        made["seconds"].append(round(sample.at - begin, 3))
        made["user_share"].append(round((sample.user - first.user) / (passed * cpus), 4))
        made["system_share"].append(round((sample.system - first.system) / (passed * cpus), 4))
        made["resident_bytes"].append(most)
        first, most = sample, 0
    return made


def resident_at(samples: list[Sample], moment: float) -> int | None:
    """The memory resident at the last sample before a moment."""
    return next((s.resident for s in reversed(samples) if s.at <= moment), None)
