"""Counts pairs the ordinary way: ciphertext times ciphertext, product by product, with SEAL's BGV.

Each column of each block of transactions is a ciphertext of its own. For each pair and block one
tensor product, without relinearisation, is added to the pair's sum; the owner would decrypt the
sums. Blocks are divided among processes, one a core, since the wheel holds Python's lock.
Parameters: N = 4096 and two limbs of 36 bits, with the special prime that SEAL keeps for keys
within the 109 bits that allow 128 bits of security. With seats, processes run on memory nodes and
place their ciphertexts there (memory_nodes.py).
"""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import seal
from machine import peak_bytes
from memory_nodes import Seat, near_share, resident

DEGREE = 4096
LIMB_BITS = [36, 36, 37]
PLAINTEXT_BITS = 20


@dataclass(frozen=True)
class Data:
    """A file of columns as `oboro-lab support --export` writes it, cut into blocks."""

    file: Path
    items: int
    transactions: int
    slots: int

    @property
    def blocks(self) -> int:
        """The number of blocks; the last may not be full."""
        return -(-self.transactions // self.slots)

    def bits(self, blocks: range) -> Any:
        """The bits of some blocks: items × blocks × slots, zero beyond the last transaction."""
        words = np.fromfile(self.file, dtype="<u8").reshape(self.items, -1)
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        bits = bits[:, blocks.start * self.slots : blocks.stop * self.slots]
        missing = len(blocks) * self.slots - bits.shape[1]
        return np.pad(bits, ((0, 0), (0, missing))).reshape(self.items, len(blocks), self.slots)


# Adds the product of two ciphertexts to a sum: the product and the new sum.
Step = Callable[[Any, Any, Any, Any], tuple[Any, Any]]


def with_temporaries(evaluator: Any, a: Any, b: Any, total: Any) -> tuple[Any, Any]:
    """A new ciphertext for each product and each sum."""
    product = evaluator.multiply(a, b)
    return product, evaluator.add(total, product)


def with_destinations(evaluator: Any, a: Any, b: Any, total: Any) -> tuple[Any, Any]:
    """Sums in place. The wheel takes no destination for a product, so it is made in place of a
    copy, which is what SEAL does in the destination, too, but for reusing its memory."""
    product = seal.Ciphertext(a)
    evaluator.multiply_inplace(product, b)
    evaluator.add_inplace(total, product)
    return product, total


STEPS: dict[str, Step] = {"temporaries": with_temporaries, "destinations": with_destinations}


@dataclass(frozen=True)
class Measured:
    """What counting took in all processes: times are the slowest one's, bytes the sum.

    Idle bytes are those of the interpreter and the plaintext, before anything is encrypted.
    """

    processes: int
    blocks: int
    fraction: float
    products: int
    initial_seconds: float
    main_seconds: float
    freeing_seconds: float
    terminal_seconds: float
    idle_bytes: int
    peak_bytes: int
    verified: bool
    near_shares: list[float | None]

    @property
    def counting_seconds(self) -> float:
        """Products, sums and freeing."""
        return self.main_seconds + self.freeing_seconds

    @property
    def milliseconds_per_product(self) -> float:
        """On one core."""
        return 1e3 * self.counting_seconds * self.processes / self.products


@dataclass(frozen=True)
class Share:
    """What one process reports before it ends."""

    main_seconds: list[float]
    freeing_seconds: list[float]
    verified: bool
    idle_bytes: int
    peak_bytes: int
    ending: float
    # Of the bytes that came while encrypting, those on its own node.
    near_share: float | None


def count_pairs(
    data: Data,
    way: str,
    blocks: int,
    processes: int,
    runs: int,
    seats: list[Seat] | None = None,
) -> Measured:
    """Counts all pairs in the first `blocks` blocks, `runs` times; main and freeing are medians."""
    blocks = min(blocks, data.blocks)
    processes = min(processes, blocks)
    cuts = [blocks * part // processes for part in range(processes + 1)]
    taken: list[Seat | None] = [*seats[:processes]] if seats else [None] * processes
    shares_of = list(zip(map(range, cuts, cuts[1:]), taken, strict=True))
    with workers(data, way, shares_of, runs) as connections:
        initial = [connection.recv() for connection in connections]
        for _ in range(runs):
            for connection in connections:
                connection.send("count")
            for connection in connections:
                connection.recv()
        shares: list[Share] = [connection.recv() for connection in connections]
    ended = perf_counter()
    return Measured(
        processes=processes,
        blocks=blocks,
        fraction=blocks / data.blocks,
        products=blocks * data.items * (data.items - 1) // 2,
        initial_seconds=max(initial),
        main_seconds=slowest([share.main_seconds for share in shares]),
        freeing_seconds=slowest([share.freeing_seconds for share in shares]),
        terminal_seconds=ended - min(share.ending for share in shares),
        idle_bytes=sum(share.idle_bytes for share in shares),
        peak_bytes=sum(share.peak_bytes for share in shares),
        verified=all(share.verified for share in shares),
        near_shares=[share.near_share for share in shares],
    )


def slowest(times: list[list[float]]) -> float:
    """The median over runs of the slowest process's time."""
    return float(median(max(run) for run in zip(*times, strict=True)))


@contextmanager
def workers(
    data: Data, way: str, shares: list[tuple[range, Seat | None]], runs: int
) -> Iterator[list["Connection[Any, Any]"]]:
    """Processes at work on their shares of the blocks; leaving waits until all have ended."""
    fresh = multiprocessing.get_context("spawn")
    connections = []
    processes = []
    for blocks, seat in shares:
        ours, theirs = fresh.Pipe()
        process = fresh.Process(
            target=work, args=(theirs, data, way, blocks, seat, runs), daemon=True
        )
        process.start()
        theirs.close()
        connections.append(ours)
        processes.append(process)
    yield connections
    for process in processes:
        process.join()


def work(
    connection: "Connection[Any, Any]",
    data: Data,
    way: str,
    blocks: range,
    seat: Seat | None,
    runs: int,
) -> None:
    """One process: encrypts its blocks, counts when told to, and checks what it counted."""
    if seat is not None:
        seat.take()
    bits = data.bits(blocks)
    idle_bytes = peak_bytes("self")
    idle = resident()
    begun = perf_counter()
    owner = Owner()
    database = [
        [placed(owner, column, number, seat) for number, column in enumerate(bits[:, block])]
        for block in range(len(blocks))
    ]
    connection.send(perf_counter() - begun)
    near = None if seat is None else near_share(idle, resident(), seat.number)

    main, freeing = [], []
    sums: list[Any] = []
    for _ in range(runs):
        connection.recv()
        sums, spent, freed = count(owner.context, database, STEPS[way])
        main.append(spent)
        freeing.append(freed)
        connection.send("counted")
    rows = bits.reshape(data.items, -1)
    pairs = combinations(range(data.items), 2)
    truth = [int(np.count_nonzero(rows[i] & rows[j])) for i, j in pairs]
    verified = [owner.decrypt_count(total) for total in sums] == truth
    most_bytes = peak_bytes("self")
    connection.send(Share(main, freeing, verified, idle_bytes, most_bytes, perf_counter(), near))
    connection.close()


def placed(owner: "Owner", column: Any, number: int, seat: Seat | None) -> Any:
    """One column of one block, encrypted in memory where the seat wants it."""
    if seat is None:
        return owner.encrypt(column)
    with seat.making(number):
        return owner.encrypt(column)


def count(context: Any, database: list[list[Any]], step: Step) -> tuple[list[Any], float, float]:
    """The encrypted sum of each pair; what products and sums took, and what freeing them did."""
    evaluator = seal.Evaluator(context)
    pairs = list(combinations(range(len(database[0])), 2))
    begun = perf_counter()
    sums = [evaluator.multiply(database[0][i], database[0][j]) for i, j in pairs]
    main, freeing = perf_counter() - begun, 0.0
    for block in database[1:]:
        for pair, (i, j) in enumerate(pairs):
            begun = perf_counter()
            product, total = step(evaluator, block[i], block[j], sums[pair])
            done = perf_counter()
            sums[pair] = total
            del product, total
            main += done - begun
            freeing += perf_counter() - done
    return sums, main, freeing


class Owner:
    """The owner of the key."""

    def __init__(self) -> None:
        parameters = seal.EncryptionParameters(seal.scheme_type.bgv)
        parameters.set_poly_modulus_degree(DEGREE)
        parameters.set_coeff_modulus(seal.CoeffModulus.Create(DEGREE, LIMB_BITS))
        parameters.set_plain_modulus(seal.PlainModulus.Batching(DEGREE, PLAINTEXT_BITS))
        self.context = seal.SEALContext(parameters)
        secret = seal.KeyGenerator(self.context).secret_key()
        self._encoder = seal.BatchEncoder(self.context)
        self._encryptor = seal.Encryptor(self.context, secret)
        self._decryptor = seal.Decryptor(self.context, secret)

    def encrypt(self, column: Any) -> Any:
        """One column of one block; slots beyond it are zero."""
        return self._encryptor.encrypt_symmetric(self._encoder.encode(column.astype(np.int64)))

    def decrypt_count(self, total: Any) -> int:
        """The sum of all slots."""
        return int(self._encoder.decode_uint64(self._decryptor.decrypt(total)).sum())
