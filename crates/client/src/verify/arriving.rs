//! A query about sums and moments, and the assembly of its answer.
//!
//! What arrives is copied to its position. Unexpected parts change nothing but the final verdict, so that the server
//! observes the same behaviour whatever it sends.

use oboro_format::Manifest;
use oboro_protocol::{column_numbers, moments_range, v1};
use oboro_ring::{Blocks, Column, pack};
use oboro_rlwe::{ColumnMoments, PrefixQuery, Sums};
use std::ops::Range;

/// The most pairs of one request: their numbers fit into any server's message limit.
const MOST_PAIRS: usize = 1 << 16;

/// The content of a query.
pub(crate) enum Content {
    /// The sums of these pairs of columns, ascending: one residue per limb.
    Sums(Vec<[Column; 2]>),
    /// All moments of the itemsets of a query.
    Moments(Box<PrefixQuery>),
    /// All moments of these pairs, ascending, in which each of the given number of columns occurs at least once.
    Columns(Vec<[Column; 2]>, usize),
}

/// A query about all ranges of a dataset.
pub(crate) struct SumsQuery {
    content: Content,
    manifest: Manifest,
    limbs: usize,
    ranges: Vec<Blocks>,
}

impl SumsQuery {
    /// A query about the dataset that `manifest` describes, modulo its first limbs, over each of the ranges.
    pub(crate) fn new(
        content: Content,
        manifest: &Manifest,
        limbs: usize,
        ranges: &[Blocks],
    ) -> Self {
        Self {
            content,
            manifest: manifest.clone(),
            limbs,
            ranges: ranges.to_vec(),
        }
    }

    /// The number of limbs requested.
    pub(crate) fn limbs(&self) -> usize {
        self.limbs
    }

    /// The content requested.
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// The number of moments over each range.
    fn moments(&self) -> usize {
        match &self.content {
            Content::Sums(pairs) => pairs.len(),
            Content::Moments(query) => query.moments(),
            // In addition to those of pairs and columns, that of the mask.
            Content::Columns(pairs, columns) => pairs.len() + columns + 1,
        }
    }

    /// The bytes of a moment with `power` factors of the mask.
    fn moment_bytes(&self, power: usize) -> usize {
        pack::moment_packed_len(self.manifest.parameters.degree(), self.limbs, power)
    }

    /// The byte range of moments in the answer of a block range; `None` if they do not exist.
    fn bytes_at(&self, moments: Range<usize>) -> Option<Range<usize>> {
        if let Content::Moments(query) = &self.content {
            return query.place(moments);
        }
        if moments.start > moments.end || moments.end > self.moments() {
            return None;
        }
        let (Content::Sums(pairs) | Content::Columns(pairs, _)) = &self.content else {
            return None;
        };
        let start = |moment: usize| {
            let sums = moment.min(pairs.len());
            sums * self.moment_bytes(0) + (moment - sums) * self.moment_bytes(1)
        };
        Some(start(moments.start)..start(moments.end))
    }

    /// The bytes of the answer for some moments.
    pub(crate) fn bytes_of(&self, moments: &Range<usize>) -> u64 {
        let place = self.bytes_at(moments.clone());
        place.map_or(0, |it| it.len() as u64) * self.ranges.len() as u64
    }

    /// The bytes of the whole answer.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_of(&(0..self.moments()))
    }

    /// The requests to send, each with the moments that answer it.
    pub(crate) fn requests(&self, name: &str) -> Vec<(Range<usize>, v1::CountRequest)> {
        let request = |columns: &[Column], length: usize, scalars| v1::CountRequest {
            name: name.to_owned(),
            root: self.manifest.root().0.to_vec().into(),
            limbs: self.limbs as u32,
            length: length as u32,
            columns: column_numbers(columns),
            ranges: self.ranges.iter().copied().map(Into::into).collect(),
            scalars,
        };
        let all = 0..self.moments();
        match &self.content {
            Content::Moments(query) => {
                let itemsets = query.itemsets();
                let request = request(itemsets.as_flat(), itemsets.length(), false);
                vec![(all, request)]
            }
            Content::Columns(pairs, _) => vec![(all, request(pairs.as_flattened(), 2, false))],
            Content::Sums(pairs) => {
                let chunks = pairs.chunks(MOST_PAIRS).zip((0..).step_by(MOST_PAIRS));
                chunks
                    .map(|(chunk, first)| {
                        let moments = first..first + chunk.len();
                        (moments, request(chunk.as_flattened(), 2, true))
                    })
                    .collect()
            }
        }
    }

    /// An empty buffer for the answer.
    pub(crate) fn arriving(&self) -> Arriving<'_> {
        let whole = self.bytes_at(0..self.moments()).map_or(0, |it| it.end);
        let ranges = self.ranges.len();
        Arriving {
            query: self,
            ranges: vec![vec![0; whole]; ranges],
            come: vec![false; self.moments() * ranges],
            is_right: true,
        }
    }
}

/// An answer being received.
pub(crate) struct Arriving<'a> {
    query: &'a SumsQuery,
    /// For each range its moments in the wire encoding, concatenated.
    ranges: Vec<Vec<u8>>,
    /// For each range and moment whether it has arrived.
    come: Vec<bool>,
    is_right: bool,
}

