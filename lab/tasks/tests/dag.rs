//! General graphs of products and sums over a prime field, computed by several threads.

use oboro_arena::{CpuAssignment, Distances, Topology};
use oboro_ring::{Modulus, Parameters, vector};
use oboro_tasks::{Assignment, Datum, Graph, Input, Order, Remote, Schedule, run};
use proptest::prelude::*;
use proptest::sample::Index;
use std::convert::Infallible;
use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const SLOTS: usize = 64;
const THREADS: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Operation {
    Product,
    Sum,
}

#[derive(Debug, Clone)]
struct Formula {
    inputs: Vec<Input>,
    /// Operands as choices among the data so far, operation, weight.
    tasks: Vec<(Vec<Index>, Operation, u32)>,
}

/// A formula as a graph: its data, each input or output a vector.
struct Program {
    graph: Graph,
    data: Vec<Datum>,
    /// The operands of each task, in the order in which they were chosen.
    operands: Vec<Vec<Datum>>,
}

fn formulas(nodes: usize) -> impl Strategy<Value = Formula> {
    let home = prop::option::weighted(0.8, 0..nodes);
    let input = (home, any::<bool>()).prop_map(|(home, resident)| Input {
        home,
        bytes: 4 * SLOTS as u64,
        resident,
    });
    let operation = prop_oneof![Just(Operation::Product), Just(Operation::Sum)];
    let task = (
        prop::collection::vec(any::<Index>(), 1..5),
        operation,
        1u32..4,
    );
    let tasks = prop::collection::vec(task, 1..60);
    (prop::collection::vec(input, 1..8), tasks)
        .prop_map(|(inputs, tasks)| Formula { inputs, tasks })
}

impl Formula {
    fn program(&self) -> Program {
        let mut graph = Graph::new();
        let mut data: Vec<_> = self
            .inputs
            .iter()
            .map(|&input| graph.input(input))
            .collect();
        let mut operands = Vec::new();
        for (choices, _, weight) in &self.tasks {
            let chosen: Vec<_> = choices.iter().map(|choice| *choice.get(&data)).collect();
            let (_, output) = graph.task_with_output(&chosen, *weight, 4 * SLOTS as u64);
            data.push(output);
            operands.push(chosen);
        }
        Program {
            graph,
            data,
            operands,
        }
    }

    /// The vector of an input, distinct for each.
    fn input(&self, q: &Modulus, index: usize) -> Vec<u32> {
        let residue = |slot| q.reduce((index as u64 + 2) * 0x9e37_79b9 + slot as u64 * 0x85eb_ca6b);
        (0..SLOTS).map(residue).collect()
    }

    fn evaluate(&self, q: &Modulus, task: usize, operands: &[&Vec<u32>]) -> Vec<u32> {
        let mut result = operands[0].clone();
        for operand in &operands[1..] {
            match self.tasks[task].1 {
                Operation::Sum => vector::add_assign(q, operand, &mut result),
                Operation::Product => {
                    let factor = result.clone();
                    vector::multiply(q, &factor, operand, &mut result);
                }
            }
        }
        result
    }

    fn sequentially(&self, q: &Modulus) -> Vec<Vec<u32>> {
        let mut vectors: Vec<_> = (0..self.inputs.len()).map(|i| self.input(q, i)).collect();
        for (task, operands) in self.program().operands.iter().enumerate() {
            let operands: Vec<_> = operands
                .iter()
                .map(|datum| &vectors[datum.index()])
                .collect();
            vectors.push(self.evaluate(q, task, &operands));
        }
        vectors
    }

    /// With threads on `nodes` nodes; late inputs arrive one after another while they run.
    fn by_threads(&self, q: &Modulus, nodes: usize, order: Order, copies: bool) -> Vec<Vec<u32>> {
        let Program {
            graph,
            data,
            operands,
        } = self.program();
        let vectors: Vec<OnceLock<Vec<u32>>> = data.iter().map(|_| OnceLock::new()).collect();
        let runs: Vec<AtomicUsize> = operands.iter().map(|_| AtomicUsize::new(0)).collect();
        let inputs = 0..self.inputs.len();
        let (resident, late): (Vec<_>, Vec<_>) = inputs.partition(|&i| self.inputs[i].resident);
        let read = |input: usize| vectors[input].set(self.input(q, input)).unwrap();
        resident.into_iter().for_each(read);
        let schedule = Schedule::new(graph, distances(nodes), order);
        let there = |datum: Datum| vectors[datum.index()].get().expect("inputs come first");
        let copy = |datum: Datum| there(datum).clone();
        let remote = if copies {
            Remote::CopyAhead(&copy)
        } else {
            Remote::InPlace
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for input in late {
                    read(input);
                    schedule.arrived(data[input]);
                }
            });
            run(&schedule, &cpu_assignments(nodes), remote, |_| {
                |assignment: Assignment<'_, Vec<u32>>| {
                    let task = assignment.task.index();
                    runs[task].fetch_add(1, Ordering::Relaxed);
                    let operand = |&datum| assignment.copy(datum).unwrap_or_else(|| there(datum));
                    let operands: Vec<_> = operands[task].iter().map(operand).collect();
                    let result = self.evaluate(q, task, &operands);
                    let output = self.inputs.len() + task;
                    vectors[output].set(result).expect("a task runs once");
                    Ok::<_, Infallible>(())
                }
            })
            .unwrap();
        });
        assert!(schedule.is_done());
        assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
        let counters = schedule.counters();
        assert_eq!(counters.at_home + counters.stolen, operands.len() as u64);
        assert_eq!(counters.stolen_needlessly, 0);
        vectors
            .into_iter()
            .map(|vector| vector.into_inner().unwrap())
            .collect()
    }
}

fn distances(nodes: usize) -> Distances {
    let row = |a: usize| (0..nodes).map(|b| 10 + 10 * a.abs_diff(b) as u32).collect();
    Distances::new((0..nodes).map(row).collect()).unwrap()
}

/// Cores of this machine, assigned to nodes that may not exist.
fn cpu_assignments(nodes: usize) -> Vec<CpuAssignment> {
    let cpu_assignments = Topology::of_this_machine().workers(NonZero::new(THREADS).unwrap());
    let dealt = |(i, cpu_assignment)| CpuAssignment {
        node: i % nodes,
        ..cpu_assignment
    };
    cpu_assignments.into_iter().enumerate().map(dealt).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn threads_compute_what_one_computes(
        (nodes, formula) in (1usize..=4).prop_flat_map(|nodes| (Just(nodes), formulas(nodes))),
    ) {
        let parameters = Parameters::new(12, 1, 114_689).unwrap();
        let q = &parameters.limb_moduli()[0];
        let expected = formula.sequentially(q);
        for order in [
            Order::MostReferenced,
            Order::MostReferencedNearby,
            Order::FirstInFirstOut,
        ] {
            for copies in [false, true] {
                prop_assert_eq!(&formula.by_threads(q, nodes, order, copies), &expected);
            }
        }
    }
}
