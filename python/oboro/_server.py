"""Servers, and the datasets on them."""

from __future__ import annotations

import json
import secrets
import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from numbers import Integral
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np
import pandas as pd

from oboro import _oboro
from oboro._encrypt import Encrypted
from oboro._oboro import Interrupt, Keys
from oboro._progress import bar
from oboro._results import frame, transactions_of
from oboro.errors import DamagedError, InputError, RevealsMoreWarning
from oboro.genome import LeftOut, Panel, Reference

if TYPE_CHECKING:
    from typing_extensions import Self

Genome = TypeVar("Genome", Panel, Reference)


@dataclass(frozen=True)
class DatasetInfo:
    """Dataset on a server."""

    name: str
    """Name that it was uploaded under."""
    version: int
    """Version: the number of uploads and appends."""
    root: str
    """Root hash of its content."""
    columns: int
    """Number of columns, one per item."""
    blocks: int
    """Number of blocks of transactions."""
    stored_bytes: int
    """Size on the server's disks."""
    max_len: int
    """Length of the longest itemsets that can be counted."""


class Server:
    """Server that stores encrypted datasets and counts on them. It never has a key.

    Created by :func:`connect` and :func:`local`. Several threads may use it concurrently. It is
    closed by :meth:`close`, or at the end of a ``with`` block.
    """

    def __init__(self, native: _oboro.Server) -> None:
        self._native = native

    @property
    def url(self) -> str:
        """Address as given."""
        return self._native.url

    def upload(
        self,
        encrypted: Encrypted,
        name: str | None = None,
        *,
        progress: bool | None = None,
        interrupt: Interrupt | None = None,
    ) -> Dataset:
        """Upload a dataset. After a failure, the same call resumes the upload.

        Args:
            encrypted: the dataset, from :func:`oboro.encrypt`.
            name: its name on the server; by default that of its directory, or a generated one if
                the directory is temporary.
            progress: show a bar; ``None`` for a terminal or a notebook only.
            interrupt: cancel the call from another thread.

        Returns:
            The dataset on the server.

        Raises:
            ConnectionFailed: the server is unreachable.
            ServerError: a refusal: the name is taken by another dataset, the disk is full.
            StorageError: the dataset cannot be read locally.
        """
        name = name or _name_of(encrypted)
        with bar("uploading", "B", progress) as tell:
            self._native.upload(encrypted._native, name, progress=tell, interrupt=interrupt)
        return Dataset(self, name, encrypted)

    def datasets(self, *, interrupt: Interrupt | None = None) -> list[DatasetInfo]:
        """List the datasets on the server, by name.

        Raises:
            ConnectionFailed: the server is unreachable.
            DamagedError: the manifest of a dataset on the server is damaged.
        """
        listed, damaged = self._native.datasets(interrupt=interrupt)
        if damaged:
            raise DamagedError("; ".join(damaged))
        return [DatasetInfo(*fields) for fields in listed]

    def dataset(
        self, name: str, encrypted: Encrypted, *, interrupt: Interrupt | None = None
    ) -> Dataset:
        """Return a dataset that was uploaded earlier.

        Args:
            name: the name that it was uploaded under.
            encrypted: the uploaded dataset, with its column names and key.
            interrupt: cancel the call from another thread.

        Raises:
            InputError: the server has no dataset of that name.
            ConnectionFailed: the server is unreachable.
        """
        names = [info.name for info in self.datasets(interrupt=interrupt)]
        if name not in names:
            there = ", ".join(map(repr, names)) or "none"
            raise InputError(
                f"the server has no dataset {name!r}; upload it, or choose one of these: {there}"
            )
        return Dataset(self, name, encrypted)

    def delete(self, name: str, *, now: bool = False, interrupt: Interrupt | None = None) -> None:
        """Delete a dataset and free its name.

        `undelete` restores it for as long as the server keeps deleted datasets. A local server
        keeps none.

        Args:
            name: the name that it was uploaded under.
            now: delete it permanently.
            interrupt: cancel the call from another thread.

        Raises:
            ServerError: the server has no dataset of that name.
            ConnectionFailed: the server is unreachable.
        """
        self._native.delete(name, now, interrupt=interrupt)

    def undelete(
        self, name: str, *, new_name: str | None = None, interrupt: Interrupt | None = None
    ) -> None:
        """Restore a deleted dataset.

        Args:
            name: its name, or its id if several deleted datasets had that name.
            new_name: another name to restore it under.
            interrupt: cancel the call from another thread.

        Raises:
            ServerError: no such dataset was deleted, or the name is taken.
            ConnectionFailed: the server is unreachable.
        """
        self._native.undelete(name, new_name, interrupt=interrupt)

    def genomes(self, *, interrupt: Interrupt | None = None) -> list[Panel | Reference]:
        """List the panels and references that the server can search.

        Raises:
            ConnectionFailed: the server is unreachable.
            DamagedError: one of them is damaged on the server.
        """
        listed, damaged = _oboro.genomes(self._native, interrupt=interrupt)
        if damaged:
            raise DamagedError("; ".join(damaged))
        kinds: dict[str, type[Panel | Reference]] = {"panel": Panel, "reference": Reference}
        return [kinds[known.pop("kind")](self, **known) for known in listed]

    def panel(self, name: str, *, interrupt: Interrupt | None = None) -> Panel:
        """Return the panel of that name, for :meth:`oboro.genome.Panel.query`.

        Raises:
            InputError: the server has no panel of that name.
            ConnectionFailed: the server is unreachable.
        """
        return self._genome(Panel, name, interrupt)

    def reference(self, name: str, *, interrupt: Interrupt | None = None) -> Reference:
        """Return the reference of that name, for :meth:`oboro.genome.Reference.find`.

        Raises:
            InputError: the server has no reference of that name.
            ConnectionFailed: the server is unreachable.
        """
        return self._genome(Reference, name, interrupt)

    def _genome(self, kind: type[Genome], name: str, interrupt: Interrupt | None) -> Genome:
        there = [it for it in self.genomes(interrupt=interrupt) if isinstance(it, kind)]
        for genome in there:
            if genome.name == name:
                return genome
        names = ", ".join(repr(it.name) for it in there) or "none"
        raise InputError(
            f"the server has no {kind.__name__.lower()} named {name!r}; "
            f"choose one of these: {names}"
        )

    def close(self) -> None:
        """Close the connection; a local server stops and its datasets are deleted.

        Later calls raise :class:`~oboro.errors.ConnectionFailed`; closing again does nothing.
        """
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


