"""Servers, local and elsewhere, and what is mined on them."""

from __future__ import annotations

import faulthandler
import gc
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlxtend.frequent_patterns import apriori
from pandas.testing import assert_frame_equal

import oboro
from conftest import Encrypt, Serving, random_frame
from oboro.errors import ConnectionFailed, InputError, KeysError, ServerError, VersionError


@pytest.mark.parametrize("trust_server", [False, True])
@pytest.mark.parametrize("use_colnames", [False, True])
def test_what_is_found_is_what_mlxtend_finds(
    encrypt: Encrypt, trust_server: bool, use_colnames: bool
) -> None:
    keys = oboro.Keys.generate()
    frame = random_frame(300, 8)
    with oboro.local() as server:
        dataset = server.upload(encrypt(frame, keys))
        for min_support in (0.9999, 0.5, 1 / 3, 0.07, 1e-9):
            for max_len in (1, 2, 4):
                expected = apriori(
                    frame, min_support=min_support, max_len=max_len, use_colnames=use_colnames
                )
                found = dataset.apriori(
                    keys, min_support, max_len, use_colnames, trust_server=trust_server
                )
                assert_frame_equal(found, expected)
                # The server is the owner, whatever it is asked for.
                assert found.attrs["oboro"]["answers"] == "local"


def test_a_fraction_that_floats_make_is_met_as_in_mlxtend(encrypt: Encrypt) -> None:
    # 5/6 is printed as 0.8333333333333334, which is more than 5/6.
    keys = oboro.Keys.generate()
    frame = pd.DataFrame(
        {"a": [True] * 6, "b": [True] * 5 + [False], "c": [True] * 3 + [False] * 3}
    )
    with oboro.local() as server:
        dataset = server.upload(encrypt(frame, keys, max_len=3))
        for min_support in (5 / 6, 3 / 6, 1.0):
            found = dataset.apriori(keys, min_support)
            assert_frame_equal(found, apriori(frame, min_support=min_support))


@pytest.mark.parametrize("trust_server", [False, True])
def test_a_result_says_what_it_cost(
    encrypt: Encrypt, capsys: pytest.CaptureFixture[str], trust_server: bool
) -> None:
    keys = oboro.Keys.generate()
    with oboro.local(threads=1) as server:
        dataset = server.upload(encrypt(random_frame(50, 5), keys))
        found = dataset.apriori(
            keys,
            0.2,
            max_len=2,
            answers="cells",
            trust_server=trust_server,
            verbose=1,
            progress=False,
        )
    costs = found.attrs["oboro"]
    assert (costs["transactions"], costs["min_support"]) == (50, 10)
    assert (costs["columns"], costs["new_columns"]) == ((0, 0) if trust_server else (5, 5))
    items, pairs = costs["levels"]
    assert (items["level"], pairs["level"]) == (1, 2)
    # Supports of items are in the owner's record.
    assert (items["asked"], items["deduced"], items["excluded"]) == (0, 5, 0)
    assert (items["route"], items["received_bytes"]) == (None, 0)
    assert pairs["route"] == ("trusted" if trust_server else "cells")
    assert pairs["asked"] > 0 and pairs["received_bytes"] > 0
    assert (pairs["moments"] > 0) == trust_server
    told = capsys.readouterr()
    assert told.out == "5 candidates of length 1\n10 candidates of length 2\n"
    assert told.err == ""


def test_a_minimum_support_below_that_of_items_left_out_is_refused() -> None:
    keys = oboro.Keys.generate()
    frame = random_frame(300, 8)
    for least in (1 / 3, 0.5, 0.6):
        encrypted = oboro.encrypt(frame, keys, min_item_support=least)
        with oboro.local() as server:
            dataset = server.upload(encrypted)
            for min_support in (1e-9, least - 0.01):
                with pytest.raises(InputError, match="encrypt the data again"):
                    dataset.apriori(keys, min_support)
            found = dataset.apriori(keys, least, use_colnames=True)
            assert_frame_equal(found, apriori(frame, min_support=least, use_colnames=True))


