"""What the primal attack costs, beside the standard's count and the table in the documents."""

from __future__ import annotations

import json
import subprocess
import sys
from math import log2
from pathlib import Path

import pytest

import core_svp

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("log2_n, log2_q, bits", [(12, 84, 139), (13, 196, 111), (15, 868, 95)])
def test_rings_have_the_bits_that_the_documents_say(
    log2_n: int, log2_q: float, bits: float
) -> None:
    assert core_svp.core_svp(log2_n, log2_q)["core_svp_bits"] == pytest.approx(bits, abs=1)


@pytest.mark.parametrize("log2_n, log2_q", [(12, 109), (13, 218), (14, 438), (15, 881)])
def test_the_standard_counts_128_bits_at_its_bounds(log2_n: int, log2_q: float) -> None:
    """Its estimates add 16.4 bits for a call of the oracle and take 8 d calls."""
    attack = core_svp.core_svp(log2_n, log2_q)
    dimension = 2**log2_n + attack["samples"] + 1
    bits = attack["core_svp_bits"] + 16.4 + log2(8 * dimension)
    assert bits == pytest.approx(128, abs=1)


def test_a_larger_modulus_or_a_smaller_degree_costs_bits() -> None:
    bits = [core_svp.core_svp(12, log2_q)["core_svp_bits"] for log2_q in (28, 56, 84, 109)]
    assert bits == sorted(bits, reverse=True)
    assert core_svp.core_svp(12, 84)["core_svp_bits"] < core_svp.core_svp(13, 84)["core_svp_bits"]


def test_the_number_of_samples_is_the_best_one() -> None:
    """Also where the search for it might stop at a wrong place."""
    best = core_svp.best_samples(475, 4096, 84)
    gaps = {m: core_svp.log2_gap(475, m, 4096, 84) for m in range(1, 4 * 4096, 7)}
    assert core_svp.log2_gap(475, best, 4096, 84) >= max(gaps.values())


def test_the_table_in_the_documents_is_what_the_script_prints() -> None:
    script = ROOT / "scripts/core_svp.py"
    printed = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True
    ).stdout
    table = (ROOT / "docs/cryptography.md").read_text(encoding="utf-8")
    for line in printed.splitlines():
        ring = json.loads(line)
        row = "| {degree} | {log2_q} | {block} | {core_svp_bits} |".format(
            degree=2 ** ring["log2_n"], **ring
        )
        assert row in table, f"docs/cryptography.md lacks {row!r}"