class LocalServer(Server):
    """Server in this process, with its datasets in a temporary directory.

    Both are removed when it is closed or no longer used, at the latest when Python exits.
    """

    def __init__(self, native: _oboro.Server) -> None:
        super().__init__(native)
        weakref.finalize(self, native.close)

    def load_panel(
        self,
        name: str,
        path: str | PathLike[str],
        *,
        region: str | None = None,
        skip_duplicates: bool = False,
        replace: bool = False,
    ) -> Panel:
        """Load haplotypes for searching.

        Args:
            name: the name of the panel.
            path: VCF with phased genotypes, or aligned FASTA; plain, gzip or bgzip.
            region: load only these sites of a VCF file: ``"20:1000-2000"``.
            skip_duplicates: where a VCF file has a position twice, keep the first line.
            replace: replace an existing panel of that name.

        Returns:
            The panel; its ``left_out`` counts the lines of the file that were skipped.

        Raises:
            InputError: an unusable file, with the line; a name that is taken.
            StorageError: the disk is full.
        """
        left_out = _oboro.load_panel(
            self._native,
            name,
            path,
            region=region,
            skip_duplicates=skip_duplicates,
            replace=replace,
        )
        return replaced(self.panel(name), left_out=LeftOut(*left_out))

    def load_reference(
        self, name: str, path: str | PathLike[str], *, replace: bool = False
    ) -> Reference:
        """Load sequences for searching.

        Args:
            name: the name of the reference.
            path: FASTA, plain, gzip or bgzip.
            replace: replace an existing reference of that name.

        Raises:
            InputError: an unusable file, with the line; a name that is taken.
            StorageError: the disk is full.
        """
        _oboro.load_reference(self._native, name, path, replace=replace)
        return self.reference(name)


