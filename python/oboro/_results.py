"""Frequent itemsets as pandas frames, with mlxtend's columns, dtypes and order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from oboro.errors import InputError


def least_count(min_support: float, transactions: int) -> int:
    """Return the least number of transactions whose floating-point fraction is ``min_support``.

    Args:
        min_support: a fraction of all transactions.
        transactions: their number.

    Raises:
        InputError: a fraction that is not above 0 and at most 1.
    """
    check_min_support(min_support)
    # With a narrower NumPy scalar the comparisons below would lose precision.
    min_support = float(min_support)
    count = max(math.floor(min_support * transactions) - 1, 1)
    while count / transactions < min_support:
        count += 1
    return count


def transactions_of(min_support: float, transactions: int) -> int:
    """Return the number of transactions that a minimum support stands for: a float is a fraction,
    as in `least_count`, an int a number, as on the command line.

    Raises:
        InputError: the int 1, which is everything for mlxtend and one transaction for the command;
            a value that is neither a fraction nor a number of transactions.
    """
    if isinstance(min_support, Integral) and not isinstance(min_support, bool):
        count = int(min_support)
        if count == 1:
            raise InputError(
                "min_support=1 may mean all transactions or one; give 1.0 for all, or "
                f"1 / {transactions} for one"
            )
        if count > 1:
            # More than any number of transactions: the core counts in 64 bits.
            return min(count, 2**63)
    return least_count(min_support, transactions)


def check_min_support(min_support: float) -> None:
    """Refuse an invalid fraction of transactions, with mlxtend's message.

    Raises:
        InputError: a fraction that is not above 0 and at most 1.
    """
    if not 0.0 < min_support <= 1.0:
        raise InputError(
            "`min_support` must be a positive number within the interval `(0, 1]`. "
            f"Got {min_support}."
        )


def frame(
    lengths: Sequence[int],
    items: npt.NDArray[np.uint32],
    supports: npt.NDArray[np.uint64],
    transactions: int,
    labels: Sequence[Any] | None,
) -> pd.DataFrame:
    """Build a frame with a row for each itemset.

    Args:
        lengths: the number of itemsets of each length, from 1.
        items: the numbers of their items, concatenated, shorter itemsets first.
        supports: the number of transactions with each.
        transactions: the number of all transactions.
        labels: labels to use for item numbers; ``None`` for the numbers themselves.

    Returns:
        The columns ``support``, a float64 fraction, and ``itemsets``, of frozensets.
    """
    numbered = _itemsets(lengths, items.tolist())
    if labels is not None:
        # From a set of numbers, as in mlxtend: the order of rules depends on that of sets.
        numbered = (frozenset(map(labels.__getitem__, itemset)) for itemset in numbered)
    itemsets = pd.Series(list(numbered), dtype="object")
    found: pd.DataFrame = pd.DataFrame({"support": supports / transactions, "itemsets": itemsets})
    return found


def _itemsets(lengths: Sequence[int], items: list[int]) -> Iterator[frozenset[int]]:
    begin = 0
    for length, count in enumerate(lengths, start=1):
        end = begin + length * count
        for start in range(begin, end, length):
            yield frozenset(items[start : start + length])
        begin = end
