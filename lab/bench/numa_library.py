"""Table 6-3 of the paper on NUMA with an ordinary library, SEAL: one run with one placement.

`oboro-lab numa --library` runs this, once for each run, way and placement, and prints the rows. All
slots of a ciphertext hold transactions, so that the work is what Oboro's rows do: the same counts
of the same number of transactions, at 128 bits of security. The paper fills 915 slots; `make
bench-table6` has that. Processes are bound to nodes, blocks are dealt to them, and the ciphertext
of a block is made while new pages come from the node where the placement wants it. What the bits
are changes no time; they are random, as in the paper. Prints one JSON object:

    seconds            products, sums and freeing of all transactions, in the slowest process
    measured_fraction  the part of the transactions that was counted; seconds are divided by it
    products           of two ciphertexts, in all transactions
    near_share         of the bytes that came while encrypting, those on the node that reads them
    verified           every sum decrypts to the right count
"""

import argparse
import os
import tempfile
from pathlib import Path

import fhe_library
import numpy as np
from machine import report
from memory_nodes import PLACEMENTS, seats


def random_columns(file: Path, items: int, transactions: int) -> None:
    """Columns as `oboro-lab support --export` writes them."""
    words = np.random.default_rng(1).integers(
        0, 1 << 64, size=(items, -(-transactions // 64)), dtype=np.uint64
    )
    if transactions % 64:
        words[:, -1] &= np.uint64((1 << transactions % 64) - 1)
    words.astype("<u8").tofile(file)


def main() -> None:
    """Counts all pairs once, on fresh ciphertext."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--way", choices=fhe_library.STEPS, required=True)
    parser.add_argument("--placement", choices=PLACEMENTS, required=True)
    parser.add_argument("--items", type=int, required=True)
    parser.add_argument("--transactions", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True, help="processes, dealt to the nodes")
    parser.add_argument("--blocks", type=int, help="count no more than these, and scale")
    parser.add_argument("--preload", type=Path, help="an allocator, as a shared library")
    arguments = parser.parse_args()
    if arguments.preload is not None:
        # For the processes that count, which are started anew.
        os.environ["LD_PRELOAD"] = str(arguments.preload.resolve())
    with tempfile.TemporaryDirectory(prefix="oboro-bench-") as directory:
        file = Path(directory) / "columns.u64"
        random_columns(file, arguments.items, arguments.transactions)
        data = fhe_library.Data(
            file, arguments.items, arguments.transactions, slots=fhe_library.DEGREE
        )
        measured = fhe_library.count_pairs(
            data,
            arguments.way,
            arguments.blocks or data.blocks,
            arguments.threads,
            runs=1,
            seats=seats(arguments.threads, arguments.placement),
        )
    near = [share for share in measured.near_shares if share is not None]
    report(
        {
            "seconds": measured.counting_seconds / measured.fraction,
            "measured_fraction": measured.fraction,
            "products": round(measured.products / measured.fraction),
            "near_share": sum(near) / len(near) if near else None,
            "verified": measured.verified,
        }
    )


if __name__ == "__main__":
    main()
