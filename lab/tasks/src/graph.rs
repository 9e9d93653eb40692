//! Tasks and the data between them.
//!
//! A task can only read data that were added before it, so cycles are impossible: the numbers of the tasks are a
//! topological order.

use std::ops::Deref;

/// Something that tasks read: an external input, or the output of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Datum(pub(crate) u32);

impl Datum {
    /// Its index in the order of addition, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A unit of work that runs once, when its inputs are available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task(pub(crate) u32);

impl Task {
    /// Its index in the order of addition, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A datum that no task makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    /// The node of its memory; `None` if it is on all nodes, or unknown.
    pub home: Option<usize>,
    /// Its size.
    pub bytes: u64,
    /// Whether it is in memory, or will [arrive](crate::Schedule::arrived) later.
    pub resident: bool,
}

/// How a datum is produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Resident { home: Option<usize> },
    Arriving { home: Option<usize> },
    Made,
}

#[derive(Debug, Clone, Copy)]
struct DatumNode {
    origin: Origin,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct TaskNode {
    /// The end of its inputs in the list of all tasks' inputs; they begin at the previous task's end.
    inputs_end: usize,
    weight: u32,
    parts: u32,
    output: Option<Datum>,
}

/// A directed acyclic graph of tasks.
///
/// ```
/// use oboro_tasks::{Graph, Input};
///
/// let mut graph = Graph::new();
/// let [x, y, z] = [0, 0, 1].map(|node| {
///     graph.input(Input { home: Some(node), bytes: 16 << 10, resident: true })
/// });
/// let (_, xy) = graph.task_with_output(&[x, y], 1, 16 << 10);
/// let (last, _) = graph.task_with_output(&[xy, z], 1, 16 << 10);
/// assert_eq!(graph.inputs(last), [z, xy]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Graph {
    data: Vec<DatumNode>,
    tasks: Vec<TaskNode>,
    /// The inputs of all tasks, concatenated.
    inputs: Vec<Datum>,
}

impl Graph {
    /// The graph without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a datum that no task makes.
    pub fn input(&mut self, input: Input) -> Datum {
        let Input { home, .. } = input;
        let origin = if input.resident {
            Origin::Resident { home }
        } else {
            Origin::Arriving { home }
        };
        self.datum(origin, input.bytes)
    }

    /// Adds a task that reads `inputs`. Its weight, at least 1, determines the priority of its inputs: with weights of
    /// 1 an input's priority is the number of ready tasks that read it. Repeated inputs count once; a task without
    /// inputs gets an empty one of its own.
    ///
    /// # Panics
    /// If an input does not belong to this graph.
    pub fn task(&mut self, inputs: &[Datum], weight: u32) -> Task {
        self.add(inputs, weight, 1, None)
    }

    /// Adds a task of several parts, at least one, which any threads may run concurrently. Each part reads all inputs.
    /// Parts need no memory, so such a task can replace many tasks that differ only in their number.
    ///
    /// # Panics
    /// As [`task`](Self::task).
    pub fn task_in_parts(&mut self, inputs: &[Datum], weight: u32, parts: u32) -> Task {
        self.add(inputs, weight, parts, None)
    }

    /// Adds a task that produces a datum of `bytes` bytes, on the node that the task runs on.
    ///
    /// # Panics
    /// As [`task`](Self::task).
    pub fn task_with_output(&mut self, inputs: &[Datum], weight: u32, bytes: u64) -> (Task, Datum) {
        let output = self.datum(Origin::Made, bytes);
        (self.add(inputs, weight, 1, Some(output)), output)
    }

    /// The inputs of a task, ascending and distinct.
    pub fn inputs(&self, task: Task) -> &[Datum] {
        let begin = match task.index() {
            0 => 0,
            index => self.tasks[index - 1].inputs_end,
        };
        &self.inputs[begin..self.tasks[task.index()].inputs_end]
    }

    /// The number of tasks.
    pub fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// The number of data.
    pub fn datum_count(&self) -> usize {
        self.data.len()
    }

    /// The size of a datum.
    pub fn bytes(&self, datum: Datum) -> u64 {
        self.data[datum.index()].bytes
    }

    pub(crate) fn origin(&self, datum: Datum) -> Origin {
        self.data[datum.index()].origin
    }

    pub(crate) fn weight(&self, task: Task) -> u32 {
        self.tasks[task.index()].weight
    }

    pub(crate) fn parts(&self, task: Task) -> u32 {
        self.tasks[task.index()].parts
    }

    pub(crate) fn output(&self, task: Task) -> Option<Datum> {
        self.tasks[task.index()].output
    }

    /// All tasks in the order of addition, which is a topological one.
    pub fn tasks(&self) -> impl DoubleEndedIterator<Item = Task> + use<> {
        (0..self.tasks.len() as u32).map(Task)
    }

    /// All data in the order of addition.
    pub fn data(&self) -> impl Iterator<Item = Datum> + use<> {
        (0..self.data.len() as u32).map(Datum)
    }

