"""Traces in their three forms, the program that replays them, and the aims that it is judged by."""

from __future__ import annotations

import json
import lzma
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aims
import pytest
import trace_file
from allocators import GLIBC, JEMALLOC, PLAIN, PLANNED
from jobs import HELIB, REPLAY_LARGE, Job
from launch import Run
from results import Result, Results
from trace_file import Event, Kind, TraceError

HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared" / "data"

# Thread 2 frees a block of thread 1 that is as large as a row; thread 0 frees one of each, and
# leaves one to nobody. A number is used again.
RECORDED = """\
0 m 10 64
0 m 11 24
1 m 12 70000
1 m 13 5
2 m 14 40000
1 f 13
1 m 13 16
2 f 12
2 f 11
2 m 15 8
1 m 16 65568
1 m 17 65568
1 f 16
0 m 18 3
0 f 14
0 f 13
0 f 17
0 f 18
0 m 19 100
"""


def recorded() -> trace_file.Trace:
    return trace_file.read_recorded(RECORDED.splitlines())


def test_threads_start_and_end_where_the_recorded_order_has_them() -> None:
    zero, one, two = recorded()
    assert [(event.kind, event.thread, event.value) for event in zero] == [
        (Kind.ALLOCATE, 0, 64),
        (Kind.ALLOCATE, 2, 24),
        (Kind.START, 1, 0),
        (Kind.START, 2, 0),
        (Kind.JOIN, 1, 0),
        (Kind.JOIN, 2, 0),
        (Kind.ALLOCATE, 0, 3),
        (Kind.FREE, 2, 0),
        (Kind.FREE, 1, 2),
        (Kind.FREE, 1, 4),
        (Kind.FREE, 0, 2),
        (Kind.ALLOCATE, 0, 100),
    ]
    assert one[:4] == [
        Event(Kind.ALLOCATE, 2, 70000),
        Event(Kind.ALLOCATE, 1, 5),
        Event(Kind.FREE, 1, 1),
        Event(Kind.ALLOCATE, 0, 16),
    ]
    assert [event.kind for event in two] == [Kind.ALLOCATE, Kind.FREE, Kind.FREE, Kind.ALLOCATE]


def test_the_kept_form_gives_the_trace_back(tmp_path: Path) -> None:
    trace_file.write_kept(recorded(), tmp_path / "small.trace.xz")
    assert trace_file.load_kept(tmp_path / "small.trace.xz") == recorded()


@pytest.mark.parametrize("threads", [2, 16])
def test_the_kept_traces_are_those_recorded(threads: int) -> None:
    source = SHARED / f"helib-pairs-{threads}threads.trace.zst"
    if not source.exists():
        pytest.skip(f"{source} is not there")
    try:
        told = subprocess.run(["zstd", "-dc", source], stdout=subprocess.PIPE, check=True)
    except FileNotFoundError:
        pytest.skip("no zstd, with which the recorded traces are compressed")
    lines = told.stdout.decode("ascii").splitlines()
    kept = trace_file.load_kept(HERE / "traces" / source.name.replace(".zst", ".xz"))
    assert sequences(kept) == recorded_sequences(lines)


Step = tuple[str, int, int]


def sequences(trace: trace_file.Trace) -> list[list[Step]]:
    """What each thread did: sizes, and the blocks freed by thread and number."""
    return [
        [
            ("m", -1, event.value)
            if event.kind is Kind.ALLOCATE
            else ("f", event.thread, event.value)
            for event in events
            if event.kind in (Kind.ALLOCATE, Kind.FREE)
        ]
        for events in trace
    ]


