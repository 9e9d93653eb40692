"""Makes association rules with the Python package and with mlxtend, of the same frequent itemsets.

Prints one JSON object. It needs the package installed beside mlxtend, as in .venv-python:

    .venv-python/bin/python lab/bench/rules.py
"""

import argparse
from time import perf_counter

import mlxtend.frequent_patterns as mlxtend
import numpy as np
import pandas as pd
from machine import report, seconds

import oboro


def made_up(items: int) -> pd.DataFrame:
    """Frequent itemsets of 2,000 transactions, each cell True with a probability of 70 %."""
    cells = np.random.default_rng(1).random((2000, items)) < 0.7
    frame = pd.DataFrame(cells, columns=[f"item {number}" for number in range(items)])
    itemsets: pd.DataFrame = mlxtend.apriori(frame, min_support=0.02, use_colnames=True)
    return itemsets


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=11)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    itemsets = made_up(given.items)
    begun = perf_counter()
    expected = mlxtend.association_rules(itemsets, metric="lift", min_threshold=1.0)
    theirs = perf_counter() - begun
    found = oboro.association_rules(itemsets, metric="lift", min_threshold=1.0)
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    ours = seconds(
        lambda: oboro.association_rules(itemsets, metric="lift", min_threshold=1.0), given.runs
    )
    report(
        {
            "bench": "rules",
            "verified": True,
            "itemsets": len(itemsets),
            "rules": len(found),
            "mlxtend_seconds": theirs,
            "seconds": ours,
            "faster": theirs / ours,
        }
    )


if __name__ == "__main__":
    main()
