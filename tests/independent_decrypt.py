#!/usr/bin/env python3
"""An independent decryption of Oboro's encrypted datasets.

This program was written from docs/cryptography.md and docs/formats.md only, without a look at
Oboro's sources. That it decrypts what Oboro encrypts shows that the two documents are right and
complete. It favours plain steps over speed and needs nothing but Python's standard library.

    independent_decrypt.py KEYFILE BUNDLE_DIR [--columns N]

It decrypts the first N columns (all by default) modulo every limb by itself, checks that all limbs
agree and that phases and errors keep their bounds, and then counts one itemset each of one, two
and three columns the way the server and the owner do together: from moments of the ciphertexts.
The result is printed as JSON; a check that fails ends the program with a message and status 1.

Not checked: the digests, for want of BLAKE3 in the standard library, the sealed cells, which need
them, and most of the owner's record. Key files under a passphrase are refused for want of Argon2id.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import itertools
import json
import math
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

KEY_VERSION = 1
BUNDLE_VERSION = 2
LARGEST_RECORD = 1 << 28
MANIFEST_VERSION = SEGMENT_VERSION = 3
CELL_BITS = 1
CELL_SEAL_BYTES = 24 + 16
PAGE = 4096
MAX_ERROR = 21
NOISE_NORM = 4  # ρ
NOISE_PEAK = 24  # κ
LONGEST_COUNTED = 3
LIMB_BITS = 28
SMALLEST_LIMB_BITS = 26
SECURITY_BOUND = {10: 27, 11: 54, 12: 109, 13: 218, 14: 438, 15: 881}


class CheckError(Exception):
    """Something in the files is not what the documents say."""


def require(holds: bool, claim: str) -> None:
    if not holds:
        raise CheckError(f"does not hold: {claim}")


def centred(x: int, modulus: int) -> int:
    """The representative of x in (-modulus/2, modulus/2), for an odd modulus."""
    x %= modulus
    return x - modulus if x > modulus // 2 else x


# Ring


def is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def primes_below(bits: float, log_degree: int) -> Iterator[int]:
    """The primes below 2^bits that are 1 modulo 2N, descending."""
    step = 2 << log_degree
    largest = (math.ceil(2**bits) - 2) // step * step + 1
    return filter(is_prime, range(largest, 0, -step))


def limb_primes(log_degree: int, count: int) -> list[int]:
    """The largest primes below 2^28 that are 1 modulo 2N, descending.

    The last two (the only one, if it is one) are smaller where the security bound wants that.
    """
    bound, smaller = SECURITY_BOUND[log_degree], min(count, 2)
    left = bound - LIMB_BITS * (count - smaller)
    if LIMB_BITS * count <= bound or left < SMALLEST_LIMB_BITS * smaller:
        smaller = 0
    primes = list(itertools.islice(primes_below(LIMB_BITS, log_degree), count - smaller))
    return primes + list(
        itertools.islice(primes_below(left / max(smaller, 1), log_degree), smaller)
    )


class Transform:
    """Between coefficients and evaluation form modulo one prime."""

    def __init__(self, modulus: int, log_degree: int) -> None:
        self.modulus = modulus
        self.degree = degree = 1 << log_degree
        roots = (pow(x, (modulus - 1) // (2 * degree), modulus) for x in range(2, modulus))
        psi = next(r for r in roots if pow(r, degree, modulus) == modulus - 1)
        powers = [1]
        for _ in range(2 * degree - 1):
            powers.append(powers[-1] * psi % modulus)
        rev = [int(f"{j:0{log_degree}b}"[::-1], 2) for j in range(degree)]
        self.twiddles = [powers[r] for r in rev]
        self.inverse_twiddles = [powers[-r] if r else 1 for r in rev]
        self.inverse_degree = pow(degree, -1, modulus)
        # The definition: entry j is f(ψ^(2·rev(j)+1)). For f = X that is easy to see.
        monomial = [0, 1] + [0] * (degree - 2)
        by_definition = [powers[2 * r + 1] for r in rev]
        require(self.forward(monomial) == by_definition, "evaluation form of X")
        require(self.inverse(by_definition) == monomial, "inverse of the evaluation form of X")

    def forward(self, coefficients: list[int]) -> list[int]:
        q, values = self.modulus, list(coefficients)
        blocks, half = 1, self.degree // 2
        while half:
            for block in range(blocks):
                w = self.twiddles[blocks + block]
                start = 2 * half * block
                middle = start + half
                low = values[start:middle]
                high = [x * w % q for x in values[middle : middle + half]]
                values[start:middle] = [(x + y) % q for x, y in zip(low, high, strict=True)]
                values[middle : middle + half] = [
                    (x - y) % q for x, y in zip(low, high, strict=True)
                ]
            blocks, half = 2 * blocks, half // 2
        return values

    def inverse(self, evaluations: list[int]) -> list[int]:
        q, values = self.modulus, list(evaluations)
        blocks, half = self.degree // 2, 1
        while blocks:
            for block in range(blocks):
                w = self.inverse_twiddles[blocks + block]
                start = 2 * half * block
                middle = start + half
                low, high = values[start:middle], values[middle : middle + half]
                values[start:middle] = [(x + y) % q for x, y in zip(low, high, strict=True)]
                values[middle : middle + half] = [
                    (x - y) * w % q for x, y in zip(low, high, strict=True)
                ]
            blocks, half = blocks // 2, 2 * half
        return [x * self.inverse_degree % q for x in values]


# Derivation


def prf(master: bytes, label: str, *fields: bytes) -> bytes:
    message = b"oboro v1 " + label.encode() + b"\0"
    for part in fields:
        message += struct.pack("<I", len(part)) + part
    return hmac.digest(master, message, "sha256")


def ternary(seed: bytes, degree: int) -> list[int]:
    """The ternary expansion: N coefficients out of 0, 1, -1."""
    length = degree
    while True:
        length += degree // 8
        stream = hashlib.shake_256(b"oboro v1 ternary" + seed).digest(length)
        kept = [(0, 1, -1)[byte % 3] for byte in stream if byte != 255]
        if len(kept) >= degree:
            return kept[:degree]


def expand_mask(seed: bytes, log_degree: int, limb: int, modulus: int) -> list[int]:
    """A block's mask modulo one limb, in evaluation form."""
    name = b"oboro v1 mask" + seed + struct.pack("<BBI", log_degree, limb, modulus)
    degree, lowest_bits = 1 << log_degree, (1 << modulus.bit_length()) - 1
    words = degree
    while True:
        words += degree // 8
        stream = hashlib.shake_128(name).digest(4 * words)
        candidates = (word & lowest_bits for (word,) in struct.iter_unpack("<I", stream))
        kept = [x for x in candidates if x < modulus]
        if len(kept) >= degree:
            return kept[:degree]


