"""The owner's key, in memory and in its file."""

from __future__ import annotations

import pickle
import stat
from pathlib import Path

import pytest

import oboro


def test_a_saved_key_is_the_same_and_its_owners_alone(tmp_path: Path) -> None:
    keys = oboro.Keys.generate()
    keys.save(tmp_path / "key", passphrase="a moon behind haze")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    loaded = oboro.Keys.load(tmp_path / "key", passphrase="a moon behind haze")
    assert loaded.check == keys.check != oboro.Keys.generate().check


def test_what_is_wrong_with_a_key_file_is_said(tmp_path: Path) -> None:
    keys = oboro.Keys.generate()
    with pytest.raises(oboro.errors.KeysError, match="cannot read the key file"):
        oboro.Keys.load(tmp_path / "none")
    keys.save(tmp_path / "key", passphrase="right")
    with pytest.raises(oboro.errors.KeysError, match="exists already"):
        keys.save(tmp_path / "key")
    with pytest.raises(oboro.errors.KeysError, match="passphrase; give it as `passphrase`"):
        oboro.Keys.load(tmp_path / "key")
    with pytest.raises(oboro.errors.KeysError, match="does not open"):
        oboro.Keys.load(tmp_path / "key", passphrase="wrong")
    (tmp_path / "other").write_text("no key")
    (tmp_path / "other").chmod(0o600)
    with pytest.raises(oboro.errors.KeysError, match=r"make one with `Keys\.generate\(\)`"):
        oboro.Keys.load(tmp_path / "other")


def test_errors_do_not_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31m\n\u202ekey"
    with pytest.raises(oboro.errors.KeysError) as raised:
        oboro.Keys.load(path)
    assert f"{tmp_path}/\\u{{1b}}[31m\\n\\u{{202e}}key: " in str(raised.value)
    with pytest.raises(oboro.errors.KeysError) as raised:
        oboro.Keys.load(tmp_path / "key")
    assert "/key: " in str(raised.value)


def test_a_key_is_neither_pickled_nor_printed() -> None:
    keys = oboro.Keys.generate()
    with pytest.raises(TypeError):
        pickle.dumps(keys)
    assert repr(keys) == f"Keys({keys.check})"
