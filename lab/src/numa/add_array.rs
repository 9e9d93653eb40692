//! Algorithm 1 of the paper, measured on this machine.

use super::Arguments;
use super::arrays::{Arrays, Nodes, Places, sum};
use super::flush::{FLUSHES, flush};
use super::paper;
use crate::output::{Failure, Output};
use oboro_arena::Topology;
use serde::Serialize;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

/// 64-bit integers per cache line.
const LINE: usize = 8;
/// From this stride on, fewer lines are cached than the whole array has: three for each element.
const SPARSE_STRIDE: usize = 3 * LINE;

/// The location of the arrays relative to the running core.
#[derive(Clone, Copy)]
pub enum Case {
    /// C near, A and B far: the owner-computes rule.
    Ocr,
    /// All far.
    Worst,
    /// All near.
    Best,
}

/// A value for each case.
#[derive(Clone, Copy, Serialize)]
pub struct InCases<T> {
    pub ocr: T,
    pub worst: T,
    pub best: T,
}

impl<T> InCases<T> {
    fn from_fn(mut of: impl FnMut(Case) -> T) -> Self {
        Self {
            ocr: of(Case::Ocr),
            worst: of(Case::Worst),
            best: of(Case::Best),
        }
    }

    fn map<U>(&self, of: impl Fn(&T) -> U) -> InCases<U> {
        InCases {
            ocr: of(&self.ocr),
            worst: of(&self.worst),
            best: of(&self.best),
        }
    }
}

/// When A and B are flushed from caches; always before a loop.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flush {
    EachLoop,
    /// Also before each pass over the arrays, of which a loop has as many as the stride.
    EachStride,
}

/// All measurements, and the machine.
#[derive(Serialize)]
pub struct Figures {
    /// Whether only one node has usable memory.
    cases_coincide: bool,
    notes: Vec<String>,
    /// The kernel's numbers of the arrays' nodes; the core was on the node of the best case.
    nodes: InCases<Nodes>,
    pages: &'static str,
    /// As reported by the kernel, if available.
    misplaced_bytes: Option<usize>,
    paper_machine: &'static str,
    /// The rows of the paper's tables.
    tables: BTreeMap<&'static str, Vec<Row>>,
}

/// The measurements for one row of a table.
#[derive(Clone, Serialize)]
struct Row {
    table: &'static str,
    elements: usize,
    stride: usize,
    flush: Flush,
    /// Wall-clock time, mean of the loops.
    nanoseconds: InCases<u128>,
    /// The shortest loop, which other work on the machine disturbed least.
    least_nanoseconds: InCases<u128>,
    loops: InCases<u32>,
    verified: bool,
    paper: paper::Row,
}

/// Measures on a thread pinned to the first core.
pub fn measure(
    topology: &Topology,
    arguments: &Arguments,
    output: Output,
) -> Result<Figures, Failure> {
    let assignments = topology.workers(NonZero::<usize>::MIN);
    let measuring = || {
        assignments[0].apply().map_err(|error| {
            format!("cannot keep a thread on its core: {error}; allow the call sched_setaffinity")
        })?;
        Figures::measure(&Places::of(topology), arguments, output)
    };
    thread::scope(|scope| scope.spawn(measuring).join()).expect("measuring does not panic")
}

impl Figures {
    fn measure(places: &Places, arguments: &Arguments, output: Output) -> Result<Self, Failure> {
        let wanted = arguments.most_elements();
        let most = fitting(wanted, places.max_elements());
        let mut arrays = Arrays::new(places, most)?;
        let mut tables = BTreeMap::new();
        for table in &paper::TABLES {
            let mut rows = Vec::new();
            for (elements, paper) in table.rows_up_to(most) {
                let row = Row::measure(table, elements, paper, &mut arrays, arguments);
                output.result(&row, || row.text())?;
                rows.push(row);
            }
            tables.insert(table.name, rows);
        }
        Ok(Self {
            cases_coincide: places.coincide(),
            notes: notes(places, wanted, most),
            nodes: places.in_cases(),
            pages: arrays.pages(),
            misplaced_bytes: arrays.misplaced_bytes().ok(),
            paper_machine: paper::MACHINE,
            tables,
        })
    }

