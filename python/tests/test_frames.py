"""Every form of data comes to the same bits, and what cannot be encrypted is refused by name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from oboro import _frames, errors

Table: TypeAlias = npt.NDArray[np.bool_]

TABLES = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, max_side=40))


def labelled(table: Table, dtype: Any = np.bool_) -> Any:
    labels = [f"item {place}" for place in range(table.shape[1])]
    return pd.DataFrame(table.astype(dtype), columns=labels)


def one_column_a_block(table: Table) -> Any:
    frame = labelled(table)
    return pd.DataFrame({label: frame[label].copy() for label in frame})


def mixed(table: Table) -> Any:
    types = ["bool", "int8", "float64", "boolean", "Int64", "object", "Sparse[bool]"]
    frame = labelled(table)
    return frame.astype({label: types[i % len(types)] for i, label in enumerate(frame)})


def arrow(table: Table, dtype: Any = np.bool_) -> pa.Table:
    return pa.Table.from_pandas(labelled(table, dtype), preserve_index=False)


def chunked(table: Table) -> pa.Table:
    whole = arrow(table)
    half = whole.num_rows // 2
    return pa.concat_tables([whole.slice(0, half), whole.slice(half)])


FORMS: dict[str, Callable[[Table], object]] = {
    "pandas": labelled,
    "pandas, row after row": lambda table: pd.DataFrame(np.ascontiguousarray(table), copy=False),
    "pandas, block by block": one_column_a_block,
    "pandas, int": lambda table: labelled(table, np.uint8),
    "pandas, float": lambda table: labelled(table, np.float32),
    "pandas, every type": mixed,
    "pandas, sparse": lambda table: labelled(table).astype(pd.SparseDtype(np.bool_, False)),
    "pandas, sparse int": lambda table: labelled(table, int).astype(pd.SparseDtype(int, 0)),
    "pandas, sparse of ones": lambda table: labelled(table).astype(pd.SparseDtype(np.bool_, True)),
    "pandas, Arrow": lambda table: labelled(table).astype("bool[pyarrow]"),
    "polars": lambda table: pl.DataFrame(dict(labelled(table))),
    "polars, int": lambda table: pl.DataFrame(dict(labelled(table, np.int64))),
    "Arrow": arrow,
    "Arrow, int": lambda table: arrow(table, np.int8),
    "Arrow, batch": lambda table: arrow(table).to_batches()[0],
    "Arrow, chunks": chunked,
    "CSC": lambda table: sp.csc_array(table),
    "CSR": lambda table: sp.csr_matrix(table.astype(int)),
    "COO": lambda table: sp.coo_array(table.astype(float)),
    "NumPy": lambda table: table,
    "NumPy, column after column": np.asfortranarray,
    "NumPy, part": lambda table: np.repeat(np.repeat(table[::-1], 2, axis=0), 3, axis=1)[::-2, ::3],
    "NumPy, int": lambda table: table.astype(np.int32),
}


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None, max_examples=15)
@given(table=TABLES)
def test_every_form_has_the_same_supports(form: str, table: Table) -> None:
    rows = _frames.rows(FORMS[form](table), threads=2)
    assert rows.supports() == table.sum(axis=0).tolist()
    assert len(rows) == len(table)


@pytest.mark.parametrize("form", FORMS)
def test_bits_are_those_of_their_rows(form: str) -> None:
    # One row at a time, so that a bit of another row is another support.
    table = np.random.default_rng(7).random((19, 11)) < 0.5
    for place, row in enumerate(table):
        whole: Any = FORMS[form](table)
        if form == "COO":
            whole = whole.tocsr()
        one = whole.slice(place, 1) if hasattr(whole, "slice") else None
        if one is None:
            one = whole.iloc[place : place + 1] if hasattr(whole, "iloc") else whole[[place]]
        assert _frames.rows(one).supports() == row.astype(int).tolist(), place


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=30))
@settings(deadline=None)
def test_baskets_of_numbers_are_columns_in_their_order(baskets: list[list[int]]) -> None:
    items = sorted({item for basket in baskets for item in basket})
    rows = _frames.rows(baskets)
    assert rows.names == [str(item) for item in items]
    assert rows.supports() == [sum(item in basket for basket in baskets) for item in items]


@given(st.lists(st.sets(st.text(max_size=3)), min_size=1, max_size=30))
@settings(deadline=None)
def test_baskets_of_text_are_columns_in_their_order(baskets: list[set[str]]) -> None:
    items = sorted({item for basket in baskets for item in basket})
    rows = _frames.rows(iter(baskets))
    assert rows.names == items
    assert rows.supports() == [sum(item in basket for basket in baskets) for item in items]


@pytest.mark.parametrize(
    ("baskets", "sentence"),
    [
        (["milk", "bread"], "basket 0 is text; give each basket as a list"),
        ([["milk"], 7], "basket 1 is no list of items"),
        ([["milk"], [7]], "basket 1 mixes items"),
        ([[1.5]], "basket 0 has an item that is neither text nor a whole number"),
        ([[True]], "neither text nor a whole number"),
        ([[2**63]], "neither text nor a whole number"),
    ],
)
def test_what_is_no_basket_is_refused(baskets: list[Any], sentence: str) -> None:
    with pytest.raises(errors.InputError, match=sentence):
        _frames.rows(baskets)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (pd.DataFrame({"a": [0, 1], "b": [1, 2]}), "column 'b' has the value 2 in row 1; only"),
        (pd.DataFrame({"a": [0.0, np.nan]}), "column 'a' has no value in row 1; say what that"),
        (pd.DataFrame({"a": [True, None]}), "column 'a' has no value in row 1"),
        (pd.DataFrame({"a": ["y", "n"]}, dtype=object), "column 'a' has the value y in row 0"),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int8")}), "'a' has no value in row 1"),
        (pd.DataFrame({"a": pd.arrays.SparseArray([0, 0, 5])}), "'a' has the value 5 in row 2"),
        (pd.DataFrame({"a": [1], 2: [1]}), "all text or all whole .* are int, str; make"),
        (pd.DataFrame({1.5: [1]}), "these are float"),
        (pd.DataFrame({True: [1]}), "these are bool"),
        (pd.DataFrame([[1, 0]], columns=["a", "a"]), "column 'a' is there twice"),
        (pd.DataFrame(index=[1, 2]), "there are 2 transactions and 0 items"),
        (np.zeros(3, dtype=bool), "an array of 1 dimensions is no table"),
        (np.array([[0, 3]]), "column 1 has the value 3 in row 0"),
        (sp.csc_array([[0, 1], [0, 4]]), "column 1 has the value 4 in row 1"),
        (pl.DataFrame({"a": [True, None]}), "column 'a' has no value in row 1"),
        (pl.DataFrame({"a": ["y"]}), "column 'a' has the value y in row 0"),
        (pl.LazyFrame({"a": [True]}), "give frame.collect()"),
        (pa.table({"a": [True, None, False]}), "column 'a' has no value in row 1"),
        (7, "int is no form of data that can be encrypted"),
    ],
)
def test_what_cannot_be_encrypted_is_refused_by_name(data: object, sentence: str) -> None:
    with pytest.raises(errors.InputError, match=sentence):
        _frames.rows(data)


def test_files_are_read_by_what_they_hold(tmp_path: Path) -> None:
    frame = pd.DataFrame({"milk": [1, 1, 0], "bread": [0, 1, 0]}, index=[5, 6, 9], dtype=bool)
    (tmp_path / "fimi").write_text("3 10\n3\n")
    (tmp_path / "csv").write_text("milk,bread\nmilk\n")
    frame.to_parquet(tmp_path / "labels")
    frame.rename(columns={"milk": 3, "bread": 10}).to_parquet(tmp_path / "numbers")
    for name, names, supports in [
        ("fimi", ["3", "10"], [2, 1]),
        ("csv", ["bread", "milk"], [1, 2]),
        ("labels", ["milk", "bread"], [2, 1]),
        ("numbers", ["3", "10"], [2, 1]),
    ]:
        rows = _frames.rows(tmp_path / name)
        assert (rows.names, rows.supports()) == (names, supports), name
    with pytest.raises(errors.StorageError, match=r"cannot read .*none"):
        _frames.rows(str(tmp_path / "none"))
    (tmp_path / "broken").write_bytes(b"PAR1 and no more")
    with pytest.raises(errors.InputError, match="cannot read the Parquet file"):
        _frames.rows(tmp_path / "broken")


def test_without_pyarrow_a_parquet_file_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labelled(np.ones((2, 2), dtype=bool)).to_parquet(tmp_path / "file")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(errors.MissingExtraError, match="pip install pyarrow"):
        _frames.rows(tmp_path / "file")


IMPORTS = """
import sys, numpy, pandas, oboro
from oboro import _frames
frame = pandas.DataFrame({"a": [True, False]})
before = set(sys.modules)
_frames.rows(frame)
_frames.rows([["a"]])
loaded = {name.split(".")[0] for name in set(sys.modules) - before}
print(sorted(loaded & {"polars", "pyarrow", "scipy"}))
"""


def test_nothing_is_imported_for_other_data() -> None:
    assert run(IMPORTS) == "[]"


# A frame of 200 MB, 2 million rows of 100 columns; the most memory of the process before and after.
MEMORY = """
import numpy, pandas
from oboro import _frames
rows, columns = 2_000_000, 100
table = numpy.empty((columns, rows), dtype=bool)
for column in range(columns):
    table[column] = False
    table[column, :: column + 2] = True
frame = pandas.DataFrame(table.T, copy=False)
_frames.rows(frame.head(1000), threads=2)
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
before = peak()
encrypted = _frames.rows(frame, threads=2)
assert encrypted.supports()[98] == rows // 100
print((peak() - before) // 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak")
def test_a_large_frame_is_not_copied() -> None:
    bits, order, groups = 25, 8, 4
    assert int(run(MEMORY)) < bits + order + groups + 16


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
