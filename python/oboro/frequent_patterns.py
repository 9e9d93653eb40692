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
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np
import pandas as pd

import oboro
from oboro import _frames, _oboro
from oboro._results import check_min_support
from oboro._rules import (
    Floats,
    Itemset,
    Itemsets,
    Lacking,
    Rules,
    Terms,
    antecedents_of,
    unknown_and_ones,
)
from oboro.errors import InputError, MissingArgumentError, MissingExtraError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["METRICS", "apriori", "association_rules", "fpgrowth", "fpmax", "to_polars"]

Frame = TypeVar("Frame", pd.DataFrame, "pl.DataFrame")
"""Frame of pandas or of polars. Given one of polars, these functions return one."""

STOP_ABOVE = 1_000_000
"""Default number of itemsets above which mining stops."""

METRICS = {name: meaning for name, meaning, _ in _oboro.rule_metrics()}
"""Metrics of a rule A → C by name, with formula and range. ``supp`` is the support as a
fraction of all transactions, and ``conf(A → C)`` is ``supp(A∪C) / supp(A)``."""
_MLXTENDS = tuple(name for name, _, in_mlxtend in _oboro.rule_metrics() if in_mlxtend)


def apriori(
    df: Frame,
    min_support: float = 0.5,
    use_colnames: bool = False,
    max_len: int | None = None,
    verbose: int = 0,
    low_memory: bool = False,
    n_jobs: int | None = None,
    *,
    stop_above: int = STOP_ABOVE,
) -> Frame:
    """Find the frequent itemsets of a one-hot frame, on a server in this process.

    The frame is encrypted under a new key and uploaded, and its frequent columns are fetched,
    verified and counted; everything is deleted afterwards. This demonstrates Oboro in one line; to
    store data on someone else's server, use `oboro.encrypt`, `oboro.connect` and `Dataset.apriori`.

    Args:
        df: A row for each transaction, a column for each item: bool, 0 and 1, or pandas' sparse
            types. Labels are all text, all integers, all dates or times, or all tuples of these.
        min_support: The fraction of transactions that makes an itemset frequent, in (0, 1].
        use_colnames: Return itemsets of labels instead of numbers of columns.
        max_len: The length of the longest itemsets; None, or 0, for any length.
        verbose: Show progress bars if 1.
        low_memory: Has no effect: only one bit per entry is held in addition to `df`.
        n_jobs: Has no effect: all processors are used.
        stop_above: Fail once more itemsets than this are certain to be frequent; 0 for no limit.

    Returns:
        The columns `support`, a fraction of the transactions, and `itemsets`, frozensets; shorter
        itemsets first, those of a length in the order of columns. It equals mlxtend's result.
        `attrs["oboro"]` has the cost of each level. A frame of polars has lists as `itemsets`, and
        no `attrs`.

    Raises:
        InputError: `min_support` or `max_len` is out of range, an entry is missing or neither 0 nor
            1, labels are repeated or of other types, or there are too many itemsets.
    """
    frame = _pandas(df)
    labels = list(frame.columns) if use_colnames else None
    return _like(df, _mined(frame, min_support, _longest(max_len), verbose, stop_above, labels))


def fpgrowth(
    df: Frame,
    min_support: float = 0.5,
    null_values: bool = False,
    use_colnames: bool = False,
    max_len: int | None = None,
    verbose: int = 0,
    *,
    stop_above: int = STOP_ABOVE,
) -> Frame:
    """Find the frequent itemsets of a one-hot frame, as `apriori` does, under mlxtend's name for
    another algorithm. Results are those of `apriori`, in its order.

    Args:
        df: As for `apriori`.
        min_support: As for `apriori`.
        null_values: Allow missing entries (NaN, None, NA): items that were not recorded. The
            support of an itemset is then a fraction of the transactions in which all of its items
            were recorded. Missing entries are encrypted as if the item was present; the supports
            are corrected afterwards, from `df`.
        use_colnames: As for `apriori`.
        max_len: As for `apriori`.
        verbose: As for `apriori`.
        stop_above: As for `apriori`.

    Returns:
        As `apriori`. With `null_values`, an itemset is returned if it is frequent both where it was
        recorded and with missing entries counted as present, and if its items are frequent where
        they were recorded, as in mlxtend.

    Raises:
        InputError: as `apriori`.
    """
    if not null_values:
        return apriori(df, min_support, use_colnames, max_len, verbose, stop_above=stop_above)
    frame = _pandas(df)
    found = _frequent(frame, min_support, True, _longest(max_len), verbose, stop_above)
    found = _where_recorded(found, frame, min_support)
    return _like(df, _labelled(found, frame, use_colnames))


