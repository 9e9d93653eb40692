"""Tests of ssd_machine.py: how lines become points, and points findings."""

from typing import Any

import pytest
from ssd_machine import device_name, floor, genome_findings, mining_findings, point, rises


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
