"""The numbers of README.md, held against results.json.

lab/papers/readme.toml lists phrases with `{}` in place of each number, and the figures that these
are. A phrase must occur once in the sections that tell of measurements, and every number there
belongs to a phrase, or to what the file lists as given: sizes that were chosen, what papers have.
`update` writes a run's figures into the phrases. A part, which begins with a title in bold, has the
numbers of one run: where the reference run lacks a figure, the whole part keeps its numbers, and
its title says that they are of an earlier run.
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
EARLIER = ", of an earlier run"
TITLE = re.compile(r"\A\*\*[^*]+(?=\*\*)")
# What the text calls the reference run.
FORMS = {True: "one quick run of `make papers`", False: "one full run of `make papers`"}
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


class Missing(ValueError):
    """Figures that a run lacks, where no title can say so."""


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
    if FORMS[not results.quick] in text:
        wrong.append(f"it does not speak of {FORMS[results.quick]}, as results.json is")
    for phrase in numbers.phrases:
        found = len(phrase.pattern.findall(text))
        if found != 1:
            wrong.append(f"{phrase.text!r} occurs {found} times, not once")
    for part in [part for one in sections for part in parts(one)]:
        matches = matched(part, numbers)
        absent = lacking(matches, results)
        title = TITLE.match(part)
        earlier = bool(title and title[0].endswith(EARLIER))
        if earlier and title and not absent:
            wrong.append(f"{title[0]!r}, but results.json has all its figures")
        if absent and not earlier:
            wrong += [
                f"results.json has no {name}: its title must end in {EARLIER!r}" for name in absent
            ]
        if not absent:
            for phrase, match in matches:
                for said, figure in zip(match.groups(), phrase.figures, strict=True):
                    measured = figure.written(results.lines)
                    if measured != said:
                        wrong.append(f"{phrase.text!r}: it says {said}, results.json {measured}")
        wrong += unknown(part, matches, numbers.given)
    return wrong


def unknown(part: str, matches: list[tuple[Phrase, re.Match[str]]], given: list[str]) -> list[str]:
    """Numbers that are neither measured nor given."""
    known = [match.span(n + 1) for _, match in matches for n in range(len(match.groups()))]
    known += [match.span() for pattern in given for match in re.finditer(pattern, part)]
    return [
        f"{match[0]} in {line_of(part, match.end())!r} belongs to no phrase"
        for match in re.finditer(NUMBER, part)
        if not any(begin <= match.start() and match.end() <= end for begin, end in known)
    ]


def line_of(text: str, place: int) -> str:
    return text.splitlines()[text[:place].count("\n")]


def update(results: Results) -> None:
    """Writes the figures of a run into README.md, or none of them: see `updated`."""
    README.write_text(updated(README.read_text(), load(), results))


def updated(readme: str, numbers: Numbers, results: Results) -> str:
    """With a run's figures; parts that it has not all of are kept and marked, or `Missing`."""
    for name in SECTIONS:
        old = section(readme, name)
        new = "".join(renewed(part, numbers, results) for part in parts(old))
        new = new.replace(FORMS[not results.quick], FORMS[results.quick])
        readme = readme.replace(old, new)
    return readme


def renewed(part: str, numbers: Numbers, results: Results) -> str:
    title = TITLE.match(part)
    begin = title[0].removesuffix(EARLIER) if title else ""
    rest = part[len(title[0]) :] if title else part
    matches = matched(part, numbers)
    if absent := lacking(matches, results):
        if not title:
            raise Missing(
                f"README.md keeps its numbers: this run has no {', '.join(absent)}; nothing "
                "can say so there. Run what is missing, and `make papers PAPERS=--redraw`"
            )
        return begin + EARLIER + rest
    for phrase in numbers.phrases:
        match = phrase.pattern.search(rest)
        if match is None:
            continue
        for place in range(len(phrase.figures), 0, -1):
            first, last = match.span(place)
            measured = phrase.figures[place - 1].written(results.lines)
            rest = f"{rest[:first]}{measured}{rest[last:]}"
    return begin + rest


def parts(text: str) -> list[str]:
    """From each title in bold to the next, and what precedes them."""
    return re.split(r"(?m)^(?=\*\*)", text)


def matched(part: str, numbers: Numbers) -> list[tuple[Phrase, re.Match[str]]]:
    found = [(phrase, phrase.pattern.search(part)) for phrase in numbers.phrases]
    return [(phrase, match) for phrase, match in found if match]


def lacking(matches: list[tuple[Phrase, re.Match[str]]], results: Results) -> list[str]:
    """The figures of phrases that a run does not have."""
    figures = [figure for phrase, _ in matches for figure in phrase.figures]
    return [one.value.text for one in figures if one.written(results.lines) is None]


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
