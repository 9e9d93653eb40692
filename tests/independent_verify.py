#!/usr/bin/env python3
"""An independent verification of what a server of Oboro answers.

This program was written from docs/cryptography.md and docs/formats.md only, without a look at
Oboro's sources, as was independent_decrypt.py, whose reading of keys, bundles and segments it
shares. That it opens what Oboro sealed, accepts an honest server's answers, refuses others and
reads the right supports shows that the two documents are right and complete. It favours plain
steps over speed and needs nothing but Python's standard library.

A column is named by its place, from 0, in the owner's order: the record's by_support.

    independent_verify.py KEYFILE BUNDLE_DIR count QUESTION

What an honest server answers, computed from the ciphertext over each range of blocks, modulo each
limb that the question's itemsets are read from. The answer is a JSON object that says what it is
about and has "ranges", each with "first_block", "blocks" and "limbs". The questions are:

    --columns M               all pairs of the first M columns, as far as all their fixed parts are
                              kept: {"columns": M}, and a limb is the list of the sums M_ij
    --columns M --length K    all itemsets of K = 3 or 4 of the first M columns: {"columns": M,
                              "length": K}, and a limb is a list of K + 1, by the power r of the
                              mask: the sums M_{S,0}, then for each r from 1 the list of M_{S,r},
                              |S| = K - r, of which each is a list of N residues
    --row PLACE               the pairs of one column with every other one, in the order of
                              places: {"row": PLACE}, and a limb is a list of sums. If there are
                              too many columns for the fixed parts of all pairs, only of a focus
                              column

Itemsets are in lexicographic order of places.

    independent_verify.py KEYFILE BUNDLE_DIR verify ANSWER

Verifies such an answer with the owner's tokens and prints the supports of all itemsets in it, in
the same order. Nothing is decrypted before all of the answer was verified.

    independent_verify.py KEYFILE BUNDLE_DIR plain QUESTION

The supports of the same itemsets, counted in the decrypted columns.

Everything is printed as JSON. Status 3: the answer is false, or about what no token is kept of.
Status 4: it was verified, but what it decrypts to is impossible. Status 1: the owner's own files
are not what the documents say, or a question to count is not one that the owner can ask.

Costs in pure Python, per block of N = 4096 slots and limb: about a millisecond for every column
that is read and for every pair; about two for every moment with a power of the mask, whose answer
takes 40 KB of JSON a range and limb (4.4 MB for five columns, itemsets of four and four limbs); and
25 for every column that is decrypted. A row among 1,030 columns of one block is counted in two
seconds and verified in one, but "plain" takes a minute for it. What is kept of a range of more than
1,024 columns has 4.2 MB, which are opened in half a second.

Not checked, for want of BLAKE3 in the standard library: digests and the root; a range is taken by
the name that the owner's record has for it.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import json
import math
import operator
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from independent_decrypt import (
    NOISE_NORM,
    NOISE_PEAK,
    CheckError,
    Manifest,
    Owner,
    centred,
    open_dataset,
    open_sealed,
    prf,
    require,
)

RECORD_VERSION = 8
RANGE_VERSION = 2
RANGE_HEADER = 36
LEAST_PAIRED, MOST_PAIRED = 1024, 4096
MOST_FOCUS = 64
TOKEN_LENGTHS = (2, 3, 4)
MOST_RANGES_LOG2 = 10
PLAINTEXT_PEAK = 4
LIMBS_WITH_PLAINTEXT_PEAK = 4
ERROR_VARIANCE = 10.5
SECURITY_BITS = 64
FALSE_ANSWER, IMPOSSIBLE = 3, 4

T = TypeVar("T")


class FalseAnswer(Exception):
    """An answer is not what an honest server gives."""


class Impossible(Exception):
    """A verified answer decrypts to what no data have."""


class Malformed(Exception):
    """JSON is not what was expected."""


class CannotAsk(Exception):
    """A question is not one that the owner can verify an answer to."""


def accept(holds: bool, why_not: str) -> None:
    if not holds:
        raise FalseAnswer(why_not)


def member(of: object, name: str, kind: type[T]) -> T:
    """A member of a JSON object that has exactly this type."""
    if not isinstance(of, dict) or name not in of:
        raise Malformed(f"there is no {name}")
    value = of[name]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
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


def strings(values: object) -> list[str]:
    if not isinstance(values, list):
        raise Malformed("there is no list of strings")
    result: list[str] = []
    for value in values:
        if not isinstance(value, str):
            raise Malformed("there is something else among strings")
        result.append(value)
    return result


def number(of: object, name: str) -> float:
    """A member of a JSON object that is a number, whole or not."""
    value = member(of, name, object)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Malformed(f"{name} is no number")
    return value


# Points, weights and tokens


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


def ring_of(manifest: Manifest) -> bytes:
    m = manifest
    return struct.pack("<BBI", m.log_degree, m.limbs, m.plaintext_modulus)


def point(key: bytes, manifest: Manifest, limb: int, column: int, modulus: int) -> Element:
    """The secret point of a column modulo a limb, the same for all ranges."""
    m, ring = manifest, ring_of(manifest)
    numbers = struct.pack("<B", limb), struct.pack("<I", column)
    value = prf(key, "fingerprint", m.generation, ring, *numbers)
    return Element(
        int.from_bytes(value[:16], "little") % modulus,
        int.from_bytes(value[16:], "little") % modulus,
    )


def uniform_residues(name: bytes, count: int, modulus: int) -> list[int]:
    """The first residues below the modulus among the lowest bits of the words of SHAKE128."""
    lowest_bits, words = (1 << modulus.bit_length()) - 1, count
    while True:
        words += count // 8
        stream = hashlib.shake_128(name).digest(4 * words)
        candidates = (word & lowest_bits for (word,) in struct.iter_unpack("<I", stream))
        kept = [x for x in candidates if x < modulus]
        if len(kept) >= count:
            return kept[:count]


def weights(key: bytes, manifest: Manifest, limb: int, modulus: int) -> list[Element]:
    """The secret weight of each slot modulo a limb, the same for all blocks and ranges."""
    m, halves = manifest, []
    for half in (b"\0", b"\1"):
        seed = prf(key, "slot weights", m.generation, ring_of(m), half)
        place = struct.pack("<BBI", m.log_degree, limb, modulus)
        name = b"oboro v1 slot weights" + seed + place
        halves.append(uniform_residues(name, m.degree, modulus))
    return [Element(a, b) for a, b in zip(*halves, strict=True)]


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
    def measures_plaintexts(self) -> bool:
        return len(self.primes) >= LIMBS_WITH_PLAINTEXT_PEAK

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
        plaintext_peak = PLAINTEXT_PEAK if self.measures_plaintexts else NOISE_PEAK
        norms: float = NOISE_NORM * NOISE_PEAK ** (length - 2)
        for place in range(2, length + 1):
            norms += plaintext_peak ** (place - 2) * NOISE_PEAK ** (length - place) / 2
        errors = math.sqrt(2 * exponent * ERROR_VARIANCE * blocks / self.degree) * norms
        plaintexts: float = blocks / 4 * plaintext_peak ** (length - 2)
        unit: float = (self.modulus * math.sqrt(self.degree)) ** length
        return unit * (plaintexts + errors)

    @property
    def most_blocks(self) -> int:
        """The most blocks that a stratum may have.

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
        """The fewest first limbs that itemsets over the largest such stratum can be read from.

        None of itemsets that are longer than what was encrypted for.
        """
        if length > self.max_len:
            return 0
        bound = self.phase(self.most_blocks, length)
        for count, product in enumerate(itertools.accumulate(self.primes, operator.mul), 1):
            if product / 2 > bound:
                return count
        raise CheckError("does not hold: the limbs carry all lengths")


