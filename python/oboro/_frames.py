"""Converts tables and baskets to rows to encrypt: column by column, without copying."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from oboro._oboro import Encrypted, Rows
from oboro._reading import Reading, options
from oboro.errors import InputError, MissingExtraError, OboroError, StorageError

Bytes: TypeAlias = npt.NDArray[np.uint8]

# The number of columns converted to bytes of 0 and 1 at a time.
_AT_ONCE = 16


def rows(
    data: Any,
    threads: int | None = None,
    reading: Reading | None = None,
    like: Encrypted | None = None,
) -> Rows:
    """The transactions in `data`, in random order, as bits.

    Args:
        data: what `oboro.encrypt` takes.
        threads: how many threads permute columns; None for one per processor.
        reading: how to read a text file.
        like: a dataset whose first file gives the defaults.

    Raises:
        InputError: data other than 0 and 1, or of an unknown type.
        MissingExtraError: a Parquet file, and pyarrow is not installed.
    """
    given = options(reading or {})
    if isinstance(data, (str, os.PathLike)):
        return _from_path(Path(data), threads, given, like)
    row_ids = given.pop("row_ids", None)
    if given:
        raise InputError(f"{next(iter(given))} is about files of text, and this is no path of one")
    try:
        return _of(data, threads, None if row_ids is None else _ids(row_ids, data))
    except OboroError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the data cannot be read as 0 and 1 or as baskets ({error}); give a frame of 0 and 1, "
            "a list of baskets, or the path of a file"
        ) from error


def _ids(row_ids: Any, data: Any = None) -> list[str]:
    """Row ids as text, in the order of the rows of `data`."""
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


def _of(data: Any, threads: int | None, row_ids: list[str] | None) -> Rows:
    table = _table(data, threads)
    if table is None:
        return Rows.from_baskets(data, row_ids=row_ids)
    if row_ids is not None:
        table.set_row_ids(row_ids)
    return table


def _table(data: Any, threads: int | None) -> Rows | None:
    """The rows of a table; None for baskets."""
    if isinstance(data, pd.DataFrame):
        return _from_pandas(data, threads)
    if isinstance(data, np.ndarray):
        return _from_numpy(data, threads)
    if _is(data, "polars", "LazyFrame"):
        raise InputError("a lazy frame has no rows yet; give frame.collect()")
    if _is(data, "polars", "DataFrame"):
        return _from_polars(data, threads)
    if _is(data, "pyarrow", "Table") or _is(data, "pyarrow", "RecordBatch"):
        return _from_arrow(data, threads)
    if _is_sparse(data):
        return _from_sparse(data, threads)
    if isinstance(data, Iterable):
        return None
    raise InputError(
        f"{type(data).__name__} is no form of data that can be encrypted; give a frame of 0 and 1, "
        "a list of baskets, or the path of a file"
    )


def _is(data: object, module: str, name: str) -> bool:
    """Whether it is an instance of a package's class, without importing the package."""
    package = sys.modules.get(module)
    return package is not None and isinstance(data, getattr(package, name))


def _is_sparse(data: object) -> bool:
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(data))


class _Columns:
    """Adds columns to rows in batches."""

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

    @property
    def next_label(self) -> Hashable:
        """The label of the next column."""
        return self.labels[self._next]

    def cells(self, values: npt.NDArray[Any]) -> None:
        """The next column, with a cell for each transaction: 0 or 1, False or True."""
        self._hold(self.rows.push_bytes, _zeros_and_ones(values, self.next_label))

    def bits(self, packed: Bytes, first: int) -> None:
        """The next column, as bits from an offset, least significant first."""
        self._hold(self.rows.push_bits, (packed, first))

    def holders(self, transactions: npt.NDArray[Any]) -> None:
        """The next column, as the transactions that contain the item, ascending."""
        self._hold(self.rows.push_holders, np.ascontiguousarray(transactions, np.uint32))

    def finish(self) -> Rows:
        """The rows with all columns."""
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


def _names(labels: Sequence[Hashable]) -> tuple[list[str], bool]:
    """The labels as text, and whether they are numbers."""
    seen: set[Hashable] = set()
    for label in labels:
        if label in seen:
            raise InputError(f"the column {label!r} is there twice; give each column its own label")
        seen.add(label)
    if all(isinstance(label, str) for label in labels):
        return [str(label) for label in labels], False
    numbers = [
        int(label)
        for label in labels
        if isinstance(label, (int, np.integer)) and not isinstance(label, bool)
    ]
    if len(numbers) == len(labels) and all(-(2**63) <= number < 2**63 for number in numbers):
        return [str(number) for number in numbers], True
    kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
    raise InputError(
        "labels of columns must be all text or all whole numbers of 64 bits, and these are "
        f"{kinds}; make them text, as with frame.columns = frame.columns.map(str)"
    )


