//! Placement for genome search, which the paper leaves for the future: windows of a collection on nodes.
//!
//! A collection is searched in windows of its rows, each prepared and answered by itself. An answer reads the rows of
//! one window, and the whole encrypted query with its masks, which is far larger. So windows are placed as transactions
//! are in Table 6-3, and the query is what all nodes need, like the paper's keys: one for all, or one on each node.

use super::Arguments;
use super::nodes::Nodes;
use super::placed::scattered;
use crate::output::{Failure, Output, bytes, seconds};
use crate::{timed, trimmed_mean};
use oboro_arena::{CpuAssignment, Topology};
use oboro_client::genome::{OwnQuery, Pattern, SearchResult};
use oboro_genome::wire::Answer;
use oboro_genome::{Kind, Plan, SearchSpec};
use oboro_genome_server::{Evaluation, ExpandedQuery, Multiplicity, Rows, Window, Workspace};
use oboro_ring::Nonce;
use oboro_tasks::{Assignment, Datum, Graph, Input, Order, Remote, Schedule, run};
use parking_lot::Mutex;
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::thread;

/// A window is as large as the panel of the paper on genome search: haplotypes and sites, of two alleles each.
const HAPLOTYPES: usize = 2752;
const SITES: usize = 38;

/// Where windows are.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Windows {
    /// Dealt to the nodes in turn.
    Dealt,
    /// Where a hash says.
    Random,
    /// On the first node, as a server's that loads them with one thread and places nothing.
    FirstNode,
}

/// Where the encrypted query is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Queries {
    OnEachNode,
    OnFirstNode,
}

const PLACEMENTS: [(Windows, Queries); 6] = [
    (Windows::Dealt, Queries::OnEachNode),
    (Windows::Random, Queries::OnEachNode),
    (Windows::FirstNode, Queries::OnEachNode),
    (Windows::Dealt, Queries::OnFirstNode),
    (Windows::Random, Queries::OnFirstNode),
    (Windows::FirstNode, Queries::OnFirstNode),
];

impl Queries {
    fn name(self) -> &'static str {
        match self {
            Self::OnEachNode => "on each node",
            Self::OnFirstNode => "on first node",
        }
    }
}

impl Windows {
    fn name(self) -> &'static str {
        match self {
            Self::Dealt => "dealt",
            Self::Random => "random",
            Self::FirstNode => "first node",
        }
    }

    fn home(self, nodes: usize, window: usize) -> usize {
        match self {
            Self::Dealt => window % nodes,
            Self::Random => scattered(window, 0) % nodes,
            Self::FirstNode => 0,
        }
    }
}

/// One search of all windows.
#[derive(Serialize)]
struct Measured {
    bench: &'static str,
    windows_placed: Windows,
    queries_placed: Queries,
    run: u16,
    /// By the clock, from the first answer to the last.
    seconds: f64,
    idle_share: f64,
    /// `traffic[reader][home]`: bytes of rows, and of queries, that answers read.
    traffic: Vec<Vec<u64>>,
    remote_bytes: u64,
    remote_share: f64,
    at_home: u64,
    stolen: u64,
    stolen_needlessly: u64,
    verified: bool,
}

/// The runs of one placement.
#[derive(Serialize)]
struct Row {
    windows_placed: Windows,
    queries_placed: Queries,
    /// The mean of the runs without the shortest and the longest, and the others' bounds.
    seconds: f64,
    least_seconds: f64,
    most_seconds: f64,
    /// The most of all runs.
    remote_share: f64,
}

/// All measurements.
#[derive(Serialize)]
pub struct Figures {
    /// Whether only one node has usable memory.
    placements_coincide: bool,
    /// Whether nodes are simulated.
    logical: bool,
    nodes: usize,
    workers: usize,
    windows: usize,
    rows_per_window: usize,
    sites: usize,
    answers_per_window: u64,
    /// In memory.
    window_bytes: u64,
    query_bytes: u64,
    runs: u16,
    verified: bool,
    rows: Vec<Row>,
}

