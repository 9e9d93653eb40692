"""Conversion of tables and baskets to rows to encrypt: 0 and 1 column by column, without copies."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from oboro._oboro import Encrypted, Rows
from oboro._reading import Reading, options
from oboro.errors import InputError, OboroError

# Options about names, which also apply to baskets.
_ABOUT_NAMES = ("missing", "unicode")

Bytes: TypeAlias = npt.NDArray[np.uint8]

# Number of columns converted to bytes of 0 and 1 at a time.
_AT_ONCE = 16


def rows(
    data: Any,
    threads: int | None = None,
    reading: Reading | None = None,
    like: Encrypted | None = None,
) -> Rows:
    """Convert the transactions in `data` to bits, in random order.

    Args:
        data: as for `oboro.encrypt`.
        threads: the number of threads that permute columns; None for one per processor.
        reading: options for a file, or a table of more than 0 and 1.
        like: a dataset whose first file gives the defaults.

    Raises:
        InputError: data other than 0 and 1, or of an unknown type.
    """
    given = options(reading or {})
    if isinstance(data, (str, os.PathLike)):
        return Rows.read(data, like=like, **given)
    if "memory" in given:
        raise InputError(
            "memory is about files, and these data are in memory already; leave it out"
        )
    has_names = isinstance(data, pd.DataFrame) or _is_arrow(data)
    row_ids = given.get("row_ids")
    if not (has_names and isinstance(row_ids, str)):
        given.pop("row_ids", None)
    has_items = not (isinstance(data, np.ndarray) or _is_sparse(data))
    for name in given:
        if not has_names and not (has_items and name in _ABOUT_NAMES):
            raise InputError(
                f"{name} is about files and tables with names of columns, and this is none"
            )
    try:
        ids = None if row_ids is None or "row_ids" in given else _ids(row_ids, data)
        return _of(data, threads, ids, given, like)
    except OboroError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the data cannot be read as 0 and 1 or as baskets ({error}); give a frame of 0 and 1, "
            "a list of baskets, or the path of a file"
        ) from error


def _ids(row_ids: Any, data: Any = None) -> list[str]:
    """Return row ids as text, in the order of the rows of `data`."""
    if isinstance(row_ids, (str, bytes)):
        raise InputError(
            f"row_ids is {row_ids!r}, and this is no path of a file with such a column; give the "
            "ids themselves, one for each row, as with row_ids=frame.index"
        )
    if isinstance(row_ids, (Set, Mapping)):
        raise InputError(
            f"row_ids is a {type(row_ids).__name__}, which has no order of rows; give a list"
        )
    if (
        isinstance(row_ids, pd.Series)
        and isinstance(data, pd.DataFrame)
        and not row_ids.index.equals(data.index)
    ):
        raise InputError(
            "row_ids has another index than the data; give row_ids.loc[frame.index] to go by the "
            "index, or row_ids.to_numpy() to go by the order of rows"
        )
    ids = list(row_ids)
    for row, name in enumerate(ids, 1):
        if pd.api.types.is_scalar(name) and pd.isna(name):
            raise InputError(f"row {row} has no id; give each row one, or choose another column")
        whole = isinstance(name, (int, np.integer)) and not isinstance(name, bool)
        if not whole and not isinstance(name, str):
            raise InputError(
                f"the id of row {row} is {name!r}, neither text nor a whole number; make ids text, "
                "as with ids.map(str)"
            )
    return [str(name) for name in ids]


def _of(
    data: Any,
    threads: int | None,
    row_ids: list[str] | None,
    given: dict[str, Any],
    like: Encrypted | None,
) -> Rows:
    table = _table(data, threads, given, like)
    if table is None:
        return Rows.from_baskets(data, row_ids=row_ids, **given)
    if row_ids is not None:
        table.set_row_ids(row_ids)
    return table


def _table(
    data: Any, threads: int | None, given: dict[str, Any], like: Encrypted | None
) -> Rows | None:
    """Convert the rows of a table; return None for baskets."""
    if isinstance(data, pd.DataFrame):
        return _from_pandas(data, threads, given, like)
    if isinstance(data, np.ndarray):
        return _from_numpy(data, threads)
    if _is(data, "polars", "LazyFrame"):
        raise _lazy()
    if _is_arrow(data):
        return Rows.from_arrow(data, threads=threads, like=like, **given)
    if _is_sparse(data):
        return _from_sparse(data, threads)
    if isinstance(data, Iterable):
        return None
    raise InputError(
        f"{type(data).__name__} is no form of data that can be encrypted; give a frame of 0 and 1, "
        "a list of baskets, or the path of a file"
    )


def _is_arrow(data: object) -> bool:
    """Return true for a table that exports its columns by Arrow, but not for a series."""
    # Other types may compute something when their columns are accessed.
    if not hasattr(data, "__arrow_c_stream__"):
        return False
    return hasattr(data, "columns") or hasattr(data, "schema")


def _is(data: object, module: str, name: str) -> bool:
    """Return true for an instance of a package's class, without importing the package."""
    package = sys.modules.get(module)
    return package is not None and isinstance(data, getattr(package, name))


