"""Genome search on a server that cannot see the query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oboro import _oboro
from oboro._progress import bar
from oboro.errors import InputError

if TYPE_CHECKING:
    from oboro._oboro import Interrupt
    from oboro._server import Server

WILDCARD = "?"


@dataclass(frozen=True)
class Found:
    """Answer to a search, and its cost. True if it matches."""

    exists: bool
    """True if anything matches."""
    count: int | None
    """Number of matches, if requested."""
    longest: int | None
    """Length of the longest prefix that occurs, if requested."""
    length: int
    """Number of symbols of the query."""
    rows: int
    """Number of haplotypes or offsets compared with it, padding included."""
    windows: int
    """Number of positions searched, decoys included."""
    sites_digest: str | None
    """Digest of the panel's sites, if they were listed: for decoys, or to check the digest.
    Pass it to later queries."""
    sent_bytes: int
    received_bytes: int
    seconds: float
    server_seconds: float
    client_seconds: float

    def __bool__(self) -> bool:
        return self.exists


@dataclass(frozen=True)
class LeftOut:
    """Lines of a VCF file that were skipped when the panel was loaded."""

    outside_region: int
    """Lines outside the region."""
    duplicates: int
    """Lines that repeat the previous position."""


@dataclass(frozen=True)
class Panel:
    """Aligned haplotypes on a server: see `Server.panel`."""

    server: Server
    name: str
    haplotypes: int
    sites: int
    largest_allele: int | None
    """Highest allele number; None if the symbols are bases."""
    stored_bytes: int
    left_out: LeftOut | None = None
    """Lines skipped by the load that returned it."""

    def query(
        self,
        position: int,
        alleles: str | Iterable[int | None] | None = None,
        *,
        sequence: str | None = None,
        chromosome: str | None = None,
        within: int = 0,
        longest: bool = False,
        count: bool = False,
        decoys: int = 0,
        sites_digest: str | None = None,
        progress: bool | None = None,
        interrupt: Interrupt | None = None,
    ) -> Found:
        """Ask whether some haplotype has these symbols at consecutive sites, from `position` on.

        The server learns the number of symbols, their position, and the kind of search; neither the
        symbols nor the answer.

        Args:
            position: The first site of the query, or the column of an alignment, from 1.
            alleles: For panels of alleles: their numbers, as text ("0110?10", ? for any) or as
                integers, None for any.
            sequence: For panels of bases: IUPAC letters (U is T, R is A or G), and ? for any.
            chromosome: Required if the panel has several.
            within: Allowed mismatches, 0 to 2.
            longest: Ask instead for the longest prefix of the query that some haplotype has.
            count: Ask how many haplotypes match, if the server's operator allows that.
            decoys: The number of other positions, chosen at random, to search as well, which hides
                the real one from the server; up to 63.
            sites_digest: Send the query only if the server's list of sites has this digest, from
                an earlier `Found.sites_digest` or from the operator: fake sites would reveal the
                real position.
            progress: Show a bar: None on terminals and in notebooks only.
            interrupt: Cancel the search from another thread.

        Raises:
            InputError: A query that does not fit the panel.
            FalseAnswerError: Sites with a digest other than `sites_digest`.
            ServerError: A server that refuses: a spent budget, counting is not allowed.
        """
        if (alleles is None) == (sequence is None):
            raise InputError(
                "give either alleles or sequence, as the panel has the one or the other"
            )
        if longest and (within or count):
            raise InputError(
                "longest can be asked neither with within nor with count; ask separately"
            )
        symbols = sequence if alleles is None else _letters(alleles)
        assert symbols is not None
        with bar("searching", "answer", progress) as advance:
            found = _oboro.query_panel(
                self.server._native,
                self.name,
                symbols,
                bases=sequence is not None,
                position=position,
                chromosome=chromosome,
                within=_mismatches(within),
                longest=longest,
                count=count,
                decoys=decoys,
                sites_digest=sites_digest,
                progress=advance,
                interrupt=interrupt,
            )
        return Found(**found)


@dataclass(frozen=True)
class Reference:
    """Sequences on a server: see `Server.reference`."""

    server: Server
    name: str
    sequences: int
    bases: int
    stored_bytes: int

    def find(
        self,
        pattern: str,
        *,
        within: int = 0,
        count: bool = False,
        progress: bool | None = None,
        interrupt: Interrupt | None = None,
    ) -> Found:
        """Ask whether a pattern occurs anywhere in the reference, on either strand.

        The server learns its length and the kind of search; neither the letters nor the answer.

        Args:
            pattern: IUPAC letters (U is T, R is A or G), and ? for any.
            within: Allowed mismatches, 0 to 2.
            count: Ask how many offsets match, if the server's operator allows that.
            progress: Show a bar: None on terminals and in notebooks only.
            interrupt: Cancel the search from another thread.

        Raises:
            InputError: A pattern with other letters.
            ServerError: A server that refuses: a reference beyond its limit, a spent budget.
        """
        with bar("searching", "answer", progress) as advance:
            found = _oboro.find_in_reference(
                self.server._native,
                self.name,
                pattern,
                within=_mismatches(within),
                count=count,
                progress=advance,
                interrupt=interrupt,
            )
        return Found(**found)


def _letters(alleles: str | Iterable[int | None]) -> str:
    if isinstance(alleles, str):
        return alleles
    numbers = list(alleles)
    for number in numbers:
        if number is not None and not 0 <= number <= 9:
            raise InputError(
                f"{number} is not the number of an allele; give 0 to 9, or None for any"
            )
    return "".join(WILDCARD if number is None else str(int(number)) for number in numbers)


def _mismatches(within: int) -> int:
    if within not in (0, 1, 2):
        raise InputError(f"within {within} mismatches cannot be asked; give 0, 1 or 2")
    return within
