"""The native part, crates/python."""

import os

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
