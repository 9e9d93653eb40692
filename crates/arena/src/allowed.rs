//! The part of the machine that this process may use.

use crate::list;
use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;
use std::thread;

/// Processors and memory nodes that a process may use, by the kernel's numbers, as left by cpusets, containers and
/// `taskset`. The memory policy of `numactl` is only a default of the process, and ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    pub(crate) cpus: BTreeSet<u32>,
    memory: Memory,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Memory {
    Anywhere,
    On(BTreeSet<u32>),
}

impl Allowed {
    /// Allows these processors, and memory on every node.
    pub fn cpus(cpus: impl IntoIterator<Item = u32>) -> Self {
        Self {
            cpus: cpus.into_iter().collect(),
            memory: Memory::Anywhere,
        }
    }

    /// Restricts memory to these nodes.
    pub fn with_memory_on(self, nodes: impl IntoIterator<Item = u32>) -> Self {
        Self {
            memory: Memory::On(nodes.into_iter().collect()),
            ..self
        }
    }

    /// Reads the limits of this process, whatever its other threads are pinned to. Limits that the kernel does not
    /// report are taken to be none.
    pub fn of_this_process() -> Self {
        let allowed = Self::cpus(cpus_of_the_first_thread());
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        match memory_nodes(&status) {
            Some(nodes) => allowed.with_memory_on(nodes),
            None => allowed,
        }
    }

    pub(crate) fn memory_on(&self, node: u32) -> bool {
        match &self.memory {
            Memory::Anywhere => true,
            Memory::On(nodes) => nodes.contains(&node),
        }
    }
}

fn cpus_of_the_first_thread() -> BTreeSet<u32> {
    let numbers = (0..).zip(0..CpuSet::MAX_CPU);
    match sched_getaffinity(Some(getpid())) {
        Ok(set) => numbers
            .filter_map(|(cpu, index)| set.is_set(index).then_some(cpu))
            .collect(),
        // The call holds fewer processors than the machine has.
        Err(_) => {
            let count = thread::available_parallelism().map_or(1, NonZero::get);
            numbers.take(count).map(|(cpu, _)| cpu).collect()
        }
    }
}

/// Parses the nodes in a process's status; `None` if it names none.
fn memory_nodes(status: &str) -> Option<BTreeSet<u32>> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix("Mems_allowed_list:"))?;
    list::parse(value).filter(|nodes| !nodes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_may_use_as_many_processors_as_the_standard_library_says() {
        // The library also counts the quota of a control group, which is not a set of processors.
        let threads = thread::available_parallelism().unwrap().get();
        assert!(Allowed::of_this_process().cpus.len() >= threads);
    }

    #[test]
    fn memory_nodes_are_read_from_the_status() {
        let nodes = |status| memory_nodes(status).map(Vec::from_iter);
        let status = "Mems_allowed:\t00000000,0000000d\nMems_allowed_list:\t0,2-3\n";
        assert_eq!(nodes(status), Some(vec![0, 2, 3]));
        assert_eq!(nodes("Mems_allowed_list:\t\n"), None);
        assert_eq!(nodes("Name:\toboro\n"), None);
    }
}
