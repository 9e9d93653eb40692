"""What seconds cost, the papers' future work, for points of `oboro-lab ssd` and ssd_machine.py.

A price is that of a gigabyte (10⁹ bytes) of "memory" or of a device, in any one currency. A point
costs its limit of memory and, on its device, what is beyond: with swap the needed memory less the
limit, with streaming all that is stored. In memory it costs what is needed. A point of which a part
has no price is left out.

    ssd cost        a line for each point:
    mode, device, limit_bytes, page_cluster
                    which point, as in its line
    seconds         of a pass
    memory_gb, device_gb, money
                    what it has, and what that costs
    efficient       no other point is as fast and as cheap, and better in one of both
"""

from collections.abc import Iterable, Mapping
from typing import Any

Line = dict[str, Any]
PLACE = ("mode", "device", "limit_bytes", "page_cluster")


def price(given: str) -> tuple[str, float]:
    """Parses NAME=AMOUNT, for argparse."""
    name, _, amount = given.rpartition("=")
    if not name or not 0 <= (value := float(amount)) < float("inf"):
        raise ValueError(given)
    return name, value


price.__name__ = "NAME=AMOUNT"


def costs(
    points: Iterable[Line], needed: float, stored: float, prices: Mapping[str, float]
) -> list[Line]:
    """The lines of all points that can be priced; `needed` and `stored` in bytes."""
    priced = [line for point in points if (line := cost(point, needed, stored, prices))]
    for line in priced:
        line["efficient"] = not any(beats(other, line) for other in priced)
    return priced


def cost(point: Line, needed: float, stored: float, prices: Mapping[str, float]) -> Line | None:
    """One point, if there are prices for its parts."""
    memory = point.get("limit_bytes", needed)
    beyond = {"memory": 0, "swap": max(0, needed - memory), "streaming": stored}[point["mode"]]
    device = point.get("device", "memory")
    if "memory" not in prices or device not in prices:
        return None
    money = (memory * prices["memory"] + beyond * prices[device]) / 1e9
    place = {field: point[field] for field in PLACE if field in point}
    return {
        "bench": "ssd cost",
        **place,
        "seconds": point["pass_seconds"],
        "memory_gb": memory / 1e9,
        "device_gb": beyond / 1e9,
        "money": money,
    }


def beats(one: Line, other: Line) -> bool:
    """Whether one point is nowhere worse than another, and somewhere better."""
    better: list[float] = [one[field] - other[field] for field in ("seconds", "money")]
    return max(better) <= 0 and min(better) < 0
