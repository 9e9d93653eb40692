"""Runs the checks that take too long for `.ci/run`, and records each in docs/verification.md.

Run by `make nightly`. A step is a target of the Makefile with a budget of time. Its line there is
replaced when it ends: passed, failed, or skipped where the machine lacks something, even if the
rest of the step succeeded. A step that has passed on the present tree is not run again. The page
itself does not belong to the tree, since it is committed afterwards.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

PAGE = "docs/verification.md"
HEADER = """\
# Verification

What was checked beyond `.ci/run`, on which commit and machine. `make nightly` writes this page; see
[CONTRIBUTING.md](../CONTRIBUTING.md), "Build and test", for what the steps do. A step that found
something missing on the machine is skipped, not passed.

"""
COLUMNS = ("step", "result", "commit", "date (UTC)", "time", "machine")
PASSED = "passed"
WITH_CHANGES = " with changes"
# How scripts, ctest and pytest report what they left out.
SKIPS = re.compile(
    r"^skipped: (.+)$|^\s+\d+ - (\S+) \(Skipped\)|^SKIPPED \[\d+\] (.+)$", re.MULTILINE
)


@dataclass(frozen=True)
class Step:
    """A command, and Debian's packages of the programs that it needs, by program."""

    name: str
    command: Sequence[str]
    minutes: float
    packages: dict[str, str] = field(default_factory=dict)


QEMU = {"qemu-system-x86_64": "qemu-system-x86"}
LONG_ALLOC = QEMU | {"spin": "spin", "valgrind": "valgrind"}
STEPS = [
    Step("s3", ["make", "test-s3"], 15, {"go": "golang-go"}),
    Step("ray", ["make", "test-ray"], 20),
    Step("previous", ["make", "test-previous"], 40),
    Step("cross", ["make", "lint-cross", "CI=true"], 25),
    Step("fresh", ["make", "test-fresh"], 75),
    Step("package", ["make", "test-package"], 20),
    Step(
        "packages", ["make", "packages", "test-packages", "packages-reproducible", "CI=true"], 240
    ),
    Step("arm64", ["make", "test-arm64", "CI=true"], 90),
    Step("numa", ["make", "test-numa"], 30, QEMU),
    Step("alloc-long", ["make", "test-alloc-long"], 60, LONG_ALLOC),
    Step("abuse", ["make", "test-abuse"], 60),
    Step("growth", ["make", "test-growth"], 60),
    Step("fuzz", ["make", "fuzz"], 45),
    Step("smoke", ["make", "bench-smoke"], 30),
    Step("bench", ["make", "bench-full"], 90),
    Step("faults", ["make", "test-faults"], 180),
    Step("papers", ["make", "papers"], 240, QEMU),
]


class Line(NamedTuple):
    """What the page tells of a step."""

    step: str
    result: str
    commit: str
    date: str
    time: str
    machine: str


