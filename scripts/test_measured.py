"""README's table and chart are those of docs/measured.json, and benches refresh its figures."""

from __future__ import annotations

import pytest

import measured


def test_readme_and_chart_are_of_the_figures() -> None:
    figures = measured.read()
    readme = measured.README.read_text()
    assert measured.with_table(readme, figures) == readme, "run scripts/measured.py"
    assert measured.CHART.read_text() == measured.chart(figures), "run scripts/measured.py"
    assert len(measured.FIGURES.read_text().splitlines()) <= 100
    assert len(measured.ROWS) <= 8


def test_every_figure_is_shown_and_has_its_origin() -> None:
    figures = measured.read()
    for name, figure in figures.items():
        assert {"value", "source", "machine", "date"} <= figure.keys()
        changed = {**figures, name: {**figure, "value": figure["value"] * 3}}
        shown = (measured.table(changed), measured.chart(changed))
        assert shown != (measured.table(figures), measured.chart(figures)), name


def test_a_bench_refreshes_its_figures_alone() -> None:
    here = {"source": "make bench-a", "field": "a[b=c].s", "machine": "old", "date": "2025-01-01"}
    figures = {
        "measured": {"value": 1.0, **here},
        "of another bench": {"value": 2.0, **here, "field": "z.s"},
        "of a paper": {"value": 3.0, "source": "Table 6", "machine": "theirs", "date": "undated"},
    }
    before = {name: dict(figure) for name, figure in figures.items()}
    measured.refresh(figures, {"a": [{"b": "c", "s": 0.123456}]}, "new", "2026-01-01")
    assert figures.pop("measured") == {
        **here,
        "value": 0.1235,
        "machine": "new",
        "date": "2026-01-01",
    }
    del before["measured"]
    assert figures == before


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.01749, 2, "0.017"), (15.48, 3, "15.5"), (9.96, 2, "10"), (2142.0, 4, "2,142"), (0, 2, "0")],
)
def test_rounding(value: float, digits: int, text: str) -> None:
    assert format(measured.Rounded(value), str(digits)) == text
