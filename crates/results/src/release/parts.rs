//! Parts into which the items of an itemset divide the transactions.

use super::error::ReleaseError;
use oboro_mining::deduction::exclude_supersets;
use oboro_mining::itemset::FrequentItemset;
use oboro_mining::prefix_tree::PrefixTree;

/// The length of the longest itemsets that are released: one of `k` items divides the transactions into `2^k` parts.
pub(super) const LONGEST: usize = 16;

pub(super) fn is_small(count: u64, below: u64) -> bool {
    (1..below).contains(&count)
}

/// Returns the sizes of the parts into which an itemset divides the transactions; `known` has its proper subsets.
pub(super) fn parts(
    known: &PrefixTree,
    frequent: &FrequentItemset,
) -> Result<Vec<i128>, ReleaseError> {
    let mut supports = vec![0; 1 << frequent.itemset.len()];
    known.subset_supports(frequent.itemset.items(), &mut supports);
    if let Some(own) = supports.last_mut() {
        *own = frequent.support.into();
    }
    exclude_supersets(&mut supports);
    if supports.iter().any(|&part| part < 0) {
        return Err(ReleaseError::Impossible);
    }
    Ok(supports)
}

pub(super) fn are_safe(parts: &[i128], below: u64) -> bool {
    let is_small = |part: &i128| *part > 0 && *part < below.into();
    !parts.iter().any(is_small)
}
