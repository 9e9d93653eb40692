//! A tile as a list of steps over chunks of slots.
//!
//! Compiling does once what every chunk of every block would otherwise repeat. It decides which products neighbouring
//! branches share and which buffers hold them, and groups prefixes and leaves into register tiles.

use oboro_ring::vector::{LEAVES, PAIRS};

/// Largest number of leaves of one step: several register tiles.
pub(crate) const LEAVES_OF_STEP: usize = 16;

/// Inner node of the trie whose children are leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Branch {
    /// All factors but the last.
    prefix: Vec<usize>,
    /// Last factors, ascending, each with the number of its sum.
    leaves: Vec<(usize, usize)>,
}

/// Operand of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// Ones: the empty product.
    One,
    /// Factor, by position.
    Factor(usize),
    /// Product, by buffer.
    Product(usize),
}

/// One step over one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// `product[out] = a·factor[b]`, reduced.
    Multiply { a: Operand, b: usize, out: usize },
    /// Adds every prefix times every leaf to its sum.
    Tile(Tile),
    /// Adds each of four factors times those after it to their sums.
    Pairs(Pairs),
}

/// Up to four prefixes, and leaves that belong to all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) prefixes: Vec<Operand>,
    /// Factors by position.
    pub(crate) leaves: Vec<usize>,
    /// Number of the sum of each prefix and leaf, prefix after prefix.
    pub(crate) sums: Vec<usize>,
}

/// Number of allocated bytes of a vector.
pub(crate) fn heap_bytes<T>(vector: &Vec<T>) -> usize {
    vector.capacity() * size_of::<T>()
}

impl Program {
    /// Number of bytes of its steps in memory.
    pub(crate) fn bytes(&self) -> usize {
        let of_step = |step: &Step| match step {
            Step::Multiply { .. } | Step::Pairs(_) => 0,
            Step::Tile(tile) => {
                heap_bytes(&tile.prefixes) + heap_bytes(&tile.leaves) + heap_bytes(&tile.sums)
            }
        };
        heap_bytes(&self.steps) + self.steps.iter().map(of_step).sum::<usize>()
    }

    /// Numbers of all sums in the order in which the tiles reach them.
    pub(crate) fn sums(&self) -> impl Iterator<Item = usize> {
        let of_step = |step| match step {
            &Step::Multiply { .. } => &[][..],
            Step::Tile(tile) => &tile.sums,
            Step::Pairs(pairs) => &pairs.sums,
        };
        self.steps.iter().flat_map(of_step).copied()
    }
}

/// Four factors by position, each multiplied with those after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pairs {
    pub(crate) factors: [usize; LEAVES],
    /// Numbers of the sums, in lexicographic order.
    pub(crate) sums: [usize; PAIRS],
}

/// Steps that add a chunk of one block to all sums.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    /// Number of buffers for products.
    pub(crate) products: usize,
}

impl Branch {
    /// Returns the branches of the trie of `paths`, which are distinct. Paths with a common prefix are neighbours: its
    /// product is computed once.
    pub(crate) fn all(paths: &[Vec<usize>]) -> Vec<Self> {
        let mut branches: Vec<Self> = Vec::new();
        for (number, path) in paths.iter().enumerate() {
            let (&last, prefix) = path.split_last().expect("itemsets have at least one item");
            match branches.last_mut().filter(|b| b.prefix == prefix) {
                Some(branch) => branch.leaves.push((last, number)),
                None => branches.push(Self {
                    prefix: prefix.to_vec(),
                    leaves: vec![(last, number)],
                }),
            }
        }
        for branch in &mut branches {
            // The power of the mask comes after the columns.
            branch.leaves.sort_unstable();
        }
        branches
    }

    /// Number of the sum of the branch's product with a factor.
    fn sum(&self, leaf: usize) -> Option<usize> {
        let at = self.leaves.binary_search_by_key(&leaf, |&(leaf, _)| leaf);
        at.ok().map(|at| self.leaves[at].1)
    }
}

impl Program {
    /// Compiles branches; up to `together` of them share their common leaves.
    pub(crate) fn new(branches: &[Branch], together: usize) -> Self {
        let mut products = Products::new(together);
        let mut steps = Vec::new();
        for group in branches.chunks(together) {
            let prefixes: Vec<Operand> = group
                .iter()
                .map(|branch| products.of(&branch.prefix, &mut steps))
                .collect();
            let mut group = group.to_vec();
            steps.extend(Pairs::among(&mut group, &prefixes).map(Step::Pairs));
            steps.extend(tiles(&group, &prefixes).into_iter().map(Step::Tile));
        }
        Self {
            steps,
            products: products.buffers(),
        }
    }
}

