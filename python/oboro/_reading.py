"""What settles how a file of text is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict


class Reading(TypedDict, total=False):
    """What may be said of a file of text; `oboro.encrypt` says what it means."""

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
    """The same, a list where there may be several names.

    Raises:
        TypeError: an argument that is none of these.
    """
    for name in reading:
        if name not in Reading.__annotations__:
            raise TypeError(f"{name!r} is no argument of this call")
    several = ("transaction_column", "drop_columns")
    return {
        name: [value] if name in several and isinstance(value, str) else value
        for name, value in reading.items()
    }
