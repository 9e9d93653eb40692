//! The memory node on which a ciphertext is created, and the cores of the threads that count it.

use oboro_arena::Topology;
use std::error::Error;
use std::io;
use std::num::NonZero;
use std::ptr::null;
use std::str::FromStr;

/// Which ciphertexts share a node.
#[derive(Clone, Copy)]
pub enum Policy {
    /// All blocks of a column.
    Item,
    /// All columns of a block: on the node whose threads count it.
    Transaction,
    /// None.
    Random,
}

impl FromStr for Policy {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "item" => Ok(Self::Item),
            "transaction" => Ok(Self::Transaction),
            "random" => Ok(Self::Random),
            _ => Err(()),
        }
    }
}

/// The available nodes and the policy.
pub struct Places {
    /// The kernel's numbers; without a policy there is one node, and memory comes from anywhere.
    numbers: Vec<u32>,
    policy: Policy,
    seats: Vec<CpuAssignment>,
}

/// The cores assigned to a thread.
#[derive(Clone)]
pub struct CpuAssignment {
    /// Counted from 0.
    pub node: usize,
    /// The node's cores; `None` if the thread may run anywhere.
    cores: Option<oboro_arena::CpuAssignment>,
}

impl CpuAssignment {
    /// Pins the calling thread to them.
    pub fn take(&self) {
        if let Some(cores) = &self.cores {
            // An unpinned thread counts as well, only with remote memory.
            let _ = cores.apply();
        }
    }
}

impl Places {
    /// The nodes of this machine, if there is a policy.
    ///
    /// # Errors
    ///
    /// Fewer threads than nodes, or a node whose memory this process may not use.
    pub fn new(threads: NonZero<usize>, policy: Option<Policy>) -> Result<Self, Box<dyn Error>> {
        let Some(policy) = policy else {
            let anywhere = CpuAssignment {
                node: 0,
                cores: None,
            };
            return Ok(Self {
                numbers: vec![0],
                policy: Policy::Transaction,
                seats: vec![anywhere; threads.get()],
            });
        };
        let topology = Topology::of_this_machine();
        let numbers: Vec<u32> = topology.nodes().iter().map(|node| node.number).collect();
        if threads.get() < numbers.len() {
            let nodes = numbers.len();
            return Err(
                format!("{threads} threads for {nodes} nodes; give {nodes} or more").into(),
            );
        }
        if numbers.len() > 1 {
            for &number in &numbers {
                prefer(Some(number)).map_err(|error| {
                    format!("cannot take memory from node {number}: {error}; allow set_mempolicy")
                })?;
            }
            prefer(None)?;
        }
        let seat = |core: oboro_arena::CpuAssignment| CpuAssignment {
            node: core.node,
            cores: Some(topology.whole_node(core)),
        };
        Ok(Self {
            numbers,
            policy,
            seats: topology.workers(threads).into_iter().map(seat).collect(),
        })
    }

    pub fn nodes(&self) -> usize {
        self.numbers.len()
    }

    /// The assignments of all threads; every node has one.
    pub fn seats(&self) -> Vec<CpuAssignment> {
        self.seats.clone()
    }

    /// Runs `work`, which creates a column of a block counted by the threads of `node`. Memory that the allocator
    /// requests from the kernel during that time comes from the node that the policy assigns.
    pub fn make<R>(&self, node: usize, column: usize, work: impl FnOnce() -> R) -> R {
        let nodes = self.numbers.len();
        if nodes == 1 {
            return work();
        }
        let home = match self.policy {
            Policy::Item => column % nodes,
            Policy::Transaction => node,
            Policy::Random => rand::random_range(0..nodes),
        };
        prefer(Some(self.numbers[home])).expect("it was allowed at the start");
        let made = work();
        prefer(None).expect("it was allowed at the start");
        made
    }
}

/// Makes the calling thread's next pages come from a node while it has free memory, then from the nearest.
fn prefer(node: Option<u32>) -> io::Result<()> {
    const WORDS: usize = 16;
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mut mask: [libc::c_ulong; WORDS] = [0; WORDS];
    if let Some(node) = node {
        let word = mask.get_mut(node as usize / BITS);
        *word.ok_or(io::ErrorKind::Unsupported)? = 1 << (node as usize % BITS);
    }
    let (mode, mask) = match node {
        Some(_) => (libc::MPOL_PREFERRED, mask.as_ptr()),
        None => (libc::MPOL_DEFAULT, null()),
    };
    // The kernel uses one bit less than specified.
    let bits = if mask.is_null() { 0 } else { WORDS * BITS + 1 };
    // SAFETY: the call reads that many bits from the mask, which outlives it, and writes nothing.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask, bits) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
