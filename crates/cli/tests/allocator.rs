//! The command allocates with fcmalloc, whose options reach it through the environment.

mod common;

use common::Home;
use serde_json::Value;

#[test]
fn fcmalloc_tells_what_the_command_took() {
    let home = Home::new();
    home.set("FCMALLOC_STATS", "json:stats");
    home.done("keygen");
    let stats: Value = serde_json::from_slice(&home.read("stats")).unwrap();
    let footprint = stats["footprint"].as_u64();
    assert!(footprint.is_some_and(|bytes| bytes > 0), "{stats}");
}
