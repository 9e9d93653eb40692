#!/usr/bin/env python3
"""An independent verification of the sums of pairs that a server of Oboro answers.

This program was written from docs/cryptography.md and docs/formats.md only, without a look at
Oboro's sources, as was independent_decrypt.py, whose reading of keys, bundles and segments it
shares. That it opens what Oboro sealed, accepts an honest server's sums, refuses others and reads
the right supports shows that the two documents are right and complete. It favours plain steps over
speed and needs nothing but Python's standard library.

    independent_verify.py KEYFILE BUNDLE_DIR count --columns M

What an honest server answers, computed from the ciphertext: for the question for all pairs of the
first M columns of the owner's prefix, the sums M_ij over each range of blocks, modulo each limb.

    independent_verify.py KEYFILE BUNDLE_DIR verify ANSWER

Verifies such an answer with the owner's tokens and prints the supports of all pairs in it, in
lexicographic order of places. Nothing is decrypted before all of the answer was verified.

    independent_verify.py KEYFILE BUNDLE_DIR plain --columns M

The supports of the same pairs, counted in the decrypted columns.

Everything is printed as JSON. Status 3: the answer is false. Status 4: it was verified, but what
it decrypts to is impossible. Status 1: the owner's own files are not what the documents say.

Not checked, for want of BLAKE3 in the standard library: digests and the root; a range is taken by
the name that the owner's record has for it. Nor are the row tokens of ranges, which answer other
questions.
"""

from __future__ import annotations

import argparse
import hmac
import itertools
import json
import math
import operator
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from independent_decrypt import (
    BUNDLE_VERSION,
    NOISE_NORM,
    NOISE_PEAK,
    CheckError,
    Manifest,
    Owner,
    centred,
    open_dataset,
    prf,
    require,
)

RECORD_VERSION = 6
RANGE_VERSION = 1
RANGE_HEADER = 28
LONGEST_PREFIX = 1024
LARGEST_RECORD = 1 << 28
MOST_RANGES_LOG2 = 10
PLAINTEXT_PEAK = 4
ERROR_VARIANCE = 10.5
SECURITY_BITS = 64
NONCE_BYTES = 24
TAG_BYTES = 16
FALSE_ANSWER, IMPOSSIBLE = 3, 4

T = TypeVar("T")


class FalseAnswer(Exception):
    """An answer is not what an honest server gives."""


class Impossible(Exception):
    """A verified answer decrypts to what no data have."""


class Malformed(Exception):
    """JSON is not what was expected."""


def accept(holds: bool, why_not: str) -> None:
    if not holds:
        raise FalseAnswer(why_not)


def member(of: object, name: str, kind: type[T]) -> T:
    """A member of a JSON object that has exactly this type."""
    if not isinstance(of, dict) or name not in of:
        raise Malformed(f"there is no {name}")
    value = of[name]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Malformed(f"{name} is no {kind.__name__}")
    return value


def integers(values: object) -> list[int]:
    if not isinstance(values, list):
        raise Malformed("there is no list of integers")
    result: list[int] = []
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool):
            raise Malformed("there is something else among integers")
        result.append(value)
    return result


# XChaCha20-Poly1305: RFC 8439 and draft-irtf-cfrg-xchacha

WORD = 0xFFFFFFFF
CHACHA_CONSTANTS = struct.unpack("<4I", b"expand 32-byte k")
QUARTER_ROUNDS = (
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)
POLY1305_PRIME = (1 << 130) - 5
POLY1305_CLAMP = 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF


def rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & WORD


def chacha20_rounds(state: Sequence[int]) -> list[int]:
    """The twenty rounds, without the addition of the state at the end."""
    x = list(state)
    for _ in range(10):
        for a, b, c, d in QUARTER_ROUNDS:
            x[a] = (x[a] + x[b]) & WORD
            x[d] = rotated(x[d] ^ x[a], 16)
            x[c] = (x[c] + x[d]) & WORD
            x[b] = rotated(x[b] ^ x[c], 12)
            x[a] = (x[a] + x[b]) & WORD
            x[d] = rotated(x[d] ^ x[a], 8)
            x[c] = (x[c] + x[d]) & WORD
            x[b] = rotated(x[b] ^ x[c], 7)
    return x


