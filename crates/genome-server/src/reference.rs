//! References: the bases of one or more sequences. An open one is in memory, one byte per base.

use crate::alphabet::Alphabet;
use crate::error::GenomeError;
use crate::frame::{FIRST_BLOB, Frame, FrameWriter, padded};
use crate::kind::Shape;
use crate::limits::MAX_BASES;
use crate::loading::PartialCollection;
use crate::packing::{
    are_of, bits_for, number_unknown, pack, per_word, symbol, to_bytes, to_words, words_for,
};
use crate::sites::decode_name;
use crate::{Kind, Rows, Window};
use oboro_format::codec::{Reader, Writer};
use oboro_format::{Corruption, Digest};
use oboro_genome::UNKNOWN;
use std::ops::Range;
use std::path::Path;

/// Sequence of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// Name: the first word of its line in FASTA.
    pub name: String,
    /// Range of its bases among those of the reference; not empty.
    pub range: Range<usize>,
}

/// Sequences of a reference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reference {
    bases: Vec<u8>,
    sequences: Vec<Sequence>,
}

/// Sequence as it lies in the file.
pub(crate) struct Entry {
    name: String,
    bases: usize,
    bits: u32,
    digest: Digest,
}

impl Entry {
    fn bytes(&self) -> u64 {
        8 * words_for(self.bases, self.bits) as u64
    }
}

/// Sequences of a reference, read one after the other.
pub(crate) struct Entries {
    frame: Frame,
    entries: std::vec::IntoIter<Entry>,
    offset: u64,
}

impl Entries {
    pub(crate) fn open(path: &Path, name: &str) -> Result<Self, GenomeError> {
        let frame = Frame::open(path, Kind::Reference, name)?;
        Reference::shape(&frame).map_err(|corruption| frame.damaged("", corruption))?;
        let [sequences, bases, _] = frame.numbers;
        let entries = frame.index(|index| decode_entries(index, sequences, bases))?;
        Ok(Self {
            frame,
            entries: entries.into_iter(),
            offset: FIRST_BLOB,
        })
    }

    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    fn read(&self, offset: u64, entry: &Entry) -> Result<Vec<u8>, GenomeError> {
        let part = || format!("sequence {:?} of ", entry.name);
        let bytes = self
            .frame
            .blob(offset, entry.bytes(), &entry.digest, part)?;
        if !are_of(&bytes, entry.bits, Alphabet::Bases) {
            let corruption = Corruption::Invalid("it has symbols that are no bases".into());
            return Err(self.frame.damaged(&part(), corruption));
        }
        Ok(bytes)
    }

    /// Checks the next sequence and returns its number of bytes.
    pub(crate) fn check_next(&mut self) -> Option<Result<u64, GenomeError>> {
        let bytes = |(entry, _): (Entry, _)| padded(entry.bytes());
        self.next().map(|read| read.map(bytes))
    }
}

impl Iterator for Entries {
    type Item = Result<(Entry, Vec<u8>), GenomeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next()?;
        let offset = self.offset;
        self.offset += padded(entry.bytes());
        let read = self.read(offset, &entry);
        Some(read.map(|bytes| (entry, bytes)))
    }
}

impl Reference {
    pub(crate) fn open(path: &Path, name: &str) -> Result<Self, GenomeError> {
        let mut reference = Self::default();
        for read in Entries::open(path, name)? {
            let (entry, bytes) = read?;
            let words = to_words(&bytes);
            reference.push(
                entry.name,
                (0..entry.bases).map(|index| symbol(&words, entry.bits, index)),
            );
        }
        Ok(reference)
    }

    /// Decodes the size of a reference from its header.
    pub(crate) fn shape(frame: &Frame) -> Result<Shape, Corruption> {
        match frame.numbers {
            [sequences, bases, 0]
                if (1..=MAX_BASES).contains(&bases) && (1..=bases).contains(&sequences) =>
            {
                Ok(Shape::Reference { sequences, bases })
            }
            _ => Err(Corruption::Invalid(
                "its header has numbers that no reference has".into(),
            )),
        }
    }

    /// Adds a sequence behind the others.
    pub(crate) fn push(&mut self, name: String, bases: impl IntoIterator<Item = u8>) {
        let start = self.bases.len();
        self.bases.extend(bases);
        self.sequences.push(Sequence {
            name,
            range: start..self.bases.len(),
        });
    }

    /// The bases, 0 to 3 or [`UNKNOWN`], sequence after sequence.
    pub fn bases(&self) -> &[u8] {
        &self.bases
    }

    /// The sequences, in the order of their bases.
    pub fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    /// Number of different symbols, an unknown one included.
    pub fn symbols(&self) -> u8 {
        Alphabet::Bases.symbols(self.bits())
    }

    /// Number of bits of a symbol of its rows.
    pub fn bits(&self) -> u32 {
        bits_for(&self.bases).max(2)
    }

