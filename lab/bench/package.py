"""Mines pairs, and all itemsets of dense frames, with the Python package and with mlxtend, in
turn, in one process.

Run by `make bench-python`. Prints a JSON object for each run and the whole with its ratios last.
docs/comparisons.md explains the fields.
"""

import argparse
import statistics
import time
from typing import Any

import numpy as np
import pandas as pd
from machine import peak_bytes, report
from mlxtend.frequent_patterns import apriori, fpgrowth

import oboro
import oboro.frequent_patterns

MIN_SUPPORT = 0.01


def made_up(transactions: int, items: int) -> pd.DataFrame:
    """A frame with three cells in ten True."""
    random = np.random.default_rng(1)
    cells = np.zeros((transactions, items), dtype=bool)
    for column in range(items):
        cells[:, column] = random.random(transactions, dtype=np.float32) < 0.3
    return pd.DataFrame(cells, columns=[f"item {number}" for number in range(items)])


def since(begun: float) -> float:
    """Seconds since then."""
    return time.perf_counter() - begun


def encrypted_run(frame: pd.DataFrame, threads: int) -> tuple[dict[str, float], pd.DataFrame]:
    """Everything once: a key, encryption, upload, mining, and mining again; what each takes.

    Pairs are counted by moments, on ciphertext. Nothing that was counted is kept, so that the
    second time counts everything anew, but on ciphertext that is in memory. The last time is by
    sealed cells, which is what happens where the server is not trusted.
    """
    keys = oboro.Keys.generate()
    begun = time.perf_counter()
    encrypted = oboro.encrypt(frame, keys, max_len=2, threads=threads, progress=False)
    encrypting = since(begun)
    with oboro.local(threads=threads, moment_cache=0) as server:
        begun = time.perf_counter()
        dataset = server.upload(encrypted, name="frame", progress=False)
        uploading = since(begun)

        def mined(trust_server: bool = True) -> tuple[float, pd.DataFrame]:
            begun = time.perf_counter()
            found = dataset.apriori(
                keys,
                min_support=MIN_SUPPORT,
                max_len=2,
                use_colnames=True,
                trust_server=trust_server,
                progress=False,
            )
            return since(begun), found

        first, _ = mined()
        again, found = mined()
        by_cells, same = mined(trust_server=False)
    pd.testing.assert_frame_equal(same, found, check_exact=True)
    pairs = found.attrs["oboro"]["levels"][1]
    return {
        "encrypt_seconds": encrypting,
        "upload_seconds": uploading,
        "first_mining_seconds": first,
        "next_mining_seconds": again,
        "mining_by_cells_seconds": by_cells,
        "count_pairs_seconds": pairs["seconds"],
        "server_pairs_seconds": pairs["server_seconds"],
        "all_seconds": encrypting + uploading + first,
    }, found


def dense_frames() -> dict[str, pd.DataFrame]:
    """Frames of 16 items in which all 65,535 itemsets occur: in `alike` every transaction has all
    items, which is the fastest case of fpgrowth; in `dense` nine cells in ten are True.
    """
    cells = np.random.default_rng(2).random((1_000, 16)) < 0.9
    cells[0] = True
    names = [f"item {number}" for number in range(16)]
    return {
        "alike": pd.DataFrame(True, index=range(1_000), columns=names),
        "dense": pd.DataFrame(cells, columns=names),
    }


def dense_run(name: str, frame: pd.DataFrame, runs: int) -> dict[str, float]:
    """What finding all itemsets of a frame takes: a key, encryption, upload and mining."""
    theirs, ours = [], []
    for _ in range(runs + 1):
        begun = time.perf_counter()
        expected = fpgrowth(frame, min_support=1 / len(frame), use_colnames=True)
        theirs.append(since(begun))
        begun = time.perf_counter()
        found = oboro.frequent_patterns.fpgrowth(frame, 1 / len(frame), use_colnames=True)
        ours.append(since(begun))
    supports = dict(zip(found["itemsets"], found["support"], strict=True))
    assert supports == dict(zip(expected["itemsets"], expected["support"], strict=True))
    # The first run of each is not counted.
    mlxtend, oboros = statistics.median(theirs[1:]), statistics.median(ours[1:])
    return {
        f"{name}_itemsets": len(found),
        f"{name}_mlxtend_seconds": mlxtend,
        f"{name}_seconds": oboros,
        f"{name}_over_mlxtend": oboros / mlxtend,
    }


def dense_runs(runs: int) -> dict[str, float]:
    """All frames of `dense_frames`, in turn."""
    measured = [dense_run(name, frame, runs) for name, frame in dense_frames().items()]
    return {field: value for fields in measured for field, value in fields.items()}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=1_943_424)
    parser.add_argument("--items", type=int, default=18)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--dense", action="store_true", help="mine the dense frames alone")
    given = parser.parse_args()
    if given.dense:
        report({"bench": "python dense", "runs": given.runs, **dense_runs(given.runs)})
        return
    frame = made_up(given.transactions, given.items)
    before = peak_bytes("self")
    first, found = encrypted_run(frame, given.threads)
    peak = peak_bytes("self")
    expected = apriori(frame, min_support=MIN_SUPPORT, max_len=2, use_colnames=True)
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    runs: list[dict[str, float]] = []
    for number in range(given.runs):
        begun = time.perf_counter()
        apriori(frame, min_support=MIN_SUPPORT, max_len=2, use_colnames=True)
        run: dict[str, float] = {"mlxtend_seconds": since(begun)}
        run |= encrypted_run(frame, given.threads)[0]
        report({"bench": "python run", "run": number, **run})
        runs.append(run)
    median = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    summary: dict[str, Any] = {
        "bench": "python",
        "verified": True,
        "transactions": given.transactions,
        "items": given.items,
        "itemsets": len(found),
        "threads": given.threads,
        "runs": given.runs,
        "first_run": first,
        **median,
        "frame_bytes": int(frame.memory_usage(index=False).sum()),
        "peak_bytes_before": before,
        "peak_bytes_after_first_run": peak,
        "counting_faster_than_mlxtend": median["mlxtend_seconds"] / median["count_pairs_seconds"],
        "all_over_mlxtend": median["all_seconds"] / median["mlxtend_seconds"],
        **dense_runs(given.runs),
    }
    report(summary)


if __name__ == "__main__":
    main()
