"""No item of the papers is silent, and every figure that lab/papers.toml names exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from papers import catalogue
from papers.__main__ import NOT_ASKED_FOR, REFERENCE
from papers.results import Results
from papers.runner import PASSED, SKIPPED
from papers.steps import ALLOC_JOBS, STEPS
from papers.verdict import Verdict

ITEM = {"id": "one", "paper": "p", "kind": "table", "at": "", "title": "t", "found": "f"}


def written(path: Path, *items: str) -> Path:
    """A catalogue of one paper."""
    paper = 'id="p"\nshort="s"\ntitle="t"\nauthors="a"\nvenue="v"\nabstract="b"\n'
    path.write_text(f"[[paper]]\n{paper}" + "".join(f"[[item]]\n{item}\n" for item in items))
    return path


def fields(**others: Any) -> str:
    return "\n".join(f"{key} = {value!r}" for key, value in (ITEM | others).items())


def test_the_figures_of_every_item_are_in_the_reference_run() -> None:
    reference = Results.read(REFERENCE / "results.json")
    known = catalogue.load()
    wrong = catalogue.problems(known, reference.lines, reference.left_out, reference.quick)
    assert not wrong, "\n".join(wrong)


def test_figures_of_helib_are_due_where_it_was_measured_and_nowhere_else() -> None:
    reference = Results.read(REFERENCE / "results.json")
    lines = reference.lines["alloc-paper"]

    def wrong(measured: list[dict[str, Any]]) -> list[str]:
        run = {**reference.lines, "alloc-paper": measured}
        return catalogue.problems(catalogue.load(), run, reference.left_out, reference.quick)

    assert not wrong([line for line in lines if line.get("library") != "HElib"])
    part = [line for line in lines if line.get("library") != "HElib" or line["threads"] != 72]
    assert {problem.partition(":")[0] for problem in wrong(part)} == {"fcmalloc-speedup"}


def test_every_step_is_in_the_reference_run() -> None:
    assert Results.read(REFERENCE / "results.json").steps.keys() == STEPS.keys()


def test_every_item_has_a_verdict_in_the_reference_run() -> None:
    reference = Results.read(REFERENCE / "results.json")
    for item in catalogue.load().items:
        if reference.verdict(item) is Verdict.OPEN:
            # Lacking on this machine, or for small effects runs that agree.
            excused = all(claim.when or claim.value.value(reference.lines) for claim in item.claims)
            assert excused or set(item.steps) & reference.left_out, item.id


def papers_rows(item: str) -> dict[str, list[float]]:
    """The numbers of a paper in the rows of an item, by the row's label."""
    [found] = [one for one in catalogue.load().items if one.id == item]
    return {row.label: [float(of) for of in row.paper.values()] for row in found.rows if row.paper}


def test_benches_print_the_papers_times_of_arrays_as_the_catalogue_has_them() -> None:
    shown = 0
    lines = Results.read(REFERENCE / "results.json").lines["numa"]
    # What tells the rows of a table apart, its first power of ten, and the kilocycles of a unit.
    for table, field, first, unit in (
        ("3-1", "elements", 3, 1),
        ("3-2", "stride", 0, 1e3),
        ("3-3", "stride", 0, 1e3),
    ):
        rows = enumerate(papers_rows(f"numa-table-{table}").values(), first)
        times = {10**power: row for power, row in rows}
        for line in lines:
            if line.get("table") == table:
                printed = line["paper"]["kilocycles"]
                in_units = [printed[case] / unit for case in ("ocr", "worst", "best")]
                assert in_units == times[line[field]]
                shown += 1
    assert shown >= 14


def test_benches_print_the_papers_times_of_counting_as_the_catalogue_has_them() -> None:
    rows = papers_rows("numa-table-6-3")
    times = {name: rows[f"by {name}"] for name in ("item", "transaction")}
    times["random"] = rows["at random"]
    lines = Results.read(REFERENCE / "results.json").lines["numa"]
    [table] = [line["table_6_3"]["rows"] for line in lines if line.get("bench") == "numa"]
    libraries = dict.fromkeys(row["paper_library"] for row in table)
    assert len(libraries) == 2
    for row in table:
        number = list(libraries).index(row["paper_library"])
        assert row["paper_seconds"] == times[row["placement"]][number]
    [model] = [line for line in lines if line.get("bench") == "numa model"]
    for number, library in enumerate(libraries):
        for name, ratio in model["paper_seconds_over_transaction"][library].items():
            assert ratio == times[name][number] / times["transaction"][number]


def test_benches_print_the_papers_phases_as_the_catalogue_has_them() -> None:
    rows = papers_rows("fcmalloc-table-6")
    printed = Results.read(REFERENCE / "results.json").lines["table6"][-1]["paper"]["rows"]
    main = [row["main_seconds"] for row in printed]
    assert rows["modulus switch"] == [phases["modDownToLevel"] for phases in main]
    assert rows["product"] == [phases["tensorProduct"] for phases in main]
    for label, field in (
        ("initial", "initial_seconds"),
        ("freeing", "freeing_seconds"),
        ("main, total", "main_and_freeing_seconds"),
        ("terminal", "terminal_seconds"),
        ("peak", "peak_gigabytes"),
    ):
        assert rows[label] == [row[field] for row in printed], label