# The owner's record and ranges


@dataclass(frozen=True)
class Range:
    """Blocks over which moments are asked for."""

    first_block: int
    blocks: int

    def of(self, by_block: Sequence[T]) -> Sequence[T]:
        return by_block[self.first_block : self.first_block + self.blocks]


@dataclass(frozen=True)
class Stratum:
    """Blocks whose transactions are counted together."""

    first_block: int
    blocks: int
    transactions: int  # when they were shuffled
    erased: int  # since then
    erased_in_sample: int
    digests: list[str]

    def ranges(self, bounds: Bounds) -> list[Range]:
        total = Range(self.first_block, self.blocks)
        if self.transactions <= bounds.sample_transactions:
            return [total]
        return [total, Range(self.first_block, bounds.sample_blocks)]


@dataclass(frozen=True)
class Record:
    """What only the owner knows, as far as verification needs it."""

    by_support: list[int]  # all columns
    paired: int  # how many of them have fixed parts for all their pairs
    focus: list[int]  # columns, not places
    supports: list[int]
    strata: list[Stratum]

    @property
    def is_wide(self) -> bool:
        return self.paired < len(self.by_support)

    @property
    def focus_places(self) -> list[int]:
        return [self.by_support.index(column) for column in self.focus]


@dataclass(frozen=True)
class KeptPairs:
    """What the owner keeps about pairs in one range modulo one limb."""

    prefix_parts: list[Element]  # what each column adds to the tokens of prefixes
    row_tokens: dict[int, Element]  # by place
    fixed_parts: list[int]  # of each pair of paired columns, in lexicographic order
    focus_parts: dict[int, list[int]]  # by place of a focus column, then of each column
    paired: int

    def fixed_part(self, i: int, j: int) -> int:
        for one, other in ((i, j), (j, i)):
            if one in self.focus_parts:
                return self.focus_parts[one][other]
        i, j = min(i, j), max(i, j)
        return self.fixed_parts[i * self.paired - i * (i + 1) // 2 + j - i - 1]


@dataclass(frozen=True)
class KeptLimb:
    """What the owner keeps of one range modulo one limb."""

    pairs: KeptPairs | None
    longer: dict[int, list[Element]]  # by length: the token of no columns, what each column adds


def check_strata(record: Record, manifest: Manifest, bounds: Bounds) -> None:
    blocks = [stratum.blocks for stratum in record.strata]
    require(sum(blocks) == manifest.blocks, "the strata are all blocks")
    most_blocks = bounds.most_blocks
    for stratum in record.strata:
        slots = stratum.blocks * manifest.degree
        require(0 < stratum.blocks <= most_blocks, "bounds hold for each stratum")
        require(0 <= stratum.transactions <= slots, "the transactions of a stratum have slots")
        ranges = stratum.ranges(bounds)
        require(len(stratum.digests) == len(ranges), "a stratum has a digest for each range")
        require(ranges[-1].blocks <= stratum.blocks, "a sample is a part of its stratum")
    ranges_of_all = sum(len(stratum.digests) for stratum in record.strata)
    require(ranges_of_all <= 1 << MOST_RANGES_LOG2, "the number of ranges is bounded")


def check_columns(record: Record, columns: int) -> None:
    """Which columns have fixed parts for which pairs."""
    everything, focus = list(range(columns)), record.focus
    require(sorted(record.by_support) == everything, "each column is in the order once")
    require(
        min(columns, LEAST_PAIRED) <= record.paired <= min(columns, MOST_PAIRED),
        "as many columns are paired as may be",
    )
    require(record.is_wide or not focus, "there is no focus where all pairs have fixed parts")
    require(len(focus) <= MOST_FOCUS, "there are not too many focus columns")
    require(len(set(focus)) == len(focus), "no column is in the focus twice")
    require(set(focus) <= set(everything), "the focus has columns of the dataset")
    require(record.focus_places == sorted(record.focus_places), "the focus is in that order, too")


def is_hexadecimal(digest: str) -> bool:
    return len(digest) == 64 and set(digest) <= set("0123456789abcdef")


def is_whole_number(name: str) -> bool:
    """Whether these are the decimal digits of a signed number of 64 bits."""
    digits = name.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(1 << 63))):
        return False
    return str(int(name)) == name and -(1 << 63) <= int(name) < 1 << 63


