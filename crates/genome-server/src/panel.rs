//! Panels: haplotypes by sites, stored site by site in chunks that every read verifies.
//!
//! A chunk holds a fixed number of sites, about 2^21 symbols, in the fewest bits that hold all its symbols. Each site
//! starts at a word boundary. A window of sites is thus one range of the file.

use crate::error::GenomeError;
use crate::frame::{FIRST_BLOB, Frame, FrameWriter, padded};
use crate::kind::Shape;
use crate::limits::MAX_HAPLOTYPES;
use crate::loading::PartialCollection;
use crate::packing::{are_of, bits_for, pack, to_bytes, to_words, words_for};
use crate::sites::{MAX_SITES, Sites};
use crate::transpose::Transposer;
use crate::{Alphabet, Kind, Rows, Site, Window};
use oboro_format::codec::{Reader, Writer};
use oboro_format::{Corruption, Digest, forget_cached};
use oboro_genome::sites_digest;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

/// Largest number of bytes of a chunk of several sites, at one bit per symbol.
const CHUNK_BYTES: usize = 1 << 18;

/// Panel size beyond which it is dropped from the system's cache, which then keeps other data.
const CACHED_BYTES: u64 = 1 << 30;

fn sites_per_chunk(haplotypes: usize) -> usize {
    (CHUNK_BYTES / (8 * words_for(haplotypes, 1))).max(1)
}

/// Neighbouring sites, as they lie in the file.
struct Chunk {
    offset: u64,
    bits: u32,
    digest: Digest,
}

/// Open panel. It stays readable, from any number of threads, after its name is removed or given to another panel.
pub struct HaplotypePanel {
    frame: Frame,
    alphabet: Alphabet,
    haplotypes: usize,
    sites: Sites,
    sites_digest: OnceLock<Digest>,
    chunks: Vec<Chunk>,
}

impl HaplotypePanel {
    pub(crate) fn open(path: &Path, name: &str) -> Result<Self, GenomeError> {
        let frame = Frame::open(path, Kind::Panel, name)?;
        let (alphabet, haplotypes, sites) =
            decode_numbers(&frame).map_err(|corruption| frame.damaged("", corruption))?;
        let (chunks, sites) = frame.index(|index| {
            let (chunks, end) = decode_chunks(index, haplotypes, sites)?;
            Ok(((chunks, Sites::decode(index, sites)?), end))
        })?;
        Ok(Self {
            frame,
            alphabet,
            haplotypes,
            sites,
            sites_digest: OnceLock::new(),
            chunks,
        })
    }

    /// Decodes the size of a panel from its header.
    pub(crate) fn shape(frame: &Frame) -> Result<Shape, Corruption> {
        let (alphabet, ..) = decode_numbers(frame)?;
        let [_, haplotypes, sites] = frame.numbers;
        Ok(Shape::Panel {
            haplotypes,
            sites,
            alphabet,
        })
    }

    /// Meaning of its symbols.
    pub fn alphabet(&self) -> Alphabet {
        self.alphabet
    }

    /// Number of different symbols in its rows, an unknown one included.
    pub fn symbols(&self) -> u8 {
        self.alphabet.symbols(self.bits())
    }

    /// Number of bits of its widest symbol.
    pub fn bits(&self) -> u32 {
        self.chunks
            .iter()
            .map(|chunk| chunk.bits)
            .max()
            .unwrap_or(1)
    }

    /// Number of its rows.
    pub fn haplotypes(&self) -> usize {
        self.haplotypes
    }

    /// Number of its sites.
    pub fn sites(&self) -> usize {
        self.sites.len()
    }

    /// Returns the number, from 0, of the site at a position. The chromosome may be omitted if the panel has only one,
    /// and must be if it is an alignment.
    ///
    /// # Errors
    ///
    /// The site does not exist; the message lists those that do.
    pub fn site(&self, chromosome: Option<&str>, position: u64) -> Result<usize, GenomeError> {
        self.sites.find(chromosome, position)
    }

