"""Workers of a cluster: one on every node that has processors."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from oboro._oboro import Worker, __version__
from oboro.errors import VersionError

log = logging.getLogger(__name__)

# Seconds between checks of the cluster's nodes.
LOOK = 0.5
# Seconds until a worker that could not start is retried.
RETRY = 5.0


@dataclass(frozen=True)
class Storage:
    """Arguments of a worker."""

    data: str
    cache: str | None
    threads: int | None
    memory: int | None


class CountingActor:
    """Actor on a node. It returns only encoded moments or an encoded failure."""

    def __init__(self, version: str, storage: Storage, node: str, threads: int) -> None:
        """Open `storage` on `node` for a server of this version."""
        if version != __version__:
            raise VersionError(
                f"this node has Oboro {__version__}, but the server is of version {version}; "
                "install the same on all nodes"
            )
        cache = storage.cache and f"{storage.cache}.worker-{node[:12]}"
        self._worker = Worker(storage.data, cache=cache, threads=threads, memory=storage.memory)

    def ready(self) -> int:
        """Return the process id, once the actor is ready."""
        return os.getpid()

    def count(self, manifest: bytes, task: bytes, first: int, shards: int) -> bytes:
        """Return the moments of some shards, for `Work.deliver`."""
        return self._worker.count(manifest, task, first, shards)


# Maximum bytes of a result, unless one shard has more; and as a fraction (1/x) of the memory.
RESULT_BYTES, RESULT_PART = 32 << 20, 16


class Workers:
    """Ready workers, by node. Nodes join and leave; lost workers are restarted."""

    def __init__(self, storage: Storage) -> None:
        """Start to watch for nodes."""
        self._storage = storage
        self._lock = threading.Lock()
        self._beginning: dict[str, tuple[Any, Any]] = {}
        self._ready: dict[str, Any] = {}
        # Times at which to retry nodes on which no worker could start.
        self._not_before: dict[str, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="workers", daemon=True)
        self._thread.start()

    @property
    def result_bytes(self) -> int:
        """Return the maximum bytes of a result, unless one shard has more."""
        memory = self._storage.memory
        return RESULT_BYTES if memory is None else min(RESULT_BYTES, memory // RESULT_PART)

    def close(self) -> None:
        """Stop all workers."""
        self._stopped.set()
        self._thread.join()
        for actor in [*self._ready.values(), *(actor for actor, _ in self._beginning.values())]:
            ray.kill(actor)

    def ready(self) -> dict[str, Any]:
        """Return the ready workers."""
        with self._lock:
            return dict(self._ready)

    def lost(self, node: str, actor: Any) -> None:
        """Forget a worker that died; it is restarted if its node is still alive."""
        with self._lock:
            if self._ready.get(node) == actor:
                del self._ready[node]

    def _look_after(self) -> None:
        while not self._stopped.wait(LOOK):
            try:
                self._look()
            # Any error must not end the supervision of the workers.
            except Exception as error:
                log.warning("the cluster does not answer: %s", error)

    def _look(self) -> None:
        nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
        with self._lock:
            for gone in self._ready.keys() - nodes.keys():
                log.warning("node %s is gone", gone)
                del self._ready[gone]
            missing = nodes.keys() - self._ready.keys() - self._beginning.keys()
        for node in missing:
            if time.monotonic() < self._not_before.get(node, 0):
                continue
            threads = self._storage.threads or int(nodes[node]["Resources"].get("CPU", 0))
            if threads and nodes[node]["Resources"].get("CPU", 0) >= 1:
                self._begin(node, threads)
        for node, (actor, begun) in list(self._beginning.items()):
            if ray.wait([begun], timeout=0)[0]:
                del self._beginning[node]
                self._admit(node, actor, begun)

    def _begin(self, node: str, threads: int) -> None:
        actor = (
            ray.remote(CountingActor)
            .options(
                num_cpus=1,
                max_restarts=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote(__version__, self._storage, node, threads)
        )
        self._beginning[node] = actor, actor.ready.remote()

    def _admit(self, node: str, actor: Any, begun: Any) -> None:
        try:
            process = ray.get(begun)
        except RayError as error:
            log.warning("node %s has no worker: %s", node, error)
            self._not_before[node] = time.monotonic() + RETRY
            return
        log.info("node %s has a worker, process %d", node, process)
        with self._lock:
            self._ready[node] = actor