impl Pairs {
    /// Takes from four branches whose prefixes are single factors the leaves among these factors.
    fn among(group: &mut [Branch], prefixes: &[Operand]) -> Option<Self> {
        let factors = prefixes.iter().map(|prefix| match *prefix {
            Operand::Factor(factor) => Some(factor),
            Operand::One | Operand::Product(_) => None,
        });
        let factors: [usize; LEAVES] = factors.collect::<Option<Vec<_>>>()?.try_into().ok()?;
        if (1..LEAVES).any(|b| factors[..b].contains(&factors[b])) {
            return None;
        }
        let later = |b: usize| factors[b + 1..].iter().copied();
        let sums = group
            .iter()
            .enumerate()
            .flat_map(|(b, branch)| later(b).map(|factor| branch.sum(factor)))
            .collect::<Option<Vec<_>>>()?;
        for (b, branch) in group.iter_mut().enumerate() {
            branch
                .leaves
                .retain(|&(leaf, _)| !factors[b + 1..].contains(&leaf));
        }
        let sums = sums.try_into().expect("each factor with those after it");
        Some(Self { factors, sums })
    }
}

/// Cuts a group of branches into tiles: leaves with equal sets of branches form one.
fn tiles(group: &[Branch], prefixes: &[Operand]) -> Vec<Tile> {
    let having = |leaf: usize| -> u32 {
        let has = |b: usize| u32::from(group[b].sum(leaf).is_some());
        (0..group.len()).map(|b| has(b) << b).sum()
    };
    let mut leaves: Vec<usize> = group
        .iter()
        .flat_map(|branch| branch.leaves.iter().map(|&(leaf, _)| leaf))
        .collect();
    leaves.sort_unstable();
    leaves.dedup();
    let mut leaves: Vec<(u32, usize)> = leaves
        .into_iter()
        .flat_map(|leaf| halves(having(leaf)).map(move |branches| (branches, leaf)))
        .filter(|&(branches, _)| branches != 0)
        .collect();
    leaves.sort_unstable();
    let tile = |leaves: &[(u32, usize)]| {
        let members = (0..group.len()).filter(|b| leaves[0].0 >> b & 1 == 1);
        let sums = |b: usize| {
            leaves
                .iter()
                .filter_map(move |&(_, leaf)| group[b].sum(leaf))
        };
        Tile {
            prefixes: members.clone().map(|b| prefixes[b]).collect(),
            leaves: leaves.iter().map(|&(_, leaf)| leaf).collect(),
            sums: members.flat_map(sums).collect(),
        }
    };
    leaves
        .chunk_by(|a, b| a.0 == b.0)
        .flat_map(|alike| alike.chunks(LEAVES_OF_STEP))
        .map(tile)
        .collect()
}

/// All four branches of a group, or its first and its second pair. In the triangle where each branch has one leaf less
/// than the one before it, pairs share more than threes.
fn halves(branches: u32) -> [u32; 2] {
    match branches {
        0b1111 => [branches, 0],
        _ => [branches & 0b0011, branches & 0b1100],
    }
}

/// Contents of the product buffers as compilation proceeds.
struct Products {
    /// Number of products of one length that stay valid.
    together: usize,
    /// Prefix compiled last.
    prefix: Vec<usize>,
    /// Number of products ever made of two, three, … factors.
    made: Vec<usize>,
}

impl Products {
    fn new(together: usize) -> Self {
        Self {
            together,
            prefix: Vec::new(),
            made: Vec::new(),
        }
    }

    /// Returns the operand that holds the product of `prefix`; emits steps for the part that the previous prefix lacks.
    /// The operands of the last `together` prefixes stay valid.
    fn of(&mut self, prefix: &[usize], steps: &mut Vec<Step>) -> Operand {
        let shared = self
            .prefix
            .iter()
            .zip(prefix)
            .take_while(|(a, b)| a == b)
            .count();
        for length in 2..=prefix.len() {
            if self.made.len() < length - 1 {
                self.made.push(0);
            }
            if length > shared {
                let a = self.operand(&prefix[..length - 1]);
                self.made[length - 2] += 1;
                let Operand::Product(out) = self.operand(&prefix[..length]) else {
                    unreachable!("two factors or more are a product");
                };
                let b = prefix[length - 1];
                steps.push(Step::Multiply { a, b, out });
            }
        }
        self.prefix = prefix.to_vec();
        self.operand(prefix)
    }

