"""What an owner notices of others who abuse the server: the 99th percentile of a small question
while they do, over that in quiet moments between.

Prints one JSON object an abuse, the summary last. Run by `make bench-abuse`; --quick takes less
than a minute. The owner keeps one connection; abusers are a process of their own, at a lower
priority: they are on other machines, usually.
"""

import argparse
import json
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from command import Oboro
from http2 import Connection, answers, field, message

MINING = "/oboro.v1.Mining/"
# The aim: no more than this many times the quiet percentile, and these seconds.
TIMES, SECONDS = 3.0, 0.020


@dataclass(frozen=True)
class Target:
    """A server as abusers know it."""

    url: str
    tokens: list[str]
    # The question that they ask, about data of the first of them.
    huge: bytes
    # The beginning of a search in genomes.
    search: bytes


def again(work: Callable[[], object]) -> NoReturn:
    """Does it again and again, whatever the server makes of it."""
    while True:
        with suppress(OSError):
            work()


def idle_connections(target: Target) -> None:
    """A thousand connections that say nothing, and new ones for those that are closed."""
    host, port = target.url.removeprefix("http://").rsplit(":", 1)
    held: list[socket.socket] = []

    def connect() -> None:
        held.append(socket.create_connection((host, int(port))))
        if len(held) > 1000:
            held.pop(0).close()

    again(connect)


def guesses(target: Target) -> None:
    """Wrong tokens, sixty at a time on each of twenty connections."""

    def guess() -> None:
        connections = [Connection(target.url, "oboro_wrong") for _ in range(20)]
        for connection in connections:
            for _ in range(60):
                connection.call(MINING + "ListDatasets", message(b""))
        answers(connections, 60)

    again(guess)


def calls(target: Target) -> None:
    """Small calls as fast as they are answered, or refused."""

    def flood() -> None:
        connections = [Connection(target.url, token) for token in target.tokens]
        while True:
            for connection in connections:
                for _ in range(32):
                    connection.call(MINING + "ListDatasets", message(b""))
            answers(connections, 32)

    again(flood)


def unread_listings(target: Target) -> None:
    """Answers that nobody takes."""

    def ask() -> None:
        connections = [Connection(target.url, token, 0) for token in target.tokens]
        for connection in connections:
            for _ in range(60):
                connection.call(MINING + "ListDatasets", message(b""))
        for connection in connections:
            for _ in range(60):
                connection.hear()

    again(ask)


def watches(target: Target) -> None:
    """Calls that watch the server's health, begun anew all the time."""

    def watch() -> None:
        connections = [Connection(target.url, "") for _ in range(20)]
        for connection in connections:
            for _ in range(60):
                connection.call("/grpc.health.v1.Health/Watch", message(b""))
        for connection in connections:
            for _ in range(60):
                connection.hear()

    again(watch)


def long_messages(target: Target) -> None:
    """Manifests of 16 MiB that are none, one after the other."""
    manifest = field(1, b"none") + field(2, bytes(16 << 20))

    def send() -> None:
        connections = [Connection(target.url, token) for token in target.tokens]
        while True:
            for connection in connections:
                connection.call(MINING + "BeginUpload", message(manifest))
            answers(connections, 1)

    again(send)


def unfinished_messages(target: Target) -> None:
    """Thirty messages of which the rest does not come, begun anew when they are not waited for."""

    def begin() -> None:
        connections = [Connection(target.url, token) for token in target.tokens for _ in range(8)]
        for connection in connections:
            begun = message(bytes(8 << 20))[: 1 << 20]
            connection.send(connection.call(MINING + "SendSegment"), begun)
        answers(connections, 1)

    again(begin)


def slow_readers(target: Target) -> None:
    """Five answers of which no more than the beginning is taken."""

    def read() -> None:
        connections = [Connection(target.url, target.tokens[0], 1 << 16) for _ in range(5)]
        for connection in connections:
            connection.call(MINING + "Count", message(target.huge))
        while True:
            for connection in connections:
                connection.hear()
            time.sleep(1)

    again(read)


def greedy_questions(target: Target) -> None:
    """Large questions, as many as a client may have at a time, and more."""

    def ask() -> None:
        connections = [Connection(target.url, target.tokens[0]) for _ in range(20)]
        for connection in connections:
            connection.call(MINING + "Count", message(target.huge))
        answers(connections, 1)

    again(ask)


def trickled_searches(target: Target) -> None:
    """Searches in genomes whose encrypted query comes byte by byte."""

    def search() -> None:
        connections = [Connection(target.url, token) for token in target.tokens for _ in range(4)]
        begun = message(target.search) + message(bytes(1 << 19))[:5]
        streams = [connection.call("/oboro.v1.Genome/SearchGenome") for connection in connections]
        while True:
            for connection, stream in zip(connections, streams, strict=True):
                connection.send(stream, begun)
            begun = b"?"
            time.sleep(0.1)

    again(search)


ABUSES = [
    idle_connections,
    guesses,
    calls,
    unread_listings,
    watches,
    long_messages,
    unfinished_messages,
    slow_readers,
    greedy_questions,
    trickled_searches,
]


def abuse(how: Callable[[Target], None], target: Target) -> None:
    """The process of abusers."""
    os.nice(10)
    how(target)