def fpmax(
    df: Frame,
    min_support: float = 0.5,
    null_values: bool = False,
    use_colnames: bool = False,
    max_len: int | None = None,
    verbose: int = 0,
    *,
    stop_above: int = STOP_ABOVE,
) -> Frame:
    """Find the maximal frequent itemsets of a one-hot frame: those that no frequent itemset
    contains.

    Args:
        df: As for `apriori`.
        min_support: As for `apriori`.
        null_values: As for `fpgrowth`. Itemsets are maximal among those that are frequent with
            missing entries counted as present, and are left out if they are not frequent where they
            were recorded, as in mlxtend.
        use_colnames: As for `apriori`.
        max_len: Leave out longer itemsets. Their parts are left out, too, since they are not
            maximal.
        verbose: As for `apriori`.
        stop_above: As for `apriori`.

    Returns:
        As `apriori`.

    Raises:
        InputError: as `apriori`.
    """
    frame = _pandas(df)
    longest = _longest(max_len)
    # Itemsets with one more item show which are maximal.
    search = None if longest is None else longest + 1
    found = _frequent(frame, min_support, null_values, search, verbose, stop_above)
    maximal = _are_maximal(found["itemsets"].tolist())
    if longest is not None:
        maximal &= found["itemsets"].map(len).to_numpy(dtype=int) <= longest
    found = found[maximal].reset_index(drop=True)
    if null_values:
        found = _where_recorded(found, frame, min_support)
    return _like(df, _labelled(found, frame, use_colnames))


def to_polars(frame: pd.DataFrame) -> pl.DataFrame:
    """Convert itemsets or rules to a frame of polars, which has lists in place of frozensets.

    Args:
        frame: The result of `apriori`, `Dataset.apriori` or `association_rules`. Its `attrs` are
            lost.

    Raises:
        MissingExtraError: polars is not installed.
    """
    try:
        import polars
    except ImportError as error:
        raise MissingExtraError("polars is not installed; pip install polars") from error
    columns: dict[str, Any] = {}
    for name, column in frame.items():
        if name in ("itemsets", "antecedents", "consequents"):
            lists = [_in_order(itemset) for itemset in column]
            empty = None if lists else polars.List(polars.String)
            columns[str(name)] = polars.Series(values=lists, dtype=empty)
        else:
            columns[str(name)] = polars.Series(values=column.to_numpy(dtype=float, na_value=np.nan))
    return polars.DataFrame(columns)


def _in_order(itemset: Iterable[Any]) -> list[Any]:
    """Sort the items of a set, by their text if they are of different types."""
    items = [list(item) if isinstance(item, tuple) else item for item in itemset]
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=str)


def _pandas(df: object) -> pd.DataFrame:
    frame = _frames.as_pandas(df)
    if not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"a frame of pandas or polars is needed, not {type(df).__name__}; make one, as with "
            "pd.DataFrame(data)"
        )
    return frame


def _like(given: Frame, found: pd.DataFrame) -> Frame:
    """Return the result in a frame of the library of the given frame."""
    alike: Any = found if isinstance(given, pd.DataFrame) else to_polars(found)
    return cast(Frame, alike)


def _longest(max_len: int | None) -> int | None:
    if max_len is not None and max_len < 0:
        raise InputError(f"max_len must be 1 or more, or None for any length, not {max_len}")
    return max_len or None


def _mined(
    df: pd.DataFrame,
    min_support: float,
    longest: int | None,
    verbose: int,
    stop_above: int,
    labels: Sequence[Hashable] | None = None,
) -> pd.DataFrame:
    """Return the frequent itemsets, of numbers of columns or their labels."""
    check_min_support(min_support)
    if df.size == 0:
        return pd.DataFrame({"support": np.empty(0), "itemsets": np.empty(0, dtype=object)})
    keys = oboro.Keys.generate()
    progress = None if verbose else False
    with oboro.local() as server:
        encrypted = oboro.encrypt(
            df,
            keys,
            # Limits only counts by the server. Sealed cells have no limit.
            max_len=1,
            min_item_support=_worth_encrypting(df, min_support),
            progress=progress,
        )
        places = {name: place for place, name in enumerate(_frames.names(df.columns))}
        return server.upload(encrypted, progress=progress)._mined(
            keys,
            float(min_support),
            longest,
            [places[str(name)] for name in encrypted.columns],
            labels,
            stop_above=stop_above,
            verbose=verbose,
            progress=progress,
        )


