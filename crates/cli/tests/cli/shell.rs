//! What shells and `man` know of the command, and settings that the environment has for every command.

use crate::common::{Home, says};
use std::collections::BTreeSet;
use std::fs;

/// The commands, as `oboro help` lists them.
fn commands(owner: &Home) -> BTreeSet<String> {
    let help = owner.done("help");
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        // Continued descriptions are indented further.
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = listed.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_shell_gets_a_script_that_knows_all_commands() {
    let owner = Home::new();
    let commands = commands(&owner);
    assert!(commands.len() > 20, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = owner.done(&format!("completions {shell}"));
        for command in &commands {
            let mut words = script.split(|c: char| !(c.is_alphanumeric() || c == '-'));
            assert!(words.any(|word| word == command), "{shell}: {command}");
        }
        says(&script, &["min-support"]);
    }
    owner.misused("completions tcsh");
}

#[test]
fn every_command_has_a_manual_page() {
    let owner = Home::new();
    fs::create_dir(owner.path("man1")).unwrap();
    owner.done("man man1");
    for command in commands(&owner) {
        let page = owner.read(&format!("man1/oboro-{command}.1"));
        says(&String::from_utf8(page).unwrap(), &[".TH", "SYNOPSIS"]);
    }
    let page = String::from_utf8(owner.read("man1/oboro-genome-find.1")).unwrap();
    says(&page.replace('\\', ""), &["NAME", "OBORO_TOKEN_FILE"]);
    says(
        &owner.refused("man nowhere"),
        &["nowhere", "give a writable directory"],
    );
}

#[test]
fn the_environment_has_token_and_certificates() {
    let owner = Home::new();
    owner.set("OBORO_SERVER", "https://127.0.0.1:1");
    owner.set("OBORO_TOKEN_FILE", "none.token");
    says(&owner.refused("datasets"), &["token file none.token"]);
    owner.unset("OBORO_TOKEN_FILE");
    owner.set("OBORO_CA", "none.pem");
    says(
        &owner.refused("datasets"),
        &["certificates in none.pem", "check the path"],
    );
    // The command line goes before the environment.
    says(
        &owner.refused("datasets --ca other.pem"),
        &["certificates in other.pem"],
    );
}
