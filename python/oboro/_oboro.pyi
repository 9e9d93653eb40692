"""Native module, built from crates/python."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str

_Progress = Callable[[int, int], object]

class Interrupt:
    """Interrupt that cancels the calls it was passed to, from any thread."""

    def __init__(self) -> None: ...
    def set(self) -> None: ...

class Keys:
    """Master key. It can only be saved to a file: it is not pickled or printed."""

    @staticmethod
    def generate() -> Keys: ...
    @staticmethod
    def load(path: str | os.PathLike[str], *, passphrase: str | None = None) -> Keys: ...
    def save(self, path: str | os.PathLike[str], *, passphrase: str | None = None) -> None: ...
    @property
    def check(self) -> str: ...

class Encrypted:
    """Encrypted dataset with its key; therefore not pickled or printed."""

    @staticmethod
    def create(
        rows: Rows,
        keys: Keys,
        *,
        max_len: int,
        focus: Sequence[str] = (),
        pair_columns: int = 1024,
        path: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        progress: _Progress | None = None,
        interrupt: Interrupt | None = None,
    ) -> Encrypted: ...
    @staticmethod
    def open(path: str | os.PathLike[str], keys: Keys) -> Encrypted: ...
    def append(
        self,
        rows: Rows,
        *,
        new_items: str = "refuse",
        below: int | None = None,
        absorb: bool | None = None,
        threads: int | None = None,
        progress: _Progress | None = None,
        interrupt: Interrupt | None = None,
    ) -> None: ...
    def compact(
        self,
        *,
        all: bool = False,
        threads: int | None = None,
        progress: _Progress | None = None,
        interrupt: Interrupt | None = None,
    ) -> bool: ...
    def erasure(
        self,
        row_ids: Sequence[str],
        *,
        before: str | None = None,
        threads: int | None = None,
    ) -> tuple[int, int, int, int]: ...
    def erase(
        self,
        row_ids: Sequence[str],
        *,
        before: str | None = None,
        threads: int | None = None,
        progress: _Progress | None = None,
        interrupt: Interrupt | None = None,
    ) -> int: ...
    def rotate(
        self,
        keys: Keys,
        *,
        threads: int | None = None,
        progress: _Progress | None = None,
        interrupt: Interrupt | None = None,
    ) -> None: ...
    @property
    def columns(self) -> list[str] | list[int]: ...
    @property
    def transactions(self) -> int: ...
    @property
    def how_read(self) -> str | None: ...
    @property
    def max_len(self) -> int: ...
    def trust(self) -> str: ...
    def reset_trust(self) -> None: ...
    @property
    def min_item_support(self) -> int: ...
    @property
    def stored_bytes(self) -> int: ...
    @property
    def path(self) -> os.PathLike[str]: ...

class Rows:
    """Transactions in random order, as bits: columns are added, then encrypted, once."""

    def __init__(
        self, transactions: int, *, numbers: bool = False, threads: int | None = None
    ) -> None: ...
    def push_bytes(
        self, names: Sequence[str], columns: Sequence[npt.NDArray[np.uint8]]
    ) -> None: ...
    def push_holders(
        self, names: Sequence[str], columns: Sequence[npt.NDArray[np.uint32]]
    ) -> None: ...
    @staticmethod
    def from_baskets(
        baskets: Iterable[object], *, row_ids: Sequence[str] | None = None, **reading: Any
    ) -> Rows: ...
    @staticmethod
    def read(
        path: str | os.PathLike[str],
        *,
        like: Encrypted | None = None,
        **reading: Any,
    ) -> Rows: ...
    @staticmethod
    def from_arrow(
        data: object,
        *,
        threads: int | None = None,
        like: Encrypted | None = None,
        **reading: Any,
    ) -> Rows: ...
    @staticmethod
    def from_frame(
        columns: Sequence[tuple[str, npt.NDArray[np.int32], Sequence[str], bool]],
        *,
        like: Encrypted | None = None,
        **reading: Any,
    ) -> Rows: ...
    @staticmethod
    def are_of_long_form(names: Sequence[str]) -> bool: ...
    def set_row_ids(self, row_ids: Sequence[str]) -> None: ...
    @property
    def how_read(self) -> str | None: ...
    def restrict(self, min_support: float) -> None: ...
    def supports(self) -> list[int]: ...
    @property
    def names(self) -> list[str]: ...
    def __len__(self) -> int: ...

class Server:
    """Connection to a server, in this process or remote."""

    @staticmethod
    def connect(
        url: str,
        *,
        token: str | None = None,
        tls: str | os.PathLike[str] | None = None,
        client_cert: str | os.PathLike[str] | None = None,
        client_key: str | os.PathLike[str] | None = None,
        interrupt: Interrupt | None = None,
    ) -> Server: ...
    @staticmethod
    def local(
        *,
        threads: int | None = None,
        memory: int | None = None,
        moment_cache: int | None = None,
    ) -> Server: ...
    @property
    def url(self) -> str: ...
    def upload(
        self,
        encrypted: Encrypted,
        name: str,
        *,
        progress: _Progress | None = None,
        interrupt: Interrupt | None = None,
    ) -> tuple[int, int]:
        """Upload a dataset; return the published version and the bytes sent."""
    def datasets(
        self, *, interrupt: Interrupt | None = None
    ) -> tuple[list[tuple[str, int, str, int, int, int, int]], list[str]]:
        """Return the fields of each DatasetInfo, and a message about each damaged dataset."""
    def delete(self, name: str, now: bool, *, interrupt: Interrupt | None = None) -> None: ...
    def undelete(
        self, name: str, new_name: str | None, *, interrupt: Interrupt | None = None
    ) -> None: ...
    def close(self) -> None: ...

def more_columns(
    encrypted: Encrypted, *, min_support: int, max_len: int, answers: str, keep_cells: int
) -> int:
    """Return the number of columns that the server would newly learn to be frequent, compared with
    the cell cache; 0 if that is empty."""

def pairs_with(
    server: Server,
    encrypted: Encrypted,
    name: str,
    item: str,
    *,
    offline: bool = False,
    progress: _Progress | None = None,
    interrupt: Interrupt | None = None,
) -> tuple[list[tuple[int, int]], str]:
    """Return the index of each other item with its number of common transactions; the cost, as
    JSON."""

def row_ids(
    server: Server,
    encrypted: Encrypted,
    name: str,
    *,
    progress: _Progress | None = None,
    interrupt: Interrupt | None = None,
) -> list[tuple[int, str]]:
    """Return the slot and the id of each row, sorted by id."""

def mine(
    server: Server,
    encrypted: Encrypted,
    keys: Keys,
    name: str,
    *,
    min_support: int,
    max_len: int,
    stop_above: int = ...,
    answers: str = ...,
    trust_server: bool = False,
    offline: bool = False,
    keep_cells: int = ...,
    threads: int | None = None,
    progress: _Progress | None = None,
    interrupt: Interrupt | None = None,
) -> tuple[list[int], npt.NDArray[np.uint32], npt.NDArray[np.uint64], int | None, str]:
    """Return the number of itemsets of each length; all their items, concatenated; supports; the
    length limit if it may have cut off longer ones; the trust level and the cost, in JSON."""

def genomes(
    server: Server, *, interrupt: Interrupt | None = None
) -> tuple[list[dict[str, Any]], list[str]]: ...
def query_panel(
    server: Server,
    name: str,
    symbols: str,
    *,
    bases: bool,
    position: int,
    chromosome: str | None,
    within: int,
    longest: bool,
    count: bool,
    decoys: int,
    sites_digest: str | None,
    progress: _Progress | None = None,
    interrupt: Interrupt | None = None,
) -> dict[str, Any]: ...
def find_in_reference(
    server: Server,
    name: str,
    pattern: str,
    *,
    within: int,
    count: bool,
    progress: _Progress | None = None,
    interrupt: Interrupt | None = None,
) -> dict[str, Any]: ...
def load_panel(
    server: Server,
    name: str,
    file: str | os.PathLike[str],
    *,
    region: str | None,
    skip_duplicates: bool,
    replace: bool,
) -> tuple[int, int]:
    """Load a panel; return the numbers of lines skipped: outside the region, duplicates."""

def load_reference(
    server: Server,
    name: str,
    file: str | os.PathLike[str],
    *,
    replace: bool,
) -> None: ...

class Worker:
    """Worker that counts shards for a server with the same storage."""

    def __init__(
        self,
        data: str,
        *,
        cache: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        memory: int | None = None,
    ) -> None: ...
    def count(self, manifest: bytes, task: bytes, first: int, shards: int) -> bytes: ...

class Work:
    """Query whose shards a server wants counted, and the receiver of its results."""

    @property
    def manifest(self) -> bytes: ...
    @property
    def task(self) -> bytes: ...
    @property
    def shards(self) -> int: ...
    @property
    def shard_bytes(self) -> int: ...
    @property
    def is_wanted(self) -> bool: ...
    @property
    def has_capacity(self) -> bool: ...
    def deliver(self, worker: str, first: int, shards: int, partial: bytes) -> None: ...
    def fail(self, told: str, detail: str) -> None: ...

def serve(
    data: str,
    start: Callable[[Work], object],
    listening: Callable[[str], object],
    *,
    listen: str,
    limits: Mapping[str, int | None],
    cache: str | os.PathLike[str] | None = None,
    tls_cert: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    tokens: str | os.PathLike[str] | None = None,
    moment_cache: int | None = None,
    interrupt: Interrupt | None = None,
) -> None:
    """Run a server; `limits` has a key for each limit, with `None` for the default."""

def speak_as_command() -> None:
    """Name command-line options in messages of this process."""

def rule_metrics() -> list[tuple[str, str, bool]]:
    """Return all metrics of rules: name, meaning, and true if mlxtend has it."""

def rule_metric(
    metric: str,
    columns: tuple[npt.NDArray[np.float64], ...],
    transactions: float,
) -> npt.NDArray[np.float64]:
    """Compute a metric of each rule; the columns are those of `_rules.Terms`, each contiguous."""

def escaped(text: str) -> str:
    """Return `text` on one line, with control sequences escaped."""

def itemset(names: Sequence[str]) -> str:
    """Format an itemset of these names as `oboro mine` does."""

def size(text: str) -> int:
    """Parse a size such as `2GiB`, as in the options of `oboro`; return bytes."""