def _labelled(found: pd.DataFrame, df: pd.DataFrame, use_colnames: bool) -> pd.DataFrame:
    if use_colnames:
        labels = list(df.columns)
        found["itemsets"] = _objects(
            frozenset([labels[number] for number in itemset]) for itemset in found["itemsets"]
        )
    return found


def _frequent(
    df: pd.DataFrame,
    min_support: float,
    null_values: bool,
    longest: int | None,
    verbose: int,
    stop_above: int,
) -> pd.DataFrame:
    """Return the frequent itemsets, of numbers of columns; with `null_values` those with missing
    entries counted as present, of items that are frequent where they were recorded."""
    if not null_values:
        return _mined(df, min_support, longest, verbose, stop_above)
    check_min_support(min_support)
    _check_entries(df, "df", null_values)
    unknown, ones = unknown_and_ones(df)
    with np.errstate(divide="ignore", invalid="ignore"):
        supports = ones.sum(axis=0) / (len(df) - unknown.sum(axis=0))
    places = np.flatnonzero(supports >= min_support)
    present = pd.DataFrame((ones | unknown)[:, places], columns=df.columns[places])
    found = _mined(present, min_support, longest, verbose, stop_above)
    found["itemsets"] = _objects(
        frozenset(places[sorted(itemset)].tolist()) for itemset in found["itemsets"]
    )
    return found


def _where_recorded(found: pd.DataFrame, df: pd.DataFrame, min_support: float) -> pd.DataFrame:
    """Select the itemsets that are frequent among the transactions in which all of their items
    were recorded, with that support."""
    unknown, ones = unknown_and_ones(df)
    supports = np.zeros(len(found))
    for row, itemset in enumerate(found["itemsets"]):
        columns = sorted(itemset)
        recorded = len(df) - int(unknown[:, columns].any(axis=1).sum())
        if recorded:
            supports[row] = int(ones[:, columns].all(axis=1).sum()) / recorded
    found["support"] = supports
    return found[supports >= min_support].reset_index(drop=True)


def _are_maximal(itemsets: Sequence[Itemset]) -> np.ndarray:
    """Return a mask of the itemsets that no other one contains; all parts must be among them."""
    parts = {itemset - {item} for itemset in itemsets for item in itemset}
    return np.array([itemset not in parts for itemset in itemsets], dtype=bool)


def _worth_encrypting(df: pd.DataFrame, min_support: float) -> int | None:
    """Return the minimum support of encrypted items: low enough to include all frequent items and
    at least one item; None for no minimum."""
    most = max(int((df.iloc[:, place] == 1).sum()) for place in range(df.shape[1]))
    # An itemset that is frequent by rounding is less than one transaction below the minimum.
    count = min(int(float(min_support) * len(df)) - 1, most)
    return count if count > 0 else None


def association_rules(
    df: Frame,
    num_itemsets: int = 1,
    df_orig: pd.DataFrame | pl.DataFrame | None = None,
    null_values: bool = False,
    metric: str = "confidence",
    min_threshold: float = 0.8,
    support_only: bool = False,
    return_metrics: Sequence[str] = _MLXTENDS,
) -> Frame:
    """Generate rules from frequent itemsets: those that reach a threshold in one metric.

    Transactions in which an item was not recorded are ignored for rules with that item.

    Args:
        df: The columns `support` and `itemsets`, as `apriori` returns them. Unless `support_only`,
            all parts of an itemset must be present too.
        num_itemsets: The number of transactions that were mined; it matters with `null_values`.
        df_orig: With `null_values`, the frame that was mined, NaN where an item was not recorded.
        null_values: Allow items that were not recorded.
        metric: The metric that selects rules, one of `METRICS`.
        min_threshold: The least value of the metric.
        support_only: Select by support and leave all other metrics NaN.
        return_metrics: The metrics to return, of `METRICS`, in this order; by default those of
            mlxtend.

    Returns:
        The columns `antecedents` and `consequents`, frozensets, and one for each metric. It equals
        mlxtend's result, row by row. `attrs["oboro"]` has the trust level of the itemsets
        (`answers`), copied from `df`. A frame of polars has lists.

    Raises:
        InputError: no itemsets, an unknown column or metric, or an entry of `df_orig` that is
            neither 0 nor 1 nor, with `null_values`, missing.
        NotGivenError: `df` lacks a part of an itemset; it is an InputError and a KeyError.
        MissingArgumentError: `null_values` without `df_orig` or `num_itemsets`; it is an InputError
            and a TypeError.
    """
    if null_values and (df_orig is None or num_itemsets == 1):
        raise MissingArgumentError("null_values=True needs df_orig and num_itemsets; give both")
    original = None if df_orig is None else _pandas(df_orig)
    if original is not None:
        _check_entries(original, "df_orig", null_values)
    unknown = set(return_metrics) - METRICS.keys()
    if unknown or not (support_only or metric in METRICS):
        name = min(unknown, default=metric)
        raise InputError(f"{name!r} is not a metric; give one of {', '.join(METRICS)}")
    found = _pandas(df)
    itemsets, supports = _itemsets_of(found)
    if support_only:
        rules = _rules_by_support(itemsets, supports, min_threshold, return_metrics)
    else:
        lacking = None if original is None or not null_values else Lacking(original, itemsets)
        reaching = _Reaching(metric, min_threshold, num_itemsets, lacking)
        rules = _rules_by_metric(itemsets, supports, reaching, return_metrics)
    return _like(df, _resting_on(found, rules))


