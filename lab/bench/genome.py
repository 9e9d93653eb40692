"""Searches a panel: Oboro, and Microsoft SEAL on the same data, in one run.

Run by `make bench-genome`. Prints the lines of `oboro-lab genome`, one for SEAL (see
genome_library.py), and a summary with the ratio, the aims and the paper's finding of its section
3.1 last. lab/FIELDS.md explains the fields.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import genome_library
from machine import report
from ssd_machine import finding

# What two cores should need at most.
AIMS = {
    "panel_server_ms": 20,
    "panel_client_ms": 20,
    "panel_bytes": 400_000,
    "lambda_server_ms": 200,
    "lambda_bytes": 2_000_000,
}

# The searched files, if present; otherwise the command generates data of the same shape.
FILES = {
    "omni": "omni-chr20.vcf.gz",
    "lambda": "lambda_virus.fa.gz",
    "ecoli": "ecoli-NC_008253.fna.gz",
}


def oboro(arguments: argparse.Namespace, export: Path) -> list[dict[str, Any]]:
    """The lines of `oboro-lab genome`, copied; its summary is the last."""
    command = [str(arguments.lab), "genome", "--json", "--export", str(export)]
    command += ["--threads", str(arguments.threads)]
    for option in ("omni", "lambda", "ecoli"):
        file = arguments.data / FILES[option]
        if file.exists():
            command += [f"--{option}", str(file)]
    command += ["--quick"] * arguments.quick
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stdout or ():
            lines.append(json.loads(line))
            report(lines[-1])
    if process.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed; what it said stands above")
    return lines


def where_time_goes(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The finding of section 3.1, judged by the profile."""
    profile = next((line for line in lines if line["bench"] == "genome profile"), {})
    shares = {library["library"]: library["share"] for library in profile.get("libraries", [])}
    measured = {
        "shares": shares,
        "arithmetic_share": profile.get("arithmetic_share"),
        "instructions_per_cycle": profile.get("instructions_per_cycle"),
        "papers_share": "at least 0.8",
        "papers_instructions_per_cycle": 2.79,
    }
    claim = "most of the server's time is arithmetic, which keeps the processor busy"
    holds = profile["arithmetic_share"] >= 0.8 if "arithmetic_share" in profile else None
    return finding("ssd-genome-search", claim, measured, holds)


def library(panel: genome_library.Panel, runs: int) -> dict[str, Any]:
    """The same search on SEAL."""
    measured = genome_library.search(panel, runs)
    return {
        "bench": "genome library",
        "fhe_library": "Microsoft SEAL, BFV, N = 4096, two 36-bit limbs, a haplotype a slot",
        "fhe_library_server_ms": 1e3 * measured.server_seconds,
        "fhe_library_client_ms": 1e3 * measured.client_seconds,
        "fhe_library_sent_bytes": measured.sent_bytes,
        "fhe_library_received_bytes": measured.received_bytes,
        "verified": measured.verified,
    }


def ratios(of: dict[str, Any], threads: int) -> dict[str, float]:
    """SEAL's over Oboro's; SEAL's time as if its one core's work were shared without loss."""
    sent_and_received = of["fhe_library_sent_bytes"] + of["fhe_library_received_bytes"]
    return {
        "speedup_over_fhe_library": of["fhe_library_server_ms"] / threads / of["panel_server_ms"],
        "fhe_library_bytes_over_panel_bytes": sent_and_received / of["panel_bytes"],
    }


def judge(summary: dict[str, Any], field: str, most: float) -> dict[str, Any]:
    """An aim with its measurement."""
    value = summary[field]
    return {"field": field, "aim": f"at most {most}", "value": value, "met": value <= most}


def main() -> int:
    """Oboro, then SEAL."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", type=Path, required=True, help="oboro-lab, beside oboro")
    parser.add_argument("--data", type=Path, required=True, help="where files may be")
    parser.add_argument("--threads", type=int, default=2, help="of Oboro's server")
    parser.add_argument("--runs", type=int, default=20, help="searches with SEAL")
    parser.add_argument("--quick", action="store_true", help="less than two minutes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oboro-bench-") as directory:
        lines = oboro(arguments, Path(directory))
        searched = lines[-1]
        panel = genome_library.Panel.read(Path(directory))
    peer = library(panel, arguments.runs)
    report(peer)
    summary = searched | peer | {"bench": "genome"}
    summary |= ratios(summary, arguments.threads)
    summary["aims"] = [judge(summary, field, most) for field, most in AIMS.items()]
    summary["findings"] = [where_time_goes(lines)]
    summary["verified"] = searched["verified"] and peer["verified"]
    report(summary)
    return 0 if summary["verified"] else 1


if __name__ == "__main__":
    sys.exit(main())
