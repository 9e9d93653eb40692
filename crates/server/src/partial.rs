//! What passes between a server and the workers that count in its place: parts of one program's state,
//! of one version at both ends, not of the protocol with owners.

use oboro_protocol::v1;
use prost::Message;
use std::fmt::Display;
use tonic::{Code, Status};

/// What workers are to compute of every shard that they are given.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Task {
    #[prost(message, optional, tag = "1")]
    pub(crate) question: Option<v1::CountRequest>,
    /// The moments to leave out, because the server has them: pairs of the first and the one after the last.
    #[prost(uint64, repeated, tag = "2")]
    known: Vec<u64>,
}

impl Task {
    /// The question without the moments that are not `wanted`, of which there are `moments` in all.
    pub(crate) fn new(question: v1::CountRequest, wanted: &[usize], moments: usize) -> Self {
        let starts = [0]
            .into_iter()
            .chain(wanted.iter().map(|&it| it as u64 + 1));
        let ends = wanted.iter().map(|&it| it as u64).chain([moments as u64]);
        let gaps = starts.zip(ends).filter(|(start, end)| start < end);
        Self {
            question: Some(question),
            known: gaps.flat_map(|(start, end)| [start, end]).collect(),
        }
    }

    /// The moments that are wanted, ascending.
    pub(crate) fn wanted(&self, moments: usize) -> Vec<usize> {
        let known = |moment: u64| {
            let (gaps, _) = self.known.as_chunks::<2>();
            let gap = gaps.partition_point(|[_, end]| *end <= moment);
            gaps.get(gap).is_some_and(|[start, _]| *start <= moment)
        };
        (0..moments).filter(|&it| !known(it as u64)).collect()
    }
}

/// What a worker has to say of some neighbouring shards.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Partial {
    /// All moments that were wanted of each of the shards, which stand where owners have ranges.
    #[prost(message, repeated, tag = "1")]
    pub(crate) moments: Vec<v1::Moments>,
    /// Or why there are none.
    #[prost(message, optional, tag = "2")]
    pub(crate) failure: Option<Failure>,
}

/// A count that could not be done.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Failure {
    #[prost(int32, tag = "1")]
    code: i32,
    /// For the owner.
    #[prost(string, tag = "2")]
    told: String,
    /// For the server's log.
    #[prost(string, tag = "3")]
    detail: String,
}

impl Failure {
    /// What an owner is told, and the error itself.
    pub(crate) fn new(status: &Status, error: &dyn Display) -> Self {
        Self {
            code: status.code() as i32,
            told: status.message().into(),
            detail: error.to_string(),
        }
    }

    /// Tells the log, and what an owner is told.
    pub(crate) fn log(self) -> Status {
        tracing::error!(error = self.detail, "a worker failed");
        Status::new(Code::from_i32(self.code), self.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_says_what_is_wanted() {
        for wanted in [vec![], vec![0], vec![6], vec![1, 2, 5], (0..7).collect()] {
            let task = Task::new(v1::CountRequest::default(), &wanted, 7);
            let sent = Task::decode(&task.encode_to_vec()[..]).unwrap();
            assert_eq!(sent.wanted(7), wanted);
        }
    }
}
