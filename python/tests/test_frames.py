"""Every form of data comes to the same bits, and what cannot be encrypted is refused by name."""

from __future__ import annotations

import json
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

import oboro
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


@given(st.lists(st.sets(st.text("abcxyzåß漢", min_size=1, max_size=3)), min_size=1, max_size=30))
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
        (pd.DataFrame({"a": ["x", "n"]}, dtype=object), "does not say which columns name"),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int8")}), "'a' has no value in row 1"),
        (pd.DataFrame({"a": pd.arrays.SparseArray([0, 0, 5])}), "'a' has the value 5 in row 2"),
        (pd.DataFrame({"a": [1], 2: [1]}), "all text, all whole .* are int, str; make"),
        (pd.DataFrame([[1, 1]], columns=["a", ("a",)]), "these are str, tuple; make"),
        (pd.DataFrame([[1]], columns=[pd.NaT]), "these are NaTType"),
        (
            pd.DataFrame([[1, 1]], columns=pd.Index([("a/b", "c"), ("a", "b/c")])),
            r"\('a/b', 'c'\) and \('a', 'b/c'\) are both called 'a/b/c'",
        ),
        (pd.DataFrame({1.5: [1]}), "these are float"),
        (pd.DataFrame({True: [1]}), "these are bool"),
        (pd.DataFrame([[1, 0]], columns=["a", "a"]), "column 'a' is there twice"),
        (pd.DataFrame(index=[1, 2]), "there are 2 transactions and 0 items"),
        (np.zeros(3, dtype=bool), "an array of 1 dimensions is no table"),
        (np.array([[0, 3]]), "column 1 has the value 3 in row 0"),
        (sp.csc_array([[0, 1], [0, 4]]), "column 1 has the value 4 in row 1"),
        (pl.DataFrame({"a": [True, None]}), "column 'a' has no value in row 1"),
        (pl.DataFrame({"a": [0, 2]}), "column 'a' has the value 2 in row 1"),
        (pl.DataFrame({"a": ["x"]}), "does not say which columns name the transaction"),
        (pl.LazyFrame({"a": [True]}), "give frame.collect()"),
        (pa.table({"a": [True, None, False]}), "column 'a' has no value in row 1"),
        (7, "int is no form of data that can be encrypted"),
    ],
)
def test_what_cannot_be_encrypted_is_refused_by_name(data: object, sentence: str) -> None:
    with pytest.raises(errors.InputError, match=sentence):
        _frames.rows(data)


def test_row_ids_of_what_has_no_names_are_given_themselves() -> None:
    with pytest.raises(errors.InputError, match="no path of a file with such a column"):
        _frames.rows(np.array([[1, 0]]), reading={"row_ids": "id"})


def test_dates_and_tuples_are_names_as_in_csv() -> None:
    days = pd.DataFrame([[1, 0, 1]], columns=pd.date_range("2026-01-30", periods=3))
    assert _frames.rows(days).names == ["2026-01-30", "2026-01-31", "2026-02-01"]
    hours = pd.DataFrame([[1, 0]], columns=pd.date_range("2026-01-30", periods=2, freq="12h"))
    assert _frames.rows(hours).names == ["2026-01-30", "2026-01-30 12:00:00"]
    tuples = pd.DataFrame([[1, 0]], columns=pd.Index([("fruit", "apple"), (2026, "pear")]))
    assert _frames.rows(tuples).names == ["fruit/apple", "2026/pear"]


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
    with pytest.raises(errors.InputError, match=r"cannot read .*none.*check that the file exists"):
        _frames.rows(str(tmp_path / "none"))
    (tmp_path / "broken").write_bytes(b"PAR1 and no more")
    with pytest.raises(errors.InputError, match=r"cannot read .*broken as Parquet: "):
        _frames.rows(tmp_path / "broken")


def test_parquet_and_arrow_files_are_read_without_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = labelled(np.array([[1, 0], [1, 1]], dtype=bool))
    frame.to_parquet(tmp_path / "parquet")
    frame.to_feather(tmp_path / "feather")
    pl.from_pandas(frame).write_ipc_stream(tmp_path / "stream")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in ("parquet", "feather", "stream"):
        rows = _frames.rows(tmp_path / name)
        assert (rows.names, rows.supports()) == (list(frame.columns), [2, 1]), name


