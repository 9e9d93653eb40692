"""What rules are measured by, for many rules at a time.

The measures are mlxtend's, and so are its formulas down to the order of operations: results agree
to the last bit.

Transactions in which an item was not recorded count for no rule with that item, after Ragel and
Cremilleux (Treatment of missing values for association rules, PAKDD 1998).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Terms(NamedTuple):
    """What measures are made of, an entry for each rule: supports as fractions, and numbers of
    transactions in which something was not recorded."""

    union: Floats
    antecedent: Floats
    consequent: Floats
    unknown_union: Floats
    unknown_antecedent: Floats
    unknown_consequent: Floats
    # Where the other side of the rule is present.
    only_consequent_unknown: Floats
    only_antecedent_unknown: Floats


Measure = Callable[[Terms, int], Floats]


def _known_union(terms: Terms, transactions: int) -> Floats:
    return terms.union * (transactions - terms.unknown_union)


def _confidence(terms: Terms, transactions: int) -> Floats:
    known = terms.antecedent * (transactions - terms.unknown_antecedent)
    return _known_union(terms, transactions) / (known - terms.only_consequent_unknown)


def _reverse_confidence(terms: Terms, transactions: int) -> Floats:
    known = terms.consequent * (transactions - terms.unknown_consequent)
    return _known_union(terms, transactions) / (known - terms.only_antecedent_unknown)


def _lift(terms: Terms, transactions: int) -> Floats:
    return _confidence(terms, transactions) / terms.consequent


def _representativity(terms: Terms, transactions: int) -> Floats:
    return (transactions - terms.unknown_union) / transactions


def _leverage(terms: Terms, transactions: int) -> Floats:
    return terms.union - terms.antecedent * terms.consequent


def _conviction(terms: Terms, transactions: int) -> Floats:
    confidence = _confidence(terms, transactions)
    ratio = (1.0 - terms.consequent) / (1.0 - confidence)
    return np.where(confidence < 1.0, ratio, np.inf)


def _zhangs_metric(terms: Terms, transactions: int) -> Floats:
    largest = np.maximum(
        terms.union * (1 - terms.antecedent),
        terms.antecedent * (terms.consequent - terms.union),
    )
    return np.where(largest == 0, 0.0, _leverage(terms, transactions) / largest)


def _jaccard(terms: Terms, transactions: int) -> Floats:
    return terms.union / (terms.antecedent + terms.consequent - terms.union)


def _certainty(terms: Terms, transactions: int) -> Floats:
    most = 1 - terms.consequent
    gain = _confidence(terms, transactions) - terms.consequent
    return np.where(most == 0, 0.0, gain / most)


def _kulczynski(terms: Terms, transactions: int) -> Floats:
    return (_confidence(terms, transactions) + _reverse_confidence(terms, transactions)) / 2


MEASURES: dict[str, Measure] = {
    "antecedent support": lambda terms, _: terms.antecedent,
    "consequent support": lambda terms, _: terms.consequent,
    "support": lambda terms, _: terms.union,
    "confidence": _confidence,
    "lift": _lift,
    "representativity": _representativity,
    "leverage": _leverage,
    "conviction": _conviction,
    "zhangs_metric": _zhangs_metric,
    "jaccard": _jaccard,
    "certainty": _certainty,
    "kulczynski": _kulczynski,
}


def measured(name: str, terms: Terms, transactions: int) -> Floats:
    """A measure of each rule; NaN or infinite where it divides by nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return MEASURES[name](terms, transactions)
