"""The numbers of README.md, held against results.json.

lab/papers/readme.toml lists phrases with `{}` in place of each number, and the figures that these
are. A phrase must occur once in the sections that tell of measurements, and every number there
belongs to a phrase, or to what the file lists as given: sizes that were chosen, what papers have.
`update` writes a run's figures into the phrases.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import floor, log10
from pathlib import Path

import tomllib

from papers.catalogue import ROOT
from papers.expression import Expression, Lines
from papers.results import Results

README = ROOT / "README.md"
PHRASES = Path(__file__).with_name("readme.toml")
SECTIONS = ("Measured", "The allocator")
NUMBER = r"(\d+(?:,\d{3})*(?:\.\d+)?)"


@dataclass(frozen=True)
class Figure:
    """A figure as it is written: how many of its digits matter, and in which unit."""

    value: Expression
    digits: int = 2
    scale: float = 1.0

    def written(self, lines: Lines) -> str | None:
        value = self.value.value(lines)
        return None if value is None else rounded(value * self.scale, self.digits)


@dataclass(frozen=True)
class Phrase:
    """Numbers with their words."""

    text: str
    figures: tuple[Figure, ...]

    @property
    def pattern(self) -> re.Pattern[str]:
        words = [re.escape(part) for part in self.text.split("{}")]
        return re.compile(re.sub(r"\\ ", r"\\s+", NUMBER.join(words)))


@dataclass(frozen=True)
class Numbers:
    phrases: list[Phrase]
    # Patterns of what is no measurement.
    given: list[str]


def load(path: Path = PHRASES) -> Numbers:
    raw = tomllib.loads(path.read_text())
    phrases = []
    for one in raw["phrase"]:
        figures = [Figure(Expression.parse(text), *form) for text, *form in one["values"]]
        if one["text"].count("{}") != len(figures):
            raise ValueError(f"{one['text']!r} has not as many places as figures")
        phrases.append(Phrase(one["text"], tuple(figures)))
    return Numbers(phrases, raw["given"])


def problems(readme: str, numbers: Numbers, results: Results) -> list[str]:
    """What README.md says and the results do not, or nobody vouches for."""
    sections = [section(readme, name) for name in SECTIONS]
    text = "\n".join(sections)
    wrong = []
    known: list[tuple[int, int]] = []
    for phrase in numbers.phrases:
        found = list(phrase.pattern.finditer(text))
        if len(found) != 1:
            wrong.append(f"{phrase.text!r} occurs {len(found)} times, not once")
            continue
        for place, figure in enumerate(phrase.figures, 1):
            known.append(found[0].span(place))
            said, measured = found[0][place], figure.written(results.lines)
            if measured is None and not set(figure.value.steps) & results.left_out:
                wrong.append(f"{phrase.text!r}: results.json has no {figure.value.text}")
            elif measured not in (None, said):
                wrong.append(f"{phrase.text!r}: it says {said}, results.json {measured}")
    for pattern in numbers.given:
        known += [match.span() for match in re.finditer(pattern, text)]
    for match in re.finditer(NUMBER, text):
        if not any(begin <= match.start() and match.end() <= end for begin, end in known):
            line = text.splitlines()[text[: match.end()].count("\n")]
            wrong.append(f"{match[0]} in {line!r} belongs to no phrase")
    return wrong


def update(results: Results) -> None:
    """Writes the figures of a run into README.md."""
    readme = README.read_text()
    for name in SECTIONS:
        old = new = section(readme, name)
        for phrase in load().phrases:
            match = phrase.pattern.search(new)
            if match is None:
                continue
            for place in range(len(phrase.figures), 0, -1):
                measured = phrase.figures[place - 1].written(results.lines)
                begin, end = match.span(place)
                new = new[:begin] + (measured or match[place]) + new[end:]
        readme = readme.replace(old, new)
    README.write_text(readme)


def section(readme: str, name: str) -> str:
    """What stands below a heading."""
    return readme.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def rounded(value: float, digits: int) -> str:
    """To so many digits that matter, with commas; whole numbers stay whole."""
    if value == 0:
        return "0"
    places = digits - 1 - floor(log10(abs(value)))
    if round(abs(value), places) >= 10 ** (digits - places):
        # One more digit before the point, such as 9.96.
        places -= 1
    if float(value).is_integer():
        # A count.
        places = min(places, 0)
    return f"{round(value, places):,.{max(0, places)}f}"