def check_description(value: object, manifest: Manifest, bounds: Bounds) -> None:
    """The fields of a record that nothing here is computed from."""
    columns = manifest.columns
    require(is_hexadecimal(member(value, "root", str)), "the root is hexadecimal")
    names = strings(member(value, "names", list))
    require(len(names) == columns == len(set(names)), "each column has a name of its own")
    if member(value, "numbers", bool):
        require(all(map(is_whole_number, names)), "names are whole numbers")
    require(member(value, "min_item_support", int) >= 1, "the least support of an item is 1")
    order = integers(member(value, "order", list))
    require(sorted(order) == list(range(columns)), "each item is in the owner's order once")
    limits = {"noise_norm": NOISE_NORM, "noise_peak": NOISE_PEAK}
    limits["noise_plaintext_peak"] = PLAINTEXT_PEAK if bounds.measures_plaintexts else 0
    for name, limit in limits.items():
        require(0 <= number(value, name) <= limit, f"{name} is within its limit")
    read = member(value, "read", object)
    require(read is None or isinstance(read, dict), "how the file was read is an object or null")
    member(value, "absorbs", bool)
    reliance = member(value, "reliance", object)
    is_known = reliance is None or isinstance(reliance, dict)
    require(is_known, "the use of unverified answers is an object or null")


def parse_record(data: bytes, manifest: Manifest, bounds: Bounds) -> Record:
    try:
        value: object = json.loads(data)
        require(member(value, "version", int) == RECORD_VERSION, "a record of version 8")
        transactions = member(value, "transactions", int)
        strata, next_block, erased = [], 0, 0
        for item in member(value, "strata", list):
            blocks = member(item, "blocks", int)
            digests = strings(member(item, "ranges", list))
            rows, emptied, sampled = (
                member(item, it, int) for it in ("transactions", "erased", "erased_in_sample")
            )
            strata.append(Stratum(next_block, blocks, rows, emptied, sampled, digests))
            erased += strata[-1].erased
            next_block += blocks
        record = Record(
            integers(member(value, "by_support", list)),
            member(value, "paired", int),
            integers(member(value, "focus", list)),
            integers(member(value, "supports", list)),
            strata,
        )
        check_description(value, manifest, bounds)
    except (ValueError, Malformed) as error:
        raise CheckError(f"the owner's record: {error}") from error
    supports_fit = all(0 <= support <= transactions for support in record.supports)
    held = sum(s.transactions for s in strata) - erased
    require(held == transactions, "strata have all transactions")
    require(len(record.supports) == manifest.columns, "each column has a support")
    require(supports_fit, "no support is above the transactions")
    check_columns(record, manifest.columns)
    check_strata(record, manifest, bounds)
    return record