def recorded_sequences(lines: Sequence[str]) -> list[list[Step]]:
    """The same from the recorded lines alone."""
    threads = 1 + max(int(line.split()[0]) for line in lines)
    found: list[list[Step]] = [[] for _ in range(threads)]
    blocks = [0] * threads
    names: dict[str, tuple[int, int]] = {}
    for line in lines:
        thread, what, block, *size = line.split()
        if what == "m":
            names[block] = (int(thread), blocks[int(thread)])
            blocks[int(thread)] += 1
            found[int(thread)].append(("m", -1, int(size[0])))
        else:
            found[int(thread)].append(("f", *names[block]))
    return found


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ("", "the trace is empty"),
        ("0 m 1", "line 1: too few or too many fields: '0 m 1'"),
        ("0 f 1 8", "line 1: too few or too many fields"),
        ("0 a 1 8", "line 1: neither `THREAD m ID SIZE` nor `THREAD f ID`"),
        ("0 m 1 8\n\n", "line 2: neither"),
        ("0 m x 8", "line 1: not a number"),
        ("0 m 1 -8", "line 1: not a number"),
        ("0 m m 8", "line 1: not a number"),
        ("0 m 1 4294967296", "line 1: blocks are smaller than 4 GiB"),
        ("65536 m 1 8", "line 1: threads are numbered below 65536"),
        ("0 m 1 8\n0 m 1 8", "line 2: block 1 is allocated twice"),
        ("0 f 1", "line 1: block 1 is freed but not allocated"),
        ("0 m 1 8\n0 f 1\n0 f 1", "line 3: block 1 is freed but not allocated"),
        ("0 m 1 8\n2 m 2 8", "thread 1 has no event, but thread 2 has"),
    ],
)
def test_a_recording_that_is_none_is_refused(lines: str, wrong: str) -> None:
    with pytest.raises(TraceError, match=wrong.replace("|", r"\|")):
        trace_file.read_recorded(lines.splitlines())


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        (trace_file.TITLE, "a trace", "does not begin with"),
        ("threads 3", "threads 0", "line 2: "),
        ("threads 3", "threads 4", "ends after 3 of 4 threads"),
        ("threads 3", "threads 2", "no such thread to start"),
        ("thread 1", "thread 2", "another thread was to follow"),
        ("m 64", "m", "line 4: "),
        ("m 64", "q 64", "line 4: no such event: 'q 64'"),
        ("m 64", "f 1", "line 4: no such block"),
        ("s 1", "s 3", "no such thread to start"),
        ("j 1\n", "", "thread 1 is not started once and then joined"),
        ("f 2", "f 4", "block 1 of thread 1 is freed twice"),
        ("x 2 0", "x 2 9", "block 9 of thread 2 is freed but not allocated"),
        ("x 2 0", "x 9 0", "no such thread"),
    ],
)
def test_a_kept_trace_that_is_none_is_refused(old: str, new: str, wrong: str) -> None:
    text = trace_file.kept_text(recorded())
    assert old in text
    with pytest.raises(TraceError, match=wrong):
        trace_file.read_kept(text.replace(old, new, 1))


def test_the_command_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in (("text", b"no xz"), ("other.xz", lzma.compress(b"else"))):
        (tmp_path / name).write_bytes(content)
        source, target = str(tmp_path / name), str(tmp_path / "flat")
        monkeypatch.setattr("sys.argv", ["trace_file.py", "expand", source, target])
        assert trace_file.main() == 1
        assert capsys.readouterr().err.startswith(f"error: {source}: ")
        assert not Path(target).exists()


