//! Moments and the itemsets whose supports they determine; used by owner and server.
//!
//! To compute the supports of itemsets of length `k`, the owner needs moments for every subset `T` of an itemset. With
//! `r = k − |T|`, the moment is `M_{T,r} = Σ_b a_b^r Π_{i∈T} c_{b,i}`. Moments are numbered in canonical order, by `r`
//! ascending and then by `T` lexicographically; neither side sends a list of them. Those with `r = 0` are the itemsets
//! themselves and scalars (the sum of the evaluation form); those with `r ≥ 1` are polynomials.

use crate::Column;
use std::ops::Range;
use thiserror::Error;

/// Longest itemset of a request: one of length `k` needs `2^k` moments.
pub const MAX_LENGTH: usize = 16;

/// An ill-formed request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum RequestError {
    #[error("no itemsets were asked for")]
    Empty,
    #[error("itemset length {0} is outside 1..={MAX_LENGTH}")]
    Length(usize),
    #[error("{columns} column numbers are not a whole number of itemsets of length {length}")]
    Ragged { columns: usize, length: usize },
    #[error("itemset number {0} is not strictly ascending")]
    Unsorted(usize),
    #[error("itemset number {0} does not follow its predecessor in lexicographic order")]
    Disordered(usize),
    #[error("itemset number {index} names column {column}, but the dataset has {columns}")]
    NoSuchColumn {
        index: usize,
        column: Column,
        columns: u32,
    },
}

/// Itemsets of one length `k`: each strictly ascending, all distinct and in lexicographic order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Itemsets {
    length: usize,
    flat: Vec<Column>,
}

impl Itemsets {
    /// Checks `flat`, the concatenation of itemsets of `length` of the first `columns` columns.
    pub fn new(length: usize, flat: Vec<Column>, columns: u32) -> Result<Self, RequestError> {
        if !(1..=MAX_LENGTH).contains(&length) {
            return Err(RequestError::Length(length));
        }
        if flat.is_empty() {
            return Err(RequestError::Empty);
        }
        if !flat.len().is_multiple_of(length) {
            return Err(RequestError::Ragged {
                columns: flat.len(),
                length,
            });
        }
        let mut previous: &[Column] = &[];
        for (index, set) in flat.chunks_exact(length).enumerate() {
            if !set.is_sorted_by(|a, b| a < b) {
                return Err(RequestError::Unsorted(index));
            }
            if set <= previous {
                return Err(RequestError::Disordered(index));
            }
            if let Some(&column) = set.last().filter(|column| column.0 >= columns) {
                return Err(RequestError::NoSuchColumn {
                    index,
                    column,
                    columns,
                });
            }
            previous = set;
        }
        Ok(Self { length, flat })
    }

    /// All itemsets of `length` of these columns.
    ///
    /// # Errors
    /// The length is out of bounds, or exceeds the number of columns.
    ///
    /// # Panics
    /// If a column occurs twice.
    pub fn all_of(columns: &[Column], length: usize) -> Result<Self, RequestError> {
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        assert!(columns.is_sorted_by(|a, b| a < b), "columns are different");
        if !(1..=MAX_LENGTH).contains(&length) {
            return Err(RequestError::Length(length));
        }
        if columns.len() < length {
            return Err(RequestError::Empty);
        }
        let mut places: Vec<usize> = (0..length).collect();
        let mut flat = Vec::new();
        loop {
            flat.extend(places.iter().map(|&place| columns[place]));
            // The last index that can advance, with those after it following directly.
            let can_advance = |&i: &usize| places[i] + (length - i) < columns.len();
            let Some(i) = (0..length).rev().find(can_advance) else {
                return Ok(Self { length, flat });
            };
            let next = places[i] + 1;
            places[i..]
                .iter_mut()
                .zip(next..)
                .for_each(|(place, it)| *place = it);
        }
    }

    /// The length `k` of every itemset.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The number of itemsets.
    pub fn len(&self) -> usize {
        self.flat.len() / self.length
    }

    /// Always false: a request has at least one itemset.
    pub fn is_empty(&self) -> bool {
        self.flat.is_empty()
    }

