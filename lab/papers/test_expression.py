"""References find the figures that they name, and nothing else."""

from __future__ import annotations

import pytest

from papers.expression import Expression, Lines, Reference, Unwritable

LINES: Lines = {
    "a": [
        {"kind": "x", "n": 1, "ok": True, "t": {"s": 2.0}, "runs": [1.0, 3.0]},
        {"kind": "x", "n": 2, "ok": False, "t": {"s": 4.0}},
        {"kind": "y, z", "n": 3, "t": {"s.d": 8.0}, "list": [{"v": 5}]},
    ],
    "b": [{"v": 0.5}, {"zero": 0}],
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a[kind=x].t.s", 3.0),
        ("max a[kind=x].t.s", 4.0),
        ("last a.n", 3.0),
        ("a[kind=x; n=2].t.s", 4.0),
        ("a[ok=true].n", 1.0),
        ("a[kind~=, z].n", 3.0),
        ("a[kind~=w].n", None),
        ("a[kind=y, z].t.s.d", 8.0),
        ("a.list.0.v", 5.0),
        ("a.list.v=5.v", 5.0),
        ("a.list.v=6.v", None),
        ("a.runs", 2.0),
        ("a.t.s less n", 1.5),
        ("a.t.s less missing", None),
        ("sum a.n / b.v", 12.0),
        ("b.v * 4", 2.0),
        ("128", 128.0),
        ("a[n=9].n", None),
        ("a.missing", None),
        ("none.n", None),
        ("b.v / b.zero", None),
    ],
)
def test_values(text: str, value: float | None) -> None:
    assert Expression.parse(text).value(LINES) == value


def test_single_runs_are_kept_where_they_can_be_told() -> None:
    assert Expression.parse("a.runs").runs(LINES) == [1.0, 3.0]
    assert Expression.parse("a[kind=x].t.s * 2").runs(LINES) == [4.0, 8.0]
    assert Expression.parse("1 / b.v").runs(LINES) == [2.0]
    assert Expression.parse("sum a.n / b.v").runs(LINES) == [12.0]
    assert Expression.parse("a.missing").runs(LINES) == []


def test_extremes_need_runs_enough() -> None:
    lines = {"a": [{"v": v, "w": 2 * v} for v in (1, 2, 3, 4)], "b": [{"v": 1}]}
    assert Expression.parse("a.v / a.w").extremes(lines) == (1 / 8, 2)
    assert Expression.parse("a.v * 10").extremes(lines) == (10, 40)
    assert Expression.parse("a.v / b.v").extremes(lines) is None


def test_facts_may_be_anything() -> None:
    assert Expression.parse("a[n=2].ok").fact(LINES) is False
    with pytest.raises(Unwritable, match="not a number"):
        Expression.parse("a[n=2].ok").value(LINES)


@pytest.mark.parametrize("text", ["", "a", "a.", "A.b", "a[b.c", "a[b].c", "a.b / "])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(Unwritable):
        Expression.parse(text)


def test_steps_are_those_of_all_references() -> None:
    assert Expression.parse("a.n / b.v * 3").steps == ["a", "b"]
    assert Reference.parse("a[b=c=d].e").where == (("b", "c=d"),)
