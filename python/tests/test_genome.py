"""Genome search from Python: panels and references of a local server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import oboro
from oboro.genome import LeftOut

SITES = 12
FIRST = 1000
REFERENCE = "ACGTTGCAACGGTATTTGCCGATAGGACATTACGGCATTCA"
COMPLEMENT = str.maketrans("ACGT", "TGCA")


@pytest.fixture(scope="module")
def haplotypes() -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.random.default_rng(5).integers(0, 2, size=(20, SITES))


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory,
    haplotypes: np.ndarray[tuple[int, int], np.dtype[np.int64]],
) -> Iterator[oboro.LocalServer]:
    folder = tmp_path_factory.mktemp("genomes")
    with oboro.local() as server:
        server.load_panel("people", vcf(folder / "people.vcf", haplotypes))
        fasta = folder / "virus.fa"
        fasta.write_text(f">virus\n{REFERENCE}\n")
        server.load_reference("virus", fasta)
        yield server


def vcf(path: Path, haplotypes: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> Path:
    people = range(len(haplotypes) // 2)
    columns = ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT"]
    lines = [
        "##fileformat=VCFv4.2",
        "##contig=<ID=20>",
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">',
        "\t".join([*columns, *(f"person{number}" for number in people)]),
    ]
    for site, alleles in enumerate(haplotypes.T.tolist()):
        genotypes = [f"{alleles[2 * number]}|{alleles[2 * number + 1]}" for number in people]
        position = str(FIRST + site)
        lines.append("\t".join(["20", position, ".", "A", "C", ".", ".", ".", "GT", *genotypes]))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_panel_tells_its_shape(server: oboro.LocalServer) -> None:
    panel = server.panel("people")
    assert (panel.haplotypes, panel.sites, panel.largest_allele) == (20, SITES, 1)
    assert {info.name for info in server.genomes()} == {"people", "virus"}


def test_haplotypes_that_are_there_are_found_and_others_are_not(
    server: oboro.LocalServer, haplotypes: np.ndarray[tuple[int, int], np.dtype[np.int64]]
) -> None:
    panel = server.panel("people")
    there = {tuple(row) for row in haplotypes.tolist()}
    absent = next(
        tuple(row)
        for row in np.random.default_rng(6).integers(0, 2, size=(99, SITES)).tolist()
        if tuple(row) not in there
    )
    for row in list(there)[:3]:
        found = panel.query(FIRST, row)
        assert found and found.exists and found.length == SITES
    assert not panel.query(FIRST, absent)


def test_wildcards_mismatches_and_longest_beginnings(
    server: oboro.LocalServer, haplotypes: np.ndarray[tuple[int, int], np.dtype[np.int64]]
) -> None:
    panel = server.panel("people")
    wanted = haplotypes[4].copy()
    wanted[2] ^= 1
    near = (haplotypes != wanted).sum(axis=1).min()
    assert bool(panel.query(FIRST, wanted.tolist(), within=1)) == (near <= 1)
    text = "".join(map(str, haplotypes[4].tolist()))
    assert panel.query(FIRST, f"{text[:3]}?{text[4:]}", chromosome="20")
    beginnings = [int(np.argmin(np.append(row == wanted, False))) for row in haplotypes]
    longest = panel.query(FIRST, wanted.tolist(), longest=True)
    assert longest.longest == max(beginnings)
    assert panel.query(FIRST + 3, text[3:6], decoys=4).windows == 5


def test_a_pattern_is_found_on_either_strand(server: oboro.LocalServer) -> None:
    reference = server.reference("virus")
    assert reference.bases == len(REFERENCE)
    assert reference.find(REFERENCE[7:19])
    assert reference.find(REFERENCE[7:19].translate(COMPLEMENT)[::-1])
    assert not reference.find("GGGGGGGGGGGG")
    assert reference.find("?" + REFERENCE[8:19], progress=False)


def test_sites_that_are_not_the_pinned_ones_are_refused(server: oboro.LocalServer) -> None:
    panel = server.panel("people")
    assert panel.query(FIRST, "01").sites_digest is None
    digest = panel.query(FIRST, "01", decoys=2).sites_digest
    assert digest is not None
    assert panel.query(FIRST, "01", sites_digest=digest).sites_digest == digest
    with pytest.raises(oboro.errors.FalseAnswerError, match=f"{digest}.*{'0' * 64} is pinned"):
        panel.query(FIRST, "01", sites_digest="0" * 64)
    with pytest.raises(oboro.errors.InputError, match="64 hexadecimal digits"):
        panel.query(FIRST, "01", sites_digest="0")


def test_a_panel_says_what_its_file_has_and_it_has_not(
    tmp_path: Path, haplotypes: np.ndarray[tuple[int, int], np.dtype[np.int64]]
) -> None:
    file = vcf(tmp_path / "people.vcf", haplotypes)
    lines = file.read_text().splitlines(keepends=True)
    lines.insert(len(lines) - 1, lines[-2])
    file.write_text("".join(lines))
    with oboro.local() as server:
        panel = server.load_panel(
            "people", file, region=f"20:{FIRST + 4}-{FIRST + SITES}", skip_duplicates=True
        )
        assert panel.left_out == LeftOut(outside_region=4, duplicates=1)
        assert server.panel("people").left_out is None


def test_what_cannot_be_asked_is_said(server: oboro.LocalServer, tmp_path: Path) -> None:
    panel = server.panel("people")
    with pytest.raises(oboro.errors.InputError, match="either alleles or sequence"):
        panel.query(FIRST)
    with pytest.raises(oboro.errors.InputError, match="give 0 to 9"):
        panel.query(FIRST, [0, 12])
    with pytest.raises(oboro.errors.InputError, match="0, 1 or 2"):
        panel.query(FIRST, "01", within=3)
    with pytest.raises(oboro.errors.ServerError, match="no site at position 7"):
        panel.query(7, "01")
    with pytest.raises(oboro.errors.InputError, match="no panel named 'virus'"):
        server.panel("virus")
    with pytest.raises(oboro.errors.InputError, match="no reference named"):
        server.reference("people")
    with pytest.raises(oboro.errors.InputError, match="already"):
        (tmp_path / "again.fa").write_text(">x\nACGT\n")
        server.load_reference("virus", tmp_path / "again.fa")
