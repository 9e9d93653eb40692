"""Frequent itemsets as pandas frames, with mlxtend's columns, dtypes and order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from oboro.errors import InputError


def least_count(min_support: float, transactions: int) -> int:
    """The least number of transactions whose fraction in floating point is ``min_support``.

    Args:
        min_support: a fraction of all transactions.
        transactions: how many there are.

    Raises:
        InputError: a fraction that is not above 0 and at most 1.
    """
    # With a narrower NumPy scalar the comparisons below would lose precision.
    min_support = float(min_support)
    if not 0.0 < min_support <= 1.0:
        raise InputError(
            "`min_support` must be a positive number within the interval `(0, 1]`. "
            f"Got {min_support}."
        )
    count = max(math.floor(min_support * transactions) - 1, 1)
    while count / transactions < min_support:
        count += 1
    return count


def frame(
    lengths: Sequence[int],
    items: npt.NDArray[np.uint32],
    supports: npt.NDArray[np.uint64],
    transactions: int,
    labels: Sequence[Any] | None,
) -> pd.DataFrame:
    """A row for each itemset.

    Args:
        lengths: the number of itemsets of each length, from 1.
        items: the numbers of their items, concatenated, shorter itemsets first.
        supports: in how many transactions each occurs.
        transactions: how many there are.
        labels: labels to use for item numbers; ``None`` for the numbers themselves.

    Returns:
        The columns ``support``, a float64 fraction, and ``itemsets``, of frozensets.
    """
    numbered = _itemsets(lengths, iter(items.tolist()))
    if labels is not None:
        # From a set of numbers, as in mlxtend: the order of rules depends on that of sets.
        numbered = (frozenset([labels[number] for number in itemset]) for itemset in numbered)
    itemsets = pd.Series(list(numbered), dtype="object")
    found: pd.DataFrame = pd.DataFrame({"support": supports / transactions, "itemsets": itemsets})
    return found


def _itemsets(lengths: Sequence[int], items: Iterator[Any]) -> Iterator[frozenset[Any]]:
    for length, count in enumerate(lengths, start=1):
        for _ in range(count):
            yield frozenset(islice(items, length))
