"""lab/hpc.sh refuses machines that lack what it needs, and says what it will do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from papers.catalogue import ROOT


def hpc(*options: str, directory: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "lab" / "hpc.sh"), *options]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("options", "cause", "remedy"),
    [
        (["--sockets", "4096"], "memory node(s), not 4096", "give --sockets"),
        (["--sockets", "1", "--gigabytes", "999999"], "GiB are free", "give --gigabytes"),
        (["--sockets", "1", "--gigabytes", "1", "--threads", "99999"], "core(s), not", "--threads"),
        (["--sockets", "none"], "none is no number", "sockets"),
        (["--out"], "--out needs a value", ""),
        (["--fast"], "there is no option --fast", "--help"),
    ],
)
def test_what_is_missing_is_refused_with_its_remedy(
    options: list[str], cause: str, remedy: str
) -> None:
    done = hpc(*options)
    assert done.returncode == 1
    assert cause in done.stderr
    assert remedy in done.stderr
    assert done.stdout == ""


def test_a_dry_run_says_what_would_be_done_and_does_nothing(tmp_path: Path) -> None:
    small = ("--sockets", "1", "--gigabytes", "1", "--threads", "1")
    done = hpc(*small, "--papers", "--quick", "--dry-run", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "make papers BENCH_THREADS=1 PAPERS='--quick'" in done.stdout
    assert not list(tmp_path.iterdir())


def test_help_is_the_head_of_the_script() -> None:
    done = hpc("--help")
    assert done.stdout.startswith("Runs all of `make papers`")
    assert "--dry-run" in done.stdout
    assert "set -euo" not in done.stdout
