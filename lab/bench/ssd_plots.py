"""Plots the measurements of `oboro-lab ssd --json` or ssd_machine.py, in the form of the papers.

Copies lines from standard input, the summary last; with --price those of ssd_costs.py come before
it. Writes, as SVG and PNG:

    queue-*.svg     the length of the disk's queue over time, a curve for each device and mode:
                    Figures 4 to 6 of the paper on secure mining, one for each limit of memory
    resident-*.svg  the server's memory over time, with the limit
    time.svg        the time of a pass over the limit, with a cross for servers that had too little
    length-*.svg    the time of a search over the length of its pattern, a curve for each device and
                    mode, one for each limit (--workload genome): Figures 2 and 3 of the paper on
                    genome search
    budget.svg      the time of a pass and what it reads, streamed, over the share of the needed
                    memory that the server is given

    oboro-lab ssd --json | .venv-bench/bin/python lab/bench/ssd_plots.py --out DIR
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib
from ssd_costs import costs, price

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Line = dict[str, Any]
MIB = 1 << 20


def name(line: Line) -> str:
    """The label of a curve."""
    if line["mode"] == "memory":
        return "all in memory"
    parts = [line["mode"], line["device"]]
    if "device_reads_per_second" in line:
        parts.append(f"emulated: {line['device_reads_per_second'] / 1e6:.0f} MB/s")
    if "page_cluster" in line:
        parts.append(f"page-cluster {line['page_cluster']}")
    return ", ".join(parts)


def gigabytes(count: float) -> str:
    """As the papers write limits."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def copied_lines(prices: dict[str, float]) -> list[Line]:
    """The JSON values of standard input, also copied to the output; costs come before the last."""
    values: list[Line] = []
    held = ""
    for line in sys.stdin:
        print(held, end="", flush=True)
        held = line
        values.append(json.loads(line))
    if values and prices:
        summary = values[-1]
        needed, stored = summary["needed_bytes"], summary["stored_bytes"]
        for cost in costs(points_of(values), needed, stored, prices):
            print(json.dumps(cost), flush=True)
    print(held, end="", flush=True)
    return values


def points_of(values: list[Line]) -> list[Line]:
    """The lines of whole settings."""
    return [line for line in values if line["bench"] in ("ssd mode", "ssd point")]


def save(figure: Any, directory: Path, stem: str) -> None:
    """In both formats, with the curves' names below."""
    figure.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, fontsize="small")
    for kind in ("svg", "png"):
        figure.savefig(directory / f"{stem}.{kind}", bbox_inches="tight", dpi=150)
    plt.close(figure)


def by_curve(lines: list[Line]) -> dict[str, list[Line]]:
    """The lines of each curve, in the order of their first ones."""
    curves: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        curves[name(line)].append(line)
    return curves


def axes(title: str, across: str, upwards: str) -> tuple[Any, Any]:
    """A figure with one drawing."""
    figure, drawing = plt.subplots(figsize=(8, 4))
    drawing.set_title(title)
    drawing.set_xlabel(across)
    drawing.set_ylabel(upwards)
    drawing.grid(alpha=0.3)
    return figure, drawing


def limits_of(lines: list[Line]) -> list[int]:
    """All limits of memory."""
    return sorted({line["limit_bytes"] for line in lines if "limit_bytes" in line})


def over_time(modes: list[Line], samples: list[Line], directory: Path) -> None:
    """The queue, and resident memory, for each limit."""
    for limit in limits_of(modes):
        label = gigabytes(limit)
        figure, queue = axes(f"Memory: {label}", "seconds", "average I/O queue length (aqu-sz)")
        for line in modes:
            lengths = line["queue_lengths"]
            if line.get("limit_bytes", limit) == limit and None not in lengths:
                queue.plot(range(1, len(lengths) + 1), lengths, label=name(line))
        queue.set_ylim(bottom=0)
        save(figure, directory, f"queue-{limit // 1_000_000}MB")
    for limit in limits_of(samples):
        shown = [line for line in samples if line.get("limit_bytes", limit) == limit]
        title = f"Memory: {gigabytes(limit)}"
        figure, resident = axes(title, "seconds", "resident memory in MiB")
        for curve, lines in by_curve(shown).items():
            seconds = [line["seconds"] for line in lines]
            resident.plot(seconds, [line["resident_bytes"] / MIB for line in lines], label=curve)
        resident.axhline(limit / MIB, color="black", linestyle="--", label="limit")
        save(figure, directory, f"resident-{limit // 1_000_000}MB")


