"""What `make nightly` runs, skips, records and reports, in a repository of its own."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import pytest

from nightly import PAGE, Nightly, Step


class Repository:
    """A commit, and steps that are shell commands, each of which leaves a trace when it runs."""

    def __init__(self, root: Path, steps: dict[str, str], minutes: float = 1) -> None:
        self.root = root
        self.traces = root.parent / "traces"
        self.steps = [
            Step(name, ["sh", "-c", f"echo {name} >>{self.traces}; {command}"], minutes)
            for name, command in steps.items()
        ]
        self.git("init", "--quiet")
        self.write(".gitignore", "target\n")
        self.write("source", "one\n")
        (root / "docs").mkdir()
        self.commit()

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments]
        done = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "change")
        return self.git("rev-parse", "--short=12", "HEAD")

    def run(self, *names: str, force: bool = False, settings: str = "") -> int:
        nightly = Nightly(self.root, self.steps, settings)
        return nightly.run(names or [step.name for step in self.steps], force)

    def ran(self) -> list[str]:
        """What has run since this was asked last."""
        traces = self.traces.read_text().split() if self.traces.exists() else []
        self.traces.unlink(missing_ok=True)
        return traces

    def lines(self) -> list[tuple[str, str, str]]:
        """Step, result and commit, in the order of the page."""
        return [line[:3] for line in Nightly(self.root, self.steps).lines().values()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    return path


def test_each_step_has_one_line_in_the_order_of_the_steps(root: Path) -> None:
    repository = Repository(root, {"a": "true", "b": "true"})
    first = repository.commit()
    assert repository.run("b") == 0
    assert repository.lines() == [("b", "passed", first)]
    repository.write("source", "two\n")
    second = repository.commit()
    assert repository.run("a") == 0
    assert repository.lines() == [("a", "passed", second), ("b", "passed", first)]
    assert repository.run("b") == 0
    assert repository.lines() == [("a", "passed", second), ("b", "passed", second)]


def test_a_failure_is_counted_and_the_others_run(root: Path) -> None:
    repository = Repository(root, {"a": "exit 3", "b": "true"})
    commit = repository.commit()
    assert repository.run() == 1
    assert repository.ran() == ["a", "b"]
    assert repository.lines() == [("a", "failed", commit), ("b", "passed", commit)]


def test_only_what_has_passed_is_not_run_again(root: Path) -> None:
    repository = Repository(root, {"a": "exit 1", "b": "true", "c": "echo skipped: no c here"})
    repository.run()
    assert repository.ran() == ["a", "b", "c"]
    assert repository.run() == 1
    assert repository.ran() == ["a", "c"]
    repository.run(force=True)
    assert repository.ran() == ["a", "b", "c"]


def test_a_commit_of_the_page_alone_changes_nothing(root: Path) -> None:
    repository = Repository(root, {"a": "true"})
    tested = repository.commit()
    repository.run()
    repository.commit()
    repository.ran()
    assert repository.run() == 0
    assert repository.ran() == []
    assert repository.lines() == [("a", "passed", tested)]
    repository.write("source", "two\n")
    repository.commit()
    repository.run()
    assert repository.ran() == ["a"]


@pytest.mark.parametrize("changed", ["source", "untracked"])
def test_a_changed_tree_is_named_and_does_not_count(root: Path, changed: str) -> None:
    repository = Repository(root, {"a": "true"})
    commit = repository.commit()
    repository.run()
    repository.write(changed, "two\n")
    repository.run()
    assert repository.ran() == ["a", "a"]
    assert repository.lines() == [("a", "passed", f"{commit} with changes")]
    repository.run()
    assert repository.ran() == ["a"]


def test_a_tree_that_changes_meanwhile_is_named(root: Path) -> None:
    repository = Repository(root, {"a": "echo two >source"})
    commit = repository.commit()
    repository.run()
    assert repository.lines() == [("a", "passed", f"{commit} with changes")]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("skipped: Go is not installed", "Go is not installed"),
        ("The following tests did not run:\n\t  7 - model (Skipped)", "model"),
        ("SKIPPED [1] tests/test_a.py:3: no b", "tests/test_a.py:3: no b"),
        ("skipped: a | b\nskipped: a | b\nskipped: c", "a / b; c"),
    ],
)
def test_what_a_step_skips_is_told_and_not_passed(root: Path, output: str, reason: str) -> None:
    repository = Repository(root, {"a": f"printf '%s\n' '{output}'"})
    commit = repository.commit()
    assert repository.run() == 0
    assert repository.lines() == [("a", f"skipped: {reason}", commit)]


def test_a_step_with_other_settings_is_not_the_whole_step(root: Path) -> None:
    repository = Repository(root, {"a": "true"})
    commit = repository.commit()
    repository.run(settings="SECONDS=1")
    assert repository.lines() == [("a", "passed with SECONDS=1", commit)]
    repository.run()
    assert repository.lines() == [("a", "passed", commit)]
    assert repository.ran() == ["a", "a"]
    repository.run(settings="SECONDS=2")
    assert repository.ran() == ["a"]


@pytest.mark.timeout(100)
def test_a_step_that_exceeds_its_budget_fails_with_all_its_processes(root: Path) -> None:
    # The reader sees the end of the pipe once every process that could write to it is gone.
    lock = root.parent / "lock"
    repository = Repository(root, {"a": f"flock {lock} sleep 1000 & sleep 1000"}, minutes=0.01)
    assert repository.run() == 1
    assert repository.lines()[0][1].startswith("failed: did not finish")
    with lock.open("a") as free:
        fcntl.flock(free, fcntl.LOCK_EX)


def test_the_page_names_no_path(root: Path) -> None:
    repository = Repository(root, {"a": 'echo "skipped: see $PWD/log"'})
    repository.run()
    page = (root / PAGE).read_text()
    assert "skipped: see log" in page
    assert str(root) not in page
