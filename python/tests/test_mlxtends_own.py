"""mlxtend's own tests, run with Oboro's functions in place of mlxtend's, and where these differ."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

HERE = Path(__file__).parent / "mlxtend_tests"
# Of the tests there.
VERSION = "0.25.0"

NAMES_COLUMN_AND_ROW = "the message names the column and the row of an entry that is not binary"
LABELS_OF_SPARSE_FRAMES = "sparse frames may have any integers as labels"
NUMBER_OF_CANDIDATES = "verbose prints candidates by length; mlxtend's number is of their items"
NO_TIMES = "tests measure no times"
EXPECTED = {
    **{
        f"{module}.TestErrors::{test}": reason
        for module in ("test_apriori", "test_fpgrowth", "test_fpmax")
        for test, reason in {
            "test_raise_error_if_input_is_not_binary": NAMES_COLUMN_AND_ROW,
            "test_sparsedataframe_notzero_column": LABELS_OF_SPARSE_FRAMES,
        }.items()
    },
    **{
        f"test_apriori.{kind}::test_low_memory_flag": NUMBER_OF_CANDIDATES
        for kind in ("TestApriori", "TestAprioriBoolInput")
    },
}
LEFT_OUT = {"test_fpgrowth.py::test_fpgrowth_completes_within_5_seconds": NO_TIMES}

REPLACE = """
import mlxtend.frequent_patterns as theirs
import oboro.frequent_patterns as ours

for name in ("apriori", "association_rules", "fpgrowth", "fpmax"):
    setattr(theirs, name, getattr(ours, name))
"""


def test_mlxtends_own_tests_pass_but_for_the_differences_listed(tmp_path: Path) -> None:
    mlxtend = pytest.importorskip("mlxtend", reason="mlxtend is not installed")
    assert mlxtend.__version__ == VERSION, f"take the tests of this version: {HERE / 'README.md'}"
    (tmp_path / "replace.py").write_text(REPLACE)
    report = tmp_path / "report.xml"
    options = ["--noconftest", "-c", "/dev/null", "-W", "ignore", "-p", "no:cacheprovider"]
    left_out = [word for test in LEFT_OUT for word in ("--deselect", test)]
    options += ["-p", "replace", f"--rootdir={HERE}", f"--junit-xml={report}"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *left_out, str(HERE)],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    failed: set[str] = set()
    passed: set[str] = set()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        (passed if len(case) == 0 else failed).add(name)
    assert failed == EXPECTED.keys(), ran.stdout
    assert len(passed) > 50
    assert f"{len(LEFT_OUT)} deselected" in ran.stdout