def mark_missing(drawing: Any, missing: list[Line], color: str) -> None:
    """Crosses at the top for servers that gave no figures."""
    for line in missing:
        place = (line["limit_bytes"] / 1e9, 0.95)
        across = drawing.get_xaxis_transform()
        drawing.plot(*place, marker="x", markersize=9, color=color, transform=across)
        drawing.annotate(
            "killed" if line["killed"] else "failed",
            place,
            xycoords=across,
            xytext=(0, -8),
            textcoords="offset points",
            rotation=90,
            ha="center",
            va="top",
            fontsize="x-small",
        )


def over_limits(modes: list[Line], missing: list[Line], directory: Path) -> None:
    """The times of passes."""
    figure, drawing = axes("One pass over the questions", "memory in GB", "seconds")
    drawing.set_yscale("log")
    for curve, lines in by_curve(modes + missing).items():
        if lines[0]["mode"] == "memory":
            drawing.axhline(lines[0]["pass_seconds"], color="black", linestyle="--", label=curve)
            continue
        measured = sorted(
            (line for line in lines if "pass_seconds" in line),
            key=lambda line: line["limit_bytes"],
        )
        memory = [line["limit_bytes"] / 1e9 for line in measured]
        times = [line["pass_seconds"] for line in measured]
        (drawn,) = drawing.plot(memory, times, marker="o", label=curve)
        without = [line for line in lines if "pass_seconds" not in line]
        mark_missing(drawing, without, drawn.get_color())
    drawing.margins(y=0.3)
    save(figure, directory, "time")


def over_lengths(modes: list[Line], directory: Path) -> None:
    """The times of searches, for each limit."""
    for limit in limits_of(modes):
        title = f"Searching genomes, memory: {gigabytes(limit)}"
        figure, drawing = axes(title, "query length in symbols", "seconds")
        for line in modes:
            if line.get("limit_bytes", limit) == limit:
                lengths = [of["length"] for of in line["by_length"]]
                times = [of["seconds"] / of["searches"] for of in line["by_length"]]
                drawing.plot(lengths, times, marker="o", label=name(line))
        drawing.set_ylim(bottom=0)
        save(figure, directory, f"length-{limit // 1_000_000}MB")


def over_budgets(memory: Line, streaming: list[Line], directory: Path) -> None:
    """The effect of a streaming server's memory."""
    figure, (times, reads) = plt.subplots(2, sharex=True, figsize=(8, 6))
    times.set_title("One pass over the questions, streamed")
    times.set_ylabel("time over all in memory")
    reads.set_ylabel("GB read in a pass")
    reads.set_xlabel("memory given over memory needed")
    for curve, lines in by_curve(streaming).items():
        lines = sorted(lines, key=lambda line: line["limit_bytes"])
        given = [line["limit_bytes"] / memory["peak_resident_bytes"] for line in lines]
        ratios = [line["pass_seconds"] / memory["pass_seconds"] for line in lines]
        times.plot(given, ratios, marker="o", label=curve)
        reads.plot(given, [line["pass_read_bytes"] / 1e9 for line in lines], marker="o")
    times.axhline(1, color="black", linestyle="--", label="all in memory")
    reads.set_xlim(left=0)
    for drawing in (times, reads):
        drawing.set_ylim(bottom=0)
        drawing.grid(alpha=0.3)
    save(figure, directory, "budget")


def main() -> int:
    """Draws; fails where the bench did."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the directory for the figures")
    parser.add_argument(
        "--price",
        type=price,
        action="append",
        default=[],
        help="of a gigabyte of a device, or of memory, such as memory=3; may be repeated",
    )
    arguments = parser.parse_args()
    values = copied_lines(dict(arguments.price))
    if not values or not values[-1].get("verified"):
        print("error: the bench did not end well; see what it said", file=sys.stderr)
        return 1
    modes = points_of(values)
    if not modes:
        print("nothing was measured, and nothing is drawn", file=sys.stderr)
        return 0
    arguments.out.mkdir(parents=True, exist_ok=True)
    samples = [line for line in values if line["bench"] == "ssd sample"]
    over_time(modes, samples, arguments.out)
    missing = [line for line in values if line["bench"] == "ssd left out" and "killed" in line]
    over_limits(modes, missing, arguments.out)
    if values[-1]["workload"] == "genome":
        over_lengths(modes, arguments.out)
    streaming = [line for line in modes if line["mode"] == "streaming"]
    if streaming:
        over_budgets(modes[0], streaming, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
