//! Query about sums and moments, and the assembly of its answer.
//!
//! Received data are copied to their position. Impossible parts affect only the final verdict: the server observes
//! equal behaviour whatever it sends. A repeated request must be answered with identical bytes.

use super::reading::{Assembly, Part, ReplyOrder};
use oboro_format::Manifest;
use oboro_protocol::v1::count_reply::Reply;
use oboro_protocol::{column_numbers, moments_range, v1};
use oboro_ring::{Blocks, Column, pack};
use oboro_rlwe::{PrefixQuery, Sums};
use std::ops::Range;
use std::time::Duration;

/// Maximum number of pairs of one request: their numbers fit into any server's message limit.
const MOST_PAIRS: usize = 1 << 16;

/// Content of a query.
pub(crate) enum Content {
    /// Sums of these pairs of columns, ascending: one residue per limb.
    Sums(Vec<[Column; 2]>),
    /// All moments of the itemsets of a query.
    Moments(Box<PrefixQuery>),
}

/// Query about all ranges of a dataset.
pub(crate) struct SumsQuery {
    content: Content,
    manifest: Manifest,
    limbs: usize,
    ranges: Vec<Blocks>,
}

impl SumsQuery {
    /// Creates a query about the dataset that `manifest` describes, modulo its first limbs, over each of the ranges.
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

    /// Returns the number of limbs requested.
    pub(crate) fn limbs(&self) -> usize {
        self.limbs
    }

    /// Returns the content requested.
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// Returns the number of moments over each range.
    fn moments(&self) -> usize {
        match &self.content {
            Content::Sums(pairs) => pairs.len(),
            Content::Moments(query) => query.moments(),
        }
    }

    /// Returns the bytes of a moment with `power` factors of the mask.
    fn moment_bytes(&self, power: usize) -> usize {
        pack::moment_packed_len(self.manifest.parameters.degree(), self.limbs, power)
    }

    /// Returns the byte range of moments in the answer of a block range; `None` if they do not exist.
    fn bytes_at(&self, moments: Range<usize>) -> Option<Range<usize>> {
        if let Content::Moments(query) = &self.content {
            return query.place(moments);
        }
        if moments.start > moments.end || moments.end > self.moments() {
            return None;
        }
        let each = self.moment_bytes(0);
        Some(moments.start * each..moments.end * each)
    }

    /// Returns true if these are canonical residues of moments, at least one, of equal power of the mask.
    fn are_residues(&self, moments: &Range<usize>, bytes: &[u8]) -> bool {
        let each = |moment: usize| self.bytes_at(moment..moment + 1).map_or(0, |it| it.len());
        let bytes_each = each(moments.start);
        if bytes_each != each(moments.end - 1) {
            return false;
        }
        let residues_each = if bytes_each == self.moment_bytes(0) {
            1
        } else {
            self.manifest.parameters.degree()
        };
        let moduli = &self.manifest.parameters.limb_moduli()[..self.limbs];
        let mut residues = vec![0; pack::unpacked_len(bytes_each)];
        bytes.chunks_exact(bytes_each).all(|moment| {
            pack::unpack(moment, &mut residues);
            let (limbs, padding) = residues.split_at(self.limbs * residues_each);
            let mut limbs = limbs.chunks_exact(residues_each).zip(moduli);
            padding.iter().all(|&it| it == 0)
                && limbs.all(|(limb, q)| limb.iter().all(|&it| it < q.value()))
        })
    }

    /// Returns the bytes of the answer for some moments.
    pub(crate) fn bytes_of(&self, moments: &Range<usize>) -> u64 {
        let place = self.bytes_at(moments.clone());
        place.map_or(0, |it| it.len() as u64) * self.ranges.len() as u64
    }

    /// Returns the bytes of the whole answer.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_of(&(0..self.moments()))
    }

    /// Returns the requests to send, each with the moments that answer it.
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

    /// Returns an empty buffer for the answer.
    pub(crate) fn arriving(&self) -> AnswerAssembler<'_> {
        let whole = self.bytes_at(0..self.moments()).map_or(0, |it| it.end);
        let ranges = self.ranges.len();
        AnswerAssembler {
            query: self,
            ranges: vec![vec![0; whole]; ranges],
            came: vec![Arrival::No; self.moments() * ranges],
        }
    }
}

/// Arrival of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    No,
    /// Arrived in an earlier attempt.
    Earlier,
    /// Arrived in this attempt.
    Now,
}

/// Answer being received.
pub(crate) struct AnswerAssembler<'a> {
    query: &'a SumsQuery,
    /// Moments of each range in the wire encoding, concatenated.
    ranges: Vec<Vec<u8>>,
    /// Arrival of each moment, range after range.
    came: Vec<Arrival>,
}

