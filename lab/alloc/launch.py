"""One run of a program under an allocator: its line of JSON, and external measurements.

A crash, a hang and a wrong answer are results: `Run.outcome` names them. Failures of a measured
program raise no exceptions here.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The phases of the steady main part, in the order of Table 6; patterns have "main" alone.
MAIN = ("modulus_switch", "product", "add", "freeing", "main")

MARK = "getppid("


@dataclass(frozen=True)
class Run:
    """The cost of one run: seconds, bytes, faults. Unless `ok`, only `outcome` is valid."""

    outcome: str
    phases: dict[str, dict[str, float]] = field(default_factory=dict)
    start: float = 0.0
    exit: float = 0.0
    peak_bytes: int = 0

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    def main(self, figure: str) -> float:
        """`wall`, `user`, `system` (seconds) or `faults` of the steady main phase."""
        return sum(self.phases[phase][figure] for phase in MAIN if phase in self.phases)

    def phase(self, name: str) -> float:
        """The wall time of a phase; the terminal phase includes the exit of the process."""
        seconds = self.phases[name]["wall"]
        return seconds + self.exit if name == "terminal" else seconds

    def cpu(self, *names: str) -> float:
        """The processor seconds, user and system, of the phases of these names that it has."""
        found = [self.phases[name] for name in names if name in self.phases]
        return sum(phase["user"] + phase["system"] for phase in found)


def launch(
    command: list[str],
    environment: dict[str, str],
    timeout: float,
    watch: Callable[[int], None] | None = None,
) -> Run:
    """Runs `command` in its own session, so that a hang can be killed with its children. `watch` is
    told the number of the process."""
    launched = time.monotonic()
    process = subprocess.Popen(
        command,
        env=inherited() | environment | {"BENCH_LAUNCHED": repr(launched)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    if watch is not None:
        watch(process.pid)
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Run(f"hang: no end within {timeout:.0f} s")
    ended = time.monotonic()
    if process.returncode != 0:
        return Run(failure(process.returncode, errors))
    return parsed(output, ended)


# The kernel's module by which a virtual machine gives free memory back to its host.
REPORTING = Path("/sys/module/page_reporting")


def warmth(size: int) -> dict[str, str]:
    """What asks a program to have that many bytes of memory warmed, where a host takes free memory;
    see bench.h."""
    return {"BENCH_WARM": str(size)} if REPORTING.exists() else {}


# Set for the measured program only if its allocator needs it.
OURS = frozenset(
    ["LD_PRELOAD"]
    + [
        f"FCMALLOC_{name}"
        for name in ("RESERVE", "HUGE", "LIMIT", "DECAY", "RECORD", "PLAN", "STATS")
    ]
)


def inherited() -> dict[str, str]:
    """The environment of the harness without what makes programs use an allocator."""
    return {name: value for name, value in os.environ.items() if name not in OURS}


def failure(status: int, errors: str) -> str:
    """How a program ended, with the last line of its output."""
    ending = signal.Signals(-status).name if status < 0 else f"status {status}"
    said = errors.strip().splitlines()
    return f"crash: {ending}{': ' + said[-1] if said else ''}"


def parsed(output: str, ended: float) -> Run:
    """The run that a program's line of JSON describes."""
    try:
        line: dict[str, Any] = json.loads(output.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        return Run("crash: ended without its line of JSON")
    return Run(
        outcome="ok" if line["verified"] else "wrong: the sums do not verify",
        phases=line["phases"],
        start=line["start"],
        exit=ended - line["finished"],
        peak_bytes=line["peak_bytes"],
    )


def memory_calls(command: list[str], environment: dict[str, str], timeout: float) -> int | None:
    """System calls about memory in the steady main phase, counted in a run of its own under
    strace. None where strace or the program failed."""
    with tempfile.NamedTemporaryFile(prefix="bench-alloc-", suffix=".strace") as trace:
        settings = [f"-E{name}={value}" for name, value in environment.items()]
        calls = ["-e", f"trace=%memory,{MARK.rstrip('(')}", "-e", "signal=none"]
        strace = ["strace", "-f", "--seccomp-bpf", "-qq", *calls, "-o", trace.name, *settings]
        try:
            if not launch([*strace, *command], {}, timeout).ok:
                return None
        except FileNotFoundError:
            return None
        return between_marks(Path(trace.name).read_text())


def between_marks(trace: str) -> int | None:
    """Calls begun between the first two marks of a trace."""
    parts = re.split(rf"^\d+ +{re.escape(MARK)}.*\n", trace, flags=re.MULTILINE)
    if len(parts) != 3:
        return None
    return sum(1 for line in parts[1].splitlines() if "resumed>" not in line)