def _zeros_and_ones(
    values: npt.NDArray[Any], label: Hashable, rows: npt.NDArray[Any] | None = None
) -> Bytes:
    """Values of a column, for all rows or `rows`, as bytes of 0 and 1; booleans are not copied."""
    if values.dtype == np.bool_:
        return values.view(np.uint8)
    if values.dtype == object:
        # Those of pandas compare neither as equal nor as different.
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
            "and True, can be encrypted: say what counts, as with frame > 0"
        )
    return ones.view(np.uint8)


def _missing(label: Hashable, place: int) -> InputError:
    return InputError(
        f"column {label!r} has no value in row {place}; say what that means, as with "
        "frame.fillna(False)"
    )


def _first(flags: npt.NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(flags)[0])


def _from_pandas(frame: pd.DataFrame, threads: int | None) -> Rows:
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


def _numpy_type(column: pd.Series[Any]) -> type:
    """The NumPy values of a column of a pandas extension type without missing values."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return np.bool_
    return np.float64 if pd.api.types.is_numeric_dtype(column.dtype) else np.object_


def _sparse_holders(column: Any, label: Hashable) -> npt.NDArray[Any]:
    """The rows where a sparse column, whose other rows are 0, is 1."""
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


def _from_polars(frame: Any, threads: int | None) -> Rows:
    columns = _Columns(frame.columns, frame.height, threads)
    for label, column in zip(frame.columns, frame.iter_columns(), strict=True):
        if column.null_count():
            raise _missing(label, _first(column.is_null().to_numpy()))
        columns.cells(column.to_numpy())
    return columns.finish()


def _from_arrow(table: Any, threads: int | None) -> Rows:
    columns = _Columns(table.column_names, table.num_rows, threads)
    for place in range(table.num_columns):
        _add_arrow(columns, table.column(place))
    return columns.finish()


def _add_arrow(columns: _Columns, column: Any) -> None:
    """Adds an Arrow column: one bit per transaction if it is of booleans."""
    import pyarrow

    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        raise _missing(columns.next_label, _first(missing))
    if isinstance(column, pyarrow.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if pyarrow.types.is_boolean(column.type):
        packed = np.frombuffer(column.buffers()[1], dtype=np.uint8)
        columns.bits(packed, column.offset)
    else:
        columns.cells(column.to_numpy(zero_copy_only=False))


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


def _from_path(
    path: Path, threads: int | None, given: dict[str, Any], like: Encrypted | None
) -> Rows:
    if _is_parquet(path):
        return _from_parquet(path, threads, given)
    return Rows.read(path, like=like, **given)


def _is_parquet(path: Path) -> bool:
    """Whether a file is Parquet; a pipe is not, and loses nothing."""
    try:
        if path.is_fifo() or path.is_char_device() or path.is_socket():
            return False
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}; check the path") from error


def _from_parquet(path: Path, threads: int | None, given: dict[str, Any]) -> Rows:
    row_ids = given.pop("row_ids", None)
    if given:
        raise InputError(f"{next(iter(given))} is about files of text, and {path} is Parquet")
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(
            f"{path} is a Parquet file, and pyarrow, which reads those, is not installed; "
            "run: pip install pyarrow"
        ) from error
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InputError(f"cannot read the Parquet file {path}: {error}") from error
    with file:
        names, labels = _parquet_labels(file.schema_arrow)
        if row_ids is not None:
            if row_ids not in file.schema_arrow.names:
                raise InputError(f"{path} has no column {row_ids!r} for row_ids")
            # The index of a pandas frame is not among the names.
            if row_ids in names:
                labels.pop(names.index(row_ids))
                names.remove(row_ids)
        columns = _Columns(labels, file.metadata.num_rows, threads)
        for name in names:
            _add_arrow(columns, file.read(columns=[name]).column(0))
        rows = columns.finish()
        if row_ids is not None:
            rows.set_row_ids(_ids(file.read(columns=[row_ids]).column(0).to_pylist()))
        return rows


def _parquet_labels(schema: Any) -> tuple[list[str], list[Hashable]]:
    """The columns that are not the index of a pandas frame, and their labels there."""
    about = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    index = {name for name in about.get("index_columns", []) if isinstance(name, str)}
    names = [name for name in schema.names if name not in index]
    kinds = [kind.get("pandas_type") for kind in about.get("column_indexes", [])]
    if kinds == ["int64"]:
        return names, [int(name) for name in names]
    return names, list(names)
