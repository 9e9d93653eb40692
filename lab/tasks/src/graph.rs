//! Tasks and the data between them, as a question states them.
//!
//! A task names data that are there already, so that no task can wait for itself: the numbers of the
//! tasks are a topological order.

use std::ops::Deref;

/// Something that tasks read: an input of the whole, or the output of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Datum(pub(crate) u32);

impl Datum {
    /// Its place in the order in which data were added, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Something to be done once, when its inputs are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task(pub(crate) u32);

impl Task {
    /// Its place in the order in which tasks were added, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A datum that no task makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    /// The node whose memory it lies in; `None` where it lies on all, or nobody knows.
    pub home: Option<usize>,
    /// Its size.
    pub bytes: u64,
    /// Whether it is in memory, or will be said to have [arrived](crate::Schedule::arrived) later.
    pub resident: bool,
}

/// How a datum comes to be there.
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
    /// The end of its inputs among those of all tasks; they begin where those of the task before end.
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
    /// The inputs of task after task.
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

    /// Adds a task that reads `inputs`. Its weight, at least 1, is how much it counts for: with weights
    /// of 1 an input's priority is the number of ready tasks that refer to it. An input that is named
    /// twice is one input; a task without inputs gets one of its own, which has no bytes.
    ///
    /// # Panics
    /// If an input is none of this graph's data.
    pub fn task(&mut self, inputs: &[Datum], weight: u32) -> Task {
        self.add(inputs, weight, 1, None)
    }

    /// Adds a task that is done part by part, at least one, by any threads at once. Each part reads all
    /// inputs, and nothing is kept for one: where many tasks differ in their number only, this one is in
    /// their place.
    ///
    /// # Panics
    /// As [`task`](Self::task).
    pub fn task_in_parts(&mut self, inputs: &[Datum], weight: u32, parts: u32) -> Task {
        self.add(inputs, weight, parts, None)
    }

    /// Adds a task that makes a datum of `bytes` bytes, which will lie on the node that the task ran on.
    ///
    /// # Panics
    /// As [`task`](Self::task).
    pub fn task_with_output(&mut self, inputs: &[Datum], weight: u32, bytes: u64) -> (Task, Datum) {
        let output = self.datum(Origin::Made, bytes);
        (self.add(inputs, weight, 1, Some(output)), output)
    }

    /// What a task reads, ascending, each once.
    pub fn inputs(&self, task: Task) -> &[Datum] {
        let begin = match task.index() {
            0 => 0,
            index => self.tasks[index - 1].inputs_end,
        };
        &self.inputs[begin..self.tasks[task.index()].inputs_end]
    }

    /// How many tasks there are.
    pub fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// How many data there are.
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

    /// All tasks, in the order in which they were added, which is a topological one.
    pub fn tasks(&self) -> impl DoubleEndedIterator<Item = Task> + use<> {
        (0..self.tasks.len() as u32).map(Task)
    }

    /// All data, in the order in which they were added.
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

/// A graph that is complete, and what follows from it.
#[derive(Debug)]
pub(crate) struct Dag {
    graph: Graph,
    readers: Readers,
    /// For each task the weight of the heaviest path that begins with it, itself included.
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
    /// The end of a datum's readers among those of all data.
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
