//! Errors of releases.

/// Error of a release.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReleaseError {
    /// Itemset without some of its subsets.
    #[error(
        "small counts can be suppressed only where all itemsets are there, and some are missing; give all that was found, not the closed or the maximal itemsets only"
    )]
    Incomplete,
    /// Fewer transactions than the least count that is shown.
    #[error(
        "there are only {transactions} transactions, and counts below {below} are not to be shown: nothing can be released"
    )]
    Few {
        /// The number of transactions.
        transactions: u64,
        /// The least count that is shown.
        below: u64,
    },
    /// Supports that no transactions could give.
    #[error("no transactions have these supports; mine again")]
    Impossible,
    /// Supports that were rounded before.
    #[error("the supports are rounded already; suppress and round in one run, from exact ones")]
    Rounded,
    /// Least count so small that nothing is protected.
    #[error("counts below {below} cannot be suppressed; give at least {least}")]
    Least {
        /// The least count that is shown.
        below: u64,
        /// The least number allowed.
        least: u64,
    },
}
