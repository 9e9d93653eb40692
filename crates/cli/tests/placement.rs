//! Where a server keeps ciphertext on a machine with several NUMA nodes. `make test-numa` runs this on
//! four; what needs several is skipped on a machine with one.

mod common;

use common::plaintext::random_baskets;
use common::{Home, Server, says};
use oboro_machine::Topology;
use serde_json::Value;

const MINE: &str = "mine rows.oboro --min-support 10% --verify rows.dat --answers moments";

/// An owner with a dataset of some groups of blocks on a server of its own.
fn uploaded(groups: u64, options: &str) -> (Home, Home, Server) {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve(options);
    owner.talk_to(server.url());
    // At most 2^17 supports are summed before they would wrap.
    owner.write_fimi("rows.dat", &random_baskets(groups << 17, 3, 100));
    owner.json("encrypt rows.dat --max-len 2");
    owner.json("upload rows.oboro");
    (owner, operator, server)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// The machine has several nodes; otherwise a sentence says that the test is skipped.
fn has_several_nodes() -> bool {
    let nodes = Topology::of_this_machine().nodes().len();
    if nodes < 2 {
        println!("skipped: this machine has one NUMA node; make test-numa has four");
    }
    nodes > 1
}

#[test]
fn an_operator_is_told_where_a_dataset_lies() {
    let (owner, _operator, _server) = uploaded(1, "");
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
    let told = owner.done("inspect --placement rows");
    says(&told, &["resident panels", "misplaced share", "node "]);
}

#[test]
fn what_is_not_there_is_nowhere() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    let message = owner.refused("inspect --placement nothing");
    says(&message, &["nothing"]);
    let message = owner.misused("inspect --placement nothing --verify");
    says(&message, &["--verify"]);
    let message = owner.misused("inspect");
    says(&message, &["PATH"]);
}

#[test]
fn a_policy_that_is_none_is_refused() {
    let operator = Home::new();
    for given in ["nearby", "rows=", "=item,random"] {
        let message = operator.misused(&format!("serve --data store --placement {given}"));
        says(&message, &["transaction", "item", "random", "interleave"]);
    }
    let message = operator
        .refused("serve --data store --placement item --placement random --listen 127.0.0.1:0");
    says(&message, &["--placement", "NAME=POLICY"]);
}

#[test]
fn every_policy_puts_panels_where_they_belong_and_changes_no_result() {
    if !has_several_nodes() {
        return;
    }
    let nodes = Topology::of_this_machine().nodes().len();
    for policy in ["transaction", "item", "random", "interleave"] {
        let options = format!("--placement random --placement rows={policy}");
        let (owner, _operator, _server) = uploaded(nodes as u64 + 1, &options);
        owner.json(MINE);
        let report = owner.json("inspect --placement rows");
        println!("{report}");
        assert_eq!(report["policy"], policy);
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