# XChaCha20-Poly1305: RFC 8439 and draft-irtf-cfrg-xchacha

NONCE_BYTES = 24
TAG_BYTES = 16
CHACHA_LANES = 1024
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


def lanes_of(words: Sequence[int]) -> int:
    """Words of many blocks side by side in one integer, 64 bits for each."""
    return int.from_bytes(struct.pack(f"<{len(words)}Q", *words), "little")


def chacha20_rounds(state: Sequence[int], lanes: int) -> list[int]:
    """The twenty rounds for all lanes, without the addition of the state at the end."""
    mask = lanes_of([WORD] * lanes)

    def rotated(words: int, by: int) -> int:
        return (words << by | words >> (32 - by)) & mask

    x = list(state)
    for _ in range(10):
        for a, b, c, d in QUARTER_ROUNDS:
            x[a] = (x[a] + x[b]) & mask
            x[d] = rotated(x[d] ^ x[a], 16)
            x[c] = (x[c] + x[d]) & mask
            x[b] = rotated(x[b] ^ x[c], 12)
            x[a] = (x[a] + x[b]) & mask
            x[d] = rotated(x[d] ^ x[a], 8)
            x[c] = (x[c] + x[d]) & mask
            x[b] = rotated(x[b] ^ x[c], 7)
    return x


def hchacha20(key: bytes, nonce: bytes) -> bytes:
    """The key of ChaCha20 for the first 16 bytes of a nonce of XChaCha20."""
    state = (*CHACHA_CONSTANTS, *struct.unpack("<8I", key), *struct.unpack("<4I", nonce))
    rounds = chacha20_rounds(state, 1)
    return struct.pack("<8I", *rounds[:4], *rounds[12:])


