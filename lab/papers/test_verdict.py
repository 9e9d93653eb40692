"""Verdicts follow from ratios by the rule that verdict.py states."""

from __future__ import annotations

import pytest

from papers.verdict import Verdict, band, of_ratio, worst


@pytest.mark.parametrize(
    ("paper", "here", "verdict"),
    [
        (4.0, 4.0, Verdict.REPRODUCED),
        (4.0, 2.01, Verdict.REPRODUCED),
        (4.0, 7.9, Verdict.REPRODUCED),
        (4.0, 1.9, Verdict.DIRECTION),
        (4.0, 8.1, Verdict.DIRECTION),
        (4.0, 1.0, Verdict.CONTRADICTED),
        (4.0, 0.9, Verdict.CONTRADICTED),
        (0.25, 0.25, Verdict.REPRODUCED),
        (0.25, 0.6, Verdict.DIRECTION),
        (0.25, 1.1, Verdict.CONTRADICTED),
        (61.8, 1.001, Verdict.CONTRADICTED),
        (2.44, 1.05, Verdict.CONTRADICTED),
        (0.4, 0.95, Verdict.CONTRADICTED),
        (1.15, 1.08, Verdict.CONTRADICTED),
        (1.04, 1.04, Verdict.OPEN),
        (1.0, 1.05, Verdict.REPRODUCED),
        (1.0, 1.2, Verdict.CONTRADICTED),
        (4.0, 0.0, Verdict.CONTRADICTED),
    ],
)
def test_ratios(paper: float, here: float, verdict: Verdict) -> None:
    assert of_ratio(paper, here) is verdict


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        (None, Verdict.OPEN),
        ((0.99, 1.06), Verdict.OPEN),
        ((1.02, 1.06), Verdict.REPRODUCED),
        ((0.94, 0.98), Verdict.CONTRADICTED),
    ],
)
def test_a_small_effect_needs_runs_that_agree(
    runs: tuple[float, float] | None, verdict: Verdict
) -> None:
    here = 1.0 if runs is None else (runs[0] + runs[1]) / 2
    assert of_ratio(1.04, here, runs) is verdict


@pytest.mark.parametrize("paper", [0.3, 0.88, 1.0, 1.15, 2.44, 60.0])
def test_the_band_that_is_drawn_is_that_of_the_rule(paper: float) -> None:
    low, high = band(paper)
    assert of_ratio(paper, low * 1.001) is of_ratio(paper, high * 0.999) is Verdict.REPRODUCED
    assert Verdict.REPRODUCED not in (of_ratio(paper, low * 0.99), of_ratio(paper, high * 1.01))


def test_an_item_is_as_good_as_its_worst_claim() -> None:
    assert worst([Verdict.REPRODUCED, Verdict.DIRECTION]) is Verdict.DIRECTION
    assert worst([Verdict.CONTRADICTED, Verdict.REPRODUCED]) is Verdict.CONTRADICTED
    assert worst([Verdict.OPEN, Verdict.REPRODUCED]) is Verdict.REPRODUCED
    assert worst([Verdict.OPEN]) is Verdict.OPEN
