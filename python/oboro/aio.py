"""The same calls for asyncio: each waits on a thread of its own, and a cancelled one is ended.

>>> async with await oboro.aio.connect("http://127.0.0.1:7171") as server:  # doctest: +SKIP
...     dataset = await server.upload(encrypted)
...     found = await dataset.apriori(keys, min_support=0.1)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pandas as pd

from oboro import _encrypt, _server
from oboro._encrypt import Encrypted
from oboro._oboro import Interrupt, Keys
from oboro._reading import Reading
from oboro._server import DatasetInfo
from oboro.genome import Found, Panel, Reference

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

Returned = TypeVar("Returned")

_THREADS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="oboro-aio")


async def _on_a_thread(call: Callable[..., Returned]) -> Returned:
    """What ``call(interrupt=...)`` returns. If the task is cancelled, waits for the call to end."""
    interrupt = Interrupt()
    work = _THREADS.submit(call, interrupt=interrupt)
    returned = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(returned)
    except asyncio.CancelledError:
        if not work.cancel():
            interrupt.set()
        while not returned.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([returned])
        # Nobody is left to hear how it ended.
        with suppress(asyncio.CancelledError):
            returned.exception()
        raise


class AsyncServer:
    """A :class:`oboro.Server` whose methods are awaited."""

    def __init__(self, server: _server.Server) -> None:
        self._server = server

    @property
    def url(self) -> str:
        """The address as it was given."""
        return self._server.url

    async def upload(
        self, encrypted: Encrypted, name: str | None = None, *, progress: bool | None = None
    ) -> AsyncDataset:
        """See :meth:`oboro.Server.upload`."""
        call = partial(self._server.upload, encrypted, name, progress=progress)
        return AsyncDataset(await _on_a_thread(call))

    async def datasets(self) -> list[DatasetInfo]:
        """See :meth:`oboro.Server.datasets`."""
        return await _on_a_thread(self._server.datasets)

    async def dataset(self, name: str, encrypted: Encrypted) -> AsyncDataset:
        """See :meth:`oboro.Server.dataset`."""
        return AsyncDataset(await _on_a_thread(partial(self._server.dataset, name, encrypted)))

    async def delete(self, name: str) -> None:
        """See :meth:`oboro.Server.delete`."""
        await _on_a_thread(partial(self._server.delete, name))

    async def genomes(self) -> list[AsyncPanel | AsyncReference]:
        """See :meth:`oboro.Server.genomes`."""
        return [
            AsyncPanel(it) if isinstance(it, Panel) else AsyncReference(it)
            for it in await _on_a_thread(self._server.genomes)
        ]

    async def panel(self, name: str) -> AsyncPanel:
        """See :meth:`oboro.Server.panel`."""
        return AsyncPanel(await _on_a_thread(partial(self._server.panel, name)))

    async def reference(self, name: str) -> AsyncReference:
        """See :meth:`oboro.Server.reference`."""
        return AsyncReference(await _on_a_thread(partial(self._server.reference, name)))

    async def close(self) -> None:
        """See :meth:`oboro.Server.close`."""
        await asyncio.to_thread(self._server.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncServer({self._server!r})"


class AsyncLocalServer(AsyncServer):
    """A :class:`oboro.LocalServer` whose methods are awaited."""

    def __init__(self, server: _server.LocalServer) -> None:
        super().__init__(server)
        self._local = server

    async def load_panel(
        self,
        name: str,
        path: str | PathLike[str],
        *,
        region: str | None = None,
        skip_duplicates: bool = False,
        replace: bool = False,
    ) -> AsyncPanel:
        """See :meth:`oboro.LocalServer.load_panel`."""
        call = partial(
            self._local.load_panel,
            name,
            path,
            region=region,
            skip_duplicates=skip_duplicates,
            replace=replace,
        )
        return AsyncPanel(await asyncio.to_thread(call))

    async def load_reference(
        self, name: str, path: str | PathLike[str], *, replace: bool = False
    ) -> AsyncReference:
        """See :meth:`oboro.LocalServer.load_reference`."""
        call = partial(self._local.load_reference, name, path, replace=replace)
        return AsyncReference(await asyncio.to_thread(call))


class AsyncDataset:
    """A :class:`oboro.Dataset` whose methods are awaited."""

    def __init__(self, dataset: _server.Dataset) -> None:
        self._dataset = dataset

    @property
    def name(self) -> str:
        """The name on the server."""
        return self._dataset.name

    async def apriori(
        self,
        keys: Keys,
        min_support: float = 0.5,
        max_len: int | None = None,
        use_colnames: bool = False,
        *,
        answers: Literal["auto", "moments", "cells"] = "auto",
        trust_server: bool = False,
        keep_cells: int = 1 << 30,
        verbose: int = 0,
        progress: bool | None = None,
    ) -> pd.DataFrame:
        """See :meth:`oboro.Dataset.apriori`."""
        call = partial(
            self._dataset.apriori,
            keys,
            min_support,
            max_len,
            use_colnames,
            answers=answers,
            trust_server=trust_server,
            keep_cells=keep_cells,
            verbose=verbose,
            progress=progress,
        )
        return await _on_a_thread(call)

    async def pairs_with(self, item: object, *, progress: bool | None = None) -> pd.DataFrame:
        """See :meth:`oboro.Dataset.pairs_with`."""
        return await _on_a_thread(partial(self._dataset.pairs_with, item, progress=progress))

    async def row_ids(self, *, progress: bool | None = None) -> pd.Series[str]:
        """See :meth:`oboro.Dataset.row_ids`."""
        return await _on_a_thread(partial(self._dataset.row_ids, progress=progress))

    def __repr__(self) -> str:
        return f"AsyncDataset({self._dataset!r})"


@dataclass(frozen=True)
class AsyncPanel:
    """A :class:`oboro.genome.Panel` whose methods are awaited."""

    panel: Panel

    async def query(
        self,
        position: int,
        alleles: str | Iterable[int | None] | None = None,
        *,
        sequence: str | None = None,
        chromosome: str | None = None,
        within: int = 0,
        longest: bool = False,
        count: bool = False,
        decoys: int = 0,
        sites_digest: str | None = None,
        progress: bool | None = None,
    ) -> Found:
        """See :meth:`oboro.genome.Panel.query`."""
        call = partial(
            self.panel.query,
            position,
            alleles,
            sequence=sequence,
            chromosome=chromosome,
            within=within,
            longest=longest,
            count=count,
            decoys=decoys,
            sites_digest=sites_digest,
            progress=progress,
        )
        return await _on_a_thread(call)


@dataclass(frozen=True)
class AsyncReference:
    """A :class:`oboro.genome.Reference` whose methods are awaited."""

    reference: Reference

    async def find(
        self,
        pattern: str,
        *,
        within: int = 0,
        count: bool = False,
        progress: bool | None = None,
    ) -> Found:
        """See :meth:`oboro.genome.Reference.find`."""
        find = partial(self.reference.find, pattern, within=within, count=count)
        return await _on_a_thread(partial(find, progress=progress))


async def encrypt(
    data: object,
    keys: Keys,
    *,
    max_len: int = 4,
    min_item_support: float | None = None,
    path: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    **reading: Unpack[Reading],
) -> Encrypted:
    """See :func:`oboro.encrypt`."""
    call = partial(
        _encrypt.encrypt,
        data,
        keys,
        max_len=max_len,
        min_item_support=min_item_support,
        path=path,
        threads=threads,
        progress=progress,
        **reading,
    )
    return await _on_a_thread(call)


async def append(
    encrypted: Encrypted,
    data: object,
    *,
    threads: int | None = None,
    progress: bool | None = None,
    **reading: Unpack[Reading],
) -> dict[str, Any] | None:
    """See :meth:`oboro.Encrypted.append`."""
    call = partial(encrypted.append, data, threads=threads, progress=progress, **reading)
    return await _on_a_thread(call)


async def connect(
    url: str, *, token: str | None = None, tls: str | PathLike[str] | None = None
) -> AsyncServer:
    """See :func:`oboro.connect`."""
    return AsyncServer(await _on_a_thread(partial(_server.connect, url, token=token, tls=tls)))


async def local(
    *, threads: int | None = None, memory: int | None = None, moment_cache: int | None = None
) -> AsyncLocalServer:
    """See :func:`oboro.local`."""
    start = partial(_server.local, threads=threads, memory=memory, moment_cache=moment_cache)
    return AsyncLocalServer(await asyncio.to_thread(start))
