"""Searches a panel the ordinary way: one haplotype a slot, with SEAL's BFV.

The query is a ciphertext for each site, its symbol in all slots. The mismatches of all haplotypes
are a sum over sites of plaintext times ciphertext, plus the alleles; a product with random non-zero
plaintext blinds them, and a slot that decrypts to 0 is a match. Nothing here hides the server's
noise or order, which Oboro's answers do.
"""

import secrets
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import NamedTemporaryFile
from time import perf_counter
from typing import Any

import numpy as np
import seal

DEGREE = 4096
LIMB_BITS = [36, 36, 37]
PLAINTEXT_BITS = 16


@dataclass(frozen=True)
class Panel:
    """The output of `oboro-lab genome --export`: haplotypes × sites, and a query for all sites."""

    haplotypes: Any
    query: Any

    @classmethod
    def read(cls, directory: Path) -> "Panel":
        """The files in a directory."""
        query = np.fromfile(directory / "query.u8", dtype=np.uint8)
        symbols = np.fromfile(directory / "haplotypes.u8", dtype=np.uint8)
        return cls(symbols.reshape(-1, len(query)).astype(np.int64), query.astype(np.int64))

    @property
    def matches(self) -> int:
        """How many haplotypes are the query, by a search of the plaintext."""
        return int(np.all(self.haplotypes == self.query, axis=1).sum())


@dataclass(frozen=True)
class Measured:
    """Medians of several searches on one core."""

    server_seconds: float
    client_seconds: float
    sent_bytes: int
    received_bytes: int
    verified: bool


class Owner:
    """The client, who has the key."""

    def __init__(self) -> None:
        parameters = seal.EncryptionParameters(seal.scheme_type.bfv)
        parameters.set_poly_modulus_degree(DEGREE)
        parameters.set_coeff_modulus(seal.CoeffModulus.Create(DEGREE, LIMB_BITS))
        modulus = seal.PlainModulus.Batching(DEGREE, PLAINTEXT_BITS)
        parameters.set_plain_modulus(modulus)
        self.context = seal.SEALContext(parameters)
        self.encoder = seal.BatchEncoder(self.context)
        self.modulus = modulus.value()
        self._secret = seal.KeyGenerator(self.context).secret_key()

    def encrypt(self, query: Any) -> list[Any]:
        """A ciphertext for each site."""
        encryptor = seal.Encryptor(self.context, self._secret)
        slots = [self.encoder.encode(np.full(DEGREE, symbol)) for symbol in query]
        return [encryptor.encrypt_symmetric(plain) for plain in slots]

    def matches(self, answer: Any, haplotypes: int) -> int:
        """Slots that are 0, of those that have haplotypes."""
        decryptor = seal.Decryptor(self.context, self._secret)
        slots = np.array(self.encoder.decode(decryptor.decrypt(answer)))
        return int(np.count_nonzero(slots[:haplotypes] == 0))


class Server:
    """The server, with the panel encoded before any query."""

    def __init__(self, owner: Owner, haplotypes: Any) -> None:
        self._owner = owner
        self._evaluator = seal.Evaluator(owner.context)
        padded = np.pad(haplotypes, ((0, DEGREE - len(haplotypes)), (0, 0)))
        # x differs from q in x + q(1 - 2x), for bits.
        self._signs = [self._encode(1 - 2 * site) for site in padded.T]
        self._ones = self._encode(padded.sum(axis=1))

    def answer(self, query: list[Any]) -> Any:
        """The blinded mismatches."""
        terms = [
            self._evaluator.multiply_plain(symbol, signs)
            for symbol, signs in zip(query, self._signs, strict=True)
        ]
        mismatches = terms[0]
        for term in terms[1:]:
            self._evaluator.add_inplace(mismatches, term)
        self._evaluator.add_plain_inplace(mismatches, self._ones)
        rng = np.random.default_rng(secrets.randbits(128))
        largest = self._owner.modulus // 2
        factors = rng.integers(1, largest + 1, DEGREE) * rng.choice([-1, 1], DEGREE)
        self._evaluator.multiply_plain_inplace(mismatches, self._encode(factors))
        self._evaluator.mod_switch_to_next_inplace(mismatches)
        return mismatches

    def _encode(self, slots: Any) -> Any:
        return self._owner.encoder.encode(slots.astype(np.int64))


def search(panel: Panel, runs: int) -> Measured:
    """Searches once to warm up and `runs` times more."""
    owner = Owner()
    server = Server(owner, panel.haplotypes)
    serving, asking, verified = [], [], []
    for _ in range(runs + 1):
        begun = perf_counter()
        query = owner.encrypt(panel.query)
        asked = perf_counter()
        answer = server.answer(query)
        answered = perf_counter()
        found = owner.matches(answer, len(panel.haplotypes))
        asking.append(asked - begun + perf_counter() - answered)
        serving.append(answered - asked)
        verified.append(found == panel.matches)
    return Measured(
        server_seconds=median(serving[1:]),
        client_seconds=median(asking[1:]),
        # A seed could take the place of half of each; the wheel does not write it.
        sent_bytes=sum(saved_bytes(symbol) for symbol in query) // 2,
        received_bytes=saved_bytes(answer),
        verified=all(verified),
    )


def saved_bytes(ciphertext: Any) -> int:
    """As SEAL writes it, compressed."""
    with NamedTemporaryFile() as file:
        ciphertext.save(file.name)
        return Path(file.name).stat().st_size
