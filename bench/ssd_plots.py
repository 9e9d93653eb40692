"""Draws what `oboro bench ssd --json` has measured, in the form of the papers on SSDs.

Copies lines from standard input and writes, as SVG and PNG:

    queue-*.svg     the length of the disk's queue over time, a curve for each device and mode:
                    Figures 4 to 6 of the paper on secure mining, one for each limit of memory
    resident-*.svg  the server's memory over time, with the limit
    time.svg        the time of a pass over the limit

    oboro bench ssd --json | .venv-bench/bin/python bench/ssd_plots.py --out DIR
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Line = dict[str, Any]
MIB = 1 << 20


def name(line: Line) -> str:
    """What a curve is called."""
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


def copied_lines() -> list[Line]:
    """The JSON values of standard input, printed as they come."""
    values = []
    for line in sys.stdin:
        print(line, end="", flush=True)
        values.append(json.loads(line))
    return values


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


def over_time(samples: list[Line], directory: Path) -> None:
    """The figures of samples, for each limit."""
    limits = sorted({line["limit_bytes"] for line in samples if "limit_bytes" in line})
    for limit in limits:
        shown = [line for line in samples if line.get("limit_bytes", limit) == limit]
        label = gigabytes(limit)
        queues, queue = axes(f"Memory: {label}", "seconds", "average I/O queue length (aqu-sz)")
        sizes, resident = axes(f"Memory: {label}", "seconds", "resident memory in MiB")
        for curve, lines in by_curve(shown).items():
            seconds = [line["seconds"] for line in lines]
            if all(line["queue_length"] is not None for line in lines):
                queue.plot(seconds, [line["queue_length"] for line in lines], label=curve)
            resident.plot(seconds, [line["resident_bytes"] / MIB for line in lines], label=curve)
        resident.axhline(limit / MIB, color="black", linestyle="--", label="limit")
        queue.set_ylim(bottom=0)
        for figure, what in ((queues, "queue"), (sizes, "resident")):
            save(figure, directory, f"{what}-{limit // 1_000_000}MB")


def over_limits(modes: list[Line], directory: Path) -> None:
    """The times of passes."""
    figure, drawing = axes("Mining once over the data", "memory in GB", "seconds")
    for curve, lines in by_curve(modes).items():
        if lines[0]["mode"] == "memory":
            drawing.axhline(lines[0]["pass_seconds"], color="black", linestyle="--", label=curve)
            continue
        lines = sorted(lines, key=lambda line: line["limit_bytes"])
        memory = [line["limit_bytes"] / 1e9 for line in lines]
        drawing.plot(memory, [line["pass_seconds"] for line in lines], marker="o", label=curve)
    drawing.set_yscale("log")
    save(figure, directory, "time")


def main() -> int:
    """Draws; fails where the bench did."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the directory for the figures")
    arguments = parser.parse_args()
    values = copied_lines()
    if not values or not values[-1].get("verified"):
        print("error: the bench did not end well; see what it said", file=sys.stderr)
        return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    over_time([line for line in values if line["bench"] == "ssd sample"], arguments.out)
    over_limits([line for line in values if line["bench"] == "ssd mode"], arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