    /// The itemsets in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Column]> {
        self.flat.chunks_exact(self.length)
    }

    /// All columns, itemset after itemset.
    pub fn as_flat(&self) -> &[Column] {
        &self.flat
    }
}

/// The moments that a set of itemsets needs, in canonical order.
#[derive(Debug, Clone)]
pub struct MomentIndex {
    /// `ranks[r]`: the sets `T` of length `k − r`, flat and in order.
    ranks: Vec<Rank>,
}

#[derive(Debug, Clone)]
struct Rank {
    first: usize,
    length: usize,
    count: usize,
    flat: Vec<Column>,
}

impl MomentIndex {
    /// Enumerates all `(T, r)` with `T` a subset of a requested itemset.
    pub fn new(itemsets: &Itemsets) -> Self {
        let mut ranks: Vec<Rank> = Vec::with_capacity(itemsets.length + 1);
        let mut flat = itemsets.flat.clone();
        let mut length = itemsets.length;
        let mut first = 0;
        loop {
            // The only set of length 0 is the empty one.
            let count = flat.len().checked_div(length).unwrap_or(1);
            ranks.push(Rank {
                first,
                length,
                count,
                flat: flat.clone(),
            });
            first += count;
            if length == 0 {
                return Self { ranks };
            }
            flat = subsets_one_shorter(&flat, length);
            length -= 1;
        }
    }

    /// The number of moments.
    pub fn len(&self) -> usize {
        let last = &self.ranks[self.ranks.len() - 1];
        last.first + last.count
    }

