//! Arrays near the adding core and far from it.

use super::add_array::{Case, InCases};
use crate::machine;
use oboro_arena::{Arena, ArenaBlock, ArenaError, Backing, MemoryPolicy, Pages, Topology};
use serde::Serialize;
use std::num::NonZero;

/// The node of the adding core, by its index in the topology: that of the first worker.
const RUNNING: usize = 0;

/// The nodes of A, B and C, by the kernel's numbers.
#[derive(Clone, Copy, Serialize)]
pub struct Nodes {
    a: u32,
    b: u32,
    c: u32,
}

impl Nodes {
    fn numbers(self) -> [u32; 3] {
        [self.a, self.b, self.c]
    }
}

/// The nodes for near and far arrays, if the machine has several.
pub struct Places {
    near: Nodes,
    far: Option<Nodes>,
}

impl Places {
    /// Far arrays are on up to three nodes, the nearest of all others.
    pub fn of(topology: &Topology) -> Self {
        let own = topology.nodes()[RUNNING].number;
        let mut others: Vec<u32> = Vec::new();
        for &node in topology.distances().nearest_first(RUNNING) {
            let number = topology.nodes()[node].number;
            if number != own && !others.contains(&number) {
                others.push(number);
            }
        }
        let mut in_turn = others.iter().copied().cycle();
        let mut next = || in_turn.next();
        Self {
            near: Nodes {
                a: own,
                b: own,
                c: own,
            },
            far: match (next(), next(), next()) {
                (Some(a), Some(b), Some(c)) => Some(Nodes { a, b, c }),
                _ => None,
            },
        }
    }

    /// Whether there is only one node.
    pub fn coincide(&self) -> bool {
        self.far.is_none()
    }

    pub fn in_cases(&self) -> InCases<Nodes> {
        let far = self.far.unwrap_or(self.near);
        InCases {
            ocr: Nodes {
                c: self.near.c,
                ..far
            },
            worst: far,
            best: self.near,
        }
    }

    /// The most elements per array, so that all arrays take at most three quarters of the free memory on their nodes.
    pub fn max_elements(&self) -> usize {
        let triples = [Some(self.near), self.far];
        let nodes: Vec<u32> = triples
            .into_iter()
            .flatten()
            .flat_map(Nodes::numbers)
            .collect();
        let elements = |node: &u32| {
            let arrays = nodes.iter().filter(|other| *other == node).count() as u64;
            let bytes = machine::free_bytes(*node)? / 4 * 3;
            usize::try_from(bytes / arrays / size_of::<u64>() as u64).ok()
        };
        nodes
            .iter()
            .filter_map(elements)
            .min()
            .unwrap_or(usize::MAX)
    }
}

/// A, B and C near, and also far if there are several nodes.
pub struct Arrays {
    near: [Array; 3],
    far: Option<[Array; 3]>,
}

impl Arrays {
    /// Allocates arrays of this many elements, in memory. A and B hold [`element`]s.
    pub fn new(places: &Places, elements: usize) -> Result<Self, ArenaError> {
        // With one node, a memory policy is unnecessary, and may not be permitted.
        let policy = |node| {
            if places.coincide() {
                MemoryPolicy::Inherit
            } else {
                MemoryPolicy::Bind(node)
            }
        };
        let triple = |nodes: Nodes| -> Result<[Array; 3], ArenaError> {
            let array = |node, position| Array::new(node, policy(node), elements, position);
            let [mut a, mut b, c] = [array(nodes.a, 0)?, array(nodes.b, 1)?, array(nodes.c, 2)?];
            a.fill(A_STEP);
            b.fill(B_STEP);
            Ok([a, b, c])
        };
        Ok(Self {
            near: triple(places.near)?,
            far: places.far.map(triple).transpose()?,
        })
    }

    /// A, B and C in a case.
    pub fn of(&mut self, case: Case) -> (&[u64], &[u64], &mut [u64]) {
        let [near_a, near_b, near_c] = &mut self.near;
        let (a, b, c) = match (case, &mut self.far) {
            (Case::Ocr, Some([a, b, _])) => (a, b, near_c),
            (Case::Worst, Some([a, b, c])) => (a, b, c),
            (Case::Best, _) | (_, None) => (near_a, near_b, near_c),
        };
        (
            a.block.integers(),
            b.block.integers(),
            c.block.integers_mut(),
        )
    }

