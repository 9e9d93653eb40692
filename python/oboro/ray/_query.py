"""One query on the cluster: batches of shards are assigned to workers until all are counted.

A worker returns the moments of its batch as one object, and the coordinator passes them on to the
server, which sums shards.

`Work.deliver` ignores duplicate shards. A batch may therefore be assigned to another worker at any
time, because the first one died or is late.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from oboro._oboro import Work
from oboro.ray._dealing import Shares
from oboro.ray._workers import Workers

log = logging.getLogger(__name__)

# Batches in flight per worker, which keep it busy.
AHEAD = 2
# Seconds between checks of the cluster and the caller while nothing arrives.
LOOK = 0.05
# A batch is late after this multiple of the usual time, and at least this many seconds.
LATE_TIMES, LATE_SECONDS = 4.0, 2.0
# Maximum number of failed workers in one query, beyond which it fails.
MOST_FAILURES = 16


@dataclass(frozen=True)
class Dealt:
    """Batch in flight."""

    node: str
    actor: Any
    shards: range
    since: float


class Query(threading.Thread):
    """Thread that counts the shards of one query on all available workers."""

    def __init__(self, work: Work, workers: Workers) -> None:
        """Prepare the query; counting begins with `start`."""
        super().__init__(name="query", daemon=True)
        self._work = work
        self._workers = workers
        self._dealt: dict[Any, Dealt] = {}
        self._arrived: set[int] = set()
        self._seconds = 0.0
        self._failures = 0
        self._bytes: Counter[str] = Counter()
        self._passing_on = 0.0

    def run(self) -> None:
        """Run until the query ends, successfully or not."""
        try:
            self._count()
        except Exception as error:
            self._work.fail("the server's cluster failed; ask again", repr(error))
        for ref in self._dealt:
            ray.cancel(ref)

    def _count(self) -> None:
        while self._work.is_wanted and not self._workers.ready():
            time.sleep(LOOK)
        most = max(1, self._workers.result_bytes // max(1, self._work.shard_bytes))
        self._shares = Shares(self._work.shards, self._workers.ready() or ["nobody"], most)
        self._question = ray.put(self._work.manifest), ray.put(self._work.task)
        log.info("dealing %d shards to %d nodes", self._work.shards, len(self._workers.ready()))
        while self._work.is_wanted:
            self._deal()
            if not self._dealt or not self._work.has_capacity:
                time.sleep(LOOK)
                continue
            for ref in ray.wait(list(self._dealt), num_returns=1, timeout=LOOK)[0]:
                self._take(ref)
        log.info(
            "counted %d shards; passing on took %.6f s; bytes by node: %s",
            len(self._arrived),
            self._passing_on,
            json.dumps(self._bytes),
        )

    def _deal(self) -> None:
        ready = self._workers.ready()
        for ahead in range(AHEAD):
            for node, actor in ready.items():
                if sum(dealt.node == node for dealt in self._dealt.values()) > ahead:
                    continue
                # The last batches are for idle workers.
                if ahead == 0 or len(self._shares) > len(ready):
                    shards = self._shares.take(node) or self._late(node)
                    if shards:
                        self._give(node, actor, shards)

    def _give(self, node: str, actor: Any, shards: range) -> None:
        ref = actor.count.remote(*self._question, shards.start, len(shards))
        self._dealt[ref] = Dealt(node, actor, shards, time.monotonic())

    def _late(self, node: str) -> range | None:
        """Return shards that are late and not yet reassigned."""
        now = time.monotonic()
        usual = self._seconds / max(1, len(self._arrived))
        for dealt in self._dealt.values():
            patience = max(LATE_SECONDS, LATE_TIMES * usual * len(dealt.shards))
            is_late = now - dealt.since > patience and not self._arrived.issuperset(dealt.shards)
            if is_late and dealt.node != node and self._copies(dealt.shards) == 1:
                log.info("shards %s are late on node %s", dealt.shards, dealt.node)
                return dealt.shards
        return None

    def _copies(self, shards: range) -> int:
        return sum(dealt.shards == shards for dealt in self._dealt.values())

    def _take(self, ref: Any) -> None:
        dealt = self._dealt.pop(ref)
        try:
            partial = ray.get(ref)
        except RayError as error:
            self._lose(dealt, error)
            return
        begun = time.monotonic()
        self._work.deliver(dealt.node, dealt.shards.start, len(dealt.shards), partial)
        self._passing_on += time.monotonic() - begun
        self._bytes[dealt.node] += len(partial)
        if not self._arrived.issuperset(dealt.shards):
            self._arrived.update(dealt.shards)
            self._seconds += time.monotonic() - dealt.since

    def _lose(self, dealt: Dealt, error: RayError) -> None:
        log.warning("node %s has not counted %s: %s", dealt.node, dealt.shards, error)
        self._workers.lost(dealt.node, dealt.actor)
        self._failures += 1
        if self._failures > MOST_FAILURES:
            self._work.fail(
                "the server's workers fail again and again; ask its operator", str(error)
            )
        elif not self._arrived.issuperset(dealt.shards) and not self._copies(dealt.shards):
            self._shares.give_back(dealt.node, dealt.shards)
