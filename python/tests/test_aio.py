"""The calls for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from mlxtend.frequent_patterns import apriori
from pandas.testing import assert_frame_equal

import oboro
from conftest import Encrypt, Serving, random_frame
from oboro.errors import InputError, Interrupted


def test_what_is_awaited_is_what_is_returned(encrypt: Encrypt) -> None:
    keys = oboro.Keys.generate()
    frames = [random_frame(100, 6, seed) for seed in range(3)]
    encrypted = [encrypt(frame, keys) for frame in frames]

    async def upload_and_mine(server: oboro.aio.AsyncServer, number: int) -> pd.DataFrame:
        dataset = await server.upload(encrypted[number], str(number))
        return await dataset.apriori(keys, 0.2)

    async def main() -> list[pd.DataFrame]:
        async with await oboro.aio.local() as server:
            calls = [upload_and_mine(server, number) for number in range(3)]
            found = await asyncio.gather(*calls)
            assert [info.name for info in await server.datasets()] == ["0", "1", "2"]
            dataset = await server.dataset("1", encrypted[1])
            assert_frame_equal(await dataset.apriori(keys, 0.2), found[1])
            trusting = await dataset.apriori(keys, 0.2, 4, trust_server=True, keep_cells=0)
            assert trusting.attrs["oboro"]["levels"][1]["route"] == "trusted"
            await server.delete("0")
            with pytest.raises(InputError, match="no dataset '0'"):
                await server.dataset("0", encrypted[0])
            return found

    for frame, found in zip(frames, asyncio.run(main()), strict=True):
        assert_frame_equal(found, apriori(frame, min_support=0.2))


def test_a_cancelled_call_is_ended_and_the_next_succeeds(
    encrypt: Encrypt, serving: Serving, under_way: threading.Event
) -> None:
    keys = oboro.Keys.generate()
    frame = random_frame(100, 6)
    encrypted = encrypt(frame, keys)

    async def main() -> pd.DataFrame:
        server = await oboro.aio.connect(serving.url)
        dataset = await server.upload(encrypted)
        serving.freeze()
        under_way.clear()
        mining = asyncio.create_task(dataset.apriori(keys, 0.2))
        await asyncio.to_thread(under_way.wait)
        mining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await mining
        serving.thaw()
        return await dataset.apriori(keys, 0.2)

    assert_frame_equal(asyncio.run(main()), apriori(frame, min_support=0.2))


def test_encrypting_and_searching_are_awaited_too(tmp_path: Path) -> None:
    frame = random_frame(60, 5)
    (tmp_path / "virus.fa").write_text(">virus\nACGTTGCAACGGTATTTGCC\n")

    async def main() -> tuple[pd.DataFrame, bool]:
        keys = oboro.Keys.generate()
        encrypted = await oboro.aio.encrypt(frame[:40], keys)
        await oboro.aio.append(encrypted, frame[40:])
        async with await oboro.aio.local() as server:
            dataset = await server.upload(encrypted)
            reference = await server.load_reference("virus", tmp_path / "virus.fa")
            found = await reference.find("GCAACGG")
            return await dataset.apriori(keys, 0.2), bool(found)

    found, there = asyncio.run(main())
    assert there
    assert_frame_equal(found, apriori(frame, min_support=0.2))


def test_a_call_is_interrupted_from_outside_too() -> None:
    interrupt = oboro.Interrupt()
    interrupt.set()
    encrypting = oboro.aio.encrypt(
        random_frame(60, 5), oboro.Keys.generate(), interrupt=interrupt, progress=False
    )
    with pytest.raises(Interrupted):
        asyncio.run(encrypting)


PAIRS = [
    (oboro.Server, oboro.aio.AsyncServer),
    (oboro.LocalServer, oboro.aio.AsyncLocalServer),
    (oboro.Dataset, oboro.aio.AsyncDataset),
    (oboro.genome.Panel, oboro.aio.AsyncPanel),
    (oboro.genome.Reference, oboro.aio.AsyncReference),
]


def methods(of: type) -> dict[str, Callable[..., Any]]:
    found = inspect.getmembers(of, inspect.isfunction)
    return {name: method for name, method in found if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS)
def test_every_method_is_awaited_as_it_is_called(blocking: type, awaited: type) -> None:
    theirs = methods(awaited)
    assert theirs.keys() == methods(blocking).keys()
    for name, method in methods(blocking).items():
        assert inspect.iscoroutinefunction(theirs[name])
        assert theirs[name].__qualname__.startswith("Async")
        assert theirs[name].__doc__ == method.__doc__
        parameters = inspect.signature(theirs[name]).parameters
        assert parameters == inspect.signature(method).parameters


def test_every_function_is_awaited_as_it_is_called() -> None:
    for name in ("encrypt", "connect", "local"):
        awaited, blocking = getattr(oboro.aio, name), getattr(oboro, name)
        assert inspect.iscoroutinefunction(awaited)
        assert inspect.signature(awaited).parameters == inspect.signature(blocking).parameters
    append = list(inspect.signature(oboro.aio.append).parameters.values())
    assert append[1:] == list(inspect.signature(oboro.Encrypted.append).parameters.values())[1:]
    assert inspect.signature(oboro.aio.connect).return_annotation == "AsyncServer"


def test_wrappers_of_equal_objects_are_equal() -> None:
    async def main() -> None:
        async with await oboro.aio.local() as server:
            assert await server.genomes() == []
            assert repr(server).startswith("AsyncLocalServer(LocalServer(")
            assert server == type(server)(server._synchronous)
            assert server != oboro.aio.AsyncServer(server._synchronous)

    asyncio.run(main())