impl AnswerAssembler<'_> {
    /// Takes a part of the answer to a request for these moments.
    fn take(&mut self, requested: &Range<usize>, message: &v1::Moments) -> Part {
        match self.put(requested, message) {
            Some(()) => Part::New,
            None => Part::False,
        }
    }

    /// Resets the moments of a request that is repeated.
    fn forget(&mut self, moments: Range<usize>) {
        for came in self.came.chunks_exact_mut(self.query.moments()) {
            for came in &mut came[moments.clone()] {
                if *came == Arrival::Now {
                    *came = Arrival::Earlier;
                }
            }
        }
    }

    /// Stores a part; `None` if no correct answer has it.
    fn put(&mut self, requested: &Range<usize>, message: &v1::Moments) -> Option<()> {
        let numbers = moments_range(message).ok()?;
        let first = requested.start;
        let numbers = first.checked_add(numbers.start)?..first.checked_add(numbers.end)?;
        if numbers.is_empty() || numbers.end > requested.end {
            return None;
        }
        let place = self.query.bytes_at(numbers.clone())?;
        let range = usize::try_from(message.range).ok()?;
        let bytes = self.ranges.get_mut(range)?.get_mut(place.clone())?;
        if message.residues.len() != place.len() {
            return None;
        }
        let of_range = range * self.query.moments();
        let came = &mut self.came[of_range + numbers.start..of_range + numbers.end];
        let (are_new, came_earlier) = (
            came.iter().all(|&it| it != Arrival::Now),
            came.contains(&Arrival::Earlier),
        );
        let is_same = !came_earlier || {
            let each = numbers.clone().zip(came.iter());
            let mut earlier = each.filter(|(_, came)| **came == Arrival::Earlier);
            earlier.all(|(moment, _)| {
                let own = self.query.bytes_at(moment..moment + 1).unwrap_or_default();
                let own = own.start - place.start..own.end - place.start;
                bytes[own.clone()] == message.residues[own]
            })
        };
        came.fill(Arrival::Now);
        bytes.copy_from_slice(&message.residues);
        let are_residues = self.query.are_residues(&numbers, &message.residues);
        (are_new && is_same && are_residues).then_some(())
    }

    /// Returns true if every moment of every range arrived in this attempt.
    pub(crate) fn is_complete(&self) -> bool {
        self.came.iter().all(|&it| it == Arrival::Now)
    }

    /// Returns the moments of each range, concatenated; empty if some are missing.
    pub(crate) fn answer(&self) -> &[Vec<u8>] {
        if self.is_complete() {
            &self.ranges
        } else {
            &[]
        }
    }

    /// Returns the moments of each range that is complete over all attempts, with the range's index.
    pub(crate) fn complete_ranges(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let came = self.came.chunks_exact(self.query.moments().max(1));
        let ranges = self.ranges.iter().zip(came).enumerate();
        let complete = ranges.filter(|(_, (_, came))| came.iter().all(|&it| it != Arrival::No));
        complete.map(|(range, (bytes, _))| (range, &bytes[..]))
    }

    /// Returns the sums of pairs for each range and limb; the sum at index `i` goes to index `order[i]`. `None` if
    /// padding is not 0 or something is missing.
    pub(crate) fn sums(&self, order: &[usize]) -> Option<Vec<Sums>> {
        let answer = self.answer();
        let sums = answer.iter().map(|range| self.sums_of(range, order));
        let sums: Option<Vec<Sums>> = sums.collect();
        sums.filter(|_| !answer.is_empty())
    }

    /// As [`sums`](Self::sums), for one range.
    pub(crate) fn sums_of(&self, range: &[u8], order: &[usize]) -> Option<Sums> {
        let limbs = self.query.limbs;
        let each = self.query.moment_bytes(0);
        let mut residues = vec![0; pack::unpacked_len(each)];
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
    }
}

/// Cost of answers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReceivedSums {
    pub(crate) requests: usize,
    pub(crate) bytes: u64,
    pub(crate) moments: u64,
    pub(crate) known: u64,
    pub(crate) server: Duration,
}

/// Answer to one request, as part of the answer to its query.
pub(crate) struct RequestedSums<'a, 'q> {
    answer: &'a mut AnswerAssembler<'q>,
    requested: Range<usize>,
    order: ReplyOrder,
    /// Cost of the current attempt.
    received: ReceivedSums,
    progress: &'a dyn Fn(u64),
}

impl<'a, 'q> RequestedSums<'a, 'q> {
    /// Creates the answer to a request for these moments. `progress` receives the bytes of the current attempt.
    pub(crate) fn new(
        answer: &'a mut AnswerAssembler<'q>,
        requested: Range<usize>,
        progress: &'a dyn Fn(u64),
    ) -> Self {
        Self {
            answer,
            requested,
            order: ReplyOrder::default(),
            received: ReceivedSums::default(),
            progress,
        }
    }

    /// Returns the cost of the last attempt.
    pub(crate) fn received(&self) -> ReceivedSums {
        self.received
    }
}

impl Assembly for RequestedSums<'_, '_> {
    type Message = v1::CountReply;

    fn begin(&mut self) {
        self.answer.forget(self.requested.clone());
        self.order = ReplyOrder::default();
        self.received = ReceivedSums {
            requests: 1,
            ..ReceivedSums::default()
        };
    }

    fn take(&mut self, message: v1::CountReply) -> Part {
        let Some(reply) = message.reply else {
            return Part::Idle;
        };
        if !self.order.takes(&reply) {
            return Part::False;
        }
        match reply {
            Reply::Moments(part) => {
                self.received.bytes += part.residues.len() as u64;
                self.received.moments = self.received.moments.saturating_add(part.moments);
                (self.progress)(self.received.bytes);
                if self.received.bytes > self.answer.query.bytes_of(&self.requested) {
                    return Part::Excess;
                }
                self.answer.take(&self.requested, &part)
            }
            Reply::Done(done) => {
                self.received.known = done.known;
                self.received.server = Duration::from_micros(done.microseconds);
                Part::New
            }
            Reply::Accepted(_) => Part::New,
        }
    }
}
