"""The same calls for asyncio: each runs on a separate thread, and cancelling one interrupts it.

Methods and functions are derived from the synchronous ones, with their parameters and
documentation. Cancelling a call sets the ``interrupt`` it was given.

>>> async with await oboro.aio.connect("http://127.0.0.1:7171") as server:  # doctest: +SKIP
...     dataset = await server.upload(encrypted)
...     found = await dataset.apriori(keys, min_support=0.1)
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial, wraps
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    overload,
)

from oboro import _encrypt, _server
from oboro._oboro import Interrupt
from oboro._reading import Reading
from oboro.genome import Panel, Reference

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = [
    "AsyncDataset",
    "AsyncLocalServer",
    "AsyncPanel",
    "AsyncReference",
    "AsyncServer",
    "append",
    "compact",
    "connect",
    "encrypt",
    "erase",
    "erasure",
    "local",
    "rotate",
]

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
Wrapped = TypeVar("Wrapped")
Synchronous = TypeVar("Synchronous")
Awaitable = Coroutine[Any, Any, Returned]

_THREADS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="oboro-aio")


async def _interruptible(call: Callable[..., Returned], interrupt: Interrupt) -> Returned:
    """The result of ``call()``. If the task is cancelled, interrupts the call and waits for it."""
    work = _THREADS.submit(call)
    returned = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(returned)
    except asyncio.CancelledError:
        if not work.cancel():
            interrupt.set()
        while not returned.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([returned])
        # Otherwise asyncio logs that it was never retrieved.
        with suppress(asyncio.CancelledError):
            returned.exception()
        raise


def _awaited(call: Callable[..., Any], wrap: Callable[[Any], Any]) -> Callable[..., Awaitable[Any]]:
    """A coroutine function that calls ``call`` on a thread, and applies ``wrap`` to the result.

    Its annotations are those of ``call``, except for the return type.
    """
    signature = inspect.signature(call)
    can_be_interrupted = "interrupt" in signature.parameters

    @wraps(call)
    async def awaited(*args: Any, **given: Any) -> Any:
        if not can_be_interrupted:
            return wrap(await asyncio.to_thread(call, *args, **given))
        interrupt = given.pop("interrupt", None) or Interrupt()
        work = partial(call, *args, **given, interrupt=interrupt)
        return wrap(await _interruptible(work, interrupt))

    if wrap is not _unwrapped:
        returned = wrap.__name__ if isinstance(wrap, type) else wrap.__annotations__["return"]
        signature = signature.replace(return_annotation=returned)
        awaited.__annotations__ = {**call.__annotations__, "return": returned}
    awaited.__signature__ = signature  # type: ignore[attr-defined]
    awaited.__module__ = __name__
    return awaited


def _unwrapped(returned: Returned) -> Returned:
    return returned


@overload
def _method(
    method: Callable[Concatenate[Any, Given], Returned],
) -> Callable[Concatenate[Any, Given], Awaitable[Returned]]: ...


@overload
def _method(
    method: Callable[Concatenate[Any, Given], Returned], wrap: Callable[[Returned], Wrapped]
) -> Callable[Concatenate[Any, Given], Awaitable[Wrapped]]: ...


def _method(method: Callable[..., Any], wrap: Callable[[Any], Any] = _unwrapped) -> Any:
    """A method of an :class:`_Asynchronous` that awaits this method of the wrapped object."""
    awaited = _awaited(method, wrap)

    @wraps(awaited)
    async def bound(self: _Asynchronous[Any], *args: Any, **given: Any) -> Any:
        return await awaited(self._synchronous, *args, **given)

    bound.__qualname__ = f"Async{method.__qualname__}"
    return bound


@overload
def _function(function: Callable[Given, Returned]) -> Callable[Given, Awaitable[Returned]]: ...


@overload
def _function(
    function: Callable[Given, Returned], wrap: Callable[[Returned], Wrapped]
) -> Callable[Given, Awaitable[Wrapped]]: ...


def _function(function: Callable[..., Any], wrap: Callable[[Any], Any] = _unwrapped) -> Any:
    return _awaited(function, wrap)


class _Asynchronous(Generic[Synchronous]):
    """Wraps an object whose methods are awaited. Wrappers of equal objects are equal."""

    def __init__(self, synchronous: Synchronous) -> None:
        self._synchronous = synchronous

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._synchronous == other._synchronous)

    def __hash__(self) -> int:
        return hash(self._synchronous)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._synchronous!r})"


class AsyncDataset(_Asynchronous[_server.Dataset]):
    """A :class:`oboro.Dataset` whose methods are awaited."""

    apriori = _method(_server.Dataset.apriori)
    pairs_with = _method(_server.Dataset.pairs_with)
    row_ids = _method(_server.Dataset.row_ids)

    @property
    def name(self) -> str:
        """The name on the server."""
        return self._synchronous.name


class AsyncPanel(_Asynchronous[Panel]):
    """A :class:`oboro.genome.Panel` whose methods are awaited."""

    query = _method(Panel.query)

    @property
    def panel(self) -> Panel:
        """The panel."""
        return self._synchronous


class AsyncReference(_Asynchronous[Reference]):
    """A :class:`oboro.genome.Reference` whose methods are awaited."""

    find = _method(Reference.find)

    @property
    def reference(self) -> Reference:
        """The reference."""
        return self._synchronous


def _genomes(listed: list[Panel | Reference]) -> list[AsyncPanel | AsyncReference]:
    return [AsyncPanel(it) if isinstance(it, Panel) else AsyncReference(it) for it in listed]


class AsyncServer(_Asynchronous[_server.Server]):
    """A :class:`oboro.Server` whose methods are awaited."""

    upload = _method(_server.Server.upload, AsyncDataset)
    datasets = _method(_server.Server.datasets)
    dataset = _method(_server.Server.dataset, AsyncDataset)
    delete = _method(_server.Server.delete)
    undelete = _method(_server.Server.undelete)
    genomes = _method(_server.Server.genomes, _genomes)
    panel = _method(_server.Server.panel, AsyncPanel)
    reference = _method(_server.Server.reference, AsyncReference)
    close = _method(_server.Server.close)

    @property
    def url(self) -> str:
        """The address as given."""
        return self._synchronous.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class AsyncLocalServer(AsyncServer):
    """A :class:`oboro.LocalServer` whose methods are awaited."""

    load_panel = _method(_server.LocalServer.load_panel, AsyncPanel)
    load_reference = _method(_server.LocalServer.load_reference, AsyncReference)


encrypt = _function(_encrypt.encrypt)
connect = _function(_server.connect, AsyncServer)
local = _function(_server.local, AsyncLocalServer)
_append = _function(_encrypt.Encrypted.append)
compact = _function(_encrypt.Encrypted.compact)
erasure = _function(_encrypt.Encrypted.erasure)
erase = _function(_encrypt.Encrypted.erase)
rotate = _function(_encrypt.Encrypted.rotate)


async def append(
    encrypted: _encrypt.Encrypted,
    data: object,
    *,
    new_items: Literal["refuse", "drop", "re-encrypt"] = "refuse",
    min_item_support: float | None = None,
    absorb: bool | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    interrupt: Interrupt | None = None,
    **reading: Unpack[Reading],
) -> dict[str, Any] | None:
    """See :meth:`oboro.Encrypted.append`."""
    given = partial(
        _append,
        encrypted,
        data,
        new_items=new_items,
        min_item_support=min_item_support,
        absorb=absorb,
        threads=threads,
        progress=progress,
    )
    return await given(interrupt=interrupt, **reading)
