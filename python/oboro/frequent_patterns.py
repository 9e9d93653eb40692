"""Frequent itemsets and association rules, with the interface of `mlxtend.frequent_patterns`: to
port code, change the import.

>>> import pandas as pd
>>> from oboro.frequent_patterns import apriori, association_rules
>>> baskets = pd.DataFrame({"bread": [True, True, False], "milk": [True, True, True]})
>>> itemsets = apriori(baskets, min_support=0.6, use_colnames=True)
>>> rules = association_rules(itemsets)
>>> [(set(rule.antecedents), set(rule.consequents)) for rule in rules.itertuples()]
[({'bread'}, {'milk'})]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain

import numpy as np
import pandas as pd

import oboro
from oboro import _oboro
from oboro._rules import Floats, Itemset, Itemsets, Lacking, Rules, Terms, antecedents_of
from oboro.errors import InputError, MissingArgumentError

__all__ = ["METRICS", "apriori", "association_rules"]

METRICS = {name: meaning for name, meaning, _ in _oboro.rule_metrics()}
"""The metrics of a rule A → C by name, with formula and range. ``supp`` is the support as a
fraction of all transactions, and ``conf(A → C)`` is ``supp(A∪C) / supp(A)``."""
_MLXTENDS = tuple(name for name, _, in_mlxtend in _oboro.rule_metrics() if in_mlxtend)


def apriori(
    df: pd.DataFrame,
    min_support: float = 0.5,
    use_colnames: bool = False,
    max_len: int | None = None,
    verbose: int = 0,
    low_memory: bool = False,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Finds the frequent itemsets of a one-hot frame, on a server in this process.

    The frame is encrypted under a new key and uploaded, and its frequent columns are fetched,
    verified and counted; everything is deleted afterwards. This demonstrates Oboro in one line; to
    store data on someone else's server, use `oboro.encrypt`, `oboro.connect` and `Dataset.apriori`.

    Args:
        df: A row for each transaction, a column for each item: bool, 0 and 1, or pandas' sparse
            types. Labels are text, or integers.
        min_support: The fraction of transactions that makes an itemset frequent, in (0, 1].
        use_colnames: Whether itemsets hold labels instead of numbers of columns.
        max_len: The length of the longest itemsets; None, or 0, for any length.
        verbose: 1 shows progress bars.
        low_memory: Has no effect: only one bit per entry is held in addition to `df`.
        n_jobs: Has no effect: all processors are used.

    Returns:
        The columns `support`, a fraction of the transactions, and `itemsets`, frozensets; shorter
        itemsets first, those of a length in the order of columns. It equals mlxtend's result.
        `attrs["oboro"]` has the cost of each level.

    Raises:
        InputError: `min_support` or `max_len` is out of range, an entry is missing or neither 0 nor
            1, or labels are repeated or of other types.
    """
    if not 0 < min_support <= 1:
        raise InputError(f"min_support must be above 0 and at most 1, not {min_support}")
    if max_len is not None and max_len < 0:
        raise InputError(f"max_len must be 1 or more, or None for any length, not {max_len}")
    if df.size == 0:
        return pd.DataFrame({"support": np.empty(0), "itemsets": np.empty(0, dtype=object)})
    keys = oboro.Keys.generate()
    progress = None if verbose else False
    with oboro.local() as server:
        encrypted = oboro.encrypt(
            df,
            keys,
            # The length that the server could count. Sealed cells have no limit.
            max_len=1,
            min_item_support=_worth_encrypting(df, min_support),
            progress=progress,
        )
        found = server.upload(encrypted, progress=progress).apriori(
            keys, min_support, max_len or None, True, verbose=verbose, progress=progress
        )
    if not use_colnames:
        numbers = {label: number for number, label in enumerate(df.columns)}
        found["itemsets"] = _objects(
            frozenset(sorted(numbers[label] for label in itemset)) for itemset in found["itemsets"]
        )
    return found


def _worth_encrypting(df: pd.DataFrame, min_support: float) -> int | None:
    """The minimum support of encrypted items: low enough to include all frequent items and at least
    one item; None for no minimum."""
    most = max(int((df.iloc[:, place] == 1).sum()) for place in range(df.shape[1]))
    # An itemset that is frequent by rounding is less than one transaction below.
    count = min(int(float(min_support) * len(df)) - 1, most)
    return count if count > 0 else None


