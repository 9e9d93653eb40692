//! Distances between nodes.

use crate::TopologyError;

/// Distance of each pair of nodes, and the order in which a node prefers them. The unit is the firmware's, in which a
/// node is 10 from itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distances {
    rows: Vec<Vec<u32>>,
    nearest_first: Vec<Vec<usize>>,
}

impl Distances {
    /// Takes rows as the kernel reports them: `rows[a][b]` is the distance from `a` to `b`.
    ///
    /// # Errors
    ///
    /// The numbers of rows and columns differ.
    pub fn new(rows: Vec<Vec<u32>>) -> Result<Self, TopologyError> {
        let nodes = rows.len();
        for (row, distances) in rows.iter().enumerate() {
            if distances.len() != nodes {
                return Err(TopologyError::NotSquare {
                    nodes,
                    row,
                    len: distances.len(),
                });
            }
        }
        let nearest_first = (0..nodes)
            .map(|node| {
                // Equally near nodes come in rotated order, to keep threads from all preferring the first.
                let mut others: Vec<usize> = (1..nodes).map(|step| (node + step) % nodes).collect();
                others.sort_by_key(|&other| rows[node][other]);
                std::iter::once(node).chain(others).collect()
            })
            .collect();
        Ok(Self {
            rows,
            nearest_first,
        })
    }

    /// The distances of a machine with one node.
    pub fn one_node() -> Self {
        Self {
            rows: vec![vec![10]],
            nearest_first: vec![vec![0]],
        }
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.rows.len()
    }

    /// All nodes: `node` itself, then the others from the nearest to the farthest.
    pub fn nearest_first(&self, node: usize) -> &[usize] {
        &self.nearest_first[node]
    }

    /// The distance from `a` to `b`.
    pub fn between(&self, a: usize, b: usize) -> u32 {
        self.rows[a][b]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_prefers_itself_then_the_nearest_in_turn() {
        let distances = Distances::new(vec![
            vec![10, 16, 22, 22],
            vec![16, 10, 22, 22],
            vec![22, 22, 10, 16],
            vec![22, 22, 16, 10],
        ])
        .unwrap();
        let preferred: Vec<_> = (0..4).map(|node| distances.nearest_first(node)).collect();
        assert_eq!(
            preferred,
            [[0, 1, 2, 3], [1, 0, 2, 3], [2, 3, 0, 1], [3, 2, 0, 1]]
        );
        assert_eq!((distances.between(0, 2), distances.nodes()), (22, 4));

        let equal = Distances::new(vec![vec![10; 3]; 3]).unwrap();
        let preferred: Vec<_> = (0..3).map(|node| equal.nearest_first(node)).collect();
        assert_eq!(preferred, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
    }

    #[test]
    fn one_node_is_alone() {
        let distances = Distances::one_node();
        assert_eq!(distances, Distances::new(vec![vec![10]]).unwrap());
        assert_eq!(distances.nearest_first(0), [0]);
    }

    #[test]
    fn a_distance_that_lacks_is_named() {
        let error = Distances::new(vec![vec![10, 20], vec![20]]).unwrap_err();
        assert!(error.to_string().contains("from node 1 are 1"), "{error}");
    }
}
