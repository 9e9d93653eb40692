"""Writes README's measured table and docs/counting.svg from docs/measured.json.

`make papers PAPERS=--reference` and `make bench-full BENCH=--reference` refresh the figures of the
benches that they ran, in full, and call this. Figures of papers have no `field` and stay.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from math import floor, log10
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "measured.json"
CHART = ROOT / "docs" / "counting.svg"
README = ROOT / "README.md"
BEGIN, END = "<!-- measured: scripts/measured.py -->", "<!-- end of measured -->"

Figures = dict[str, dict[str, Any]]

# Rows of the table: what was measured, by Oboro, by others. A field is a figure and its digits.
ROWS = [
    (
        "Counting all 153 pairs of 18 items in 1,943,424 transactions, on ciphertext",
        "{pairs:2} s",
        "Microsoft SEAL {seal_pairs:2} s, scaled from {seal_percent:2} % of the data",
    ),
    ("Counting them in plaintext", "", "NumPy {numpy_pairs:2} s, mlxtend {mlxtend_pairs:2} s"),
    (
        "Encrypting these transactions, to disk",
        "{encrypt:2} s",
        "SEAL, in memory {seal_encrypt:2} s",
    ),
    ("Storing them", "{stored:3} MB", "{stored_over_bits:2} times the plaintext bits"),
    (
        "Mining `mushroom`, 8,124 × 112, support 20 %: {mushroom_itemsets:4} itemsets",
        "{mushroom:2} s",
        "Eclat in plaintext {mushroom_eclat:2} s",
    ),
    (
        "Mining `retail`, 88,162 × 70, support 1 %: {retail_itemsets:3} itemsets",
        "{retail:2} s",
        "Eclat in plaintext {retail_eclat:2} s",
    ),
    (
        "Python, `trust_server=True`: encrypting and mining pairs of 1,943,424 × 18 cells",
        "{python:2} s",
        "mlxtend in plaintext {mlxtend_least:2} to {mlxtend_most:2} s",
    ),
    (
        "Genome search: 2,752 haplotypes × 38 sites, at the server",
        "{genome:2} ms",
        "SEAL, on one core {seal_genome:2} ms",
    ),
]
# Dots of the chart: who counted, and the figure.
DOTS = [
    ("Oboro, 2 cores", "pairs"),
    ("Microsoft SEAL, 2 cores", "seal_pairs"),
    ("HElib+ and numalloc, 72 cores", "helib_numalloc"),
    ("HElib and FCMalloc, 72 cores", "helib_fcmalloc"),
]


class Rounded(float):
    """A number whose format is the count of its significant digits; whole numbers stay whole."""

    def __format__(self, digits: str) -> str:
        if not self:
            return "0"
        places = int(digits) - 1 - floor(log10(abs(self)))
        if round(abs(self), places) >= 10 ** (int(digits) - places):
            # One more digit before the point, such as 9.96.
            places -= 1
        if self.is_integer():
            places = min(places, 0)
        return f"{round(float(self), places):,.{max(0, places)}f}"


def read() -> Figures:
    figures: Figures = json.loads(FIGURES.read_text())
    return figures


def refresh(figures: Figures, ran: Mapping[str, Sequence[Any]], machine: str, date: str) -> None:
    """Replaces figures by those in the printed lines of `make bench-NAME`, by NAME."""
    from papers.expression import Expression

    for figure in figures.values():
        if "field" not in figure:
            continue
        value = Expression.parse(figure["field"]).value(ran)
        if value is not None:
            value = round(value) if value.is_integer() else float(f"{value:.4g}")
            figure.update(value=value, machine=machine, date=date)


def write(figures: Figures) -> None:
    """Writes the figures, the table and the chart."""
    lines = [f" {json.dumps(name)}: {json.dumps(figure)}" for name, figure in figures.items()]
    FIGURES.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    README.write_text(with_table(README.read_text(), figures))
    CHART.write_text(chart(figures))


def with_table(readme: str, figures: Figures) -> str:
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"error: README.md needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table(figures)}{END}{after}"


def table(figures: Figures) -> str:
    values = {name: Rounded(figure["value"]) for name, figure in figures.items()}
    ours = [figure for figure in figures.values() if "field" in figure]
    dates = sorted({figure["date"] for figure in ours})
    machines = "; ".join(sorted({figure["machine"] for figure in ours}))
    rows = ["| | Oboro | for comparison |", "| -- | --: | -- |"]
    rows += [f"| {' | '.join(cell.format(**values) for cell in row)} |" for row in ROWS]
    measured = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return "\n".join([*rows, "", f"Measured {measured} on: {machines}.", ""])


# Both have a contrast of at least 3.6 on white and on the dark pages of GitHub and of the site.
TEXT, ACCENT = "#6e7a87", "#d9650b"
WIDTH, LEFT, RIGHT, TOP, STEP = 760, 250, 690, 62, 34
# Seconds at the ends of the axis.
LEAST, MOST = 0.01, 100.0


def chart(figures: Figures) -> str:
    """Seconds for all pairs, on a logarithmic axis."""
    bottom = TOP + STEP * len(DOTS)
    parts = [text(16, 26, "Seconds to count all pairs on ciphertext", 17, "bold")]
    power = LEAST
    while power <= MOST:
        x = place(power)
        parts.append(f'<path d="M{x:.0f} {TOP - 14}V{bottom - 10}" stroke="{TEXT}" opacity=".35"/>')
        parts.append(text(x, bottom + 8, f"{power:g} s", 13, anchor="middle"))
        power *= 10
    for row, (label, name) in enumerate(DOTS):
        y, x = TOP + STEP * row, place(figures[name]["value"])
        colour, weight = (ACCENT, "bold") if row == 0 else (TEXT, "normal")
        parts.append(text(LEFT - 14, y + 5, label, 14, weight, "end", colour))
        parts.append(f'<path d="M{LEFT} {y}H{x:.1f}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="7" fill="{colour}"/>')
        value = f"{Rounded(figures[name]['value']):2} s"
        parts.append(text(x + 14, y + 5, value, 14, "bold", "start", colour))
    scaled = f"{Rounded(figures['seal_percent']['value']):2}"
    notes = [
        "153 pairs of 18 items in 1,943,424 transactions. Oboro and SEAL: one machine; SEAL's time",
        f"is scaled from {scaled} % of the data. HElib: two papers, not equal work (915 slots).",
    ]
    parts += [text(16, bottom + 40 + 18 * row, note, 13) for row, note in enumerate(notes)]
    spoken = ", ".join(f"{label} {Rounded(figures[name]['value']):2}" for label, name in DOTS)
    size = f'width="{WIDTH}" height="{bottom + 74}" viewBox="0 0 {WIDTH} {bottom + 74}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif">'
    title = f"<title>Seconds to count all pairs: {spoken}</title>"
    return "\n".join([head, title, *parts, "</svg>", ""])


def place(seconds: float) -> float:
    return LEFT + (RIGHT - LEFT) * log10(seconds / LEAST) / log10(MOST / LEAST)


def text(
    x: float,
    y: float,
    content: str,
    size: int,
    weight: str = "normal",
    anchor: str = "start",
    colour: str = TEXT,
) -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{content}</text>'


if __name__ == "__main__":
    write(read())
