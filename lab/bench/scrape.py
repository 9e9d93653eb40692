"""What it costs a server to show its metrics: its processor time for a scrape, as a share of a
core at Prometheus' usual interval.

Prints one JSON object a setting, the summary last. Run by `make bench-scrape`. The server has as
many namespaces as each setting says, all of which have called; metrics are by namespace.
"""

import argparse
import json
import os
import tempfile
import time
import urllib.request
from pathlib import Path

from command import Oboro
from http2 import Connection, answers, message

# Seconds between scrapes, and the most of a core that they may take.
INTERVAL, MOST = 15.0, 0.01


def processor_seconds(process: int) -> float:
    """Of all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scraped(url: str, process: int, scrapes: int) -> tuple[float, int]:
    """Processor seconds of a scrape, less those of a server that nobody asks, and its bytes."""
    begun, idle = time.monotonic(), processor_seconds(process)
    time.sleep(2)
    idle = (processor_seconds(process) - idle) / (time.monotonic() - begun)
    begun, busy = time.monotonic(), processor_seconds(process)
    size = 0
    for _ in range(scrapes):
        with urllib.request.urlopen(url + "/metrics") as page:
            size = len(page.read())
    busy = processor_seconds(process) - busy - idle * (time.monotonic() - begun)
    return max(busy, 0.0) / scrapes, size


def main() -> None:
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oboro", type=Path, required=True, help="the command")
    parser.add_argument("--quick", action="store_true", help="fewer namespaces and scrapes")
    given = parser.parse_args()
    settings, scrapes = ([1, 20], 100) if given.quick else ([1, 100, 1000], 500)
    worst = 0.0
    for namespaces in settings:
        with tempfile.TemporaryDirectory(prefix="oboro-bench-") as directory:
            oboro = Oboro(given.oboro, Path(directory))
            oboro.environment["OBORO_LOG"] = "error"
            file = oboro.work / "tokens"
            make = ["token", "new", "--tokens", str(file)]
            tokens = [oboro.run(*make, f"owner{number}")["token"] for number in range(namespaces)]
            monitor = ["--monitor", "127.0.0.1:0", "--monitor-namespaces"]
            with oboro.serve("--tokens", str(file), *monitor) as process:
                for token in tokens:
                    connection = Connection(oboro.environment["OBORO_SERVER"], token)
                    connection.call("/oboro.v1.Mining/ListDatasets", message(b""))
                    answers([connection], 1)
                seconds, size = scraped(oboro.monitor, process, scrapes)
        share = seconds / INTERVAL
        worst = max(worst, share)
        row = {"namespaces": namespaces, "bytes": size, "seconds": seconds, "share_of_core": share}
        print(json.dumps(row), flush=True)
    summary = {"bench": "scrape", "share_of_core": worst, "most": MOST, "met": worst < MOST}
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
