"""Where bytes lie and which node reads them, on a machine of four nodes that QEMU emulates.

Runs the parts of `oboro-lab numa` that do not depend on speed there (scripts/numa-vm.sh), and
prints their lines with "emulated": true and names of their own: "numa emulated traffic", "numa
emulated tasks", "numa emulated genome", and "numa emulated" last. Times are left out: emulation
shows where memory lies, not how fast it is. Where there is no such machine, the only line says why
in "skipped". Run by `make bench-numa`.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from machine import report

PARTS = "traffic,tasks,genome"
# A status of the script: what the machine is made of cannot be had.
SKIPPED = 77
# Words in the names of what depends on speed.
TIMES = ("seconds", "idle_share")


def without_times(value: Any) -> Any:
    """The same without fields that depend on speed."""
    if isinstance(value, dict):
        kept = {name: of for name, of in value.items() if not any(word in name for word in TIMES)}
        return {name: without_times(of) for name, of in kept.items()}
    return [without_times(of) for of in value] if isinstance(value, list) else value


def main() -> int:
    """Copies the lines of the emulated machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", type=Path, required=True, help="scripts/numa-vm.sh")
    parser.add_argument("--lab", type=Path, required=True, help="oboro-lab")
    arguments = parser.parse_args()
    command = [arguments.machine.resolve(), arguments.lab.resolve()]
    options = ["numa", "--json", "--quick", "--part", PARTS]
    environment = {"NUMA_VM_SECONDS": "600"} | os.environ
    done = subprocess.run([*command, *options], env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode == SKIPPED:
        report({"bench": "numa emulated", "emulated": True, "skipped": done.stdout.strip()})
        return 0
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        return 1
    for line in map(json.loads, done.stdout.splitlines()):
        name = line["bench"].replace("numa", "numa emulated", 1)
        report(without_times(line) | {"bench": name, "emulated": True})
    return 0


if __name__ == "__main__":
    sys.exit(main())