    pub fn verified(&self) -> bool {
        self.tables.values().flatten().all(|row| row.verified)
    }

    pub fn text(&self) -> String {
        let notes: String = self.notes.iter().map(|note| format!("{note}\n")).collect();
        format!("{notes}the paper's machine: {}\n", self.paper_machine)
    }
}

/// The largest of the paper's arrays that have at most `available` elements; the smallest in any case.
fn fitting(wanted: usize, available: usize) -> usize {
    let smaller = |&elements: &usize| Some(elements / 10).filter(|&smaller| smaller >= 1000);
    std::iter::successors(Some(wanted), smaller)
        .find(|&elements| elements <= available)
        .unwrap_or(1000)
}

/// Notes for readers of the figures.
fn notes(places: &Places, wanted: usize, most: usize) -> Vec<String> {
    let coincide = places.coincide().then(|| {
        "memory can be on one NUMA node only: the three cases coincide, and differences between them are chance".to_owned()
    });
    let left_out = (most < wanted).then(|| {
        format!(
            "arrays of more than {most} integers are left out: there is no memory free for them"
        )
    });
    let cached = (!FLUSHES).then(|| {
        "programs cannot empty this processor's caches: small arrays were read from them".to_owned()
    });
    [coincide, left_out, cached].into_iter().flatten().collect()
}

impl paper::Table {
    /// The rows with arrays of at most `most` elements. Larger ones are reduced to that; if rows become equal, the
    /// first is kept.
    fn rows_up_to(&self, most: usize) -> Vec<(usize, paper::Row)> {
        let smaller = |&row: &paper::Row| (row.elements.min(most), row);
        let mut rows: Vec<_> = self.rows.iter().map(smaller).collect();
        rows.dedup_by_key(|&mut (elements, row)| (elements, row.stride));
        rows
    }
}

impl Row {
    fn measure(
        table: &paper::Table,
        elements: usize,
        paper: paper::Row,
        arrays: &mut Arrays,
        arguments: &Arguments,
    ) -> Self {
        let (loops, patience) = (arguments.loops(), arguments.patience());
        let figures = InCases::from_fn(|case| {
            let (a, b, c) = arrays.of(case);
            let (a, b, c) = (&a[..elements], &b[..elements], &mut c[..elements]);
            c.fill(0);
            let times = add_array(a, b, c, paper.stride, table.flush, loops, patience);
            let right = (0..).zip(&*c).all(|(index, &value)| value == sum(index));
            (times, right)
        });
        Self {
            table: table.name,
            elements,
            stride: paper.stride,
            flush: table.flush,
            nanoseconds: figures.map(|(times, _)| times.mean.as_nanos()),
            least_nanoseconds: figures.map(|(times, _)| times.least.as_nanos()),
            loops: figures.map(|(times, _)| times.loops),
            verified: [figures.ocr, figures.worst, figures.best]
                .iter()
                .all(|&(_, right)| right),
            paper,
        }
    }

    fn text(&self) -> String {
        let here = self
            .nanoseconds
            .map(|&nanoseconds| nanoseconds as f64 / 1e3);
        let there = &self.paper.kilocycles;
        format!(
            "table {}  n {:>9}  s {:>5}   OCR {:>12.1} µs  worst {:>12.1} µs  best {:>12.1} µs   \
             paper (n {}): {} / {} / {} kcycles\n",
            self.table,
            self.elements,
            self.stride,
            here.ocr,
            here.worst,
            here.best,
            self.paper.elements,
            there.ocr,
            there.worst,
            there.best,
        )
    }
}

/// The times of loops.
#[derive(Clone, Copy)]
struct Times {
    mean: Duration,
    least: Duration,
    loops: u32,
}

impl Times {
    /// The times of at least one loop.
    fn of(loops: &[Duration]) -> Self {
        let count = loops.len() as u32;
        Self {
            mean: loops.iter().sum::<Duration>() / count,
            least: loops.iter().copied().min().unwrap_or_default(),
            loops: count,
        }
    }
}

