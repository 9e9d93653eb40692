"""Sealed cells and trust: what a result says that it rests on, what is kept for the next call, a
server that lies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
from mlxtend.frequent_patterns import apriori
from pandas.testing import assert_frame_equal

import oboro
from conftest import Encrypt, Serving, public_data, random_frame
from oboro.errors import FalseAnswerError, InputError, KeysError, RevealsMoreWarning
from oboro.frequent_patterns import association_rules

# The columns of such a frame are in some 0.3, 0.42, 0.54, 0.66, 0.78 and 0.9 of the rows.
COLUMNS = 6


def told(found: pd.DataFrame) -> dict[str, Any]:
    """What a result says of itself."""
    attributes: dict[str, Any] = found.attrs["oboro"]
    return attributes


def received(found: pd.DataFrame) -> int:
    """The bytes that the server sent for a result."""
    return sum(level["received_bytes"] for level in told(found)["levels"])


def kept(encrypted: oboro.Encrypted) -> list[Path]:
    """The files of cells that are kept."""
    return sorted(encrypted.path.glob("cells/*"))


@pytest.fixture
def keys() -> oboro.Keys:
    return oboro.Keys.generate()


@pytest.fixture
def server(serving: Serving) -> oboro.Server:
    return oboro.connect(serving.url)


def test_pairs_come_as_sums_that_are_verified(
    encrypt: Encrypt, keys: oboro.Keys, server: oboro.Server
) -> None:
    frame = random_frame(300, COLUMNS)
    dataset = server.upload(encrypt(frame, keys, max_len=2))
    expected = apriori(frame, min_support=0.05, max_len=2)
    cases: list[tuple[Literal["auto", "moments", "cells"], str, int]] = [
        ("auto", "scalars", 15 * 7),
        ("moments", "scalars", 15 * 7),
        ("cells", "cells", COLUMNS * (4096 // 8 + 40)),
    ]
    for answers, route, pairs_bytes in cases:
        found = dataset.apriori(keys, 0.05, max_len=2, answers=answers, keep_cells=0)
        assert_frame_equal(found, expected)
        assert told(found)["answers"] == "verified"
        assert told(found)["levels"][1]["route"] == route
        assert received(found) == pairs_bytes
    with pytest.raises(InputError, match="answers are"):
        dataset.apriori(keys, 0.05, answers="sums")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="give max_len=2, or mine with answers='cells', or"):
        dataset.apriori(keys, 0.05, max_len=3, answers="moments")


def test_what_a_server_sends_is_verified_unless_it_is_trusted(
    encrypt: Encrypt, keys: oboro.Keys, server: oboro.Server
) -> None:
    frame = random_frame(300, COLUMNS)
    encrypted = encrypt(frame, keys, max_len=2)
    dataset = server.upload(encrypted)
    # Longer itemsets than the server could count.
    found = dataset.apriori(keys, 0.05)
    assert_frame_equal(found, apriori(frame, min_support=0.05))
    assert found["itemsets"].map(len).max() > 2
    assert told(found)["answers"] == "verified"
    assert (told(found)["columns"], told(found)["new_columns"]) == (COLUMNS, COLUMNS)
    items, pairs, *_ = told(found)["levels"]
    assert (items["asked"], items["deduced"], items["route"]) == (0, COLUMNS, None)
    assert (pairs["route"], pairs["received_bytes"]) == ("cells", received(found))
    assert {level["route"] for level in told(found)["levels"]} <= {None, "cells"}
    assert encrypted.trust == {"relied_on": None, "failure": None}

    found = dataset.apriori(keys, 0.05, trust_server=True)
    assert_frame_equal(found, apriori(frame, min_support=0.05, max_len=2))
    assert told(found)["answers"] == "unverified"
    for options in ({}, {"support_only": True}, {"min_threshold": 1.1}):
        rules = association_rules(found, **options)
        assert rules.attrs["oboro"] == {"answers": "unverified"}
    assert [level["route"] for level in told(found)["levels"]] == [None, "trusted"]
    # That stays known, also when it is opened later. Kept cells answer; questions are refused.
    again = told(dataset.apriori(keys, 0.05))
    assert (again["answers"], again["offline"], again["version"]) == ("verified", True, 1)
    for later in (encrypted, oboro.Encrypted.open(encrypted.path, keys)):
        relied_on = later.trust["relied_on"]
        assert (relied_on["version"], relied_on["decided"]) == (1, False)
    with pytest.raises(InputError, match="nothing was asked"):
        dataset.apriori(keys, 0.05, keep_cells=0)
    encrypted.reset_trust()
    assert encrypted.trust["relied_on"]["decided"]
    assert not told(dataset.apriori(keys, 0.05, keep_cells=0))["offline"]
    assert told(dataset.apriori(keys, 0.05, offline=True))["offline"]


def test_the_owners_own_server_is_not_one_to_be_trusted(encrypt: Encrypt, keys: oboro.Keys) -> None:
    encrypted = encrypt(random_frame(50, COLUMNS), keys)
    with oboro.local() as server:
        dataset = server.upload(encrypted)
        for trust_server in (False, True):
            found = dataset.apriori(keys, 0.2, trust_server=trust_server)
            assert told(found)["answers"] == "local"
    assert encrypted.trust == {"relied_on": None, "failure": None}


def test_only_columns_that_are_not_here_yet_are_fetched(
    encrypt: Encrypt, keys: oboro.Keys, server: oboro.Server
) -> None:
    frame = random_frame(300, COLUMNS)
    encrypted = encrypt(frame, keys)
    dataset = server.upload(encrypted)

    def mine(min_support: float) -> tuple[int, int, int]:
        found = dataset.apriori(keys, min_support)
        assert_frame_equal(found, apriori(frame, min_support=min_support))
        return told(found)["columns"], told(found)["new_columns"], received(found)

    columns, new, first = mine(0.6)
    assert (columns, new) == (3, 3) and first > 0
    assert mine(0.7) == (2, 0, 0)
    assert mine(0.6) == (3, 0, 0)
    with pytest.warns(RevealsMoreWarning, match="3 more columns are frequent"):
        assert mine(0.2) == (COLUMNS, COLUMNS - 3, first)
    # Another process finds them, too.
    dataset = server.dataset("frame", oboro.Encrypted.open(encrypted.path, keys))
    assert mine(0.2) == (COLUMNS, 0, 0)


@pytest.mark.parametrize("keep_cells", [0, 100])
def test_without_room_for_cells_none_are_kept(
    encrypt: Encrypt, keys: oboro.Keys, server: oboro.Server, keep_cells: int
) -> None:
    encrypted = encrypt(random_frame(300, COLUMNS), keys)
    dataset = server.upload(encrypted)
    for _ in range(2):
        found = dataset.apriori(keys, 0.2, keep_cells=keep_cells)
        assert told(found)["new_columns"] == COLUMNS and received(found) > 0
        assert not (encrypted.path / "cells").exists()


def test_nothing_is_kept_of_a_temporary_dataset(keys: oboro.Keys, server: oboro.Server) -> None:
    encrypted = oboro.encrypt(random_frame(300, COLUMNS), keys)
    dataset = server.upload(encrypted)
    for _ in range(2):
        assert told(dataset.apriori(keys, 0.2))["new_columns"] == COLUMNS
    assert kept(encrypted) == []


@pytest.mark.parametrize("damage", ["a bit", "its end", "all of it"])
def test_kept_cells_that_were_damaged_are_fetched_again(
    encrypt: Encrypt, keys: oboro.Keys, server: oboro.Server, damage: str
) -> None:
    frame = random_frame(300, COLUMNS)
    expected = apriori(frame, min_support=0.2)
    encrypted = encrypt(frame, keys)
    dataset = server.upload(encrypted)
    first = dataset.apriori(keys, 0.2)
    (file,) = kept(encrypted)
    whole = file.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    file.write_bytes({"a bit": flipped, "its end": whole[:-1], "all of it": b""}[damage])
    again = dataset.apriori(keys, 0.2)
    assert_frame_equal(again, expected)
    assert (told(again)["answers"], told(again)["new_columns"]) == ("verified", COLUMNS)
    assert received(again) == received(first)
    # The server is not to blame.
    assert encrypted.trust["failure"] is None
    last = dataset.apriori(keys, 0.2)
    assert_frame_equal(last, expected)
    assert received(last) == 0


def test_after_appending_only_what_is_new_is_fetched(
    encrypt: Encrypt, keys: oboro.Keys, server: oboro.Server
) -> None:
    frame, more = random_frame(300, COLUMNS), random_frame(300, COLUMNS, seed=8)
    encrypted = encrypt(frame, keys)
    dataset = server.upload(encrypted)
    first = dataset.apriori(keys, 0.2)
    encrypted.append(more, absorb=False)
    dataset = server.upload(encrypted)
    both = dataset.apriori(keys, 0.2)
    assert_frame_equal(both, apriori(pd.concat([frame, more]), min_support=0.2))
    assert (told(both)["answers"], told(both)["new_columns"]) == ("verified", 0)
    # There are as many transactions in either segment.
    assert received(both) == received(first) > 0
    assert received(dataset.apriori(keys, 0.2)) == 0


@contextmanager
def lying(url: str) -> Iterator[str]:
    """The address of somebody between owner and server who alters a bit of every longer answer."""

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)

    def alter(source: socket.socket, target: socket.socket) -> None:
        data_frame = 0
        with suppress(OSError), source.makefile("rb") as answers:
            while head := answers.read(9):
                payload = bytearray(answers.read(int.from_bytes(head[:3], "big")))
                if head[3] == data_frame and len(payload) > 500:
                    # In the data of the first message of the frame, behind what frames it: cells
                    # of a column are more than 512 bytes, however many columns a frame has.
                    payload[100] ^= 1
                target.sendall(head + payload)

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                owner = listener.accept()[0]
                server = socket.create_connection((host, int(port)))
                connections.extend((owner, server))
                for way, ends in ((pass_on, (owner, server)), (alter, (server, owner))):
                    threads.append(threading.Thread(target=way, args=ends, daemon=True))
                    threads[-1].start()

    host, port = url.removeprefix("http://").split(":")
    connections: list[socket.socket] = []
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=serve, args=(listener,), daemon=True)
        accepting.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()
    for connection in connections:
        connection.close()


def test_a_false_answer_is_found_out_and_nothing_is_asked_until_trust_is_reset(
    encrypt: Encrypt, keys: oboro.Keys, serving: Serving
) -> None:
    frame = random_frame(300, COLUMNS)
    encrypted = encrypt(frame, keys)
    honest = oboro.connect(serving.url).upload(encrypted)
    with lying(serving.url) as url, oboro.connect(url) as server:
        lied_about = server.dataset("frame", encrypted)
        with pytest.raises(FalseAnswerError, match="other cells than were encrypted"):
            lied_about.apriori(keys, 0.2)
    assert kept(encrypted) == []
    assert "other cells" in encrypted.trust["failure"]["what"]
    assert encrypted.trust["failure"]["unix_seconds"] > 0
    for trust_server in (False, True):
        with pytest.raises(FalseAnswerError):
            honest.apriori(keys, 0.2, trust_server=trust_server)
    encrypted.reset_trust()
    assert encrypted.trust == {"relied_on": None, "failure": None}
    assert_frame_equal(honest.apriori(keys, 0.2), apriori(frame, min_support=0.2))


def test_a_column_is_fetched_in_little_more_than_a_bit_for_each_transaction(
    keys: oboro.Keys, server: oboro.Server, tmp_path: Path
) -> None:
    path = public_data("mushroom.dat.gz")
    encrypted = oboro.encrypt(path, keys, max_len=2, path=tmp_path / "mushroom")
    found = server.upload(encrypted).apriori(keys, 0.3)
    by_length = found["itemsets"].map(len).value_counts()
    # docs/mining.md
    assert [by_length[length] for length in (1, 2, 3, 4)] == [24, 134, 349, 501]
    assert (told(found)["answers"], told(found)["columns"]) == ("verified", 24)
    cells = encrypted.transactions * told(found)["columns"]
    assert 1 <= 8 * received(found) / cells <= 1.1


@pytest.mark.parametrize("kind", ["pandas", "baskets", "parquet", "csv"])
def test_row_ids_come_back(
    kind: str, tmp_path: Path, keys: oboro.Keys, server: oboro.Server
) -> None:
    frame = random_frame(300, COLUMNS)
    ids = [f"patient {number}" for number in range(300)]
    named = frame.astype(int).assign(id=ids)
    if kind == "pandas":
        encrypted = oboro.encrypt(frame, keys, row_ids=pd.Series(ids))
    elif kind == "baskets":
        baskets = [[str(name) for name in frame.columns[row]] for row in frame.to_numpy()]
        encrypted = oboro.encrypt(baskets, keys, row_ids=ids)
    elif kind == "parquet":
        named.to_parquet(tmp_path / "rows.parquet")
        encrypted = oboro.encrypt(tmp_path / "rows.parquet", keys, row_ids="id")
    else:
        named.to_csv(tmp_path / "rows.csv", index=False)
        encrypted = oboro.encrypt(tmp_path / "rows.csv", keys, row_ids="id")
    assert "id" not in encrypted.columns
    dataset = server.upload(encrypted)
    assert list(dataset.row_ids()) == sorted(ids)
    rows = dataset.row_ids(slots=True)
    assert list(rows) == sorted(ids)
    assert list(rows.index) != list(range(300))
    assert list(rows.sort_index().index) == list(range(300))
    if kind == "csv":
        more = pd.DataFrame({name: [1] for name in frame.columns})
        with pytest.raises(InputError, match="say which column has them"):
            encrypted.append(more)
        encrypted.append(more, row_ids=["somebody"], absorb=False)
        server.upload(encrypted, dataset.name)
        assert list(dataset.row_ids(slots=True).sort_index())[300:] == ["somebody"]


def test_what_is_stored_is_compacted_erased_and_given_another_key(
    tmp_path: Path, keys: oboro.Keys, server: oboro.Server
) -> None:
    frame = random_frame(90, COLUMNS)
    ids = [f"2026-{1 + row // 30:02}-01/{row}" for row in range(90)]
    encrypted = oboro.encrypt(frame[:30], keys, row_ids=ids[:30], path=tmp_path / "d.oboro")
    assert not encrypted.compact()
    for day in (slice(30, 60), slice(60, 90)):
        encrypted.append(frame[day], row_ids=ids[day], absorb=False)
    before = encrypted.stored_bytes
    assert encrypted.compact()
    assert 3 * encrypted.stored_bytes == before
    dataset = server.upload(encrypted)

    def check(there: pd.DataFrame, keys: oboro.Keys) -> None:
        for answers in ("cells", "moments"):
            found = dataset.apriori(keys, 0.1, max_len=2, answers=answers)
            assert found.attrs["oboro"]["answers"] == "verified"
            expected = apriori(there, min_support=0.1, max_len=2)
            assert_frame_equal(found, expected)

    check(frame, keys)
    with pytest.raises(InputError, match=r'no row has the id "nobody", one of 2 unknown ids'):
        encrypted.erase(["nobody", "noone", ids[3]])
    with pytest.raises(InputError, match="row_ids is a list of ids, not one"):
        encrypted.erase(ids[3])
    with pytest.raises(InputError, match="is no date"):
        encrypted.erase(before="yesterday")
    cost = encrypted.erasure([ids[40], ids[80]], before="2026-02-01")
    assert (cost["transactions"], cost["shuffled"], cost["shuffled_bytes"]) == (32, 0, 0)
    assert cost["new_bytes"] == encrypted.stored_bytes
    assert encrypted.erase([ids[40], ids[80]], before="2026-02-01") == 32
    server.upload(encrypted, dataset.name)
    left = [row for row in range(30, 90) if row not in (40, 80)]
    check(frame.iloc[left], keys)
    assert sorted(dataset.row_ids()) == [ids[row] for row in left]

    other = oboro.Keys.generate()
    encrypted.rotate(other)
    with pytest.raises(KeysError):
        encrypted.rotate(other)
    with pytest.raises(KeysError):
        oboro.Encrypted.open(tmp_path / "d.oboro", keys)
    server.upload(encrypted, dataset.name)
    check(frame.iloc[left], other)
    with oboro.local() as local:
        here = local.upload(encrypted)
        encrypted.erase([ids[50]])
        local.upload(encrypted, here.name)
        left.remove(50)
        found = here.apriori(other, 0.1, max_len=2)
        assert_frame_equal(found, apriori(frame.iloc[left], min_support=0.1, max_len=2))


@pytest.mark.parametrize(
    ("row_ids", "problem"),
    [
        (["a"], "1 row ids were given for 300 transactions"),
        ("id", 'no columns are called "id", named by `row_ids`; the columns are "a, b'),
        ([1.5] * 300, "neither text nor a whole number"),
        ([""] * 300, "row 1 has no id"),
        ([None] * 300, "row 1 has no id"),
        (["a"] * 300, "rows 1 and 2 both have the id"),
        ({str(number) for number in range(300)}, "has no order of rows"),
        (pd.Series(range(300), index=range(300, 0, -1)), "another index than the data"),
    ],
)
def test_row_ids_that_cannot_be_are_refused(row_ids: Any, problem: str, keys: oboro.Keys) -> None:
    with pytest.raises(InputError, match=problem):
        oboro.encrypt(random_frame(300, COLUMNS), keys, row_ids=row_ids)


def test_rows_without_ids_have_none(
    encrypt: Encrypt, keys: oboro.Keys, server: oboro.Server
) -> None:
    dataset = server.upload(encrypt(random_frame(30, COLUMNS), keys))
    with pytest.raises(InputError, match="rows of this dataset have no ids"):
        dataset.row_ids()
