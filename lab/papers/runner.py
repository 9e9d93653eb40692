"""Runs steps and keeps their lines, so that a finished step is not run again.

Lines are kept for each step, its arguments, what it measures as it is in the working tree, and the
machine, in a directory of their own below target/papers. A run that fails, exceeds its time or is
interrupted leaves the reason and a log there, but no lines; a step that ends with status 77 says
that the machine lacks something.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from papers.expression import Line
from papers.steps import MAKE, Step

LACKS_SOMETHING = 77
PASSED, FAILED, SKIPPED, NOT_RUN = "passed", "failed", "skipped", "not run"


@dataclass
class Outcome:
    """What is known of a step."""

    title: str
    command: str
    status: str
    reason: str = ""
    seconds: float | None = None
    date: str = ""
    # The version that was measured.
    commit: str = ""
    # The lines of each time that it ran.
    runs: list[list[Line]] = field(default_factory=list)

    @property
    def lines(self) -> list[Line]:
        return [line for run in self.runs for line in run]


class Broken(Exception):
    """Why a run has no lines."""


class Runner:
    """The steps of a repository on a machine, quick or full. `settings` are variables of make that
    a person has set, which make hands on to every step."""

    def __init__(
        self, root: Path, keep: Path, machine: str, quick: bool, settings: str = ""
    ) -> None:
        self.root = root
        self.keep = keep
        self.machine = machine
        self.quick = quick
        self.settings = settings

    def known(self, name: str, step: Step, not_run: str) -> Outcome:
        """What earlier runs have left."""
        command = step.command(self.quick)
        if command is None:
            return Outcome(step.title, "", SKIPPED, "only part of full runs")
        return self._left(self._place(name, step, command), step, command, not_run)

    def run(self, name: str, step: Step, repeat: int, again: bool) -> Outcome:
        """Runs a step until it has been run `repeat` times, from the first again if told so."""
        command = step.command(self.quick)
        if command is None:
            return self.known(name, step, "")
        # Told once, so that lines are kept under what was there when the step began.
        place = self._place(name, step, command)
        place.mkdir(parents=True, exist_ok=True)
        if again:
            for file in place.glob("run-*.json"):
                file.unlink()
        done = len(list(place.glob("run-*.json")))
        if done < repeat:
            (place / "failure.json").unlink(missing_ok=True)
        for number in range(done + 1, repeat + 1):
            said = f"==> {name}: {self._written(command)} (at most {step.minutes:g} min)"
            print(said, file=sys.stderr)
            begun, date = time.monotonic(), datetime.now(timezone.utc)
            version = commit(self.root)
            try:
                lines = self._lines(command, place / "log", step.minutes * 60)
            except Broken as broken:
                status, reason = broken.args
                write(place / "failure.json", {"status": status, "reason": reason})
                print(f"==> {name}: {status}: {reason}", file=sys.stderr)
                break
            took = time.monotonic() - begun
            kept = {
                "seconds": took,
                "date": date.strftime("%Y-%m-%d %H:%M"),
                "commit": version,
                "lines": lines,
            }
            write(place / f"run-{number}.json", kept)
            print(f"==> {name}: {len(lines)} lines in {took:.0f} s", file=sys.stderr)
        return self._left(place, step, command, "")

    def _left(self, place: Path, step: Step, command: Sequence[str], not_run: str) -> Outcome:
        """What runs have left in their directory."""
        outcome = Outcome(step.title, self._written(command), NOT_RUN, not_run)
        for file in sorted(place.glob("run-*.json")):
            kept = json.loads(file.read_text())
            outcome.runs.append(kept["lines"])
            outcome.seconds, outcome.date = kept["seconds"], kept["date"]
            outcome.commit = kept.get("commit", "")
        if outcome.runs:
            outcome.status, outcome.reason = PASSED, ""
        elif (place / "failure.json").exists():
            failure = json.loads((place / "failure.json").read_text())
            outcome.status, outcome.reason = failure["status"], failure["reason"]
        return outcome

    def _lines(self, command: Sequence[str], log: Path, seconds: float) -> list[Line]:
        """Runs a command to its end and reads what it printed; whatever ends this program ends it
        and its children."""
        with log.open("wb") as errors:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
            try:
                printed, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                raise Broken(FAILED, f"did not finish within {seconds / 60:g} min") from None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        # What a recipe of make ended with stands in what make says.
        lacks = f"] Error {LACKS_SOMETHING}" in log.read_text(errors="replace")
        if lacks or process.returncode == LACKS_SOMETHING:
            raise Broken(SKIPPED, last_words(log) or "the machine lacks something")
        if process.returncode != 0:
            raise Broken(FAILED, last_words(log) or f"ended with status {process.returncode}")
        return parsed(printed.decode())

    def _place(self, name: str, step: Step, command: Sequence[str]) -> Path:
        identity = json.dumps(
            [name, list(command), self.settings, self._measured(step), self.machine]
        )
        return self.keep / name / hashlib.sha256(identity.encode()).hexdigest()[:12]

    def _written(self, command: Sequence[str]) -> str:
        """For others to type: where something is installed here says nothing to them."""
        settings = [re.sub("=/.*", "=PREFIX", one) for one in shlex.split(self.settings)]
        return " ".join([written(command), *map(shlex.quote, settings)])

    def _measured(self, step: Step) -> str:
        """Changes with anything that the step measures, committed or not; the same for the same."""
        paths = ("--", *step.measures)
        seen = hashlib.sha256()
        seen.update(self._git("ls-tree", "-r", "HEAD", *step.measures))
        seen.update(self._git("diff", "HEAD", *paths))
        for new in self._git("ls-files", "-z", "--others", "--exclude-standard", *paths).split(
            b"\0"
        ):
            if new:
                seen.update(new + (self.root / os.fsdecode(new)).read_bytes())
        return seen.hexdigest()[:12]

    def _git(self, *arguments: str) -> bytes:
        return subprocess.run(
            ["git", *arguments], cwd=self.root, stdout=subprocess.PIPE, check=True
        ).stdout


def commit(root: Path) -> str:
    """The commit of a working tree, and whether it has changes."""
    command = ["git", "describe", "--always", "--dirty= with changes", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def parsed(printed: str) -> list[Line]:
    lines: list[Any] = []
    for text in printed.splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            raise Broken(FAILED, f"printed what is no JSON: {text[:80]!r}") from None
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise Broken(FAILED, "printed no objects")
    if lines[-1].get("verified") is False:
        raise Broken(FAILED, "was wrong about a result")
    if isinstance(why := lines[-1].get("skipped"), str):
        raise Broken(SKIPPED, why)
    return lines


def last_words(log: Path) -> str:
    """What it last said of why, without make's own lines and paths of this machine."""
    said = log.read_text(errors="replace").splitlines()
    telling = [line for line in said if line.strip() and not line.startswith("make")]
    reason = next((line for line in reversed(telling) if "error" in line), (telling or [""])[-1])
    return reason.replace(f"{Path.cwd()}/", "").strip()[:300]


def write(path: Path, value: Any) -> None:
    """Whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value))
    partial.replace(path)


def written(command: Sequence[str]) -> str:
    """As a person would type it."""
    words = [word for word in command if word not in MAKE[1:]]
    parts = [word.partition("=") for word in words]
    return " ".join(
        f"{k}{eq}'{v}'" if " " in v or v[:1] == "-" else k + eq + v for k, eq, v in parts
    )