/// Algorithm 1: C becomes A + B; returns the time. Runs at least one loop, and starts none after `patience`.
fn add_array(
    a: &[u64],
    b: &[u64],
    c: &mut [u64],
    stride: usize,
    when: Flush,
    loops: u16,
    patience: Duration,
) -> Times {
    let begun = Instant::now();
    let mut times: Vec<Duration> = Vec::new();
    while times.is_empty() || (times.len() < loops.into() && begun.elapsed() < patience) {
        let mut adding = Duration::ZERO;
        flush(a.iter().step_by(LINE));
        flush(b.iter().step_by(LINE));
        for first in 0..stride {
            if when == Flush::EachStride && first > 0 {
                flush_pass(a, first - 1, stride);
                flush_pass(b, first - 1, stride);
            }
            let started = Instant::now();
            add_strided(a, b, black_box(&mut *c), first, stride);
            black_box(&mut *c);
            adding += started.elapsed();
        }
        times.push(adding);
    }
    Times::of(&times)
}

#[inline(never)]
fn add_strided(a: &[u64], b: &[u64], c: &mut [u64], first: usize, stride: usize) {
    let (a, b) = (&a[..c.len()], &b[..c.len()]);
    for index in (first..c.len()).step_by(stride) {
        c[index] = a[index].wrapping_add(b[index]);
    }
}

/// Flushes what a pass over an array brought into caches: the lines that it read, and their neighbours, which the
/// processor may have prefetched.
fn flush_pass(array: &[u64], first: usize, stride: usize) {
    if stride < SPARSE_STRIDE {
        return flush(array.iter().step_by(LINE));
    }
    let read = (first..array.len()).step_by(stride);
    let lines = read.flat_map(|index| [index.wrapping_sub(LINE), index, index + LINE]);
    flush(lines.filter_map(|index| array.get(index)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stride_adds_everything() {
        let a: Vec<u64> = (0..1000).collect();
        let b: Vec<u64> = (0..1000).map(|value| u64::MAX - 3 * value).collect();
        for stride in [1, 7, 8, 24, 100, 999, 1000, 5000] {
            for when in [Flush::EachLoop, Flush::EachStride] {
                let mut c = vec![0; 1000];
                let times = add_array(&a, &b, &mut c, stride, when, 2, Duration::MAX);
                assert_eq!(times.loops, 2);
                let expected: Vec<u64> = (0..1000).map(|value| u64::MAX - 2 * value).collect();
                assert_eq!(c, expected, "{stride}");
            }
        }
    }

    #[test]
    fn without_patience_there_is_one_loop() {
        let times = add_array(&[1], &[2], &mut [0], 1, Flush::EachLoop, 10, Duration::ZERO);
        assert_eq!(times.loops, 1);
    }

    #[test]
    fn arrays_without_room_become_smaller() {
        assert_eq!(fitting(100_000_000, 100_000_000), 100_000_000);
        assert_eq!(fitting(100_000_000, 99_999_999), 10_000_000);
        assert_eq!(fitting(100_000_000, 5000), 1000);
        assert_eq!(fitting(100_000_000, 0), 1000);
    }

    #[test]
    fn tables_are_whole_or_smaller() {
        let shapes = |most| {
            paper::TABLES.each_ref().map(|table| {
                let rows = table.rows_up_to(most);
                let shape = |(elements, row): (usize, paper::Row)| (elements, row.stride);
                rows.into_iter().map(shape).collect::<Vec<_>>()
            })
        };
        let whole = shapes(100_000_000);
        assert_eq!(whole.each_ref().map(Vec::len), [6, 5, 5]);
        let strides = [1, 10, 100, 1000, 10_000];
        let [sizes, flushed, cached] = shapes(10_000);
        assert_eq!(sizes, [(1000, 1), (10_000, 1)]);
        assert_eq!(flushed, strides.map(|stride| (10_000, stride)));
        assert_eq!(cached, flushed);
    }
}
