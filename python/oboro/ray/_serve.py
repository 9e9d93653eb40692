"""The coordinator: the server for owners, in a Ray cluster."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Annotated

from oboro import _oboro
from oboro._server import check_resources
from oboro.errors import MissingExtraError

Path = str | os.PathLike[str]
# The types of what is also an option of `python -m oboro.ray`, with the name of values in its help.
Address = Annotated[str, "ADDRESS"]
Listen = Annotated[str, "ADDRESS:PORT"]
Store = Annotated[Path, "DIR|URL"]
Directory = Annotated[Path, "DIR"]
File = Annotated[Path, "FILE"]
Number = Annotated[int, "N"]
Seconds = Annotated[int, "SECONDS"]
Size = Annotated[int, "SIZE"]


def absolute(place: Path) -> str:
    """The place as workers know it, who run in directories of their own."""
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
    """Stores encrypted datasets and counts them on a Ray cluster.

    Args:
        data: Where datasets are stored, on storage that every node reaches under the same name: a
            directory, or object storage as `s3://BUCKET/PREFIX`.
        address: The Ray cluster, such as `10.0.0.1:6379`; `auto` for the one that was started on
            this machine, `local` for one that is started now, for this server.
        listen: The address for owners, by default `127.0.0.1:7171`. Beyond loopback, TLS and a
            token are required.
        cache: With object storage, a directory for uploads in progress and for what was fetched.
            Workers put theirs beside it.
        tls_cert: The server's certificate chain, in PEM.
        tls_key: The certificate's private key, in PEM.
        tokens: Callers must present a token whose hash is in this file, made by `oboro token new`.
            It is read again when it changes.
        threads: Threads of every worker; by default as many as Ray counts processors on its node.
        memory: Bytes that every worker may hold in memory; by default all that it has used.
        moment_cache: Bytes of computed moments that the server keeps, in case they are asked for
            again; by default 256 MiB, and 0 for none.
        max_message: Bytes of the largest message that is taken, 1 MiB to 72 MiB; by default 72 MiB.
        max_dataset: Bytes that one dataset may take in the store; by default 1 TiB.
        max_itemsets: Itemsets of one query, by default 524,288; at most 2^(20 - length), whatever
            is given here.
        max_queries: Queries in progress at a time; by default 64.
        max_queries_per_client: Queries of one client in progress at a time; by default 16.
        query_timeout: Seconds after which a query is ended, counted from its admission; by default
            3600.
        max_search: Bytes of one search in genomes, query and answers together; by default 1 GiB.
        listening: Is told the URL once owners can connect.
        interrupt: Ends the server; Ctrl-C does too.

    Raises:
        InputError: A number that is not possible, or files that cannot be used.
        MissingExtraError: Ray is not installed.
        ServerError: The server could not start, or there is no such cluster.
        StorageError: Another server has the data.
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
