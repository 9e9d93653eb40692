"""Tests of ssd_machine.py: how lines become points, and points findings."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from ssd_machine import (
    WORKS,
    Machine,
    device_name,
    floor,
    genome_findings,
    measure_all,
    mining_findings,
    point,
    rises,
)


def swapped(device: str, limit: int, seconds: float, queue: list[float | None]) -> dict[str, Any]:
    """A point of a machine."""
    line = {
        "bench": "ssd mode",
        "mode": "swap",
        "device": "/dev/of the guest",
        "limit_bytes": limit,
        "pass_seconds": seconds,
        "queue_lengths": queue,
        "by_length": [
            {"length": length, "seconds": seconds * length, "searches": 1} for length in (16, 64)
        ],
    }
    return point(line, device, "counted")


def verdicts(findings: list[dict[str, Any]]) -> list[str | None]:
    """In their order."""
    return [finding["verdict"] for finding in findings]


def test_devices_are_zram_or_a_latency() -> None:
    assert [device_name(given) for given in ("zram", "100us", "7")] == ["zram", "100us", "7us"]
    for wrong in ("0us", "fast", "-3", "2000000us"):
        with pytest.raises(ValueError):
            device_name(wrong)


def test_a_point_names_its_device_and_sums_its_queue_up() -> None:
    line = swapped("100us", 5, 2.0, [None, 1.0, 3.0])
    assert (line["device"], line["latency_us"]) == ("100us", 100)
    assert (line["seconds"], line["queue_mean"], line["queue_max"]) == (2.0, 2.0, 3.0)
    assert swapped("zram", 5, 2.0, [None])["queue_mean"] is None


def test_queues_that_follow_latency_reproduce_the_paper() -> None:
    points = [
        swapped("1000us", 2, 90.0, [9.0]),
        swapped("10us", 2, 10.0, [1.0]),
        swapped("1000us", 6, 20.0, [5.0]),
        swapped("10us", 6, 10.0, [2.0]),
        swapped("zram", 6, 99.0, [99.0]),
    ]
    assert verdicts(mining_findings(points)) == ["reproduced", "reproduced"]
    points[0]["seconds"], points[1]["queue_mean"] = 11.0, 10.0
    assert verdicts(mining_findings(points)) == ["contradicted", "contradicted"]
    assert verdicts(mining_findings(points[:1])) == [None, None]


def test_gaps_that_grow_with_the_query_reproduce_the_paper() -> None:
    points = [swapped(device, 5, time, []) for device, time in (("1us", 1.0), ("10us", 1.01))]
    assert genome_findings(points[:1]) == []
    assert verdicts(genome_findings(points)) == ["reproduced"]
    points.append(swapped("1000us", 5, 2.0, []))
    assert verdicts(genome_findings(points)) == ["reproduced", "reproduced"]
    points[1] = swapped("10us", 5, 1.5, [])
    assert verdicts(genome_findings(points)) == ["reproduced", "contradicted"]


def test_the_floor_is_that_of_the_fastest_device() -> None:
    assert floor({"1000us": 1002.0, "10us": 60.0, "1us": None}) == 50.0
    assert floor({"10us": None}) is None


def test_noise_is_no_order() -> None:
    assert rises([1.0, 0.995, 2.0])
    assert not rises([1.0, 0.9, 2.0])
    assert not rises([2.0, 2.0])
    assert rises([1.0]) is None


class FakeMachine:
    """Says on each device what the server needs, and notes what it was told."""

    def __init__(self, limit: str) -> None:
        self.limits_are_shares = limit.endswith("%")
        self.work = WORKS["genome", True]
        self.needed, self.seconds = 0, 0
        self.told: dict[str, int] = {}

    def run(self, device: str) -> Iterator[dict[str, Any]]:
        """A machine that only sums up."""
        self.told[device] = self.needed
        yield {"bench": "ssd", "needed_bytes": 7, "verified": True}


def test_shares_of_memory_are_those_that_the_first_machine_needs() -> None:
    machine = FakeMachine("60%")
    lines = measure_all(cast(Machine, machine), ["1us", "10us", "100us"], 2)
    assert machine.told == {"1us": 0, "10us": 7, "100us": 7}
    assert (len(lines["ssd"]), machine.seconds) == (3, machine.work.seconds // 2)
