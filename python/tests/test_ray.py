"""Counting on a Ray cluster of several nodes, which are processes of this machine: answers are
those of plaintext, whatever becomes of nodes. The owner is the `oboro` command, which knows no
Ray."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from conftest import oboro_command

pytest.importorskip("ray")
pytestmark = pytest.mark.ray

T = TypeVar("T")
MINE = "mine rows.oboro --min-support 1% --max-len 3 --verify rows.dat --trust-server"
# So that every mining asks anew.
SERVE = ["--moment-cache", "0", "--json"]


def until(what: str, condition: Callable[[], T | None]) -> T:
    """Waits for something; there is a deadline."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited too long until {what}")


class Owner:
    """A directory with a key and a dataset of four groups."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.run("keygen")
        self.run(
            "generate rows.dat --transactions 400000 --items 12 --transaction-length 4 --seed 5"
        )
        self.run("encrypt rows.dat --max-len 3")

    def start(self, line: str) -> subprocess.Popen[str]:
        """Starts `oboro` with these arguments."""
        return subprocess.Popen(
            [oboro_command(), *line.split(), "--json"],
            cwd=self.home,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, line: str) -> dict[str, Any]:
        """Runs it to its end; what it prints."""
        return self.ended(self.start(line))

    def ended(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """What a command printed that must succeed."""
        out, err = process.communicate(timeout=150)
        assert process.returncode == 0, err
        return json.loads(out) if out else {}


class Coordinator:
    """A server at home in a cluster."""

    def __init__(self, address: str, data: Path, log: Path) -> None:
        self.log = log
        command = [sys.executable, "-m", "oboro.ray", address, "--data", str(data), *SERVE]
        self.process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0"],
            text=True,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, log.read_text()
        self.url = json.loads(line)["listening"]

    def said(self, pattern: str) -> list[Any]:
        """What its log has of this pattern."""
        return re.findall(pattern, self.log.read_text())

    def workers(self) -> dict[str, int]:
        """The process of each node's last worker."""
        return {
            node: int(pid) for node, pid in self.said(r"node (\w+) has a worker, process (\d+)")
        }

    def dealing(self) -> int:
        """The number of queries that were dealt."""
        return len(self.said("dealing"))

    def stop(self) -> None:
        """Ends it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(timeout=60) == 0


class Setting:
    """A cluster with a coordinator and an owner whose dataset is uploaded."""

    def __init__(self, home: Path) -> None:
        from ray.cluster_utils import Cluster

        self.home = home
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self.owner = Owner(home)
        address = self.cluster.address
        self.coordinator = Coordinator(address, home / "store", home / "coordinator.log")
        self.nodes = [self.add_node() for _ in range(2)]
        self.owner.run(f"upload rows.oboro --server {self.coordinator.url}")

    def worker(self, node: Any) -> int:
        """The process of a node's worker."""
        return until("it has a worker", lambda: self.coordinator.workers().get(node.node_id))

    def add_node(self) -> Any:
        """One more, once it has a worker."""
        node = self.cluster.add_node(num_cpus=1)
        self.worker(node)
        return node

    def begin(self) -> subprocess.Popen[str]:
        """Starts to mine, and waits until groups are dealt."""
        before = self.coordinator.dealing()
        mining = self.owner.start(f"{MINE} --server {self.coordinator.url}")
        until("groups are dealt", lambda: self.coordinator.dealing() > before)
        return mining

    def assert_counts(self, mining: subprocess.Popen[str]) -> None:
        """What is mined is what plaintext says."""
        mined = self.owner.ended(mining)
        assert mined["matches_plaintext"] is True
        assert len(mined["itemsets"]) > 50

    def stop(self) -> None:
        """Ends everything."""
        self.coordinator.stop()
        self.cluster.shutdown()


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    setting = Setting(tmp_path_factory.mktemp("ray"))
    yield setting
    setting.stop()