class Reader:
    """Reads what is sealed in a range from its beginning to its end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def numbers(self, count: int) -> list[int]:
        """So many numbers of 4 bytes."""
        start, self.at = self.at, self.at + 4 * count
        require(self.at <= len(self.data), "a range is not too short")
        return list(struct.unpack_from(f"<{count}I", self.data, start))

    def residues(self, count: int, modulus: int) -> list[int]:
        values = self.numbers(count)
        require(max(values, default=0) < modulus, "residues are below their modulus")
        return values

    def elements(self, count: int, modulus: int) -> list[Element]:
        values = self.residues(2 * count, modulus)
        return [Element(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]

    def end(self) -> None:
        require(self.at == len(self.data), "a range has nothing behind its end")


def read_pairs(reader: Reader, record: Record, modulus: int) -> KeptPairs:
    """What is kept about pairs, of a range modulo one limb."""
    columns, paired = len(record.by_support), record.paired
    prefix_parts = reader.elements(paired, modulus)
    row_tokens: dict[int, Element] = {}
    if not record.is_wide:
        row_tokens = dict(enumerate(reader.elements(columns, modulus)))
    fixed_parts = reader.residues(paired * (paired - 1) // 2, modulus)
    focus_parts: dict[int, list[int]] = {}
    for place in record.focus_places:
        row_tokens[place] = reader.elements(1, modulus)[0]
        focus_parts[place] = reader.residues(columns, modulus)
        require(focus_parts[place][place] == 0, "a column has no fixed part with itself")
    return KeptPairs(
        prefix_parts,
        row_tokens,
        fixed_parts,
        focus_parts,
        paired,
    )


def parse_range(data: bytes, blocks: int, record: Record, bounds: Bounds) -> list[KeptLimb]:
    """What is kept modulo each limb that itemsets of up to four are read from."""
    columns, focus = len(record.by_support), record.focus
    limbs_of = {length: bounds.limbs(length) for length in TOKEN_LENGTHS}
    header = struct.unpack_from("<IIIIIIIQ", data)
    version, columns_kept, paired, focus_kept, *limbs_kept, blocks_kept = header
    require(version == RANGE_VERSION, "a range of version 2")
    require(blocks_kept == blocks, "a range has the blocks of its place")
    require(columns_kept == columns and paired == record.paired, "a range has all columns")
    require(focus_kept == len(focus), "a range has all focus columns")
    require(limbs_kept == list(limbs_of.values()), "a range has the limbs of each length")
    reader = Reader(data)
    reader.at = RANGE_HEADER
    require(reader.numbers(columns) == record.by_support, "a range has the owner's order")
    require(reader.numbers(len(focus)) == focus, "a range has the focus in the owner's order")
    kept = []
    for limb in range(max(limbs_kept)):
        modulus = bounds.primes[limb]
        pairs = None
        if limb < limbs_of[2]:
            pairs = read_pairs(reader, record, modulus)
        longer = {
            length: reader.elements(paired + 1, modulus)
            for length in TOKEN_LENGTHS[1:]
            if limb < limbs_of[length]
        }
        kept.append(KeptLimb(pairs, longer))
    reader.end()
    return kept


# The whole of it


@dataclass(frozen=True)
class Dataset:
    owner: Owner
    bundle: Path
    bounds: Bounds
    record: Record

    @property
    def ranges(self) -> list[Range]:
        """The total of each stratum, followed by its sample if it has one."""
        return [part for stratum in self.record.strata for part in stratum.ranges(self.bounds)]

    def kept(self) -> list[list[KeptLimb]]:
        """What the owner keeps, by range and limb."""
        key = prf(self.owner.key, "seal key")
        context = b"oboro range" + self.owner.manifest.dataset
        digests = [digest for stratum in self.record.strata for digest in stratum.digests]
        result = []
        for place, digest in zip(self.ranges, digests, strict=True):
            require(is_hexadecimal(digest), "a digest is hexadecimal")
            sealed = (self.bundle / "ranges" / digest).read_bytes()
            data = open_sealed(key, context, sealed)
            result.append(parse_range(data, place.blocks, self.record, self.bounds))
        return result

    def ciphertexts(self, limb: int, place: int) -> list[list[int]]:
        return self.owner.ciphertexts(limb, self.record.by_support[place])

    def masks(self, limb: int) -> list[list[int]]:
        return [self.owner.mask(limb, block) for block in range(self.owner.manifest.blocks)]

    def secret(self, limb: int, place: int, part: Range) -> list[int]:
        """A column's secret in a range, whose blocks are of one stratum."""
        generation = self.owner.generations[part.first_block]
        return self.owner.secret(limb, self.record.by_support[place], generation)


def open_all(key: Path, bundle: Path) -> Dataset:
    owner = open_dataset(key, bundle)
    require(owner.manifest.max_len >= 2, "pairs were encrypted")
    bounds = Bounds.of(owner.manifest, owner.primes)
    return Dataset(owner, bundle, bounds, parse_record(owner.record, owner.manifest, bounds))


def pairs_of(columns: int) -> Iterator[tuple[int, int]]:
    """Places i < j, in lexicographic order."""
    return itertools.combinations(range(columns), 2)


def sum_of_products(x: Sequence[int], y: Sequence[int]) -> int:
    return sum(map(operator.mul, x, y))


def entrywise_product(factors: Sequence[Sequence[int]], modulus: int) -> list[int]:
    return [math.prod(entry) % modulus for entry in zip(*factors, strict=True)]


