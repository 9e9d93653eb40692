"""Finished steps are kept, and nothing is kept of those that did not finish."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from papers.runner import FAILED, NOT_RUN, PASSED, SKIPPED, Runner
from papers.steps import MAKE, Step

# A step's make appends to `ran`, prints `lines`, and ends with `status`.
MAKEFILE = """\
bench:
\t@echo again >> ran
\t@cat lines; echo 'error: said why' >&2; exit $$(cat status)
slow:
\t@echo begun >> ran; echo '{}'; sleep 600
"""
BENCH = Step("a bench", "bench", ("measured",), 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a Makefile."""
    for file, text in [("Makefile", MAKEFILE), ("measured", "1"), ("lines", '{"a": 1}\n')]:
        (tmp_path / file).write_text(text)
    (tmp_path / "status").write_text("0")
    author = ["-c", "user.name=n", "-c", "user.email=e"]
    for command in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "-m", "all"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def runner(root: Path, machine: str = "m", quick: bool = False) -> Runner:
    return Runner(root, root / "kept", machine, quick)


def times(root: Path) -> int:
    return len((root / "ran").read_text().splitlines()) if (root / "ran").exists() else 0


def test_a_finished_step_is_not_run_again(root: Path) -> None:
    first = runner(root).run("bench", BENCH, 1, False)
    assert (first.status, first.lines, times(root)) == (PASSED, [{"a": 1}], 1)
    assert runner(root).run("bench", BENCH, 1, False).lines == [{"a": 1}]
    assert times(root) == 1
    assert runner(root).known("bench", BENCH, "").runs == [[{"a": 1}]]
    again = runner(root).run("bench", BENCH, 1, True)
    assert (len(again.runs), times(root)) == (1, 2)


def test_a_step_says_which_version_it_measured(root: Path) -> None:
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    (root / "measured").write_text("2")
    done = runner(root).run("bench", BENCH, 1, False).commit
    assert done == runner(root).known("bench", BENCH, "").commit == f"{head[:12]} with changes"


def test_a_step_does_not_tell_where_things_are_installed_here(root: Path) -> None:
    settings = "'HELIB=/opt/some where' BENCH_THREADS=4"
    outcome = Runner(root, root / "kept", "m", False, settings).run("bench", BENCH, 1, False)
    assert outcome.command == "make bench HELIB=PREFIX BENCH_THREADS=4"


def test_a_step_may_be_run_several_times(root: Path) -> None:
    assert len(runner(root).run("bench", BENCH, 2, False).runs) == 2
    assert len(runner(root).run("bench", BENCH, 3, False).runs) == 3
    assert times(root) == 3


def test_other_sources_other_machines_and_other_options_have_lines_of_their_own(
    root: Path,
) -> None:
    runner(root).run("bench", BENCH, 1, False)
    quicker = Step("a bench", "bench", ("measured",), 1, quick=("BENCH=--quick",))
    assert runner(root, machine="n").known("bench", BENCH, "").status == NOT_RUN
    assert runner(root, quick=True).known("bench", quicker, "").status == NOT_RUN
    (root / "measured").write_text("2")
    assert runner(root).known("bench", BENCH, "").status == NOT_RUN
    (root / "measured").write_text("1")
    (root / "other").write_text("it does not measure this")
    assert runner(root).known("bench", BENCH, "").status == PASSED


def test_a_new_file_changes_what_is_measured(root: Path) -> None:
    folder = Step("a bench", "bench", ("folder",), 1)
    (root / "folder").mkdir()
    runner(root).run("bench", folder, 1, False)
    (root / "folder" / "new").write_text("")
    assert runner(root).known("bench", folder, "").status == NOT_RUN


@pytest.mark.parametrize(
    ("status", "printed", "result", "reason"),
    [
        ("3", '{"a": 1}\n', FAILED, "error: said why"),
        ("77", "", SKIPPED, "error: said why"),
        ("0", "no JSON\n", FAILED, "printed what is no JSON: 'no JSON'"),
        ("0", "", FAILED, "printed no objects"),
        ("0", '{"verified": false}\n', FAILED, "was wrong about a result"),
        ("0", '{"skipped": "no disk"}\n', SKIPPED, "no disk"),
    ],
)
def test_a_step_that_does_not_end_well_leaves_its_reason_and_no_lines(
    root: Path, status: str, printed: str, result: str, reason: str
) -> None:
    (root / "status").write_text(status)
    (root / "lines").write_text(printed)
    outcome = runner(root).run("bench", BENCH, 1, False)
    assert (outcome.status, outcome.reason, outcome.lines) == (result, reason, [])
    assert not list((root / "kept").rglob("run-*"))
    (root / "status").write_text("0")
    (root / "lines").write_text('{"a": 2}\n')
    assert runner(root).run("bench", BENCH, 1, False).lines == [{"a": 2}]


def test_an_interrupted_step_leaves_nothing_and_no_process(root: Path) -> None:
    program = (
        "import signal, sys; from pathlib import Path\n"
        "from papers.runner import Runner; from papers.steps import Step\n"
        "signal.signal(signal.SIGTERM, lambda number, _: sys.exit(1))\n"
        "root = Path(sys.argv[1])\n"
        "Runner(root, root / 'kept', 'm', False).run('slow', Step('s', 'slow', (), 1), 1, False)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", program, root], env=environment, stderr=subprocess.DEVNULL
    )
    while not times(root):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 1
    assert not list((root / "kept").rglob("run-*"))
    assert not list((root / "kept").rglob("*.partial"))
    assert runner(root).known("slow", Step("s", "slow", (), 1), "why").status == NOT_RUN


def test_a_step_prints_nothing_but_its_lines_when_another_make_has_started_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "Makefile").write_text("step:\n\t@echo '{}'\n")
    monkeypatch.setenv("MAKELEVEL", "1")
    monkeypatch.setenv("MAKEFLAGS", "w")
    printed = subprocess.run([*MAKE, "step"], cwd=root, capture_output=True, text=True, check=True)
    assert printed.stdout == "{}\n"


def test_what_quick_runs_leave_out_says_so(root: Path) -> None:
    long = Step("a bench", "bench", ("measured",), 1, quick=None)
    outcome = runner(root, quick=True).run("bench", long, 1, False)
    assert (outcome.status, outcome.reason, times(root)) == (SKIPPED, "only part of full runs", 0)
