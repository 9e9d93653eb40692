"""Data that grow and shrink: what many appends cost before and after a compaction, against the same
data encrypted at once; an erasure; a rotation of the key. As users do it, by the `oboro` command.

Prints one JSON object a measurement, the summary last. Run by `make bench-growth`; --quick takes a
minute. Ratios are of one run: times are medians of interleaved pairs.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from command import Oboro, server_seconds

Basket = list[int]
ITEMS = 30


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    days: int
    a_day: tuple[int, int]
    single: int
    transactions: int
    pairs: int


FULL = Size(days=60, a_day=(20, 5000), single=2000, transactions=1_943_424, pairs=5)
QUICK = Size(days=6, a_day=(20, 25_000), single=30, transactions=120_000, pairs=1)


def baskets(count: int, items: int, seed: int) -> list[Basket]:
    """Transactions in which an item is the rarer, the higher its number; none is empty."""
    drawn = random.Random(seed)
    shares = [0.6 / (1 + item / 6) for item in range(items)]
    return [
        [item for item, share in enumerate(shares) if drawn.random() < share] or [0]
        for _ in range(count)
    ]


def write(path: Path, rows: list[Basket]) -> Path:
    """A FIMI file."""
    path.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    return path


def write_table(path: Path, rows: dict[str, Basket], items: int = 18) -> Path:
    """A CSV file of these rows, with their ids."""
    with path.open("w") as file:
        file.write("id," + ",".join(f"i{item}" for item in range(items)) + "\n")
        for name, row in rows.items():
            there = set(row)
            cells = ",".join("1" if item in there else "0" for item in range(items))
            file.write(f"{name},{cells}\n")
    return path


def bytes_below(path: Path) -> int:
    """Of a file, or of all files of a directory."""
    files = [path] if path.is_file() else [it for it in path.rglob("*") if it.is_file()]
    return sum(it.stat().st_size for it in files)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What work returns, and its seconds."""
    begun = time.monotonic()
    done = work()
    return done, time.monotonic() - begun


