"""The command and the package give one answer to one question."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

import oboro
from conftest import Serving, oboro_command
from oboro.errors import InputError

# Three of four transactions have a, b and c; one has only d.
FRAME = pd.DataFrame({name: [1, 1, 1, 0] for name in "abc"} | {"d": [0, 0, 0, 1]})
# Encrypted for pairs.
LONGEST = 2


class Mined(NamedTuple):
    itemsets: dict[frozenset[str], int]
    min_support: int
    # The length at which the search ended, if that may have cut off itemsets.
    max_len: int | None


class Both:
    """An uploaded dataset, mined by the command and by the package."""

    def __init__(self, home: Path, url: str) -> None:
        keys = oboro.Keys.generate()
        keys.save(home / "key")
        encrypted = oboro.encrypt(FRAME, keys, max_len=LONGEST, path=home / "rows.oboro")
        self._dataset = oboro.connect(url).upload(encrypted)
        self._keys, self._home, self._url = keys, home, url

    def command(self, options: str) -> Mined | str:
        """What is found, or why nothing is."""
        words = [oboro_command(), "mine", "rows.oboro", "--key", "key", "--server", self._url]
        # Otherwise a run that was trusted would have effects on later ones.
        words += ["--keep-cells", "0", "--out", "found.json", *options.split()]
        ran = subprocess.run(words, cwd=self._home, capture_output=True, text=True)
        if ran.returncode != 0:
            return ran.stderr
        found: dict[str, Any] = json.loads((self._home / "found.json").read_text())
        itemsets = {frozenset(it["items"]): it["support"] for it in found["itemsets"]}
        return Mined(itemsets, found["min_support"], found["max_len"])

    def package(self, **options: Any) -> Mined | str:
        try:
            found = self._dataset.apriori(self._keys, use_colnames=True, keep_cells=0, **options)
        except InputError as error:
            return str(error)
        said = found.attrs["oboro"]
        supports = (found["support"] * said["transactions"]).round().astype(int)
        itemsets = dict(zip(found["itemsets"], supports.tolist(), strict=True))
        return Mined(itemsets, said["min_support"], said["max_len"])


@pytest.fixture
def both(tmp_path: Path, serving: Serving) -> Both:
    return Both(tmp_path, serving.url)


# Options of each, how many itemsets are found, and where the search ended.
FOUND: list[tuple[str, dict[str, Any], int, int | None]] = [
    ("--min-support 0.5 --max-len 1", {"min_support": 0.5, "max_len": 1}, 3, 1),
    ("--min-support 0.5 --max-len 2", {"min_support": 0.5, "max_len": 2}, 6, 2),
    # Beyond what the dataset was encrypted for, and beyond the number of items.
    ("--min-support 0.5 --max-len 3", {"min_support": 0.5, "max_len": 3}, 7, None),
    ("--min-support 0.5 --max-len 99", {"min_support": 0.5, "max_len": 99}, 7, None),
    # All transactions, a number of them, one.
    ("--min-support 1.0 --max-len 9", {"min_support": 1.0, "max_len": 9}, 0, None),
    ("--min-support 100% --max-len 9", {"min_support": 1.0, "max_len": 9}, 0, None),
    ("--min-support 3 --max-len 9", {"min_support": 3, "max_len": 9}, 7, None),
    ("--min-support 1 --max-len 9", {"min_support": 1 / 4, "max_len": 9}, 8, None),
    # Where the server counts, no limit is that of the dataset.
    ("--min-support 0.5 --answers moments", {"min_support": 0.5, "answers": "moments"}, 6, 2),
    ("--min-support 0.5 --trust-server", {"min_support": 0.5, "trust_server": True}, 6, 2),
]
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("--min-support 0", {"min_support": 0.0}, "0", "0.0"),
    ("--min-support 1.5", {"min_support": 1.5}, "1.5", "1.5"),
    ("--min-support 0.5 --max-len 0", {"min_support": 0.5, "max_len": 0}, "--max-len", "max_len"),
    (
        "--min-support 0.5 --max-len 3 --trust-server",
        {"min_support": 0.5, "max_len": 3, "trust_server": True},
        "choose --max-len 2",
        "choose max_len=2",
    ),
    (
        "--min-support 0.5 --max-len 3 --answers moments",
        {"min_support": 0.5, "max_len": 3, "answers": "moments"},
        "give --max-len 2",
        "give max_len=2",
    ),
]


def test_command_and_package_find_the_same(both: Both) -> None:
    for options, arguments, number, ended in FOUND:
        found = both.command(options)
        assert isinstance(found, Mined), found
        assert (len(found.itemsets), found.max_len) == (number, ended), options
        assert both.package(**arguments) == found, options


def test_command_and_package_refuse_the_same(both: Both) -> None:
    for options, arguments, command_says, package_says in REFUSED:
        refusals = both.command(options), both.package(**arguments)
        for refusal, said in zip(refusals, (command_says, package_says), strict=True):
            assert isinstance(refusal, str), (options, refusal)
            assert said in refusal, options


def test_a_minimum_support_of_one_is_not_guessed(both: Both) -> None:
    refusal = both.package(min_support=1)
    assert isinstance(refusal, str)
    assert refusal.startswith("min_support=1 may mean all transactions or one; give 1.0 for all")


def test_without_a_length_the_command_ends_at_the_datasets_and_says_so(both: Both) -> None:
    """The package goes on, as mlxtend does."""
    command, package = both.command("--min-support 0.5"), both.package(min_support=0.5)
    assert isinstance(command, Mined) and isinstance(package, Mined)
    assert (len(command.itemsets), command.max_len) == (6, LONGEST)
    assert package == both.package(min_support=0.5, max_len=None)
    assert (len(package.itemsets), package.max_len) == (7, None)
