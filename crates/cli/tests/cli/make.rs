//! `make` on a machine that lacks something.

use crate::common::Home;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

/// Runs `make test-numa` where cargo's tests fail and all other programs are those of this machine,
/// except for QEMU, which is missing.
fn test_numa(home: &Home, options: &[&str]) -> Output {
    let programs = home.path("programs");
    fs::create_dir(&programs).unwrap();
    script(&programs.join("cargo"), "exit 1");
    for folder in env::split_paths(&env::var_os("PATH").unwrap()) {
        for program in fs::read_dir(folder).into_iter().flatten().flatten() {
            let link = programs.join(program.file_name());
            if !link.ends_with("qemu-system-x86_64") && link.symlink_metadata().is_err() {
                symlink(program.path(), link).unwrap();
            }
        }
    }
    Command::new("make")
        .args(["--directory", concat!(env!("CARGO_MANIFEST_DIR"), "/../..")])
        .args(["test-numa", "SETUP=true"])
        .args(options)
        .env("PATH", programs)
        .output()
        .unwrap()
}

fn script(path: &Path, body: &str) {
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn tests_on_four_nodes_are_skipped_without_qemu() {
    let made = test_numa(&Home::new(), &[]);
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(made.status.success(), "{said}");
    assert!(said.contains("apt-get install --no-install-recommends qemu-system-x86"));
}

#[test]
fn tests_that_fail_on_four_nodes_fail() {
    let home = Home::new();
    let machine = home.path("machine");
    script(&machine, "exit 0");
    let made = test_numa(&home, &[&format!("NUMA_VM={}", machine.display())]);
    assert!(!made.status.success());
}
