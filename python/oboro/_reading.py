"""What settles how a file of text is read, and errors about it in terms of Python."""

from __future__ import annotations

import csv
import re
import shlex
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


def in_python(sentence: str) -> str:
    """An error with arguments in place of options of the command line."""
    return re.sub(r"`(--[^`]*)`", lambda found: f"`{_arguments(found[1])}`", sentence)


def _arguments(flags: str) -> str:
    try:
        words = shlex.split(flags)
    except ValueError:
        return flags  # Text of the file between backticks.
    arguments: dict[str, Any] = {}
    for flag, value in zip(words[::2], words[1::2], strict=False):
        name = flag.removeprefix("--").replace("-", "_")
        if name == "header":
            arguments[name] = value == "yes"
        elif name == "drop_columns":
            arguments[name] = next(csv.reader([value]))
        elif name == "transaction_column":
            arguments[name] = [*arguments.get(name, []), value]
        else:
            arguments[name] = value
    if not arguments:
        return flags.removeprefix("--").replace("-", "_")
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
