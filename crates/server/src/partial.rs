//! Messages between a server and its workers: internal to one version of the program, not part of the protocol with
//! owners.

use oboro_engine::Plan;
use oboro_protocol::{column_numbers, v1};
use oboro_ring::Blocks;
use prost::Message;
use std::fmt::Display;
use tonic::{Code, Status};

/// Task of a worker, computed for every shard that it is assigned.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Task {
    /// Name of the dataset.
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(uint32, tag = "2")]
    pub(crate) limbs: u32,
    /// Length of each itemset.
    #[prost(uint32, tag = "3")]
    pub(crate) length: u32,
    /// Columns of all itemsets, concatenated.
    #[prost(uint32, repeated, tag = "4")]
    pub(crate) columns: Vec<u32>,
    /// Moments to skip because the server has them: pairs of start and end.
    #[prost(uint64, repeated, tag = "5")]
    known: Vec<u64>,
    /// Runs of blocks: pairs of start and end.
    #[prost(uint64, repeated, tag = "6")]
    shards: Vec<u64>,
    /// Namespace of the dataset.
    #[prost(string, tag = "7")]
    pub(crate) namespace: String,
}

impl Task {
    /// Creates the task of a plan over shards of a dataset.
    pub(crate) fn new(namespace: &str, name: &str, plan: &Plan, shards: &[Blocks]) -> Self {
        let index = plan.index();
        let itemsets = index.rank(0).map(|moment| index.get(moment).1);
        let wanted = plan.moments().iter().map(|&it| it as u64);
        let starts = [0].into_iter().chain(wanted.clone().map(|it| it + 1));
        let ends = wanted.chain([index.len() as u64]);
        let gaps = starts.zip(ends).filter(|(start, end)| start < end);
        Self {
            namespace: namespace.into(),
            name: name.into(),
            limbs: plan.limbs() as u32,
            length: index.level() as u32,
            columns: itemsets.flat_map(column_numbers).collect(),
            known: gaps.flat_map(|(start, end)| [start, end]).collect(),
            shards: shards.iter().flat_map(|it| [it.start, it.end]).collect(),
        }
    }

    /// Returns the runs of blocks to count.
    pub(crate) fn shards(&self) -> Vec<Blocks> {
        let (shards, _) = self.shards.as_chunks::<2>();
        shards
            .iter()
            .map(|&[start, end]| Blocks { start, end })
            .collect()
    }

    /// Returns the requested moments, ascending.
    pub(crate) fn wanted(&self, moments: usize) -> Vec<usize> {
        let known = |moment: u64| {
            let (gaps, _) = self.known.as_chunks::<2>();
            let gap = gaps.partition_point(|[_, end]| *end <= moment);
            gaps.get(gap).is_some_and(|[start, _]| *start <= moment)
        };
        (0..moments).filter(|&it| !known(it as u64)).collect()
    }
}

/// Worker's result for adjacent shards.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Partial {
    /// All requested moments of each shard; the shard takes the field of an owner's range.
    #[prost(message, repeated, tag = "1")]
    pub(crate) moments: Vec<v1::Moments>,
    /// Error instead of moments.
    #[prost(message, optional, tag = "2")]
    pub(crate) failure: Option<Failure>,
}

impl Partial {
    pub(crate) fn of_moments(moments: v1::Moments) -> Self {
        Self {
            moments: vec![moments],
            failure: None,
        }
    }

    pub(crate) fn of_failure(failure: Failure) -> Self {
        Self {
            moments: Vec::new(),
            failure: Some(failure),
        }
    }
}

/// Maximum characters of a worker's message that an owner sees.
const MAX_MESSAGE_CHARS: usize = 1024;

/// Failed count.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Failure {
    #[prost(int32, tag = "1")]
    code: i32,
    /// Message for the owner.
    #[prost(string, tag = "2")]
    message: String,
    /// Message for the server's log.
    #[prost(string, tag = "3")]
    detail: String,
}

impl Failure {
    /// Creates a failure from the owner's status and the error itself.
    pub(crate) fn new(status: &Status, error: &dyn Display) -> Self {
        Self {
            code: status.code() as i32,
            message: status.message().into(),
            detail: error.to_string(),
        }
    }

    /// Logs a worker's failure and returns the owner's status.
    pub(crate) fn log(self, worker: &str) -> Status {
        tracing::error!(worker, error = self.detail, "a worker failed");
        match Code::from_i32(self.code) {
            // These would end the query as if it were complete, or without a reason.
            Code::Ok | Code::Unknown => Status::internal(format!(
                "worker {worker} reported a failure without a cause; ask again, or ask the operator to look at its log"
            )),
            code => {
                // Truncated: our messages are one sentence.
                let message: String = self.message.chars().take(MAX_MESSAGE_CHARS).collect();
                Status::new(code, message)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_protocol::columns;
    use oboro_ring::moment::{Itemsets, MomentIndex};
    use std::sync::Arc;

    #[test]
    fn a_task_says_what_is_wanted() {
        let flat = vec![0, 1, 0, 2, 1, 2];
        let itemsets = Itemsets::new(2, columns(flat.clone()), 3).unwrap();
        let index = Arc::new(MomentIndex::new(&itemsets));
        assert_eq!(index.len(), 7);
        let shards = [0..28, 28..30].map(Blocks::from);
        for wanted in [vec![], vec![0], vec![6], vec![1, 2, 5], (0..7).collect()] {
            let plan = Plan::of_moments(&index, 2, wanted.iter().copied());
            let task = Task::new("default", "rows", &plan, &shards);
            let sent = Task::decode(&task.encode_to_vec()[..]).unwrap();
            assert_eq!(sent.wanted(7), wanted);
            assert_eq!((sent.shards(), &sent.columns), (shards.to_vec(), &flat));
        }
    }

    #[test]
    fn a_failure_never_ends_a_query_well() {
        for code in [Code::Ok, Code::Unknown, Code::DataLoss] {
            let long = format!("message{}", "!".repeat(1 << 20));
            let failure = Failure::new(&Status::new(code, long), &"detail");
            let sent = Partial::of_failure(failure).encode_to_vec();
            let failure = Partial::decode(&sent[..]).unwrap().failure.unwrap();
            let status = failure.log("node 7");
            assert_ne!(status.code(), Code::Ok);
            assert!(status.message().len() <= MAX_MESSAGE_CHARS);
            let is_shown = code == Code::DataLoss;
            let expected = if is_shown { "message" } else { "node 7" };
            assert!(status.message().contains(expected), "{status}");
        }
    }
}
