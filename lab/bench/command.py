"""The `oboro` command as benches run it: as users do, in processes over loopback."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Oboro:
    """The command under test, in a directory of its own."""

    def __init__(self, binary: Path, work: Path) -> None:
        self.binary = binary
        self.work = work
        # Where the server that is served last shows its metrics.
        self.monitor = ""
        self.environment = {"OBORO_KEY": str(work / "oboro.key"), "OBORO_LOG": "warn"}

    def run(self, *arguments: str | Path) -> Any:
        """Runs a command with `--json` and returns its result."""
        done = subprocess.run(
            [self.binary, "--json", *arguments],
            env=os.environ | self.environment,
            stdout=subprocess.PIPE,
            check=True,
        )
        return json.loads(done.stdout)

    @contextmanager
    def serve(self, *options: str) -> Iterator[int]:
        """A server for as long as the context lasts; its process id."""
        listen: list[str | Path] = ["serve", "--listen", "127.0.0.1:0"]
        command = [self.binary, "--json", *listen, *options, "--data", self.work / "store"]
        with subprocess.Popen(
            command, env=os.environ | self.environment, stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                assert server.stdout is not None
                told = json.loads(server.stdout.readline())
                self.environment["OBORO_SERVER"] = told["listening"]
                self.monitor = told.get("monitor", "")
                yield server.pid
            finally:
                server.terminate()


def server_seconds(run: dict[str, Any]) -> float:
    """The server's time for moments in a run."""
    return float(sum(level["server_seconds"] for level in run["levels"]))