LONG = pd.DataFrame({
    "subject_id": [7, 7, 8, 7, 8],
    "hadm_id": [1, 1, 2, 3, 2],
    "seq_num": [1, 2, 1, 1, 2],
    "icd_code": ["I10", "E11", "I10", None, "E11"],
})  # fmt: skip
ADMISSIONS: dict[str, Any] = {"transaction_column": "hadm_id", "item_column": "icd_code"}
LONG_FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: LONG,
    "pandas, categories": lambda: LONG.astype({"icd_code": "category", "hadm_id": float}),
    "polars": lambda: pl.from_pandas(LONG),
    "polars, categories": lambda: pl.from_pandas(LONG).with_columns(
        pl.col("icd_code").cast(pl.Categorical), pl.col("hadm_id").cast(pl.String)
    ),
    "Arrow": lambda: pa.Table.from_pandas(LONG),
    "Arrow, batch": lambda: pa.Table.from_pandas(LONG).to_batches()[0],
    "Arrow, chunks": lambda: pa.concat_tables(
        [pa.Table.from_pandas(LONG[at : at + 1]) for at in range(5)]
    ),
}


@pytest.mark.parametrize("kind", LONG_FRAMES)
def test_long_frames_are_read_as_their_csv_is(kind: str, tmp_path: Path) -> None:
    LONG.to_csv(tmp_path / "long.csv", index=False)
    expected = _frames.rows(tmp_path / "long.csv", reading=ADMISSIONS)  # type: ignore[arg-type]
    rows = _frames.rows(LONG_FRAMES[kind](), reading=ADMISSIONS)  # type: ignore[arg-type]
    assert (len(rows), rows.names, rows.supports()) == (3, ["E11", "I10"], [2, 2])
    assert (expected.names, expected.supports()) == (rows.names, rows.supports())
    how = json.loads(rows.how_read or "null")
    assert how["container"] == "memory"
    assert how["transaction_columns"] == ["hadm_id"]
    assert how["columns_dropped"] == ["subject_id", "seq_num"]
    assert how["empty_transactions"] == 1
    # Without being told, it is refused as the file is.
    for data in (LONG_FRAMES[kind](), tmp_path / "long.csv"):
        with pytest.raises(
            errors.InputError, match=r"transaction_column=\['hadm_id'\], item_column="
        ):
            _frames.rows(data)


def test_frames_with_more_than_items_are_read_as_files_are() -> None:
    wide = pd.DataFrame({
        "patient": ["a", "b", "c"], "age": [70, 17, 40], "flu": ["yes", "no", "yes"],
        "gout": ["no", "no", "yes"],
    })  # fmt: skip
    for data in (wide, pl.from_pandas(wide), pa.Table.from_pandas(wide)):
        with pytest.raises(errors.InputError, match=r"drop_columns=\['patient', 'age'\]"):
            _frames.rows(data)
        reading: Any = {"drop_columns": "patient", "bins": {"age": [18, 65]}}
        rows = _frames.rows(data, reading=reading)
        assert rows.names == ["flu", "gout", "age<18", "age=18..65", "age>=65"]
        assert rows.supports() == [2, 1, 1, 1, 1]
        reading = {"row_ids": "patient", "drop_columns": ["age"]}
        assert _frames.rows(data, reading=reading).names == ["flu", "gout"]
    with pytest.raises(errors.InputError, match="mixes text with other values"):
        _frames.rows(pd.DataFrame({"order_id": [1, "x"], "item": ["a", "b"]}))


def test_items_of_a_long_frame_may_be_numbers() -> None:
    keys = oboro.Keys.generate()
    frame = pd.DataFrame({"order_id": ["a", "a", "b"], "item": [10, 9, 10]})
    for data in (frame, pl.from_pandas(frame)):
        assert oboro.encrypt(data, keys, max_len=2).columns == [9, 10]


# What importing a table of 200 MB costs: 2 million rows of 100 columns of bytes.
ARROW_MEMORY = """
import numpy, pyarrow
from oboro import _frames
rows, columns = 2_000_000, 100
names = [str(column) for column in range(columns)]
table = pyarrow.table([numpy.zeros(rows, dtype=numpy.int8) for name in names], names=names)
_frames.rows(table.slice(0, 1000), threads=2)
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
before = peak()
rows = _frames.rows(table, threads=2)
assert rows.supports()[98] == 0
print((peak() - before) // 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak")
def test_a_large_arrow_table_is_not_copied() -> None:
    bits, order, marks, at_once = 25, 8, 4, 4
    assert int(run(ARROW_MEMORY)) < bits + order + marks + at_once + 16


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
