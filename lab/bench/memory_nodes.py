"""The machine's memory nodes for a process: where it runs, and where its next pages come from.

What numactl does from outside, a process does here for itself with the same system calls, since a
process of a bench takes memory from one node after another. On a machine with one node none of them
is called.
"""

import ctypes
import os
import platform
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# Linux's numbers of set_mempolicy, by machine, and of its modes.
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
DEFAULT, PREFERRED = 0, 1

PLACEMENTS = ("item", "transaction", "random")


@dataclass(frozen=True)
class Node:
    """A node: the kernel's number, and the cores that this process may use."""

    number: int
    cores: frozenset[int]


def nodes(root: Path = Path("/sys/devices/system/node")) -> list[Node]:
    """Those with cores; one with all cores where the kernel tells of none."""
    allowed = os.sched_getaffinity(0)
    found = []
    for folder in sorted(root.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        cores = numbers((folder / "cpulist").read_text()) & allowed
        if cores:
            found.append(Node(int(folder.name[4:]), frozenset(cores)))
    return found or [Node(0, frozenset(allowed))]


def numbers(text: str) -> set[int]:
    """The numbers in a list such as "0-3,8"."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


@dataclass(frozen=True)
class Seat:
    """One process: all nodes, which of them is its own, and how ciphertexts are placed."""

    nodes: tuple[Node, ...]
    own: int
    placement: str

    @property
    def number(self) -> int:
        """The kernel's number of the own node."""
        return self.nodes[self.own].number

    def take(self) -> None:
        """Keeps this process to the cores of its node."""
        os.sched_setaffinity(0, self.nodes[self.own].cores)

    def home(self, column: int) -> int:
        """The node of a ciphertext that this process counts."""
        match self.placement:
            case "item":
                return column % len(self.nodes)
            case "transaction":
                return self.own
            case _:
                return random.randrange(len(self.nodes))

    @contextmanager
    def making(self, column: int) -> Iterator[None]:
        """While a column's ciphertext is made: new pages come from the node where it belongs."""
        if len(self.nodes) == 1:
            yield
            return
        prefer(self.nodes[self.home(column)].number)
        try:
            yield
        finally:
            prefer(None)


def seats(processes: int, placement: str) -> list[Seat]:
    """The processes, dealt to the nodes; every node needs one."""
    found = tuple(nodes())
    if processes < len(found):
        raise SystemExit(f"error: {len(found)} nodes; give --threads of at least as many")
    return [Seat(found, process % len(found), placement) for process in range(processes)]


def prefer(node: int | None) -> None:
    """Takes this thread's next pages from a node while it has any; None ends that."""
    mask = ctypes.c_ulong(0 if node is None else 1 << node)
    bits = 8 * ctypes.sizeof(mask)
    pointer = None if node is None else ctypes.byref(mask)
    mode = DEFAULT if node is None else PREFERRED
    libc = ctypes.CDLL(None, use_errno=True)
    number = SET_MEMPOLICY[platform.machine()]
    # The kernel uses one bit less than it is told.
    if libc.syscall(number, mode, pointer, ctypes.c_ulong(bits + 1 if pointer else 0)) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise SystemExit(
            f"error: cannot take memory from node {node} ({reason}): allow set_mempolicy"
        )


def resident() -> dict[int, int]:
    """The bytes of this process in memory on each node; empty where the kernel does not tell."""
    try:
        maps = Path("/proc/self/numa_maps").read_text()
    except OSError:
        return {}
    bytes_on: dict[int, int] = {}
    for line in maps.splitlines():
        size = re.search(r"kernelpagesize_kB=(\d+)", line)
        for node, pages in re.findall(r" N(\d+)=(\d+)", line):
            here = int(pages) * (int(size[1]) if size else 4) << 10
            bytes_on[int(node)] = bytes_on.get(int(node), 0) + here
    return bytes_on


def near_share(before: dict[int, int], after: dict[int, int], node: int) -> float | None:
    """Of the bytes that came in between, those on a node."""
    came = {number: after[number] - before.get(number, 0) for number in after}
    came = {number: bytes for number, bytes in came.items() if bytes > 0}
    return came.get(node, 0) / sum(came.values()) if came else None
