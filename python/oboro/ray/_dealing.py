"""Assignment of shards to nodes.

Every node has a contiguous share of the shards, the same in every query, which lets it reuse its
reads. A node that has finished its share takes from the node with most shards left. Batches get
smaller towards the end.
"""

from __future__ import annotations

from collections.abc import Iterable

# A batch is at most this fraction (1/PARTS) of the rest of its share.
PARTS = 4


class Shares:
    """Shards of one query that are not assigned yet."""

    def __init__(self, shards: int, nodes: Iterable[str], most: int) -> None:
        """Divide `shards` shards evenly among `nodes`; no batch has more than `most`."""
        names = sorted(nodes)
        borders = [shards * i // len(names) for i in range(len(names) + 1)]
        self._most = most
        self._left = {
            name: [range(first, end)] if first < end else []
            for name, first, end in zip(names, borders, borders[1:], strict=False)
        }

    def __len__(self) -> int:
        return sum(map(self._left_of, self._left))

    def _left_of(self, node: str) -> int:
        return sum(map(len, self._left[node]))

    def take(self, node: str) -> range | None:
        """Take the next shards for `node`, from its share or the largest; None after the last."""
        own = self._left.setdefault(node, [])
        if own:
            shards = own.pop(0)
            size = self._size(node, len(shards))
            taken, rest = shards[:size], shards[size:]
            if rest:
                own.insert(0, rest)
            return taken
        richest = max(self._left, key=self._left_of)
        if not self._left[richest]:
            return None
        shards = self._left[richest].pop()
        size = self._size(richest, len(shards))
        rest, taken = shards[:-size], shards[-size:]
        if rest:
            self._left[richest].append(rest)
        return taken

    def _size(self, node: str, there: int) -> int:
        left = self._left_of(node) + there
        return min(there, self._most, max(1, left // PARTS))

    def give_back(self, node: str, shards: range) -> None:
        """Return shards that were assigned to `node` and not counted."""
        self._left[node].insert(0, shards)
