"""What allocators do with freed memory and between threads, by the experiments of properties.c: the
FCMalloc paper's Table 1 and Figure 1, measured."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allocators import Allocator
from launch import inherited

# A block size with its name, and how many blocks: 64 MiB of small ones, 256 MiB of others.
SIZES = {"256 B": (256, 1 << 18), "64 KiB": (64 << 10, 1 << 12), "8 MiB": (8 << 20, 1 << 5)}
# By turns, two threads' blocks.
NEIGHBOURS = {"64 B": (64, 2000), "4 KiB": (4 << 10, 500), "64 KiB": (64 << 10, 500)}
# How many blocks another thread frees: few fit into any cache of a thread, many into none.
REUSE = {
    "few, 256 B": (256, 20),
    "many, 256 B": (256, 100_000),
    "many, 64 KiB": (64 << 10, 1000),
}
TAKERS = ("other", "owner", "third")

# Of the blocks or pages of an experiment: this much is all, and the rest of it none.
ALL, NONE = 0.9, 0.1
# Of neighbours of two threads with heaps of their own.
FEW = 0.2
# Of freed blocks, for a way that they take.
HALF = 0.5


@dataclass
class Experiments:
    """Runs of properties.c under one allocator."""

    program: Path
    allocator: Allocator
    timeout: float

    def run(self, *arguments: object) -> Any:
        """What an experiment printed. Raises RuntimeError where it failed."""
        command = [str(self.program), *map(str, arguments)]
        environment = inherited() | self.allocator.environment(Path())
        try:
            ended = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=self.timeout
            )
        except subprocess.TimeoutExpired as hang:
            what = f"{arguments[0]}: no end within {self.timeout:.0f} s"
            raise RuntimeError(what) from hang
        if ended.returncode != 0:
            what = f"{arguments[0]}: status {ended.returncode}: {ended.stderr.strip()}"
            raise RuntimeError(what)
        return json.loads(ended.stdout)

    def all(self, seconds: int) -> dict[str, Any]:
        with ThreadPoolExecutor() as pool:  # they mostly sleep
            freed = pool.map(lambda size: self.run("release", *size, seconds), SIZES.values())
            found: dict[str, Any] = {"freed_memory": dict(zip(SIZES, freed, strict=True))}
        found["neighbours"] = {
            name: self.run("neighbours", *size)["mixed"] for name, size in NEIGHBOURS.items()
        }
        found["reuse"] = {
            name: {
                "freed_by_other": {
                    taker: self.run("reuse", *size, "other", taker)["reused"] for taker in TAKERS
                },
                "freed_by_owner": {"other": self.run("reuse", *size, "owner", "other")["reused"]},
            }
            for name, size in REUSE.items()
        }
        found |= self.run("waits", 72, 6400)
        return found | {"verdict": verdict(found)}


def verdict(found: dict[str, Any]) -> dict[str, Any]:
    """What the experiments say, in the terms of the paper's Table 1."""
    late = [fates[-1] for fates in found["freed_memory"].values()]
    early = [fates[0] for fates in found["freed_memory"].values()]
    mixed = found["neighbours"].values()
    ways = {
        name: [taker for taker, part in reuse["freed_by_other"].items() if part >= HALF]
        for name, reuse in found["reuse"].items()
    }
    return {
        "releases_virtual_memory": extent([fate["unmapped"] for fate in late]),
        "releases_physical_memory_at_once": extent([1 - fate["resident"] for fate in early]),
        "releases_physical_memory": extent([1 - fate["resident"] for fate in late]),
        "offers_physical_memory": extent([1 - fate["resident"] + fate["lazy"] for fate in late]),
        "heaps_of_their_own": "yes"
        if max(mixed) < FEW
        else "in part"
        if min(mixed) < FEW
        else "no",
        "freed_by_another_serves": ways,
        "freed_by_its_owner_serves_others": extent(
            [reuse["freed_by_owner"]["other"] for reuse in found["reuse"].values()]
        ),
    }


def extent(parts: list[float]) -> str:
    """Whether something happened to all, to none, or to some."""
    if min(parts) >= ALL:
        return "yes"
    return "no" if max(parts) <= NONE else "in part"
