//! Pins threads to their cores.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;

/// Placement of one worker: its CPUs, if it is pinned, and the node whose memory is near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuAssignment {
    /// Node, as an index of [`Topology::nodes`](crate::Topology::nodes).
    pub node: usize,
    /// Hardware threads to run on; empty if the thread is not pinned.
    pub cpus: Vec<u32>,
}

impl CpuAssignment {
    /// Pins the calling thread, and threads that it will start, to these hardware threads, if any.
    ///
    /// # Errors
    ///
    /// The process may no longer use the core, or its number is too large for the kernel's call. The thread is not
    /// moved, and work continues with worse placement.
    pub fn apply(&self) -> io::Result<()> {
        if self.cpus.is_empty() {
            return Ok(());
        }
        let mut set = CpuSet::new();
        for &cpu in &self.cpus {
            let cpu = usize::try_from(cpu).ok();
            let cpu = cpu.filter(|&cpu| cpu < CpuSet::MAX_CPU);
            set.set(cpu.ok_or(io::ErrorKind::Unsupported)?);
        }
        Ok(sched_setaffinity(None, &set)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;
    use rustix::thread::sched_getaffinity;
    use std::num::NonZero;
    use std::thread;

    /// Hardware threads on which the calling thread may run.
    fn allowed_here() -> Vec<u32> {
        let set = sched_getaffinity(None).unwrap();
        (0..1024).filter(|&cpu| set.is_set(cpu as usize)).collect()
    }

    #[test]
    fn a_thread_stays_on_its_core() {
        let topology = Topology::of_this_machine();
        for assignment in topology.workers(NonZero::new(4).unwrap()) {
            let on = thread::spawn(move || {
                assignment.apply().unwrap();
                (assignment.cpus, allowed_here())
            });
            let (wanted, on) = on.join().unwrap();
            assert_eq!(on, wanted);
        }
    }

    #[test]
    fn an_assignment_without_a_core_leaves_its_thread_where_it_was() {
        let assignment = Topology::of_this_machine()
            .workers(NonZero::<usize>::MIN)
            .remove(0);
        let nowhere = CpuAssignment {
            node: 0,
            cpus: Vec::new(),
        };
        thread::spawn(move || {
            assignment.apply().unwrap();
            nowhere.apply().unwrap();
            assert_eq!(allowed_here(), assignment.cpus);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error() {
        for cpu in [1023, 1024, u32::MAX] {
            let assignment = CpuAssignment {
                node: 0,
                cpus: vec![cpu],
            };
            thread::spawn(move || assignment.apply().unwrap_err())
                .join()
                .unwrap();
        }
    }
}