def hchacha20(key: bytes, nonce: bytes) -> bytes:
    """The key of ChaCha20 for the first 16 bytes of a nonce of XChaCha20."""
    rounds = chacha20_rounds(
        (*CHACHA_CONSTANTS, *struct.unpack("<8I", key), *struct.unpack("<4I", nonce))
    )
    return struct.pack("<8I", *rounds[:4], *rounds[12:])


def chacha20(key: bytes, nonce: bytes, first_block: int, length: int) -> bytes:
    """Bytes of the key stream."""
    fixed = (*CHACHA_CONSTANTS, *struct.unpack("<8I", key))
    words = struct.unpack("<3I", nonce)
    stream = bytearray()
    for counter in itertools.count(first_block):
        if len(stream) >= length:
            break
        state = (*fixed, counter, *words)
        added = (x + y & WORD for x, y in zip(chacha20_rounds(state), state, strict=True))
        stream += struct.pack("<16I", *added)
    return bytes(stream[:length])


def poly1305(key: bytes, message: bytes) -> bytes:
    factor = int.from_bytes(key[:16], "little") & POLY1305_CLAMP
    total = 0
    for start in range(0, len(message), 16):
        block = message[start : start + 16] + b"\1"
        total = (total + int.from_bytes(block, "little")) * factor % POLY1305_PRIME
    total += int.from_bytes(key[16:], "little")
    return (total & (1 << 128) - 1).to_bytes(16, "little")


def zero_padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 16)


def open_sealed(key: bytes, context: bytes, sealed: bytes) -> bytes:
    """The plaintext behind a nonce in front and a tag behind; the context is associated data."""
    require(len(sealed) >= NONCE_BYTES + TAG_BYTES, "what is sealed has a nonce and a tag")
    nonce, tag = sealed[:NONCE_BYTES], sealed[-TAG_BYTES:]
    ciphertext = sealed[NONCE_BYTES:-TAG_BYTES]
    key = hchacha20(key, nonce[:16])
    nonce = bytes(4) + nonce[16:]
    lengths = struct.pack("<QQ", len(context), len(ciphertext))
    authenticated = zero_padded(context) + zero_padded(ciphertext) + lengths
    expected = poly1305(chacha20(key, nonce, 0, 32), authenticated)
    require(hmac.compare_digest(expected, tag), "what is sealed opens with the key")
    stream = chacha20(key, nonce, 1, len(ciphertext))
    plaintext = int.from_bytes(ciphertext, "little") ^ int.from_bytes(stream, "little")
    return plaintext.to_bytes(len(ciphertext), "little")


# Points and tokens


@dataclass(frozen=True)
class Element:
    """a + b·√d."""

    a: int
    b: int


