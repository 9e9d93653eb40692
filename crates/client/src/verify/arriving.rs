//! One query about sums and moments, and its answer as it comes.
//!
//! What arrives is put in its place. What fits no place changes nothing but the verdict at the end, so that the server
//! sees the same whatever it sent.

use oboro_format::Manifest;
use oboro_protocol::{moments_range, v1};
use oboro_ring::pack;
use oboro_rlwe::{ColumnMoments, PrefixQuestion, Sums};
use std::ops::Range;

/// The most pairs of one request: their numbers fit any server's messages.
const MOST_PAIRS: usize = 1 << 16;

/// What is asked for.
pub(crate) enum Content {
    /// The sums of these pairs of columns, ascending: one residue a limb.
    Sums(Vec<[u32; 2]>),
    /// All moments of the itemsets of a query.
    Moments(Box<PrefixQuestion>),
    /// Of these pairs, ascending, which have each of so many columns at least once, all moments.
    Columns(Vec<[u32; 2]>, usize),
}

/// A query about all ranges of a dataset.
pub(crate) struct SumsQuery {
    content: Content,
    manifest: Manifest,
    limbs: usize,
    ranges: Vec<Range<u64>>,
}

impl SumsQuery {
    /// About the dataset that `manifest` describes, modulo its first limbs, over each of some ranges.
    pub(crate) fn new(
        content: Content,
        manifest: &Manifest,
        limbs: usize,
        ranges: &[Range<u64>],
    ) -> Self {
        Self {
            content,
            manifest: manifest.clone(),
            limbs,
            ranges: ranges.to_vec(),
        }
    }

    /// The limbs that are asked for.
    pub(crate) fn limbs(&self) -> usize {
        self.limbs
    }

    /// What is asked for.
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// The moments over each range.
    fn moments(&self) -> usize {
        match &self.content {
            Content::Sums(pairs) => pairs.len(),
            Content::Moments(query) => query.moments(),
            // Besides those of pairs and of columns, that of the mask.
            Content::Columns(pairs, columns) => pairs.len() + columns + 1,
        }
    }

    /// The bytes of a moment that has so many powers of the mask.
    fn moment_bytes(&self, power: usize) -> usize {
        pack::moment_packed_len(self.manifest.parameters.degree(), self.limbs, power)
    }

    /// Where moments lie in the answer of a range; `None` if there are no such moments.
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

    /// The bytes of the answer about some moments.
    pub(crate) fn bytes_of(&self, moments: &Range<usize>) -> u64 {
        let place = self.bytes_at(moments.clone());
        place.map_or(0, |it| it.len() as u64) * self.ranges.len() as u64
    }

    /// The bytes of the whole answer.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_of(&(0..self.moments()))
    }

    /// What to ask for, and which moments answer it.
    pub(crate) fn requests(&self, name: &str) -> Vec<(Range<usize>, v1::CountRequest)> {
        let request = |columns: Vec<u32>, length: usize, scalars| v1::CountRequest {
            name: name.to_owned(),
            root: self.manifest.root().0.to_vec().into(),
            limbs: self.limbs as u32,
            length: length as u32,
            columns,
            ranges: self.ranges.iter().cloned().map(Into::into).collect(),
            scalars,
        };
        let all = 0..self.moments();
        match &self.content {
            Content::Moments(query) => {
                let itemsets = query.itemsets();
                let columns = itemsets.as_flat().to_vec();
                vec![(all, request(columns, itemsets.length(), false))]
            }
            Content::Columns(pairs, _) => vec![(all, request(pairs.concat(), 2, false))],
            Content::Sums(pairs) => {
                let chunks = pairs.chunks(MOST_PAIRS).zip((0..).step_by(MOST_PAIRS));
                chunks
                    .map(|(chunk, first)| {
                        let moments = first..first + chunk.len();
                        (moments, request(chunk.concat(), 2, true))
                    })
                    .collect()
            }
        }
    }

    /// Where nothing has arrived.
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

/// An answer as it comes.
pub(crate) struct Arriving<'a> {
    query: &'a SumsQuery,
    /// For each range the moments as they travel, one after another.
    ranges: Vec<Vec<u8>>,
    /// For each range and moment whether it has come.
    come: Vec<bool>,
    is_right: bool,
}

impl Arriving<'_> {
    /// Takes a part of the answer to a request for the moments from number `first` on.
    pub(crate) fn take(&mut self, first: usize, message: &v1::Moments) {
        self.is_right &= self.put(first, message).is_some();
    }

    /// Notes that more came than there can be.
    pub(crate) fn note_excess(&mut self) {
        self.is_right = false;
    }

    /// Forgets what came of a request for these moments: it is sent again.
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

    /// For each range the moments one after another, once everything has been read; nothing if not all have come, or
    /// something else has.
    pub(crate) fn answer(&self) -> &[Vec<u8>] {
        if self.is_right && self.come.iter().all(|&come| come) {
            &self.ranges
        } else {
            &[]
        }
    }

    /// For each range and limb the sums of pairs, of which the one at `i` has the place `order[i]`. `None` if padding is
    /// not 0, or something is lacking.
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

    /// The moments `M_{i,1}` of the `column`-th of the columns that were asked for, as they travel, range after range;
    /// `None` if something is lacking.
    pub(crate) fn column(&self, column: usize) -> Option<Vec<u8>> {
        let Content::Columns(pairs, columns) = &self.query.content else {
            return None;
        };
        (column < *columns).then(|| self.moment(pairs.len() + column))?
    }

    /// The moment `M_{∅,2}` that comes with those of columns, likewise.
    pub(crate) fn mask_squared(&self) -> Option<Vec<u8>> {
        self.moment(self.query.moments().checked_sub(1)?)
    }

    /// A moment as it travels, range after range; `None` if something is lacking.
    fn moment(&self, moment: usize) -> Option<Vec<u8>> {
        let place = self.query.bytes_at(moment..moment + 1)?;
        let answer = self.answer();
        let all = answer.iter().flat_map(|it| &it[place.clone()]).copied();
        (!answer.is_empty()).then(|| all.collect())
    }

    /// Whether the sums that come with moments of columns are those that another answer has of the same pairs.
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

/// Moments `M_{i,1}` as they travel, range after range, of so many limbs of `degree` residues; `None` if there are not as
/// many bytes, or padding is not 0.
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