class _Reaching(NamedTuple):
    """Selection of rules, and the inputs of their metrics."""

    metric: str
    min_threshold: float
    num_itemsets: int
    lacking: Lacking | None


def _rules_by_metric(
    itemsets: list[Itemset], supports: Floats, reaching: _Reaching, names: Sequence[str]
) -> pd.DataFrame:
    """Return the rules that reach the threshold, with all metrics."""
    antecedents, consequents, terms = [], [], []
    for rules in Itemsets(itemsets).rules():
        all_terms = _terms(rules, supports, reaching.lacking)
        reached = _oboro.rule_metric(reaching.metric, all_terms, reaching.num_itemsets)
        chosen = reached >= reaching.min_threshold
        antecedents.append(rules.antecedent[chosen])
        consequents.append(rules.consequent[chosen])
        terms.append(Terms(*(term[chosen] for term in all_terms)))
    chosen_terms = Terms(*map(np.concatenate, zip(*terms, strict=True)))
    if not chosen_terms.union.size:
        return _no_rules(names)
    members = _objects(itemsets)
    return _frame(
        members[np.concatenate(antecedents)],
        members[np.concatenate(consequents)],
        {name: _oboro.rule_metric(name, chosen_terms, reaching.num_itemsets) for name in names},
    )


def _resting_on(itemsets: pd.DataFrame, rules: pd.DataFrame) -> pd.DataFrame:
    """Copy the trust level of the itemsets to the rules."""
    if answers := itemsets.attrs.get("oboro", {}).get("answers"):
        rules.attrs["oboro"] = {"answers": answers}
    return rules


def _itemsets_of(df: pd.DataFrame) -> tuple[list[Itemset], Floats]:
    """Return distinct itemsets in the order of their first occurrence, and their supports."""
    if not {"support", "itemsets"} <= set(df.columns):
        raise InputError("`df` must have the columns 'support' and 'itemsets', as of apriori")
    if df.empty:
        raise InputError("`df` has no itemsets to make rules of; lower the minimum support")
    try:
        supports = df["support"].to_numpy(dtype=float, na_value=np.nan)
        # mlxtend also copies them, and orders the rules of an itemset as its copy, which can
        # have another order than the itemset.
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
    """Return the rules of itemsets with this support; nothing else is known about their parts."""
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
    """Return an empty result like mlxtend's: all columns of objects."""
    return pd.DataFrame(columns=["antecedents", "consequents", *names])


def _check_entries(df: pd.DataFrame, name: str, null_values: bool) -> None:
    """Refuse entries that are neither 0 nor 1 nor, with `null_values`, missing."""
    unknown, ones = unknown_and_ones(df)
    zeros = np.asarray((df == 0).fillna(False), dtype=bool)
    wrong = ~(zeros | ones | unknown) | (unknown & (not null_values))
    for row, column in np.argwhere(wrong):
        raise InputError(
            f"column {df.columns[column]!r} of `{name}` has {df.iat[row, column]!r} in row {row}; "
            "entries must be True, False, 0 or 1, or NaN with null_values=True"
        )