# Steps that the committed reference lacks: there was no time for them. The page says so, too.
LACKING: set[str] = set()


def test_every_other_step_of_the_reference_run_passed_or_could_not_run() -> None:
    for name, outcome in Results.read(REFERENCE / "results.json").steps.items():
        if name in LACKING:
            assert outcome.reason == NOT_ASKED_FOR, f"{name} is no longer lacking"
            continue
        assert outcome.status == PASSED or (
            outcome.status == SKIPPED and outcome.reason and outcome.reason != NOT_ASKED_FOR
        ), f"{name} {outcome.status}: {outcome.reason}"


def test_an_item_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "c.toml", fields(tests=["a::b"]))
    assert catalogue.load(path).items[0].tests == ("a::b",)


@pytest.mark.parametrize(
    ("items", "cause"),
    [
        ([fields(tests=["a"]), fields(tests=["a"])], "two items are called one"),
        ([fields(needs="x")], "has neither rows nor a reason"),
        ([fields(reason="x")], "has no verdict"),
        ([fields(reason="x", needs="a", differs="b")], "two verdicts"),
        ([fields(tests=["a"], paper="q")], "there is no paper 'q'"),
        ([fields(tests=["a"], kind="poem")], "a kind is one of"),
        ([fields(tests=["a"], badges=["best"])], "badges are"),
        ([fields() + '\nclaims = [{says="s", value="numa.b", when="now"}]'], "when is one of"),
        ([fields(tests=["a"], step="none")], "steps that do not exist"),
        ([fields(tests=["a"], colour="red")], "Item knows no colour"),
        ([fields() + '\nrows = [{label="l", oboro="no step"}]'], "is no reference"),
        ([fields() + '\nclaims = [{says="s", value="a[b].c"}]'], "write conditions as"),
    ],
)
def test_a_mistake_is_refused_with_its_cause(tmp_path: Path, items: list[str], cause: str) -> None:
    with pytest.raises(catalogue.Wrong, match=cause):
        catalogue.load(written(tmp_path / "c.toml", *items))


def test_a_missing_figure_is_noticed_unless_its_step_was_left_out(tmp_path: Path) -> None:
    row = '\nneeds = "x"\nrows = [{label="l", oboro="numa[a=1].b"}]'
    known = catalogue.load(written(tmp_path / "c.toml", fields() + row))
    assert catalogue.problems(known, {"numa": [{"a": 1, "b": 0}]}, set(), False) == []
    wrong = ["one: no line of numa has numa[a=1].b"]
    assert catalogue.problems(known, {"numa": [{"a": 2, "b": 0}]}, set(), False) == wrong
    assert catalogue.problems(known, {"numa": [{"a": 1}]}, set(), False) == wrong
    assert catalogue.problems(known, {}, {"numa"}, False) == []


def test_a_conditional_figure_is_missed_where_lines_of_its_kind_are(tmp_path: Path) -> None:
    row = '\nneeds = "x"\nrows = [{label="l", when="with QEMU", oboro="ssd[device=1us; a=1].b"}]'
    known = catalogue.load(written(tmp_path / "c.toml", fields() + row))
    assert catalogue.problems(known, {"ssd": [{"device": "9us"}]}, set(), False) == []
    there = {"ssd": [{"device": "1us", "a": 1, "b": 0}]}
    assert catalogue.problems(known, there, set(), False) == []
    wrong = ["one: no line of ssd has ssd[device=1us; a=1].b"]
    for line in ({"device": "1us", "a": 2, "b": 0}, {"device": "1us", "a": 1}):
        assert catalogue.problems(known, {"ssd": [line]}, set(), True) == wrong


def test_a_missing_test_is_noticed(tmp_path: Path) -> None:
    named = "lab/papers/test_catalogue.py::test_a_missing_test_is_noticed"
    known = catalogue.load(written(tmp_path / "c.toml", fields(tests=[named])))
    assert catalogue.problems(known, {}, set(), False) == []
    # Put together here, so that this file does not contain it.
    known = catalogue.load(written(tmp_path / "c.toml", fields(tests=[named + "_" + "not"])))
    assert len(catalogue.problems(known, {}, set(), False)) == 1


def test_the_allocators_jobs_that_items_speak_of_are_run() -> None:
    spoken_of = set(re.findall(r"alloc\[program~?=([^;\]]*)", catalogue.CATALOGUE.read_text()))
    assert {name for name in spoken_of if not re.search(ALLOC_JOBS, name)} == set()
    assert "walk of 32 KiB" in spoken_of
