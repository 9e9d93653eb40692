//! Server whose disk fails while it serves. Errors name data that is read wrongly, or not at all, and it is never
//! computed on. Data in memory or in other files is still served, and a scrub finds the damage.
#![cfg(target_os = "linux")]

use crate::common::{connect, serve, two};
use oboro_client::{Answers, ClientError, Connection, Mining, Scrubbing, upload};
use oboro_dataset::{Dataset, Shuffled, Target};
use oboro_faults::{Disk, EIO, Failure, Wear};
use oboro_format::Damage;
use oboro_input::{MinSupport, Transactions};
use oboro_mining::{AprioriError, AprioriOptions, eclat};
use oboro_results::ItemsetsDocument;
use oboro_rlwe::MasterKey;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const MAX_LEN: usize = 2;
const LIMBS: usize = 2;
const COLUMNS: usize = 4;

fn transactions() -> Transactions {
    let basket = |i: usize| {
        let items = (0..COLUMNS).filter(move |item| !(i + item).is_multiple_of(3));
        items.map(|item| item.to_string()).collect::<Vec<_>>()
    };
    Transactions::from_named((0..60).map(basket)).unwrap()
}

fn options() -> AprioriOptions {
    AprioriOptions::new(MinSupport::Fraction(0.1))
        .with_max_len(NonZeroUsize::new(MAX_LEN))
        .with_deduction(false)
}

/// Encrypts an owner's dataset under a name.
fn encrypted(directory: &Path, name: &str) -> Dataset {
    let master = MasterKey::generate().unwrap();
    let path = directory.join(name);
    let rows = Shuffled::of(transactions());
    let target = Target::New(&path);
    Dataset::create(rows, &master, target, MAX_LEN, two(), &|_, _| {
        ControlFlow::Continue(())
    })
    .unwrap()
}

/// Mines and compares with plaintext, or returns the error.
fn mine(
    connection: &Connection,
    dataset: &Dataset,
    name: &str,
    trust_server: bool,
) -> Result<(), ClientError> {
    let mining = Mining::new(dataset, name, two())
        .by(Answers::Cells)
        .trusting_server(trust_server);
    let mined = mining
        .run(options(), || Ok(connection.clone()))
        .map_err(|error| match error {
            AprioriError::Counter(error) => error,
            computed => panic!("supports of damaged data came back: {computed}"),
        })?;
    let all = transactions();
    let plaintext = eclat(&all, options().min_support, options().max_len);
    assert_eq!(
        ItemsetsDocument::new(mined.found.itemsets(), &mined.names).unwrap(),
        ItemsetsDocument::new(&plaintext, all.names()).unwrap()
    );
    if trust_server {
        dataset.reset_trust().unwrap();
    }
    Ok(())
}

/// Returns the only segment of a dataset on the server, the offset of its panels, and the stride between them.
fn segment(data: &Path, dataset: &Dataset) -> (PathBuf, usize, usize) {
    let id = dataset.bundle().manifest().dataset;
    let path = data.join(format!("segments/{id}/00000000.seg"));
    let bytes = std::fs::read(&path).unwrap();
    let header = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    // In the only block, each column has a page of sealed cells after the panels.
    let cells = COLUMNS * 4096;
    let stride = (bytes.len() - header - cells) / (LIMBS * COLUMNS);
    (path, header, stride)
}

fn damage(connection: &Connection) -> Vec<Damage> {
    let mut found = Vec::new();
    let scrubbed = connection.scrub(None, None, |told| {
        if let Scrubbing::Damage(damage) = told {
            found.push(damage);
        }
    });
    assert_eq!(scrubbed.unwrap().damaged, found.len() as u64);
    found
}

