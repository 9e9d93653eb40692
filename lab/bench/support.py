"""Counts all pairs of items: Oboro on ciphertext, its peers on the same data, in one run.

Run by `make bench-support`. Prints a JSON object for each part and the whole with its ratios and
aims last. The peers: NumPy and mlxtend on plaintext, AND and popcount in `oboro` itself on
plaintext, and Microsoft SEAL on ciphertext (see fhe_library.py) on a part of the blocks, scaled.
lab/FIELDS.md explains the fields.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from operator import ge, le
from pathlib import Path
from typing import Any

import fhe_library
import numpy as np
import pandas as pd
from machine import bench_support, report, seconds
from mlxtend.frequent_patterns import apriori


@dataclass(frozen=True)
class Aim:
    """What a field of the summary should be on two cores, for the papers' shape."""

    field: str
    holds: Callable[[float, float], bool]
    bound: float

    def judge(self, summary: dict[str, Any]) -> dict[str, Any]:
        """The aim with its measurement."""
        value = summary[self.field]
        relation = "at most" if self.holds is le else "at least"
        met = self.holds(value, self.bound)
        return {"field": self.field, "aim": f"{relation} {self.bound}", "value": value, "met": met}


AIMS = [
    Aim("server_seconds", le, 0.05),
    Aim("speedup_over_fhe_library", ge, 150),
    Aim("speedup_over_numpy_bitmap", ge, 1),
    Aim("encrypt_seconds", le, 1),
    Aim("stored_over_bit_matrix", le, 70),
    Aim("peak_server_over_expanded", le, 1.15),
    Aim("response_bytes", le, 2_500),
]


def numpy_bitmap(words: Any, truth: Any, threads: int, runs: int) -> dict[str, Any]:
    """AND and popcount on packed bits, in several ways; the fastest counts."""

    def part(start: int, stop: int, step: int) -> Any:
        counts = np.zeros(len(truth), dtype=np.uint64)
        for begin in range(start, stop, step):
            columns = words[:, begin : min(begin + step, stop)]
            rows = [
                np.bitwise_count(column & columns[item + 1 :]).sum(axis=1, dtype=np.uint64)
                for item, column in enumerate(columns)
            ]
            counts += np.concatenate(rows)
        return counts

    def alone() -> Any:
        return part(0, words.shape[1], words.shape[1])

    cuts = [words.shape[1] * cut // threads for cut in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:

        def together(step: int) -> Any:
            return sum(pool.map(part, cuts, cuts[1:], [step] * threads))

        ways: dict[str, Callable[[], Any]] = {
            "one thread": alone,
            f"{threads} threads": lambda: together(words.shape[1]),
            f"{threads} threads, 64 KiB of a column at a time": lambda: together(1 << 13),
        }
        verified = all(np.array_equal(way(), truth) for way in ways.values())
        times = {name: seconds(way, runs) for name, way in ways.items()}
    return {
        "bench": "numpy",
        "numpy": np.__version__,
        "numpy_bitmap_seconds": min(times.values()),
        "numpy_bitmap_ways": times,
        "verified": verified,
    }


def mlxtend(words: Any, truth: Any, transactions: int, runs: int) -> dict[str, Any]:
    """Apriori on a plaintext DataFrame of booleans, with a support that keeps every pair."""
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :transactions]
    frame = pd.DataFrame(bits.T.astype(bool))
    found: dict[tuple[int, ...], int] = {}

    def mine() -> None:
        result = apriori(frame, min_support=0.5 / transactions, max_len=2)
        supports = (result["support"] * transactions).round().astype(int)
        itemsets = (tuple(sorted(itemset)) for itemset in result["itemsets"])
        found.update(zip(itemsets, supports, strict=True))

    elapsed = seconds(mine, runs)
    pairs = combinations(range(len(words)), 2)
    return {
        "bench": "mlxtend",
        "mlxtend_seconds": elapsed,
        "verified": [found.get(pair, 0) for pair in pairs] == truth.tolist(),
    }