class Bench:
    """An owner and a server in one directory."""

    def __init__(self, binary: Path, directory: Path, size: Size) -> None:
        self.oboro = Oboro(binary, directory)
        self.work = directory
        self.size = size
        self.oboro.run("keygen")

    @contextmanager
    def serving(self) -> Any:
        """The server keeps no answers, so that each question is computed."""
        with self.oboro.serve("--moment-cache", "0"):
            yield

    def question(self, bundle: Path, data: Path, *how: str) -> dict[str, Any]:
        """All itemsets of two, counted on ciphertext and compared with plaintext."""
        ask = ["--min-support", "1", "--max-len", "2", "--answers", "moments", *how]
        run, seconds = timed(lambda: self.oboro.run("mine", bundle, *ask, "--verify", data))
        assert run["matches_plaintext"], "supports are wrong"
        return {
            "answer_bytes": run["received_bytes"],
            "server_seconds": server_seconds(run),
            "seconds": seconds,
        }

    def cost(self, bundle: Path, questions: list[dict[str, Any]]) -> dict[str, float]:
        """What a dataset takes, and what questions about it take."""
        owner = bytes_below(bundle / "head") + bytes_below(bundle / "ranges")
        return {
            "stored_bytes": bytes_below(bundle / "segments"),
            "owner_bytes": owner,
            "answer_bytes": questions[0]["answer_bytes"],
            "server_seconds": median(it["server_seconds"] for it in questions),
            "question_seconds": median(it["seconds"] for it in questions),
        }

    def seconds(self, *arguments: str | Path) -> float:
        """How long a command takes."""
        return timed(lambda: self.oboro.run(*arguments))[1]

    def feed(self, a_day: int) -> dict[str, Any]:
        """Many appends, and their compaction, against all at once."""
        name = f"daily-{a_day}"
        days = [baskets(a_day, ITEMS, day) for day in range(self.size.days)]
        # Every item has its column from the first day on.
        days[0][0] = list(range(ITEMS))
        whole = write(self.work / f"{name}.dat", [row for day in days for row in day])
        at_once, grown = self.work / f"{name}-at-once.oboro", self.work / f"{name}.oboro"
        self.oboro.run("encrypt", whole, "--out", at_once)
        day_file = self.work / "day.dat"
        self.oboro.run("encrypt", write(day_file, days[0]), "--out", grown)
        began = time.monotonic()
        for day in days[1:]:
            day_of = write(day_file, day)
            self.oboro.run("encrypt", day_of, "--append-to", grown, "--no-absorb")
        appending = time.monotonic() - began
        with self.serving():
            self.oboro.run("upload", grown)
            before = self.cost(grown, [self.question(grown, whole)])
            _, compacting = timed(lambda: self.oboro.run("compact", grown))
            uploaded = self.oboro.run("upload", grown)
            self.oboro.run("upload", at_once)
            # What reads the panels is not compared.
            self.question(grown, whole)
            self.question(at_once, whole)
            after, reference = [], []
            for _ in range(2 * self.size.pairs):
                after.append(self.question(grown, whole))
                reference.append(self.question(at_once, whole))
        compacted, once = self.cost(grown, after), self.cost(at_once, reference)
        return {
            "measured": name,
            "transactions": a_day * self.size.days,
            "append_seconds": appending / (self.size.days - 1),
            "compact_seconds": compacting,
            "moved_bytes": uploaded["sent_bytes"],
            "before": before,
            "after": compacted,
            "at_once": once,
            **{f"{key}_ratio": compacted[key] / once[key] for key in once},
        }

    def singles(self) -> dict[str, Any]:
        """Appends of one transaction each, which share blocks."""
        rows = [list(range(ITEMS)), *baskets(self.size.single, ITEMS, 7)]
        bundle, one = self.work / "singles.oboro", self.work / "one.dat"
        self.oboro.run("encrypt", write(one, rows[:1]), "--out", bundle)
        for row in rows[1:]:
            self.oboro.run("encrypt", write(one, [row]), "--append-to", bundle)
        whole = write(self.work / "singles.dat", rows)
        with self.serving():
            self.oboro.run("upload", bundle)
            # Three times: the first one reads the panels.
            questions = [self.question(bundle, whole) for _ in range(3)]
        return {
            "measured": "singles",
            "appends": self.size.single,
            "first_question_seconds": questions[0]["seconds"],
            **self.cost(bundle, questions[1:]),
        }

    def erasure(self) -> dict[str, Any]:
        """One row out of many, found by its id."""
        rows = baskets(self.size.transactions, 18, 11)
        patients = {f"p{number}": row for number, row in enumerate(rows)}
        table = write_table(self.work / "patients.csv", patients)
        bundle = self.work / "patients.oboro"
        encrypted = self.oboro.run("encrypt", table, "--row-ids", "id", "--out", bundle)
        segment = max(it.stat().st_size for it in (bundle / "segments").iterdir())
        with self.serving():
            self.oboro.run("upload", bundle)
            gone = f"p{len(rows) // 2}"
            erased, erasing = timed(lambda: self.oboro.run("erase", bundle, "--row-id", gone))
            uploaded, uploading = timed(lambda: self.oboro.run("upload", bundle))
            del patients[gone]
            left = write_table(self.work / "left.csv", patients)
            answered = self.question(bundle, left)
        return {
            "measured": "erasure",
            "transactions": encrypted["transactions"],
            "erase_seconds": erasing,
            "upload_seconds": uploading,
            "encrypt_seconds": encrypted["encrypt_seconds"],
            "moved_bytes": uploaded["sent_bytes"],
            "moved_segments": uploaded["sent_bytes"] / segment,
            "rewritten_bytes": erased["new_bytes"],
            "question_seconds": answered["seconds"],
        }

    def rotation(self) -> dict[str, Any]:
        """Another key, against encrypting at once."""
        data = write(self.work / "rotated.dat", baskets(self.size.transactions, 18, 11))
        bundle = self.work / "rotated.oboro"
        self.oboro.run("encrypt", data, "--out", bundle)
        encrypting, rotating = [], []
        for number in range(self.size.pairs):
            key = self.work / f"key{number}"
            self.oboro.run("keygen", "--key", key)
            again = self.work / f"again{number}.oboro"
            encrypting.append(self.seconds("encrypt", data, "--out", again))
            rotating.append(self.seconds("rotate", bundle, "--new-key", key))
            self.oboro.environment["OBORO_KEY"] = str(key)
        with self.serving():
            self.oboro.run("upload", bundle)
            self.question(bundle, data)
        pairs = zip(rotating, encrypting, strict=True)
        return {
            "measured": "rotation",
            "encrypt_seconds": median(encrypting),
            "rotate_seconds": median(rotating),
            "ratio": median(rotated / encrypted for rotated, encrypted in pairs),
        }


def main() -> None:
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oboro", type=Path, required=True, help="the command")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    given = parser.parse_args()
    size = QUICK if given.quick else FULL
    summary: dict[str, Any] = {"bench": "growth", "verified": True}
    measurements: list[Callable[[Bench], dict[str, Any]]] = [
        *(lambda bench, a_day=a_day: bench.feed(a_day) for a_day in size.a_day),
        Bench.singles,
        Bench.erasure,
        Bench.rotation,
    ]
    for measure in measurements:
        with tempfile.TemporaryDirectory(prefix="oboro-bench-") as directory:
            measured = measure(Bench(given.oboro, Path(directory), size))
        print(json.dumps(measured), flush=True)
        name = measured["measured"].replace("-", "_")
        ratios = {key: value for key, value in measured.items() if key.endswith("ratio")}
        summary |= {f"{name}_{key}": value for key, value in ratios.items()}
        for key in ("question_seconds", "moved_segments"):
            if key in measured:
                summary[f"{name}_{key}"] = measured[key]
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
