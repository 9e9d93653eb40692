//! Counts of the residues that nodes read, by the node that holds them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of residues that tasks have read, by the reading node and the node that holds them.
#[derive(Debug)]
pub struct Traffic {
    nodes: usize,
    /// Bytes by holder, reader after reader.
    bytes: Box<[AtomicU64]>,
    /// Bytes that are spread evenly over all nodes, by reader.
    everywhere: Box<[AtomicU64]>,
}

impl Traffic {
    pub(crate) fn new(nodes: usize) -> Self {
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            nodes,
            bytes: zeros(nodes * nodes),
            everywhere: zeros(nodes),
        }
    }

    /// Counts `bytes` read by a task on `reader` from `home`, or from all nodes evenly.
    pub(crate) fn add(&self, reader: usize, home: Option<usize>, bytes: u64) {
        let counter = match home {
            Some(home) => &self.bytes[reader * self.nodes + home],
            None => &self.everywhere[reader],
        };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes so far, a row for each reader; evenly spread bytes are divided among the nodes.
    pub fn bytes(&self) -> Vec<Vec<u64>> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let rows = self.bytes.chunks_exact(self.nodes).zip(&self.everywhere);
        rows.map(|(row, everywhere)| {
            let share = load(everywhere) / self.nodes as u64;
            row.iter().map(|bytes| load(bytes) + share).collect()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_everywhere_is_read_from_all() {
        let traffic = Traffic::new(2);
        traffic.add(0, Some(1), 5);
        traffic.add(0, None, 20);
        traffic.add(1, Some(1), 7);
        traffic.add(1, Some(1), 1);
        assert_eq!(traffic.bytes(), [[10, 15], [0, 8]]);
    }
}