    /// Position of the site with this number.
    ///
    /// # Panics
    ///
    /// If it does not exist.
    pub fn site_at(&self, index: usize) -> Site<'_> {
        self.sites.get(index)
    }

    /// Digest of all its sites, by which a client recognises the list that it received.
    pub fn sites_digest(&self) -> Digest {
        let site = |index| {
            let Site {
                chromosome,
                position,
            } = self.site_at(index);
            (chromosome, position)
        };
        *self
            .sites_digest
            .get_or_init(|| Digest(sites_digest((0..self.sites()).map(site))))
    }

    /// Returns the sites of a window of `length` sites that begins at a position and stays on its chromosome.
    ///
    /// # Errors
    /// The site does not exist, or too few follow it.
    pub fn sites_from(
        &self,
        chromosome: Option<&str>,
        position: u64,
        length: usize,
    ) -> Result<Range<usize>, GenomeError> {
        let first = self.site(chromosome, position)?;
        let there = self.sites.chromosome_end(first) - first;
        if length <= there {
            Ok(first..first + length)
        } else {
            Err(GenomeError::TooFewSites {
                position,
                wanted: length,
                there,
            })
        }
    }

    /// Reads all haplotypes at some sites; an unknown symbol is the last of [`HaplotypePanel::symbols`]. Takes memory
    /// for the rows, one more word of each, and a chunk.
    ///
    /// # Errors
    /// The sites do not exist, or are damaged.
    pub fn window(&self, sites: Range<usize>) -> Result<Rows, GenomeError> {
        if sites.is_empty() || sites.end > self.sites() {
            return Err(GenomeError::NoWindow {
                first: sites.start,
                wanted: sites.len(),
                sites: self.sites(),
            });
        }
        let per_chunk = sites_per_chunk(self.haplotypes);
        let chunks = sites.start / per_chunk..sites.end.div_ceil(per_chunk);
        let bits = self.chunks[chunks.clone()].iter().map(|chunk| chunk.bits);
        let bits = bits.max().unwrap_or(1);
        let mut rows = Transposer::new(self.haplotypes, sites.len(), bits);
        for number in chunks {
            let chunk = self.chunk_sites(number);
            let wanted = sites.start.max(chunk.start)..sites.end.min(chunk.end);
            let bytes = self.read_chunk(number)?;
            let bits = self.chunks[number].bits;
            let per_site = 8 * words_for(self.haplotypes, bits);
            for site in wanted {
                let start = (site - chunk.start) * per_site;
                rows.push(&to_words(&bytes[start..start + per_site]), bits);
            }
        }
        let range_bytes = [sites.start, sites.end].map(|site| (site as u64).to_le_bytes());
        let origin = [&self.frame.identity().0[..], &range_bytes.concat()].concat();
        Ok(rows.finish(Digest::of(&origin).0))
    }

    /// Largest memory that reading and sorting a window of `length` sites takes; of that, [`Window::bytes`] remain in
    /// use.
    pub fn preparation_bytes(&self, length: usize) -> u64 {
        let (rows, bits) = (self.haplotypes, self.bits());
        let sites = sites_per_chunk(rows).min(self.sites());
        let chunk = padded(chunk_bytes(rows, sites, bits));
        let site = chunk_bytes(rows, 1, bits);
        Window::bytes_of(rows, length, bits)
            + Transposer::bytes_beside_rows(rows, length, bits)
            + chunk
            + site
    }

    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Checks the chunk with this number, if it exists, and returns its number of bytes.
    pub(crate) fn check_chunk(&self, number: usize) -> Option<Result<u64, GenomeError>> {
        let chunk = self.chunks.get(number)?;
        let sites = self.chunk_sites(number).len();
        let bytes = padded(chunk_bytes(self.haplotypes, sites, chunk.bits));
        Some(self.read_chunk(number).map(|_| bytes))
    }

    fn chunk_sites(&self, number: usize) -> Range<usize> {
        let per_chunk = sites_per_chunk(self.haplotypes);
        number * per_chunk..self.sites().min((number + 1) * per_chunk)
    }

    fn read_chunk(&self, number: usize) -> Result<Vec<u8>, GenomeError> {
        let Chunk {
            offset,
            bits,
            ref digest,
        } = self.chunks[number];
        let sites = self.chunk_sites(number);
        let length = chunk_bytes(self.haplotypes, sites.len(), bits);
        let part = || {
            format!(
                "the chunk of sites {} to {} of ",
                sites.start + 1,
                sites.end
            )
        };
        let bytes = self.frame.blob(offset, length, digest, part)?;
        if self.frame.bytes() > CACHED_BYTES {
            forget_cached(self.frame.file(), offset, padded(length));
        }
        if !are_of(&bytes, bits, self.alphabet) {
            let corruption =
                Corruption::Invalid(format!("it has symbols that are no {}", self.alphabet));
            return Err(self.frame.damaged(&part(), corruption));
        }
        Ok(bytes)
    }
}