@contextmanager
def abused(how: Callable[[Target], None], target: Target) -> Iterator[None]:
    """The time in which others abuse the server."""
    process = multiprocessing.Process(target=abuse, args=(how, target), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def percentile(times: list[float]) -> float:
    """The 99th."""
    return sorted(times)[min(len(times) - 1, int(0.99 * len(times)))]


class Bench:
    """An owner, some abusers and a server in one directory."""

    def __init__(self, oboro: Oboro) -> None:
        self.oboro = oboro
        self.tokens = oboro.work / "tokens"
        oboro.run("keygen")
        self.owner = self.token("owner")
        self.others = [self.token(f"other{number}") for number in range(4)]

    def token(self, name: str) -> str:
        """Makes a token."""
        return str(self.oboro.run("token", "new", name, "--tokens", self.tokens)["token"])

    def token_file(self, name: str, token: str) -> Path:
        """Writes a token where only its owner may read it."""
        file = self.oboro.work / f"{name}.token"
        file.write_text(token)
        file.chmod(0o600)
        return file

    def grant_genomes(self) -> None:
        """Lets everyone search the genomes that were loaded for no owner."""
        file = self.token_file("default", self.token("default"))
        self.oboro.run("access", "grant", "*", "read,count", "*", "--token-file", file)

    def dataset(self, name: str, token: str, items: int, transactions: int) -> dict[str, Any]:
        """Uploads data in which each transaction has two items; what the server lists of it."""
        data, bundle = self.oboro.work / f"{name}.dat", self.oboro.work / f"{name}.oboro"
        rows = ((number % items, (7 * number + 1) % items) for number in range(transactions))
        data.write_text("".join(f"{a} {b if a != b else (b + 1) % items}\n" for a, b in rows))
        self.oboro.run("encrypt", data, "--format", "fimi", "--max-len", "2", "--out", bundle)
        file = self.token_file(name, token)
        self.oboro.run("upload", bundle, "--token-file", file)
        listed: list[dict[str, Any]] = self.oboro.run("datasets", "--token-file", file)
        return listed[0]

    def questions(self, url: str, of: dict[str, Any], count: int) -> list[float]:
        """Seconds of as many small questions."""
        connection = Connection(url, self.owner)
        body = question(of, [0], 1)
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            answer = connection.ask(MINING + "Count", body)
            times.append(time.perf_counter() - begun)
            assert len(answer) > 1000, "a question was not answered"
            # An owner may ask a hundred times a second.
            time.sleep(0.01)
        return times


def question(of: dict[str, Any], columns: list[int], length: int) -> bytes:
    """A query for moments of itemsets of a length."""
    blocks = field(1, 0) + field(2, of["blocks"])
    return b"".join(
        [
            field(1, of["name"].encode()),
            field(2, bytes.fromhex(of["root"])),
            field(3, of["limbs"]),
            field(4, length),
            b"".join(field(5, column) for column in columns),
            field(6, blocks),
        ]
    )


def search(oboro: Oboro) -> bytes:
    """Loads genomes into the server's store; the beginning of a search in them."""
    panel: list[str | Path] = ["--data", oboro.work / "store", "--panel", "p"]
    oboro.run("genome", "generate", *panel, "--haplotypes", "2000", "--sites", "64")
    shown = oboro.run("genome", "show", *panel, "--haplotype", "7", "--length", "40")
    *chromosome, position = shown["position"].split(":")
    place = b"".join(field(1, it.encode()) for it in chromosome) + field(2, int(position))
    # Of exactly these 40 alleles.
    opened = field(1, b"default/p") + field(2, field(1, place)) + field(4, 40) + field(5, 0)
    return field(1, opened)


def main() -> None:
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oboro", type=Path, required=True, help="the command")
    parser.add_argument("--quick", action="store_true", help="fewer questions")
    given = parser.parse_args()
    rounds, count = (2, 50) if given.quick else (6, 200)
    worst, met = 0.0, True
    with tempfile.TemporaryDirectory(prefix="oboro-bench-") as directory:
        bench = Bench(Oboro(given.oboro, Path(directory)))
        bench.oboro.environment["OBORO_LOG"] = "error"
        opened = search(bench.oboro)
        with bench.oboro.serve("--tokens", str(bench.tokens), "--moment-cache", "0"):
            url = bench.oboro.environment["OBORO_SERVER"]
            bench.grant_genomes()
            own = bench.dataset("small", bench.owner, 8, 1000)
            large = bench.dataset("large", bench.others[0], 100, 40_000)
            pairs = [column for a in range(100) for b in range(a + 1, 100) for column in (a, b)]
            target = Target(url, bench.others, question(large, pairs, 2), opened)
            bench.questions(url, own, count)
            for how in ABUSES:
                quiet, busy = [], []
                for _ in range(rounds):
                    quiet += bench.questions(url, own, count)
                    with abused(how, target):
                        # Until it is at its full strength.
                        time.sleep(0.5)
                        busy += bench.questions(url, own, count)
                ratio = percentile(busy) / percentile(quiet)
                most = TIMES * percentile(quiet) + SECONDS
                line = {
                    "abuse": how.__name__,
                    "questions": len(busy),
                    "quiet_p99_seconds": percentile(quiet),
                    "p99_seconds": percentile(busy),
                    "ratio": ratio,
                    "met": percentile(busy) <= most,
                }
                print(json.dumps(line), flush=True)
                worst, met = max(worst, ratio), met and percentile(busy) <= most
    aim = f"{TIMES:g} x + {1000 * SECONDS:g} ms"
    print(json.dumps({"bench": "abuse", "worst_ratio": worst, "aim": aim, "met": met}))


if __name__ == "__main__":
    main()
