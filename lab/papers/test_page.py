"""The page shows every item, stands alone, and runs no script."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from papers import catalogue, charts
from papers.__main__ import NOT_ASKED_FOR, PAGE, REFERENCE, keep_others
from papers.catalogue import Row
from papers.expression import Expression
from papers.page import advantage, card, page
from papers.results import Results
from papers.runner import FAILED, NOT_RUN, PASSED, Outcome
from papers.verdict import Verdict

VOID = {"meta", "input", "br"}
# Elements whose end HTML lets one leave out.
OPEN_ENDED = {"th", "td", "tr", "dt", "dd", "li", "p", "tbody", "thead"}


class Reader(HTMLParser):
    """Collects ids, links and elements, and notices ends without a beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.elements: Counter[str] = Counter()
        self.unbalanced: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.unbalanced[tag] += tag not in VOID
        for name, value in attrs:
            if name == "id" and value:
                self.ids[value] += 1
            if name in ("href", "src") and value:
                self.links.append(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        self.unbalanced[tag] -= 1


@pytest.fixture(scope="module")
def results() -> Results:
    return Results.read(REFERENCE / "results.json")


@pytest.fixture(scope="module")
def read(results: Results) -> Reader:
    reader = Reader()
    reader.feed(page(catalogue.load(), results))
    return reader


def test_every_item_has_its_anchor(read: Reader) -> None:
    for item in catalogue.load().items:
        assert read.ids[item.id] == 1, item.id


def test_links_lead_to_anchors_of_the_page(read: Reader) -> None:
    assert all(link.startswith("#") and read.ids[link[1:]] == 1 for link in read.links)


def test_there_is_no_script_and_nothing_is_fetched(read: Reader) -> None:
    assert not {"script", "link", "img", "iframe", "object"} & set(read.elements)
    assert not re.search(r"url\((?!#)", (REFERENCE / PAGE).read_text())


def test_elements_are_closed(read: Reader) -> None:
    assert {tag: n for tag, n in read.unbalanced.items() if n and tag not in OPEN_ENDED} == {}


def test_the_committed_page_is_that_of_the_committed_results(results: Results) -> None:
    """After a change of catalogue or page: make papers PAPERS=--redraw."""
    assert (REFERENCE / PAGE).read_text() == page(catalogue.load(), results)


def test_text_from_outside_is_escaped(results: Results) -> None:
    hostile = {
        name: replace(outcome, status=FAILED, reason="<script>alert(1)</script>", runs=[])
        for name, outcome in results.steps.items()
    }
    text = page(catalogue.load(), replace(results, steps=hostile))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_what_needs_nodes_is_judged_where_they_are(results: Results) -> None:
    item = next(item for item in catalogue.load().items if item.id == "numa-table-3-2")
    node = results.environment["nodes"][0]
    one, four = (
        replace(results, environment=results.environment | {"nodes": [node] * count})
        for count in (1, 4)
    )
    times = {"table": "3-2", "stride": 100, "nanoseconds": {"ocr": 16, "worst": 19, "best": 10}}
    for each in (one, four):
        each.steps = each.steps | {"numa": replace(each.steps["numa"], runs=[[times]])}
    assert (one.verdict(item), one.judged(item)) == (Verdict.HARDWARE, [])
    assert four.verdict(item) is Verdict.REPRODUCED


def test_what_was_left_for_later_is_built_and_what_has_no_claim_too(results: Results) -> None:
    figures = {"bench": "ssd", "streaming_over_memory": 2.0, "speedup_over_swap": 9.0}
    results = replace(results, steps=dict(results.steps))
    results.steps["ssd"] = replace(results.steps["ssd"], runs=[[figures]])
    items = {item.id: item for item in catalogue.load().items}
    assert results.verdict(items["mining-future"]) is Verdict.BUILT
    assert results.verdict(items["numa-pool"]) is Verdict.BUILT
    assert results.verdict(items["fcmalloc-table-3"]) is Verdict.DESCRIBED
    figures["speedup_over_swap"] = 1.0
    assert results.verdict(items["mining-future"]) is Verdict.CONTRADICTED


def test_claims_of_full_runs_are_not_judged_by_quick_ones(results: Results) -> None:
    item = next(item for item in catalogue.load().items if item.id == "numa-cache")
    cases = ("best", "ocr", "worst")
    times = [
        {"table": table, "stride": stride, "nanoseconds": dict.fromkeys(cases, mean)}
        for table, mean in (("3-2", 40), ("3-3", 10))
        for stride in (1000, 10000)
    ]
    steps = results.steps | {"numa": replace(results.steps["numa"], runs=[times])}
    assert replace(results, quick=True, steps=steps).verdict(item) is Verdict.OPEN
    assert replace(results, quick=False, steps=steps).verdict(item) is Verdict.REPRODUCED


def test_a_bound_that_the_paper_does_not_state_reproduces_nothing(results: Results) -> None:
    item = next(item for item in catalogue.load().items if item.id == "genome-profile")
    profile = {"bench": "genome profile", "arithmetic_share": 0.9}
    steps = results.steps | {"genome": replace(results.steps["genome"], runs=[[profile]])}
    results = replace(results, steps=steps)
    assert results.verdict(item) is Verdict.REPRODUCED
    ours = replace(item, claims=tuple(replace(claim, states="") for claim in item.claims))
    assert results.verdict(ours) is Verdict.HOLDS
    profile["arithmetic_share"] = 0.7
    assert results.verdict(ours) is Verdict.CONTRADICTED


def test_a_claim_shows_whose_bound_it_is_and_a_verdict_how_many_claims_it_rests_on(
    results: Results,
) -> None:
    item = next(item for item in catalogue.load().items if item.id == "genome-profile")
    [stated] = item.claims
    ours = replace(stated, states="", at_least=0.3)
    profile = {"bench": "genome profile", "arithmetic_share": 0.5}
    steps = results.steps | {"genome": replace(results.steps["genome"], runs=[[profile]])}
    text = card(replace(item, claims=(stated, ours)), replace(results, steps=steps))
    assert f"<small>the paper: {stated.states}</small>" in text
    assert text.count("≥ 0.3 <small>ours</small>") == text.count("<small>ours</small>") == 1
    assert "contradicted: 1 of 2 claims" in text


def test_each_variant_is_compared_with_the_best_peer() -> None:
    of = {"a": "alloc.a", "b": "alloc.b", "ours": "alloc.c", "ours, tuned": "alloc.d"}
    here = {name: Expression.parse(text) for name, text in of.items()}
    row = Row("r", peers={n: here[n] for n in "ab"}, oboro={n: here[n] for n in of if "ours" in n})
    found = {"a": 2.0, "b": 3.0, "ours": 4.0, "ours, tuned": 1.0}
    assert "behind>0.5×" in advantage(row, found, "ours")
    assert "ahead>2×" in advantage(row, found, "ours, tuned")
    assert advantage(row, found, "a") == ""


def test_a_page_without_any_step_says_what_is_missing(results: Results) -> None:
    none = {
        name: replace(outcome, status=FAILED, reason="broke", runs=[])
        for name, outcome in results.steps.items()
    }
    text = page(catalogue.load(), replace(results, steps=none))
    assert re.search(r"<code>numa</code> failed: broke", text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0175, "0.0175"),
        (2.435, "2.44"),
        (37.7, "37.7"),
        (306.1, "306"),
        (324972, "324,972"),
        (0.9996, "1"),
        (1.5e9, "1.5·10⁹"),
        (1e10, "10¹⁰"),
        (2.2e-5, "2.2·10⁻⁵"),
    ],
)
def test_numbers_have_three_digits_that_matter(value: float, text: str) -> None:
    assert charts.short(value) == text


def test_a_new_reference_keeps_the_steps_that_did_not_run_again(results: Results) -> None:
    kept = results.steps["numa"]
    new = Outcome(kept.title, kept.command, PASSED, date="later")
    outcomes = {name: Outcome("", "", NOT_RUN, NOT_ASKED_FOR) for name in results.steps}
    now = replace(results, steps=outcomes | {"alloc": new})
    keep_others(now, results)
    assert (now.steps["numa"], now.steps["alloc"]) == (kept, new)
    elsewhere = results.environment | {"cores": 72}
    other = replace(results, steps=dict(outcomes), environment=elsewhere)
    keep_others(other, results)
    assert {outcome.status for outcome in other.steps.values()} == {NOT_RUN}