fn chunk_bytes(haplotypes: usize, sites: usize, bits: u32) -> u64 {
    8 * (sites * words_for(haplotypes, bits)) as u64
}

fn decode_numbers(frame: &Frame) -> Result<(Alphabet, usize, usize), Corruption> {
    let [alphabet, haplotypes, sites] = frame.numbers;
    let limits = (1..=MAX_HAPLOTYPES).contains(&haplotypes) && (1..=MAX_SITES).contains(&sites);
    Alphabet::from_number(alphabet)
        .filter(|_| limits)
        .map(|alphabet| (alphabet, haplotypes as usize, sites as usize))
        .ok_or_else(|| Corruption::Invalid("its header has numbers that no panel has".into()))
}

/// Decodes the chunks of a panel; also returns the end of the last one.
fn decode_chunks(
    index: &mut Reader<'_>,
    haplotypes: usize,
    sites: usize,
) -> Result<(Vec<Chunk>, u64), Corruption> {
    let per_chunk = sites_per_chunk(haplotypes);
    let mut chunks = Vec::new();
    let mut end = FIRST_BLOB;
    for first in (0..sites).step_by(per_chunk) {
        let bits = index.u32()?;
        if !matches!(bits, 1 | 2 | 4) {
            return Err(Corruption::Invalid(format!(
                "symbols cannot take {bits} bits"
            )));
        }
        chunks.push(Chunk {
            offset: end,
            bits,
            digest: Digest(index.array()?),
        });
        let sites = per_chunk.min(sites - first);
        end += padded(chunk_bytes(haplotypes, sites, bits));
    }
    Ok((chunks, end))
}

/// Writes a panel site by site, with memory for one chunk.
pub(crate) struct PanelWriter {
    frame: FrameWriter,
    haplotypes: usize,
    sites: usize,
    /// Sites of the chunk that is not full.
    pending: Vec<u8>,
    /// Bits and digest of each chunk.
    index: Writer,
}

impl PanelWriter {
    /// Creates a panel with `haplotypes` rows.
    ///
    /// # Panics
    /// If the number of haplotypes is out of range.
    pub(crate) fn create(
        loading: PartialCollection,
        haplotypes: usize,
    ) -> Result<Self, GenomeError> {
        assert!((1..=MAX_HAPLOTYPES as usize).contains(&haplotypes));
        Ok(Self {
            frame: FrameWriter::create(loading)?,
            haplotypes,
            sites: 0,
            pending: Vec::new(),
            index: Writer::default(),
        })
    }

    /// Adds a site: one symbol for each haplotype.
    ///
    /// # Panics
    /// If the number of symbols differs.
    pub(crate) fn push(&mut self, symbols: &[u8]) -> Result<(), GenomeError> {
        assert_eq!(symbols.len(), self.haplotypes);
        self.pending.extend_from_slice(symbols);
        self.sites += 1;
        match self.sites % sites_per_chunk(self.haplotypes) {
            0 => self.write_chunk(),
            _ => Ok(()),
        }
    }

    fn write_chunk(&mut self) -> Result<(), GenomeError> {
        let bits = bits_for(&self.pending);
        let mut words = Vec::new();
        for site in self.pending.chunks(self.haplotypes) {
            pack(site, bits, &mut words);
        }
        self.pending.clear();
        let digest = self.frame.put(to_bytes(&words))?;
        self.index.u32(bits).put(&digest.0);
        Ok(())
    }

    /// Completes the panel of these symbols at these sites, and publishes it.
    ///
    /// # Panics
    ///
    /// If the number of sites pushed is another one, 0, or beyond the limit of panels.
    pub(crate) fn finish(mut self, alphabet: Alphabet, sites: &Sites) -> Result<(), GenomeError> {
        assert!(sites.len() == self.sites && (1..=MAX_SITES as usize).contains(&self.sites));
        if !self.pending.is_empty() {
            self.write_chunk()?;
        }
        sites.encode(&mut self.index);
        let numbers = [alphabet.number(), self.haplotypes as u32, self.sites as u32];
        self.frame.finish(numbers, &self.index.into_bytes())
    }
}

#[cfg(test)]
mod tests;