@pytest.fixture(scope="session")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built for this."""
    program = tmp_path_factory.mktemp("replay") / "replay"
    options = ["-O1", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-pthread"]
    subprocess.run(["cc", *options, HERE / "replay.c", "-o", program], check=True)
    return program


@pytest.fixture(scope="session")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flat") / "small.trace"
    path.write_bytes(b"".join(trace_file.flat(recorded())))
    return path


def replayed(program: Path, *arguments: str | Path, preload: Path | None = None) -> Run:
    done = subprocess.run(
        [program, *arguments],
        env={"LD_PRELOAD": str(preload)} if preload else {},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode != 0:
        return Run(done.stderr.strip())
    line = json.loads(done.stdout)
    outcome = "ok" if line["verified"] else "wrong"
    return Run(outcome, line["phases"], peak_bytes=line["peak_bytes"])


def test_a_trace_is_replayed_in_phases(replay: Path, flat: Path) -> None:
    for tables in ([], ["10"]):
        run = replayed(replay, flat, "3", *tables)
        assert run.ok
        assert list(run.phases) == ["initial", "first", "main", "ending", "terminal"]
        assert run.peak_bytes > 0


# Serves rows of one size from an array of its own, each so far behind the one before.
ROWS_MALLOC = """
#include <stddef.h>
extern void *__libc_malloc(size_t size);
extern void __libc_free(void *block);
static char rows[1 << 20] __attribute__((aligned(16)));
static int given;
void *malloc(size_t size) { return size == 65560 ? rows + STEP * given++ : __libc_malloc(size); }
void free(void *block) {
    if ((char *)block < rows || (char *)block >= rows + sizeof rows) __libc_free(block);
}
"""


@pytest.mark.parametrize(("step", "outcome"), [(0, "wrong"), (65552, "wrong"), (65568, "ok")])
def test_blocks_that_overlap_are_found(
    replay: Path, tmp_path: Path, step: int, outcome: str
) -> None:
    source, library, trace = (tmp_path / name for name in ("rows.c", "rows.so", "rows.trace"))
    source.write_text(ROWS_MALLOC)
    options = [f"-DSTEP={step}", "-shared", "-fPIC"]
    subprocess.run(["cc", *options, str(source), "-o", str(library)], check=True)
    rows = trace_file.read_recorded(["0 m 0 65560", "0 m 1 65560", "0 f 0", "0 f 1"])
    trace.write_bytes(b"".join(trace_file.flat(rows)))
    assert replayed(replay, trace, "1", preload=library).outcome == outcome


def test_a_flat_trace_that_is_none_is_refused(replay: Path, flat: Path, tmp_path: Path) -> None:
    whole = flat.read_bytes()
    event = trace_file.EVENT.size
    for content, said in (
        (b"", "error: the trace is cut off"),
        (b"something else that is longer", "error: no trace of trace_file.py"),
        (whole[:-event], "error: the trace is cut off"),
        (whole[:-event] + b"\x07" + bytes(event - 1), "error: the trace is damaged"),
        (whole[:-event] + b"\x01\0\0\0\xff\0\0\0", "error: the trace is damaged"),
    ):
        (tmp_path / "bad.trace").write_bytes(content)
        assert replayed(replay, tmp_path / "bad.trace", "1").outcome == said


def ran(job: Job, contestant: str, *cpu_seconds: float, peak: int = 100) -> Result:
    """Runs of these processor seconds in the first phase, and half of them in the steady one."""

    def phase(seconds: float) -> dict[str, float]:
        return {"wall": seconds, "user": seconds, "system": 0.0, "faults": 0}

    runs = [
        Run(
            "ok",
            {"first": phase(seconds), "main": phase(seconds / 2), "ending": phase(0)},
            peak_bytes=peak,
        )
        for seconds in cpu_seconds
    ]
    return Result(job, contestant, runs)


def job(program: str, threads: int = 2) -> Job:
    return Job(program, threads, ["/nowhere"], helib=True)


def aim(results: Results, name: str) -> dict[str, Any]:
    found = [one for one in aims.judged(results, [GLIBC, JEMALLOC]) if one["aim"].startswith(name)]
    assert found, name
    return found[0]


def test_the_least_run_is_judged() -> None:
    results = Results()
    replay = job(REPLAY_LARGE)
    results.add(
        [
            ran(replay, GLIBC, 4.0, 9.0),
            ran(replay, JEMALLOC, 9.0, 1.0, peak=120),
            ran(replay, PLAIN, 8.0, 1.02, 7.0, peak=130),
            ran(replay, PLANNED, 2.0, 0.9),
        ]
    )
    first = aim(results, "HElib's job: processor seconds of the first phase over")
    assert first["worst"] == pytest.approx(1.02)
    assert first["met"]
    assert not aim(results, "HElib's job: processor seconds of the steady phase")["met"]
    planned = aim(results, "HElib's job: the best peer's processor seconds of the first phase")
    assert planned["worst"] == pytest.approx(1 / 0.9)
    assert not planned["met"]
    assert aim(results, "HElib's job: peak")["worst"] == pytest.approx(130 / 120)
    named = [one["aim"] for one in aims.judged(results, [GLIBC])]
    assert not any(name.startswith("the replay's first phase") for name in named)


def test_orders_are_compared_where_helib_tells_the_allocators_apart() -> None:
    swapped = ["fcmalloc before glibc, 2 threads"]
    for seconds, met, missed, close in (
        ((2.0, 1.0, 1.2), True, [], []),
        # On HElib jemalloc and fcmalloc are too close to be told apart.
        ((2.0, 1.2, 1.0), True, [], []),
        # In the replay glibc and fcmalloc are.
        ((1.18, 1.0, 1.2), True, [], swapped),
        ((1.1, 1.0, 1.2), False, swapped, []),
    ):
        results = Results()
        for contestant, helib, again in zip(
            (GLIBC, JEMALLOC, PLAIN), (2.0, 1.0, 1.04), seconds, strict=True
        ):
            results.add([ran(job(HELIB), contestant, helib)])
            results.add([ran(job(REPLAY_LARGE), contestant, again)])
        found = aim(results, "the replay's first phase orders")
        assert (found["met"], [*found["missed"]], [*found["close"]]) == (met, missed, close)