impl Arriving<'_> {
    /// Accepts a part of the answer to a request for the moments from index `first` on.
    pub(crate) fn take(&mut self, first: usize, message: &v1::Moments) {
        self.is_right &= self.put(first, message).is_some();
    }

    /// Notes that more arrived than was requested.
    pub(crate) fn note_excess(&mut self) {
        self.is_right = false;
    }

    /// Discards what arrived for a request that will be sent again.
    pub(crate) fn forget(&mut self, moments: Range<usize>) {
        for come in self.come.chunks_exact_mut(self.query.moments()) {
            come[moments.clone()].fill(false);
        }
    }

    fn put(&mut self, first: usize, message: &v1::Moments) -> Option<()> {
        let numbers = moments_range(message).ok()?;
        let numbers = first.checked_add(numbers.start)?..first.checked_add(numbers.end)?;
        let place = self.query.bytes_at(numbers.clone())?;
        let range = usize::try_from(message.range).ok()?;
        let bytes = self.ranges.get_mut(range)?;
        if message.residues.len() != place.len() {
            return None;
        }
        let of_range = range * self.query.moments();
        let come = &mut self.come[of_range + numbers.start..of_range + numbers.end];
        let are_new = come.iter().all(|&come| !come);
        come.fill(true);
        bytes[place].copy_from_slice(&message.residues);
        are_new.then_some(())
    }

    /// For each range its moments, concatenated, after everything was read; empty if some are missing or anything
    /// unexpected arrived.
    pub(crate) fn answer(&self) -> &[Vec<u8>] {
        if self.is_right && self.come.iter().all(|&come| come) {
            &self.ranges
        } else {
            &[]
        }
    }

    /// For each range and limb the sums of pairs; the sum at index `i` goes to index `order[i]`. `None` if padding is
    /// not 0 or something is missing.
    pub(crate) fn sums(&self, order: &[usize]) -> Option<Vec<Sums>> {
        let limbs = self.query.limbs;
        let each = self.query.moment_bytes(0);
        let mut residues = vec![0; pack::unpacked_len(each)];
        let mut of_range = |range: &Vec<u8>| {
            let mut sums = vec![vec![0; order.len()]; limbs];
            for (packed, &place) in range.chunks_exact(each).zip(order) {
                pack::unpack(packed, &mut residues);
                if residues[limbs..].iter().any(|&it| it != 0) {
                    return None;
                }
                for (sums, &residue) in sums.iter_mut().zip(&residues) {
                    sums[place] = residue;
                }
            }
            Some(sums)
        };
        let answer = self.answer();
        let sums: Option<Vec<Sums>> = answer.iter().map(&mut of_range).collect();
        sums.filter(|_| !answer.is_empty())
    }

    /// The moments `M_{i,1}` of the `column`-th requested column in the wire encoding, range after range; `None` if
    /// something is missing.
    pub(crate) fn column(&self, column: usize) -> Option<Vec<u8>> {
        let Content::Columns(pairs, columns) = &self.query.content else {
            return None;
        };
        (column < *columns).then(|| self.moment(pairs.len() + column))?
    }

    /// The moment `M_{∅,2}` that accompanies those of columns, in the same encoding.
    pub(crate) fn mask_squared(&self) -> Option<Vec<u8>> {
        self.moment(self.query.moments().checked_sub(1)?)
    }

    /// A moment in the wire encoding, range after range; `None` if something is missing.
    fn moment(&self, moment: usize) -> Option<Vec<u8>> {
        let place = self.query.bytes_at(moment..moment + 1)?;
        let answer = self.answer();
        let all = answer.iter().flat_map(|it| &it[place.clone()]).copied();
        (!answer.is_empty()).then(|| all.collect())
    }

    /// Whether the sums that accompany moments of columns equal those of the same pairs in another answer.
    pub(crate) fn repeats_sums(&self, other: &Self) -> bool {
        let (Content::Columns(own, _), Content::Sums(pairs)) =
            (&self.query.content, &other.query.content)
        else {
            return false;
        };
        let each = self.query.moment_bytes(0);
        let sum =
            |range: &[u8], at: usize| range.get(at * each..(at + 1) * each).map(<[u8]>::to_vec);
        own.iter().enumerate().all(|(at, pair)| {
            let place = pairs.binary_search(pair);
            let mut ranges = self.answer().iter().zip(other.answer());
            place.is_ok_and(|place| ranges.all(|(own, other)| sum(own, at) == sum(other, place)))
        })
    }
}

/// Decodes moments `M_{i,1}` from the wire encoding, range after range, each of `limbs` times `degree` residues; `None`
/// if the length is wrong or padding is not 0.
pub(crate) fn column_moments(
    packed: &[u8],
    ranges: usize,
    limbs: usize,
    degree: usize,
) -> Option<ColumnMoments> {
    let each = pack::moment_packed_len(degree, limbs, 1);
    if packed.len() != ranges * each {
        return None;
    }
    let of_range = |packed: &[u8]| {
        let mut residues = vec![0; pack::unpacked_len(each)];
        pack::unpack(packed, &mut residues);
        let (limbs, padding) = residues.split_at(limbs * degree);
        let limbs = limbs.chunks_exact(degree).map(<[u32]>::to_vec).collect();
        padding.iter().all(|&it| it == 0).then_some(limbs)
    };
    packed.chunks_exact(each).map(of_range).collect()
}
