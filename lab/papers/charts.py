"""Drawings as SVG, in the page's own colours, so that they follow light, dark and print.

Each function returns one <svg> or a few side by side. Where a paper has figures, its drawing stands
to the left and ours to the right, each on a scale of its own: machines differ, shapes compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10

# The hues of page.css, in order; the last is for Oboro.
HUES = 7
OURS = "ours"
LEFT, TOP, BOTTOM, RIGHT = 52, 10, 38, 12


@dataclass(frozen=True)
class Curve:
    name: str
    points: Sequence[tuple[float, float]]
    ours: bool = False


@dataclass(frozen=True)
class Panel:
    """What is stacked, from below, and the ends of a phase to mark, or nothing."""

    name: str
    stack: Sequence[Curve]
    marked: Sequence[float]


@dataclass(frozen=True)
class Axis:
    """A scale from values to places."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (
            (log10(self.low), log10(self.high), log10(max(value, self.low)))
            if self.log
            else (self.low, self.high, value)
        )
        return self.begin + (at - low) / ((high - low) or 1) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        if self.log:
            exponents = range(ceil(log10(self.low) - 1e-9), floor(log10(self.high) + 1e-9) + 1)
            every = max(1, len(exponents) // 5)
            return [10.0**exponent for exponent in exponents[::every]]
        step = nice((self.high - self.low) / 4)
        first = ceil(self.low / step)
        return [
            step * (first + n) for n in range(int((self.high - first * step) / step + 1e-9) + 1)
        ]

    def label(self, tick: float) -> str:
        """Large powers as such, for which there is more room."""
        exponent = round(log10(tick)) if self.log else 0
        return f"10{raised(exponent)}" if abs(exponent) > 3 else short(tick)


def axis(values: Sequence[float], begin: float, end: float, log: bool, zero: bool) -> Axis:
    """One that holds all values; from nothing on if they are amounts on a linear scale."""
    if log:
        positive = [value for value in values if value > 0]
        low, high = min(positive), max(positive)
        return Axis(10 ** floor(log10(low)), 10 ** ceil(log10(high * 1.0001)), begin, end, True)
    low, high = min(values), max(values)
    return Axis(0 if zero else low, high or 1, begin, end)


def nice(step: float) -> float:
    """The next of 1, 2, 5, 10, …"""
    if step <= 0:
        return 1
    power = 10 ** floor(log10(step))
    return float(next(power * by for by in (1, 2, 5, 10) if power * by >= step * 0.999))


def lines(title: str, curves: Sequence[Curve], x: str, y: str, log: bool) -> str:
    """Curves over an axis; with `log` on both."""
    width, height = 420, 250
    across = [point[0] for curve in curves for point in curve.points]
    upwards = [point[1] for curve in curves for point in curve.points]
    if not across:
        return ""
    along = axis(across, LEFT, width - RIGHT, log, zero=False)
    up = axis(upwards, height - BOTTOM, TOP, log, zero=True)
    parts = [grid(along, up, width, height, x, y)]
    names, ours = [curve.name for curve in curves], {curve.name for curve in curves if curve.ours}
    for curve in curves:
        colour = hue(curve.name, names, ours)
        path = " ".join(f"{along(px):.1f},{up(py):.1f}" for px, py in curve.points)
        parts.append(f'<polyline class="line {colour}" points="{path}"/>')
        if len(curve.points) <= 12:
            parts += [
                f'<circle class="dot {colour}" cx="{along(px):.1f}" cy="{up(py):.1f}" r="3">'
                f"<title>{escape(curve.name)}: {short(py)}</title></circle>"
                for px, py in curve.points
            ]
    key = legend([(curve.name, hue(curve.name, names, ours)) for curve in curves])
    return figure(title, svg(width, height, "".join(parts), title), key)


def hue(name: str, names: Sequence[str], ours: set[str]) -> str:
    """The class of a colour: ours, with a second one for variants, or the next of the others."""
    if name in ours:
        return OURS if [one for one in names if one in ours].index(name) == 0 else f"{OURS} variant"
    return f"hue{[one for one in names if one not in ours].index(name) % HUES}"


def bars(
    title: str, groups: Sequence[tuple[str, Mapping[str, float]]], ours: set[str], log: bool
) -> str:
    """Horizontal bars, a group for each label; those of `ours` have our colour."""
    values = [value for _, group in groups for value in group.values() if value > 0 or not log]
    if not values:
        return ""
    names = list(dict.fromkeys(name for _, group in groups for name in group))
    bar, gap, label, width = 15, 12, 112, 420
    height = TOP + sum(len(group) * bar + gap + 14 for _, group in groups) + 8
    scale = axis(values, label, width - 62, log, zero=True)
    parts, y = [], float(TOP)
    for name, group in groups:
        parts.append(f'<text class="group" x="4" y="{y + 9:.0f}">{escape(name)}</text>')
        y += 14
        for key, value in group.items():
            colour = hue(key, names, ours)
            length = max(1.0, scale(value) - label) if value > 0 else 0
            parts.append(
                f'<text class="tick" x="{label - 6}" y="{y + 11:.0f}" text-anchor="end">'
                f"{escape(clipped(key, 19))}</text>"
                f'<rect class="bar {colour}" x="{label}" y="{y + 1:.1f}" width="{length:.1f}" '
                f'height="{bar - 3}" rx="1.5"><title>{escape(name)}, {escape(key)}: '
                f"{short(value)}</title></rect>"
                f'<text class="value" x="{label + length + 5:.1f}" y="{y + 11:.0f}">'
                f"{short(value)}</text>"
            )
            y += bar
        y += gap
    return figure(title, svg(width, height, "".join(parts), title), "")


def areas(title: str, panels: Sequence[Panel], x: str, mark: str) -> str:
    """Small panels, in which shares from 0 to 1 are stacked over time; `mark` names the phase that
    is marked."""
    if not panels:
        return ""
    width, height, left, foot = 200, 92, 6, 14
    drawn = []
    for panel in panels:
        times = [point[0] for point in panel.stack[0].points]
        along = Axis(0, max(times), left, width - 6)
        up = Axis(0, 1, height - foot, 16)
        below = [0.0] * len(times)
        parts = [f'<text class="group" x="{left}" y="10">{escape(panel.name)}</text>']
        for number, curve in enumerate(panel.stack):
            above = [low + share for low, (_, share) in zip(below, curve.points, strict=True)]
            edge = [
                [f"{along(t):.1f},{up(min(1, v)):.1f}" for t, v in zip(times, line, strict=True)]
                for line in (above, below)
            ]
            points = " ".join(edge[0] + edge[1][::-1])
            parts.append(f'<polygon class="area kind{number}" points="{points}"/>')
            below = above
        parts.append(
            f'<line class="grid" x1="{left}" x2="{width - 6}" y1="{up(0)}" y2="{up(0)}"/>'
            f'<text class="tick" x="{width - 6}" y="{height - 3}" text-anchor="end">'
            f"{short(max(times))} {escape(x)}</text>"
        )
        if panel.marked:
            begin, end = (along(time) for time in panel.marked)
            parts.append(
                f'<path class="mark" d="M{begin:.1f} {up(0) + 1}v3H{end:.1f}v-3"/>'
                f'<text class="tick" x="{begin:.1f}" y="{height - 1}">{escape(mark)}</text>'
            )
        drawn.append(svg(width, height + 2, "".join(parts), f"{title}: {panel.name}"))
    key = legend([(curve.name, f"kind{number}") for number, curve in enumerate(panels[0].stack)])
    return figure(title, f'<div class="small">{"".join(drawn)}</div>', key, "full")


def strip(paper: float, here: float, low: float, high: float) -> str:
    """A ratio here beside the paper's, on a logarithmic scale, with 1 and the band that reproduces
    it."""
    width, height = 210, 30
    reach = max(abs(log10(value)) for value in (paper, here, low, high, 1.15)) * 1.15
    scale = Axis(10**-reach, 10**reach, 6, width - 6, True)
    begin, end = scale(low), scale(high)
    return svg(
        width,
        height,
        f'<line class="axis" x1="6" x2="{width - 6}" y1="15" y2="15"/>'
        f'<rect class="band" x="{begin:.1f}" y="8" width="{end - begin:.1f}" height="14" rx="3"/>'
        f'<line class="one" x1="{scale(1):.1f}" x2="{scale(1):.1f}" y1="4" y2="26"/>'
        f'<path class="papers" d="M{scale(paper):.1f} 9l6 6l-6 6l-6 -6z">'
        f"<title>the paper: {short(paper)}</title></path>"
        f'<circle class="here" cx="{scale(here):.1f}" cy="15" r="5">'
        f"<title>here: {short(here)}</title></circle>",
        f"the paper {short(paper)}, here {short(here)}",
    )


def shares(parts: Sequence[tuple[str, int]]) -> str:
    """A bar of as many pieces as there are verdicts."""
    total = sum(count for _, count in parts) or 1
    width, height, x, drawn = 600, 22, 0.0, []
    for verdict, count in parts:
        if not count:
            continue
        length = width * count / total
        drawn.append(
            f'<rect class="fill {slug(verdict)}" x="{x:.1f}" width="{length - 1.5:.1f}" '
            f'height="{height}" rx="2"><title>{escape(verdict)}: {count}</title></rect>'
        )
        if length > 9 * len(str(count)):
            drawn.append(
                f'<text class="count" x="{x + length / 2:.1f}" y="15.5" text-anchor="middle">'
                f"{count}</text>"
            )
        x += length
    spoken = ", ".join(f"{verdict}: {count}" for verdict, count in parts if count)
    return svg(width, height, "".join(drawn), spoken, "shares")


def grid(along: Axis, up: Axis, width: int, height: int, x: str, y: str) -> str:
    parts = []
    for tick in up.ticks():
        place = up(tick)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{width - RIGHT}" y1="{place:.1f}" '
            f'y2="{place:.1f}"/><text class="tick" x="{LEFT - 5}" y="{place + 3.5:.1f}" '
            f'text-anchor="end">'
            f"{up.label(tick)}</text>"
        )
    for tick in along.ticks():
        place = along(tick)
        parts.append(
            f'<line class="grid" x1="{place:.1f}" x2="{place:.1f}" y1="{TOP}" '
            f'y2="{height - BOTTOM}"/><text class="tick" x="{place:.1f}" '
            f'y="{height - BOTTOM + 14}" text-anchor="middle">{along.label(tick)}</text>'
        )
    middle = (height - BOTTOM + TOP) / 2
    parts.append(
        f'<text class="label" x="{(LEFT + width - RIGHT) / 2}" y="{height - 6}" '
        f'text-anchor="middle">{escape(x)}</text><text class="label" text-anchor="middle" '
        f'transform="translate(11 {middle:.0f}) rotate(-90)">{escape(y)}</text>'
    )
    return "".join(parts)


