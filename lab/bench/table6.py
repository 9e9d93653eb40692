"""Table 6 of the FCMalloc paper: all 324,972 products of its shape, by phase, in three ways.

The paper counts 153 pairs of 18 items in 1,943,424 transactions, 915 to a ciphertext (2,124
blocks), with HElib on 72 cores, under several allocators. Here the same products are computed by
Microsoft SEAL (see fhe_library.py) with a temporary ciphertext for each result, by SEAL with sums
and products in place, and the same counts by Oboro, whose slots are all used. Phases are as in the
paper: initial makes the encrypted database, main multiplies and adds, freeing releases ciphertexts
in between, terminal destroys the database and ends the process. Run by `make bench-table6`.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import fhe_library
from machine import bench_support, report

ITEMS = 18
SLOTS = 915
BLOCKS = 2124

PAPER = {
    "title": "FCMalloc (Umayabara and Yamana), Table 6",
    "cpu": "Intel Xeon E7-8880 v3, 72 cores, 1 TB",
    "library": "HElib",
    "rows": [
        {
            "allocator": allocator,
            "initial_seconds": initial,
            "main_seconds": {"modDownToLevel": down, "tensorProduct": tensor},
            "freeing_seconds": freeing,
            "main_and_freeing_seconds": total,
            "terminal_seconds": terminal,
            "peak_gigabytes": peak,
        }
        for allocator, initial, down, tensor, freeing, total, terminal, peak in [
            ("glibc malloc 2.12-1", 301.6, 6.6, 350.0, 0.25, 356.9, 0.9, 197.4),
            ("jemalloc 3.6.0", 59.7, 6.0, 22.4, 9.3, 37.7, 0.5, 199.9),
            ("TCMalloc 2.0", 88.6, 17.3, 94.6, 79.2, 158.1, 0.4, 208.5),
            ("TCMalloc 2.5", 107.0, 35.0, 118.9, 4.2, 191.1, 6.3, 208.8),
            ("FCMalloc", 83.7, 9.6, 5.8, 0.08, 15.48, 0.02, 306.1),
        ]
    ],
}

NOTES = {
    "temporaries": "SEAL: multiply and add return new ciphertexts",
    "destinations": "SEAL: multiply_inplace on a copy, since the wheel takes no destination for a "
    "product, and add_inplace",
    "oboro": "initial: encryption to disk, upload, and the first query, which loads the panels; "
    "main: the server's time; nothing is allocated for a product, so nothing is freed in between; "
    "memory: the server's",
}


def library(data: fhe_library.Data, way: str, blocks: int, processes: int) -> dict[str, Any]:
    """SEAL in one of its ways. What was measured on a part is scaled to the whole, but for the
    terminal time, of which much does not depend on the data."""
    measured = fhe_library.count_pairs(data, way, blocks, processes, runs=1)
    scale = 1 / measured.fraction
    return {
        "bench": "table6",
        "way": way,
        "note": NOTES[way],
        "measured_fraction": measured.fraction,
        "products": round(measured.products * scale),
        "initial_seconds": measured.initial_seconds * scale,
        "main_seconds": measured.main_seconds * scale,
        "freeing_seconds": measured.freeing_seconds * scale,
        "main_and_freeing_seconds": measured.counting_seconds * scale,
        "terminal_seconds": measured.terminal_seconds,
        "peak_bytes": measured.idle_bytes
        + round((measured.peak_bytes - measured.idle_bytes) * scale),
        "verified": measured.verified,
    }


def oboro(found: dict[str, Any]) -> dict[str, Any]:
    """The phases in the summary of `oboro-lab support`."""
    loading = found["first_query_seconds"] - found["query_seconds"]
    return {
        "bench": "table6",
        "way": "oboro",
        "note": NOTES["oboro"],
        "measured_fraction": 1.0,
        "products": None,
        "initial_seconds": found["encrypt_seconds"] + found["upload_seconds"] + loading,
        "main_seconds": found["server_seconds"],
        "freeing_seconds": None,
        "main_and_freeing_seconds": found["server_seconds"],
        "terminal_seconds": found["server_exit_seconds"],
        "peak_bytes": found["peak_server_bytes"],
        "verified": found["verified"],
    }


def main() -> int:
    """Oboro first, since it makes the data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", type=Path, required=True, help="oboro-lab, beside oboro")
    parser.add_argument("--threads", type=int, default=2, help="of everyone")
    parser.add_argument(
        "--blocks",
        type=int,
        default=BLOCKS,
        help="blocks that SEAL computes on; fewer than all are scaled. All take 5 GB of memory",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oboro-bench-") as directory:
        found = bench_support(
            arguments.lab,
            *("--items", ITEMS, "--transactions", BLOCKS * SLOTS),
            *("--threads", arguments.threads, "--export", directory),
        )
        rows = [oboro(found)]
        report(rows[-1])
        data = fhe_library.Data(Path(directory) / "columns.u64", ITEMS, BLOCKS * SLOTS, SLOTS)
        for way in ("temporaries", "destinations"):
            rows.append(library(data, way, arguments.blocks, arguments.threads))
            report(rows[-1])
    summary = {
        "bench": "table6",
        "cpu": found["cpu"],
        "threads": found["threads"],
        "rows": rows,
        "main_of_library_over_oboro": {
            row["way"]: row["main_and_freeing_seconds"] / found["server_seconds"]
            for row in rows[1:]
        },
        "paper": PAPER,
        "verified": all(row["verified"] for row in rows),
    }
    report(summary)
    return 0 if summary["verified"] else 1


if __name__ == "__main__":
    sys.exit(main())
