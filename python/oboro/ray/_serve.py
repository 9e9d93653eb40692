"""The coordinator: the server that owners speak to, at home in a Ray cluster."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping

from oboro import _oboro
from oboro.errors import MissingExtraError

Path = str | os.PathLike[str]


def absolute(place: Path) -> str:
    """The place as workers know it, who run in directories of their own."""
    name = os.fspath(place)
    return name if "://" in name else str(pathlib.Path(name).resolve())


def serve(
    data: Path,
    *,
    listen: str = "127.0.0.1:7171",
    address: str = "auto",
    cache: Path | None = None,
    tls: tuple[Path, Path] | None = None,
    token_file: Path | None = None,
    threads: int | None = None,
    memory: int | None = None,
    moment_cache: int = 256 << 20,
    limits: Mapping[str, int] | None = None,
    listening: Callable[[str], object] = print,
    interrupt: _oboro.Interrupt | None = None,
) -> None:
    """Stores encrypted datasets for others and has them counted on a Ray cluster.

    Args:
        data: Where datasets are stored, on storage that every node reaches under the same name: a
            directory, or object storage as `s3://BUCKET/PREFIX`.
        listen: The address for owners. Beyond loopback, `tls` and `token_file` are required.
        address: The Ray cluster; `auto` for the one that was started on this machine, `local` for
            one that is started for this call.
        cache: With object storage, a directory for what was fetched. Workers put theirs beside it.
        tls: Files with a certificate chain and its private key, in PEM.
        token_file: As that of `oboro serve`.
        threads: Threads of every worker; by default as many as Ray counts processors on its node.
        memory: Bytes that every worker may hold; by default all that it has used.
        moment_cache: Bytes of moments that the server keeps for later questions.
        limits: What callers may ask, where it is not the usual: `message_bytes`, `dataset_bytes`,
            `itemsets`, `queries`, `queries_per_client`, `query_seconds`, `search_bytes`.
        listening: Is told the URL once owners can connect.
        interrupt: Ends the server; Ctrl-C does too.

    Raises:
        MissingExtraError: Ray is not installed.
        ServerError: The server could not start, or there is no such cluster.
        StorageError: Another server has the data.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            "counting on a cluster needs Ray: pip install 'oboro[ray]'"
        ) from error
    from oboro.errors import ServerError
    from oboro.ray._query import Query
    from oboro.ray._workers import Storage, Workers

    place = absolute(data)
    own_cache = absolute(cache) if cache else None
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except (ConnectionError, ValueError) as error:
        raise ServerError(
            f"there is no Ray cluster at {address!r} ({error}); start one with `ray start --head`, "
            "or give local"
        ) from error
    except RuntimeError as error:
        raise ServerError(
            f"Ray does not begin in this process ({error}); if it is in use here already, call "
            "ray.shutdown() first"
        ) from error
    workers = Workers(Storage(place, own_cache, threads, memory))
    try:
        _oboro.serve(
            place,
            lambda work: Query(work, workers).start(),
            listening,
            listen=listen,
            cache=own_cache,
            tls=tls,
            token_file=token_file,
            moment_cache=moment_cache,
            limits=limits,
            interrupt=interrupt,
        )
    finally:
        workers.close()
        ray.shutdown()