def over_ranges(
    dataset: Dataset, by_block: Sequence[Sequence[int]], modulus: int
) -> list[list[int]]:
    """Sums over the blocks of each range, entry by entry."""
    return [
        [sum(entry) % modulus for entry in zip(*part.of(by_block), strict=True)]
        for part in dataset.ranges
    ]


# Questions


@dataclass(frozen=True)
class LimbAnswer:
    """What a server answers about one range modulo one limb; its residues may be anything."""

    sums: list[int]  # M_{S,0} of each itemset
    moments: list[list[list[int]]]  # for each r from 1, M_{S,r} of each itemset of so many less


class LimbKeys:
    """The secrets that answers modulo one limb are verified with."""

    def __init__(self, dataset: Dataset, limb: int) -> None:
        self.dataset, self.limb = dataset, limb
        self.field = QuadraticField(dataset.owner.primes[limb])

    def points(self, places: Sequence[int]) -> list[Element]:
        owner, order = self.dataset.owner, self.dataset.record.by_support
        q = self.field.modulus
        return [point(owner.key, owner.manifest, self.limb, order[p], q) for p in places]

    @cached_property
    def weights(self) -> list[Element]:
        owner = self.dataset.owner
        return weights(owner.key, owner.manifest, self.limb, self.field.modulus)

    def weighed(self, moment: Sequence[int]) -> Element:
        """Σ_s z_s·M(s)."""
        return self.field.combination(moment, self.weights)

    def check_residues(self, values: Sequence[int], count: int) -> None:
        accept(len(values) == count, "there is another number of residues")
        accept(all(0 <= value < self.field.modulus for value in values), "there is no residue")


class Question(ABC):
    """What is asked of every range, modulo the first limbs that itemsets so long are read from."""

    length: int = 2  # of the itemsets

    @abstractmethod
    def about(self) -> dict[str, int]:
        """How an answer says what it is about."""

    @abstractmethod
    def check(self, dataset: Dataset) -> None:
        """Whether the owner can ask it."""

    @abstractmethod
    def honest(self, dataset: Dataset, limb: int) -> list[object]:
        """The server's part: the answer for each range, from public values alone."""

    @abstractmethod
    def parse(self, value: object) -> LimbAnswer:
        """An answer modulo one limb, of whatever numbers."""

    @abstractmethod
    def verify(self, answer: LimbAnswer, kept: KeptLimb, keys: LimbKeys) -> None:
        """Whether an answer modulo one limb is accepted."""

    @abstractmethod
    def itemsets(self, dataset: Dataset) -> list[tuple[int, ...]]:
        """The places of the columns of each support that an answer leads to."""

    @abstractmethod
    def phases(
        self, dataset: Dataset, part: Range, limb: int, answer: LimbAnswer, kept: KeptLimb
    ) -> list[int]:
        """N·Φ_0 of each itemset modulo one limb, from a verified answer."""

    def primes(self, dataset: Dataset) -> list[int]:
        return dataset.owner.primes[: dataset.bounds.limbs(self.length)]


def kept_pairs(kept: KeptLimb) -> KeptPairs:
    if kept.pairs is None:
        raise CheckError("does not hold: a range has what is kept about pairs")
    return kept.pairs


class QuestionOfPairs(Question):
    """Its answer modulo one limb is a list of sums M_ij."""

    def parse(self, value: object) -> LimbAnswer:
        return LimbAnswer(integers(value), [])

    def phases(
        self, dataset: Dataset, part: Range, limb: int, answer: LimbAnswer, kept: KeptLimb
    ) -> list[int]:
        pairs = kept_pairs(kept)
        itemsets = self.itemsets(dataset)
        return [
            total + pairs.fixed_part(i, j)
            for total, (i, j) in zip(answer.sums, itemsets, strict=True)
        ]