def chacha20(key: bytes, nonce: bytes, first_block: int, length: int) -> bytes:
    """Bytes of the key stream."""
    fixed = (*CHACHA_CONSTANTS, *struct.unpack("<8I", key))
    nonce_words = struct.unpack("<3I", nonce)
    stream = bytearray()
    counters = range(first_block, first_block - -length // 64)
    for start in range(0, len(counters), CHACHA_LANES):
        batch = counters[start : start + CHACHA_LANES]
        lanes = len(batch)
        mask = lanes_of([WORD] * lanes)
        state = [lanes_of([word] * lanes) for word in fixed]
        state += [lanes_of(batch), *(lanes_of([word] * lanes) for word in nonce_words)]
        words = [
            struct.unpack(f"<{lanes}Q", ((x + y) & mask).to_bytes(8 * lanes, "little"))
            for x, y in zip(chacha20_rounds(state, lanes), state, strict=True)
        ]
        for block in zip(*words, strict=True):
            stream += struct.pack("<16I", *block)
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


# Files


def read_key(path: Path) -> tuple[bytes, bytes]:
    """The master key and the key check value."""
    data = path.read_bytes()
    require(len(data) == 120, "a key file has 120 bytes")
    magic, version, protection, memory, passes, lanes, zero, salt, nonce, master, check = (
        struct.unpack("<8s6I16s24s32s16s", data)
    )
    require(magic == b"OBOROKEY" and version == KEY_VERSION, "a key file of version 1")
    require(protection == 0, "the key file has no passphrase")
    require((memory, passes, lanes, zero) == (0, 0, 0, 0), "no costs without passphrase")
    require(not any(salt + nonce), "no salt and nonce without passphrase")
    require(prf(master, "key check")[:16] == check, "the key check value belongs to the key")
    return master, check


@dataclass(frozen=True)
class Listed:
    """A segment as the manifest lists it."""

    first_block: int
    blocks: int
    length: int


@dataclass(frozen=True)
class Manifest:
    dataset: bytes
    key_check: bytes
    generation: bytes
    log_degree: int
    limbs: int
    plaintext_modulus: int
    columns: int
    row_id_bytes: int
    max_len: int
    segments: list[Listed]

    @property
    def degree(self) -> int:
        return 1 << self.log_degree

    @property
    def blocks(self) -> int:
        return sum(segment.blocks for segment in self.segments)

    @property
    def group(self) -> int:
        """Blocks of a group: as many as have fewer than t transactions."""
        return (self.plaintext_modulus - 1) // self.degree


def parse_manifest(data: bytes) -> Manifest:
    magic, version, dataset, key_check, generation, *numbers = struct.unpack_from(
        "<8sI16s16s16sIIIIIIQI", data
    )
    log_degree, limbs, modulus, columns, row_id_bytes, max_len, _, count = numbers
    require(magic == b"OBOROMAN" and version == MANIFEST_VERSION, "a manifest of version 3")
    require(len(data) == 96 + 84 * count + 32, "length of the manifest")
    segments, next_block = [], 0
    for _, _, first_block, blocks, length in struct.iter_unpack("<32s32sQIQ", data[96:-32]):
        require(first_block == next_block, "segments follow each other")
        segments.append(Listed(first_block, blocks, length))
        next_block += blocks
    return Manifest(
        dataset,
        key_check,
        generation,
        log_degree,
        limbs,
        modulus,
        columns,
        row_id_bytes,
        max_len,
        segments,
    )


def read_head(bundle: Path) -> tuple[Manifest, bytes]:
    """The manifest, and the sealed record of the owner."""
    head = (bundle / "head").read_bytes()
    magic, version, manifest, record = struct.unpack_from("<8sIQQ", head)
    require(magic == b"OBOROBND" and version == BUNDLE_VERSION, "a bundle of version 2")
    require(record <= LARGEST_RECORD, "the record is not too large")
    end = 28 + manifest
    require(len(head) == end + record + 32, "length of the head")
    return parse_manifest(head[28:end]), head[end : end + record]


def secret_generations(record: bytes, blocks: int) -> list[bytes]:
    """The generation of the secrets of each block, from the owner's record."""
    generations: list[bytes] = []
    for stratum in json.loads(record)["strata"]:
        generation = bytes.fromhex(stratum["secret_generation"])
        require(len(generation) == 16, "a generation of secrets has 16 bytes")
        generations += [generation] * stratum["blocks"]
    require(len(generations) == blocks, "the strata are all blocks")
    return generations


def rounded_up(size: int) -> int:
    return -(-size // PAGE) * PAGE


def unpack_residues(data: bytes) -> Iterator[int]:
    """Two residues of 28 bits from every seven bytes."""
    for start in range(0, len(data), 7):
        pair = int.from_bytes(data[start : start + 7], "little")
        yield pair & 0xFFFFFFF
        yield pair >> 28


class Segment:
    """A segment file."""

    def __init__(self, path: Path, index: int, manifest: Manifest) -> None:
        self.data = data = path.read_bytes()
        self.manifest = manifest
        listed = manifest.segments[index]
        self.blocks = listed.blocks
        limbs, columns = manifest.limbs, manifest.columns
        magic, version, self.header, *named = struct.unpack_from("<8sII16sIIQIIIIII", data)
        require(magic == b"OBOROSEG" and version == SEGMENT_VERSION, "a segment of version 3")
        require(
            named
            == [
                manifest.dataset,
                index,
                listed.blocks,
                listed.first_block,
                columns,
                manifest.log_degree,
                limbs,
                manifest.plaintext_modulus,
                CELL_BITS,
                manifest.row_id_bytes,
            ],
            "the header of a segment agrees with the manifest",
        )
        seeds = 72 + 4 * limbs
        digests = seeds + 32 * self.blocks
        sealed_columns = columns + 8 * manifest.row_id_bytes
        end = digests + 32 * (limbs * columns + sealed_columns) + 32
        self.primes = list(struct.unpack_from(f"<{limbs}I", data, 72))
        self.seeds = [data[at : at + 32] for at in range(seeds, digests, 32)]
        self.packed = 7 * self.blocks * manifest.degree // 2
        require(self.header == rounded_up(end), "length of a segment's header")
        require(not any(data[end : self.header]), "zeros behind a header")
        cells = self.header + limbs * columns * rounded_up(self.packed)
        sealed = self.blocks * manifest.degree // 8 + CELL_SEAL_BYTES
        size = cells + sealed_columns * rounded_up(sealed)
        require(len(data) == size == listed.length, "length of a segment")
        for part in range(cells, size, rounded_up(sealed)):
            end = part + rounded_up(sealed)
            require(not any(data[part + sealed : end]), "zeros behind sealed cells")

    def panel(self, limb: int, column: int) -> list[list[int]]:
        """One column's ciphertexts modulo one limb, block after block."""
        number = limb * self.manifest.columns + column
        start = self.header + number * rounded_up(self.packed)
        end = start + self.packed
        require(not any(self.data[end : start + rounded_up(self.packed)]), "zeros behind a panel")
        residues = list(unpack_residues(self.data[start:end]))
        require(max(residues) < self.primes[limb], "residues are below their modulus")
        degree = self.manifest.degree
        return [residues[at : at + degree] for at in range(0, len(residues), degree)]


# Decryption


@dataclass
class Errors:
    """What was seen of the encryption errors."""

    count: int = 0
    total: int = 0
    squares: int = 0
    largest: int = 0

    def add(self, errors: list[int]) -> None:
        self.count += len(errors)
        self.total += sum(errors)
        self.squares += sum(e * e for e in errors)
        self.largest = max(self.largest, max(errors), -min(errors))

    def variance(self) -> float:
        return self.squares / self.count - (self.total / self.count) ** 2


@dataclass
class Owner:
    """The owner's view of a dataset: everything that the key opens."""

    key: bytes  # of the dataset
    manifest: Manifest
    record: bytes
    generations: list[bytes]  # of the secrets of each block
    primes: list[int]
    seeds: list[bytes]
    segments: list[Segment]
    limbs: list[Transform]
    plaintext: Transform
    errors: Errors = field(default_factory=Errors)
    # By limb, column and generation.
    secrets: dict[tuple[int, int, bytes], list[int]] = field(default_factory=dict)
    # By limb and block.
    masks: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def secret(self, limb: int, column: int, generation: bytes) -> list[int]:
        """A column's secret of one generation modulo one limb, in evaluation form."""
        if (limb, column, generation) not in self.secrets:
            m = self.manifest
            number = struct.pack("<I", column)
            ring = struct.pack("<BBI", m.log_degree, m.limbs, m.plaintext_modulus)
            seed = prf(self.key, "column secret", m.generation, ring, generation, number)
            coefficients = ternary(seed, m.degree)
            for index, transform in enumerate(self.limbs):
                self.secrets[index, column, generation] = transform.forward(coefficients)
        return self.secrets[limb, column, generation]

    def mask(self, limb: int, block: int) -> list[int]:
        if (limb, block) not in self.masks:
            self.masks[limb, block] = expand_mask(
                self.seeds[block], self.manifest.log_degree, limb, self.primes[limb]
            )
        return self.masks[limb, block]

    def ciphertexts(self, limb: int, column: int) -> list[list[int]]:
        """One column's ciphertexts modulo one limb, block after block."""
        return [block for segment in self.segments for block in segment.panel(limb, column)]

    def phases(self, limb: int, column: int) -> Iterator[list[int]]:
        """φ = [c + a·s] of every block, from one limb alone."""
        q = self.primes[limb]
        for block, ciphertext in enumerate(self.ciphertexts(limb, column)):
            mask = self.mask(limb, block)
            secret = self.secret(limb, column, self.generations[block])
            evaluations = [
                (c + a * s) % q for c, a, s in zip(ciphertext, mask, secret, strict=True)
            ]
            yield [centred(x, q) for x in self.limbs[limb].inverse(evaluations)]

    def decrypt(self, column: int) -> list[list[int]]:
        """The bits of one column, block after block."""
        t = self.manifest.plaintext_modulus
        blocks = []
        by_limb = [self.phases(limb, column) for limb in range(len(self.limbs))]
        for phases in zip(*by_limb, strict=True):
            phase = phases[0]
            require(all(other == phase for other in phases), "all limbs give one phase")
            require(max(map(abs, phase)) <= 21.5 * t, "|φ| is at most 21.5·t")
            message = [centred(x, t) for x in phase]
            errors, rests = zip(
                *(divmod(x - m, t) for x, m in zip(phase, message, strict=True)), strict=True
            )
            require(not any(rests), "φ − m is a multiple of t")
            self.errors.add(list(errors))
            require(self.errors.largest <= MAX_ERROR, "|e| is at most 21")
            bits = self.plaintext.forward(message)
            require(set(bits) <= {0, 1}, "slots are bits")
            blocks.append(bits)
        return blocks

    # Counting

    def phase_bound(self, length: int) -> int:
        """The bound on the constant coefficient Φ_0 over the blocks of a full group."""
        m = self.manifest
        t = m.plaintext_modulus
        if length == 1:
            return m.group * t * 43 // 2
        # (√N)^k, rounded up
        root = math.isqrt(math.prod([m.degree] * length) - 1) + 1
        noise = NOISE_NORM**2 * math.prod([NOISE_PEAK] * (length - 2))
        return m.group * noise * math.prod([t] * length) * root

    def limbs_read(self, length: int) -> int:
        """The fewest first limbs whose product exceeds twice the bound."""
        bound = self.phase_bound(length)
        counts = range(1, len(self.primes) + 1)
        fitting = [n for n in counts if math.prod(self.primes[:n]) > 2 * bound]
        require(bool(fitting), f"the limbs carry itemsets of length {length}")
        return fitting[0]

    def moments(
        self, limb: int, itemset: tuple[int, ...], blocks: range
    ) -> dict[tuple[int, ...], list[int]]:
        """The server's part: M_{T,k−|T|} for every T within S, from public values alone."""
        q, degree = self.primes[limb], self.manifest.degree
        columns = {column: self.ciphertexts(limb, column) for column in itemset}
        result = {}
        for size in range(len(itemset) + 1):
            for subset in itertools.combinations(itemset, size):
                total = [0] * degree
                for block in blocks:
                    factors = [self.mask(limb, block)] * (len(itemset) - size)
                    factors += [columns[column][block] for column in subset]
                    product = [math.prod(entry) for entry in zip(*factors, strict=True)]
                    total = [(x + y) % q for x, y in zip(total, product, strict=True)]
                result[subset] = total
        return result

    def constant(self, limb: int, itemset: tuple[int, ...], blocks: range) -> int:
        """The owner's part: Φ_0 modulo one limb, over blocks of one generation."""
        q, generation = self.primes[limb], self.generations[blocks.start]
        total = 0
        for subset, moment in self.moments(limb, itemset, blocks).items():
            if subset == itemset:
                total += sum(moment)
                continue
            rest = [column for column in itemset if column not in subset]
            secrets = [self.secret(limb, column, generation) for column in rest]
            total += sum(math.prod(entry) for entry in zip(moment, *secrets, strict=True))
        return total * pow(self.manifest.degree, -1, q) % q

    def groups(self) -> Iterator[range]:
        """Runs of blocks of one generation, each with fewer than t transactions."""
        start, most = 0, self.manifest.group
        for _, run in itertools.groupby(self.generations):
            end = start + len(list(run))
            for first in range(start, end, most):
                yield range(first, min(first + most, end))
            start = end

    def count(self, itemset: tuple[int, ...]) -> dict[str, object]:
        """The support of an itemset, from moments."""
        m = self.manifest
        t, used = m.plaintext_modulus, self.limbs_read(len(itemset))
        modulus, bound = math.prod(self.primes[:used]), self.phase_bound(len(itemset))
        support, largest = 0, 0
        for blocks in self.groups():
            constant = 0
            for limb, q in enumerate(self.primes[:used]):
                cofactor = modulus // q
                residue = self.constant(limb, itemset, blocks)
                constant += residue * pow(cofactor, -1, q) * cofactor
            constant = centred(constant, modulus)
            require(abs(constant) <= bound, "Φ_0 keeps its bound")
            largest = max(largest, abs(constant))
            support += constant * m.degree % t
        return {
            "columns": list(itemset),
            "limbs": used,
            "support": support,
            "phase_bits": math.log2(max(largest, 1)),
            "phase_bound_bits": math.log2(bound),
        }


def open_dataset(key: Path, bundle: Path) -> Owner:
    master, key_check = read_key(key)
    manifest, sealed = read_head(bundle)
    require(manifest.key_check == key_check, "the dataset was encrypted under this key")
    dataset_key = prf(master, "dataset key", manifest.dataset)
    context = b"oboro owner record" + manifest.dataset
    record = open_sealed(prf(dataset_key, "seal key"), context, sealed)
    primes = limb_primes(manifest.log_degree, manifest.limbs)
    t = manifest.plaintext_modulus
    require(
        math.log2(math.prod(primes)) <= SECURITY_BOUND[manifest.log_degree],
        "the ciphertext modulus is within the security bound",
    )
    require(
        is_prime(t) and t % (2 * manifest.degree) == 1 and t not in primes,
        "the plaintext modulus is a prime, 1 modulo 2N, and no limb",
    )
    segments = [
        Segment(bundle / "segments" / f"{index:08}.seg", index, manifest)
        for index in range(len(manifest.segments))
    ]
    require(all(s.primes == primes for s in segments), "limbs are the largest primes")
    seeds = [seed for segment in segments for seed in segment.seeds]
    require(len(set(seeds)) == len(seeds), "every block has a seed of its own")
    return Owner(
        dataset_key,
        manifest,
        record,
        secret_generations(record, manifest.blocks),
        primes,
        seeds,
        segments,
        [Transform(q, manifest.log_degree) for q in primes],
        Transform(t, manifest.log_degree),
    )


def report(owner: Owner, columns: int) -> dict[str, object]:
    manifest = owner.manifest
    decrypted = [
        [bit for block in owner.decrypt(column) for bit in block] for column in range(columns)
    ]
    supports = [sum(bits) for bits in decrypted]
    rows = [
        [column for column, bit in enumerate(row) if bit] for row in zip(*decrypted, strict=True)
    ]
    counts = []
    by_support = sorted(range(columns), key=lambda column: -supports[column])
    for length in range(1, min(LONGEST_COUNTED, manifest.max_len, columns) + 1):
        itemset = tuple(sorted(by_support[:length]))
        counted = owner.count(itemset)
        expected = sum(all(bits) for bits in zip(*(decrypted[c] for c in itemset), strict=True))
        require(counted["support"] == expected, f"moments count the support of {itemset}")
        counts.append(counted)
    return {
        "dataset": manifest.dataset.hex(),
        "degree": manifest.degree,
        "limbs": owner.primes,
        "plaintext_modulus": manifest.plaintext_modulus,
        "blocks": manifest.blocks,
        "columns": {str(column): support for column, support in enumerate(supports)},
        "transactions": [row for row in rows if row],
        "empty_transactions": sum(not row for row in rows),
        "error_variance": owner.errors.variance(),
        "largest_error": owner.errors.largest,
        "moments": counts,
        "not_checked": ["BLAKE3 digests", "sealed cells"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Decrypt a dataset of Oboro independently of it.")
    parser.add_argument("key", type=Path, metavar="KEYFILE")
    parser.add_argument("bundle", type=Path, metavar="BUNDLE_DIR")
    parser.add_argument("--columns", type=int, metavar="N", help="only the first N columns")
    arguments = parser.parse_args()
    try:
        owner = open_dataset(arguments.key, arguments.bundle)
        columns = owner.manifest.columns
        if arguments.columns is not None:
            columns = min(columns, max(arguments.columns, 1))
        print(json.dumps(report(owner, columns)))
    except (CheckError, OSError, struct.error, KeyError, ValueError) as error:
        print(f"independent_decrypt: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
