"""Encryption of transactions, and encrypted datasets."""

from __future__ import annotations

import json
import os
from numbers import Integral, Real
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from oboro import _frames, _oboro, _progress
from oboro._oboro import Interrupt, Keys
from oboro._reading import Reading
from oboro._results import least_count
from oboro.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Unpack


class Encrypted:
    """Encrypted dataset, created by `encrypt` or opened by `Encrypted.open`.

    It holds its key, so it is neither pickled nor sent anywhere; `Server.upload` sends ciphertext
    only. A temporary one, encrypted without a path, is deleted from disk when it is no longer used.
    """

    def __init__(self, native: _oboro.Encrypted, temporary: bool) -> None:
        self._native = native
        self._temporary = temporary
        self._changing = Lock()

    @classmethod
    def open(cls, path: str | os.PathLike[str], keys: Keys) -> Encrypted:
        """Open a dataset that `encrypt`, or the command `oboro encrypt`, created at `path`.

        Args:
            path: its directory.
            keys: the key of its encryption.

        Raises:
            KeysError: the wrong key.
            DamagedError: damaged files.
            InputError: `path` does not exist.
        """
        return cls(_oboro.Encrypted.open(path, keys), temporary=False)

    @property
    def columns(self) -> list[str] | list[int]:
        """Items, in the order of the encrypted columns."""
        return self._native.columns

    @property
    def transactions(self) -> int:
        """Number of transactions."""
        return self._native.transactions

    @property
    def read(self) -> dict[str, Any] | None:
        """Interpretation of its file, or of its table of more than 0 and 1: format, separator,
        header, encoding, columns used and not used, transactions, items, the sparsest and the
        densest item. None for other data."""
        return _how_read(self._native)

    @property
    def max_len(self) -> int:
        """Length of the longest itemsets that a server can count."""
        return self._native.max_len

    @property
    def min_item_support(self) -> int:
        """Support from which every item is present; 1 if no items were left out.

        Lower minimum supports are refused.
        """
        return self._native.min_item_support

    @property
    def trust(self) -> dict[str, Any]:
        """State of trust in the server. ``relied_on`` is the last use of unverified answers
        (``trust_server``), or None: its ``unix_seconds``, the ``version`` of the dataset, and
        ``decided``, true after `reset_trust`. ``failure`` is a false answer since the last
        `reset_trust`, or None: its ``unix_seconds`` and ``what``."""
        trust: dict[str, Any] = json.loads(self._native.trust())
        return trust

    def reset_trust(self) -> None:
        """Allow requests to the server again after unverified answers or a false one.

        A server that lied in unverified answers may have learned from later requests: transactions
        and columns of the ``version`` in ``trust`` and of earlier ones, and secrets of their
        columns, which decrypt everything encrypted with them. Later appends have other secrets. If
        you find out that it lied, encrypt the data again as another dataset.

        Raises:
            StorageError: the dataset's directory cannot be written.
        """
        self._native.reset_trust()

    @property
    def stored_bytes(self) -> int:
        """Bytes of ciphertext."""
        return self._native.stored_bytes

    @property
    def path(self) -> Path:
        """Directory of the dataset."""
        return Path(self._native.path)

    @property
    def temporary(self) -> bool:
        """True if the directory is deleted with this object."""
        return self._temporary

    def append(
        self,
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
        """Encrypt more transactions of the same items. Upload the dataset again afterwards.

        Without transactions, nothing changes.

        Args:
            data: as for `encrypt`; columns in any order. Missing columns are 0. A file is read in
                the same way as the first one of the dataset.
            new_items: what to do with new items: "refuse" the data; "drop" them, which raises the
                lowest minimum support that can be mined, `min_item_support` of the dataset; or
                "re-encrypt" everything with columns for them.
            min_item_support: with "drop", refuse to leave out items that may reach this support, a
                fraction of all transactions or a count.
            absorb: encrypt the latest small appends again with the new transactions, in shared
                blocks. False, which later appends remember, is needed if the upload has only the
                role append. None repeats the last explicit choice, and is True without one.
            threads: the number of threads; None for one per processor.
            progress: show a bar; None shows one on terminals and in notebooks.
            interrupt: cancel the call from another thread.
            **reading: as for `encrypt`, for a file of another format; `row_ids` of the new
                transactions if the earlier ones have ids.

        Returns:
            The interpretation of the file, as in `read`; None for other data.

        Raises:
            InputError: a new item (unless dropped), a dropped one that may reach
                `min_item_support`, a file of another format. The dataset is unchanged.
        """
        _check_counts(threads=(threads, 1))
        if new_items not in ("refuse", "drop", "re-encrypt"):
            raise InputError(
                f'new_items must be "refuse", "drop" or "re-encrypt", not {new_items!r}'
            )
        if min_item_support is not None and new_items != "drop":
            raise InputError('min_item_support bounds what is left out; give new_items="drop"')
        rows = _frames.rows(data, threads, reading, self._native)
        how = _how_read(rows)
        with self._changing, _progress.bar("encrypting", "block", progress) as told:
            below = None
            if min_item_support is not None:
                below = _least_item_count(min_item_support, self.transactions + len(rows))
            self._native.append(
                rows,
                new_items=new_items,
                below=below,
                absorb=absorb,
                threads=threads,
                progress=told,
                interrupt=interrupt,
            )
        return how

    def compact(
        self,
        *,
        all: bool = False,
        threads: int | None = None,
        progress: bool | None = None,
        interrupt: Interrupt | None = None,
    ) -> bool:
        """Move the transactions of many small appends into as few blocks as possible.

        Upload the dataset again afterwards.

        Args:
            all: take all transactions, and sort columns by their current supports.
            threads: the number of threads; None for one per processor.
            progress: show a bar; None shows one on terminals and in notebooks.
            interrupt: cancel the call from another thread.

        Returns:
            False if there was nothing to gain; then nothing changes.

        Raises:
            DamagedError: a segment of the dataset's directory is missing or damaged.
        """
        _check_counts(threads=(threads, 1))
        with self._changing, _progress.bar("compacting", "block", progress) as told:
            return self._native.compact(
                all=all, threads=threads, progress=told, interrupt=interrupt
            )

    def erasure(
        self,
        row_ids: Iterable[str] = (),
        *,
        before: str | None = None,
        threads: int | None = None,
    ) -> dict[str, int]:
        """Compute the cost of :meth:`erase`, without changing anything.

        Args:
            row_ids: the ids of the rows to erase.
            before: a date, "2026-11-25": also the rows whose ids begin with an earlier date.
            threads: the number of threads; None for one per processor.

        Returns:
            A dict of ``transactions`` that are erased, ``new_bytes`` to upload, the
            ``shuffled`` transactions that are shuffled again because too many of those shuffled
            with them are erased, and ``shuffled_bytes``, their share of ``new_bytes``.

        Raises:
            InputError: rows without ids, an id that no row has.
            DamagedError: a segment of the dataset's directory is missing or damaged.
        """
        _check_counts(threads=(threads, 1))
        if isinstance(row_ids, str):
            raise InputError("row_ids is a list of ids, not one; give a list")
        names = ("transactions", "new_bytes", "shuffled", "shuffled_bytes")
        counts = self._native.erasure(list(row_ids), before=before, threads=threads)
        return dict(zip(names, counts, strict=True))

    def erase(
        self,
        row_ids: Iterable[str] = (),
        *,
        before: str | None = None,
        threads: int | None = None,
        progress: bool | None = None,
        interrupt: Interrupt | None = None,
    ) -> int:
        """Erase transactions. Upload the dataset again to remove them from the server, too.

        If too many transactions that were shuffled together are erased, the rest is shuffled and
        encrypted again; :meth:`erasure` returns the number of bytes beforehand.

        Args:
            row_ids: the ids of the rows to erase.
            before: a date, "2026-11-25": erase the rows whose ids begin with an earlier date, too.
            threads: the number of threads; None for one per processor.
            progress: show a bar; None shows one on terminals and in notebooks.
            interrupt: cancel the call from another thread.

        Returns:
            The number of erased transactions.

        Raises:
            InputError: rows without ids, an id that no row has, all transactions. Then nothing is
                erased.
            DamagedError: a segment of the dataset's directory is missing or damaged.
        """
        _check_counts(threads=(threads, 1))
        if isinstance(row_ids, str):
            raise InputError("row_ids is a list of ids, not one; give a list")
        with self._changing, _progress.bar("erasing", "block", progress) as told:
            return self._native.erase(
                list(row_ids), before=before, threads=threads, progress=told, interrupt=interrupt
            )

    def rotate(
        self,
        keys: Keys,
        *,
        threads: int | None = None,
        progress: bool | None = None,
        interrupt: Interrupt | None = None,
    ) -> None:
        """Encrypt everything again with other keys, so the old ones open nothing of it.

        Upload the dataset again afterwards.

        Args:
            keys: the keys to encrypt with.
            threads: the number of threads; None for one per processor.
            progress: show a bar; None shows one on terminals and in notebooks.
            interrupt: cancel the call from another thread.

        Raises:
            KeysError: the same keys.
            InputError: a false answer of the server since the last `reset_trust`.
            DamagedError: a segment of the dataset's directory is missing or damaged.
        """
        _check_counts(threads=(threads, 1))
        with self._changing, _progress.bar("encrypting again", "block", progress) as told:
            self._native.rotate(keys, threads=threads, progress=told, interrupt=interrupt)

    def __repr__(self) -> str:
        where = "temporary" if self._temporary else _oboro.escaped(str(self.path))
        return (
            f"Encrypted({self.transactions} transactions × {len(self.columns)} items, "
            f"itemsets of up to {self.max_len}, {self.stored_bytes} bytes, {where})"
        )


def _how_read(of: _oboro.Encrypted | _oboro.Rows) -> dict[str, Any] | None:
    how: dict[str, Any] | None = json.loads(of.how_read or "null")
    return how


def _check_counts(**given: tuple[object, int]) -> None:
    """Refuse arguments that are not integers, or below their minimum; None is a default."""
    for name, (count, least) in given.items():
        if count is None and name == "threads":
            continue
        if isinstance(count, bool) or not isinstance(count, Integral) or count < least:
            raise InputError(f"{name} must be a whole number of {least} or more, not {count!r}")


def _least_item_count(min_item_support: object, transactions: int) -> int:
    """Return the number of transactions that a minimum item support stands for."""
    if isinstance(min_item_support, bool):
        pass
    elif isinstance(min_item_support, Integral):
        count = int(min_item_support)
        if count >= 1:
            # More than any number of transactions: the core counts in 64 bits.
            return min(count, 2**63)
    elif isinstance(min_item_support, Real) and 0 < (fraction := float(min_item_support)) <= 1:
        # Rounded as in apriori, which then accepts this fraction.
        return least_count(fraction, transactions)
    raise InputError(
        "min_item_support must be a fraction above 0 and up to 1.0, or a number of transactions, "
        f"not {min_item_support!r}"
    )


def encrypt(
    data: object,
    keys: Keys,
    *,
    max_len: int = 4,
    min_item_support: float | None = None,
    focus: Iterable[object] = (),
    pair_columns: int = 1024,
    path: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    interrupt: Interrupt | None = None,
    **reading: Unpack[Reading],
) -> Encrypted:
    """Encrypt transactions. Items and transactions are shuffled first.

    >>> import oboro
    >>> keys = oboro.Keys.generate()
    >>> enc = oboro.encrypt([["bread", "milk"], ["milk"]], keys, max_len=2)
    >>> enc.columns, enc.transactions
    (['bread', 'milk'], 2)

    Args:
        data: a table with a row for each transaction and a column for each item, of 0 and 1 or of
            booleans (a DataFrame of pandas, dense or sparse, or of polars; a Table of pyarrow; a
            sparse matrix of SciPy; a 2-D array of NumPy); an iterable of baskets, each the items of
            a transaction, text or integers; a table with a row for each item of a transaction; or
            the path of a file: CSV or FIMI, plain or compressed with gzip or zstd, Parquet or
            Arrow, "-" for standard input. Tables of libraries that have `__arrow_c_stream__`, such
            as DuckDB's, are read like those of polars. An ambiguous file or table is refused, and
            the error names the arguments that resolve it; `Encrypted.read` shows the
            interpretation. Labels of columns are the names of items: all text, all integers, all
            dates or times (named as in CSV), or all tuples of these (joined by slashes).
        keys: the key to encrypt with; answers can only be read with it.
        max_len: the length of the longest itemsets that a server can count, 1 to 16; longer ones
            need larger ciphertexts. It is limited to the number of items.
        min_item_support: leave out the items below it: a float is a fraction of the transactions,
            an int a number of them. Minimum supports below it are refused later.
        focus: up to 64 items for `Dataset.pairs_with`, which counts their pairs with every other
            item at once. Needed with more items than `pair_columns`; with fewer, every item is
            possible.
        pair_columns: the number of items, by support, of which the server counts all pairs and
            longer itemsets verifiably, up to 4,096; other frequent items are mined in sealed cells.
        path: a directory to create; None for a temporary one.
        threads: the number of threads; None for one per processor.
        progress: show a bar; None shows one on terminals and in notebooks.
        interrupt: cancel the call from another thread.
        **reading: options for a file, or a table of more than 0 and 1: `format` ("fimi",
            "csv-basket", "csv-long", "csv-onehot" or "csv-counts"), `separator`, `header` (true if
            the first line is one), `encoding` ("utf-8" or "latin-1"), `transaction_column` (a
            name, or several), `item_column`, `drop_columns`, `spaces` around names ("trim" or
            "keep") and `missing` (blank cells, NA, ? and the like mean that an item is "absent", or
            name an "item"); `unicode`, the form of names ("nfc", "nfkc" or "as-is");
            `item_separator` of the items in one cell, "none" if each is one item; `skip_first`
            lines and `skip_last` rows of a file, such as titles and totals; `bins`, columns of
            numbers whose ranges become items, as in `bins={"age": [0, 18, 65]}`; `taxonomy`, the
            path of a file with an item and its ancestors on each line: transactions get these as
            items, too; `memory`, the maximum bytes for reading and encrypting a file, in addition
            to names of items, row ids and buffers of threads: transactions that take more than half
            of it go to a temporary file; and `row_ids`: the column with a unique id of each
            transaction, which is sealed with it: `Dataset.row_ids` lists them. For tables of 0 and
            1 and for baskets, `row_ids` may be the ids themselves, text or integers, one for each
            transaction, as in `row_ids=frame.index`. `missing` and `unicode` apply to the items of
            baskets, too.

    Returns:
        The encrypted dataset.

    Raises:
        InputError: unusable data or arguments; the message gives the reason.
        StorageError: a full or failing disk. Nothing is left behind.
        Interrupted: `interrupt` was set. Nothing is left behind.
    """
    _check_counts(max_len=(max_len, 0), pair_columns=(pair_columns, 0), threads=(threads, 1))
    rows = _frames.rows(data, threads, reading)
    if min_item_support is not None:
        rows.restrict(_least_item_count(min_item_support, len(rows)))
        if not rows.names:
            raise InputError(
                f"no item has the minimum support {min_item_support}; give a lower one"
            )
    if isinstance(focus, (str, bytes)):
        raise InputError(f"focus is {focus!r}; give a list of items")
    with _progress.bar("encrypting", "block", progress) as told:
        native = _oboro.Encrypted.create(
            rows,
            keys,
            max_len=max_len,
            focus=[str(item) for item in focus],
            pair_columns=pair_columns,
            path=path,
            threads=threads,
            progress=told,
            interrupt=interrupt,
        )
    return Encrypted(native, temporary=path is None)
