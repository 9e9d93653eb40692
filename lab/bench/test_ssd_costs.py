"""Tests of ssd_costs.py."""

import pytest
from ssd_costs import costs, price

MEMORY = {"mode": "memory", "pass_seconds": 1.0}
PRICES = {"memory": 4.0, "fast": 1.0, "slow": 0.5}


def swap(device: str, limit: float, seconds: float) -> dict[str, object]:
    """A point with swap."""
    return {"mode": "swap", "device": device, "limit_bytes": limit, "pass_seconds": seconds}


def test_a_point_costs_its_memory_and_what_is_beyond() -> None:
    streaming = swap("slow", 1e9, 2.0) | {"mode": "streaming"}
    lines = costs([MEMORY, swap("fast", 1e9, 5.0), streaming], 3e9, 2e9, PRICES)
    assert [line["money"] for line in lines] == [12.0, 6.0, 5.0]


def test_points_that_another_one_beats_are_not_efficient() -> None:
    points = [MEMORY, swap("fast", 1e9, 5.0), swap("slow", 1e9, 5.0), swap("slow", 2e9, 9.0)]
    lines = costs(points, 3e9, 2e9, PRICES)
    assert [line["efficient"] for line in lines] == [True, False, True, False]


def test_what_has_no_price_is_left_out() -> None:
    assert costs([swap("fast", 1e9, 5.0)], 3e9, 2e9, {"memory": 1.0}) == []
    assert costs([MEMORY], 3e9, 2e9, {"fast": 1.0}) == []


def test_prices_are_names_and_amounts() -> None:
    assert price("/mnt/a=b=0.25") == ("/mnt/a=b", 0.25)
    for wrong in ("fast", "=1", "fast=much", "fast=-1", "fast=inf"):
        with pytest.raises(ValueError):
            price(wrong)
