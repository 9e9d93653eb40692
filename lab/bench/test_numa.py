"""Memory nodes as a process sees them, and what parts of make bench-numa make of their lines."""

from __future__ import annotations

import os
from pathlib import Path

import memory_nodes
import numa_copies
import numa_emulated
import numa_model
import pytest
from memory_nodes import Node, Seat


def test_nodes_are_those_with_cores_of_this_process(tmp_path: Path) -> None:
    own = min(os.sched_getaffinity(0))
    for number, cores in ((0, "70000-70003"), (2, f"{own},70004"), (10, "")):
        folder = tmp_path / f"node{number}"
        folder.mkdir()
        (folder / "cpulist").write_text(cores + "\n")
    assert memory_nodes.nodes(tmp_path) == [Node(2, frozenset({own}))]
    everything = frozenset(os.sched_getaffinity(0))
    assert memory_nodes.nodes(tmp_path / "nothing") == [Node(0, everything)]


def test_placements_choose_the_node_of_a_column() -> None:
    nodes = tuple(Node(number, frozenset()) for number in (0, 4, 5))

    def homes(placement: str) -> list[int]:
        return [Seat(nodes, 1, placement).home(column) for column in range(300)]

    assert homes("transaction") == [1] * 300
    assert homes("item") == [0, 1, 2] * 100
    assert set(homes("random")) == {0, 1, 2}
    assert Seat(nodes, 1, "item").number == 4


def test_with_one_node_no_policy_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int | None] = []
    monkeypatch.setattr(memory_nodes, "prefer", told.append)
    alone = Node(0, frozenset())
    with Seat((alone,), 0, "item").making(3):
        assert told == []
    with Seat((alone, Node(7, frozenset())), 0, "item").making(3):
        assert told == [7]
    assert told == [7, None]


def test_only_bytes_that_came_count_as_near() -> None:
    assert memory_nodes.near_share({0: 100}, {0: 400, 1: 100}, 0) == 0.75
    assert memory_nodes.near_share({0: 100}, {0: 50, 1: 10}, 0) == 0.0
    assert memory_nodes.near_share({}, {}, 0) is None


def test_emulation_tells_no_times() -> None:
    line = {"seconds": 1, "rows": [{"least_seconds": 1, "remote_bytes": 2}], "idle_share": 0.5}
    assert numa_emulated.without_times(line) == {"rows": [{"remote_bytes": 2}]}


def test_ratios_are_of_runs_that_took_turns() -> None:
    seconds = {"temporaries": [6.0, 8.0, 9.0], "results": [2.0, 4.0, 9.0]}
    lines = [
        {"way": way, "allocator": allocator, "seconds": seconds.get(way, [1.0] * 3)[run]}
        for run in range(3)
        for way in numa_copies.WAYS
        for allocator in (numa_copies.SYSTEM, numa_copies.FCMALLOC)
    ]
    ratios = numa_copies.compared(lines)
    assert ratios["copies, system malloc"] == {"median": 2.0, "runs": [3.0, 2.0, 1.0]}
    assert ratios["allocator, without"]["median"] == 1.0


def test_benches_end_well_or_say_why_they_were_skipped() -> None:
    assert numa_model.ended_well({"verified": True})
    assert numa_model.ended_well({"skipped": "there is no QEMU"})
    assert not numa_model.ended_well({"verified": False})