def fhe(data: fhe_library.Data, blocks: int, processes: int, runs: int) -> dict[str, Any]:
    """SEAL on the first blocks; the time is scaled to all of them."""
    measured = fhe_library.count_pairs(data, "destinations", blocks, processes, runs)
    return {
        "bench": "fhe_library",
        "fhe_library": "Microsoft SEAL, BGV, N = 4096, two 36-bit limbs, no relinearisation",
        "fhe_library_seconds": measured.counting_seconds / measured.fraction,
        "fhe_library_measured_seconds": measured.counting_seconds,
        "fhe_library_measured_fraction": measured.fraction,
        "fhe_library_milliseconds_per_product": measured.milliseconds_per_product,
        "fhe_library_encrypt_seconds": measured.initial_seconds / measured.fraction,
        "fhe_library_processes": measured.processes,
        "verified": measured.verified,
    }


def ratios(of: dict[str, Any]) -> dict[str, float]:
    """How many times faster Oboro's server is, and sizes beside what they hold."""
    server = of["server_seconds"]
    return {
        "speedup_over_fhe_library": of["fhe_library_seconds"] / server,
        "speedup_over_numpy_bitmap": of["numpy_bitmap_seconds"] / server,
        "speedup_over_native_bitmap": of["native_bitmap_seconds"] / server,
        "speedup_over_mlxtend": of["mlxtend_seconds"] / server,
        "stored_over_bit_matrix": of["stored_bytes"] / of["bit_matrix_bytes"],
        "peak_server_over_expanded": of["peak_server_bytes"] / of["expanded_bytes"],
    }


def main() -> int:
    """Oboro, its peers, then longer itemsets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", type=Path, required=True, help="oboro-lab, beside oboro")
    parser.add_argument("--items", type=int, default=18)
    parser.add_argument("--transactions", type=int, default=1_943_424)
    parser.add_argument("--threads", type=int, default=2, help="of everyone")
    parser.add_argument("--runs", type=int, default=5, help="times each is measured")
    parser.add_argument("--long-runs", type=int, default=1, help="the same, of longer itemsets")
    parser.add_argument("--fhe-blocks", type=int, default=64, help="blocks that SEAL computes on")
    arguments = parser.parse_args()
    shape: list[str | Path | int] = [
        *("--items", arguments.items, "--transactions", arguments.transactions),
        *("--threads", arguments.threads),
    ]
    runs = arguments.runs
    with tempfile.TemporaryDirectory(prefix="oboro-bench-") as directory:
        files = Path(directory)
        oboro = bench_support(arguments.lab, *shape, "--runs", runs, "--export", files)
        report(oboro)
        data = fhe_library.Data(
            files / "columns.u64", arguments.items, arguments.transactions, fhe_library.DEGREE
        )
        words = np.fromfile(data.file, dtype="<u8").reshape(data.items, -1)
        truth = np.fromfile(files / "supports.u64", dtype="<u8")
        peers = [numpy_bitmap(words, truth, arguments.threads, runs)]
        report(peers[-1])
        peers.append(mlxtend(words, truth, data.transactions, runs))
        report(peers[-1])
        peers.append(fhe(data, arguments.fhe_blocks, arguments.threads, runs))
        report(peers[-1])
    longer = {}
    for length in (3, 4):
        found = bench_support(
            arguments.lab, *shape, "--max-len", length, "--runs", arguments.long_runs
        )
        report(found)
        longer[f"max_len_{length}"] = found
    parts = [oboro, *peers, *longer.values()]
    summary = {key: value for part in [oboro, *peers] for key, value in part.items()}
    summary |= {"bench": "support", **ratios(summary)}
    summary["max_len_3_and_4"] = [
        {key: found[key] for key in LONGER_FIELDS} for found in longer.values()
    ]
    summary["aims"] = [aim.judge(summary) for aim in AIMS]
    summary["verified"] = all(part["verified"] for part in parts)
    report(summary)
    return 0 if summary["verified"] else 1


LONGER_FIELDS = [
    "max_len",
    "itemsets",
    "degree",
    "limbs",
    "encrypt_seconds",
    "verified_by",
    "owner_bytes",
    "server_seconds",
    "gmacs_per_second",
    "client_decrypt_seconds",
    "response_bytes",
    "stored_bytes",
    "peak_server_bytes",
]


if __name__ == "__main__":
    sys.exit(main())