def _is_sparse(data: object) -> bool:
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(data))


class _Columns:
    """Builder that adds columns to rows in batches."""

    def __init__(self, labels: Iterable[Hashable], transactions: int, threads: int | None) -> None:
        self.labels = list(labels)
        self._names, numbers = _names(self.labels)
        if not self.labels:
            raise InputError(
                f"nothing to encrypt: there are {transactions} transactions and 0 items"
            )
        self.rows = Rows(transactions, numbers=numbers, threads=threads)
        self._held: list[Any] = []
        self._push: Callable[[list[str], Any], None] = self.rows.push_bytes
        self._next = 0

    def cells(self, values: npt.NDArray[Any]) -> None:
        """Add the next column, with a cell for each transaction: 0 or 1, False or True."""
        self._hold(self.rows.push_bytes, _zeros_and_ones(values, self.labels[self._next]))

    def holders(self, transactions: npt.NDArray[Any]) -> None:
        """Add the next column, as the transactions that contain the item, ascending."""
        self._hold(self.rows.push_holders, np.ascontiguousarray(transactions, np.uint32))

    def finish(self) -> Rows:
        """Return the rows with all columns."""
        self._flush()
        return self.rows

    def _hold(self, push: Callable[[list[str], Any], None], column: object) -> None:
        if push != self._push or len(self._held) == _AT_ONCE:
            self._flush()
        self._push = push
        self._held.append(column)
        self._next += 1

    def _flush(self) -> None:
        if self._held:
            self._push(self._names[self._next - len(self._held) : self._next], self._held)
            self._held = []


def names(labels: Iterable[Hashable]) -> list[str]:
    """Convert the labels of columns to names of items.

    Raises:
        InputError: repeated labels, or labels of other types.
    """
    return _names(list(labels))[0]


def _names(labels: Sequence[Hashable]) -> tuple[list[str], bool]:
    """Return the labels as text, and true if they are numbers."""
    named: dict[str, Hashable] = {}
    kinds = {_kind(label) for label in labels}
    if len(kinds) > 1 or None in kinds:
        types = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise InputError(
            "labels of columns must be all text, all whole numbers of 64 bits, all dates, or all "
            f"tuples of these, and these are {types}; make them text, as with "
            "frame.columns = frame.columns.map(str)"
        )
    for label in labels:
        name = _name(label)
        if name in named and named[name] == label:
            raise InputError(f"the column {label!r} is there twice; give each column its own label")
        if name in named:
            raise InputError(
                f"the columns {named[name]!r} and {label!r} are both called {name!r} as items; "
                "rename one"
            )
        named[name] = label
    return list(named), kinds == {"number"}


def _kind(label: object) -> str | None:
    """Return the kind of a label; None for one that cannot be an item's."""
    if isinstance(label, str):
        return "text"
    if isinstance(label, (int, np.integer)) and not isinstance(label, bool):
        return "number" if -(2**63) <= label < 2**63 else None
    if isinstance(label, (date, np.datetime64, pd.Period)):
        # Only a missing date differs from itself.
        return "date" if label == label else None
    if isinstance(label, tuple) and all(_kind(part) not in (None, "tuple") for part in label):
        return "tuple"
    return None


def _name(label: Any) -> str:
    """Convert a label to the name of an item: dates as in CSV, tuples joined by slashes."""
    if isinstance(label, tuple):
        return "/".join(map(_name, label))
    if isinstance(label, (datetime, np.datetime64)):
        time = pd.Timestamp(label)
        is_day = time.tzinfo is None and time == time.normalize()
        return time.date().isoformat() if is_day else str(time)
    return str(label)


def as_pandas(data: Any) -> Any:
    """Convert a frame of polars to one of pandas; return other data unchanged."""
    if _is(data, "polars", "LazyFrame"):
        raise _lazy()
    if not _is(data, "polars", "DataFrame"):
        return data
    columns = {name: _objects(data[name]) for name in data.columns}
    return pd.DataFrame(columns, index=range(len(data)))


def _objects(column: Any) -> Any:
    """Return the values of a column of polars; lists are kept, where NumPy would make arrays."""
    values: Any = column.to_numpy()
    if values.dtype != object:
        return values
    return pd.Series(column.to_list(), dtype=object)


def _lazy() -> InputError:
    return InputError("a lazy frame has no rows yet; give frame.collect()")


