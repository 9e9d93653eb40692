"""Mines real data sets end to end, as two processes over loopback, and reports the cost: by sealed
cells, which are fetched, verified and counted locally; by cached cells; by moments of a trusted
server, with supports deduced where possible; and by moments with every support requested.

Prints one JSON object for each data set, the summary last. Run by `make bench-mining`; the files
are those of the FIMI repository (mushroom, chess, T10I4D100K, retail), in the given
directory; missing ones are named and skipped. A generated data set always runs.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from command import Oboro, server_seconds
from machine import peak_bytes


@dataclass(frozen=True)
class Case:
    """A file, what to look for in it, and which rare items to leave out before encryption."""

    file: str
    min_support: str
    max_len: int
    min_item_support: str | None = None


CASES = [
    Case("mushroom.dat.gz", "0.3", 4),
    Case("mushroom.dat.gz", "0.2", 5),
    Case("chess.dat.gz", "0.9", 4),
    Case("T10I4D100K.dat.gz", "0.01", 4, "0.01"),
    Case("retail.dat.gz", "0.01", 4, "0.01"),
]
GENERATED = Case("generated.dat", "0.2", 4)


def response_bytes(run: dict[str, Any]) -> int:
    """The bytes that the server sent in a run."""
    return int(run["received_bytes"])


def moments(run: dict[str, Any], which: str) -> int:
    """Moments of a run: all, or those cached by the server."""
    return int(sum(level[which] for level in run["levels"]))


def measure(binary: Path, data: Path, case: Case, repetitions: int) -> dict[str, Any]:
    """Encrypts and uploads once, mines each way `repetitions` times and takes the medians.

    Neither cells nor moments are kept for these. Then both are, and it is mined with a higher
    minimum support, with this one, and by cells with this one again.
    """
    with tempfile.TemporaryDirectory(prefix="oboro-bench-") as directory:
        oboro = Oboro(binary, Path(directory))
        oboro.run("keygen")
        bundle = oboro.work / "data.oboro"
        rare = ["--min-item-support", case.min_item_support] if case.min_item_support else []
        length = str(case.max_len)
        encrypted = oboro.run("encrypt", data, "--max-len", length, "--out", bundle, *rare)
        with oboro.serve("--moment-cache", "0") as server:
            uploaded = oboro.run("upload", bundle)
            query: list[str | Path] = [
                "mine",
                bundle,
                "--min-support",
                case.min_support,
                "--verify",
                data,
            ]

            def mine(*options: str) -> list[dict[str, Any]]:
                return [oboro.run(*query, *options) for _ in range(repetitions)]

            runs = mine("--keep-cells", "0")
            by_moments = mine("--trust-server")
            server_peak = peak_bytes(server)
            asking_all = mine("--trust-server", "--no-deduction")
        oboro.run("trust", "reset", bundle)
        with oboro.serve():
            support = float(case.min_support)
            higher = f"{min(1.25 * support, (1 + support) / 2):.6f}"
            oboro.run("mine", bundle, "--min-support", higher)
            lower = oboro.run(*query)
            kept = mine()
            oboro.run("mine", bundle, "--min-support", higher, "--trust-server")
            again = oboro.run(*query, "--trust-server")
    levels = runs[0]["levels"]
    by_cells = [*runs, lower, *kept]
    trusting = [*by_moments, *asking_all, again]
    return {
        "data": case.file,
        "min_support": case.min_support,
        "max_len": case.max_len,
        "transactions": encrypted["transactions"],
        "items": encrypted["items"],
        "itemsets": len(runs[0]["itemsets"]),
        "itemsets_by_length": [level["frequent"] for level in levels],
        "candidates_by_length": [level["candidates"] for level in levels],
        "asked_by_length": [level["asked"] for level in levels],
        "columns": runs[0]["columns"],
        "new_columns_after_higher_support": lower["new_columns"],
        "verified": all(run["matches_plaintext"] for run in [*by_cells, *trusting])
        and all(run["answers"] == "verified" for run in by_cells)
        and all(run["answers"] == "unverified" for run in trusting),
        "plaintext_file_bytes": data.stat().st_size,
        "stored_bytes": encrypted["stored_bytes"],
        "response_bytes": response_bytes(runs[0]),
        "response_bytes_cells_after_higher_support": response_bytes(lower),
        "response_bytes_kept": response_bytes(kept[0]),
        "response_bytes_moments": response_bytes(by_moments[0]),
        "response_bytes_asking_all": response_bytes(asking_all[0]),
        "encrypt_seconds": encrypted["encrypt_seconds"],
        "upload_seconds": uploaded["upload_seconds"],
        "first_mine_seconds": runs[0]["seconds"],
        "mine_seconds": median(run["seconds"] for run in runs),
        "mine_seconds_kept": median(run["seconds"] for run in kept),
        "mine_seconds_moments": median(run["seconds"] for run in by_moments),
        "mine_seconds_asking_all": median(run["seconds"] for run in asking_all),
        "mine_seconds_cells_after_higher_support": lower["seconds"],
        "mine_seconds_after_higher_support": again["seconds"],
        "server_seconds_moments": median(server_seconds(run) for run in by_moments),
        "server_seconds_after_higher_support": server_seconds(again),
        "moments": moments(again, "moments"),
        "moments_known_after_higher_support": moments(again, "known_moments"),
        "plaintext_eclat_seconds": median(run["plaintext_seconds"] for run in runs),
        "peak_server_bytes": server_peak,
    }


def main() -> int:
    """Runs all cases whose files exist."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oboro", type=Path, required=True, help="the command to measure")
    parser.add_argument("--data", type=Path, required=True, help="the directory of the data sets")
    parser.add_argument("--repetitions", type=int, default=5, help="times each is mined")
    arguments = parser.parse_args()
    binary = arguments.oboro.resolve()
    results = []
    with tempfile.TemporaryDirectory(prefix="oboro-bench-") as directory:
        generated = Path(directory) / GENERATED.file
        subprocess.run([binary, "generate", generated], stdout=subprocess.DEVNULL, check=True)
        for case in [GENERATED, *CASES]:
            path = generated if case is GENERATED else arguments.data / case.file
            if not path.exists():
                print(f"{path} is not there: left out", file=sys.stderr)
                continue
            results.append(measure(binary, path, case, arguments.repetitions))
            print(json.dumps(results[-1]), flush=True)
    summary = {
        "bench": "mining",
        "verified": all(result["verified"] for result in results),
        "data_sets": len(results),
        "threads": os.cpu_count(),
        "peak_client_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10,
    }
    print(json.dumps(summary))
    return 0 if summary["verified"] else 1


if __name__ == "__main__":
    sys.exit(main())