class Dataset:
    """Encrypted dataset on a server, with the owner's data that decrypts counts.

    Created by :meth:`Server.upload` and :meth:`Server.dataset`.
    """

    def __init__(self, server: Server, name: str, encrypted: Encrypted) -> None:
        self._server = server
        self._encrypted = encrypted
        self._name = name

    @property
    def name(self) -> str:
        """Name on the server."""
        return self._name

    def apriori(
        self,
        keys: Keys,
        min_support: float = 0.5,
        max_len: int | None = None,
        use_colnames: bool = False,
        *,
        stop_above: int = 1_000_000,
        answers: Literal["auto", "moments", "cells"] = "auto",
        trust_server: bool = False,
        offline: bool = False,
        keep_cells: int = 1 << 30,
        verbose: int = 0,
        progress: bool | None = None,
        interrupt: Interrupt | None = None,
    ) -> pd.DataFrame:
        """Find frequent itemsets, as ``mlxtend.frequent_patterns.apriori`` does on plaintext.

        Either the server counts on ciphertext (``max_len`` of 2 to 4), and its answers are
        verified, or the sealed columns of frequent items are fetched and counted locally, whichever
        needs fewer bytes. The server learns which columns these are, by numbers that mean nothing
        to it, and nothing else, even if it lies.

        Args:
            keys: the key of the dataset's encryption.
            min_support: the minimum support: a float is a fraction of the transactions, an int of 2
                or more a number of them. The int 1 is refused: it may mean either.
            max_len: the longest itemsets to search for; by default any length, or if the server
                counts (``trust_server``, ``answers="moments"``) the length that the dataset was
                encrypted for.
            use_colnames: return itemsets of column names instead of column numbers.
            stop_above: fail once more itemsets than this are certain to be frequent; 0 for no
                limit.
            answers: the kind of verified answers: ``"moments"``, computed by the server on
                ciphertext, with a ``max_len`` of at most 4; ``"cells"``, sealed cells; ``"auto"``,
                whichever needs fewer bytes.
            trust_server: let the server count and use its answers unverified: for a server that is
                curious but follows the protocol. One that lies can read the data from the requests,
                and nothing in the result is verified.
            offline: answer from the cells that earlier calls cached in the dataset's directory,
                without the server, whose version may be newer; the result says so.
            keep_cells: the size limit, in bytes, of the cache of sealed cells in the dataset's
                directory; 0 disables it. Nothing is cached for a temporary dataset.
            verbose: if 1 or more, print the number of candidates of each length.
            progress: show a bar; ``None`` for a terminal or a notebook only.
            interrupt: cancel the call from another thread.

        Returns:
            The columns, dtypes and rows that mlxtend returns: ``support`` and ``itemsets``, shorter
            itemsets first. ``attrs["oboro"]`` has the number of ``transactions``, the minimum
            support as a number of them (``min_support``), the length limit of the search if it may
            have cut off longer frequent itemsets (``max_len``, else ``None``), the cost of each
            length (``levels``) and the interpretation of the file (``read``, see
            ``Encrypted.read``). ``answers`` is the trust level: ``"verified"``, ``"unverified"``
            (with ``trust_server``) or ``"local"`` (the server is this process). ``columns`` were
            needed, of which ``new_columns`` were not cached. ``version`` is the dataset's,
            ``uploaded`` the time of its upload from its directory (UTC, or ``None`` if unknown).
            ``offline`` is true if only cached cells were used: then the version was not compared
            with the server's.

        Raises:
            InputError: a support or length out of range, a support below that of items left out of
                the dataset, too many itemsets (``stop_above``) or candidates; a request after
                unverified answers, without ``Encrypted.reset_trust``; cells that are not cached,
                with ``offline``.
            VersionError: the server publishes another version than the dataset's directory has.
            KeysError: the wrong key.
            ConnectionFailed: the server is unreachable; call again.
            FalseAnswerError: a false answer of the server, now or in an earlier call;
                see ``Encrypted.trust``.

        Warns:
            RevealsMoreWarning: the cache comes from a call with a higher minimum support, and the
                server is about to learn that more columns are frequent.
        """
        labels = self._encrypted.columns if use_colnames else None
        return self._mined(
            keys,
            min_support,
            max_len,
            None,
            labels,
            stop_above=stop_above,
            answers=answers,
            trust_server=trust_server,
            offline=offline,
            keep_cells=keep_cells,
            verbose=verbose,
            progress=progress,
            interrupt=interrupt,
        )

    def _mined(
        self,
        keys: Keys,
        min_support: float,
        max_len: int | None,
        numbers: Sequence[int] | None,
        labels: Sequence[Any] | None,
        *,
        stop_above: int = 1_000_000,
        answers: Literal["auto", "moments", "cells"] = "auto",
        trust_server: bool = False,
        offline: bool = False,
        keep_cells: int = 1 << 30,
        verbose: int = 0,
        progress: bool | None = None,
        interrupt: Interrupt | None = None,
    ) -> pd.DataFrame:
        """Mine as ``apriori``, with other ``numbers`` of items, ascending, and their ``labels``."""
        _check_number("keep_cells", "bytes", keep_cells)
        _check_number("stop_above", "itemsets", stop_above)
        if offline and (trust_server or answers == "moments"):
            raise InputError(
                "offline answers come from kept cells; leave out offline, or the others"
            )
        transactions = self._encrypted.transactions
        least = transactions_of(min_support, transactions)
        longest = self._possible(max_len, trust_server, answers)
        if not trust_server and not offline and not isinstance(self._server, LocalServer):
            self._warn(least, longest, answers, int(keep_cells))
        with bar("counting", "B", progress) as tell:
            lengths, items, supports, ended, took = _oboro.mine(
                self._server._native,
                self._encrypted._native,
                keys,
                self._name,
                min_support=least,
                max_len=longest,
                stop_above=int(stop_above),
                answers=answers,
                trust_server=trust_server,
                offline=offline,
                keep_cells=int(keep_cells),
                progress=tell,
                interrupt=interrupt,
            )
        if numbers is not None:
            items = np.asarray(numbers, dtype=items.dtype)[items]
        found = frame(lengths, items, supports, transactions, labels)
        found.attrs["oboro"] = {
            "transactions": transactions,
            "min_support": least,
            "max_len": ended,
            **json.loads(took),
            "read": self._encrypted.read,
        }
        if verbose:
            for level in found.attrs["oboro"]["levels"]:
                print(f"{level['candidates']} candidates of length {level['level']}")
        return found

    def pairs_with(
        self,
        item: object,
        *,
        offline: bool = False,
        progress: bool | None = None,
        interrupt: Interrupt | None = None,
    ) -> pd.DataFrame:
        """Count the transactions with one item and each other item.

        The server counts on ciphertext, with a few bytes for each item, and its answers are
        verified. If the cells of all items are cached, they are counted instead.

        Args:
            item: the item, as in ``Encrypted.columns``. With more items than `pair_columns`, one of
                the ``focus`` of :func:`oboro.encrypt`.
            offline: answer from cached cells, as in :meth:`apriori`.
            progress: show a bar; ``None`` for a terminal or a notebook only.
            interrupt: cancel the call from another thread.

        Returns:
            A row for each other item, which is the index, with the number of transactions that have
            both (``together``). ``attrs["oboro"]`` has the number of ``transactions``, the
            ``item``, the support above which all items are present (``min_item_support``), the
            trust level, the cost, and ``version``, ``uploaded`` and ``offline`` as in
            :meth:`apriori`.

        Raises:
            InputError: no such item, or one whose pairs cannot be counted at once; a request after
                unverified answers, without ``Encrypted.reset_trust``; cells that are not cached,
                with ``offline``.
            VersionError: the server publishes another version than the dataset's directory has.
            ConnectionFailed: the server is unreachable; call again.
            FalseAnswerError: a false answer of the server, now or in an earlier call;
                see ``Encrypted.trust``.
        """
        with bar("counting", "B", progress) as tell:
            pairs, took = _oboro.pairs_with(
                self._server._native,
                self._encrypted._native,
                self._name,
                str(item),
                offline=offline,
                progress=tell,
                interrupt=interrupt,
            )
        columns = self._encrypted.columns
        found = pd.DataFrame(
            {"together": [together for _, together in pairs]},
            index=pd.Index([columns[place] for place, _ in pairs], name="item"),
        )
        found.attrs["oboro"] = {
            "transactions": self._encrypted.transactions,
            "item": item,
            "min_item_support": self._encrypted.min_item_support,
            **json.loads(took),
        }
        return found

    def row_ids(
        self,
        *,
        slots: bool = False,
        progress: bool | None = None,
        interrupt: Interrupt | None = None,
    ) -> pd.Series[str]:
        """Return the ids of the transactions, ``row_ids`` of :func:`oboro.encrypt`.

        They are sent sealed and verified locally. Ids from different appends may be equal.

        Args:
            slots: use the slot of each row as the index. A choice of rows by their slots is not
                random.
            progress: show a bar; ``None`` for a terminal or a notebook only.
            interrupt: cancel the call from another thread.

        Returns:
            The ids, sorted.

        Raises:
            InputError: the dataset was encrypted without ids.
            ConnectionFailed: the server is unreachable; call again.
            FalseAnswerError: a false answer of the server, now or in an earlier call;
                see ``Encrypted.trust``.
        """
        with bar("fetching row ids", "B", progress) as tell:
            rows = _oboro.row_ids(
                self._server._native,
                self._encrypted._native,
                self._name,
                progress=tell,
                interrupt=interrupt,
            )
        places = pd.Index([slot for slot, _ in rows], name="slot", dtype="int64")
        return pd.Series(
            [name for _, name in rows],
            index=places if slots else pd.RangeIndex(len(rows)),
            name="row_id",
            dtype=object,
        )

    def _warn(self, least: int, longest: int, answers: str, keep_cells: int) -> None:
        """Warn if the server is about to learn more than in earlier calls."""
        more = _oboro.more_columns(
            self._encrypted._native,
            min_support=least,
            max_len=longest,
            answers=answers,
            keep_cells=keep_cells,
        )
        if more:
            columns = "one more column is" if more == 1 else f"{more} more columns are"
            warnings.warn(
                f"the server learns that {columns} frequent; begin with the lowest minimum support "
                "that you will need",
                RevealsMoreWarning,
                stacklevel=4,
            )

    def _possible(self, max_len: int | None, trust_server: bool, answers: str) -> int:
        """Return the length of the longest itemsets to search for: any length when counting
        locally, on the server the length that the dataset was encrypted for."""
        items = len(self._encrypted.columns)
        encrypted_for = min(self._encrypted.max_len, items)
        longest = encrypted_for if trust_server else items
        if max_len is None:
            return encrypted_for if answers == "moments" else longest
        if max_len < 1:
            raise InputError(f"itemsets have at least one item, not {max_len}; raise max_len")
        # Itemsets cannot be longer than the number of items.
        if longest < min(max_len, items):
            raise InputError(
                f"the dataset was encrypted for itemsets of up to {longest}, not {max_len}; "
                f"choose max_len={longest}, or leave trust_server out"
            )
        return min(max_len, longest)

    def __repr__(self) -> str:
        return f"Dataset({self._name!r}, {self._server!r})"


