//! Tasks with data dependences, on a machine of several memory nodes.
//!
//! A [`Graph`] says which task reads and makes which data, and where the data lie. A [`Schedule`] hands its
//! tasks out: to the node that has their inputs, those first that read what most ready tasks refer to, so
//! that an input is read by all of them while it is in the cache. The rule is that of section 4.1 of
//! Umayabara, Imabayashi and Yamana, "Speeding up secure frequent pattern mining with fully homomorphic
//! encryption on NUMA machines" (in Japanese), with the critical path, which they leave open, as the second
//! criterion. [`run`] executes a schedule on threads that stay on their cores.

mod copies;
mod graph;
mod queue;
mod run;
mod schedule;

pub use graph::{Datum, Graph, Input, Task};
pub use queue::Order;
pub use run::{Assignment, Remote, Report, WorkerReport, run};
pub use schedule::{Claim, Counters, Schedule};