    fn datum(&mut self, origin: Origin, bytes: u64) -> Datum {
        let number = u32::try_from(self.data.len()).expect("fewer than 2^32 data");
        self.data.push(DatumNode { origin, bytes });
        Datum(number)
    }

    fn add(&mut self, inputs: &[Datum], weight: u32, parts: u32, output: Option<Datum>) -> Task {
        let known = output.map_or(self.data.len(), Datum::index);
        assert!(
            inputs.iter().all(|datum| datum.index() < known),
            "a task reads data of its own graph"
        );
        let number = u32::try_from(self.tasks.len()).expect("fewer than 2^32 tasks");
        let mut inputs = inputs.to_vec();
        inputs.sort_unstable();
        inputs.dedup();
        if inputs.is_empty() {
            inputs.push(self.datum(Origin::Resident { home: None }, 0));
        }
        self.inputs.append(&mut inputs);
        self.tasks.push(TaskNode {
            inputs_end: self.inputs.len(),
            weight: weight.max(1),
            parts: parts.max(1),
            output,
        });
        Task(number)
    }
}

/// A complete graph, with derived data.
#[derive(Debug)]
pub(crate) struct Dag {
    graph: Graph,
    readers: Readers,
    /// For each task the weight of the heaviest path from it, itself included.
    critical_paths: Vec<u64>,
}

impl Dag {
    pub(crate) fn new(graph: Graph) -> Self {
        let readers = Readers::of(&graph);
        let mut critical_paths = vec![0; graph.task_count()];
        for task in graph.tasks().rev() {
            let output = graph.output(task).into_iter();
            let after = output
                .flat_map(|datum| readers.get(datum))
                .map(|reader| critical_paths[reader.index()])
                .max();
            critical_paths[task.index()] = u64::from(graph.weight(task)) + after.unwrap_or(0);
        }
        Self {
            graph,
            readers,
            critical_paths,
        }
    }

    /// The tasks that read a datum, ascending.
    pub(crate) fn readers(&self, datum: Datum) -> &[Task] {
        self.readers.get(datum)
    }

    pub(crate) fn critical_path(&self, task: Task) -> u64 {
        self.critical_paths[task.index()]
    }
}

impl Deref for Dag {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        &self.graph
    }
}

/// The tasks that read each datum.
#[derive(Debug)]
struct Readers {
    /// The end of a datum's readers in the list of all readers.
    ends: Vec<usize>,
    tasks: Vec<Task>,
}

impl Readers {
    fn of(graph: &Graph) -> Self {
        let mut ends = vec![0; graph.data.len()];
        for datum in &graph.inputs {
            ends[datum.index()] += 1;
        }
        let mut total = 0;
        for end in &mut ends {
            total += *end;
            *end = total;
        }
        let mut begins = ends.clone();
        let mut tasks = vec![Task(0); total];
        for task in graph.tasks().rev() {
            for datum in graph.inputs(task) {
                begins[datum.index()] -= 1;
                tasks[begins[datum.index()]] = task;
            }
        }
        Self { ends, tasks }
    }

    fn get(&self, datum: Datum) -> &[Task] {
        let begin = match datum.index() {
            0 => 0,
            index => self.ends[index - 1],
        };
        &self.tasks[begin..self.ends[datum.index()]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(graph: &mut Graph) -> Datum {
        graph.input(Input {
            home: None,
            bytes: 1,
            resident: true,
        })
    }

    #[test]
    fn readers_and_inputs_are_two_views_of_one_relation() {
        let mut graph = Graph::new();
        let [a, b] = [(); 2].map(|()| input(&mut graph));
        let (first, made) = graph.task_with_output(&[b, a, b], 1, 1);
        let second = graph.task(&[a], 1);
        let third = graph.task(&[], 1);
        let fourth = graph.task(&[made, a], 1);
        assert_eq!(graph.inputs(first), [a, b]);
        assert_eq!(graph.inputs(third), [Datum(3)]);
        let dag = Dag::new(graph);
        assert_eq!(dag.readers(a), [first, second, fourth]);
        assert_eq!(dag.readers(b), [first]);
        assert_eq!(dag.readers(made), [fourth]);
    }

    #[test]
    fn a_critical_path_is_the_heaviest_chain_of_tasks() {
        let mut graph = Graph::new();
        let x = input(&mut graph);
        let (_, short) = graph.task_with_output(&[x], 10, 1);
        let (_, long) = graph.task_with_output(&[x], 2, 1);
        let (_, longer) = graph.task_with_output(&[long], 9, 1);
        graph.task(&[short, longer], 5);
        assert_eq!(Dag::new(graph).critical_paths, [15, 16, 14, 5]);
    }

    #[test]
    #[should_panic(expected = "data of its own graph")]
    fn a_task_cannot_read_what_is_not_there() {
        let mut graph = Graph::new();
        let output_of_itself = Datum(0);
        graph.task_with_output(&[output_of_itself], 1, 1);
    }
}
