"""Who counts which shards.

Every node has a share of the shards, neighbours, and the same one in every query, so that what it
reads stays useful to it. Who has done its own helps whoever has most left. Ranges get smaller
towards the end.
"""

from __future__ import annotations

from collections.abc import Iterable

# A range is at most this part of what its share has left.
PARTS = 4


class Shares:
    """The shards of one query that nobody was given yet."""

    def __init__(self, shards: int, nodes: Iterable[str], most: int) -> None:
        """Deals `shards` shards to `nodes` alike; no range that is taken has more than `most`."""
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
        """The next shards for `node`, of its own share or of the largest; None after the last."""
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
        """Puts shards back that `node` was given and has not counted."""
        self._left[node].insert(0, shards)
