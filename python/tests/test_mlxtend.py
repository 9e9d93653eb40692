"""Calls that are mlxtend's: the same frames come back, to the last bit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from datetime import date
from itertools import combinations
from typing import Any

import mlxtend.frequent_patterns as theirs
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from polars.testing import assert_frame_equal as assert_polars_equal

import oboro.frequent_patterns as ours
from oboro.errors import InputError, MissingArgumentError, NotGivenError

METRICS = [
    "antecedent support",
    "consequent support",
    "support",
    "confidence",
    "lift",
    "representativity",
    "leverage",
    "conviction",
    "zhangs_metric",
    "jaccard",
    "certainty",
    "kulczynski",
]
# Of sparse frames, mlxtend takes few that have integers as labels.
KINDS: list[Callable[[pd.DataFrame], pd.DataFrame]] = [
    lambda frame: frame,
    lambda frame: frame.astype(int),
    lambda frame: frame.astype("uint8"),
    lambda frame: frame.astype(float),
    lambda frame: frame.rename(columns=str).astype(pd.SparseDtype(bool, False)),
    lambda frame: frame.rename(columns=str).astype(pd.SparseDtype(int, 0)),
]


@st.composite
def frames(draw: st.DrawFn, most_rows: int = 60, most_columns: int = 9) -> pd.DataFrame:
    """One-hot, of any density, labelled with text or integers."""
    rows = draw(st.integers(1, most_rows))
    columns = draw(st.integers(1, most_columns))
    share = draw(st.sampled_from([0.0, 0.1, 0.5, 0.8, 1.0]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    word = st.text(min_size=1, max_size=3)
    words = st.lists(word, min_size=columns, max_size=columns, unique=True)
    labels = draw(st.one_of(words, st.permutations(range(columns))))
    return pd.DataFrame(random.random((rows, columns)) < share, columns=labels)


def min_supports(rows: int) -> st.SearchStrategy[float]:
    """Those that a support can equal, too, and be just below."""
    shares = st.integers(1, rows).map(lambda count: count / rows)
    below = shares.map(lambda share: math.nextafter(share, 1)).filter(lambda share: share <= 1)
    return st.one_of(shares, below, st.floats(0.01, 1))


def one_threshold(rows: int) -> Callable[[float], bool]:
    """Whether a minimum support is one threshold for mlxtend's fpgrowth and fpmax.

    They search with ceil(min_support × rows) and then drop what is below min_support. Where
    rounding makes these differ, as with 0.56 of 25 transactions, they lose frequent itemsets.
    """

    def check(min_support: float) -> bool:
        least = next(count for count in range(rows + 1) if count / rows >= min_support)
        return math.ceil(min_support * rows) == least

    return check


def without_warnings(call: Callable[..., pd.DataFrame], *args: Any, **options: Any) -> pd.DataFrame:
    """mlxtend's of dividing by zero, and of frames that are not bool."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **options)


def both_rules(*args: Any, **options: Any) -> None:
    expected = without_warnings(theirs.association_rules, *args, **options)
    assert_frame_equal(ours.association_rules(*args, **options), expected, check_exact=True)


def both_itemsets(frame: pd.DataFrame, *args: Any, **options: Any) -> pd.DataFrame:
    expected = without_warnings(theirs.apriori, frame, *args, **options)
    found = ours.apriori(frame, *args, **options)
    assert_frame_equal(found, expected, check_exact=True)
    return found


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_itemsets_are_mlxtends(data: st.DataObject) -> None:
    frame = data.draw(frames())
    found = both_itemsets(
        data.draw(st.sampled_from(KINDS))(frame),
        data.draw(min_supports(len(frame))),
        data.draw(st.booleans()),
        data.draw(st.one_of(st.none(), st.integers(1, 12))),
    )
    if len(found) > 0:
        same = theirs.apriori(frame, found["support"].min(), use_colnames=True)
        again = ours.apriori(frame, found["support"].min(), use_colnames=True)
        rules = without_warnings(theirs.association_rules, same, min_threshold=0.1)
        assert_frame_equal(ours.association_rules(again, min_threshold=0.1), rules)


