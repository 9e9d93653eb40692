//! The states that a disk may have after a power cut.
//!
//! An operation is durable once every file or directory that it changed was synced after it. Any subset of the others
//! may have happened: a name without its file's bytes, a length without bytes, some sectors of a write, the later of
//! two operations and not the earlier. After a failed sync, the bytes that it should have written are lost: systems
//! mark them as written, and the next sync succeeds without them. Names are journalled, and the next sync writes them.

use crate::tree::{Image, Operation, Tree};
use crate::{Extent, scratch};
use parking_lot::Mutex;
use rand::rngs::ChaCha20Rng;
use rand::{Rng, SeedableRng};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tempfile::TempDir;

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;

/// Everything that happened to a [`Disk`](crate::Disk), in order.
#[derive(Debug, Clone, Default)]
pub struct Record {
    operations: Vec<Operation>,
    /// The number of operations before each acknowledgement.
    acknowledged: Vec<usize>,
}

/// What happens to operations that are not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All are lost.
    All,
    /// None is lost.
    Nothing,
    /// None is lost, except the second half of the last write.
    TornWrite,
    /// A random subset is lost; of writes, random sectors.
    Some {
        /// The seed of the choice.
        seed: u64,
    },
}

/// The moment of a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cut {
    /// The number of operations before it.
    pub operations: usize,
    /// The number of calls that had returned.
    pub acknowledged: usize,
    /// Whether another call had already changed something.
    pub under_way: bool,
}

impl Record {
    pub(crate) fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    pub(crate) fn acknowledge(&mut self) {
        self.acknowledged.push(self.operations.len());
    }

    /// The number of operations.
    pub fn operations(&self) -> usize {
        self.operations.len()
    }

    /// The moment after the given number of operations.
    pub fn cut(&self, operations: usize) -> Cut {
        let acknowledged = self.acknowledged.partition_point(|&end| end <= operations);
        let begun = match acknowledged {
            0 => 0,
            _ => self.acknowledged[acknowledged - 1],
        };
        Cut {
            operations,
            acknowledged,
            under_way: operations > begun,
        }
    }

    /// The content of the disk after a power cut at this moment.
    pub fn image(&self, operations: usize, loss: Loss) -> Image {
        let operations = &self.operations[..operations];
        let sure = sure(operations);
        let last_write = (0..operations.len())
            .rev()
            .find(|&i| !sure[i] && matches!(operations[i], Operation::Write { .. }));
        let mut chance = match loss {
            Loss::Some { seed } => Some(Chance::new(seed)),
            _ => None,
        };
        let mut tree = Tree::new();
        for (i, operation) in operations.iter().enumerate() {
            match (loss, operation) {
                _ if sure[i] => tree.apply(operation),
                (Loss::All, _) => {}
                (Loss::TornWrite, Operation::Write { node, offset, data })
                    if Some(i) == last_write =>
                {
                    let end = (offset + data.len() / 2) / SECTOR * SECTOR;
                    let data = &data[..end.saturating_sub(*offset)];
                    tree.grow(*node, offset + data.len());
                    tree.overwrite(*node, *offset, data);
                }
                (Loss::Nothing | Loss::TornWrite, _) => tree.apply(operation),
                (Loss::Some { .. }, _) => {
                    if let Some(chance) = &mut chance {
                        chance.apply(operation, &mut tree);
                    }
                }
            }
        }
        tree.image()
    }
}

/// For each operation, whether it is durable at the end.
fn sure(operations: &[Operation]) -> Vec<bool> {
    // Backwards: the names and bytes that are synced later.
    let (mut names, mut bytes) = (HashSet::new(), HashSet::new());
    let mut sure: Vec<bool> = operations
        .iter()
        .rev()
        .map(|operation| match operation {
            Operation::Enter { place, .. } | Operation::Remove { place, .. } => {
                names.contains(&place.directory)
            }
            Operation::Rename { from, to, .. } => {
                names.contains(&from.directory) && names.contains(&to.directory)
            }
            Operation::Write { node, .. } | Operation::Truncate { node, .. } => {
                bytes.contains(node)
            }
            Operation::Sync { node } => {
                names.insert(*node);
                bytes.insert(*node)
            }
            Operation::SyncFailed { node } => bytes.remove(node),
        })
        .collect();
    sure.reverse();
    sure
}

/// Chooses what is kept.
struct Chance {
    random: ChaCha20Rng,
    /// Percentage.
    kept: u64,
}

impl Chance {
    fn new(seed: u64) -> Self {
        let mut random = ChaCha20Rng::seed_from_u64(seed);
        let kept = [10, 50, 90][(random.next_u64() % 3) as usize];
        Self { random, kept }
    }

    fn keeps(&mut self) -> bool {
        self.random.next_u64() % 100 < self.kept
    }

    fn apply(&mut self, operation: &Operation, tree: &mut Tree) {
        let Operation::Write { node, offset, data } = operation else {
            if self.keeps() {
                tree.apply(operation);
            }
            return;
        };
        // The length of a file may reach the disk before its bytes do.
        if self.keeps() {
            tree.grow(*node, offset + data.len());
        }
        let mut from = 0;
        while from < data.len() {
            let to = data
                .len()
                .min((offset + from) / SECTOR * SECTOR + SECTOR - offset);
            if self.keeps() {
                tree.grow(*node, offset + to);
                tree.overwrite(*node, offset + from, &data[from..to]);
            }
            from = to;
        }
    }
}

/// Calls `check` with a directory for each state that a power cut may leave: after every operation, in several
/// variants, as set by [`Extent`]. Equal states are checked once.
///
/// # Panics
/// If `check` panics. The state is then kept, and a line on standard error names its directory.
pub fn replay(record: &Record, check: impl Fn(&Path, &Cut) + Sync) {
    let extent = Extent::wanted();
    let steps = extent.steps(record.operations() + 1, 1);
    let random = match extent {
        Extent::Sample => 2,
        Extent::All => 16,
        Extent::Only(_) => 256,
    };
    let (next, seen) = (AtomicUsize::new(0), Mutex::new(HashSet::new()));
    let work = || {
        while let Some(&step) = steps.get(next.fetch_add(1, Ordering::Relaxed)) {
            let cut = record.cut(step);
            let seeds = (0..random).map(|i| Loss::Some {
                seed: (step as u64) << 16 | i,
            });
            for loss in [Loss::All, Loss::Nothing, Loss::TornWrite]
                .into_iter()
                .chain(seeds)
            {
                let image = record.image(step, loss);
                let fresh = seen
                    .lock()
                    .insert((hash(&image), cut.acknowledged, cut.under_way));
                if fresh {
                    let state = State::new(&image, step, loss);
                    check(state.directory.path(), &cut);
                }
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

fn hash(image: &Image) -> u64 {
    let mut hasher = DefaultHasher::new();
    image.hash(&mut hasher);
    hasher.finish()
}

/// A state in a real directory, kept if its check fails.
struct State {
    directory: TempDir,
    step: usize,
    loss: Loss,
}

impl State {
    fn new(image: &Image, step: usize, loss: Loss) -> Self {
        let directory = scratch();
        image.write(directory.path());
        Self {
            directory,
            step,
            loss,
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if thread::panicking() {
            self.directory.disable_cleanup(true);
            eprintln!(
                "after {} operations and the loss of {:?}: {} shows what `check` made of it; OBORO_FAULTS={} repeats this step",
                self.step,
                self.loss,
                self.directory.path().display(),
                self.step,
            );
        }
    }
}
