"""Counts on one and on two nodes of one core each, and projects to a hundred.

Run by `make bench-ray`. Prints a JSON object for each run and the summary last; lab/FIELDS.md
explains the fields. Nodes are processes of this machine, pinned to one core each. The owner and
the coordinator run on the same cores, so figures are a lower bound of what two machines reach.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

ITEMS = 40
TRANSACTIONS = 1_943_424
MAX_LEN = 3
PROJECTED_NODES = 100


def run(oboro: Path, home: Path, line: str) -> dict[str, Any]:
    """The output of a command of the owner."""
    command = [str(oboro), *line.split(), "--json"]
    done = subprocess.run(command, cwd=home, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: oboro {line} failed; what it said stands above")
    printed: dict[str, Any] = json.loads(done.stdout or "{}")
    return printed


class Nodes:
    """A cluster of nodes, each pinned to its own core, and its coordinator."""

    def __init__(self, count: int, home: Path, data: str) -> None:
        """Starts them; the store is new, and named after the data."""
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        cores = sorted(os.sched_getaffinity(0))
        for core in cores[:count]:
            # Nodes and their workers inherit it.
            os.sched_setaffinity(0, {core})
            self.cluster.add_node(num_cpus=1)
        os.sched_setaffinity(0, cores)
        self.log = home / f"coordinator-{count}-{data}.log"
        options = ["--data", str(home / f"store-{count}-{data}"), "--listen", "127.0.0.1:0"]
        options += ["--moment-cache", "0", "--threads", "1", "--json"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "oboro.ray", self.cluster.address, *options],
            stdout=subprocess.PIPE,
            stderr=self.log.open("w"),
            text=True,
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"error: the coordinator did not start: {self.log.read_text()}")
        self.url = json.loads(line)["listening"]
        while len(re.findall("has a worker", self.log.read_text())) < count:
            time.sleep(0.1)

    def close(self) -> None:
        """Stops them."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.cluster.shutdown()

    def passed_on(self) -> tuple[float, dict[str, int]]:
        """Of the last query: seconds of the coordinator, bytes of each node."""
        said = re.findall(
            r"passing on took ([\d.]+) s; bytes by node: (\{.*\})", self.log.read_text()
        )
        seconds, by_node = said[-1]
        return float(seconds), json.loads(by_node)


def measure(oboro: Path, home: Path, count: int, data: str, max_len: int) -> dict[str, Any]:
    """The longest level of mining `data` on `count` nodes, after a warm-up."""
    nodes = Nodes(count, home, data)
    try:
        run(oboro, home, f"upload {data}.oboro --server {nodes.url}")
        mine = f"mine {data}.oboro --min-support 1 --max-len {max_len} --trust-server"
        mine += f" --no-deduction --verify {data}.dat --server {nodes.url}"
        run(oboro, home, mine)
        mined = run(oboro, home, mine)
        level = max(mined["levels"], key=lambda level: level["server_seconds"])
        passing_on, by_node = nodes.passed_on()
        return {
            "nodes": count,
            "data": data,
            "server_seconds": level["server_seconds"],
            "passing_on_seconds": passing_on,
            "bytes_by_node": by_node,
            "verified": mined["matches_plaintext"],
        }
    finally:
        nodes.close()


def project(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    """The time of a hundred nodes by the times of one and two: what is passed on is not shared, the
    rest is shared as two nodes have shared it."""
    shared = one["server_seconds"] - one["passing_on_seconds"]
    efficiency = one["server_seconds"] / two["server_seconds"] / 2
    seconds = shared / (PROJECTED_NODES * efficiency) + one["passing_on_seconds"]
    return {
        "projection": True,
        "nodes": PROJECTED_NODES,
        "server_seconds": seconds,
        "speedup": one["server_seconds"] / seconds,
    }


def main() -> None:
    """Prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oboro", type=Path, required=True)
    parser.add_argument("--transactions", type=int, default=TRANSACTIONS)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--max-len", type=int, default=MAX_LEN)
    parser.add_argument("--quick", action="store_true", help="an eighth of the transactions")
    given = parser.parse_args()
    rows = given.transactions // (8 if given.quick else 1)
    oboro = given.oboro.resolve()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        run(oboro, home, "keygen")
        for data, count in [("whole", rows), ("half", rows // 2)]:
            make = f"generate {data}.dat --transactions {count} --items {given.items} --seed 1"
            run(oboro, home, f"{make} --transaction-length 6")
            run(oboro, home, f"encrypt {data}.dat --max-len {given.max_len}")
        measured = {}
        for nodes, data in [(1, "whole"), (2, "whole"), (1, "half")]:
            found = measure(oboro, home, nodes, data, given.max_len)
            measured[nodes, data] = found
            print(json.dumps(found), flush=True)
    one, two, weak = measured[1, "whole"], measured[2, "whole"], measured[1, "half"]
    projection = project(one, two)
    print(json.dumps(projection))
    summary = {
        "bench": "ray",
        "verified": all(found["verified"] for found in measured.values()),
        "speedup_two_nodes": one["server_seconds"] / two["server_seconds"],
        # The same transactions for each node: 1 would be perfect.
        "weak_scaling_two_nodes": weak["server_seconds"] / two["server_seconds"],
        "projected_speedup": projection["speedup"],
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
