"""Allocators that a user adds, samples of a process, and the lines about the FCMalloc paper."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import allocators
import paper
import properties
import pytest
import timeline
from allocators import GLIBC, JEMALLOC, PLAIN, PLANNED, Allocator, also
from jobs import Job
from launch import Run
from results import Result
from timeline import Sample

MALLOC = """
#include <stddef.h>
extern void *__libc_malloc(size_t);
void *malloc(size_t size) { return __libc_malloc(size); }
"""


def library(folder: Path, source: str) -> Path:
    """A shared library of that source."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    file, made = folder / "library.c", folder / "library.so"
    file.write_text(source)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, file], check=True)
    return made


def test_a_library_that_defines_malloc_is_an_allocator(tmp_path: Path) -> None:
    made = library(tmp_path, MALLOC)
    added = also(f"mine={made}")
    assert added == Allocator("mine", "", made)
    assert added.environment(Path()) == {"LD_PRELOAD": str(made)}
    assert not added.ours


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("library.so", "is not NAME=LIBRARY.so"),
        ("=library.so", "is not NAME=LIBRARY.so"),
        ("mine=", "is not NAME=LIBRARY.so"),
        ("glibc=library.so", "'glibc' is that of an allocator of the bench; choose another"),
        ("fcmalloc=library.so", "choose another"),
        ("mine=absent.so", "absent.so: no such file"),
        ("mine=.", "no such file"),
        ("mine=a text.so", "spaces and colons"),
        ("mine=text.so", "not a shared library"),
        ("mine=library.so", "does not define malloc"),
    ],
)
def test_what_is_no_allocator_is_refused_with_the_reason(
    option: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    library(tmp_path, "int answer(void) { return 42; }")
    for name in ("text.so", "a text.so"):
        (tmp_path / name).write_text("no library, but long enough to have the header of one" * 9)
    with pytest.raises(argparse.ArgumentTypeError, match=error):
        also(option)


def test_a_library_that_hangs_its_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = library(tmp_path, "__attribute__((constructor)) void hang(void) { for (;;) {} }")
    monkeypatch.setattr(allocators, "LONGEST", 0.1)
    with pytest.raises(argparse.ArgumentTypeError, match="does not end"):
        also(f"mine={made}")


def test_a_process_is_sampled_until_it_ends() -> None:
    program = "block = bytearray(64 << 20); print(flush=True); input()"
    sampler = timeline.Sampler()
    pipe = subprocess.PIPE
    command = [sys.executable, "-ISc", program]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        sampler.watch(process.pid)
        while len(sampler.samples) < 2:
            os.sched_yield()
        process.communicate("\n")
        sampler.finish()
    assert sampler.samples[0].resident > 64 << 20
    assert sampler.cost()["samples"] == len(sampler.samples)


def test_a_process_that_has_ended_gives_no_sample() -> None:
    process = subprocess.Popen([sys.executable, "-ISc", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with timeline.Process(process.pid) as ended:
        assert ended.sample() is None  # not collected yet
        process.wait()
        assert ended.sample() is None
    with timeline.Process(process.pid) as collected:
        assert collected.sample() is None


def test_windows_have_shares_of_all_processors_and_the_most_memory() -> None:
    samples = [
        *(Sample(10.0, 0.0, 0.0, 5), Sample(10.5, 0.5, 0.0, 9), Sample(11.0, 1.0, 0.5, 7)),
        *(Sample(11.5, 1.0, 1.5, 6), Sample(12.0, 1.0, 2.5, 4)),
    ]
    assert timeline.series(samples, begin=9.0, cpus=2, points=2) == {
        "seconds": [2.0, 3.0],
        "user_share": [0.5, 0.0],
        "system_share": [0.25, 1.0],
        "resident_bytes": [9, 6],
    }
    assert timeline.resident_at(samples, 11.2) == 7
    assert timeline.resident_at(samples, 9.0) is None


def test_nothing_follows_from_one_sample() -> None:
    made = timeline.series([Sample(10.0, 0.0, 0.0, 5)], begin=9.0, cpus=2, points=2)
    assert made["seconds"] == made["resident_bytes"] == []


def ran(product: float, freeing: float, peak: int = 1 << 30) -> Run:
    def phase(wall: float) -> dict[str, float]:
        return {"wall": wall, "user": wall, "system": 0.5, "faults": 3, "begin": 0.0, "end": 0.0}

    return Run(
        "ok",
        {
            "initial": phase(4.0),
            "modulus_switch": phase(1.0),
            "product": phase(product),
            "add": phase(7.0),
            "freeing": phase(freeing),
            "terminal": phase(0.25),
        },
        start=0.5,
        exit=0.125,
        peak_bytes=peak,
    )


PART = paper.ntl(Path("/nowhere"), 72, 8)


def result(name: str, *runs: Run) -> Result:
    return Result(PART.job, name, list(runs))


def test_a_line_of_table_6_has_the_papers_rows_of_each_run() -> None:
    runs = [ran(2.0, 0.5), ran(3.0, 0.25), ran(8.0, 0.75)]
    line = paper.table6_line(PART, result(JEMALLOC, *runs), "5.3")
    assert (line["blocks"], line["products"], line["of_products"]) == (8, 1224, 324972)
    assert [run["product_seconds"] for run in line["runs"]] == [2.0, 3.0, 8.0]
    # Adding is no part of the paper's total: 6.0 + 22.4 + 9.3 = 37.7 s for jemalloc.
    assert [run["main_seconds"] for run in line["runs"]] == [3.5, 4.25, 9.75]
    assert line["median"]["main_seconds"] == 4.25
    assert line["least"]["freeing_seconds"] == 0.25
    assert line["median"]["initial_seconds"] == 4.5
    assert line["median"]["terminal_seconds"] == 0.375
    assert line["median"]["product_user_share"] == pytest.approx(1 / (os.cpu_count() or 1))


def test_a_failure_is_a_line_without_figures() -> None:
    line = paper.table6_line(PART, result(JEMALLOC, ran(2.0, 0.5), Run("crash: SIGSEGV")), "5.3")
    assert line["outcome"] == "crash: SIGSEGV"
    assert "median" not in line


def test_the_summary_compares_runs_of_the_same_turn() -> None:
    ours = result(PLAIN, ran(1.0, 0.0), ran(3.0, 0.0), ran(1.0, 0.0))
    jemalloc = result(JEMALLOC, ran(3.0, 0.0), ran(11.0, 0.0), ran(7.0, 0.0))
    glibc = result(GLIBC, ran(5.0, 0.0), ran(5.0, 0.0), ran(5.0, 0.0))
    found = paper.against_ours(PART, [glibc, jemalloc, ours])
    assert found is not None
    assert found["best_peer"] == GLIBC
    assert found["best_peer_over_fcmalloc"] == 3.0
    assert found["jemalloc_over_fcmalloc"] == 3.0
    assert paper.against_ours(PART, [glibc, jemalloc]) is None


def test_a_timeline_names_the_time_in_which_memory_is_warmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = ran(2.0, 0.5)
    for begin, phase in enumerate(run.phases.values(), start=20):
        phase |= {"begin": float(begin), "end": begin + 0.75}
    sampler = timeline.Sampler()
    sampler.samples = [Sample(19.5, 0.0, 0.0, 5), Sample(24.5, 4.0, 1.0, 8), Sample(30, 5, 2, 3)]
    monkeypatch.setattr(paper, "warmth", lambda _: {"BENCH_WARM": "1"})
    line = paper.timeline(PART, PLAIN, run, sampler)
    assert line["phases"]["initial"] == [0.5, 1.25]
    assert line["phases"]["warming"] == [1.25, 1.5]
    assert line["resident_after_freeing_bytes"] == 8
    monkeypatch.setattr(paper, "warmth", lambda _: {})
    assert "warming" not in paper.timeline(PART, PLAIN, run, sampler)["phases"]


def test_without_a_plan_nobody_runs_as_if_there_were_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    two = [Allocator(PLAIN, "", None), Allocator(PLANNED, "", None, planned=True)]
    monkeypatch.setattr(paper, "record", lambda *_: Run("crash: SIGSEGV"))
    assert [name for name, *_ in paper.contestants(PART, two, tmp_path / "plan", 1)] == [PLAIN]
    assert '"record": "crash: SIGSEGV"' in capsys.readouterr().out
    monkeypatch.setattr(paper, "record", lambda *_: ran(1.0, 1.0))
    (_, planned) = paper.contestants(PART, two, tmp_path / "plan", 1)
    assert planned[2]["FCMALLOC_PLAN"] == str(tmp_path / "plan")


def found(resident: float, lazy: float, unmapped: float, other: float) -> dict[str, object]:
    """What experiments with an allocator find."""
    early = {"seconds": 0, "unmapped": 0.0, "resident": 1.0, "lazy": 0.0}
    late = {"seconds": 1, "unmapped": unmapped, "resident": resident, "lazy": lazy}
    taken = {"other": other, "owner": 1 - other, "third": 0.0}
    return {
        "freed_memory": {"256 B": [early, late], "8 MiB": [early, late]},
        "neighbours": {"64 B": 0.01, "64 KiB": 0.4},
        "reuse": {"many": {"freed_by_other": taken, "freed_by_owner": {"other": 0.0}}},
    }


def test_experiments_are_put_into_words() -> None:
    said = properties.verdict(found(resident=1.0, lazy=0.95, unmapped=0.0, other=0.9))
    assert said == {
        "releases_virtual_memory": "no",
        "releases_physical_memory_at_once": "no",
        "releases_physical_memory": "no",
        "offers_physical_memory": "yes",
        "heaps_of_their_own": "in part",
        "freed_by_another_serves": {"many": ["other"]},
        "freed_by_its_owner_serves_others": "no",
    }
    said = properties.verdict(found(resident=0.5, lazy=0.0, unmapped=1.0, other=0.2))
    assert said["releases_virtual_memory"] == "yes"
    assert said["releases_physical_memory"] == "in part"
    assert said["freed_by_another_serves"] == {"many": ["owner"]}


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> properties.Experiments:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path_factory.mktemp("properties") / "properties"
    source = Path(__file__).parent / "properties.c"
    subprocess.run([compiler, "-O2", "-std=gnu17", "-pthread", "-o", program, source], check=True)
    return properties.Experiments(program, Allocator(GLIBC, "", None), 60)


def test_the_c_library_unmaps_a_large_block_at_once(
    experiments: properties.Experiments,
) -> None:
    first, last = experiments.run("release", 64 << 20, 1, 1)
    assert (first["seconds"], last["seconds"]) == (0, 1)
    assert first["unmapped"] > 0.99
    assert first["resident"] < 0.01


def test_a_thread_is_handed_out_again_what_it_freed(experiments: properties.Experiments) -> None:
    assert experiments.run("reuse", 256, 5, "owner", "owner") == {"reused": 1.0}
    assert 0 <= experiments.run("neighbours", 64, 50)["mixed"] <= 1


def test_an_experiment_that_fails_says_why(experiments: properties.Experiments) -> None:
    with pytest.raises(RuntimeError, match="nobody is none of owner, other and third"):
        experiments.run("reuse", 256, 5, "owner", "nobody")


def test_parts_of_the_job_grow_with_blocks() -> None:
    assert PART.known()["of_products"] == 153 * 2124
    assert paper.ntl(Path(), 1, 16).bytes - PART.bytes == 8 * PART.block_bytes


@pytest.mark.parametrize("text", ["", "0", "2,,3", "two", "2,-1"])
def test_threads_are_positive_numbers(text: str) -> None:
    assert paper.counts("2,72") == [2, 72]
    with pytest.raises(argparse.ArgumentTypeError, match="are not numbers of threads"):
        paper.counts(text)


def test_more_than_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "available_bytes", lambda: PART.bytes)
    paper.refuse_what_does_not_fit([PART])
    with pytest.raises(SystemExit, match="choose fewer --blocks"):
        paper.refuse_what_does_not_fit([paper.ntl(Path(), 1, 9)])


def test_a_job_that_is_not_built_says_how() -> None:
    assert isinstance(PART.job, Job)
    assert PART.job.missing == "not built: sudo apt-get install -y libntl-dev, and run this again"
