//! Each option of the command and each stored field has a row in docs/results.md.

use clap::{Command, CommandFactory};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/results.md");

/// Command and name of each option.
fn options(command: &Command, path: &str) -> Vec<(String, String)> {
    let global = ["help", "version", "json", "profile"];
    let names = command.get_arguments().filter_map(|it| it.get_long());
    let names = names.filter(|it| !global.contains(it));
    let own = names.map(|it| (path.trim_start().to_owned(), format!("--{it}")));
    let below = command.get_subcommands();
    let below = below.flat_map(|it| options(it, &format!("{path} {}", it.get_name())));
    own.chain(below).collect()
}

#[test]
fn page_of_results_has_each_option() {
    let mut command = crate::Cli::command();
    command.build();
    let mut missing = options(&command, "");
    missing.retain(|(command, option)| {
        let (of_command, alone) = (format!("`{command} {option}`"), format!("`{option}`"));
        let harmless = ["| any |".to_owned(), format!("| `{command}` |")];
        !PAGE.lines().any(|row| {
            let name = row.split(" | ").next().unwrap_or_default();
            let is_harmless = harmless.iter().any(|it| row.starts_with(it));
            name.contains(&of_command)
                || name.contains(&alone)
                || is_harmless && row.contains(&alone)
        })
    });
    assert_eq!(missing, []);
}

#[test]
fn page_of_results_has_each_stored_field() {
    let record = include_str!("../../dataset/tests/golden/owner-record-8.json");
    let itemsets = include_str!("../../../fuzz/corpus/itemsets/rules");
    for (heading, json) in [("The owner's record", record), ("A file of", itemsets)] {
        let section = PAGE.split("\n## ").find(|it| it.starts_with(heading));
        let rows = section.unwrap().lines().filter(|it| it.starts_with("| `"));
        let names = rows.filter_map(|it| it.split(" | ").next());
        let documented: BTreeSet<_> = names
            .flat_map(|it| it.split('`').skip(1).step_by(2))
            .collect();
        let stored: serde_json::Map<_, _> = serde_json::from_str(json).unwrap();
        assert_eq!(documented, stored.keys().map(String::as_str).collect());
    }
}
