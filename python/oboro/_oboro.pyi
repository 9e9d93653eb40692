"""The native part, crates/python."""

import os
from collections.abc import Callable
from typing import Any

__version__: str

class Interrupt:
    """Ends the calls that it was given to, from any thread."""

    def __init__(self) -> None: ...
    def set(self) -> None: ...

class Keys:
    """A master key. It can be saved to a file of its own: it is not pickled or printed."""

    @staticmethod
    def generate() -> Keys: ...
    @staticmethod
    def load(path: str | os.PathLike[str], *, passphrase: str | None = None) -> Keys: ...
    def save(self, path: str | os.PathLike[str], *, passphrase: str | None = None) -> None: ...
    @property
    def check(self) -> str: ...

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
    progress: Callable[[int, int], object] | None = None,
    interrupt: Interrupt | None = None,
) -> dict[str, Any]: ...
def find_in_reference(
    server: Server,
    name: str,
    pattern: str,
    *,
    within: int,
    count: bool,
    progress: Callable[[int, int], object] | None = None,
    interrupt: Interrupt | None = None,
) -> dict[str, Any]: ...
def load_panel(
    data: str | os.PathLike[str],
    name: str,
    file: str | os.PathLike[str],
    *,
    region: str | None,
    skip_duplicates: bool,
    replace: bool,
) -> None: ...
def load_reference(
    data: str | os.PathLike[str],
    name: str,
    file: str | os.PathLike[str],
    *,
    replace: bool,
) -> None: ...
