"""Options for reading text files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict


class Reading(TypedDict, total=False):
    """The options for a text file; documented in `oboro.encrypt`."""

    format: str
    separator: str
    header: bool
    encoding: str
    transaction_column: str | Sequence[str]
    item_column: str
    drop_columns: str | Sequence[str]
    spaces: str
    missing: str
    row_ids: str | Iterable[str] | Iterable[int]


def options(reading: Reading) -> dict[str, Any]:
    """Normalizes the options: a list where several names are possible.

    Raises:
        TypeError: an unknown option.
    """
    for name in reading:
        if name not in Reading.__annotations__:
            raise TypeError(f"{name!r} is no argument of this call")
    several = ("transaction_column", "drop_columns")
    return {
        name: [value] if name in several and isinstance(value, str) else value
        for name, value in reading.items()
    }