def test_answers_are_those_of_plaintext(setting: Setting) -> None:
    setting.assert_counts(setting.begin())


def test_a_slow_node_does_not_hold_the_answer(setting: Setting) -> None:
    worker = setting.worker(setting.nodes[0])
    os.kill(worker, signal.SIGSTOP)
    try:
        setting.assert_counts(setting.begin())
        assert setting.coordinator.said("are late on node")
    finally:
        os.kill(worker, signal.SIGCONT)


def test_a_node_that_is_killed_is_done_without(setting: Setting) -> None:
    node = setting.add_node()
    # So that it certainly has groups when it is killed.
    os.kill(setting.worker(node), signal.SIGSTOP)
    mining = setting.begin()
    setting.cluster.remove_node(node, allow_graceful=False)
    setting.assert_counts(mining)


def test_a_worker_that_is_killed_is_replaced(setting: Setting) -> None:
    node = setting.nodes[0]
    worker = setting.worker(node)
    os.kill(worker, signal.SIGSTOP)
    mining = setting.begin()
    os.kill(worker, signal.SIGKILL)
    setting.assert_counts(mining)
    until("it has another", lambda: setting.worker(node) != worker)


def test_a_node_that_comes_takes_part(setting: Setting) -> None:
    workers = [setting.worker(node) for node in setting.nodes]
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    try:
        mining = setting.begin()
        node = setting.add_node()
        setting.assert_counts(mining)
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGCONT)
    setting.cluster.remove_node(node)


def refused(program: list[str]) -> str:
    """What a program says that must fail."""
    done = subprocess.run([sys.executable, *program], capture_output=True, text=True, timeout=150)
    assert done.returncode == 1
    return done.stderr


def test_only_the_command_speaks_of_options(setting: Setting) -> None:
    address, data = setting.cluster.address, str(setting.home / "exposed")
    command = ["-m", "oboro.ray", address, "--data", data, "--listen", "0.0.0.0:0"]
    said = refused(command)
    assert "add --tls-cert, --tls-key and --tokens" in said
    assert "Traceback" not in said
    said = refused([*command, "--max-queries", "0"])
    assert "--max-queries cannot be 0" in said
    call = f"import oboro.ray; oboro.ray.serve({data!r}, address={address!r}, listen='0.0.0.0:0')"
    assert "add tls_cert, tls_key and tokens" in refused(["-c", call])


def test_owners_do_without_ray() -> None:
    check = "import oboro, sys; sys.exit('ray' in sys.modules or 'oboro.ray' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_nothing_of_the_key_is_in_the_cluster(setting: Setting) -> None:
    key = (setting.home / "oboro.key").read_bytes()
    # docs/formats.md, "Key file".
    secret = key[72:104]
    session = Path(setting.cluster.head_node.get_session_dir_path())
    files = [path for path in session.rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" for path in files)
    files += [path for path in (setting.home / "store").rglob("*") if path.is_file()]
    assert any(path.suffix == ".seg" for path in files)
    for path in files:
        content = path.read_bytes()
        assert secret not in content, path
        assert secret.hex().encode() not in content, path


def test_damage_is_told_as_ever(setting: Setting) -> None:
    (segment,) = (setting.home / "store").rglob("00000000.seg")
    whole = segment.read_bytes()
    setting.coordinator.stop()
    damaged = bytearray(whole)
    for at in range(len(damaged) // 2, len(damaged), 4096):
        damaged[at] ^= 1
    segment.write_bytes(damaged)
    log = setting.home / "again.log"
    setting.coordinator = Coordinator(setting.cluster.address, setting.home / "store", log)
    mining = setting.owner.start(f"{MINE} --server {setting.coordinator.url}")
    _, err = mining.communicate(timeout=150)
    assert mining.returncode == 8
    assert "segment 0 of dataset" in err
    assert str(setting.home) not in err
    segment.write_bytes(whole)
    setting.assert_counts(setting.begin())