    /// The page type of the first array; the kernel treats all alike.
    pub fn pages(&self) -> &'static str {
        match self.near[0].arena.pages() {
            Pages::Small => "small",
            Pages::Transparent => "transparent huge",
            Pages::Explicit => "explicit huge",
        }
    }

    /// The bytes of all arrays that are on a node other than intended.
    pub fn misplaced_bytes(&self) -> Result<usize, ArenaError> {
        let all = self.near.iter().chain(self.far.iter().flatten());
        all.map(Array::misplaced_bytes).sum()
    }
}

const A_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const B_STEP: u64 = 0x2545_f491_4f6c_dd1d;

/// The expected value of an element of C.
pub fn sum(index: u64) -> u64 {
    element(index, A_STEP).wrapping_add(element(index, B_STEP))
}

/// Sums of two differ from the initial zeros of C.
fn element(index: u64, step: u64) -> u64 {
    (index + 1).wrapping_mul(step)
}

struct Array {
    arena: Arena,
    block: ArenaBlock,
    node: u32,
}

impl Array {
    /// An array of zeros.
    fn new(
        node: u32,
        policy: MemoryPolicy,
        elements: usize,
        position: usize,
    ) -> Result<Self, ArenaError> {
        let words = 2 * elements;
        let backing = Backing {
            policy,
            ..Backing::default()
        };
        let arena = Arena::reserve(ArenaBlock::footprint(words), backing)?;
        arena.grow(ArenaBlock::footprint(words), NonZero::<usize>::MIN)?;
        let block = arena.block(words, position)?;
        Ok(Self { arena, block, node })
    }

    fn fill(&mut self, step: u64) {
        for (index, value) in (0..).zip(self.block.integers_mut()) {
            *value = element(index, step);
        }
    }

    fn misplaced_bytes(&self) -> Result<usize, ArenaError> {
        let resident = self.arena.resident_by_node()?;
        let elsewhere = resident.iter().filter(|&(&node, _)| node != self.node);
        Ok(elsewhere.map(|(_, bytes)| bytes).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_arena::Allowed;
    use std::fs;

    /// A machine with a core and memory on each node, all at equal distances.
    fn machine_of(nodes: u32) -> Topology {
        let sys = tempfile::tempdir().unwrap();
        for node in 0..nodes {
            let folder = format!("devices/system/node/node{node}");
            let folder = sys.path().join(folder);
            let distance = |other| if other == node { "10 " } else { "20 " };
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpulist"), node.to_string()).unwrap();
            fs::write(folder.join("meminfo"), "MemTotal: 64 kB").unwrap();
            fs::write(
                folder.join("distance"),
                (0..nodes).map(distance).collect::<String>(),
            )
            .unwrap();
        }
        Topology::read(sys.path(), &Allowed::cpus(0..nodes)).unwrap()
    }

    #[test]
    fn each_array_is_far_on_a_node_of_its_own_if_there_are_enough() {
        let numbers = |nodes| {
            let cases = Places::of(&machine_of(nodes)).in_cases();
            [cases.ocr, cases.worst, cases.best].map(Nodes::numbers)
        };
        assert_eq!(numbers(1), [[0, 0, 0], [0, 0, 0], [0, 0, 0]]);
        assert_eq!(numbers(2), [[1, 1, 0], [1, 1, 1], [0, 0, 0]]);
        assert_eq!(numbers(3), [[1, 2, 0], [1, 2, 1], [0, 0, 0]]);
        assert_eq!(numbers(5), [[1, 2, 0], [1, 2, 3], [0, 0, 0]]);
    }

    /// On four nodes of the emulated machine: see `make test-numa`.
    #[test]
    fn arrays_lie_on_their_nodes_and_hold_the_terms_of_sums() {
        let places = Places::of(&Topology::of_this_machine());
        let mut arrays = Arrays::new(&places, 1000).unwrap();
        for case in [Case::Ocr, Case::Worst, Case::Best] {
            let (a, b, c) = arrays.of(case);
            for (index, (a, b)) in (0..).zip(a.iter().zip(b)) {
                assert_eq!(a.wrapping_add(*b), sum(index));
                assert_ne!(sum(index), 0);
            }
            assert!(c.iter().all(|&zero| zero == 0));
        }
        assert_eq!(arrays.misplaced_bytes().unwrap(), 0);
    }
}