def legend(names: Sequence[tuple[str, str]]) -> str:
    """Names with the classes of their colours."""
    keys = [
        f'<span class="key"><i class="{colour}"></i>{escape(name)}</span>' for name, colour in names
    ]
    return f'<p class="legend">{"".join(keys)}</p>'


def figure(title: str, drawing: str, key: str, kind: str = "half") -> str:
    caption = f"<figcaption>{escape(title)}</figcaption>" if title else ""
    return f'<figure class="{kind}">{caption}{drawing}{key}</figure>'


def svg(width: float, height: float, content: str, spoken: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return (
        f'<svg{named} viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(spoken)}">{content}</svg>'
    )


def short(value: float) -> str:
    """Three digits that matter, with commas."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    if magnitude >= 1e9 or magnitude < 1e-4:
        exponent = floor(log10(magnitude))
        mantissa = value / 10**exponent
        return ("" if abs(mantissa - 1) < 0.05 else f"{mantissa:.1f}·") + "10" + raised(exponent)
    if magnitude >= 1000:
        return f"{value:,.0f}"
    places = max(0, 2 - floor(log10(magnitude)))
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def raised(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))


def clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def slug(text: str) -> str:
    return text.replace(" ", "-")


def thinned(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most so many: of each run of neighbours the one with the highest value."""
    if len(points) <= most:
        return list(points)
    cuts = [len(points) * cut // most for cut in range(most + 1)]
    return [max(points[a:b], key=lambda point: point[1]) for a, b in pairwise(cuts)]