def connect(
    url: str,
    *,
    token: str | None = None,
    tls: str | PathLike[str] | None = None,
    client_cert: str | PathLike[str] | None = None,
    client_key: str | PathLike[str] | None = None,
    interrupt: Interrupt | None = None,
) -> Server:
    """Connect to a server that ``oboro serve`` runs.

    Args:
        url: its address, ``https://host:port``, or ``http://`` on this machine only.
        token: its access token, if it requires one.
        tls: a file of CA certificates in PEM to trust instead of the system's.
        client_cert: a file with the client's certificate chain, in PEM.
        client_key: a file with the key of that certificate, in PEM, which only you may read.
        interrupt: cancel the call from another thread.

    Raises:
        InputError: an unusable address or unusable certificates.
        ConnectionFailed: no server answers.

    >>> server = oboro.connect("https://miner:7171", token=token)  # doctest: +SKIP
    """
    server = _oboro.Server.connect(
        url,
        token=token,
        tls=tls,
        client_cert=client_cert,
        client_key=client_key,
        interrupt=interrupt,
    )
    return Server(server)


def local(
    *, threads: int | None = None, memory: int | None = None, moment_cache: int | None = None
) -> LocalServer:
    """Start a server in this process, for data that need not leave it.

    Args:
        threads: the number of compute threads; by default one per processor.
        memory: the memory limit in bytes; by default everything used stays in memory.
        moment_cache: the part of it for cached results, which a later call with another minimum
            support reuses; by default 256 MiB, 0 disables it.

    Raises:
        InputError: a number out of range.
        ServerError: too many threads, or too little memory.
        StorageError: no disk space for temporary files.

    >>> with oboro.local() as server:
    ...     server.datasets()
    []
    """
    check_resources(threads, memory)
    if moment_cache is not None and moment_cache < 0:
        raise InputError(f"a cache cannot hold {moment_cache} bytes; give 0 or more")
    return LocalServer(
        _oboro.Server.local(threads=threads, memory=memory, moment_cache=moment_cache)
    )


def check_resources(threads: int | None, memory: int | None) -> None:
    """Refuse impossible numbers of threads and of bytes."""
    if threads is not None and threads < 1:
        raise InputError(f"a server cannot count on {threads} threads; give it one at least")
    if memory is not None and memory < 0:
        raise InputError(f"a server cannot hold {memory} bytes; give it more, or leave memory out")


def _check_number(name: str, of: str, number: object) -> None:
    is_whole = isinstance(number, Integral) and not isinstance(number, bool)
    if not is_whole or not 0 <= cast(int, number) < 1 << 64:
        raise InputError(f"{name} must be a number of {of}, not {number!r}")


def _name_of(encrypted: Encrypted) -> str:
    """Return the name of the directory, without ``.oboro``, or a random one if it is temporary."""
    if encrypted.temporary:
        return f"dataset-{secrets.token_hex(8)}"
    return encrypted.path.name.removesuffix(".oboro")