    /// Always false: the power of the mask is always included.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let columns = self.ranks.iter().map(|rank| rank.flat.capacity());
        self.ranks.capacity() * size_of::<Rank>() + columns.sum::<usize>() * size_of::<Column>()
    }

    /// The length `k` of the requested itemsets.
    pub fn level(&self) -> usize {
        self.ranks.len() - 1
    }

    /// The moment numbers with `r` factors of the mask.
    pub fn rank(&self, r: usize) -> Range<usize> {
        let rank = &self.ranks[r];
        rank.first..rank.first + rank.count
    }

    /// The exponent `r` and the columns `T` of a moment.
    pub fn get(&self, moment: usize) -> (usize, &[Column]) {
        let r = self.ranks.partition_point(|rank| rank.first <= moment) - 1;
        let rank = &self.ranks[r];
        let start = (moment - rank.first) * rank.length;
        (r, &rank.flat[start..start + rank.length])
    }

    /// The number of the moment `(T, k − |T|)`, if it is included.
    pub fn find(&self, columns: &[Column]) -> Option<usize> {
        let rank = &self.ranks[self.level().checked_sub(columns.len())?];
        if rank.length == 0 {
            return Some(rank.first);
        }
        let at = |i: usize| &rank.flat[i * rank.length..(i + 1) * rank.length];
        let (mut low, mut high) = (0, rank.count);
        while low < high {
            let middle = usize::midpoint(low, high);
            match at(middle).cmp(columns) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(rank.first + middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// The number of `k`-subsets of `n` elements, saturating.
pub fn binomial(n: u64, k: usize) -> u64 {
    let k = k as u64;
    if k > n {
        return 0;
    }
    let next = |so_far: u128, i: u64| Some(so_far.checked_mul((n - i).into())? / u128::from(i + 1));
    let exact = (0..k).try_fold(1u128, next);
    exact.and_then(|it| it.try_into().ok()).unwrap_or(u64::MAX)
}

/// All distinct sets that result from removing one column, in order.
fn subsets_one_shorter(flat: &[Column], length: usize) -> Vec<Column> {
    if length == 1 {
        return Vec::new();
    }
    let shorter = length - 1;
    let mut all: Vec<Column> = Vec::with_capacity(flat.len() * shorter);
    for set in flat.chunks_exact(length) {
        for omit in 0..length {
            all.extend_from_slice(&set[..omit]);
            all.extend_from_slice(&set[omit + 1..]);
        }
    }
    let mut subsets: Vec<&[Column]> = all.chunks_exact(shorter).collect();
    subsets.sort_unstable();
    subsets.dedup();
    subsets.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn pairs_need_their_items_and_the_squared_mask() {
        const A: Column = Column(0);
        const B: Column = Column(1);
        const C: Column = Column(2);
        let itemsets = Itemsets::new(2, vec![A, B, A, C, B, C], 3).unwrap();
        let index = MomentIndex::new(&itemsets);
        let all: Vec<_> = (0..index.len()).map(|m| index.get(m)).collect();
        let expected: Vec<(usize, &[Column])> = vec![
            (0, &[A, B]),
            (0, &[A, C]),
            (0, &[B, C]),
            (1, &[A]),
            (1, &[B]),
            (1, &[C]),
            (2, &[]),
        ];
        assert_eq!(all, expected);
        assert_eq!(index.rank(1), 3..6);
    }

    #[test]
    fn sets_are_counted_and_do_not_overflow() {
        assert_eq!(binomial(39, 5), 575_757);
        assert_eq!((binomial(3, 4), binomial(3, 0), binomial(0, 0)), (0, 1, 1));
        assert_eq!(binomial(u64::MAX, 7), u64::MAX);
    }

    #[test]
    fn malformed_requests_are_named() {
        let of = |length, flat: &[u32]| {
            let flat = flat.iter().copied().map(Column).collect();
            Itemsets::new(length, flat, 4).unwrap_err()
        };
        assert_eq!(of(2, &[]), RequestError::Empty);
        assert_eq!(of(0, &[1]), RequestError::Length(0));
        assert_eq!(of(17, &[1]), RequestError::Length(17));
        assert_eq!(
            of(2, &[1]),
            RequestError::Ragged {
                columns: 1,
                length: 2
            }
        );
        assert_eq!(of(2, &[0, 1, 2, 2]), RequestError::Unsorted(1));
        assert_eq!(of(2, &[0, 2, 0, 1]), RequestError::Disordered(1));
        assert_eq!(
            of(1, &[0, 4]),
            RequestError::NoSuchColumn {
                index: 1,
                column: Column(4),
                columns: 4
            }
        );
    }

    #[test]
    fn all_itemsets_of_some_columns_are_in_order() {
        for (count, length) in [(5u32, 1), (5, 2), (6, 3), (4, 4), (7, 5)] {
            // Unsorted.
            let columns: Vec<_> = (0..count).map(|it| Column(3 * (it * 5 % 7))).collect();
            let all = Itemsets::all_of(&columns, length).unwrap();
            assert_eq!(all.len() as u64, binomial(count.into(), length));
            assert_eq!(Itemsets::new(length, all.as_flat().to_vec(), 21), Ok(all));
        }
        assert_eq!(
            Itemsets::all_of(&[1, 2].map(Column), 3),
            Err(RequestError::Empty)
        );
        assert_eq!(
            Itemsets::all_of(&[1, 2].map(Column), 0),
            Err(RequestError::Length(0))
        );
    }

    proptest! {
        #[test]
        fn holds_exactly_the_subsets(sets in (1usize..5).prop_flat_map(|k|
            prop::collection::btree_set(prop::collection::btree_set(0u32..8, k), 1..12))) {
            let length = sets.iter().next().unwrap().len();
            let flat = sets.iter().flatten().copied().map(Column).collect();
            let index = MomentIndex::new(&Itemsets::new(length, flat, 8).unwrap());
            let mut expected = BTreeSet::new();
            for set in &sets {
                let set: Vec<Column> = set.iter().copied().map(Column).collect();
                for bits in 0..1u32 << length {
                    let t: Vec<Column> = (0..length).filter(|i| bits >> i & 1 == 1).map(|i| set[i]).collect();
                    expected.insert((length - t.len(), t));
                }
            }
            let found: Vec<(usize, Vec<Column>)> = (0..index.len()).map(|m| (index.get(m).0, index.get(m).1.to_vec())).collect();
            prop_assert_eq!(&found, &expected.into_iter().collect::<Vec<_>>());
            for (m, (_, t)) in found.iter().enumerate() {
                prop_assert_eq!(index.find(t), Some(m));
            }
            prop_assert_eq!(index.find(&[Column(8)]), None);
        }
    }
}
