"""`make papers`: runs what is needed, and writes page and results.

Prints the paths of what it wrote. The status is 1 if a step failed: the page is there all the same,
and says why.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import measured
from papers import environment
from papers.catalogue import ROOT, Catalogue, load
from papers.page import page
from papers.results import Results
from papers.runner import FAILED, NOT_RUN, Outcome, Runner, commit
from papers.steps import STEPS

REFERENCE = ROOT / "docs" / "papers"
NOT_ASKED_FOR = "not asked for in this run"
PAGE, RESULTS = "papers.html", "results.json"


def main() -> int:
    given = options()
    # Ended like that, it ends the step's processes, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    catalogue = load()
    if given.redraw:
        save(REFERENCE, catalogue, Results.read(REFERENCE / RESULTS))
        return 0
    machine = environment.identity(described(given, with_disks=False))
    runner = Runner(ROOT, given.keep, machine, given.quick, settings())
    if given.list:
        for name, step in STEPS.items():
            known = runner.known(name, step, "")
            print(f"{name:12} {known.status:8} {known.command or known.reason}")
        return 0
    outcomes: dict[str, Outcome] = {}
    for name, step in STEPS.items():
        if given.page_only or (given.only and name not in given.only) or name in given.skip:
            outcomes[name] = runner.known(name, step, NOT_ASKED_FOR)
        else:
            outcomes[name] = runner.run(name, step, given.repeat, given.again)
    results = Results(
        datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M"),
        commit(ROOT),
        given.quick,
        described(given, with_disks=not given.page_only),
        outcomes,
    )
    if given.reference:
        keep_others(results, Results.read(REFERENCE / RESULTS))
    save(REFERENCE if given.reference else given.keep, catalogue, results)
    failed = [name for name, outcome in outcomes.items() if outcome.status == FAILED]
    for name in failed:
        print(f"{name} failed: {outcomes[name].reason}", file=sys.stderr)
    return 1 if failed else 0


def described(given: argparse.Namespace, with_disks: bool) -> dict[str, Any]:
    peers_of = ROOT / ".venv-bench" / "bin" / "python"
    return environment.describe(ROOT, given.lab, peers_of, with_disks)


def keep_others(results: Results, before: Results) -> None:
    """Steps that did not run now stay as they were, if it was on such a machine."""
    machines = {environment.identity(each.environment) for each in (results, before)}
    if before.quick == results.quick and len(machines) == 1:
        for name, outcome in results.steps.items():
            if outcome.status == NOT_RUN and name in before.steps:
                results.steps[name] = before.steps[name]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make papers", description=__doc__)
    flag = "store_true"
    parser.add_argument("--quick", action=flag, help="a part of all, in a quarter of an hour")
    for option, what in (("--only", "run no other step"), ("--skip", "leave out this step")):
        parser.add_argument(
            option, action="append", default=[], metavar="STEP", choices=STEPS, help=what
        )
    parser.add_argument("--again", action=flag, help="also run what was run already")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run each step N times")
    parser.add_argument("--page-only", action=flag, help="run nothing")
    parser.add_argument("--list", action=flag, help="show the steps, and run nothing")
    parser.add_argument(
        "--reference", action=flag, help="write to docs/papers, and README's figures"
    )
    parser.add_argument(
        "--redraw", action=flag, help="write these anew from docs/papers/results.json"
    )
    parser.add_argument("--keep", type=Path, default=ROOT / "target" / "papers")
    parser.add_argument("--lab", type=Path, default=ROOT / "target" / "release" / "oboro-lab")
    return parser.parse_args()


def save(place: Path, catalogue: Catalogue, results: Results) -> None:
    """Writes page and results; README's figures are those of a full reference run."""
    place.mkdir(parents=True, exist_ok=True)
    results.write(place / RESULTS, catalogue)
    (place / PAGE).write_text(page(catalogue, results))
    for name in (RESULTS, PAGE):
        print(place / name)
    if place == REFERENCE and not results.quick:
        figures = measured.read()
        for name, outcome in results.steps.items():
            machine = environment.short(results.environment)
            measured.refresh(figures, {name: outcome.lines}, machine, outcome.date[:10])
        measured.write(figures)


def settings() -> str:
    """The variables that make was given, such as HELIB=PREFIX, but for those that measure nothing:
    make hands them on to each step in its own words."""
    _, _, variables = os.environ.get("MAKEFLAGS", "").partition("-- ")
    ours = ("PAPERS=", "PYTHON=", "CARGO_TARGET_DIR=")
    return " ".join(shlex.quote(one) for one in shlex.split(variables) if not one.startswith(ours))


if __name__ == "__main__":
    sys.exit(main())
