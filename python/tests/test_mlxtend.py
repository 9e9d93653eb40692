"""Calls that are mlxtend's: the same frames come back, to the last bit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import mlxtend.frequent_patterns as theirs
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import oboro.frequent_patterns as ours
from oboro.errors import InputError, MissingArgumentError, NotGivenError

MEASURES = [
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
KINDS: list[Callable[[pd.DataFrame], pd.DataFrame]] = [
    lambda frame: frame,
    lambda frame: frame.astype(int),
    lambda frame: frame.astype("uint8"),
    lambda frame: frame.astype(float),
    lambda frame: frame.astype(pd.SparseDtype(bool, False)),
    lambda frame: frame.astype(pd.SparseDtype(int, 0)),
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


def without_warnings(call: Callable[..., pd.DataFrame], *args: Any, **options: Any) -> pd.DataFrame:
    """mlxtend's of dividing by zero, and of frames that are not bool."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **options)


def both_rules(*args: Any, **options: Any) -> None:
    expected = without_warnings(theirs.association_rules, *args, **options)
    assert_frame_equal(ours.association_rules(*args, **options), expected, check_exact=True)


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
        metric=data.draw(st.sampled_from(MEASURES)),
        min_threshold=data.draw(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, 2.0])),
        support_only=data.draw(st.booleans()),
        return_metrics=data.draw(st.lists(st.sampled_from(MEASURES), unique=True)),
    )


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_rules_where_entries_are_missing_are_mlxtends(data: st.DataObject) -> None:
    frame = data.draw(frames(most_rows=12, most_columns=4)).astype(float)
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    frame = frame.mask(random.random(frame.shape) < 0.3)
    by_name = data.draw(st.booleans()) and isinstance(frame.columns[0], str)
    itemsets = without_warnings(
        theirs.fpgrowth, frame, 0.1, use_colnames=by_name, null_values=True
    ).reset_index(drop=True)
    if itemsets.empty or len(frame) == 1:
        return
    # What is missing lets mlxtend find itemsets without all of their parts.
    complete = set(itemsets["itemsets"])
    for itemset in itemsets["itemsets"]:
        if any(itemset - {item} and itemset - {item} not in complete for item in itemset):
            return
    both_rules(
        itemsets,
        len(frame),
        frame,
        null_values=True,
        metric=data.draw(st.sampled_from(MEASURES)),
        min_threshold=data.draw(st.sampled_from([-1.0, 0.0, 0.5])),
    )


def some_itemsets() -> pd.DataFrame:
    frame = pd.DataFrame({"a": [1, 1, 0], "b": [1, 0, 1], "c": [1, 1, 1]}).astype(bool)
    return theirs.apriori(frame, 0.3, use_colnames=True)


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
    with pytest.raises(InputError, match="'elevation' is no measure; there are antecedent support"):
        ours.association_rules(itemsets, metric="elevation")
    with pytest.raises(InputError, match="'height' is no measure"):
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
