"""What figures show: the data in what was drawn, not its looks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from oboro import plot
from oboro.errors import InputError, MissingExtraError


@pytest.fixture(autouse=True)
def no_figures_stay_open() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    pyplot.close("all")


def itemsets() -> pd.DataFrame:
    sets = [frozenset({"tea"}), frozenset({"milk"}), frozenset({"tea", "milk"})]
    frame = pd.DataFrame({"support": [0.4, 0.75, 0.25], "itemsets": sets})
    spent = [
        {"level": 1, "seconds": 0.5, "received_bytes": 3 << 20},
        {"level": 2, "seconds": 0.25, "received_bytes": 1 << 19},
    ]
    frame.attrs["oboro"] = {"transactions": 20, "levels": spent}
    return frame


def bars(ax: Any, direction: str) -> list[float]:
    return [getattr(bar, f"get_{direction}")() for bar in ax.patches]


def heights(ax: Any) -> list[float]:
    return bars(ax, "height")


def curve(line: Any) -> list[list[float]]:
    points: list[list[float]] = line.get_xydata().tolist()
    return points


def test_supports_are_bars_from_the_largest_down() -> None:
    ax = plot.supports(itemsets())
    assert bars(ax, "width") == [0.75, 0.4, 0.25]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["{milk}", "{tea}", "{milk, tea}"]
    assert ax.yaxis_inverted()
    assert ax.get_title() == "3 itemsets by support"


def test_a_figure_of_some_itemsets_says_of_how_many() -> None:
    ax = plot.supports(itemsets(), top=2)
    assert len(ax.patches) == 2
    assert ax.get_title() == "the 2 most frequent of 3 itemsets by support"


def test_a_figure_is_drawn_where_it_is_wanted() -> None:
    wanted = pyplot.subplots()[1]
    assert plot.supports(itemsets(), ax=wanted) is wanted
    assert plot.levels(itemsets()) is not wanted


def test_rules_are_points_coloured_by_lift() -> None:
    rules = pd.DataFrame({"support": [0.1, 0.3], "confidence": [0.9, 0.5], "lift": [1.5, 2.5]})
    ax = plot.rules(rules)
    points: Any = ax.collections[0]
    assert points.get_offsets().tolist() == [[0.1, 0.9], [0.3, 0.5]]
    assert points.get_array().tolist() == [1.5, 2.5]
    assert ax.get_xlabel() == "support (share of transactions)"
    assert ax.figure.axes[1].get_ylabel() == "lift"


def test_the_best_rules_are_written_out() -> None:
    sides = [frozenset({"tea"}), frozenset({"milk"}), frozenset({"jam", "bread"})]
    rules = pd.DataFrame({
        "antecedents": sides, "consequents": [*sides[1:], sides[0]], "support": [0.1, 0.3, 0.3],
        "confidence": [0.9, 0.5, 0.5], "lift": [1.5, 2.5, 2.0],
    })  # fmt: skip
    ax = plot.rules(rules.set_index(pd.Index([4, 4, 4])), labels=2)
    legend = ax.get_legend()
    assert legend is not None
    written = [text.get_text() for text in legend.get_texts()]
    assert written == ["1  {milk} => {bread, jam}", "2  {bread, jam} => {tea}"]
    assert [text.get_text() for text in ax.texts] == ["1, 2"]
    assert ax.get_title() == "3 rules by support and confidence"
    assert plot.rules(rules, labels=0).get_legend() is None


def test_dollar_signs_in_names_are_no_mathematics() -> None:
    frame = pd.DataFrame({"support": [0.5], "itemsets": [frozenset({"US$ 5_", "C$ ^^"})]})
    ax = plot.supports(frame)
    ax.figure.canvas.draw()
    assert ax.get_yticklabels()[0].get_text() == r"{C\$ ^^, US\$ 5_}"


def test_any_metrics_of_rules_are_drawn() -> None:
    rules = pd.DataFrame({"support": [0.1], "leverage": [0.05], "jaccard": [0.4]})
    ax = plot.rules(rules, "jaccard", "leverage", "support")
    points: Any = ax.collections[0]
    assert points.get_offsets().tolist() == [[0.4, 0.05]]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("jaccard", "leverage")
    assert ax.figure.axes[1].get_ylabel() == "support (share of transactions)"


def test_levels_show_seconds_and_bytes() -> None:
    ax = plot.levels(itemsets())
    assert heights(ax) == [0.5, 0.25]
    received = ax.figure.axes[1]
    assert heights(received) == [3, 0.5]
    assert (ax.get_ylabel(), received.get_ylabel()) == ("seconds", "MiB received")
    assert ax.get_title() == "time and bytes by length of itemsets"
    assert ax.get_xticks().tolist() == [1, 2]


def traffic(policy: str, bytes_read: list[list[int]]) -> str:
    return json.dumps({"bench": "numa traffic", "placement": policy, "traffic": bytes_read})


def test_placement_shows_what_is_read_at_home_by_policy() -> None:
    mib = 1 << 20
    lines = [
        traffic("transaction", [[3 * mib, 0], [mib, 4 * mib]]),
        traffic("random", [[mib, 3 * mib], [2 * mib, 2 * mib]]),
        json.dumps({"bench": "numa", "verified": True}),
    ]
    ax = plot.placement("\n".join(lines))
    assert heights(ax) == [7, 3, 1, 5]
    assert bars(ax, "y") == [0, 0, 7, 3]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["transaction", "random"]
    assert ax.get_ylabel() == "MiB read"
    assert ax.get_title() == "MiB read at home and elsewhere, by placement"


def test_placement_shows_the_pages_of_a_dataset_by_node() -> None:
    nodes = [
        {"node": 0, "pages": 100, "intended_pages": 90},
        {"node": 2, "pages": 50, "intended_pages": 50},
    ]
    ax = plot.placement([{"kind": "placement", "nodes": nodes}])
    assert heights(ax) == [90, 50, 10, 0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("memory node", "pages")


def samples() -> list[dict[str, Any]]:
    def sample(
        seconds: float, queue: float | None, mebibytes: int, **setting: Any
    ) -> dict[str, Any]:
        measured = {
            "seconds": seconds,
            "queue_length": queue,
            "resident_bytes": mebibytes << 20,
        }
        return {"bench": "ssd sample", "device": "nvme", **setting, **measured}

    return [
        sample(1, 0.5, 10, mode="swap", limit_bytes=32 << 20),
        sample(2, 1.5, 30, mode="swap", limit_bytes=32 << 20),
        sample(1, None, 20, mode="streaming", device_reads_per_second=200_000_000),
        {"bench": "ssd", "verified": True},
    ]


def test_io_shows_a_curve_for_each_way_to_run() -> None:
    ax = plot.io(samples())
    swapped, streamed = ax.lines
    assert curve(swapped) == [[1, 0.5], [2, 1.5]]
    assert np.isnan(curve(streamed)[0][1])
    names = [line.get_label() for line in ax.lines]
    assert ax.get_legend() is not None
    assert names == ["swap, nvme, limit 32 MiB", "streaming, nvme, emulated: 200 MB/s"]
    memory = plot.io(samples(), "memory")
    assert [curve(line) for line in memory.lines] == [[[1, 10], [2, 30]], [[1, 20]]]
    assert memory.get_ylabel() == "resident memory in MiB"
    assert memory.get_title() == "the server's memory over time"


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(InputError, match="no column 'lift'"):
        plot.rules(pd.DataFrame({"support": [1], "confidence": [1]}))
    with pytest.raises(InputError, match="what its levels took"):
        plot.levels(pd.DataFrame({"support": [1.0], "itemsets": [frozenset()]}))
    with pytest.raises(InputError, match="no figures of placement"):
        plot.placement(samples())
    with pytest.raises(InputError, match="no samples"):
        plot.io([])
    with pytest.raises(InputError, match="is not JSON"):
        plot.io("12 MB/s")
    with pytest.raises(InputError, match="'disk' cannot be drawn"):
        plot.io(samples(), "disk")  # type: ignore[arg-type]


def test_without_matplotlib_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'oboro\[plot\]'"):
        plot.supports(itemsets())