class Nightly:
    """The steps of a repository and what is known of them."""

    def __init__(self, root: Path, steps: Sequence[Step], settings: str = "") -> None:
        self.root = root
        self.steps = steps
        self.settings = settings

    def run(self, names: Sequence[str], force: bool) -> int:
        """Runs the named steps that have not passed on this tree; how many failed."""
        chosen = [step for step in self.steps if step.name in names]
        results = [self._step(step, force) for step in chosen]
        for step, result in zip(chosen, results, strict=True):
            print(f"{step.name:12} {result}")
        return sum(result.startswith("failed") for result in results)

    def lines(self) -> dict[str, Line]:
        """The lines of the page, by step."""
        page = self.root / PAGE
        rows = page.read_text().splitlines() if page.exists() else []
        cells = [row.strip("| ").split(" | ") for row in rows if row.startswith("| ")]
        return {row[0]: Line(*row) for row in cells[2:] if len(row) == len(COLUMNS)}

    def _step(self, step: Step, force: bool) -> str:
        known = self.lines().get(step.name)
        if known is not None and not force and not self.settings and self._has_passed(known):
            return f"{PASSED} on {known.commit}; FORCE=1 runs it again"
        log = self.root / "target" / "nightly" / f"{step.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = " ".join(step.command)
        print(f"==> {step.name}: {command} (at most {step.minutes:g} min; {log})", flush=True)
        install(step.packages)
        commit = self._commit()
        begun = time.monotonic()
        result = self._result(step, log)
        took = time.monotonic() - begun
        if self._commit() != commit and not commit.endswith(WITH_CHANGES):
            commit += WITH_CHANGES
        date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M")
        duration = f"{took:.0f} s" if took < 100 else f"{took / 60:.0f} min"
        self._record(Line(step.name, result, commit, date, duration, machine()))
        print(f"==> {step.name}: {result} ({duration})", flush=True)
        return result

    def _result(self, step: Step, log: Path) -> str:
        with log.open("wb") as output:
            process = subprocess.Popen(
                step.command,
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(step.minutes * 60)
                failure = "failed" if status else None
            except subprocess.TimeoutExpired:
                failure = f"failed: did not finish within {step.minutes:g} min"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        text = log.read_text(errors="replace").replace(f"{self.root}/", "")
        if failure is not None:
            print("\n".join(text.splitlines()[-60:]))
            return failure
        skips = ["".join(groups).strip() for groups in SKIPS.findall(text)]
        if skips:
            return "skipped: " + "; ".join(dict.fromkeys(skips)).replace("|", "/")
        return f"{PASSED} with {self.settings}" if self.settings else PASSED

    def _has_passed(self, line: Line) -> bool:
        return line.result == PASSED and self._is_tree_of(line.commit)

    def _record(self, line: Line) -> None:
        lines = self.lines() | {line.step: line}
        rows = [COLUMNS, ("--",) * len(COLUMNS)]
        rows += [lines[step.name] for step in self.steps if step.name in lines]
        text = HEADER + "".join(f"| {' | '.join(row)} |\n" for row in rows)
        (self.root / PAGE).write_text(text)

    def _commit(self) -> str:
        head = self._git("rev-parse", "--short=12", "HEAD").stdout.strip()
        return head if self._is_tree_of("HEAD") else head + WITH_CHANGES

    def _is_tree_of(self, commit: str) -> bool:
        """Whether the working tree is that of a commit, but for the page."""
        besides = ("--", ".", f":(exclude){PAGE}")
        untracked = self._git("ls-files", "--others", "--exclude-standard", *besides).stdout
        return not untracked and self._git("diff", "--quiet", commit, *besides).returncode == 0

    def _git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *arguments], cwd=self.root, capture_output=True, text=True, check=False
        )


def install(packages: dict[str, str]) -> None:
    """Installs what is missing where that is possible; otherwise the step reports what it lacks."""
    missing = [package for program, package in packages.items() if shutil.which(program) is None]
    if not missing or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    for package in missing:
        install = f"apt-get install --yes --no-install-recommends {package}"
        command = ["timeout", "600", "sh", "-c", f"{install} || {{ apt-get update && {install}; }}"]
        if subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode != 0:
            print(f"{package} cannot be installed here", file=sys.stderr)


def machine() -> str:
    """The processor, its cores and the memory; nothing that tells one machine from its like."""
    processor = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    name = processor[1] if processor else os.uname().machine
    gibibytes = round(int(memory[1]) / (1 << 20)) if memory else 0
    return f"{name}, {len(os.sched_getaffinity(0))} cores, {gibibytes} GiB"


def main() -> int:
    """The named step, or all."""
    names = [step.name for step in STEPS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", nargs="?", choices=names, help="all if none is named")
    parser.add_argument("--force", action="store_true", help="run steps that have passed, too")
    parser.add_argument("--settings", default="", help="variables of make that are not the default")
    given = parser.parse_args()
    # Ended like that, it ends the step's processes, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    nightly = Nightly(Path(__file__).resolve().parents[1], STEPS, given.settings)
    return 1 if nightly.run([given.step] if given.step else names, given.force) else 0


if __name__ == "__main__":
    sys.exit(main())