    /// Number of rows of `length` bases, on both strands; no row spans two sequences.
    pub fn rows(&self, length: usize) -> usize {
        let lengths = self.sequences.iter().map(|sequence| sequence.range.len());
        lengths
            .map(|bases| 2 * (bases + 1).saturating_sub(length))
            .sum()
    }

    /// Extracts all rows of `length` bases: those of each sequence by offset, then those of its other strand. An
    /// unknown base is the last of [`Reference::symbols`].
    ///
    /// # Panics
    /// If the length is 0.
    pub fn windows(&self, length: usize) -> Rows {
        let bits = self.bits();
        let mut rows = Vec::with_capacity(self.rows(length) * words_for(length, bits));
        for Sequence { range, .. } in &self.sequences {
            let strand = &self.bases[range.clone()];
            slide(strand, length, bits, &mut rows);
            slide(&reverse_complement(strand), length, bits, &mut rows);
        }
        let mut origin = Digest::of(&self.bases).0.to_vec();
        for Sequence { range, .. } in &self.sequences {
            origin.extend((range.end as u64).to_le_bytes());
        }
        origin.extend((length as u64).to_le_bytes());
        Rows::new(Digest::of(&origin).0, length, bits, rows)
    }

    /// Largest memory that extracting and sorting all rows of `length` symbols takes.
    pub fn preparation_bytes(&self, length: usize) -> u64 {
        // The other strand, and either of them packed.
        let strands = 2 * self.bases.len() as u64;
        Window::bytes_of(self.rows(length), length, self.bits()) + strands
    }

    /// Writes and publishes the reference.
    ///
    /// # Panics
    /// If it has no sequence, or too many bases.
    pub(crate) fn write(&self, loading: PartialCollection) -> Result<(), GenomeError> {
        assert!((1..=MAX_BASES as usize).contains(&self.bases.len()));
        let mut frame = FrameWriter::create(loading)?;
        let mut index = Writer::default();
        for Sequence { name, range } in &self.sequences {
            let bases = &self.bases[range.clone()];
            let bits = bits_for(bases);
            let mut words = Vec::new();
            pack(bases, bits, &mut words);
            let digest = frame.put(to_bytes(&words))?;
            index
                .u32(name.len() as u32)
                .put(name.as_bytes())
                .u32(bases.len() as u32)
                .u32(bits)
                .put(&digest.0);
        }
        let numbers = [self.sequences.len() as u32, self.bases.len() as u32, 0];
        frame.finish(numbers, &index.into_bytes())
    }
}

/// Decodes the sequences of a reference; also returns the end of the last one.
fn decode_entries(
    index: &mut Reader<'_>,
    sequences: u32,
    bases: u32,
) -> Result<(Vec<Entry>, u64), Corruption> {
    let mut entries = Vec::new();
    let (mut end, mut total) = (FIRST_BLOB, 0);
    for _ in 0..sequences {
        let entry = Entry {
            name: decode_name(index)?,
            bases: index.u32()? as usize,
            bits: index.u32()?,
            digest: Digest(index.array()?),
        };
        if entry.bases == 0 || !matches!(entry.bits, 1 | 2 | 4) {
            return Err(Corruption::Invalid(format!(
                "sequence {:?} has {} bases of {} bits",
                entry.name, entry.bases, entry.bits
            )));
        }
        total += entry.bases as u64;
        end += padded(entry.bytes());
        entries.push(entry);
    }
    if total == u64::from(bases) {
        Ok((entries, end))
    } else {
        Err(Corruption::Invalid(
            "its sequences and its header contradict each other".into(),
        ))
    }
}

/// Appends the row that begins at each offset.
fn slide(strand: &[u8], length: usize, bits: u32, rows: &mut Vec<u64>) {
    let mut words = Vec::new();
    pack(strand, bits, &mut words);
    number_unknown(&mut words, bits);
    words.push(0);
    let words_per_row = words_for(length, bits);
    let last = u64::MAX >> (words_per_row * 64 - length * bits as usize);
    for offset in 0..(strand.len() + 1).saturating_sub(length) {
        let shift = offset % per_word(bits) * bits as usize;
        let row = words[offset / per_word(bits)..]
            .windows(2)
            .take(words_per_row);
        rows.extend(row.map(|pair| pair[0] >> shift | pair[1] << 1 << (63 - shift)));
        if let Some(word) = rows.last_mut() {
            *word &= last;
        }
    }
}

/// Returns the other strand, read in its own direction: complements from the last base to the first. Unknown bases stay
/// unknown.
pub fn reverse_complement(bases: &[u8]) -> Vec<u8> {
    let complement = |&base: &u8| match base {
        0..=3 => 3 - base,
        _ => UNKNOWN,
    };
    bases.iter().rev().map(complement).collect()
}

#[cfg(test)]
mod tests;
