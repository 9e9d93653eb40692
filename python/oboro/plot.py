"""Plots of itemsets, of rules, and of the cost of counting; they need `pip install 'oboro[plot]'`.

Every function draws on the given Axes, or on new ones, and returns them. Colours are those of
Okabe and Ito, or range from dark to light, and are safe for colour-blind readers.

>>> from oboro import plot
>>> figure = plot.supports(itemsets).figure  # doctest: +SKIP
>>> figure.savefig("supports.svg")  # doctest: +SKIP
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from oboro import _oboro
from oboro.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["io", "levels", "placement", "rules", "supports"]

Line = Mapping[str, Any]

_BLUE, _ORANGE, _GREEN = "#0072B2", "#E69F00", "#009E73"
_CURVES = [_BLUE, _ORANGE, _GREEN, "#CC79A7", "#56B4E9", "#D55E00", "#000000"]
_STYLES = ["-", "--", ":", "-."]
_MIB = 1 << 20


def supports(itemsets: pd.DataFrame, top: int = 20, *, ax: Axes | None = None) -> Axes:
    """Draw the largest supports as bars, the largest at the top.

    Args:
        itemsets: The columns `support` and `itemsets`, as `apriori` returns them.
        top: The maximum number of bars; the title has the number of itemsets.
        ax: The Axes to draw on.

    Raises:
        InputError: a column is missing.
        MissingExtraError: matplotlib is not installed.
    """
    _need(itemsets, "support", "itemsets")
    ax = _axes(ax)
    shown = itemsets.sort_values("support", ascending=False, kind="stable").head(top)
    places = np.arange(len(shown))
    ax.barh(places, shown["support"], color=_BLUE)
    ax.set_yticks(places, [_words(itemset) for itemset in shown["itemsets"]])
    ax.invert_yaxis()
    ax.set_xlabel(_label("support"))
    is_part = len(shown) < len(itemsets)
    some = f"the {len(shown)} most frequent of " if is_part else ""
    ax.set_title(f"{some}{_counted(len(itemsets), 'itemset')} by support")
    return ax


def rules(
    rules: pd.DataFrame,
    x: str = "support",
    y: str = "confidence",
    color: str = "lift",
    *,
    labels: int = 5,
    ax: Axes | None = None,
) -> Axes:
    """Draw rules as points, one metric over another; a third one sets the brightness.

    The rules with the largest values of the third metric are numbered, and written out below.

    Args:
        rules: The columns to draw, as `association_rules` returns them.
        x: The metric of the horizontal axis, one of `oboro.frequent_patterns.METRICS`.
        y: The metric of the vertical axis.
        color: The metric that sets the color.
        labels: The number of rules to write out, if the frame has `antecedents` and `consequents`.
        ax: The Axes to draw on; a color scale is added next to them.

    Raises:
        InputError: a column is missing.
        MissingExtraError: matplotlib is not installed.
    """
    _need(rules, x, y, color)
    ax = _axes(ax)
    across, up, light = (rules[metric].astype(float) for metric in (x, y, color))
    points = ax.scatter(across, up, c=light, cmap="cividis", s=24)
    ax.figure.colorbar(points, ax=ax, label=_label(color))
    ax.set_xlabel(_label(x))
    ax.set_ylabel(_label(y))
    ax.set_title(f"{_counted(len(rules), 'rule')} by {x} and {y}")
    if labels > 0 and {"antecedents", "consequents"} <= set(rules.columns):
        best = light.reset_index(drop=True).sort_values(ascending=False, kind="stable")
        _write_out(rules.iloc[best.index[:labels].to_list()], x, y, ax)
    return ax


def _write_out(rules: pd.DataFrame, x: str, y: str, ax: Axes) -> None:
    """Number the points of these rules, and write the rules below the plot."""
    from matplotlib.lines import Line2D

    numbers: dict[tuple[float, float], list[str]] = defaultdict(list)
    lines = []
    for number, (_, rule) in enumerate(rules.iterrows(), 1):
        numbers[float(rule[x]), float(rule[y])].append(str(number))
        words = f"{_words(rule['antecedents'])} => {_words(rule['consequents'])}"
        lines.append(Line2D([], [], linestyle="none", label=f"{number}  {words}"))
    for point, at_it in numbers.items():
        ax.annotate(", ".join(at_it), point, xytext=(4, 4), textcoords="offset points")
    if lines:
        ax.legend(
            handles=lines,
            loc="upper left",
            bbox_to_anchor=(0, -0.15),
            frameon=False,
            handlelength=0,
            handletextpad=0,
        )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _label(metric: str) -> str:
    return "support (share of transactions)" if metric == "support" else metric


def levels(itemsets: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the cost of each length of itemsets: seconds, and on the right axis MiB received.

    Args:
        itemsets: The result of `Dataset.apriori` or `oboro.apriori`.
        ax: The Axes to draw on; their twin has the bytes.

    Raises:
        InputError: the frame does not record its cost.
        MissingExtraError: matplotlib is not installed.
    """
    try:
        spent = itemsets.attrs["oboro"]["levels"]
    except KeyError:
        raise InputError(
            "this frame does not say what its levels took; give the one that Dataset.apriori "
            "returned, since some operations of pandas lose `attrs`"
        ) from None
    ax = _axes(ax)
    lengths = np.array([level["level"] for level in spent])
    ax.bar(lengths - 0.2, [level["seconds"] for level in spent], 0.4, color=_BLUE)
    ax.set_xticks(lengths)
    ax.set_xlabel("length of itemsets")
    ax.set_ylabel("seconds", color=_BLUE)
    received = ax.twinx()
    mebibytes = [level["received_bytes"] / _MIB for level in spent]
    received.bar(lengths + 0.2, mebibytes, 0.4, color=_ORANGE, hatch="//")
    received.set_ylabel("MiB received", color=_ORANGE)
    ax.set_title("time and bytes by length of itemsets")
    return ax


