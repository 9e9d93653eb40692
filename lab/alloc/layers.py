"""What it takes to change the allocator below a program, and the program itself: Table 2 of the
FCMalloc paper, measured."""

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

from alloc import measure
from allocators import BENCH, Allocator, servers
from jobs import KIB, Job
from launch import launch

# A program in Python that prints what the others do, and asks malloc for every object.
IN_PYTHON = """
import json
words = {str(i * i): [i] for i in range(100000)}
print(json.dumps({"start": 0, "phases": {}, "peak_bytes": 0, "finished": 0,
                  "verified": sum(map(len, words)) == 953751}))
"""


def languages(build: Path) -> dict[str, list[str]]:
    return {
        "C": [str(build / "patterns"), "larson", "2", "100000"],
        "C++": [str(build / "ntl-support"), "2", str(32 * KIB), "1"],
        "Rust": [str(build / "cargo" / "release" / "fhe-support"), "2", "1"],
        "Python": [sys.executable, "-Sc", IN_PYTHON],
    }


def malloc_level(build: Path, allocator: Allocator, timeout: float) -> dict[str, Any]:
    """The same binaries under one allocator."""
    environment = allocator.environment(Path()) | {"PYTHONMALLOC": "malloc"}
    outcomes, binaries = {}, {}
    for language, command in languages(build).items():
        program = Path(command[0])
        if not program.is_file():
            outcomes[language] = f"{program.name} is not built: make -C lab/alloc"
            continue
        outcomes[language] = launch(command, environment, timeout).outcome
        binaries[language] = hashlib.sha256(program.read_bytes()).hexdigest()[:16]
        if outcomes[language] == "ok" and allocator.library is not None:
            outcomes[language] = served(command, environment, allocator.library)
    return {
        "bench": "alloc-paper",
        "part": "layers",
        "level": "malloc",
        "allocator": allocator.name,
        "outcomes": outcomes,
        "binaries": binaries,
        "changed_lines": 0,
    }


def served(command: list[str], environment: dict[str, str], library: Path) -> str:
    """Whether a program takes malloc from a library: ok, or what else it does."""
    try:
        found = servers(command, environment)[0]
    except subprocess.TimeoutExpired:
        return "no end while the dynamic linker speaks of it"
    return "ok" if found == {library.resolve()} else "its calls of malloc go elsewhere"


def library_level(
    build: Path, allocators: list[Allocator], runs: int, timeout: float
) -> dict[str, Any]:
    """The program on NTL with all its buffers allocated in advance, which is that program changed,
    beside the unchanged one on each allocator."""
    command = [str(build / "ntl-support"), "2", str(32 * KIB), "4"]
    job = Job("NTL", 2, command)
    known = {"bench": "alloc-paper", "part": "layers", "level": "library"}
    if job.missing is not None:
        return known | {"outcome": job.missing}
    who = [(a.name, command, a.environment(Path())) for a in allocators if not a.planned]
    changed, *others = measure(
        job, [("beforehand", [*command, "preallocated"], {}), *who], runs, timeout
    )
    source = (BENCH / "ntl_support.cpp").read_text().splitlines()
    return known | {
        "outcome": changed.outcome,
        "languages": ["C++"],
        "changed_lines": sum("preallocated_" in text or "scratch_" in text for text in source),
        "main_over_malloc_level": {
            other.contestant: changed.over(other, lambda run: run.main("wall"))
            for other in others
            if other.ok and changed.ok
        },
    }
