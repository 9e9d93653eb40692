//! Disks on which one operation fails, or that are full or read-only from one operation on.
//!
//! In each case the affected call says what to do, and nothing published is lost or altered. Once the disk works again,
//! the call succeeds when repeated, and what it then promises survives a power cut.

use super::script::{Owner, Promised, SCRIPT, Server, Step, check_survivors};
use crate::StoreError;
use oboro_faults::{Disk, EIO, ENOSPC, Extent, Failure, Loss, scratch};
use oboro_format::ErrorKind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Stride of the failing operations in a sample.
const STRIDE: usize = 7;

#[test]
fn an_operation_that_fails_costs_one_call() {
    at_every_operation(|at| Failure::Once { at, errno: EIO });
}

#[test]
fn an_operation_without_space_costs_one_call() {
    at_every_operation(|at| Failure::Once { at, errno: ENOSPC });
}

#[test]
fn a_disk_that_is_full_costs_nothing_once_there_is_space() {
    at_every_operation(|at| Failure::Full { at });
}

#[test]
fn a_disk_that_is_read_only_answers_what_was_asked_before_and_is_written_again() {
    at_every_operation(|at| Failure::ReadOnly { at });
}

#[test]
fn a_full_disk_can_be_emptied() {
    let (owner, disk) = (Owner::new(), Disk::new());
    let mut server = Server::new(&owner, disk.path());
    for step in [
        Step::Open,
        Step::Upload("a", 1),
        Step::Upload("b", 1),
        Step::Send("c", 1, 18_000),
    ] {
        server.run(step).unwrap();
    }
    disk.fail(Failure::Full { at: 0 });
    let error = server.run(Step::Upload("c", 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    // A full disk does not keep a server from starting.
    for step in [
        Step::Open,
        Step::Delete("a"),
        Step::Cancel("c"),
        Step::Delete("b"),
    ] {
        server
            .run(step)
            .unwrap_or_else(|error| panic!("{step:?}: {error}"));
    }
    let record = disk.record();
    let left = scratch();
    record
        .image(record.operations(), Loss::All)
        .write(left.path());
    let promised = Promised {
        published: BTreeMap::new(),
        deleted: BTreeSet::from(["a", "b"]),
    };
    check_survivors(&owner, left.path(), &[&promised], false);
}

fn at_every_operation(failure: impl Fn(usize) -> Failure + Sync) {
    let owner = Owner::new();
    let operations = {
        let disk = Disk::new();
        let mut server = Server::new(&owner, disk.path());
        SCRIPT.iter().for_each(|&step| server.run(step).unwrap());
        disk.attempts()
    };
    let steps = Extent::wanted().steps(operations, STRIDE);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(&at) = steps.get(next.fetch_add(1, Ordering::Relaxed)) {
            run_with(&owner, failure(at));
        }
    };
    thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        for worker in workers {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

/// Runs the script, repeating the step that fails.
fn run_with(owner: &Owner, failure: Failure) {
    let disk = Disk::new();
    let mut server = Server::new(owner, disk.path());
    disk.fail(failure);
    let promised = Promised::by_steps();
    for (done, &step) in SCRIPT.iter().enumerate() {
        let Err(error) = server.run(step) else {
            continue;
        };
        let context = format!("{failure:?} in step {done}, {step:?}: {error}");
        assert_says_what_to_do(&error, &context);
        if let Failure::ReadOnly { .. } = failure {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{context}");
            server.assert_one_of(&promised[done..done + 2], &context);
        }
        disk.mend();
        server.assert_one_of(&promised[done..done + 2], &context);
        repeat(&mut server, step, &context);
        server.assert_one_of(&promised[done + 1..done + 2], &context);
        // The call has returned: its effect must last.
        let record = disk.record();
        let left = scratch();
        record
            .image(record.operations(), Loss::All)
            .write(left.path());
        check_survivors(owner, left.path(), &[&promised[done + 1]], false);
    }
    server.assert_one_of(&promised[SCRIPT.len()..], &format!("{failure:?}"));
}

fn assert_says_what_to_do(error: &StoreError, context: &str) {
    let text = error.to_string();
    let remedy = [
        "Free some space and try again",
        "Check the",
        "repair it or mount it writable",
        "Send the segment again",
    ];
    assert!(
        remedy.iter().any(|remedy| text.contains(remedy)),
        "{context}"
    );
    assert!(!text.contains("mistake"), "{context}");
}

fn repeat(server: &mut Server<'_>, step: Step, context: &str) {
    match (step, server.run(step)) {
        (_, Ok(())) => {}
        // It had taken effect, only its own report failed.
        (Step::Cancel(_) | Step::Delete(_), Err(StoreError::NoDataset { .. })) => {}
        (_, Err(error)) => panic!("{context}; then {error}"),
    }
}
