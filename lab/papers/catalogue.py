"""lab/papers.toml: the papers, and every item of them with what shows it.

`load` refuses what is written wrongly, with the item's name: two items of one id, an item that
neither shows anything nor says why not, or one without a verdict. Whether figures exist is the
business of `problems`, which holds the catalogue against the results of a run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import tomllib

from papers import steps
from papers.expression import Expression, Line, Lines, Reference, Unwritable, at

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "lab" / "papers.toml"
FUTURE = "future work"
KINDS = ("component", "experiment", "table", "figure", "finding", FUTURE)
# When figures are there, if not always: in full runs; where data, QEMU, counters of events or HElib
# are.
FULL = "full"
WHENS = ("", FULL, "with data", "with QEMU", "with performance counters", "with HElib")
# Keys by which a step's lines tell what there was.
WHERE_THERE = ("bench", "data", "device", "library", "limit_bytes", "length")
BADGES = ("same work", "same machine", "same security")
ID = re.compile(r"[a-z0-9-]+")
T = TypeVar("T")


class Wrong(ValueError):
    """A mistake in the catalogue: where, and how to mend it."""


@dataclass(frozen=True)
class Paper:
    id: str
    short: str
    title: str
    authors: str
    venue: str
    abstract: str


@dataclass(frozen=True)
class Row:
    """One line of an item's table. `paper` has what the paper reports, by name where it compares
    several; `peers` and `oboro` name figures here. `scale` brings figures to `unit`."""

    label: str
    unit: str = ""
    paper: Mapping[str, float | str] = field(default_factory=dict)
    peers: Mapping[str, Expression] = field(default_factory=dict)
    oboro: Mapping[str, Expression] = field(default_factory=dict)
    scale: float = 1.0
    # What is better: "less", "more", or neither, "".
    better: str = "less"
    # The place on the horizontal axis of a chart of lines.
    x: float | None = None
    # Whether its figures are words.
    text: bool = False
    # In which runs it is there, if not in all: one of WHENS.
    when: str = ""

    @property
    def here(self) -> dict[str, Expression]:
        return {**self.peers, **self.oboro}


@dataclass(frozen=True)
class Claim:
    """What the paper says, and the same here: a ratio beside `paper`'s, or a figure that must be
    `at_least`, `at_most` or `equals` a bound: the paper's own if `states` says so in its words, or
    one of ours."""

    says: str
    value: Expression
    paper: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    equals: Any = None
    # The words, or the cell, with which the paper states that bound.
    states: str = ""
    when: str = ""


@dataclass(frozen=True)
class Chart:
    """How an item's figures are drawn: `bars` and `lines` of its rows; a `series` of a step's
    lines, a curve for each combination of the fields `by`; `areas`, a small panel for each; or a
    `drawing`, the SVG file `of`."""

    kind: str
    title: str = ""
    x: str = ""
    y: str = ""
    log: bool = False
    of: str = ""
    at_x: str = ""
    at_y: str = ""
    scale_y: float = 1.0
    by: tuple[str, ...] = ()
    # Names, or parts of a curve's name, of what has Oboro's colour; in a paper, its proposal.
    ours: tuple[str, ...] = ()
    # Of `areas`: what is stacked, from below, by name.
    stack: Mapping[str, str] = field(default_factory=dict)
    # Fields of [begin, end]: a pause that is taken out of time, and a phase to mark, with its name.
    cut: str = ""
    mark: str = ""
    mark_name: str = ""
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Item:
    id: str
    paper: str
    kind: str
    at: str
    title: str
    found: str
    # What Oboro has in its place.
    here: str = ""
    rows: tuple[Row, ...] = ()
    claims: tuple[Claim, ...] = ()
    charts: tuple[Chart, ...] = ()
    badges: tuple[str, ...] = ()
    # Files, and tests as FILE::NAME, that hold a component.
    code: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    # What runs the tests where `make test` leaves them out.
    command: str = ""
    # The step to run alone, where no row names one.
    step: str = ""
    # Why there are no rows.
    reason: str = ""
    # The verdicts that are said by hand, with why.
    needs: str = ""
    differs: str = ""
    # Whether it is a description, of a machine that a run's own stands beside.
    described: bool = False
    # With so many memory nodes a machine has what is needed, and claims are judged.
    nodes: int = 0

    @property
    def place(self) -> str:
        """Where it is in the paper, as a heading begins."""
        numbered = self.at.startswith(("Table", "Figure", "Algorithm"))
        return self.at if numbered else f"{self.kind}{' § ' + self.at if self.at else ''}"

    @property
    def expressions(self) -> Iterator[tuple[Expression, str]]:
        """All figures, and in which runs they are there."""
        for row in self.rows:
            yield from ((expression, row.when) for expression in row.here.values())
        yield from ((claim.value, claim.when) for claim in self.claims)

    @property
    def steps(self) -> list[str]:
        """The steps that measure it, its own first."""
        named = [step for expression, _ in self.expressions for step in expression.steps]
        named += [chart.of.partition("[")[0] for chart in self.charts if "[" in chart.of]
        return list(dict.fromkeys([*([self.step] if self.step else []), *named]))


@dataclass(frozen=True)
class Catalogue:
    papers: tuple[Paper, ...]
    items: tuple[Item, ...]

    def of(self, paper: Paper) -> list[Item]:
        return [item for item in self.items if item.paper == paper.id]


def load(path: Path = CATALOGUE) -> Catalogue:
    """The catalogue, or `Wrong`."""
    text = tomllib.loads(path.read_text())
    papers = tuple(Paper(**paper) for paper in text["paper"])
    items = tuple(item(raw) for raw in text["item"])
    twice = [name for name, count in Counter(one.id for one in items).items() if count > 1]
    if twice:
        raise Wrong(f"two items are called {', '.join(twice)}: give each an id of its own")
    known = {paper.id for paper in papers}
    for one in items:
        if one.paper not in known:
            raise Wrong(f"{one.id}: there is no paper {one.paper!r}")
        wrong = mistakes(one)
        if wrong:
            raise Wrong(f"{one.id}: {wrong}")
    return Catalogue(papers, items)


def item(raw: dict[str, Any]) -> Item:
    """One item; the tables within it become rows, claims and charts."""
    name = raw.get("id", f"the item {raw.get('title')!r}")
    try:
        return made(
            Item,
            raw
            | {
                "rows": tuple(row(one) for one in raw.get("rows", ())),
                "claims": tuple(claim(one) for one in raw.get("claims", ())),
                "charts": tuple(made(Chart, one) for one in raw.get("charts", ())),
            },
        )
    except (TypeError, Unwritable) as error:
        raise Wrong(f"{name}: {error}") from None


def row(raw: dict[str, Any]) -> Row:
    """One row. Where `of` is a figure with `{}` for a name, peers and Oboro are lists of names."""
    paper = raw.get("paper", {})
    of = raw.get("of", "")
    return made(
        Row,
        {key: value for key, value in raw.items() if key != "of"}
        | {
            "paper": paper if isinstance(paper, dict) else {"": paper},
            "peers": expressions(raw.get("peers", {}), of),
            "oboro": expressions(raw.get("oboro", {}), of),
        },
    )


def claim(raw: dict[str, Any]) -> Claim:
    return made(Claim, raw | {"value": Expression.parse(raw["value"])})


def expressions(raw: str | list[str] | dict[str, str], of: str) -> dict[str, Expression]:
    if isinstance(raw, list):
        raw = {name: of.replace("{}", name) for name in raw}
    named = {"Oboro": raw} if isinstance(raw, str) else raw
    return {name: Expression.parse(text) for name, text in named.items()}


def made(kind: type[T], raw: dict[str, Any]) -> T:
    """An instance, lists in it as tuples; a key that it does not know is named."""
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    unknown = raw.keys() - known
    if unknown:
        raise TypeError(f"{kind.__name__} knows no {', '.join(sorted(unknown))}")
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()})


def mistakes(one: Item) -> str | None:
    """What is wrong with an item by itself."""
    shown = bool(one.rows or one.claims or one.charts or one.tests or one.differs)
    known = {*steps.STEPS, steps.ENVIRONMENT}
    for wrong, what in [
        (not ID.fullmatch(one.id), "an id has small letters, digits and hyphens"),
        (one.kind not in KINDS, f"a kind is one of {', '.join(KINDS)}"),
        (set(one.badges) - set(BADGES), f"badges are {', '.join(BADGES)}"),
        (
            {when for _, when in one.expressions} - set(WHENS),
            f"when is one of {', '.join(filter(None, WHENS))}, or absent",
        ),
        (not shown and not one.reason, "has neither rows nor a reason; show it or say why not"),
        (
            not (one.claims or one.tests or one.needs or one.differs or one.described),
            "has no verdict: give it claims, tests, or what it needs or how it differs",
        ),
        (one.needs and one.differs, "has two verdicts said by hand"),
        (set(one.steps) - known, f"names steps that do not exist: {', '.join(one.steps)}"),
    ]:
        if wrong:
            return what
    return None


def due(reference: Reference, when: str, lines: Lines, quick: bool) -> bool:
    """Whether a run of that kind, with those lines, must have a figure."""
    if when in ("", FULL):
        return when == "" or not quick
    where = tuple((k, v) for k, v in reference.where if k in WHERE_THERE)
    alike = Reference(reference.step, where, "")
    matching = filter(alike.matches, lines.get(reference.step, ()))
    return any(not is_null(line, reference.field) for line in matching)


def is_null(line: Line, path: str) -> bool:
    """Whether a line says that it has no such figure."""
    head, _, key = path.rpartition(".")
    value = at(line, head)
    return isinstance(value, dict) and key in value and value[key] is None


def problems(catalogue: Catalogue, lines: Lines, left_out: set[str], quick: bool) -> list[str]:
    """Figures and tests that the catalogue names and that are not there. Of steps that did not run
    on that machine nothing is known. Figures that only full runs or other machines have must be
    there where the step has lines of the same bench, data and device that do not say null."""
    found = []
    for one in catalogue.items:
        for expression, when in one.expressions:
            for reference in expression.references:
                must = due(reference, when, lines, quick)
                known = must and reference.step not in left_out
                if known and not reference.found(lines):
                    found.append(f"{one.id}: no line of {reference.step} has {expression.text}")
        for test in one.tests:
            path, _, name = test.partition("::")
            text = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
            if not text or name not in text:
                found.append(f"{one.id}: there is no test {test}")
        target = one.command.removeprefix("make ")
        makefiles = (ROOT / "Makefile", ROOT / "lab" / "lab.mk", ROOT / "scripts" / "nightly.mk")
        if target and not any(f"\n{target}:" in it.read_text() for it in makefiles):
            found.append(f"{one.id}: there is no target {target}")
        files = (*one.code, *(chart.of for chart in one.charts if chart.kind == "drawing"))
        found += [f"{one.id}: there is no {path}" for path in files if not (ROOT / path).exists()]
    return found
