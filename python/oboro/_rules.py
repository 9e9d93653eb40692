"""Rules over frequent itemsets and the terms of their metrics, many rules at a time.

An itemset is represented by its index among those given. Its items have codes, and its parent is
the itemset without its last code. A few searches therefore find the indices of all parts, for all
itemsets of a length at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from oboro.errors import NotGivenError

Itemset = frozenset[Hashable]
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

# The batch sizes: rules whose metrics are computed together, and booleans compared together.
_PORTION = 1 << 19
_CELLS = 1 << 24
# The parent of the itemsets of one item.
_TOP = -1


class Rules(NamedTuple):
    """Rules, each as the indices of three itemsets."""

    union: Numbers
    antecedent: Numbers
    consequent: Numbers


class Terms(NamedTuple):
    """Inputs of metrics, with an entry for each rule: supports as fractions, and numbers of
    transactions in which an item was not recorded."""

    union: Floats
    antecedent: Floats
    consequent: Floats
    unknown_union: Floats
    unknown_antecedent: Floats
    unknown_consequent: Floats
    # Where the other side of the rule is present.
    only_consequent_unknown: Floats
    only_antecedent_unknown: Floats


def antecedents_of(items: Iterable[Hashable]) -> Iterator[Itemset]:
    """Yield the antecedents of the rules of an itemset."""
    items = list(items)
    sizes = range(len(items) - 1, 0, -1)
    return (frozenset(chosen) for size in sizes for chosen in combinations(items, size))


@cache
def _patterns(length: int) -> Numbers:
    """Return the antecedents of an itemset's rules, as rows with a one at each of its positions."""
    places = range(length)
    rows = [[place in part for place in places] for part in antecedents_of(places)]
    return np.array(rows, dtype=np.int64)


class Itemsets:
    """Distinct itemsets that include all parts of their rules."""

    def __init__(self, itemsets: Sequence[Itemset]) -> None:
        codes: dict[Hashable, int] = {}
        coded = (codes.setdefault(item, len(codes)) for itemset in itemsets for item in itemset)
        self._coded = np.fromiter(coded, dtype=np.int64)
        self._lengths = np.fromiter(map(len, itemsets), dtype=np.int64)
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._items = list(codes)
        self._itemsets = itemsets
        self._numbers = {itemset: number for number, itemset in enumerate(itemsets)}
        self._branches, self._below = self._hang()

    def _branch(self, parent: Any, code: Any) -> Any:
        return (parent + 1) * len(self._items) + code

    def _hang(self) -> tuple[Numbers, Numbers]:
        """Return ascending branches and their itemsets, whose parents were given."""
        branches = [(np.iinfo(np.int64).max, _TOP)]
        parents: dict[Itemset, int] = {**self._numbers, frozenset(): _TOP}
        for number, itemset in enumerate(self._itemsets):
            if itemset:
                start = self._starts[number]
                last = int(self._coded[start : start + len(itemset)].max())
                parent = parents.get(itemset - {self._items[last]})
                if parent is not None:
                    branches.append((self._branch(parent, last), number))
        ends, hung = np.array(sorted(branches), dtype=np.int64).T.copy()
        return ends, hung

    def rules(self) -> Iterator[Rules]:
        """Yield all rules in batches, ordered by itemset, longer antecedents first, and those of
        one length in the order of `itertools.combinations`.

        Raises:
            NotGivenError: an antecedent or consequent is not among the itemsets.
        """
        too_many_parts = self._lengths > len(self._itemsets).bit_length()
        if too_many_parts.any():
            raise self._incomplete(int(too_many_parts.argmax()))
        counts = np.maximum(2**self._lengths - 2, 0)
        ends = np.cumsum(counts)
        first = 0
        while first < len(counts):
            begun = ends[first] - counts[first]
            after = int(np.searchsorted(ends, begun + _PORTION, side="right"))
            after = max(first + 1, after)
            chosen = first + np.flatnonzero(counts[first:after])
            yield self._rules_of(chosen, (ends - counts)[chosen] - begun)
            first = after

    def _rules_of(self, chosen: Numbers, places: Numbers) -> Rules:
        """Return the rules of these itemsets, those of each from its index on."""
        lengths = self._lengths[chosen]
        rules = Rules(*np.empty((3, int((2**lengths - 2).sum())), dtype=np.int64))
        for length in np.unique(lengths).tolist():
            itemsets = chosen[lengths == length]
            coded = self._coded[self._starts[itemsets][:, None] + np.arange(length)]
            numbers = self._numbers_of_parts(itemsets, np.sort(coded, axis=1))
            patterns = _patterns(length)
            parts = (1 << np.argsort(np.argsort(coded, axis=1), axis=1)) @ patterns.T
            into = places[lengths == length][:, None] + np.arange(len(patterns))
            rules.union[into] = itemsets[:, None]
            rules.antecedent[into] = np.take_along_axis(numbers, parts, axis=1)
            rules.consequent[into] = np.take_along_axis(numbers, (1 << length) - 1 - parts, axis=1)
        return rules

    def _numbers_of_parts(self, itemsets: Numbers, coded: Numbers) -> Numbers:
        """Return the indices of all parts of itemsets of a length, given also as rows of ascending
        codes. Column 0b101 has the index of the part with the first code and the third."""
        numbers = np.full((len(coded), 1), _TOP, dtype=np.int64)
        for codes in coded.T:
            wanted = self._branch(numbers, codes[:, None])
            found = np.searchsorted(self._branches, wanted)
            lacking = (self._branches[found] != wanted).any(axis=1)
            if lacking.any():
                raise self._incomplete(int(itemsets[lacking.argmax()]))
            numbers = np.hstack([numbers, self._below[found]])
        return numbers

    def _incomplete(self, number: int) -> NotGivenError:
        """Name the first missing part of an itemset."""
        itemset = self._itemsets[number]
        missing = next(
            set(part)
            for antecedent in antecedents_of(itemset)
            for part in (antecedent, itemset - antecedent)
            if part not in self._numbers
        )
        return NotGivenError(
            f"the support of {missing} is needed and not in `df`, which must have all parts of its "
            "itemsets, as apriori returns them; or set support_only=True"
        )