#[test]
fn what_a_disk_reads_wrongly_or_not_at_all_is_named_and_not_computed_on() {
    let (home, disk) = (tempfile::tempdir().unwrap(), Disk::new());
    let data = disk.path().join("data");
    let [worn, sound] = ["worn", "sound"].map(|name| encrypted(home.path(), name));
    {
        let server = serve(&data, 0);
        let connection = connect(&server);
        upload(&connection, worn.bundle(), "worn", &|_, _| {}).unwrap();
        upload(&connection, sound.bundle(), "sound", &|_, _| {}).unwrap();
    }
    let (path, header, stride) = segment(&data, &worn);
    for wear in [Wear::Flipped, Wear::Unreadable { errno: EIO }] {
        // The header, and the first and another byte of every panel.
        let panels = (0..LIMBS * COLUMNS).flat_map(|panel| {
            let place = Some((panel / COLUMNS, panel % COLUMNS));
            [0, 1000].map(|at| (header + panel * stride + at, place))
        });
        for (at, place) in [(99, None)].into_iter().chain(panels) {
            let server = serve(&data, 0);
            let connection = connect(&server);
            disk.wear_out(&path, at, wear);
            let refused = mine(&connection, &worn, "worn", true).unwrap_err();
            assert!(matches!(refused, ClientError::Damaged(_)), "{refused}");
            let panel = place.map_or(String::new(), |(limb, column)| {
                format!("panel (limb {limb}, column {column}) of ")
            });
            let id = worn.bundle().manifest().dataset;
            let named = format!("{panel}segment 0 of dataset {id}");
            assert!(refused.to_string().contains(&named), "{named}: {refused}");
            mine(&connection, &sound, "sound", true).unwrap();
            let found = damage(&connection);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].problem.contains(&named), "{found:?}");
            assert_eq!(found[0].name.as_deref(), Some("worn"));
            assert_eq!(found[0].path, None);
            // The disk recovers: a failed read does not count as damage.
            disk.mend();
            mine(&connection, &worn, "worn", true).unwrap();
            assert_eq!(damage(&connection), []);
        }
    }
}

#[test]
fn what_is_in_memory_outlives_the_disk() {
    let (home, disk) = (tempfile::tempdir().unwrap(), Disk::new());
    let data = disk.path().join("data");
    let dataset = encrypted(home.path(), "worn");
    let server = serve(&data, 0);
    let connection = connect(&server);
    upload(&connection, dataset.bundle(), "worn", &|_, _| {}).unwrap();
    mine(&connection, &dataset, "worn", true).unwrap();
    let (path, header, stride) = segment(&data, &dataset);
    for panel in 0..LIMBS * COLUMNS {
        disk.wear_out(&path, header + panel * stride, Wear::Flipped);
    }
    let cells = header + LIMBS * COLUMNS * stride;
    disk.wear_out(&path, cells, Wear::Flipped);
    mine(&connection, &dataset, "worn", true).unwrap();
    // Fetching cells reads from the disk.
    let refused = mine(&connection, &dataset, "worn", false).unwrap_err();
    assert!(matches!(refused, ClientError::Damaged(_)), "{refused}");
    assert_eq!(damage(&connection).len(), LIMBS * COLUMNS + 1);
}

#[test]
fn a_full_disk_refuses_the_upload_and_serves_on() {
    let (home, disk) = (tempfile::tempdir().unwrap(), Disk::new());
    let [few, more] = ["few", "more"].map(|name| encrypted(home.path(), name));
    let server = serve(&disk.path().join("data"), 0);
    let connection = connect(&server);
    upload(&connection, few.bundle(), "few", &|_, _| {}).unwrap();
    for at in [0, 1, 5] {
        disk.fail(Failure::Full { at });
        let refused = upload(&connection, more.bundle(), "more", &|_, _| {}).unwrap_err();
        let said = matches!(&refused, ClientError::Refused(text) if text.contains("disk full"));
        assert!(said, "{refused}");
        for trust_server in [true, false] {
            mine(&connection, &few, "few", trust_server).unwrap();
        }
        assert_eq!(connection.datasets().unwrap().datasets.len(), 1);
        assert_eq!(damage(&connection), []);
    }
    // The upload resumes once space is freed.
    disk.mend();
    upload(&connection, more.bundle(), "more", &|_, _| {}).unwrap();
    mine(&connection, &more, "more", true).unwrap();
}

#[test]
fn a_disk_that_turns_read_only_refuses_writes_and_serves_on() {
    let (home, disk) = (tempfile::tempdir().unwrap(), Disk::new());
    let dataset = encrypted(home.path(), "rows");
    let server = serve(&disk.path().join("data"), 0);
    let connection = connect(&server);
    upload(&connection, dataset.bundle(), "rows", &|_, _| {}).unwrap();
    // Failures before and after the change of the catalogue has begun.
    for at in 0..6 {
        disk.fail(Failure::ReadOnly { at });
        let refused = connection.delete("rows", true).unwrap_err();
        assert!(refused.to_string().contains("read-only"), "{refused}");
        for trust_server in [true, false] {
            mine(&connection, &dataset, "rows", trust_server).unwrap();
        }
        assert_eq!(connection.datasets().unwrap().datasets.len(), 1);
        assert_eq!(damage(&connection), []);
        disk.mend();
    }
    connection.delete("rows", true).unwrap();
    assert!(connection.datasets().unwrap().datasets.is_empty());
}
