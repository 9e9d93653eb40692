"""Options for reading files and tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from oboro.errors import InputError


class Reading(TypedDict, total=False):
    """Options for a file or a table; documented in `oboro.encrypt`."""

    format: str
    separator: str
    header: bool
    encoding: str
    transaction_column: str | Sequence[str]
    item_column: str
    drop_columns: str | Sequence[str]
    spaces: str
    missing: str
    unicode: str
    item_separator: str
    skip_first: int
    skip_last: int
    row_ids: str | Iterable[str] | Iterable[int]
    bins: str | Sequence[str] | Mapping[str, Sequence[float]]
    taxonomy: str | os.PathLike[str]
    memory: int


def options(reading: Reading) -> dict[str, Any]:
    """Normalize the given options: a list where several names are possible.

    Raises:
        TypeError: an unknown option.
        InputError: an invalid number of bytes of memory, or of lines.
    """
    for name in reading:
        if name not in Reading.__annotations__:
            raise TypeError(f"{name!r} is no argument of this call")
    given: dict[str, Any] = {name: value for name, value in reading.items() if value is not None}
    memory = given.get("memory", 1)
    if not isinstance(memory, int) or isinstance(memory, bool) or not 0 < memory < 1 << 64:
        raise InputError(f"memory is {memory!r}; give a number of bytes")
    for name in ("skip_first", "skip_last"):
        skipped = given.get(name, 0)
        if not isinstance(skipped, int) or isinstance(skipped, bool) or not 0 <= skipped < 1 << 32:
            raise InputError(f"{name} is {skipped!r}; give a number of lines, or 0 for none")
    bins = given.get("bins")
    if isinstance(bins, Mapping):
        given["bins"] = [
            f"{column}={','.join(str(bound) for bound in bounds)}"
            for column, bounds in bins.items()
        ]
    for name in ("transaction_column", "drop_columns", "bins"):
        if isinstance(given.get(name), str):
            given[name] = [given[name]]
    return given
