"""Runs the benches and checks what they print: `make bench-smoke` and `make bench-full`.

A bench is a target of the Makefile that prints one JSON object a line, its summary last. Smoke
runs take seconds each and show that the benches still work; their figures mean nothing. With
`--reference` the figures of whole benches go to docs/measured.json, from which README has them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import measured
import nightly

ROOT = Path(__file__).resolve().parents[1]
SHAPE = "--items 8 --transactions 100000"


@dataclass(frozen=True)
class Bench:
    """The field `bench` of the summary, and options; None where a bench is too long for that."""

    summary: str
    smoke: str | None
    full: str | None = ""


BENCHES = {
    "bench-abuse": Bench("abuse", "--quick"),
    # Builds other allocators, in C++ some of them.
    "bench-alloc": Bench("programs", None, "--quick"),
    "bench-alloc-paper": Bench("alloc-paper", None, "--quick"),
    "bench-engine": Bench("engine", "8 100000 2 2"),
    "bench-genome": Bench("genome", "--quick --runs 1", "--quick"),
    "bench-growth": Bench("growth", "--quick"),
    "bench-mining": Bench("mining", "--repetitions 1"),
    # Builds another library.
    "bench-numa": Bench("numa model", None, "--quick"),
    "bench-python": Bench("python", f"{SHAPE} --runs 1"),
    # Installs Ray.
    "bench-ray": Bench("ray", None, "--quick"),
    # Builds another library, and what both need with other features.
    "bench-ring": Bench("ring", None),
    "bench-scrape": Bench("scrape", "--quick"),
    "bench-ssd": Bench("ssd", f"--quick --mode streaming --limit 120MB {SHAPE}", "--quick"),
    # Of bench-ssd, what differs in its budgets.
    "bench-ssd-budgets": Bench("ssd", None, "--quick"),
    # Boots machines.
    "bench-ssd-latency": Bench("ssd latency", None, "--quick"),
    "bench-support": Bench("support", f"{SHAPE} --runs 1 --fhe-blocks 2"),
    "bench-table6": Bench("table6", "--blocks 4"),
    "bench-tasks": Bench("tasks", "6 20"),
}


def run(target: str, options: str) -> tuple[str, str | None]:
    """Returns what a bench printed, and what is wrong with it."""
    # A make that another has started, as in `make nightly`, says where it is, silent or not.
    command = ["make", "--silent", "--no-print-directory", target, f"BENCH={options}"]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        return done.stdout, f"ended with status {done.returncode}"
    return done.stdout, problem(done.stdout, BENCHES[target].summary)


def problem(printed: str, summary: str) -> str | None:
    """What is wrong with the lines of a bench."""
    last = None
    for line in printed.splitlines():
        try:
            last = json.loads(line)
        except json.JSONDecodeError:
            return f"printed what is no JSON: {line!r}"
        if not isinstance(last, dict):
            return f"printed what is no object: {line!r}"
    if last is None or last.get("bench") != summary:
        return f"did not print the summary {summary!r} last, but {last}"
    if last.get("verified") is False:
        return "was wrong about a result"
    return None


def main() -> int:
    """Runs all benches, each to its end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extent", choices=["smoke", "full"])
    parser.add_argument("--reference", action="store_true", help="refresh docs/measured.json")
    given = parser.parse_args()
    extent = given.extent
    if given.reference and extent != "full":
        parser.error("--reference needs the benches in full: make bench-full")
    figures = measured.read()
    failures = 0
    for target, bench in BENCHES.items():
        options = getattr(bench, extent)
        if options is None:
            continue
        begun = time.monotonic()
        printed, wrong = run(target, options)
        took = f"{time.monotonic() - begun:.0f} s"
        print(f"{target} BENCH='{options}': {wrong or 'ended well'} ({took})", flush=True)
        failures += wrong is not None
        if given.reference and not wrong and not options:
            lines = [json.loads(line) for line in printed.splitlines()]
            today = datetime.now(timezone.utc).date().isoformat()
            ran = {target.removeprefix("bench-"): lines}
            measured.refresh(figures, ran, nightly.machine(), today)
    if given.reference:
        measured.write(figures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
