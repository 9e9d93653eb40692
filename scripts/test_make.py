"""Targets, their documentation and the lists that name them belong together."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import benches
import nightly

ROOT = Path(__file__).resolve().parents[1]
MAKEFILES = [ROOT / "Makefile", ROOT / "lab" / "lab.mk", ROOT / "scripts" / "nightly.mk"]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "fcmalloc" / "README.md"]
PUBLIC = {
    name
    for path in MAKEFILES
    for name in re.findall(r"^([a-z0-9-]+):.*## ", path.read_text(), re.MULTILINE)
}


def named(document: Path) -> set[str]:
    """The targets that a document names, in code or at the beginning of a line of it."""
    return set(re.findall(r"(?:^|`)make ([a-z][a-z0-9-]*)", document.read_text(), re.MULTILINE))


def test_every_public_target_is_documented() -> None:
    for_whom = named(ROOT / "CONTRIBUTING.md") | named(ROOT / "docs" / "performance.md")
    assert PUBLIC - {"help"} <= for_whom


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_targets_that_exist(document: Path) -> None:
    assert named(document) <= PUBLIC


def versions(lock: str) -> dict[str, set[str]]:
    """The versions of each package in a lock file."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r'name = "(.+)"\nversion = "(.+)"', (ROOT / lock).read_text()):
        found.setdefault(name, set()).add(version)
    return found


def test_the_laboratory_has_the_versions_of_what_it_measures() -> None:
    product, lab = versions("Cargo.lock"), versions("lab/Cargo.lock")
    both = product.keys() & lab.keys()
    assert "oboro-client" in both
    # Peers of one, and tests of the other, may bring other versions besides.
    assert {name for name in both if product[name].isdisjoint(lab[name])} == set()


def test_every_bench_is_checked() -> None:
    runners = {"bench-smoke", "bench-full"}
    assert set(benches.BENCHES) == {name for name in PUBLIC if name.startswith("bench-")} - runners


def test_every_nightly_step_is_a_target_and_documented() -> None:
    assert all(step.command[0] == "make" and step.command[1] in PUBLIC for step in nightly.STEPS)
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert all(f"| `{step.name}` |" in contributing for step in nightly.STEPS)


SUMMARY = json.dumps({"bench": "ring", "verified": True})


@pytest.mark.parametrize(
    ("printed", "wrong"),
    [
        (f'{{"case": 1}}\n{SUMMARY}\n', None),
        ("", "did not print the summary 'ring' last"),
        (f'{SUMMARY}\n{{"case": 1}}\n', "did not print the summary 'ring' last"),
        (f"building\n{SUMMARY}\n", "no JSON: 'building'"),
        (f"3\n{SUMMARY}\n", "no object: '3'"),
        ('{"bench": "ring", "verified": false}\n', "wrong about a result"),
    ],
)
def test_what_a_bench_prints_is_checked(printed: str, wrong: str | None) -> None:
    found = benches.problem(printed, "ring")
    assert found is None if wrong is None else found is not None and wrong in found


def first_calls(tmp_path: Path, target: str) -> list[str]:
    """The arguments of the calls of Cargo by a target, up to the first one, which fails."""
    log = tmp_path / "log"
    cargo = tmp_path / "cargo"
    cargo.write_text(f'#!/bin/sh\necho "$*" >>"{log}"\nexit 1\n')
    cargo.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["make", "--directory", str(ROOT), target, "SETUP=true"]
    made = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert made.returncode != 0
    return log.read_text().splitlines()


@pytest.mark.parametrize("target", ["test", "test-rust", "test-lab"])
def test_packages_are_fetched_before_anything_is_compiled(tmp_path: Path, target: str) -> None:
    assert first_calls(tmp_path, target) == ["fetch --locked"]


def test_ci_begins_with_the_tests_and_empty_caches() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    steps = re.findall(r"^step (\w+)", script, re.MULTILINE)
    assert steps[0] == "test"
    assert "CARGO_HOME=$downloads/cargo PIP_CACHE_DIR=$downloads/pip" in script