def test_frames_at_the_edge_have_mlxtends_itemsets() -> None:
    everything = pd.DataFrame(np.ones((1, 7), dtype=bool))
    assert len(both_itemsets(everything, 1.0)) == 127
    nothing = pd.DataFrame(np.zeros((3, 2), dtype=bool), columns=["a", "b"])
    assert both_itemsets(nothing, 0.1).empty
    assert both_itemsets(nothing.iloc[:0], 0.1, use_colnames=True).empty
    assert both_itemsets(nothing[[]], 0.1).empty
    assert both_itemsets(pd.DataFrame(), 0.1).empty
    assert both_itemsets(everything.astype(pd.SparseDtype(bool, False)).iloc[:0]).empty
    numbered = pd.DataFrame([[1, 1, 0], [1, 0, 1]], columns=[30, 7, 8])
    assert both_itemsets(numbered, 0.5, use_colnames=True)["itemsets"][3] == {30, 7}


def test_itemsets_say_what_they_took() -> None:
    found = ours.apriori(pd.DataFrame({"a": [True, False], "b": [True, True]}), 0.5)
    levels = found.attrs["oboro"]["levels"]
    assert [(level["level"], level["frequent"]) for level in levels] == [(1, 2), (2, 1)]


@pytest.mark.parametrize("min_support", [0, -0.5, 1.5, math.nan])
def test_a_minimum_support_is_a_share(min_support: float) -> None:
    for algorithm in (ours.apriori, ours.fpgrowth, ours.fpmax):
        with pytest.raises(InputError, match="must be a positive number within"):
            algorithm(pd.DataFrame({"a": [True]}), min_support)


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (pd.DataFrame({"a": [1, 0], "tea": [1, None]}), "tea"),
        (pd.DataFrame({"a": [1, 0], "tea": [1, 2]}), "tea"),
        (pd.DataFrame({"a": [1, 0], "tea": ["x", "y"]}), "tea"),
        (pd.DataFrame([[True, True]], columns=["tea", "tea"]), "tea"),
        (pd.DataFrame([[True, True]], columns=["tea", 1]), r"map\(str\)"),
        (pd.DataFrame([[True, True]], columns=[0.5, 1.5]), r"map\(str\)"),
    ],
)
def test_frames_that_are_not_one_hot_are_refused(frame: pd.DataFrame, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        ours.apriori(frame)


def by_itemset(found: pd.DataFrame) -> dict[frozenset[Any], float]:
    supports = dict(zip(found["itemsets"], found["support"].tolist(), strict=True))
    assert len(supports) == len(found)
    return supports


def with_gaps(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return frame.astype(float).mask(random.random(frame.shape) < 0.2)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_itemsets_of_other_names_are_mlxtends_in_the_order_of_apriori(data: st.DataObject) -> None:
    frame = data.draw(frames(most_rows=30, most_columns=6))
    options: dict[str, Any] = {
        "min_support": data.draw(min_supports(len(frame)).filter(one_threshold(len(frame)))),
        "null_values": data.draw(st.booleans()),
        "use_colnames": data.draw(st.booleans()),
    }
    if options["null_values"]:
        frame = with_gaps(frame, data.draw(st.integers(0, 2**32)))
    max_len = data.draw(st.one_of(st.none(), st.integers(1, 4)))
    found = ours.fpgrowth(frame, **options, max_len=max_len)
    expected = without_warnings(theirs.fpgrowth, frame, **options, max_len=max_len)
    assert by_itemset(found) == by_itemset(expected)
    if not options.pop("null_values"):
        assert_frame_equal(found, ours.apriori(frame, **options, max_len=max_len))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_maximal_itemsets_are_mlxtends(data: st.DataObject) -> None:
    frame = data.draw(frames(most_rows=30, most_columns=6))
    options: dict[str, Any] = {
        "min_support": data.draw(min_supports(len(frame)).filter(one_threshold(len(frame)))),
        "null_values": data.draw(st.booleans()),
        "use_colnames": data.draw(st.booleans()),
    }
    if options["null_values"]:
        frame = with_gaps(frame, data.draw(st.integers(0, 2**32)))
    expected = by_itemset(without_warnings(theirs.fpmax, frame, **options))
    assert by_itemset(ours.fpmax(frame, **options)) == expected
    # mlxtend's own search with a length stops before it knows which itemsets are maximal.
    for longest in (1, 2, 3):
        shorter = {it: support for it, support in expected.items() if len(it) <= longest}
        assert by_itemset(ours.fpmax(frame, **options, max_len=longest)) == shorter


def test_rounding_of_the_threshold_loses_nothing() -> None:
    """0.56 × 25 is 14.000000000000002: mlxtend asks for 15 transactions, which are 0.6 of them."""
    frame = pd.DataFrame([[1, 1]] * 14 + [[1, 0], [0, 1]] + [[0, 0]] * 9).astype(bool)
    assert not one_threshold(25)(0.56)
    pair, first, second = frozenset({0, 1}), frozenset({0}), frozenset({1})
    assert by_itemset(theirs.fpmax(frame, 0.56)) == {first: 0.6, second: 0.6}
    assert by_itemset(ours.fpmax(frame, 0.56)) == {pair: 0.56}
    assert pair not in by_itemset(theirs.fpgrowth(frame, 0.56))
    assert by_itemset(ours.fpgrowth(frame, 0.56)) == {first: 0.6, second: 0.6, pair: 0.56}
    assert by_itemset(theirs.apriori(frame, 0.56)) == by_itemset(ours.apriori(frame, 0.56))


def test_missing_entries_are_refused_unless_they_may_be_there() -> None:
    frame = pd.DataFrame({"a": [1, None, 0], "tea": [1, 1, None]})
    for algorithm in (ours.apriori, ours.fpgrowth, ours.fpmax):
        with pytest.raises(InputError, match="column 'a' has no value in row 1"):
            algorithm(frame)
    for missing in (frame, frame.astype("boolean"), frame.astype(object), frame.astype("Int8")):
        found = ours.fpgrowth(missing, 0.6, null_values=True, use_colnames=True)
        # tea was recorded twice and is there twice; both together once, and are there once.
        assert by_itemset(found) == {frozenset({"tea"}): 1.0}
    with pytest.raises(InputError, match=r"column 'a' of `df` has .*2.* in row 0"):
        ours.fpgrowth(frame.replace({"a": 1}, 2), null_values=True)
    nowhere = pd.DataFrame({"a": [None, None]}, dtype=float)
    assert ours.fpgrowth(nowhere, null_values=True).empty


LABELS: list[list[Any]] = [
    [("fruit", "apple"), ("fruit", "pear"), ("tea", 1)],
    [pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-02 12:30"), pd.Timestamp("2026-01-03")],
    [date(2026, 1, 1), date(2026, 2, 1), date(2026, 3, 1)],
    list(pd.period_range("2026-01", periods=3, freq="M")),
    [("shop", pd.Timestamp("2026-01-01")), ("shop", date(2026, 1, 2)), ("b", 2)],
]


@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_labels_may_be_dates_and_tuples(labels: list[Any]) -> None:
    frame = pd.DataFrame([[1, 1, 0], [1, 1, 1], [1, 0, 1]], columns=pd.Index(labels)).astype(bool)
    found = both_itemsets(frame, 0.5, use_colnames=True)
    assert frozenset(frame.columns[:2]) in set(found["itemsets"])
    both_itemsets(frame, 0.5)
    rules = without_warnings(theirs.association_rules, found, min_threshold=0.1)
    assert_frame_equal(ours.association_rules(found, min_threshold=0.1), rules)


def test_rules_of_items_whose_hashes_collide_are_in_mlxtends_order() -> None:
    frame = pd.DataFrame({7: [True, True], 15: [True, True]})
    for columns in ([7, 15], [15, 7]):
        itemsets = ours.apriori(frame[columns], use_colnames=True)
        rules = without_warnings(theirs.association_rules, itemsets, min_threshold=0.1)
        assert_frame_equal(ours.association_rules(itemsets, min_threshold=0.1), rules)


def in_order(rules: pl.DataFrame) -> pl.DataFrame:
    sides = rules.select("antecedents", "consequents").rows()
    return rules[sorted(range(len(rules)), key=lambda row: str(sides[row]))]


def as_sets(frame: pl.DataFrame, column: str) -> list[frozenset[Any]]:
    return [frozenset(it) for it in frame[column].to_list()]


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_frames_of_polars_come_back_as_such(data: st.DataObject) -> None:
    frame = data.draw(frames(most_columns=5)).rename(columns=str)
    given = pl.DataFrame({name: frame[name].to_numpy() for name in frame})
    options: dict[str, Any] = {"min_support": data.draw(min_supports(len(frame)))}
    options["use_colnames"] = data.draw(st.booleans())
    for algorithm in (ours.apriori, ours.fpgrowth, ours.fpmax):
        found, expected = algorithm(given, **options), algorithm(frame, **options)
        assert isinstance(found, pl.DataFrame)
        assert found.columns == ["support", "itemsets"]
        assert found["support"].to_list() == expected["support"].tolist()
        assert as_sets(found, "itemsets") == expected["itemsets"].tolist()
    found, expected = ours.apriori(given, **options), ours.apriori(frame, **options)
    if len(found) == 0:
        return
    rules = ours.association_rules(found, min_threshold=0.1)
    frozen = ours.association_rules(expected, min_threshold=0.1)
    assert isinstance(rules, pl.DataFrame)
    assert rules.columns == list(frozen.columns)
    # `found` has lists and `expected` has sets, in whose order rules of an itemset are.
    assert_polars_equal(in_order(rules), in_order(ours.to_polars(frozen)))


def test_frames_of_polars_may_have_missing_entries() -> None:
    frame = pl.DataFrame({"a": [True, None, False], "tea": [1, 1, None]})
    found = ours.fpgrowth(frame, 0.6, null_values=True, use_colnames=True)
    assert found.rows() == [(1.0, ["tea"])]
    itemsets = pl.DataFrame(
        {"support": [0.5, 1.0, 0.5], "itemsets": [["a"], ["tea"], ["a", "tea"]]}
    )
    rules = ours.association_rules(itemsets, 3, frame, null_values=True, min_threshold=0.0)
    assert len(rules) == 2
    with pytest.raises(InputError, match=r"give frame\.collect\(\)"):
        ours.apriori(frame.lazy())  # type: ignore[type-var]
    with pytest.raises(InputError, match=r"pandas or polars is needed, not ndarray"):
        ours.apriori(np.ones((2, 2)))  # type: ignore[type-var]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_rules_are_mlxtends(data: st.DataObject) -> None:
    frame = data.draw(frames(most_columns=7))
    min_support = data.draw(min_supports(len(frame)))
    itemsets = theirs.apriori(frame, min_support, use_colnames=data.draw(st.booleans()))
    if data.draw(st.booleans()):
        itemsets = itemsets.sample(frac=1, random_state=data.draw(st.integers(0, 99)))
    if itemsets.empty:
        with pytest.raises(InputError, match="no itemsets"):
            ours.association_rules(itemsets)
        return
    both_rules(
        itemsets,
        len(frame),
        metric=data.draw(st.sampled_from(METRICS)),
        min_threshold=data.draw(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, 2.0])),
        support_only=data.draw(st.booleans()),
        return_metrics=data.draw(st.lists(st.sampled_from(METRICS), unique=True)),
    )


def test_metrics_say_what_they_are() -> None:
    assert ours.METRICS.keys() >= set(METRICS)
    assert ours.METRICS["antecedent support"] == "supp(A); from 0 to 1"
    found = ours.association_rules(some_itemsets(), return_metrics=list(ours.METRICS))
    assert list(found.columns[2:]) == list(ours.METRICS)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_rules_where_entries_are_missing_are_mlxtends(data: st.DataObject) -> None:
    frame = data.draw(frames(most_rows=12, most_columns=4)).astype(float)
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    frame = frame.mask(random.random(frame.shape) < 0.3)
    # Labels that are integers are taken for numbers of columns.
    sets = [set(chosen) for size in range(1, 5) for chosen in combinations(frame.columns, size)]
    itemsets = pd.DataFrame({"support": random.random(len(sets)), "itemsets": sets})
    both_rules(
        itemsets,
        # That one transaction was mined cannot be said.
        max(2, len(frame)),
        frame,
        null_values=True,
        metric=data.draw(st.sampled_from(METRICS)),
        min_threshold=data.draw(st.sampled_from([-1.0, 0.0, 0.5])),
    )


def some_itemsets() -> pd.DataFrame:
    frame = pd.DataFrame({"a": [1, 1, 0], "b": [1, 0, 1], "c": [1, 1, 1]}).astype(bool)
    itemsets: pd.DataFrame = theirs.apriori(frame, 0.3, use_colnames=True)
    return itemsets


def test_rules_are_made_of_any_collections_and_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    itemsets = some_itemsets()
    both_rules(itemsets.assign(itemsets=itemsets["itemsets"].map(sorted)), min_threshold=0)
    both_rules(itemsets.assign(support=itemsets["support"].astype("Float64")), min_threshold=0)
    both_rules(pd.concat([itemsets, itemsets.assign(support=0.1)]), min_threshold=0)
    monkeypatch.setattr("oboro._rules._PORTION", 1)
    both_rules(itemsets, min_threshold=0)


def test_rules_need_the_supports_of_their_parts() -> None:
    itemsets = some_itemsets()
    incomplete = itemsets[itemsets["itemsets"] != frozenset("b")]
    with pytest.raises(NotGivenError, match=r"^the support of \{'b'\} is needed"):
        ours.association_rules(incomplete)
    with pytest.raises(KeyError):
        ours.association_rules(itemsets.iloc[-1:])
    with pytest.raises(NotGivenError, match="support_only=True"):
        ours.association_rules(pd.DataFrame({"support": [0.5], "itemsets": [set(range(80))]}))
    both_rules(incomplete, support_only=True, min_threshold=0.3)


def test_what_rules_cannot_be_made_of_is_said() -> None:
    itemsets = some_itemsets()
    with pytest.raises(InputError, match="'support' and 'itemsets'"):
        ours.association_rules(itemsets[["support"]])
    with pytest.raises(InputError, match="'elevation' is not a metric; give one of antecedent"):
        ours.association_rules(itemsets, metric="elevation")
    with pytest.raises(InputError, match="'height' is not a metric"):
        ours.association_rules(itemsets, return_metrics=["height"])
    with pytest.raises(InputError, match="sets as itemsets"):
        ours.association_rules(pd.DataFrame({"support": [0.5], "itemsets": [7]}))


def test_what_is_wrong_with_missing_entries_is_said() -> None:
    itemsets = some_itemsets()
    frame = pd.DataFrame({"a": [1, None, 0], "b": [1, 0, 1], "c": [1, 1, 1]})
    with pytest.raises(MissingArgumentError, match="needs df_orig and num_itemsets"):
        ours.association_rules(itemsets, 3, null_values=True)
    with pytest.raises(TypeError):
        ours.association_rules(itemsets, df_orig=frame, null_values=True)
    with pytest.raises(InputError, match=r"column 'a' of `df_orig` has .*nan.* in row 1"):
        ours.association_rules(itemsets, 3, frame)
    with pytest.raises(InputError, match=r"column 'c' of `df_orig` has .*2.* in row 0"):
        ours.association_rules(itemsets, 3, frame.replace({"c": 1}, 2), null_values=True)
    with pytest.raises(NotGivenError, match="'c' is no column of `df_orig`"):
        ours.association_rules(itemsets, 3, frame[["a", "b"]], null_values=True)
