//! Tasks with data dependences, scheduled on several memory nodes.
//!
//! A [`Graph`] defines which task reads and produces which data, and where the data are. A [`Schedule`] assigns each
//! task to the node that has its inputs and runs those first that read the input with the most ready readers, so that
//! all of them read it while it is in the cache. The rule is that of section 4.1 of Umayabara, Imabayashi and Yamana,
//! "Speeding up secure frequent pattern mining with fully homomorphic encryption on NUMA machines" (in Japanese), with
//! the critical path, which they leave open, as the second criterion. [`run`] executes a schedule on pinned threads.

mod copies;
mod graph;
mod queue;
mod run;
mod schedule;

pub use graph::{Datum, Graph, Input, Task};
pub use queue::Order;
pub use run::{Assignment, Remote, Report, WorkerReport, run};
pub use schedule::{Claim, Counters, Schedule};
