//! Placement of ciphertext on a machine with several NUMA nodes. `make test-numa` runs this on four; tests that need
//! several are skipped on a machine with one.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server, says, until};
use oboro_arena::{CpuAssignment, Topology};
use serde_json::Value;
use std::fs;
use std::num::NonZero;
use std::thread;

const MINE: &str = "mine rows.oboro --min-support 10% --verify rows.dat --trust-server";

/// The rows of a group of blocks: the most supports that can be summed without wrapping.
const GROUP: u64 = 1 << 17;

/// An owner with a dataset of `rows` rows on a new server.
fn uploaded(rows: u64, options: &str) -> (Home, Home, Server) {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve(options);
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(rows, 3, 100));
    owner.json("encrypt rows.dat --max-len 2");
    owner.json("upload rows.oboro");
    (owner, operator, server)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// Whether the machine has several nodes; prints a message if not.
fn has_several_nodes() -> bool {
    let nodes = Topology::of_this_machine().nodes().len();
    if nodes < 2 {
        println!("skipped: this machine has one NUMA node; make test-numa has four");
    }
    nodes > 1
}

#[test]
fn placement_shows_where_a_dataset_lies() {
    let (owner, _operator, _server) = uploaded(GROUP, "");
    let before = owner.json("inspect --placement rows");
    assert_eq!(before["resident_panels"], 0);
    assert_eq!(before["pages"], 0);
    owner.json(MINE);
    let after = owner.json("inspect --placement rows");
    assert!(number(&after["resident_panels"]) > 0);
    assert!(number(&after["resident_panels"]) <= number(&after["panels"]));
    let of_nodes = after["nodes"].as_array().unwrap().iter();
    let pages: u64 = of_nodes.map(|node| number(&node["pages"])).sum();
    assert_eq!(number(&after["pages"]), pages);
    assert!(pages > 0);
    let text = owner.done("inspect --placement rows");
    says(&text, &["resident panels", "misplaced share", "node "]);
}

/// The cores of this machine that these tests may use, ordered round-robin over the nodes.
fn cores() -> Vec<CpuAssignment> {
    let topology = Topology::of_this_machine();
    let cores = topology.nodes().iter().map(|node| node.cores.len()).sum();
    topology.workers(NonZero::new(cores).unwrap())
}

/// Waits until the affinity of a server's counting threads is these sets of processors, one per thread.
fn are_kept(server: &Server, mut expected: Vec<Vec<u32>>) {
    expected.sort();
    let tasks = format!("/proc/{}/task", server.id());
    until(&format!("threads that count keep to {expected:?}"), || {
        let mut kept: Vec<Vec<u32>> = fs::read_dir(&tasks)
            .unwrap()
            .filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok())
            .filter(|status| status.starts_with("Name:\tcount-"))
            .map(|status| allowed(&status))
            .collect();
        kept.sort();
        (kept == expected).then_some(())
    });
}

/// The processors in the status of a thread.
fn allowed(status: &str) -> Vec<u32> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let ranges = list.unwrap().trim().split(',');
    let number = |text: &str| text.parse::<u32>().unwrap();
    ranges
        .flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            number(first)..=number(last)
        })
        .collect()
}

#[test]
fn each_thread_has_a_core_of_its_own_as_long_as_there_are_any() {
    let cores: Vec<_> = cores().into_iter().map(|core| core.cpus).collect();
    for threads in [cores.len(), cores.len() + 1] {
        let operator = Home::new();
        let server = operator.serve(&format!("--pin core --threads {threads}"));
        let assignments = cores.iter().cycle().take(threads);
        are_kept(&server, assignments.cloned().collect());
    }
}

#[test]
fn a_server_that_is_allowed_one_core_counts_there_and_places_nothing() {
    let core = cores().pop().unwrap();
    let allowed = thread::spawn(move || {
        // Child processes inherit this thread's affinity.
        core.apply().unwrap();
        for options in ["--threads 2", "--threads 2 --pin core"] {
            let (owner, _operator, server) = uploaded(100, options);
            are_kept(&server, vec![core.cpus.clone(); 2]);
            owner.json(MINE);
            let report = owner.json("inspect --placement rows");
            assert_eq!(report["policy"], Value::Null, "{report}");
        }
    });
    allowed.join().unwrap();
}

#[test]
fn what_is_not_there_is_nowhere() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.refuses("inspect --placement nothing => nothing");
    owner.misuses("inspect --placement nothing --verify => --verify\ninspect => PATH");
}

#[test]
fn panels_lie_where_they_belong_and_results_are_right() {
    if !has_several_nodes() {
        return;
    }
    let nodes = Topology::of_this_machine().nodes().len();
    // The second one streams, with memory for everything.
    for options in ["", "--memory 400MiB --moment-cache 0 --max-queries 1"] {
        let (owner, _operator, _server) = uploaded((nodes as u64 + 1) * GROUP, options);
        owner.json(MINE);
        let report = owner.json("inspect --placement rows");
        println!("{report}");
        assert_eq!(report["policy"], "transaction");
        assert!(
            report["misplaced_share"].as_f64().unwrap() <= 0.01,
            "{report}"
        );
        let intended: Vec<u64> = report["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| number(&node["intended_pages"]))
            .collect();
        assert_eq!(intended.len(), nodes, "{report}");
        assert!(intended.iter().all(|&pages| pages > 0), "{report}");
    }
}