class QuadraticField:
    """F_{q²} = F_q(√d) with the smallest quadratic non-residue d ≥ 2 modulo q."""

    def __init__(self, modulus: int) -> None:
        self.modulus = modulus
        is_residue = (pow(d, (modulus - 1) // 2, modulus) == 1 for d in range(2, modulus))
        self.non_residue = 2 + next(n for n, residue in enumerate(is_residue) if not residue)

    def product(self, x: Element, y: Element) -> Element:
        q = self.modulus
        return Element(
            (x.a * y.a + self.non_residue * x.b * y.b) % q,
            (x.a * y.b + x.b * y.a) % q,
        )

    def combination(self, factors: Sequence[int], elements: Sequence[Element]) -> Element:
        """The sum of the products of residues with elements."""
        q = self.modulus
        return Element(
            sum(f * x.a for f, x in zip(factors, elements, strict=True)) % q,
            sum(f * x.b for f, x in zip(factors, elements, strict=True)) % q,
        )

    def sum(self, elements: Sequence[Element]) -> Element:
        return self.combination([1] * len(elements), elements)


def point(master: bytes, manifest: Manifest, limb: int, column: int, modulus: int) -> Element:
    """The secret point of a column modulo a limb, the same for all ranges."""
    m = manifest
    ring = struct.pack("<BBI", m.log_degree, m.limbs, m.plaintext_modulus)
    numbers = struct.pack("<B", limb), struct.pack("<I", column)
    value = prf(master, "fingerprint", m.dataset, m.generation, ring, *numbers)
    return Element(
        int.from_bytes(value[:16], "little") % modulus,
        int.from_bytes(value[16:], "little") % modulus,
    )


# What public numbers determine


@dataclass(frozen=True)
class Bounds:
    """Bounds on phases and on how far supports are from what samples say."""

    degree: int
    modulus: int
    primes: list[int]
    max_len: int
    log2_supports: float  # u

    @classmethod
    def of(cls, manifest: Manifest, primes: list[int]) -> Bounds:
        lengths = range(1, manifest.max_len + 1)
        itemsets = sum(math.comb(manifest.columns, length) for length in lengths)
        return cls(
            manifest.degree,
            manifest.plaintext_modulus,
            primes,
            manifest.max_len,
            math.log2(itemsets) + MOST_RANGES_LOG2,
        )

    @property
    def sample_blocks(self) -> int:
        return (self.modulus - 1) // self.degree

    @property
    def sample_transactions(self) -> int:
        """All slots of a sample: it is taken of full blocks only."""
        return self.sample_blocks * self.degree

    def distance(self, transactions: int) -> float:
        """How far a support may be from what the sample says of it: D."""
        exponent = (1 + SECURITY_BITS + 0.01 + self.log2_supports) * math.log(2)
        return transactions * math.sqrt(exponent / (2 * self.sample_transactions))

    def phase(self, blocks: int, length: int = 2) -> float:
        """The bound on Φ_0 of an itemset of two items or more over so many blocks."""
        exponent = (math.log2(length) + 2 + SECURITY_BITS + self.log2_supports) * math.log(2)
        plaintext_peak = PLAINTEXT_PEAK if len(self.primes) >= 4 else NOISE_PEAK
        norms: float = NOISE_NORM * NOISE_PEAK ** (length - 2)
        for place in range(2, length + 1):
            norms += plaintext_peak ** (place - 2) * NOISE_PEAK ** (length - place) / 2
        errors = math.sqrt(2 * exponent * ERROR_VARIANCE * blocks / self.degree) * norms
        plaintexts: float = blocks / 4 * plaintext_peak ** (length - 2)
        unit: float = (self.modulus * math.sqrt(self.degree)) ** length
        return unit * (plaintexts + errors)

    @property
    def most_blocks(self) -> int:
        """The most blocks that a stratum with a sample may have.

        If all their slots are filled, 2D < t, and all limbs carry the longest itemsets over them.
        """
        half = math.prod(self.primes) / 2
        liftable = math.floor(self.modulus / (2 * self.distance(self.degree)))
        for blocks in range(liftable, 0, -1):
            distance = self.distance(blocks * self.degree)
            if 2 * distance < self.modulus and self.phase(blocks, self.max_len) < half:
                return blocks
        raise CheckError("does not hold: bounds hold for a block")

    def limbs(self, length: int) -> int:
        """The fewest first limbs that itemsets over the largest such stratum can be read from."""
        bound = self.phase(self.most_blocks, length)
        for count, product in enumerate(itertools.accumulate(self.primes, operator.mul), 1):
            if product / 2 > bound:
                return count
        raise CheckError("does not hold: the limbs carry all lengths")

    def limbs_of_pairs(self) -> int:
        return self.limbs(2)

    def carry(self, blocks: int) -> bool:
        """Whether these limbs carry all lengths over so many blocks of an exact stratum."""

        def carries(length: int) -> bool:
            limbs = self.primes[: self.limbs(length)]
            return self.phase(blocks, length) < math.prod(limbs) / 2

        return all(carries(length) for length in range(2, self.max_len + 1))


# The owner's record and ranges


@dataclass(frozen=True)
class Range:
    """Blocks over which sums are asked for."""

    first_block: int
    blocks: int


@dataclass(frozen=True)
class Stratum:
    """Blocks whose transactions are counted together."""

    first_block: int
    blocks: int
    transactions: int
    digests: list[str]

    def ranges(self, bounds: Bounds) -> list[Range]:
        total = Range(self.first_block, self.blocks)
        if self.transactions <= bounds.sample_transactions:
            return [total]
        return [total, Range(self.first_block, bounds.sample_blocks)]


@dataclass(frozen=True)
class Record:
    """What only the owner knows, as far as sums of pairs need it."""

    prefix: list[int]
    supports: list[int]
    strata: list[Stratum]


@dataclass(frozen=True)
class KeptLimb:
    """What the owner keeps of one range modulo one limb."""

    prefix_parts: list[Element]  # what each column adds to the tokens of prefixes
    fixed_parts: list[int]  # of each pair, in lexicographic order


def check_strata(record: Record, manifest: Manifest, bounds: Bounds) -> None:
    blocks = [stratum.blocks for stratum in record.strata]
    require(sum(blocks) == manifest.blocks, "the strata are all blocks")
    most_blocks = bounds.most_blocks
    for stratum in record.strata:
        slots = stratum.blocks * manifest.degree
        is_exact = stratum.transactions <= bounds.sample_transactions
        holds = bounds.carry(stratum.blocks) if is_exact else stratum.blocks <= most_blocks
        require(stratum.blocks > 0 and holds, "bounds hold for each stratum")
        require(0 <= stratum.transactions <= slots, "the transactions of a stratum have slots")
        ranges = stratum.ranges(bounds)
        require(len(stratum.digests) == len(ranges), "a stratum has a digest for each range")
        require(ranges[-1].blocks <= stratum.blocks, "a sample is a part of its stratum")
    ranges_of_all = sum(len(stratum.digests) for stratum in record.strata)
    require(ranges_of_all <= 1 << MOST_RANGES_LOG2, "the number of ranges is bounded")


def parse_record(data: bytes, manifest: Manifest, bounds: Bounds) -> Record:
    try:
        value: object = json.loads(data)
        require(member(value, "version", int) == RECORD_VERSION, "a record of version 6")
        transactions = member(value, "transactions", int)
        strata, next_block = [], 0
        for item in member(value, "strata", list):
            blocks = member(item, "blocks", int)
            digests = [str(digest) for digest in member(item, "ranges", list)]
            strata.append(Stratum(next_block, blocks, member(item, "transactions", int), digests))
            next_block += blocks
        record = Record(
            integers(member(value, "prefix", list)),
            integers(member(value, "supports", list)),
            strata,
        )
    except (ValueError, Malformed) as error:
        raise CheckError(f"the owner's record: {error}") from error
    columns = manifest.columns
    require(sum(s.transactions for s in strata) == transactions, "strata have all transactions")
    require(len(record.supports) == columns, "each column has a support")
    require(len(record.prefix) == min(columns, LONGEST_PREFIX), "the prefix is as long as it may")
    require(len(set(record.prefix)) == len(record.prefix), "no column is in the prefix twice")
    require(all(0 <= c < columns for c in record.prefix), "the prefix has columns of the dataset")
    check_strata(record, manifest, bounds)
    return record


def read_record(owner: Owner, bundle: Path, bounds: Bounds) -> Record:
    head = (bundle / "head").read_bytes()
    magic, version, manifest_bytes, record_bytes = struct.unpack_from("<8sIQQ", head)
    require(magic == b"OBOROBND" and version == BUNDLE_VERSION, "a bundle of version 1")
    require(record_bytes <= LARGEST_RECORD, "the record is not too large")
    start = 28 + manifest_bytes
    sealed = head[start : start + record_bytes]
    require(len(head) == start + record_bytes + 32, "length of the head")
    context = b"oboro owner record" + owner.manifest.dataset
    data = open_sealed(prf(owner.master, "seal key"), context, sealed)
    return parse_record(data, owner.manifest, bounds)


def residues(data: bytes, modulus: int) -> list[int]:
    values = [value for (value,) in struct.iter_unpack("<I", data)]
    require(all(value < modulus for value in values), "residues are below their modulus")
    return values


def elements(values: Sequence[int]) -> list[Element]:
    return [Element(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]


def parse_range(
    data: bytes, blocks: int, prefix: Sequence[int], primes: Sequence[int]
) -> list[KeptLimb]:
    version, columns, limbs, *longer, blocks_kept = struct.unpack_from("<IIIIIQ", data)
    require(version == RANGE_VERSION, "a range of version 1")
    require(blocks_kept == blocks, "a range has the blocks of its place")
    require(limbs == len(primes) and columns == len(prefix), "a range has limbs and columns")
    start, pairs = RANGE_HEADER + 4 * columns, columns * (columns - 1) // 2
    order = [column for (column,) in struct.iter_unpack("<I", data[RANGE_HEADER:start])]
    require(order == list(prefix), "a range has its columns in the owner's order")
    of_longer = 8 * (columns + 1)
    kept = []
    for limb, modulus in enumerate(primes):
        end = start + 16 * columns + 4 * pairs
        values = residues(data[start:end], modulus)
        kept.append(KeptLimb(elements(values[: 2 * columns]), values[4 * columns :]))
        start = end + of_longer * sum(limb < limbs_of_length for limbs_of_length in longer)
    behind = sum(max(limbs_of_length - limbs, 0) for limbs_of_length in longer)
    require(len(data) == start + of_longer * behind, "length of a range")
    return kept


# The whole of it


@dataclass(frozen=True)
class Dataset:
    owner: Owner
    bundle: Path
    bounds: Bounds
    record: Record
    primes: list[int]  # that pairs are read modulo

    @property
    def ranges(self) -> list[Range]:
        """The total of each stratum, followed by its sample if it has one."""
        return [part for stratum in self.record.strata for part in stratum.ranges(self.bounds)]

    def kept(self) -> list[list[KeptLimb]]:
        """What the owner keeps, by range and limb."""
        key = prf(self.owner.master, "seal key")
        context = b"oboro range" + self.owner.manifest.dataset
        digests = [digest for stratum in self.record.strata for digest in stratum.digests]
        result = []
        for place, digest in zip(self.ranges, digests, strict=True):
            require(
                len(digest) == 64 and set(digest) <= set("0123456789abcdef"),
                "a digest is hexadecimal",
            )
            sealed = (self.bundle / "ranges" / digest).read_bytes()
            data = open_sealed(key, context, sealed)
            result.append(parse_range(data, place.blocks, self.record.prefix, self.primes))
        return result


def open_all(key: Path, bundle: Path) -> Dataset:
    owner = open_dataset(key, bundle)
    require(owner.manifest.max_len >= 2, "pairs were encrypted")
    bounds = Bounds.of(owner.manifest, owner.primes)
    record = read_record(owner, bundle, bounds)
    primes = owner.primes[: bounds.limbs_of_pairs()]
    return Dataset(owner, bundle, bounds, record, primes)


def pairs_of(columns: int) -> Iterator[tuple[int, int]]:
    """Places i < j, in lexicographic order."""
    return itertools.combinations(range(columns), 2)


# The server


def block_sums(dataset: Dataset, limb: int, columns: int) -> list[list[int]]:
    """The sum of each pair over the points of each block: public values alone."""
    prefix = dataset.record.prefix[:columns]
    by_column = [dataset.owner.ciphertexts(limb, column) for column in prefix]
    return [
        [sum(map(operator.mul, block[i], block[j])) for i, j in pairs_of(columns)]
        for block in zip(*by_column, strict=True)
    ]


def honest_answer(dataset: Dataset, columns: int) -> dict[str, object]:
    by_limb = [block_sums(dataset, limb, columns) for limb in range(len(dataset.primes))]
    ranges = []
    for part in dataset.ranges:
        limbs = []
        for sums, modulus in zip(by_limb, dataset.primes, strict=True):
            of_range = sums[part.first_block : part.first_block + part.blocks]
            limbs.append([sum(pair) % modulus for pair in zip(*of_range, strict=True)])
        ranges.append({"first_block": part.first_block, "blocks": part.blocks, "limbs": limbs})
    return {"columns": columns, "ranges": ranges}


# The owner


@dataclass(frozen=True)
class Answer:
    columns: int
    sums: list[list[list[int]]]  # by range, limb and pair


def parse_answer(data: bytes, asked: Sequence[Range], longest: int) -> Answer:
    """An answer of the right form for the question; its sums may be anything."""
    try:
        value: object = json.loads(data)
        columns = member(value, "columns", int)
        places, sums = [], []
        for item in member(value, "ranges", list):
            places.append(Range(member(item, "first_block", int), member(item, "blocks", int)))
            sums.append([integers(limb) for limb in member(item, "limbs", list)])
    except (ValueError, RecursionError, Malformed) as error:
        raise FalseAnswer(f"the answer cannot be read: {error}") from error
    accept(2 <= columns <= longest, "the question is not for pairs of the owner's prefix")
    accept(places == list(asked), "the ranges are not those that were asked for")
    return Answer(columns, sums)


def verify_limb(
    sums: Sequence[int], kept: KeptLimb, points: Sequence[Element], field: QuadraticField
) -> None:
    """Whether Σ_{i<j≤m} x_i x_j·M_ij is the token of the prefix of m columns."""
    columns = len(points)
    accept(len(sums) == columns * (columns - 1) // 2, "there is another number of sums")
    accept(all(0 <= value < field.modulus for value in sums), "a sum is no residue")
    products, start = [], 0
    for i in range(columns):
        later = columns - 1 - i
        row = field.combination(sums[start : start + later], points[i + 1 :])
        products.append(field.product(points[i], row))
        start += later
    token = field.sum(kept.prefix_parts[:columns])
    accept(field.sum(products) == token, "sums do not match their token")


def verify(dataset: Dataset, answer: Answer, kept: Sequence[Sequence[KeptLimb]]) -> None:
    """Each range and each limb by itself."""
    owner, prefix = dataset.owner, dataset.record.prefix[: answer.columns]
    fields = [QuadraticField(modulus) for modulus in dataset.primes]
    points = [
        [point(owner.master, owner.manifest, limb, column, modulus) for column in prefix]
        for limb, modulus in enumerate(dataset.primes)
    ]
    for number, (limbs, kept_limbs) in enumerate(zip(answer.sums, kept, strict=True)):
        accept(len(limbs) == len(fields), f"range {number}: there is another number of limbs")
        for limb, field in enumerate(fields):
            try:
                verify_limb(limbs[limb], kept_limbs[limb], points[limb], field)
            except FalseAnswer as error:
                raise FalseAnswer(f"range {number}, limb {limb}: {error}") from error


def decrypt(dataset: Dataset, residues_of_phase: Sequence[int], bound: float) -> int:
    """The support modulo t, from N·Φ_0 modulo each limb."""
    degree, t = dataset.owner.manifest.degree, dataset.owner.manifest.plaintext_modulus
    modulus, constant = math.prod(dataset.primes), 0
    for residue, q in zip(residues_of_phase, dataset.primes, strict=True):
        cofactor = modulus // q
        constant += residue * pow(degree, -1, q) * pow(cofactor, -1, q) * cofactor
    constant = centred(constant, modulus)
    if abs(constant) > bound:
        raise Impossible("a phase is above its bound")
    return degree * constant % t


def range_supports(
    dataset: Dataset,
    part: Range,
    sums: Sequence[Sequence[int]],
    kept: Sequence[KeptLimb],
    columns: int,
) -> list[int]:
    """The supports modulo t of all pairs over one range."""
    bound = dataset.bounds.phase(part.blocks)
    pairs_kept = pairs_of(len(dataset.record.prefix))
    places = [place for place, (_, j) in enumerate(pairs_kept) if j < columns]
    result = []
    for pair, place in enumerate(places):
        phase = [
            limb[pair] + kept_limb.fixed_parts[place]
            for limb, kept_limb in zip(sums, kept, strict=True)
        ]
        result.append(decrypt(dataset, phase, bound))
    return result


def lifted(bounds: Bounds, transactions: int, residue: int, in_sample: int) -> int:
    """The number with this residue that is nearest to what the sample says."""
    t, sampled = bounds.modulus, bounds.sample_transactions
    # The nearest integer to (T·X_s/n_s − residue)/t, by integers.
    ahead = transactions * in_sample - residue * sampled
    support = residue + t * ((2 * ahead + t * sampled) // (2 * t * sampled))
    difference = abs(support * sampled - transactions * in_sample) / sampled
    if difference > bounds.distance(transactions):
        raise Impossible("a support is far from what the sample says")
    if in_sample > sampled or not in_sample <= support <= in_sample + transactions - sampled:
        raise Impossible("a support does not agree with its sample")
    return support


def supports(
    dataset: Dataset, answer: Answer, kept: Sequence[Sequence[KeptLimb]]
) -> Iterator[list[int]]:
    """The supports of all pairs in each stratum, from a verified answer."""
    by_range = (
        range_supports(dataset, part, sums, kept_limbs, answer.columns)
        for part, sums, kept_limbs in zip(dataset.ranges, answer.sums, kept, strict=True)
    )
    for stratum in dataset.record.strata:
        total = next(by_range)
        if len(stratum.digests) == 1:
            if any(support > stratum.transactions for support in total):
                raise Impossible("a support is larger than its stratum")
            yield total
            continue
        sample = next(by_range)
        yield [
            lifted(dataset.bounds, stratum.transactions, residue, in_sample)
            for residue, in_sample in zip(total, sample, strict=True)
        ]


def verified_supports(dataset: Dataset, data: bytes) -> list[int]:
    answer = parse_answer(data, dataset.ranges, len(dataset.record.prefix))
    kept = dataset.kept()
    verify(dataset, answer, kept)
    by_stratum = list(supports(dataset, answer, kept))
    return [sum(pair) for pair in zip(*by_stratum, strict=True)]


def plain_supports(dataset: Dataset, columns: int) -> list[int]:
    decrypted = []
    for column in dataset.record.prefix[:columns]:
        bits = [bit for block in dataset.owner.decrypt(column) for bit in block]
        require(sum(bits) == dataset.record.supports[column], "the record has the supports")
        decrypted.append(bits)
    return [sum(map(operator.mul, decrypted[i], decrypted[j])) for i, j in pairs_of(columns)]


def run(arguments: argparse.Namespace) -> int:
    dataset = open_all(arguments.key, arguments.bundle)
    if arguments.command == "verify":
        try:
            result = verified_supports(dataset, arguments.answer.read_bytes())
        except FalseAnswer as error:
            print(json.dumps({"verified": False, "why": str(error)}))
            return FALSE_ANSWER
        except Impossible as error:
            print(json.dumps({"verified": True, "impossible": str(error)}))
            return IMPOSSIBLE
        print(json.dumps({"verified": True, "supports": result}))
        return 0
    columns = arguments.columns
    require(2 <= columns <= len(dataset.record.prefix), "the prefix has so many columns, 2 or more")
    if arguments.command == "count":
        print(json.dumps(honest_answer(dataset, columns)))
    else:
        print(json.dumps({"supports": plain_supports(dataset, columns)}))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Verify sums of pairs independently of Oboro.")
    parser.add_argument("key", type=Path, metavar="KEYFILE")
    parser.add_argument("bundle", type=Path, metavar="BUNDLE_DIR")
    commands = parser.add_subparsers(dest="command", required=True)
    count = commands.add_parser("count", help="answer as an honest server does")
    check = commands.add_parser("verify", help="verify an answer and read the supports")
    plain = commands.add_parser("plain", help="count in the decrypted columns")
    for command in (count, plain):
        command.add_argument("--columns", type=int, required=True, metavar="M")
    check.add_argument("answer", type=Path, metavar="ANSWER")
    try:
        return run(parser.parse_args())
    except (CheckError, OSError, struct.error) as error:
        print(f"independent_verify: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
