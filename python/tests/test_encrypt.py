"""Encryption leaves a whole dataset or nothing, and says what it made without names."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import pickle
import resource
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import oboro
from conftest import oboro_command
from oboro import errors


@pytest.fixture(scope="module")
def keys() -> oboro.Keys:
    return oboro.Keys.generate()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that temporary datasets are made in, empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def frame(rows: int = 500) -> Any:
    numbers = np.arange(rows)
    return pd.DataFrame({f"by {n}": numbers % n == 0 for n in (7, 2, 30)})


def test_a_kept_dataset_opens_with_its_key_in_the_order_of_its_columns(
    tmp_path: Path, keys: oboro.Keys
) -> None:
    made = oboro.encrypt(frame(), keys, max_len=2, path=tmp_path / "d")
    assert made.path == tmp_path / "d"
    opened = oboro.Encrypted.open(str(tmp_path / "d"), keys)
    for enc in (made, opened):
        assert enc.columns == ["by 7", "by 2", "by 30"]
        assert (enc.transactions, enc.max_len) == (500, 2)
        files = (tmp_path / "d" / "segments").iterdir()
        assert enc.stored_bytes == sum(file.stat().st_size for file in files)
    with pytest.raises(errors.KeysError, match="give the right key file"):
        oboro.Encrypted.open(tmp_path / "d", oboro.Keys.generate())
    with pytest.raises(errors.InputError, match="exists already"):
        oboro.encrypt(frame(), keys, path=tmp_path / "d")


def test_forks_order_columns_differently(tmp_path: Path, keys: oboro.Keys) -> None:
    items = pd.DataFrame(np.ones((2, 40), dtype=bool), columns=[f"item {n}" for n in range(40)])
    keys.save(tmp_path / "key")
    # Whatever generator this has left behind, the forks do not go on with it.
    oboro.encrypt(items, keys, path=tmp_path / "parent", threads=1)
    for child in ("first", "second"):
        forked = os.fork()
        if forked == 0:
            faulthandler.dump_traceback_later(300, exit=True, file=2)
            try:
                oboro.encrypt(items, keys, path=tmp_path / child, threads=1)
            finally:
                os._exit(0)
        os.waitpid(forked, 0)

    def in_column_order(dataset: str) -> list[str]:
        command = [oboro_command(), "--json", "inspect", dataset, "--key", "key"]
        names: list[str] = json.loads(subprocess.check_output(command, cwd=tmp_path))["items"]
        assert sorted(names) == sorted(items.columns)
        return names

    assert in_column_order("first") != in_column_order("second")


def test_a_temporary_dataset_is_removed_with_its_last_use(
    temporary: Path, keys: oboro.Keys
) -> None:
    enc = oboro.encrypt(frame(), keys)
    assert enc.path.parent == temporary
    assert enc.path.stat().st_mode & 0o777 == 0o700
    enc.append(frame(20))
    assert (enc.transactions, enc.path.exists()) == (520, True)
    del enc
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_appending_takes_columns_in_any_order_and_no_others(
    tmp_path: Path, keys: oboro.Keys
) -> None:
    enc = oboro.encrypt(frame(), keys, path=tmp_path / "d")
    enc.append(frame(30)[["by 30", "by 7"]])
    assert (enc.transactions, enc.columns) == (530, ["by 7", "by 2", "by 30"])
    with pytest.raises(errors.InputError, match='are not columns of this dataset, "new"'):
        enc.append(frame(30).assign(new=1))
    assert oboro.Encrypted.open(tmp_path / "d", keys).transactions == 530


def test_new_items_can_be_left_out_of_what_is_appended(tmp_path: Path, keys: oboro.Keys) -> None:
    enc = oboro.encrypt(frame(100), keys, path=tmp_path / "rows.oboro")
    with pytest.raises(errors.InputError, match="new_items"):
        enc.append(frame(30), new_items="keep")  # type: ignore[arg-type]
    with pytest.raises(errors.InputError, match="new_items"):
        enc.append(frame(30), min_item_support=5)
    more = frame(30).assign(new=[True] * 10 + [False] * 20)
    with pytest.raises(errors.InputError, match=r'"new".*fewer than 10 may be left out'):
        enc.append(more, new_items="drop", min_item_support=10)
    assert enc.transactions == 100
    enc.append(more, new_items="drop", min_item_support=11)
    assert (enc.transactions, enc.min_item_support) == (130, 11)
    enc.append(frame(30).iloc[:0])
    assert enc.transactions == 130
    with pytest.raises(errors.InputError, match="there are 0 transactions and 3 items"):
        oboro.encrypt(frame(30).iloc[:0], keys)


def test_an_append_that_was_done_by_half_can_go_on(keys: oboro.Keys) -> None:
    enc = oboro.encrypt([["a"]] * 5000, keys)
    assert enc.path is not None
    files = [file.stat().st_size for file in enc.path.rglob("*") if file.is_file()]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Enough to encrypt twice the columns, not for twelve times the transactions as well.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * max(files), before[1]))
    try:
        with pytest.raises(errors.OboroError, match="has the new columns, but not yet"):
            enc.append([["new"]] * 60_000, new_items="re-encrypt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (enc.columns, enc.transactions) == (["a", "new"], 5000)
    enc.append([["new"]] * 60_000, new_items="re-encrypt")
    assert enc.transactions == 65_000


def test_a_change_is_one_even_if_something_kept_stays(tmp_path: Path, keys: oboro.Keys) -> None:
    enc = oboro.encrypt(
        [["a"]] * 300, keys, path=tmp_path / "d", row_ids=[str(n) for n in range(300)]
    )
    # No folder that could be removed.
    (tmp_path / "d" / "cells").write_bytes(b"")
    with pytest.raises(errors.StorageError, match="could not remove"):
        enc.erase(["1"])
    assert enc.transactions == 299
    (tmp_path / "d" / "cells").unlink()
    enc.erase(["2"])
    assert enc.transactions == 298


def test_numbers_stay_numbers(tmp_path: Path, keys: oboro.Keys) -> None:
    labels = [5, -3, 10]
    numbered = frame().set_axis(labels, axis=1)
    assert oboro.encrypt(numbered, keys, path=tmp_path / "d").columns == labels
    assert oboro.Encrypted.open(tmp_path / "d", keys).columns == labels
    assert oboro.encrypt([[3, 1], [2]], keys).columns == [1, 2, 3]
    assert oboro.encrypt([["3", "1"], ["2"]], keys).columns == ["1", "2", "3"]


def test_rare_items_can_be_left_out(keys: oboro.Keys) -> None:
    assert oboro.encrypt(frame(), keys, min_item_support=0.1).columns == ["by 7", "by 2"]
    assert oboro.encrypt(frame(), keys, min_item_support=250).columns == ["by 2"]
    with pytest.raises(errors.InputError, match=r"no item has the minimum support 0\.9"):
        oboro.encrypt(frame(), keys, min_item_support=0.9)
    for wrong in (1.5, 0.0, -0.1, float("nan"), 0, True):
        with pytest.raises(errors.InputError, match="min_item_support must be a fraction"):
            oboro.encrypt(frame(), keys, min_item_support=wrong)


def test_the_support_from_which_items_are_complete_is_told(
    keys: oboro.Keys, tmp_path: Path
) -> None:
    assert oboro.encrypt(frame(), keys).min_item_support == 1
    enc = oboro.encrypt(frame(), keys, min_item_support=0.1, path=tmp_path / "d")
    assert enc.min_item_support == 50
    assert oboro.Encrypted.open(tmp_path / "d", keys).min_item_support == 50


@pytest.mark.parametrize(
    ("max_len", "sentence"),
    [(0, "a maximum itemset length of 0 is not possible"), (17, "choose 1 to 16")],
)
def test_impossible_arguments_leave_nothing(
    max_len: int, sentence: str, temporary: Path, keys: oboro.Keys
) -> None:
    with pytest.raises(errors.InputError, match=sentence):
        oboro.encrypt(frame(), keys, max_len=max_len)
    assert list(temporary.iterdir()) == []


def test_an_interrupt_leaves_nothing(temporary: Path, keys: oboro.Keys) -> None:
    interrupt = oboro.Interrupt()
    interrupt.set()
    for path in (None, temporary / "kept"):
        with pytest.raises(errors.Interrupted, match="nothing is left of it"):
            oboro.encrypt(frame(), keys, path=path, interrupt=interrupt)
        assert list(temporary.iterdir()) == []


def test_a_file_is_encrypted_within_memory(
    temporary: Path, keys: oboro.Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = temporary.parent / "rows.dat"
    rows.write_text("".join(f"{n % 7} {7 + n % 5}\n" for n in range(40_000)))
    enc = oboro.encrypt(rows, keys, max_len=2, path=rows.parent / "d", memory=1_500_000)
    enc.append(rows, memory=1_500_000)
    with oboro.local() as server:
        found = server.upload(enc).apriori(keys, 0.01)
    both = found.loc[found["itemsets"] == frozenset({0, 7}), "support"]
    assert len(found) == 7 + 5 + 7 * 5 and both.item() == 1143 / 40_000
    with pytest.raises(errors.InputError, match=r"too little.* give memory=[0-9]+ or more"):
        oboro.encrypt(rows, keys, max_len=2, memory=1000)
    for memory in (0, -1, True, "4GiB"):
        with pytest.raises(errors.InputError, match="give a number of bytes"):
            oboro.encrypt(rows, keys, memory=memory)  # type: ignore[arg-type]
    before = enc.transactions
    wider = rows.with_name("wider.dat")
    wider.write_text("0 99\n")
    with pytest.raises(errors.InputError, match="too little"):
        enc.append(wider, new_items="re-encrypt", memory=100)
    assert enc.transactions == before and enc.path is not None
    assert oboro.Encrypted.open(enc.path, keys).transactions == before
    with pytest.raises(errors.InputError, match="memory is about files"):
        oboro.encrypt(frame(), keys, memory=1 << 30)
    monkeypatch.setenv("TMPDIR", str(temporary / "nowhere"))
    with pytest.raises(errors.StorageError, match="set TMPDIR to another directory"):
        oboro.encrypt(rows, keys, max_len=2, path=temporary / "d", memory=1 << 19)
    assert not list(temporary.iterdir())


def test_rows_are_encrypted_once(keys: oboro.Keys) -> None:
    rows = oboro._oboro.Rows.from_baskets([["a"]])
    oboro._oboro.Encrypted.create(rows, keys, max_len=1)
    with pytest.raises(errors.InputError, match="must not be used again"):
        oboro._oboro.Encrypted.create(rows, keys, max_len=1)


def test_a_bar_counts_blocks(keys: oboro.Keys, capsys: pytest.CaptureFixture[str]) -> None:
    oboro.encrypt(frame(), keys, progress=True)
    assert "3/3" in capsys.readouterr().err
    oboro.encrypt(frame(), keys)
    assert capsys.readouterr().err == ""


def test_neither_names_nor_keys_are_printed_or_pickled(keys: oboro.Keys) -> None:
    enc = oboro.encrypt(frame(), keys, max_len=2)
    size = enc.stored_bytes
    assert repr(enc) == (
        f"Encrypted(500 transactions × 3 items, itemsets of up to 2, {size} bytes, temporary)"
    )
    assert "by 7" not in repr(enc._native)
    with pytest.raises(TypeError):
        pickle.dumps(enc)


def test_the_temporary_folder_is_the_usual_one(temporary: Path, keys: oboro.Keys) -> None:
    tempfile.tempdir = None
    assert Path(tempfile.gettempdir()) == oboro.encrypt(frame(), keys).path.parent


@pytest.mark.parametrize(
    "arguments",
    [
        {"threads": 0},
        {"threads": -1},
        {"max_len": -1},
        {"max_len": 2.5},
        {"min_item_support": "many"},
    ],
)
def test_numbers_that_are_none_are_refused(keys: oboro.Keys, arguments: dict[str, Any]) -> None:
    with pytest.raises(oboro.errors.InputError, match=next(iter(arguments))):
        oboro.encrypt(frame(), keys, **arguments)


def test_data_of_odd_forms_is_refused_in_words(keys: oboro.Keys) -> None:
    lacking = pd.DataFrame({"a": [True, pd.NA]}, dtype=object)
    with pytest.raises(oboro.errors.InputError, match="no value in row 1"):
        oboro.encrypt(lacking, keys)
    nested = pd.DataFrame({"a": [np.array([1, 0]), 1]}, dtype=object)
    records = np.zeros(3, dtype=[("a", bool)])
    for odd in (nested, records, [b"ab", b"c"], scipy.sparse.coo_array([1, 0, 1])):
        with pytest.raises(oboro.errors.InputError):
            oboro.encrypt(odd, keys)
