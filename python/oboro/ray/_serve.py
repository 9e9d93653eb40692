"""Coordinator of a Ray cluster: the server for owners."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Annotated

from oboro import _oboro
from oboro._server import check_resources
from oboro.errors import MissingExtraError

Path = str | os.PathLike[str]
# Types of parameters that are options of `python -m oboro.ray`, with the names of their values.
Address = Annotated[str, "ADDRESS"]
Listen = Annotated[str, "ADDRESS:PORT"]
Store = Annotated[Path, "DIR|URL"]
Directory = Annotated[Path, "DIR"]
File = Annotated[Path, "FILE"]
Number = Annotated[int, "N"]
Seconds = Annotated[int, "SECONDS"]
Size = Annotated[int, "SIZE"]


def absolute(place: Path) -> str:
    """Return an absolute path, for workers with other working directories."""
    name = os.fspath(place)
    return name if "://" in name else str(pathlib.Path(name).resolve())


def serve(
    data: Store,
    *,
    address: Address = "auto",
    listen: Listen = "127.0.0.1:7171",
    cache: Directory | None = None,
    tls_cert: File | None = None,
    tls_key: File | None = None,
    tokens: File | None = None,
    threads: Number | None = None,
    memory: Size | None = None,
    moment_cache: Size | None = None,
    max_message: Size | None = None,
    max_dataset: Size | None = None,
    max_itemsets: Number | None = None,
    max_queries: Number | None = None,
    max_queries_per_client: Number | None = None,
    query_timeout: Seconds | None = None,
    max_search: Size | None = None,
    listening: Callable[[str], object] = print,
    interrupt: _oboro.Interrupt | None = None,
) -> None:
    """Store encrypted datasets and count them on a Ray cluster.

    Args:
        data: Location of the datasets, on storage that every node reaches under the same name: a
            directory, or object storage as `s3://BUCKET/PREFIX`.
        address: The Ray cluster, such as `10.0.0.1:6379`; `auto` for the one started on this
            machine, `local` for a new one, for this server.
        listen: The address for owners, by default `127.0.0.1:7171`. Beyond loopback, TLS and a
            token are required.
        cache: With object storage, a directory for uploads in progress and fetched data. Workers
            put theirs beside it.
        tls_cert: The server's certificate chain, in PEM.
        tls_key: The certificate's private key, in PEM.
        tokens: File of token hashes, made by `oboro token new`. Callers must present one of the
            tokens. The file is reloaded when it changes.
        threads: Threads of every worker; by default the number of processors that Ray counts on its
            node.
        memory: Memory limit of every worker in bytes; by default everything used stays in memory.
        moment_cache: Bytes of computed moments cached for later queries; by default 256 MiB, 0
            disables it.
        max_message: Maximum bytes of a message, 1 MiB to 72 MiB; by default 72 MiB.
        max_dataset: Maximum bytes of one dataset in the store; by default 1 TiB.
        max_itemsets: Maximum itemsets of one query, by default 524,288; the limit 2^(20 - length)
            applies in addition.
        max_queries: Maximum concurrent queries; by default 64.
        max_queries_per_client: Maximum concurrent queries of one client; by default 16.
        query_timeout: Maximum seconds of a query, from its admission; by default 3600.
        max_search: Maximum bytes of one genome search, query and answers together; by default
            1 GiB.
        listening: Callback with the URL once owners can connect.
        interrupt: Stops the server, as Ctrl-C does.

    Raises:
        InputError: A number out of range, or unusable files.
        MissingExtraError: Ray is not installed.
        ServerError: A server that could not start, or a missing cluster.
        StorageError: Another server has the data open.
    """
    check_resources(threads, memory)
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
            tls_cert=tls_cert,
            tls_key=tls_key,
            tokens=tokens,
            moment_cache=moment_cache,
            limits={
                "max_message": max_message,
                "max_dataset": max_dataset,
                "max_itemsets": max_itemsets,
                "max_queries": max_queries,
                "max_queries_per_client": max_queries_per_client,
                "query_timeout": query_timeout,
                "max_search": max_search,
            },
            interrupt=interrupt,
        )
    finally:
        workers.close()
        ray.shutdown()
