"""The native part, crates/python."""

import os
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

__version__: str

class Encrypted:
    """An encrypted dataset with the key to it, which is why it is neither pickled nor printed."""

    @staticmethod
    def create(
        rows: Rows,
        keys: Keys,
        *,
        max_len: int,
        check_columns: int = 0,
        path: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        interrupt: Interrupt | None = None,
    ) -> Encrypted: ...
    @staticmethod
    def open(path: str | os.PathLike[str], keys: Keys) -> Encrypted: ...
    def append(
        self,
        rows: Rows,
        *,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        interrupt: Interrupt | None = None,
    ) -> None: ...
    @property
    def columns(self) -> list[str] | list[int]: ...
    @property
    def transactions(self) -> int: ...
    @property
    def max_len(self) -> int: ...
    @property
    def check_columns(self) -> int: ...
    @property
    def stored_bytes(self) -> int: ...
    @property
    def path(self) -> os.PathLike[str]: ...

class Interrupt:
    """Ends the calls that it was given to, from any thread."""

    def __init__(self) -> None: ...
    def set(self) -> None: ...

class Keys:
    """A master key. It can be saved to a file of its own and nothing else: it is not pickled or printed."""

    @staticmethod
    def generate() -> Keys: ...
    @staticmethod
    def load(path: str | os.PathLike[str], *, passphrase: str | None = None) -> Keys: ...
    def save(self, path: str | os.PathLike[str], *, passphrase: str | None = None) -> None: ...
    @property
    def check(self) -> str: ...

class Rows:
    """Transactions in random order, as bits: columns are added, then they are encrypted, once."""

    def __init__(
        self, transactions: int, *, numbers: bool = False, threads: int | None = None
    ) -> None: ...
    def push_bytes(
        self, names: Sequence[str], columns: Sequence[npt.NDArray[np.uint8]]
    ) -> None: ...
    def push_bits(
        self, names: Sequence[str], columns: Sequence[tuple[npt.NDArray[np.uint8], int]]
    ) -> None: ...
    def push_holders(
        self, names: Sequence[str], columns: Sequence[npt.NDArray[np.uint32]]
    ) -> None: ...
    @staticmethod
    def from_baskets(baskets: Iterable[object]) -> Rows: ...
    @staticmethod
    def read(path: str | os.PathLike[str], *, format: str = "auto") -> Rows: ...
    def restrict(self, min_support: float) -> None: ...
    def supports(self) -> list[int]: ...
    @property
    def names(self) -> list[str]: ...
    def __len__(self) -> int: ...