def _zeros_and_ones(
    values: npt.NDArray[Any], label: Hashable, rows: npt.NDArray[Any] | None = None
) -> Bytes:
    """Convert values of a column, for all rows or `rows`, to bytes of 0 and 1; reuse booleans."""
    if values.dtype == np.bool_:
        return values.view(np.uint8)
    if values.dtype == object:
        # Missing values of pandas compare neither as equal nor as different.
        lacking = np.fromiter((value is pd.NA for value in values), dtype=np.bool_)
        if lacking.any():
            place = _first(lacking)
            raise _missing(label, place if rows is None else int(rows[place]))
    ones = np.asarray(values == 1, dtype=np.bool_)
    known = ones | np.asarray(values == 0, dtype=np.bool_)
    if not known.all():
        other = _first(~known)
        row = other if rows is None else int(rows[other])
        # Only a missing value differs from itself.
        if values[other] is None or values[other] != values[other]:
            raise _missing(label, row)
        raise InputError(
            f"column {label!r} has the value {values[other]} in row {row}; only 0 and 1, or False "
            "and True, can be encrypted: say what counts, as with frame > 0, or leave the column "
            "out with drop_columns"
        )
    return ones.view(np.uint8)


def _missing(label: Hashable, place: int) -> InputError:
    return InputError(
        f"column {label!r} has no value in row {place}; say what that means, as with "
        "frame.fillna(False)"
    )


def _first(flags: npt.NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(flags)[0])


def _from_pandas(
    frame: pd.DataFrame, threads: int | None, given: dict[str, Any], like: Encrypted | None
) -> Rows:
    texts = [label for label in frame.columns if isinstance(label, str)]
    places = range(frame.shape[1])
    if given or Rows.are_of_long_form(texts) or any(_is_text(frame.iloc[:, it]) for it in places):
        named = [_values(_name(label), frame.iloc[:, place]) for place, label in enumerate(frame)]
        return Rows.from_frame(named, like=like, **given)
    columns = _Columns(frame.columns, len(frame), threads)
    for place, label in enumerate(columns.labels):
        column = frame.iloc[:, place]
        if isinstance(column.dtype, pd.SparseDtype) and not column.dtype.fill_value:
            columns.holders(_sparse_holders(column.array, label))
        elif isinstance(column.dtype, np.dtype):
            columns.cells(column.to_numpy())
        else:
            missing = column.isna().to_numpy()
            if missing.any():
                raise _missing(label, _first(missing))
            columns.cells(column.to_numpy(dtype=_numpy_type(column)))
    return columns.finish()


def _is_text(column: pd.Series[Any]) -> bool:
    """Return true if a column has only text, or text and missing values."""
    return pd.api.types.infer_dtype(column, skipna=True) in ("string", "categorical")


def _values(
    name: str, column: pd.Series[Any]
) -> tuple[str, npt.NDArray[np.int32], list[str], bool]:
    """Return a column's name, the index of each value among the distinct ones or -1, these as text,
    and true if they are whole numbers."""
    places, values = pd.factorize(column)
    different = list(values)
    whole = [isinstance(it, (int, np.integer)) and not isinstance(it, bool) for it in different]
    if 0 < sum(isinstance(it, str) for it in different) < len(different):
        raise InputError(
            f"column {name!r} mixes text with other values; make all text, as with "
            f"frame[{name!r}].map(str)"
        )
    texts = [_text(name, it) for it in different]
    return name, places.astype(np.int32), texts, bool(different) and all(whole)


def _text(name: str, value: Any) -> str:
    """Convert a value to text as in CSV."""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        # With missing values among them, pandas converts whole numbers to floats.
        return str(int(value))
    if isinstance(value, (str, int, float, np.integer, np.floating, date, np.datetime64, Decimal)):
        return str(value)
    raise InputError(
        f"column {name!r} has a {type(value).__name__}, which is neither text, number nor date; "
        "leave it out of the frame, or make it text"
    )


def _numpy_type(column: pd.Series[Any]) -> type:
    """Return the NumPy type for a column of a pandas extension type without missing values."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return np.bool_
    return np.float64 if pd.api.types.is_numeric_dtype(column.dtype) else np.object_


def _sparse_holders(column: Any, label: Hashable) -> npt.NDArray[Any]:
    """Return the rows where a sparse column, whose other rows are 0, is 1."""
    holders: npt.NDArray[Any] = column.sp_index.to_int_index().indices
    ones = _zeros_and_ones(np.asarray(column.sp_values), label, holders)
    return np.asarray(holders[ones != 0])


def _from_numpy(array: npt.NDArray[Any], threads: int | None) -> Rows:
    if array.ndim != 2:
        raise InputError(
            f"an array of {array.ndim} dimensions is no table; give one with a row for each "
            "transaction and a column for each item"
        )
    columns = _Columns(range(array.shape[1]), array.shape[0], threads)
    for column in array.T:
        columns.cells(column)
    return columns.finish()


def _from_sparse(matrix: Any, threads: int | None) -> Rows:
    compressed = matrix.tocsc()
    if not compressed.has_canonical_format:
        compressed = compressed.copy() if compressed is matrix else compressed
        compressed.sum_duplicates()
    columns = _Columns(range(compressed.shape[1]), compressed.shape[0], threads)
    for place in range(compressed.shape[1]):
        stored = slice(*compressed.indptr[place : place + 2])
        holders = compressed.indices[stored]
        ones = _zeros_and_ones(compressed.data[stored], place, holders)
        columns.holders(holders[ones != 0])
    return columns.finish()