/// Searches with each placement in turn, as often as the arguments say.
pub fn measure(
    topology: &Topology,
    arguments: &Arguments,
    output: Output,
) -> Result<Figures, Failure> {
    let nodes = Nodes::of(topology, arguments.nodes.map(usize::from))?;
    let workers = nodes.workers(topology, arguments.threads.count());
    let windows = if arguments.quick { 4 } else { 16 } * nodes.numbers.len();
    let search = Search::new(windows)?;
    let mut all = Vec::new();
    for run in 1..=arguments.runs() {
        for placement in PLACEMENTS {
            let measured = search.measure(placement, &nodes, &workers, run)?;
            output.result(&measured, || measured.text())?;
            all.push(measured);
        }
    }
    let plan = search.own.plan();
    Ok(Figures {
        placements_coincide: topology.nodes().len() == 1,
        logical: nodes.logical,
        nodes: nodes.numbers.len(),
        workers: workers.len(),
        windows: search.panels.len(),
        rows_per_window: HAPLOTYPES,
        sites: SITES,
        answers_per_window: plan.answers(),
        window_bytes: Window::bytes_of(HAPLOTYPES, SITES, 1),
        query_bytes: ExpandedQuery::bytes_of(plan),
        runs: arguments.runs(),
        verified: all.iter().all(|run| run.verified),
        rows: PLACEMENTS
            .iter()
            .map(|&placement| Row::of(placement, &all))
            .collect(),
    })
}

impl Row {
    fn of((windows, queries): (Windows, Queries), all: &[Measured]) -> Self {
        let is_of =
            |run: &&Measured| (run.windows_placed, run.queries_placed) == (windows, queries);
        let runs: Vec<&Measured> = all.iter().filter(is_of).collect();
        let times = runs.iter().map(|run| run.seconds);
        Self {
            windows_placed: windows,
            queries_placed: queries,
            seconds: trimmed_mean(times.clone().collect()),
            least_seconds: times.clone().fold(f64::INFINITY, f64::min),
            most_seconds: times.fold(0.0, f64::max),
            remote_share: runs.iter().map(|run| run.remote_share).fold(0.0, f64::max),
        }
    }
}

/// A query and what it is compared with.
struct Search {
    own: OwnQuery,
    nonce: Nonce,
    /// The packed rows of each window: one word each.
    panels: Vec<Vec<u64>>,
    /// The distinct rows of each window that match.
    matching: Vec<u64>,
}

impl Search {
    /// Made-up haplotypes. The query is a row of the first window.
    fn new(windows: usize) -> Result<Self, Failure> {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut panel = || -> Vec<u64> {
            let row = |_| rng.random::<u64>() >> (u64::BITS as usize - SITES);
            (0..HAPLOTYPES).map(row).collect()
        };
        let panels: Vec<Vec<u64>> = (0..windows).map(|_| panel()).collect();
        let asked = panels[0][HAPLOTYPES / 2];
        let letters: String = (0..SITES)
            .map(|site| if asked >> site & 1 == 1 { '1' } else { '0' })
            .collect();
        let spec = SearchSpec::new(
            SITES as u32,
            2,
            HAPLOTYPES as u64,
            Kind::Match { within: 0 },
        )?;
        let nonce = Nonce(rng.random());
        let own = OwnQuery::encrypt(
            Arc::new(Plan::new(spec)?),
            &Pattern::of_alleles(&letters)?,
            &nonce,
            b"oboro bench numa",
        )?;
        let matching = panels.iter().map(|panel| u64::from(panel.contains(&asked)));
        Ok(Self {
            matching: matching.collect(),
            own,
            nonce,
            panels,
        })
    }

    fn window(&self, window: usize) -> Window {
        let rows = self.panels[window].clone();
        Window::new(Rows::new([window as u8; 32], SITES, 1, rows))
    }

    fn query(&self) -> Result<ExpandedQuery, Failure> {
        let plan = Arc::clone(self.own.plan());
        let bytes = self.own.encrypted().encode(&plan);
        Ok(ExpandedQuery::decode(plan, bytes, self.nonce)?)
    }