def test_a_result_says_where_longer_itemsets_were_not_looked_for(encrypt: Encrypt) -> None:
    keys = oboro.Keys.generate()
    frame = pd.DataFrame({name: [True] * 20 for name in "abc"})
    with oboro.local() as server:
        dataset = server.upload(encrypt(frame, keys))
        for max_len, told in ((1, 1), (2, 2), (3, None), (None, None)):
            found = dataset.apriori(keys, 0.5, max_len)
            assert found.attrs["oboro"]["max_len"] == told


def test_bars_are_shown_on_request(encrypt: Encrypt, capsys: pytest.CaptureFixture[str]) -> None:
    keys = oboro.Keys.generate()
    with oboro.local() as server:
        dataset = server.upload(encrypt(random_frame(50, 5), keys), progress=True)
        assert "uploading: 100%" in capsys.readouterr().err
        dataset.apriori(keys, progress=True)
        assert "counting: 100%" in capsys.readouterr().err
        # Nobody looks at what is captured.
        dataset.apriori(keys)
        assert capsys.readouterr().err == ""


def test_too_many_itemsets_end_the_call(encrypt: Encrypt) -> None:
    keys = oboro.Keys.generate()
    frame = pd.DataFrame(True, index=range(3), columns=[f"item {number}" for number in range(12)])
    with oboro.local() as server:
        dataset = server.upload(encrypt(frame, keys, max_len=2))
        with pytest.raises(InputError, match="at least 4083 longer ones") as refused:
            dataset.apriori(keys, stop_above=4094)
        assert "`stop_above=0`" in str(refused.value)
        for enough in (0, 4095):
            assert len(dataset.apriori(keys, stop_above=enough)) == 4095
    with pytest.raises(InputError, match="at least 4083 longer ones"):
        oboro.frequent_patterns.fpmax(frame, stop_above=4094)


def test_what_is_not_possible_is_refused(encrypt: Encrypt) -> None:
    keys = oboro.Keys.generate()
    frame = random_frame(50, 5)
    with oboro.local() as server:
        dataset = server.upload(encrypt(frame, keys, max_len=2))
        for min_support in (0.0, -0.5, 1.5, float("nan")):
            with pytest.raises(ValueError, match="must be a positive number") as refused:
                dataset.apriori(keys, min_support)
            assert isinstance(refused.value, InputError)
        with pytest.raises(InputError, match="up to 2, not 3; choose max_len=2"):
            dataset.apriori(keys, max_len=3, trust_server=True)
        with pytest.raises(InputError, match="at least one item"):
            dataset.apriori(keys, max_len=0)
        no_bytes: list[Any] = [-1, 1 << 64, True, 1.5, "1 GiB"]
        for keep_cells in no_bytes:
            with pytest.raises(InputError, match="keep_cells must be a number of bytes"):
                dataset.apriori(keys, keep_cells=keep_cells)
            with pytest.raises(InputError, match="stop_above must be a number of itemsets"):
                dataset.apriori(keys, stop_above=keep_cells)
        with pytest.raises(KeysError, match="give the right key"):
            dataset.apriori(oboro.Keys.generate())
    with pytest.raises(InputError, match="one at least"):
        oboro.local(threads=0)
    with pytest.raises(InputError, match="more"):
        oboro.local(memory=-1)
    with pytest.raises(ServerError, match="memory"):
        oboro.local(memory=1 << 20)


def test_datasets_are_listed_found_and_deleted(encrypt: Encrypt) -> None:
    keys = oboro.Keys.generate()
    frame = random_frame(50, 5)
    encrypted = encrypt(frame, keys)
    with oboro.local() as server:
        assert server.datasets() == []
        assert server.upload(encrypt(frame, keys)).name == "frame"
        assert server.upload(encrypted, "again").name == "again"
        with pytest.raises(ServerError, match="Use that name"):
            server.upload(encrypted, "another")
        first, second = server.datasets()
        assert (first.name, second.name) == ("again", "frame")
        assert first.root != second.root
        assert (first.version, first.columns, first.max_len) == (1, 5, 4)
        found = server.dataset("again", encrypted).apriori(keys)
        assert_frame_equal(found, apriori(frame))
        with pytest.raises(InputError, match=r"no dataset 'other'.*'again', 'frame'"):
            server.dataset("other", encrypted)
        server.delete("again")
        assert [info.name for info in server.datasets()] == ["frame"]
        with pytest.raises(ServerError, match="again"):
            server.delete("again")