    /// The operand with the product of the start of the present prefix.
    fn operand(&self, prefix: &[usize]) -> Operand {
        match *prefix {
            [] => Operand::One,
            [factor] => Operand::Factor(factor),
            _ => {
                let depth = prefix.len() - 2;
                Operand::Product(depth * self.together + self.made[depth] % self.together)
            }
        }
    }

    fn buffers(&self) -> usize {
        self.made.len() * self.together
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the terms that a program adds to each sum, as sorted factors.
    fn run(program: &Program, sums: usize) -> Vec<Vec<usize>> {
        let mut products: Vec<Vec<usize>> = vec![Vec::new(); program.products];
        let mut found: Vec<Vec<usize>> = vec![Vec::new(); sums];
        let value = |operand, products: &[Vec<usize>]| match operand {
            Operand::One => Vec::new(),
            Operand::Factor(f) => vec![f],
            Operand::Product(p) => products[p].clone(),
        };
        for step in &program.steps {
            match step {
                Step::Multiply { a, b, out } => {
                    let mut product = value(*a, &products);
                    product.push(*b);
                    products[*out] = product;
                }
                Step::Pairs(pairs) => {
                    let mut sums = pairs.sums.iter();
                    for (i, &a) in pairs.factors.iter().enumerate() {
                        for &b in &pairs.factors[i + 1..] {
                            let sum = &mut found[*sums.next().unwrap()];
                            assert!(sum.is_empty(), "a sum got two products");
                            *sum = vec![a, b];
                        }
                    }
                }
                Step::Tile(tile) => {
                    assert!((1..=LEAVES_OF_STEP).contains(&tile.leaves.len()));
                    let mut sums = tile.sums.iter();
                    for prefix in &tile.prefixes {
                        for &leaf in &tile.leaves {
                            let sum = &mut found[*sums.next().unwrap()];
                            assert!(sum.is_empty(), "a sum got two products");
                            *sum = value(*prefix, &products);
                            sum.push(leaf);
                        }
                    }
                }
            }
        }
        found
    }

    proptest! {
        #[test]
        fn every_sum_gets_its_product(
            paths in (1usize..5).prop_flat_map(|k| prop::collection::hash_set(prop::collection::vec(0usize..7, k), 1..60)),
            sorted: bool,
            together in 1usize..=4,
        ) {
            let mut paths: Vec<Vec<usize>> = paths.into_iter().collect();
            if sorted {
                paths.sort_unstable();
            }
            let program = Program::new(&Branch::all(&paths), together);
            prop_assert_eq!(run(&program, paths.len()), paths);
        }
    }

    #[test]
    fn pairs_are_tiled_without_products() {
        let paths: Vec<Vec<usize>> = (0..18)
            .flat_map(|i| (i + 1..18).map(move |j| vec![i, j]))
            .collect();
        let program = Program::new(&Branch::all(&paths), 4);
        assert_eq!(program.products, 0);
        let shape = |step: &Step| match step {
            Step::Tile(tile) => (tile.prefixes.len(), tile.leaves.len()),
            Step::Pairs(_) => (0, 0),
            Step::Multiply { .. } => unreachable!("pairs need no products"),
        };
        let shapes: Vec<_> = program.steps.iter().map(shape).collect();
        let pairs = (0, 0);
        let first = [pairs, (4, 14), pairs, (4, 10), pairs, (4, 6), pairs, (4, 2)];
        assert_eq!(shapes[..8], first);
        assert_eq!(shapes[8..], [(1, 1)]);
    }

    #[test]
    fn neighbours_share_products() {
        let paths: Vec<Vec<usize>> =
            vec![vec![0, 1, 2], vec![0, 1, 3], vec![0, 2, 3], vec![1, 2, 3]];
        let program = Program::new(&Branch::all(&paths), 1);
        let multiplications = |step: &&Step| matches!(step, Step::Multiply { .. });
        assert_eq!(program.steps.iter().filter(multiplications).count(), 3);
    }
}
