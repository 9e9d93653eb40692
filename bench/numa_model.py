"""What placement should gain on a machine with several sockets: a model, not a measurement.

Reads lines of `oboro bench numa --json` from standard input and takes those that tell the bytes
which the engine counted for each pair of nodes (the node that reads, the node that has them). On a
given machine the bytes of a pair take their distance over 10, in units of what local bytes take; a
node reads from all others at once with its own cores, and serves all others with its own memory:

    seconds = max over nodes of max(Σ_home bytes · distance / 10, Σ_reader bytes) / bandwidth

Counting overlaps reading, so a count takes the longer of the two. The defaults are the machine of
the paper (NUMA, table 6-1: four Xeon E7-8880 v3); its distances are not printed there, and the ones
here are estimated from its table 3-1, where remote operands cost 720/460 of local ones.

    oboro bench numa --quick --json | python3 bench/numa_model.py
"""

import argparse
import json
import sys
from dataclasses import dataclass
from typing import Any

PAPER_SECONDS = {"item": 8.109, "transaction": 7.775, "random": 7.996}


@dataclass(frozen=True)
class Machine:
    """Nodes by their distances, as the kernel gives them: 10 is local."""

    distances: list[list[float]]
    gigabytes_per_second: float
    compute_gigabytes_per_second: float

    def reading_seconds(self, traffic: list[list[float]]) -> float:
        """The slowest node's time, as a reader and as a server of others."""
        nodes = range(len(self.distances))
        read = [
            sum(traffic[node][home] * self.distances[node][home] / 10 for home in nodes)
            for node in nodes
        ]
        served = [sum(traffic[reader][node] for reader in nodes) for node in nodes]
        return max(map(max, zip(read, served, strict=True))) / self.gigabytes_per_second / 1e9

    def computing_seconds(self, traffic: list[list[float]]) -> float:
        """The busiest node's time for the multiply-adds on what it reads."""
        return max(map(sum, traffic)) / self.compute_gigabytes_per_second / 1e9

    def seconds(self, traffic: list[list[float]]) -> float:
        """Reading and computing overlap."""
        return max(self.reading_seconds(traffic), self.computing_seconds(traffic))


def matrix(text: str) -> list[list[float]]:
    """Rows separated by semicolons, distances by commas."""
    rows = [[float(number) for number in row.split(",")] for row in text.split(";")]
    if any(len(row) != len(rows) for row in rows) or min(map(min, rows)) <= 0:
        raise argparse.ArgumentTypeError("give as many positive distances in each row as rows")
    return rows


def modelled(line: dict[str, Any], machine: Machine) -> dict[str, Any]:
    """One placement on the machine."""
    traffic = line["traffic"]
    total = sum(map(sum, traffic))
    local = sum(traffic[node][node] for node in range(len(traffic)))
    return {
        "model": "numa",
        "placement": line["placement"],
        "bytes": total,
        "local_share": local / total,
        "reading_seconds": machine.reading_seconds(traffic),
        "computing_seconds": machine.computing_seconds(traffic),
        "seconds": machine.seconds(traffic),
    }


def main() -> int:
    """A line for each placement, then what the default one gains over each other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--distances",
        type=matrix,
        default="10,16,16,16;16,10,16,16;16,16,10,16;16,16,16,10",
        help="of the modelled machine, e.g. 10,21;21,10",
    )
    parser.add_argument(
        "--node-bandwidth",
        type=float,
        default=60,
        help="GB/s that one node's memory gives its cores",
    )
    parser.add_argument(
        "--node-compute",
        type=float,
        default=180,
        help="GB/s of residues that the cores of one node count when they are in their caches",
    )
    arguments = parser.parse_args()
    machine = Machine(arguments.distances, arguments.node_bandwidth, arguments.node_compute)
    lines = [json.loads(line) for line in sys.stdin if line.startswith("{")]
    lines = [line for line in lines if line.get("bench") == "numa traffic"]
    if not lines:
        print("error: no line tells traffic; pipe `oboro bench numa --json` in", file=sys.stderr)
        return 1
    if any(len(line["traffic"]) != len(machine.distances) for line in lines):
        print("error: traffic and --distances have different numbers of nodes", file=sys.stderr)
        return 1
    found = [modelled(line, machine) for line in lines]
    for line in found:
        print(json.dumps(line))
    seconds = {line["placement"]: line["seconds"] for line in found}
    summary = {
        "model": "numa",
        "label": "a model: bytes counted by the engine times distances, not a measurement",
        "distances": machine.distances,
        "node_bandwidth_gigabytes_per_second": machine.gigabytes_per_second,
        "node_compute_gigabytes_per_second": machine.compute_gigabytes_per_second,
        "seconds": seconds,
        "time_over_transaction": {
            placement: took / seconds["transaction"] for placement, took in seconds.items()
        },
        "paper_time_over_transaction": {
            placement: took / PAPER_SECONDS["transaction"]
            for placement, took in PAPER_SECONDS.items()
        },
    }
    print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