def test_a_local_server_leaves_nothing(
    encrypt: Encrypt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = oboro.Keys.generate()
    encrypted = encrypt(random_frame(50, 5), keys)
    there = tmp_path / "temporary"
    there.mkdir()
    monkeypatch.setenv("TMPDIR", str(there))
    server = oboro.local()
    dataset = server.upload(encrypted)
    assert len(list(there.iterdir())) == 1
    server.close()
    assert list(there.iterdir()) == []
    server.close()
    with pytest.raises(ConnectionFailed, match="has been closed"):
        dataset.apriori(keys)
    # One that nobody closes, and one that Python's end closes.
    forgotten = oboro.local()
    assert len(list(there.iterdir())) == 1
    del forgotten
    gc.collect()
    assert list(there.iterdir()) == []
    program = "import oboro, os; server = oboro.local(); print(os.listdir(os.environ['TMPDIR']))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("['oboro-")
    assert list(there.iterdir()) == []


def test_two_threads_mine_on_one_server(encrypt: Encrypt) -> None:
    keys = oboro.Keys.generate()
    frames = [random_frame(200, 7, seed) for seed in range(2)]
    with oboro.local() as server:
        datasets = [server.upload(encrypt(frame, keys), str(i)) for i, frame in enumerate(frames)]
        found: dict[int, pd.DataFrame] = {}

        def mine(i: int) -> None:
            for _ in range(5):
                found[i] = datasets[i].apriori(keys, 0.2)

        threads = [threading.Thread(target=mine, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for i, frame in enumerate(frames):
        assert_frame_equal(found[i], apriori(frame, min_support=0.2))


def test_servers_that_cannot_be_called_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="write it like"):
        oboro.connect("ftp://host")
    with pytest.raises(InputError, match="without TLS"):
        oboro.connect("http://example.org:7171")
    with pytest.raises(InputError, match="token"):
        oboro.connect("http://127.0.0.1:1", token="two words")
    with pytest.raises(InputError, match="check the path"):
        oboro.connect("https://127.0.0.1:1", tls=tmp_path / "none.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        unused = listener.getsockname()[1]
    with pytest.raises(ConnectionFailed, match="check that `oboro serve` runs there"):
        oboro.connect(f"http://127.0.0.1:{unused}")


@pytest.mark.parametrize("trust_server", [False, True])
def test_a_server_elsewhere_answers_and_comes_back(
    encrypt: Encrypt, serving: Serving, under_way: threading.Event, trust_server: bool
) -> None:
    keys = oboro.Keys.generate()
    frame = random_frame(100, 6)
    server = oboro.connect(serving.url)
    assert repr(server) == f"Server({serving.url!r})"
    dataset = server.upload(encrypt(frame, keys))
    expected = apriori(frame, min_support=0.2, max_len=4)

    def mine() -> pd.DataFrame:
        return dataset.apriori(keys, 0.2, 4, trust_server=trust_server, keep_cells=0)

    assert_frame_equal(mine(), expected)
    serving.freeze()
    under_way.clear()

    def kill_in_the_middle() -> None:
        under_way.wait()
        serving.kill()

    threading.Thread(target=kill_in_the_middle, daemon=True).start()
    with pytest.raises(ConnectionFailed, match="broke while"):
        mine()
    again = serving.restarted()
    try:
        assert_frame_equal(mine(), expected)
    finally:
        again.kill()


def frame_of_http2(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def refuse_as_protocol(number: int, listener: socket.socket) -> None:
    """Answers one call as a server of another protocol does."""
    settings, headers, acknowledge, end = 4, 1, 1, 5
    refusal = {
        "content-type": "application/grpc",
        "grpc-status": "9",
        "oboro-protocol": str(number),
    }
    literal = [bytes([len(text)]) + text.encode() for pair in refusal.items() for text in pair]
    status_200 = b"\x88"
    pairs = [b"\0" + name + value for name, value in zip(literal[::2], literal[1::2], strict=True)]
    with listener.accept()[0] as connection, connection.makefile("rb") as calls:
        connection.sendall(frame_of_http2(settings, 0, 0, b""))
        calls.read(24)
        while start := calls.read(9):
            calls.read(int.from_bytes(start[:3], "big"))
            if start[3] == settings and not start[4] & acknowledge:
                connection.sendall(frame_of_http2(settings, acknowledge, 0, b""))
            if start[3] == headers:
                stream = int.from_bytes(start[5:9], "big")
                connection.sendall(
                    frame_of_http2(headers, end, stream, status_200 + b"".join(pairs))
                )


@pytest.mark.parametrize(("protocol", "remedy"), [(0, "the server"), (99, "this Oboro")])
def test_a_server_of_another_protocol_is_no_broken_one(protocol: int, remedy: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=refuse_as_protocol, args=(protocol, listener), daemon=True).start()
        server = oboro.connect(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(VersionError, match=rf"speaks protocol {protocol}.*update {remedy}"):
            server.datasets()
        server.close()


def test_a_fork_leaves_servers_and_datasets_to_its_parent(encrypt: Encrypt) -> None:
    keys = oboro.Keys.generate()
    frame = random_frame(50, 5)
    temporary = oboro.encrypt(frame, keys)
    server = oboro.local()
    dataset = server.upload(temporary)
    child = os.fork()
    if child == 0:
        # What limits the time of tests is not inherited.
        faulthandler.dump_traceback_later(300, exit=True, file=2)
        try:
            dataset.apriori(keys)
        except ConnectionFailed:
            server.close()
            del temporary, dataset, server
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert temporary.path.exists()
    assert_frame_equal(dataset.apriori(keys), apriori(frame))
    server.close()


def test_the_folder_of_a_local_server_is_its_users_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with oboro.local():
        (folder,) = tmp_path.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_supports_of_few_bits_are_compared_as_floats(encrypt: Encrypt) -> None:
    frame = pd.DataFrame({"a": [1] * 3 + [0] * 7, "b": [1] * 2 + [0] * 8}).astype(bool)
    least: Any
    for least in (np.float32(0.3), np.float64(0.3), np.float16(0.2)):
        assert_frame_equal(oboro.apriori(frame, least), apriori(frame, least))


def test_one_item_is_counted_with_each_other(encrypt: Encrypt) -> None:
    keys = oboro.Keys.generate()
    frame = random_frame(300, 8)
    with oboro.local() as server:
        uploaded = server.upload(encrypt(frame, keys))
        for item in frame.columns:
            found = uploaded.pairs_with(item)
            together = {other: int((frame[item] & frame[other]).sum()) for other in frame.columns}
            del together[item]
            assert found["together"].to_dict() == together
            assert found.attrs["oboro"]["answers"] == "verified"
            assert found.attrs["oboro"]["transactions"] == 300
        with pytest.raises(InputError, match="is no item of this dataset"):
            uploaded.pairs_with("nothing")


def test_one_of_many_items_is_counted_with_each_other_if_it_is_in_focus() -> None:
    keys = oboro.Keys.generate()
    values = np.random.default_rng(1).random((20, 1030)) < 0.3
    wide = pd.DataFrame(values, columns=[f"item {number}" for number in range(1030)])
    with oboro.local() as server:
        encrypted = oboro.encrypt(wide, keys, max_len=2, focus=["item 7"])
        paired = oboro.encrypt(wide, keys, max_len=2, pair_columns=1_030)
        both = wide[wide["item 8"]].sum().drop("item 8").astype(int)
        found = server.upload(paired, "paired").pairs_with("item 8")
        assert found["together"].to_dict() == both.to_dict()
        uploaded = server.upload(encrypted, "wide")
        both = wide[wide["item 7"]].sum().drop("item 7").astype(int)
        assert uploaded.pairs_with("item 7")["together"].to_dict() == both.to_dict()
        with pytest.raises(InputError, match="focus"):
            uploaded.pairs_with("item 8")
    with pytest.raises(InputError, match="1024 to 4096"):
        oboro.encrypt(wide, keys, pair_columns=5_000)
    with pytest.raises(InputError, match="give a list of items"):
        oboro.encrypt(wide, keys, focus="item 7")
    with pytest.raises(InputError, match="is to be a focus item"):
        oboro.encrypt(wide, keys, focus=["item 7", "nothing"])
