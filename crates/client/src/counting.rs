//! Local counting in cells that were already fetched. Sends no requests.

use crate::error::ClientError;
use crate::items::NumberedItems;
use crate::levels::LevelTrace;
use oboro_dataset::Dataset;
use oboro_mining::{Bitmap, Itemset, SupportCounter};
use oboro_ring::threads;
use std::num::NonZeroUsize;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// Counts itemsets in cells.
pub(crate) struct CellCounter<'a> {
    pub(crate) interrupt: &'a CancellationToken,
    pub(crate) dataset: &'a Dataset,
    pub(crate) items: &'a NumberedItems,
    pub(crate) threads: NonZeroUsize,
    pub(crate) bitmap: Bitmap,
    pub(crate) traces: Vec<LevelTrace>,
}

impl CellCounter<'_> {
    fn supports(&self, itemsets: &[Itemset]) -> Result<Vec<u64>, ClientError> {
        let share = itemsets.len().div_ceil(self.threads.get()).max(1);
        let parts = itemsets.chunks(share.min(self.uninterrupted()));
        let supports: Result<Vec<Vec<u64>>, ClientError> =
            threads::try_map(self.threads, parts, |part| {
                self.go_on()?;
                Ok(self.bitmap.supports(part).expect("the columns are here"))
            });
        Ok(supports?.concat())
    }

    /// Returns the number of itemsets to count between two checks for an interrupt: some ten milliseconds of work.
    fn uninterrupted(&self) -> usize {
        const WORDS: u64 = 1 << 25;
        let words = self.dataset.record().transactions / 64;
        usize::try_from(WORDS / words.max(1))
            .unwrap_or(1)
            .clamp(1, 1 << 16)
    }
}

impl SupportCounter for CellCounter<'_> {
    type Error = ClientError;

    fn transactions(&self) -> u64 {
        self.dataset.record().transactions
    }

    fn item_supports(&self) -> &[u64] {
        &self.items.supports
    }

    fn min_item_support(&self) -> u64 {
        self.dataset.record().min_item_support
    }

    fn column_words(&self) -> Option<usize> {
        usize::try_from(self.dataset.record().transactions / 64).ok()
    }

    fn go_on(&self) -> Result<(), ClientError> {
        if self.interrupt.is_cancelled() {
            Err(ClientError::Interrupted)
        } else {
            Ok(())
        }
    }

    fn count(&mut self, level: usize, candidates: &[Itemset]) -> Result<Vec<u64>, ClientError> {
        let begun = Instant::now();
        let supports = self.supports(candidates)?;
        self.traces.push(LevelTrace::in_cells(
            level,
            candidates.len(),
            begun.elapsed(),
        ));
        Ok(supports)
    }
}
