"""What placement should gain on a machine with several sockets: a model, not a measurement.

Copies lines of `oboro-lab numa --json` from standard input and uses those with the bytes
that the engine read, for each pair of nodes (the node that reads, the node that has them). To them
it adds "none": no policy, so that one thread that loads everything has it all on its own node, the
first, as the kernel's first-touch rule has it. Work is divided there as with interleaved memory,
where no node is better placed than another. Its own lines say "model": true.

Of what tasks read, each byte comes from memory once: a group (20 MB at the paper's size) fits into
a node's last-level cache (45 MB). So the traffic of a pair is scaled by ciphertext over all
traffic. That favours placements other than by transaction, whose groups may be counted on several
nodes, each of which reads what it needs. Bytes of a pair take its distance over 10 in units of what
near bytes take. A node reads with its own cores, serves all others with its own memory, and
multiplies at the same time:

    reading   = max over nodes of max(Σ_home bytes · distance / 10, Σ_reader bytes) / bandwidth
    computing = max over nodes of its share of the multiply-adds / rate
    seconds   = max(reading, computing)

Congestion between sockets is left out. The defaults are the machine of the paper on NUMA (Table
6-1), as far as it says, else its processor, four Xeon E7-8880 v3:

    distances  15.7 between sockets: adding far arrays took 720/460 of the time of near ones
               (Table 3-1)
    bandwidth  60 GB/s: four channels of 8 bytes at 1866 MT/s, in lockstep; 102 in performance mode
    rate       110e9 a second: 18 cores, 2.3 GHz, four products a cycle, two thirds of which the
               engine reaches (docs/performance.md, the roofline)

The ratio between reading times needs neither bandwidth nor rate.

    oboro-lab numa --quick --json | python3 lab/bench/numa_model.py
"""

import argparse
import json
import sys
from dataclasses import dataclass
from typing import Any

Matrix = list[list[float]]

FAR = 10 * 720 / 460
# Table 6-3 of the paper, in seconds.
PAPER = {
    "HElib, glibc malloc": {"item": 521.6, "transaction": 480.2, "random": 601.5},
    "HElib+, numalloc": {"item": 8.109, "transaction": 7.775, "random": 7.996},
}


@dataclass(frozen=True)
class Machine:
    """Nodes by their distances, as the kernel gives them: 10 is near."""

    distances: Matrix
    bytes_per_second: float
    multiply_adds_per_second: float

    def reading_seconds(self, traffic: Matrix) -> float:
        """The slowest node's time, as a reader and as a server of others."""
        nodes = range(len(self.distances))
        read = [
            sum(traffic[node][home] * self.distances[node][home] / 10 for home in nodes)
            for node in nodes
        ]
        served = [sum(traffic[reader][node] for reader in nodes) for node in nodes]
        return max(read + served) / self.bytes_per_second

    def computing_seconds(self, traffic: Matrix, multiply_adds: float) -> float:
        """The busiest node's time; a node computes in proportion to what it reads."""
        busiest = max(map(sum, traffic)) / sum(map(sum, traffic))
        return busiest * multiply_adds / self.multiply_adds_per_second


def modelled(
    placement: str, traffic: Matrix, line: dict[str, Any], machine: Machine
) -> dict[str, Any]:
    """One placement on the machine, with the sizes of a line."""
    once = line["ciphertext_bytes"] / sum(map(sum, traffic))
    traffic = [[count * once for count in row] for row in traffic]
    reading = machine.reading_seconds(traffic)
    computing = machine.computing_seconds(traffic, line["multiply_adds"])
    return {
        "bench": "numa model placement",
        "model": True,
        "placement": placement,
        "near_share": sum(row[node] for node, row in enumerate(traffic)) / sum(map(sum, traffic)),
        "reading_seconds": reading,
        "computing_seconds": computing,
        "seconds": max(reading, computing),
    }


def on_the_first_node(traffic: Matrix) -> Matrix:
    """The same bytes for each reader, all of them on node 0."""
    return [[sum(row), *[0.0] * (len(row) - 1)] for row in traffic]


def placements(lines: list[dict[str, Any]], machine: Machine) -> list[dict[str, Any]]:
    """Those of the lines, and none."""
    found = [modelled(line["placement"], line["traffic"], line, machine) for line in lines]
    anywhere = next(line for line in lines if line["placement"] == "interleave")
    return [*found, modelled("none", on_the_first_node(anywhere["traffic"]), anywhere, machine)]


def over_transaction(times: dict[str, float]) -> dict[str, float]:
    """As multiples of the time of the default placement."""
    return {placement: took / times["transaction"] for placement, took in times.items()}


def summary(found: list[dict[str, Any]], machine: Machine) -> dict[str, Any]:
    """What the default placement gains over each other."""

    def compared(field: str) -> dict[str, float]:
        return over_transaction({line["placement"]: line[field] for line in found})

    return {
        "bench": "numa model",
        "model": True,
        "label": "a model: bytes counted by the engine times distances, not a measurement",
        "distances": machine.distances,
        "bytes_per_second": machine.bytes_per_second,
        "multiply_adds_per_second": machine.multiply_adds_per_second,
        "reading_over_transaction": compared("reading_seconds"),
        "seconds_over_transaction": compared("seconds"),
        "paper_seconds_over_transaction": {
            library: over_transaction(times) for library, times in PAPER.items()
        },
    }


def matrix(text: str) -> Matrix:
    """Rows separated by semicolons, distances by commas."""
    rows = [[float(number) for number in row.split(",")] for row in text.split(";")]
    if any(len(row) != len(rows) for row in rows) or min(map(min, rows)) <= 0:
        raise argparse.ArgumentTypeError("give as many positive distances in each row as rows")
    return rows


def all_equally_far(nodes: int) -> Matrix:
    """The paper's machine, with any number of nodes."""
    return [[10.0 if a == b else FAR for b in range(nodes)] for a in range(nodes)]


def ended_well(summary: dict[str, Any]) -> bool:
    """Whether a bench found everything right, or was skipped for a reason that it gives."""
    return "skipped" in summary or bool(summary["verified"])


def copied_lines() -> list[dict[str, Any]]:
    """The JSON values of standard input, also copied to the output."""
    values = []
    for line in sys.stdin:
        print(line, end="", flush=True)
        values.append(json.loads(line))
    return values


def main() -> int:
    """A line for each placement, then the summary; fails where the bench did."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--distances", type=matrix, help="of the modelled machine, e.g. 10,21;21,10"
    )
    parser.add_argument(
        "--bandwidth", type=float, default=60, help="GB/s of the memory of a node (default: 60)"
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=110,
        help="thousand million multiply-adds a second on the cores of a node (default: 110)",
    )
    parser.add_argument(
        "--ends", nargs="+", default=["numa"], help="the summaries that must be there"
    )
    arguments = parser.parse_args()
    values = copied_lines()
    lines = [value for value in values if value.get("bench") == "numa traffic"]
    ends = {value["bench"]: value for value in values if value.get("bench") in arguments.ends}
    if not lines or len(ends) < len(arguments.ends) or not all(map(ended_well, ends.values())):
        print("error: a bench did not end well; see what it said", file=sys.stderr)
        return 1
    nodes = lines[0]["nodes"]
    distances = arguments.distances or all_equally_far(nodes)
    if len(distances) != nodes:
        print(
            f"error: traffic is between {nodes} nodes; give --distances of as many", file=sys.stderr
        )
        return 1
    machine = Machine(distances, arguments.bandwidth * 1e9, arguments.rate * 1e9)
    found = placements(lines, machine)
    for line in [*found, summary(found, machine)]:
        print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
