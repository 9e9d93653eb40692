"""The native part, crates/python."""

import os
from collections.abc import Callable, Mapping, Sequence

__version__: str

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

class Worker:
    """Counts groups of blocks for a server with the same storage."""

    def __init__(
        self,
        data: Sequence[str],
        *,
        cache: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        memory: int | None = None,
    ) -> None: ...
    def count(self, manifest: bytes, task: bytes, first: int, groups: int) -> bytes: ...

class Work:
    """A question that a server wants to have counted, and where its results go."""

    @property
    def manifest(self) -> bytes: ...
    @property
    def task(self) -> bytes: ...
    @property
    def groups(self) -> int: ...
    @property
    def group_bytes(self) -> int: ...
    @property
    def is_wanted(self) -> bool: ...
    @property
    def has_room(self) -> bool: ...
    def deliver(self, partial: bytes) -> None: ...
    def fail(self, told: str, detail: str) -> None: ...

def serve(
    data: Sequence[str],
    start: Callable[[Work], object],
    listening: Callable[[str], object],
    *,
    listen: str,
    cache: str | os.PathLike[str] | None = None,
    tls: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
    token_file: str | os.PathLike[str] | None = None,
    moment_cache: int = ...,
    limits: Mapping[str, int] | None = None,
    interrupt: Interrupt | None = None,
) -> None: ...
