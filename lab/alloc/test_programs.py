"""The aims of the bench of real programs."""

from __future__ import annotations

from pathlib import Path

import programs
import pytest
from allocators import DEBIAN, GLIBC, MIMALLOC, PLAIN, Allocator
from workloads import WORKLOADS, Gcc, Git, Outcome, Redis, Workload

SETUP = Path(__file__).parents[2] / "scripts" / "setup"


def ran(workload: Workload, allocator: str, *cpu_seconds: float) -> programs.Contestant:
    runs = [Outcome(seconds, seconds, None, "") for seconds in cpu_seconds]
    return programs.Contestant(workload, Allocator(allocator, "", None), {}, runs)


def test_the_least_of_all_runs_is_judged() -> None:
    gcc, git, redis = (kind(Path(), True, 1.0) for kind in (Gcc, Git, Redis))
    failed = ran(redis, PLAIN, 9.0)
    failed.failure = "another result than under glibc"
    found = [
        *(ran(gcc, GLIBC, 3.0, 1.0), ran(gcc, PLAIN, 1.02, 4.0), ran(gcc, MIMALLOC, 2.04, 1.02)),
        *(ran(git, GLIBC, 2.0), ran(git, PLAIN, 1.8), ran(git, MIMALLOC, 1.7)),
        *(ran(redis, GLIBC, 1.0), failed),
    ]
    glibc, mean = programs.summary(found, {})["aims"]
    assert glibc["missed"] == {"gcc": pytest.approx(1.02)}
    assert not glibc["met"]
    assert mean["aim"] == "processor seconds over mimalloc, geometric mean"
    assert mean["geometric_mean"] == pytest.approx((1.8 / 1.7) ** 0.5)
    assert not mean["met"]


def test_aims_without_measurements_are_left_out() -> None:
    gcc = Gcc(Path(), True, 1.0)
    assert programs.judged([ran(gcc, GLIBC, 1.0)]) == []
    (glibc,) = programs.judged([ran(gcc, GLIBC, 1.0), ran(gcc, PLAIN, 1.0)])
    assert glibc["met"]


def test_setup_installs_what_the_bench_needs() -> None:
    packages = {package for kind in WORKLOADS for package in kind.commands.values()}
    packages |= {package for _, package, _ in DEBIAN} | {"strace", "libntl-dev"}
    known = SETUP.read_text()
    # Programs whose package has their name are listed together.
    missing = {one for one in packages if f" {one}" not in known}
    assert missing == set()
