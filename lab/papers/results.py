"""results.json: everything that a run of `make papers` knows, for the page and for others to read.

`measures` has every figure of the catalogue by its name with its single runs, which `oboro-lab
compare` puts beside another file's; `items` every verdict; `steps` what was run, with all lines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from papers import verdict
from papers.catalogue import FULL, FUTURE, Catalogue, Claim, Item
from papers.expression import Line
from papers.runner import PASSED, Outcome
from papers.steps import ENVIRONMENT
from papers.verdict import Verdict

FORMAT = 1


@dataclass(frozen=True)
class Judged:
    """A claim with its figure here."""

    claim: Claim
    here: Any
    verdict: Verdict


@dataclass
class Results:
    """What was run, where, and when."""

    date: str
    commit: str
    quick: bool
    environment: dict[str, Any]
    steps: dict[str, Outcome]

    @property
    def lines(self) -> dict[str, list[Line]]:
        """Of every step; the machine is one line of a step of its own."""
        lines = {name: outcome.lines for name, outcome in self.steps.items()}
        return {**lines, ENVIRONMENT: [self.environment]}

    @property
    def left_out(self) -> set[str]:
        """The steps that gave no lines, with a reason."""
        return {name for name, outcome in self.steps.items() if outcome.status != PASSED}

    @classmethod
    def read(cls, path: Path) -> Results:
        raw = json.loads(path.read_text())
        if raw.get("format") != FORMAT:
            raise ValueError(f"{path} has format {raw.get('format')}; this program reads {FORMAT}")
        steps = {name: Outcome(**outcome) for name, outcome in raw["steps"].items()}
        return cls(raw["date"], raw["commit"], raw["quick"], raw["environment"], steps)

    def lacks(self, item: Item) -> bool:
        """Whether this machine cannot decide an item."""
        has_it = item.nodes and len(self.environment["nodes"]) >= item.nodes
        return bool(item.needs) and not has_it

    def judged(self, item: Item) -> list[Judged]:
        """Its claims; none where the machine cannot decide them."""
        return [] if self.lacks(item) else [self._judged(claim) for claim in item.claims]

    def verdict(self, item: Item) -> Verdict:
        """Said by hand, or that of its claims, or of its tests; nothing that a paper left for later
        is there to be reproduced."""
        if item.described:
            return Verdict.DESCRIBED
        if self.lacks(item):
            return Verdict.HARDWARE
        if item.differs:
            return Verdict.DIFFERENT
        if not item.claims:
            return Verdict.BUILT
        found = verdict.worst([judged.verdict for judged in self.judged(item)])
        is_left = item.kind == FUTURE and found in (Verdict.REPRODUCED, Verdict.HOLDS)
        return Verdict.BUILT if is_left else found

    def _judged(self, claim: Claim) -> Judged:
        lines = self.lines
        if claim.when == FULL and self.quick:
            # A part of the work may not show what all of it does.
            return Judged(claim, None, Verdict.OPEN)
        if claim.equals is not None:
            here = claim.value.fact(lines)
            if here is None:
                return Judged(claim, None, Verdict.OPEN)
            return Judged(claim, here, verdict.of_fact(here == claim.equals, not claim.states))
        value = claim.value.value(lines)
        if value is None:
            return Judged(claim, None, Verdict.OPEN)
        if claim.at_least is not None or claim.at_most is not None:
            low = claim.at_least if claim.at_least is not None else value
            high = claim.at_most if claim.at_most is not None else value
            return Judged(claim, value, verdict.of_fact(low <= value <= high, not claim.states))
        assert claim.paper is not None
        runs = claim.value.extremes(lines)
        return Judged(claim, value, verdict.of_ratio(claim.paper, value, runs))

    def measures(self, catalogue: Catalogue) -> dict[str, dict[str, Any]]:
        """Every figure of every row by item, row and name, with its single runs."""
        lines = self.lines
        found: dict[str, dict[str, Any]] = {}
        for item in catalogue.items:
            for row in (row for row in item.rows if not row.text):
                for name, expression in row.here.items():
                    value = expression.value(lines)
                    if value is None:
                        continue
                    found[f"{item.id}: {row.label}: {name}"] = {
                        "value": value * row.scale,
                        "unit": row.unit,
                        "better": row.better,
                        "runs": [run * row.scale for run in expression.runs(lines)],
                    }
        return found

    def write(self, path: Path, catalogue: Catalogue) -> None:
        """Whole or not at all; a line of the file for each line of a step."""
        whole = {
            "format": FORMAT,
            "date": self.date,
            "commit": self.commit,
            "quick": self.quick,
            "environment": self.environment,
            "items": {
                item.id: {
                    "paper": item.paper,
                    "at": item.at,
                    "title": item.title,
                    "verdict": self.verdict(item).value,
                    "claims": [
                        {
                            "says": judged.claim.says,
                            "paper": judged.claim.paper,
                            "here": judged.here,
                            "verdict": judged.verdict.value,
                        }
                        for judged in self.judged(item)
                    ],
                }
                for item in catalogue.items
            },
            "measures": self.measures(catalogue),
            "steps": {name: vars(outcome) for name, outcome in self.steps.items()},
        }
        partial = path.with_suffix(".partial")
        partial.write_text(pretty(whole) + "\n")
        partial.replace(path)


def pretty(value: Any, depth: int = 0) -> str:
    """JSON whose outer objects are broken into lines, so that versions can be compared."""
    if depth >= 3 or not isinstance(value, dict | list) or not value:
        return json.dumps(value)
    indent = " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {pretty(part, depth + 1)}" for key, part in value.items()]
        return "{\n" + ",\n".join(indent + part for part in parts) + "\n" + " " * depth + "}"
    parts = [pretty(part, depth + 1) for part in value]
    return "[\n" + ",\n".join(indent + part for part in parts) + "\n" + " " * depth + "]"
