"""Names of figures that benches print, as lab/papers.toml writes them.

`table6[way=oboro].main_seconds` is a field of those lines of the step `table6` that have that
value in that field, or with `~=` that text within it; their median, if there are several, or what
`max ssd[bench=ssd sample].queue_length` asks for. ` / ` and ` * ` join such references and numbers.
A field that holds a list of numbers stands for all of them, so that single runs are kept; a path
finds objects in a list by number or as KEY=VALUE. `FIELD less FIELD` is the difference of two
numbers of a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

Line = dict[str, Any]
# The lines of every step that was run.
Lines = Mapping[str, Sequence[Line]]

REDUCERS: dict[str, Callable[[Sequence[float]], float]] = {
    "median": median,
    "mean": fmean,
    "min": min,
    "max": max,
    "sum": sum,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}
ENOUGH = 4
REFERENCE = re.compile(
    rf"(?:(?P<reducer>{'|'.join(REDUCERS)}) )?(?P<step>[a-z0-9-]+)"
    r"(?:\[(?P<where>[^\]]*)\])?\.(?P<field>.+)"
)


class Unwritable(ValueError):
    """An expression that is none, with the cause."""


@dataclass(frozen=True)
class Reference:
    """A field of some lines of a step."""

    step: str
    where: tuple[tuple[str, str], ...]
    field: str
    reducer: str = "median"

    @classmethod
    def parse(cls, text: str) -> Reference:
        found = REFERENCE.fullmatch(text)
        if found is None:
            raise Unwritable(f"{text!r} is no reference: write [REDUCER ]STEP[KEY=VALUE; …].FIELD")
        conditions = [part.strip() for part in (found["where"] or "").split(";") if part.strip()]
        pairs = [condition.partition("=") for condition in conditions]
        if not all(equals for _, equals, _ in pairs):
            raise Unwritable(f"{text!r}: write conditions as KEY=VALUE, joined by semicolons")
        where = tuple((key, value) for key, _, value in pairs)
        return cls(found["step"], where, found["field"], found["reducer"] or "median")

    def matches(self, line: Line) -> bool:
        return all(holds(line, key, value) for key, value in self.where)

    def found(self, lines: Lines) -> list[Any]:
        """The field in all lines that match and have it."""
        chosen = [line for line in lines.get(self.step, ()) if self.matches(line)]
        return [value for line in chosen if (value := self.of(line)) is not None]

    def of(self, line: Line) -> Any:
        """The field of a line, or the difference of two."""
        whole, less, part = self.field.partition(" less ")
        if not less:
            return at(line, whole)
        minuend, subtrahend = at(line, whole), at(line, part)
        return None if minuend is None or subtrahend is None else minuend - subtrahend

    def runs(self, lines: Lines) -> list[float]:
        """All numbers that it names; none where it was not measured."""
        values: list[float] = []
        for value in self.found(lines):
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, bool) or not isinstance(number, int | float):
                    raise Unwritable(f"{self.step}.{self.field} is {number!r}, not a number")
                values.append(float(number))
        return values


@dataclass(frozen=True)
class Expression:
    """References and numbers, each multiplied by (1) or divided by (-1)."""

    text: str
    parts: tuple[tuple[int, Reference | float], ...]

    @classmethod
    def parse(cls, text: str) -> Expression:
        words = re.split(r" ([*/]) ", text)
        signs = [1, *(1 if sign == "*" else -1 for sign in words[1::2])]
        return cls(text, tuple(zip(signs, map(term, words[::2]), strict=True)))

    @property
    def references(self) -> list[Reference]:
        return [part for _, part in self.parts if isinstance(part, Reference)]

    @property
    def steps(self) -> list[str]:
        return list(dict.fromkeys(reference.step for reference in self.references))

    def runs(self, lines: Lines) -> list[float]:
        """Single runs, where they can be told: of one reference with constants. Else its value."""
        if len(self.references) == 1:
            constant = 1.0
            for sign, part in self.parts:
                if not isinstance(part, Reference):
                    constant *= part**sign
            inverse = next(sign for sign, part in self.parts if isinstance(part, Reference)) < 0
            runs = self.references[0].runs(lines)
            return [(1 / run if inverse else run) * constant for run in runs]
        value = self.value(lines)
        return [] if value is None else [value]

    def value(self, lines: Lines) -> float | None:
        """None where a part was not measured, or is divided by nothing."""
        product = 1.0
        for sign, part in self.parts:
            number = part if isinstance(part, float) else reduced(part, lines)
            if number is None or (sign < 0 and number == 0):
                return None
            product *= number**sign
        return product

    def extremes(self, lines: Lines) -> tuple[float, float] | None:
        """The least and the largest value that its runs allow; None if any part has too few for
        chance to be unlikely to part them: of four and four, one time in 35."""
        low = high = 1.0
        for sign, part in self.parts:
            runs = part.runs(lines) if isinstance(part, Reference) else [part] * ENOUGH
            if len(runs) < ENOUGH or min(runs) <= 0:
                return None
            low *= min(runs) if sign > 0 else 1 / max(runs)
            high *= max(runs) if sign > 0 else 1 / min(runs)
        return low, high

    def fact(self, lines: Lines) -> Any:
        """What a lone reference names, whatever it is."""
        found = self.references[0].found(lines)
        return found[-1] if found else None


def holds(line: Line, key: str, value: str) -> bool:
    """Whether a line meets a condition."""
    if key.endswith("~"):
        return value in written(at(line, key[:-1]))
    return written(at(line, key)) == value


def term(text: str) -> Reference | float:
    try:
        return float(text)
    except ValueError:
        return Reference.parse(text)


def reduced(reference: Reference, lines: Lines) -> float | None:
    runs = reference.runs(lines)
    return REDUCERS[reference.reducer](runs) if runs else None


def at(value: Any, path: str) -> Any:
    """What lies at a dotted path; the longest key first, since keys may have dots. `*` is all of a
    list. None where there is nothing."""
    if not path:
        return value
    if isinstance(value, list):
        head, _, rest = path.partition(".")
        if head == "*":
            found = [at(each, rest) for each in value]
            return [each for each in found if each is not None] or None
        for head in prefixes(path):
            key, equals, wanted = head.partition("=")
            chosen = [each for each in value if equals and holds(each, key, wanted)]
            if chosen:
                return at(chosen[0], path[len(head) + 1 :])
        head = path.partition(".")[0]
        return at(value[int(head)], rest) if head.isdecimal() and int(head) < len(value) else None
    if not isinstance(value, dict):
        return None
    for key in prefixes(path):
        if key in value:
            return at(value[key], path[len(key) + 1 :])
    return None


def prefixes(path: str) -> Iterable[str]:
    parts = path.split(".")
    return (".".join(parts[:count]) for count in range(len(parts), 0, -1))


def written(value: Any) -> str:
    """As a condition writes it."""
    return value if isinstance(value, str) else json.dumps(value)
