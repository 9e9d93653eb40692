"""Frames to mine, and a server in a process of its own, as `oboro serve` is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
import pytest

import oboro
from oboro._progress import Progress

# test_mlxtends_own.py runs these.
collect_ignore = ["mlxtend_tests"]

# A shell starts what runs in its background with interrupts ignored. Tests take them, and so do
# the programs that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def oboro_command() -> str:
    command = os.environ.get("OBORO_BIN")
    if command is None:
        pytest.skip("OBORO_BIN does not name the oboro command; make test-python builds it")
    return command


def public_data(name: str) -> Path:
    """A large public data set, which is beside the repository where it is at all."""
    path = Path(__file__).parents[3] / "shared" / "data" / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


class Encrypt(Protocol):
    def __call__(
        self, frame: pd.DataFrame, keys: oboro.Keys, *, max_len: int = 4
    ) -> oboro.Encrypted: ...


@pytest.fixture
def encrypt(tmp_path_factory: pytest.TempPathFactory) -> Encrypt:
    """Encrypts frames into directories that stay until the end of the tests."""

    def encrypt(frame: pd.DataFrame, keys: oboro.Keys, *, max_len: int = 4) -> oboro.Encrypted:
        path = tmp_path_factory.mktemp("frame") / "frame.oboro"
        return oboro.encrypt(frame, keys, max_len=max_len, path=path)

    return encrypt


def random_frame(rows: int, columns: int, seed: int = 7) -> pd.DataFrame:
    """A one-hot frame in which every column occurs, each in another fraction of the rows."""
    random = np.random.default_rng(seed)
    values = random.random((rows, columns)) < np.linspace(0.3, 0.9, columns)
    values[0] = True
    names = [chr(ord("a") + number) for number in range(columns)]
    frame: pd.DataFrame = pd.DataFrame(values, columns=names)
    return frame


class Serving:
    """`oboro serve` on loopback, which can be stopped in the middle of anything."""

    def __init__(self, data: Path, listen: str = "127.0.0.1:0") -> None:
        self.data = data
        command = [oboro_command(), "--json", "serve", "--data", str(data), "--listen", listen]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        with self._process.stdout as said:
            self.url: str = json.loads(said.readline())["listening"]

    def freeze(self) -> None:
        """It says nothing until it thaws, as if the network were slow."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def restarted(self) -> Serving:
        """Another server on the same data, at the same address."""
        self.kill()
        return Serving(self.data, self.url.removeprefix("http://"))


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    server = Serving(tmp_path / "store")
    yield server
    server.kill()


@pytest.fixture
def under_way(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Is set once a long call waits for its server."""
    told = threading.Event()

    @contextmanager
    def bar(description: str, unit: str, wanted: bool | None) -> Iterator[Progress]:
        yield lambda done, total: told.set()

    monkeypatch.setattr("oboro._server.bar", bar)
    return told
