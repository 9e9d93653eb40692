"""Shared by the benches: the command that they measure, and Linux's counters of a process."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any


def peak_bytes(process: int | str) -> int:
    """The peak resident set size of a running process; "self" is this one."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) << 10 if found else 0


def seconds(work: Callable[[], object], runs: int) -> float:
    """The median duration of `work`, after one warm-up run."""
    work()
    times = []
    for _ in range(runs):
        begun = perf_counter()
        work()
        times.append(perf_counter() - begun)
    return median(times)


def bench_support(binary: Path, *arguments: str | Path | int) -> dict[str, Any]:
    """The summary of `oboro-lab support`; exits this program if it fails."""
    command = [str(part) for part in (binary, "support", "--json", *arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed; what it said stands above")
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


def report(line: dict[str, Any]) -> None:
    """Prints one JSON object as a line."""
    print(json.dumps(line), flush=True)