@dataclass(frozen=True)
class Pairs(QuestionOfPairs):
    """All pairs of the first columns."""

    columns: int

    def about(self) -> dict[str, int]:
        return {"columns": self.columns}

    def check(self, dataset: Dataset) -> None:
        if not 2 <= self.columns <= dataset.record.paired:
            raise CannotAsk("pairs are of the columns with fixed parts for all pairs, 2 or more")

    def itemsets(self, dataset: Dataset) -> list[tuple[int, ...]]:
        return list(pairs_of(self.columns))

    def honest(self, dataset: Dataset, limb: int) -> list[object]:
        by_column = [dataset.ciphertexts(limb, place) for place in range(self.columns)]
        by_block = [
            [sum_of_products(block[i], block[j]) for i, j in pairs_of(self.columns)]
            for block in zip(*by_column, strict=True)
        ]
        return [*over_ranges(dataset, by_block, dataset.owner.primes[limb])]

    def verify(self, answer: LimbAnswer, kept: KeptLimb, keys: LimbKeys) -> None:
        """Whether Σ_{i<j≤m} x_i x_j·M_ij is the token of the prefix of m columns."""
        columns, sums, field = self.columns, answer.sums, keys.field
        keys.check_residues(sums, columns * (columns - 1) // 2)
        points = keys.points(range(columns))
        products, start = [], 0
        for i in range(columns):
            later = columns - 1 - i
            row = field.combination(sums[start : start + later], points[i + 1 :])
            products.append(field.product(points[i], row))
            start += later
        token = field.sum(kept_pairs(kept).prefix_parts[:columns])
        accept(field.sum(products) == token, "sums do not match their token")


@dataclass(frozen=True)
class Row(QuestionOfPairs):
    """The pairs of one column with every other one."""

    place: int

    def about(self) -> dict[str, int]:
        return {"row": self.place}

    def others(self, columns: int) -> list[int]:
        return [place for place in range(columns) if place != self.place]

    def check(self, dataset: Dataset) -> None:
        record = dataset.record
        if not 0 <= self.place < len(record.by_support):
            raise CannotAsk("there is no column at this place")
        if record.is_wide and self.place not in record.focus_places:
            raise CannotAsk("among so many columns only a focus column has a row")

    def itemsets(self, dataset: Dataset) -> list[tuple[int, ...]]:
        return [(self.place, other) for other in self.others(len(dataset.record.by_support))]

    def honest(self, dataset: Dataset, limb: int) -> list[object]:
        own = dataset.ciphertexts(limb, self.place)
        by_column = [
            list(map(sum_of_products, own, dataset.ciphertexts(limb, other)))
            for other in self.others(len(dataset.record.by_support))
        ]
        by_block = list(zip(*by_column, strict=True))
        return [*over_ranges(dataset, by_block, dataset.owner.primes[limb])]

    def verify(self, answer: LimbAnswer, kept: KeptLimb, keys: LimbKeys) -> None:
        """Whether Σ_{j≠i} x_j·M_ij is the token of the row."""
        others = self.others(len(keys.dataset.record.by_support))
        keys.check_residues(answer.sums, len(others))
        total = keys.field.combination(answer.sums, keys.points(others))
        token = kept_pairs(kept).row_tokens[self.place]
        accept(total == token, "sums do not match the token of their row")


@dataclass(frozen=True)
class Longer(Question):
    """All itemsets of three or four of the first columns."""

    columns: int
    length: int

    def about(self) -> dict[str, int]:
        return {"columns": self.columns, "length": self.length}

    def check(self, dataset: Dataset) -> None:
        if self.length not in TOKEN_LENGTHS[1:] or self.length > dataset.bounds.max_len:
            raise CannotAsk("nothing is kept about itemsets of this length")
        if not self.length <= self.columns <= dataset.record.paired:
            raise CannotAsk("itemsets are of so many columns or more, about which tokens are kept")

    def subsets(self, power: int) -> list[tuple[int, ...]]:
        """The S of all M_{S,r}: as many columns as r leaves."""
        return list(itertools.combinations(range(self.columns), self.length - power))

    def itemsets(self, dataset: Dataset) -> list[tuple[int, ...]]:
        return self.subsets(0)

    def honest(self, dataset: Dataset, limb: int) -> list[object]:
        modulus = dataset.owner.primes[limb]
        by_column = [dataset.ciphertexts(limb, place) for place in range(self.columns)]
        masks = dataset.masks(limb)

        def moment(subset: Sequence[int], power: int) -> list[list[int]]:
            factors = [by_column[place] for place in subset] + [masks] * power
            by_block = [entrywise_product(block, modulus) for block in zip(*factors, strict=True)]
            return over_ranges(dataset, by_block, modulus)

        answers: list[object] = []
        powers = range(1, self.length + 1)
        sums = [moment(subset, 0) for subset in self.subsets(0)]
        moments = [[moment(subset, power) for subset in self.subsets(power)] for power in powers]
        for number in range(len(dataset.ranges)):
            scalars = [sum(of_subset[number]) % modulus for of_subset in sums]
            polynomials = [[of_subset[number] for of_subset in by_power] for by_power in moments]
            answers.append([scalars, *polynomials])
        return answers

    def parse(self, value: object) -> LimbAnswer:
        if not isinstance(value, list) or not value:
            raise Malformed("there is no list of moments by power")
        sums, *moments = value
        if not all(isinstance(by_power, list) for by_power in moments):
            raise Malformed("there is no list of moments")
        by_power = [[integers(moment) for moment in moments_of] for moments_of in moments]
        return LimbAnswer(integers(sums), by_power)

    def verify(self, answer: LimbAnswer, kept: KeptLimb, keys: LimbKeys) -> None:
        """Whether Σ_S x_S·M_{S,0} + Σ_{r≥1} Σ_S x_S·Σ_s z_s·M_{S,r}(s) is token(m, k)."""
        field = keys.field
        points = keys.points(range(self.columns))

        def product_of_points(subset: Sequence[int]) -> Element:
            product = Element(1, 0)
            for place in subset:
                product = field.product(product, points[place])
            return product

        keys.check_residues(answer.sums, len(self.subsets(0)))
        accept(len(answer.moments) == self.length, "there is another number of powers")
        parts = [field.combination(answer.sums, list(map(product_of_points, self.subsets(0))))]
        for power, moments in enumerate(answer.moments, 1):
            subsets = self.subsets(power)
            accept(len(moments) == len(subsets), "there is another number of moments")
            for subset, moment in zip(subsets, moments, strict=True):
                keys.check_residues(moment, len(keys.weights))
                parts.append(field.product(product_of_points(subset), keys.weighed(moment)))
        of_none, *of_columns = kept.longer[self.length]
        token = field.sum([of_none, *of_columns[: self.columns]])
        accept(field.sum(parts) == token, "moments do not match their token")

    def phases(
        self, dataset: Dataset, part: Range, limb: int, answer: LimbAnswer, kept: KeptLimb
    ) -> list[int]:
        """Σ over all T within S of the points of σ_{S∖T}·M_{T,r}, for each S."""
        modulus = dataset.owner.primes[limb]
        secrets = [dataset.secret(limb, place, part) for place in range(self.columns)]
        products = {
            rest: entrywise_product([secrets[place] for place in rest], modulus)
            for power in range(1, self.length + 1)
            for rest in itertools.combinations(range(self.columns), power)
        }
        moments = {
            subset: moment
            for power, moments_of in enumerate(answer.moments, 1)
            for subset, moment in zip(self.subsets(power), moments_of, strict=True)
        }
        result = []
        for itemset, total in zip(self.subsets(0), answer.sums, strict=True):
            for power in range(1, self.length + 1):
                for subset in itertools.combinations(itemset, self.length - power):
                    rest = tuple(place for place in itemset if place not in subset)
                    total += sum_of_products(products[rest], moments[subset])
            result.append(total)
        return result


def honest_answer(dataset: Dataset, question: Question) -> dict[str, object]:
    by_limb = [question.honest(dataset, limb) for limb in range(len(question.primes(dataset)))]
    ranges = [
        {"first_block": part.first_block, "blocks": part.blocks, "limbs": list(limbs)}
        for part, limbs in zip(dataset.ranges, zip(*by_limb, strict=True), strict=True)
    ]
    return {**question.about(), "ranges": ranges}


# The owner


@dataclass(frozen=True)
class Answer:
    question: Question
    limbs: list[list[LimbAnswer]]  # by range and limb


def parse_question(value: object) -> Question:
    if not isinstance(value, dict):
        raise Malformed("there is no object")
    match sorted(value.keys() - {"ranges"}):
        case ["columns"]:
            return Pairs(member(value, "columns", int))
        case ["columns", "length"]:
            return Longer(member(value, "columns", int), member(value, "length", int))
        case ["row"]:
            return Row(member(value, "row", int))
    raise Malformed("what it is about is not said")


def parse_answer(data: bytes, dataset: Dataset) -> Answer:
    """An answer of the right form for a question of the owner's; its residues may be anything."""
    try:
        value: object = json.loads(data)
        question = parse_question(value)
        question.check(dataset)
        places, by_range = [], []
        for item in member(value, "ranges", list):
            places.append(Range(member(item, "first_block", int), member(item, "blocks", int)))
            by_range.append([question.parse(limb) for limb in member(item, "limbs", list)])
    except (ValueError, RecursionError, Malformed) as error:
        raise FalseAnswer(f"the answer cannot be read: {error}") from error
    except CannotAsk as error:
        raise FalseAnswer(f"the owner does not ask this: {error}") from error
    accept(places == dataset.ranges, "the ranges are not those that were asked for")
    return Answer(question, by_range)


def verify(dataset: Dataset, answer: Answer, kept: Sequence[Sequence[KeptLimb]]) -> None:
    """Each range and each limb by itself."""
    question = answer.question
    keys = [LimbKeys(dataset, limb) for limb in range(len(question.primes(dataset)))]
    for number, (limbs, kept_limbs) in enumerate(zip(answer.limbs, kept, strict=True)):
        accept(len(limbs) == len(keys), f"range {number}: there is another number of limbs")
        for limb, of_limb in enumerate(limbs):
            try:
                question.verify(of_limb, kept_limbs[limb], keys[limb])
            except FalseAnswer as error:
                raise FalseAnswer(f"range {number}, limb {limb}: {error}") from error


def decrypt(bounds: Bounds, phase: Sequence[int], bound: float) -> int:
    """The support modulo t, from N·Φ_0 modulo each of the first limbs."""
    degree, primes = bounds.degree, bounds.primes[: len(phase)]
    modulus, constant = math.prod(primes), 0
    for residue, q in zip(phase, primes, strict=True):
        cofactor = modulus // q
        constant += residue * pow(degree, -1, q) * pow(cofactor, -1, q) * cofactor
    constant = centred(constant, modulus)
    if abs(constant) > bound:
        raise Impossible("a phase is above its bound")
    return degree * constant % bounds.modulus


def range_supports(
    dataset: Dataset,
    part: Range,
    question: Question,
    limbs: Sequence[LimbAnswer],
    kept: Sequence[KeptLimb],
) -> list[int]:
    """The supports modulo t of all itemsets over one range."""
    bound = dataset.bounds.phase(part.blocks, question.length)
    by_limb = [
        question.phases(dataset, part, limb, answer, kept[limb])
        for limb, answer in enumerate(limbs)
    ]
    return [decrypt(dataset.bounds, phase, bound) for phase in zip(*by_limb, strict=True)]


def lifted(bounds: Bounds, stratum: Stratum, residue: int, in_sample: int) -> int:
    """The number with this residue in the window around what the sample says."""
    t, sampled, transactions = bounds.modulus, bounds.sample_transactions, stratum.transactions
    erased, outside = stratum.erased_in_sample, stratum.erased - stratum.erased_in_sample
    # All bounds are multiplied by n_s.
    distance = math.ceil(sampled * bounds.distance(transactions)) + 1
    least = transactions * in_sample - distance - sampled * outside
    most = transactions * in_sample + distance + (transactions - sampled) * erased
    require(most - least < t * sampled, "a window has one number with each residue")
    first = -(-least // sampled)
    support = first + (residue - first) % t
    if support * sampled > most:
        raise Impossible("a support is far from what the sample says")
    others = transactions - sampled - outside
    if in_sample > sampled - erased or not in_sample <= support <= in_sample + others:
        raise Impossible("a support does not agree with its sample")
    return support


def supports(
    dataset: Dataset, answer: Answer, kept: Sequence[Sequence[KeptLimb]]
) -> Iterator[list[int]]:
    """The supports of all itemsets in each stratum, from a verified answer."""
    by_range = (
        range_supports(dataset, part, answer.question, limbs, kept_limbs)
        for part, limbs, kept_limbs in zip(dataset.ranges, answer.limbs, kept, strict=True)
    )
    for stratum in dataset.record.strata:
        total = next(by_range)
        if len(stratum.digests) == 1:
            if any(support > stratum.transactions - stratum.erased for support in total):
                raise Impossible("a support is larger than its stratum")
            yield total
            continue
        sample = next(by_range)
        yield [
            lifted(dataset.bounds, stratum, residue, in_sample)
            for residue, in_sample in zip(total, sample, strict=True)
        ]


def verified_supports(dataset: Dataset, data: bytes) -> list[int] | None:
    """The supports that a verified answer leads to; None if it leads to none."""
    answer = parse_answer(data, dataset)
    kept = dataset.kept()
    verify(dataset, answer, kept)
    if not answer.question.itemsets(dataset):
        return None
    by_stratum = list(supports(dataset, answer, kept))
    return [sum(itemset) for itemset in zip(*by_stratum, strict=True)]


def plain_supports(dataset: Dataset, question: Question) -> list[int]:
    record, owner = dataset.record, dataset.owner
    itemsets = question.itemsets(dataset)
    bits_of: dict[int, int] = {}  # the slots of a column as the bits of one integer
    for place in sorted(set(itertools.chain.from_iterable(itemsets))):
        column = record.by_support[place]
        slots = bytes(bit for block in owner.decrypt(column) for bit in block)
        require(sum(slots) == record.supports[column], "the record has the supports")
        bits_of[place] = int.from_bytes(slots, "little")
        owner.secrets.clear()
    return [
        functools.reduce(operator.and_, (bits_of[place] for place in itemset)).bit_count()
        for itemset in itemsets
    ]


def question_of(arguments: argparse.Namespace) -> Question:
    if arguments.length != 2 and arguments.columns is None:
        raise CannotAsk("only of the first columns all itemsets of a length are counted")
    if arguments.row is not None:
        return Row(arguments.row)
    if arguments.length == 2:
        return Pairs(arguments.columns)
    return Longer(arguments.columns, arguments.length)


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
        said = {} if result is None else {"supports": result}
        print(json.dumps({"verified": True, **said}))
        return 0
    question = question_of(arguments)
    question.check(dataset)
    if arguments.command == "count":
        print(json.dumps(honest_answer(dataset, question)))
    else:
        print(json.dumps({"supports": plain_supports(dataset, question)}))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Verify answers independently of Oboro.")
    parser.add_argument("key", type=Path, metavar="KEYFILE")
    parser.add_argument("bundle", type=Path, metavar="BUNDLE_DIR")
    commands = parser.add_subparsers(dest="command", required=True)
    count = commands.add_parser("count", help="answer as an honest server does")
    check = commands.add_parser("verify", help="verify an answer and read the supports")
    plain = commands.add_parser("plain", help="count in the decrypted columns")
    for command in (count, plain):
        asked = command.add_mutually_exclusive_group(required=True)
        asked.add_argument("--columns", type=int, metavar="M", help="all itemsets of the first M")
        asked.add_argument("--row", type=int, metavar="PLACE", help="the pairs of one column")
        command.add_argument("--length", type=int, default=2, choices=TOKEN_LENGTHS)
    check.add_argument("answer", type=Path, metavar="ANSWER")
    try:
        return run(parser.parse_args())
    except (CheckError, CannotAsk, OSError, struct.error) as error:
        print(f"independent_verify: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