def unknown_and_ones(df: pd.DataFrame) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks of the entries of a frame that are missing, and of those that are 1."""
    unknown = np.asarray(pd.isna(df), dtype=np.bool_)
    return unknown, np.asarray((df == 1).fillna(False), dtype=np.bool_) & ~unknown


class Lacking:
    """Items that were not recorded, by transaction."""

    def __init__(self, df_orig: pd.DataFrame, itemsets: Sequence[Itemset]) -> None:
        unknown, present = unknown_and_ones(df_orig)
        columns = [_places(itemset, df_orig.columns, itemsets[0]) for itemset in itemsets]
        rows = len(df_orig)
        self._unknown = np.array([unknown[:, places].any(axis=1) for places in columns])
        self._present = np.array([present[:, places].all(axis=1) for places in columns])
        self._step = max(1, _CELLS // max(1, rows))

    def in_any(self, itemsets: Numbers) -> Floats:
        """Count the transactions in which an item of the itemset was not recorded."""
        counts: Floats = self._unknown.sum(axis=1, dtype=float)
        return counts[itemsets]

    def beside(self, present: Numbers, unknown: Numbers) -> Floats:
        """Count the transactions with one itemset in which the other was not fully recorded."""
        counts = np.empty(len(present))
        for begin in range(0, len(present), self._step):
            some = slice(begin, begin + self._step)
            both = self._present[present[some]] & self._unknown[unknown[some]]
            counts[some] = both.sum(axis=1)
        return counts


def _places(itemset: Itemset, columns: pd.Index, first: Itemset) -> list[int]:
    """Return the columns of items: numbers if the first itemset has numbers, else labels."""
    by_number = all(isinstance(item, int) for item in first)
    labels: Iterable[Hashable] = range(len(columns)) if by_number else columns
    named = {label: place for place, label in enumerate(labels)}
    try:
        return [named[item] for item in itemset]
    except KeyError as error:
        raise NotGivenError(
            f"the item {error.args[0]!r} is no column of `df_orig`; give the frame that was mined"
        ) from error
