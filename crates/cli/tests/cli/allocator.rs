//! The command allocates with fcmalloc; its options are passed in the environment.

use crate::common::Home;
use crate::common::plaintext::random_baskets;
use serde_json::Value;

#[test]
fn fcmalloc_reports_what_the_command_took() {
    let home = Home::new();
    home.set("FCMALLOC_STATS", "json:stats");
    home.done("keygen");
    assert!(figure(&home, "footprint") > 0);
}

#[test]
fn the_server_gives_the_memory_of_an_upload_back() {
    let (owner, operator) = (Home::with_key(), Home::new());
    owner.write_fimi("rows.dat", &random_baskets(3_000, 10, 60));
    owner.done("encrypt rows.dat");
    operator.set("FCMALLOC_STATS", "json:stats");
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.done("upload rows.oboro");
    server.terminate();
    server.ended();
    assert!(figure(&operator, "released") > 0);
}

/// A figure that the process of `home` wrote when it ended.
fn figure(home: &Home, name: &str) -> u64 {
    let stats: Value = serde_json::from_slice(&home.read("stats")).unwrap();
    stats[name].as_u64().unwrap()
}