def placement(lines: str | Iterable[str | Line], *, ax: Axes | None = None) -> Axes:
    """Draw the memory stored, or read, on its assigned node and on other nodes.

    Args:
        lines: The output of `oboro-lab numa --json`: bytes read, one bar per placement policy. Or
            that of `oboro --json inspect --placement`: pages, one bar per node.
        ax: The Axes to draw on.

    Raises:
        InputError: the lines have neither.
        MissingExtraError: matplotlib is not installed.
    """
    values = _values(lines)
    traffic = [line for line in values if line.get("bench") == "numa traffic"]
    nodes = [node for line in values if line.get("kind") == "placement" for node in line["nodes"]]
    if traffic:
        names = [line["placement"] for line in traffic]
        whole = np.array([np.sum(line["traffic"]) for line in traffic]) / _MIB
        home = np.array([np.trace(line["traffic"]) for line in traffic]) / _MIB
        across, upwards = "placement", "MiB read"
    elif nodes:
        names = [str(node["node"]) for node in nodes]
        whole = np.array([node["pages"] for node in nodes])
        home = np.array([node["intended_pages"] for node in nodes])
        across, upwards = "memory node", "pages"
    else:
        raise InputError(
            "there are no figures of placement in these lines; give those of "
            "`oboro-lab numa --json` or `oboro --json inspect --placement NAME`"
        )
    ax = _axes(ax)
    ax.bar(names, home, color=_BLUE, label="at home")
    ax.bar(names, whole - home, bottom=home, color=_ORANGE, hatch="//", label="elsewhere")
    ax.set_xlabel(across)
    ax.set_ylabel(upwards)
    ax.set_title(f"{upwards} at home and elsewhere, by {across}")
    ax.legend()
    return ax


def io(
    lines: str | Iterable[str | Line],
    what: Literal["queue", "memory"] = "queue",
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw a server's disk or memory over time, one curve per setting.

    Args:
        lines: The output of `oboro-lab ssd --json`.
        what: The length of the disk's queue, or the server's memory.
        ax: The Axes to draw on.

    Raises:
        InputError: no samples in the lines.
        MissingExtraError: matplotlib is not installed.
    """
    if what not in ("queue", "memory"):
        raise InputError(f"{what!r} cannot be drawn; choose 'queue' or 'memory'")
    curves: dict[str, list[Line]] = defaultdict(list)
    for line in _values(lines):
        if line.get("bench") == "ssd sample":
            curves[_setting(line)].append(line)
    if not curves:
        raise InputError(
            "there are no samples in these lines; give those of `oboro-lab ssd --json`"
        )
    ax = _axes(ax)
    for number, (name, samples) in enumerate(curves.items()):
        seconds = [sample["seconds"] for sample in samples]
        color, style = _CURVES[number % len(_CURVES)], _STYLES[number % len(_STYLES)]
        ax.plot(seconds, _sampled(samples, what), color=color, linestyle=style, label=name)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("seconds")
    ax.set_ylabel(
        "average I/O queue length (aqu-sz)" if what == "queue" else "resident memory in MiB"
    )
    ax.set_title(
        "the disk's queue over time" if what == "queue" else "the server's memory over time"
    )
    ax.legend()
    return ax


def _sampled(samples: list[Line], what: str) -> list[float]:
    """Return the sampled values, NaN for samples without disk data."""
    if what == "memory":
        return [sample["resident_bytes"] / _MIB for sample in samples]
    lengths = [sample["queue_length"] for sample in samples]
    return [np.nan if length is None else length for length in lengths]


def _setting(sample: Line) -> str:
    """Return the label of a curve: mode, device and memory limit, if present."""
    parts = [sample["mode"]]
    if sample.get("device"):
        parts.append(sample["device"])
    if "device_reads_per_second" in sample:
        parts.append(f"emulated: {sample['device_reads_per_second'] / 1e6:.0f} MB/s")
    if "page_cluster" in sample:
        parts.append(f"page-cluster {sample['page_cluster']}")
    if "limit_bytes" in sample:
        parts.append(f"limit {sample['limit_bytes'] / _MIB:.0f} MiB")
    return ", ".join(parts)


def _values(lines: str | Iterable[str | Line]) -> list[Line]:
    """Parse lines as JSON objects, unless they already are."""
    if isinstance(lines, str):
        lines = lines.splitlines()
    try:
        values = [json.loads(line) if isinstance(line, str) else line for line in lines]
    except json.JSONDecodeError as error:
        raise InputError(
            f"a line is not JSON ({error}); give what oboro prints with --json"
        ) from error
    return [value for value in values if isinstance(value, Mapping)]


def _words(itemset: Iterable[object]) -> str:
    # Matplotlib parses text between dollar signs as mathematics.
    return _oboro.itemset(sorted(map(str, itemset))).replace("$", r"\$")


def _need(frame: pd.DataFrame, *columns: str) -> None:
    for column in columns:
        if column not in frame.columns:
            raise InputError(f"the frame has no column {column!r}; give what oboro returned")


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError(
            "plots need matplotlib, which is not installed; pip install 'oboro[plot]'"
        ) from error
    return pyplot.subplots(layout="constrained")[1]