    fn measure(
        &self,
        (windows, queries): (Windows, Queries),
        nodes: &Nodes,
        workers: &[CpuAssignment],
        number: u16,
    ) -> Result<Measured, Failure> {
        let count = nodes.numbers.len();
        let home_of_query = |node: usize| match queries {
            Queries::OnEachNode => node,
            Queries::OnFirstNode => 0,
        };
        // Pages come from the node of the thread that first writes them.
        let expanded: Vec<Arc<ExpandedQuery>> = (0..count)
            .filter(|&node| home_of_query(node) == node)
            .map(|node| Ok(Arc::new(on(&workers[node], || self.query())?)))
            .collect::<Result<_, Failure>>()?;
        let evaluation = |window| {
            let home = windows.home(count, window);
            let query = Arc::clone(&expanded[home_of_query(home)]);
            let window = Arc::new(on(&workers[home], || self.window(window)));
            Evaluation::new(query, window, Multiplicity::Once)
        };
        let evaluations: Vec<Evaluation> = (0..self.panels.len())
            .map(evaluation)
            .collect::<Result<_, _>>()?;
        let answers = self.own.plan().answers() as usize;
        let schedule = self.schedule(windows, queries, nodes);
        let given: Vec<Mutex<Option<Answer>>> = (0..schedule.graph().task_count())
            .map(|_| Mutex::default())
            .collect();
        let (report, took) = timed(|| {
            let Ok(report) = run(&schedule, workers, Remote::<()>::InPlace, |_| {
                let mut workspace = Workspace::default();
                let (given, evaluations) = (&given, &evaluations);
                move |assignment: Assignment<'_, ()>| {
                    let number = assignment.task.index();
                    let evaluation = &evaluations[number / answers];
                    let answer = evaluation.answer((number % answers) as u64, &mut workspace);
                    *given[number].lock() = Some(answer);
                    Ok::<_, Infallible>(())
                }
            });
            report
        });
        let given: Vec<Answer> = given.into_iter().filter_map(Mutex::into_inner).collect();
        let mut verified = given.len() == schedule.graph().task_count();
        for (answers, &matching) in given.chunks(answers).zip(&self.matching) {
            let plan = self.own.plan();
            let encoded: Vec<Vec<u8>> = answers.iter().map(|it| it.encode(plan)).collect();
            verified &= self.own.read(&encoded, 1, 0)? == SearchResult::Matches(matching);
        }
        let counters = schedule.counters();
        let near: u64 = (0..count).map(|node| counters.read[node][node]).sum();
        let all: u64 = counters.read.iter().flatten().sum();
        Ok(Measured {
            bench: "numa genome",
            windows_placed: windows,
            queries_placed: queries,
            run: number,
            seconds: took.as_secs_f64(),
            idle_share: report.idle_share(),
            remote_bytes: all - near,
            remote_share: (all - near) as f64 / all as f64,
            traffic: counters.read,
            at_home: counters.at_home,
            stolen: counters.stolen,
            stolen_needlessly: counters.stolen_needlessly,
            verified,
        })
    }

    /// A task for each answer of each window: it reads its share of the rows, and a query.
    fn schedule(&self, windows: Windows, queries: Queries, nodes: &Nodes) -> Schedule {
        let count = nodes.numbers.len();
        let plan = self.own.plan();
        let mut graph = Graph::new();
        let input = |graph: &mut Graph, home, bytes| {
            graph.input(Input {
                home: Some(home),
                bytes,
                resident: true,
            })
        };
        let query_bytes = ExpandedQuery::bytes_of(plan);
        let of_node: Vec<Datum> = match queries {
            Queries::OnEachNode => (0..count)
                .map(|node| input(&mut graph, node, query_bytes))
                .collect(),
            Queries::OnFirstNode => vec![input(&mut graph, 0, query_bytes); count],
        };
        let rows = Window::bytes_of(self.panels[0].len(), SITES, 1) / plan.answers();
        for window in 0..self.panels.len() {
            let home = windows.home(count, window);
            for _ in 0..plan.answers() {
                let rows = input(&mut graph, home, rows);
                graph.task(&[rows, of_node[home]], 1);
            }
        }
        Schedule::new(graph, nodes.distances.clone(), Order::FirstInFirstOut)
    }
}

/// Runs `work` on a thread of a worker's node.
fn on<T: Send>(worker: &CpuAssignment, work: impl FnOnce() -> T + Send) -> T {
    let pinned = || {
        // A thread that cannot be moved makes what is wanted, only elsewhere.
        let _ = worker.apply();
        work()
    };
    thread::scope(|scope| scope.spawn(pinned).join())
        .expect("making rows and queries does not panic")
}

impl Measured {
    fn text(&self) -> String {
        format!(
            "genome  windows {:<10}  query {:<13}  run {}  {:>9}  {:>10} from other nodes ({:.1} %)\n",
            self.windows_placed.name(),
            self.queries_placed.name(),
            self.run,
            seconds(std::time::Duration::from_secs_f64(self.seconds)),
            bytes(self.remote_bytes),
            100.0 * self.remote_share,
        )
    }
}

impl Figures {
    pub fn verified(&self) -> bool {
        self.verified
    }
}
