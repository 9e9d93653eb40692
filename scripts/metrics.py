"""Prints the size of the project as one JSON object: lines of code, words, dependencies.

A line of code is neither blank nor a comment nor part of `#[cfg(test)]`. With `--builds` the
release build of the command is timed, too, from an empty target directory.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CRATES = ROOT / "crates"

# A comment, a string or a character, whichever begins first; lifetimes are none of them.
TOKENS = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<text>b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^\n]+?|[^\\'\n])')
    """,
    re.DOTALL | re.VERBOSE,
)
TEST_ITEM = re.compile(r"#\[cfg\((?:test|all\(test[^\]]*)\)\]\s*(?:#\[[^\]]*\]\s*)*")
# The names that such types have, or had.
ADMISSION = re.compile(r"struct (?:\w*Semaphore|Shares|Permits|FairQueue|MemoryBudget|Memory)\b")
TEST_MODULE = re.compile(TEST_ITEM.pattern + r"(?:pub(?:\([^)]*\))? )?mod (\w+);")


def without_comments(source: str) -> str:
    """The source with comments removed, and strings of several lines as long as they are."""
    return TOKENS.sub(lambda it: "" if it["comment"] else it[0], source)


def blanked(source: str) -> str:
    """The source with strings and characters blanked: brackets in them do not count."""
    return TOKENS.sub(lambda it: re.sub(r"[^\n]", "_", it[0]), source)


def without_tests(source: str) -> str:
    """The source without items under `#[cfg(test)]`; comments must be removed before."""
    shape = blanked(source)
    kept, at = [], 0
    for item in TEST_ITEM.finditer(shape):
        if item.start() < at:
            continue
        kept.append(source[at : item.start()])
        at = end_of_item(shape, item.end())
    return "".join([*kept, source[at:]])


def end_of_item(shape: str, start: int) -> int:
    """Where the item that begins here ends: after its semicolon or its closing brace."""
    depth = 0
    for at in range(start, len(shape)):
        match shape[at]:
            case "(" | "[" | "{":
                depth += 1
            case ")" | "]" | "}":
                depth -= 1
                if depth == 0 and shape[at] == "}":
                    return at + 1
            case ";" if depth == 0:
                return at + 1
    return len(shape)


def test_files(sources: dict[Path, str]) -> set[Path]:
    """Files and folders of modules that are declared under `#[cfg(test)]`."""
    found = set()
    for path, source in sources.items():
        folder = path.parent if path.stem in ("mod", "lib", "main") else path.with_suffix("")
        for name in TEST_MODULE.findall(blanked(source)):
            found |= {folder / f"{name}.rs", folder / name}
    return found


def code_lines(source: str) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in source.splitlines())


def product_lines(crate: Path) -> int:
    """Lines of code of a crate without its tests."""
    files = sorted((crate / "src").rglob("*.rs"))
    sources = {path: without_comments(path.read_text()) for path in files}
    tests = test_files(sources)
    return sum(
        code_lines(without_tests(source))
        for path, source in sources.items()
        if not tests & {path, *path.parents}
    )


def test_lines(folder: Path) -> int:
    """Lines of code in a folder of tests."""
    return sum(code_lines(without_comments(path.read_text())) for path in folder.rglob("*.rs"))


def words(paths: list[Path]) -> int:
    """Words of documents, as `wc -w` counts them."""
    return sum(len(path.read_text().split()) for path in paths)


def admission_primitives() -> int:
    """Types of the product that queue requests for a shared number of slots or bytes."""
    sources = [path.read_text() for path in CRATES.glob("*/src/**/*.rs")]
    return sum(len(ADMISSION.findall(without_comments(source))) for source in sources)


def packages_of(crate: str) -> list[str]:
    """The packages that a crate is built from."""
    command = ["cargo", "tree", "--locked", "-p", crate, "--edges", "normal", "--prefix", "none"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted({line.split()[0] for line in listed.splitlines() if line})


def build_seconds() -> float:
    """Seconds of a release build of the command from nothing but fetched packages."""
    with tempfile.TemporaryDirectory() as target:
        command = ["cargo", "build", "--quiet", "--release", "--locked", "-p", "oboro"]
        began = time.monotonic()
        subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"CARGO_TARGET_DIR": target})
        return round(time.monotonic() - began, 1)


def main() -> None:
    """Prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--builds", action="store_true", help="time a clean release build")
    arguments = parser.parse_args()
    crates = [it.parent for it in CRATES.glob("*/Cargo.toml")]
    lines = Counter({crate.name: product_lines(crate) for crate in crates})
    [(largest, most)] = lines.most_common(1)
    forbidden = {"rusqlite", "libsqlite3-sys", "object_store"}
    measured = {
        "product_lines": lines.total(),
        "largest_crate": largest,
        "largest_crate_lines": most,
        "command_test_lines": test_lines(CRATES / "cli" / "tests"),
        "docs_words": words(sorted((ROOT / "docs").glob("*.md"))),
        "readme_lines": len((ROOT / "README.md").read_text().splitlines()),
        "makefile_lines": len((ROOT / "Makefile").read_text().splitlines()),
        "admission_primitives": admission_primitives(),
        "engine_storage_packages": sorted(forbidden & set(packages_of("oboro-engine"))),
        "command_packages": len(packages_of("oboro")),
        "crates": dict(lines.most_common()),
    }
    if arguments.builds:
        measured["release_build_seconds"] = build_seconds()
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