def association_rules(
    df: pd.DataFrame,
    num_itemsets: int = 1,
    df_orig: pd.DataFrame | None = None,
    null_values: bool = False,
    metric: str = "confidence",
    min_threshold: float = 0.8,
    support_only: bool = False,
    return_metrics: Sequence[str] = _MLXTENDS,
) -> pd.DataFrame:
    """Generates rules from frequent itemsets: those that reach a threshold in one metric.

    Transactions in which an item was not recorded are ignored for rules with that item.

    Args:
        df: The columns `support` and `itemsets`, as `apriori` returns them. Unless `support_only`,
            all parts of an itemset must be present too.
        num_itemsets: The number of transactions that were mined; it matters with `null_values`.
        df_orig: With `null_values`, the frame that was mined, NaN where an item was not recorded.
        null_values: Whether some items were not recorded.
        metric: The metric that selects rules, one of `METRICS`.
        min_threshold: The least value of the metric.
        support_only: Whether to select by support and leave all other metrics NaN.
        return_metrics: The metrics to return, of `METRICS`, in this order; by default those of
            mlxtend.

    Returns:
        The columns `antecedents` and `consequents`, frozensets, and one for each metric. It equals
        mlxtend's result, row by row. `attrs["oboro"]` has the trust level of the itemsets
        (`answers`), copied from `df`.

    Raises:
        InputError: there are no itemsets, a column or metric does not exist, or an entry of
            `df_orig` is neither 0 nor 1 nor, with `null_values`, missing.
        NotGivenError: `df` lacks a part of an itemset; it is an InputError and a KeyError.
        MissingArgumentError: `null_values` without `df_orig` or `num_itemsets`; it is an InputError
            and a TypeError.
    """
    if null_values and (df_orig is None or num_itemsets == 1):
        raise MissingArgumentError("null_values=True needs df_orig and num_itemsets; give both")
    if df_orig is not None:
        _check_original(df_orig, null_values)
    unknown = set(return_metrics) - METRICS.keys()
    if unknown or not (support_only or metric in METRICS):
        name = min(unknown, default=metric)
        raise InputError(f"{name!r} is not a metric; give one of {', '.join(METRICS)}")
    itemsets, supports = _itemsets_of(df)
    if support_only:
        rules_by_support = _rules_by_support(itemsets, supports, min_threshold, return_metrics)
        return _resting_on(df, rules_by_support)
    lacking = Lacking(df_orig, itemsets) if null_values and df_orig is not None else None
    antecedents, consequents, terms = [], [], []
    for rules in Itemsets(itemsets).rules():
        all_terms = _terms(rules, supports, lacking)
        chosen = _oboro.rule_metric(metric, all_terms, num_itemsets) >= min_threshold
        antecedents.append(rules.antecedent[chosen])
        consequents.append(rules.consequent[chosen])
        terms.append(Terms(*(term[chosen] for term in all_terms)))
    chosen_terms = Terms(*map(np.concatenate, zip(*terms, strict=True)))
    if not chosen_terms.union.size:
        return _resting_on(df, _no_rules(return_metrics))
    members = _objects(itemsets)
    found = _frame(
        members[np.concatenate(antecedents)],
        members[np.concatenate(consequents)],
        {name: _oboro.rule_metric(name, chosen_terms, num_itemsets) for name in return_metrics},
    )
    return _resting_on(df, found)


def _resting_on(itemsets: pd.DataFrame, rules: pd.DataFrame) -> pd.DataFrame:
    """The rules, with the trust level of the itemsets."""
    if answers := itemsets.attrs.get("oboro", {}).get("answers"):
        rules.attrs["oboro"] = {"answers": answers}
    return rules


def _itemsets_of(df: pd.DataFrame) -> tuple[list[Itemset], Floats]:
    """Distinct itemsets in the order of their first occurrence, and their supports."""
    if not {"support", "itemsets"} <= set(df.columns):
        raise InputError("`df` must have the columns 'support' and 'itemsets', as of apriori")
    if df.empty:
        raise InputError("`df` has no itemsets to make rules of; lower the minimum support")
    try:
        supports = df["support"].to_numpy(dtype=float, na_value=np.nan)
        itemsets = [frozenset([_plain(item) for item in itemset]) for itemset in df["itemsets"]]
    except (TypeError, ValueError) as error:
        problem = f"`df` must have numbers as supports and sets as itemsets: {error}"
        raise InputError(problem) from error
    distinct = dict(zip(itemsets, supports.tolist(), strict=True))
    return list(distinct), np.array(list(distinct.values()))


def _plain(item: Hashable) -> Hashable:
    return item.item() if isinstance(item, np.generic) else item


def _terms(rules: Rules, supports: Floats, lacking: Lacking | None) -> Terms:
    if lacking is None:
        unknown = list(np.zeros((5, len(rules.union))))
    else:
        unknown = [
            *map(lacking.in_any, rules),
            lacking.beside(rules.antecedent, rules.consequent),
            lacking.beside(rules.consequent, rules.antecedent),
        ]
    return Terms(*(supports[part] for part in rules), *unknown)


def _rules_by_support(
    itemsets: list[Itemset], supports: Floats, min_threshold: float, names: Sequence[str]
) -> pd.DataFrame:
    """The rules of the itemsets with this support; nothing else is known about their parts."""
    chosen = np.flatnonzero(supports >= min_threshold).tolist()
    parts = [list(antecedents_of(itemsets[number])) for number in chosen]
    antecedents = list(chain.from_iterable(parts))
    consequents = [
        itemsets[number] - antecedent
        for number, of_one in zip(chosen, parts, strict=True)
        for antecedent in of_one
    ]
    if not antecedents:
        return _no_rules(names)
    metrics = {name: np.full(len(antecedents), np.nan) for name in names}
    metrics["support"] = np.repeat(supports[chosen], [len(of_one) for of_one in parts])
    return _frame(_objects(antecedents), _objects(consequents), metrics)


def _objects(values: Iterable[Itemset]) -> np.ndarray:
    listed = list(values)
    objects = np.empty(len(listed), dtype=object)
    objects[:] = listed
    return objects


def _frame(
    antecedents: np.ndarray, consequents: np.ndarray, metrics: dict[str, Floats]
) -> pd.DataFrame:
    return pd.DataFrame({"antecedents": antecedents, "consequents": consequents, **metrics})


def _no_rules(names: Sequence[str]) -> pd.DataFrame:
    """An empty result like mlxtend's: all columns of objects."""
    return pd.DataFrame(columns=["antecedents", "consequents", *names])


def _check_original(df_orig: pd.DataFrame, null_values: bool) -> None:
    unknown = np.asarray(pd.isna(df_orig), dtype=bool)
    binary = np.asarray((df_orig == 0) | (df_orig == 1), dtype=bool)
    wrong = ~(binary | unknown) | (unknown & (not null_values))
    for row, column in np.argwhere(wrong):
        raise InputError(
            f"column {df_orig.columns[column]!r} of `df_orig` has {df_orig.iat[row, column]!r} in "
            f"row {row}; entries must be True, False, 0 or 1, or NaN with null_values=True"
        )
