//! Files that were truncated, altered, exchanged or written by a newer Oboro are detected before anything is computed
//! on them, on the owner's side and on the server.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, flip, says};
use std::fs;
use std::path::{Path, PathBuf};

const MINE: &str = "mine rows.oboro --min-support 10% --verify rows.dat --trust-server";
/// The position of the header length in a segment (docs/formats.md, "Segment").
const HEADER_LENGTH: std::ops::Range<usize> = 12..16;

/// A file that is damaged and restored.
struct Original {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Original {
    fn new(path: PathBuf) -> Self {
        Self {
            bytes: fs::read(&path).unwrap(),
            path,
        }
    }

    /// Writes the bytes after applying `change`.
    fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.bytes.clone();
        change(&mut bytes);
        fs::write(&self.path, bytes).unwrap();
    }

    fn mend(&self) {
        fs::write(&self.path, &self.bytes).unwrap();
    }
}

/// A change to a file and phrases of the message about it.
type Damage = (fn(&mut Vec<u8>), &'static [&'static str]);

/// Possible damage of a file that begins with an eight-byte magic and a version.
const DAMAGES: &[Damage] = &[
    (|bytes| bytes.truncate(0), &["does not begin with"]),
    (|bytes| bytes.truncate(7), &["does not begin with"]),
    (|bytes| bytes.truncate(90), &[]),
    (
        |bytes| bytes[0] = b'X',
        &["does not begin with", "Check that the path is right"],
    ),
    (
        |bytes| bytes[8] += 1,
        &["newer Oboro (format version", "Install that Oboro"],
    ),
    (|bytes| bytes[8] = 0, &[]),
    (|bytes| bytes[20] ^= 1, &[]),
    (|bytes| bytes[300] ^= 1, &["altered"]),
];

/// Possible damage of a file whose length follows from its header.
const LENGTHS: &[Damage] = &[
    (
        |bytes| bytes.truncate(300),
        &["wrong length", "truncated or extended"],
    ),
    (|bytes| bytes.truncate(bytes.len() - 1), &["wrong length"]),
    (|bytes| bytes.push(0), &["wrong length"]),
];

/// Encrypts `rows.dat` into `rows.oboro`.
fn encrypted() -> Home {
    let owner = Home::with_key();
    owner.write_fimi("rows.dat", &random_baskets(500, 8, 128));
    owner.json("encrypt rows.dat --max-len 3");
    owner
}

fn first_segment(owner: &Home) -> PathBuf {
    owner.path("rows.oboro/segments/00000000.seg")
}

fn header_length(segment: &[u8]) -> usize {
    u32::from_le_bytes(segment[HEADER_LENGTH].try_into().unwrap()) as usize
}

#[test]
fn heads_of_bundles() {
    let (owner, operator) = (encrypted(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    let head = Original::new(owner.path("rows.oboro/head"));
    let commands = [
        "inspect rows.oboro",
        "upload rows.oboro",
        MINE,
        "encrypt rows.dat --append-to rows.oboro",
    ];
    for (change, phrases) in DAMAGES {
        head.damage(change);
        for command in commands {
            let message = owner.refused(command);
            says(&message, &["the head of the bundle (rows.oboro/head)"]);
            says(&message, phrases);
        }
    }
    head.damage(|bytes| bytes.push(0));
    owner.refused("inspect rows.oboro");
    for at in 0..head.bytes.len() {
        head.damage(|bytes| bytes[at] ^= 1);
        owner.refused("inspect rows.oboro");
    }
    // The complete head of another dataset: it names other segments.
    owner.json("encrypt rows.dat --out others.oboro --max-len 3");
    fs::copy(owner.path("others.oboro/head"), &head.path).unwrap();
    for command in ["inspect rows.oboro --verify", "upload rows.oboro"] {
        let message = owner.refused(command);
        says(
            &message,
            &[
                "segment 0 of dataset",
                "not the one that the manifest names",
            ],
        );
    }
    owner.json("upload rows.oboro --cancel");
    head.mend();
    owner.json("upload rows.oboro");
    owner.json(MINE);
}

#[test]
fn segments_at_the_owner() {
    let (owner, operator) = (encrypted(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    let segment = Original::new(first_segment(&owner));
    let path = "rows.oboro/segments/00000000.seg";
    for (change, phrases) in DAMAGES.iter().chain(LENGTHS) {
        segment.damage(change);
        for command in ["inspect rows.oboro --verify", "upload rows.oboro"] {
            let message = owner.refused(command);
            says(&message, &["segment 0 of dataset", path]);
            says(&message, phrases);
        }
        let message = owner.refused(&format!("inspect {path} --verify"));
        says(&message, &["segment file", path]);
        says(&message, phrases);
    }

    // A panel: detected when it is read, and by the server before it publishes.
    for (at, part) in [
        (header_length(&segment.bytes), "panel (limb 0, column 0)"),
        (segment.bytes.len() - 1, "sealed cells (column 7)"),
    ] {
        segment.damage(|bytes| bytes[at] ^= 1);
        for command in [
            "inspect rows.oboro --verify".to_owned(),
            format!("inspect {path} --verify"),
        ] {
            let message = owner.refused(&command);
            says(&message, &[part, "segment 0 of dataset", path, "altered"]);
        }
        let message = owner.refused("upload rows.oboro");
        says(
            &message,
            &[
                "segment 0 of dataset",
                "arrived damaged",
                part,
                "oboro inspect DIR --verify",
            ],
        );
        assert_eq!(owner.json("datasets").as_array().unwrap().len(), 0);
    }

    // Another dataset's, and none.
    owner.json("encrypt rows.dat --out others.oboro --max-len 3");
    fs::copy(
        owner.path("others.oboro/segments/00000000.seg"),
        &segment.path,
    )
    .unwrap();
    let message = owner.refused("upload rows.oboro");
    says(
        &message,
        &[
            "segment 0 of dataset",
            "not the one that the manifest names",
        ],
    );
    fs::remove_file(&segment.path).unwrap();
    for command in ["inspect rows.oboro --verify", "upload rows.oboro"] {
        let message = owner.refused(command);
        says(&message, &["segment 0 of dataset", path, "is missing"]);
    }

    // None of that prevents resuming with the whole file.
    segment.mend();
    let uploaded = owner.json("upload rows.oboro");
    assert_eq!(uploaded["sent_bytes"], segment.bytes.len());
    owner.json(MINE);
}

/// An owner and an operator whose server has stopped; `rows` and `others` are published there.
fn published() -> (Home, Home, Original) {
    let (owner, operator) = (encrypted(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.json("encrypt rows.dat --out others.oboro --max-len 3");
    owner.json("upload others.oboro");
    let uploaded = owner.json("upload rows.oboro");
    // Records the use of unverified answers without a request: later runs leave the owner's record unchanged.
    owner.json(&format!("{MINE} --max-len 1"));
    server.kill();
    let dataset = uploaded["dataset"].as_str().unwrap();
    let directory = format!("data/segments/{dataset}");
    let segment = Original::new(operator.find(&directory, "00000000.seg"));
    (owner, operator, segment)
}

/// Mining `rows` is refused with these phrases; `others` still works.
fn assert_not_mined(owner: &Home, operator: &Home, phrases: &[&str]) {
    let server = operator.serve("");
    owner.talk_to(server.url());
    let message = owner.refused(&format!("{MINE} --out found.json"));
    says(&message, &["the server failed", "dataset"]);
    says(&message, phrases);
    crate::common::until("the server has logged it", || {
        server.log().contains("ERROR").then_some(())
    });
    owner.json("mine others.oboro --min-support 10% --verify rows.dat");
}

#[test]
fn segments_at_the_server() {
    let (owner, operator, segment) = published();
    for (change, phrases) in DAMAGES.iter().chain(LENGTHS) {
        segment.damage(change);
        assert_not_mined(
            &owner,
            &operator,
            &[&["segment 0 of dataset"], *phrases].concat(),
        );
    }
    let header = header_length(&segment.bytes);
    // The first query reads the first panel, only the last one reads the last panel.
    for (at, panel) in [
        (header, "panel (limb 0, column 0)"),
        // Before the sealed cells of eight columns.
        (
            segment.bytes.len() - 8 * 4096 - 1,
            "panel (limb 2, column 7)",
        ),
    ] {
        segment.damage(|bytes| bytes[at] ^= 1);
        assert_not_mined(
            &owner,
            &operator,
            &[
                panel,
                "segment 0 of dataset",
                "altered",
                "Restore it from a copy",
            ],
        );
    }
    // Panels exchanged: each is intact, but in the wrong position.
    let stride = (segment.bytes.len() - header - 8 * 4096) / (3 * 8);
    segment.damage(|bytes| bytes[header..header + 2 * stride].rotate_left(stride));
    assert_not_mined(&owner, &operator, &["panel (limb 0, column", "altered"]);
    // Another dataset's segment, and none.
    fs::copy(
        owner.path("others.oboro/segments/00000000.seg"),
        &segment.path,
    )
    .unwrap();
    assert_not_mined(
        &owner,
        &operator,
        &[
            "segment 0 of dataset",
            "not the one that the manifest names",
        ],
    );
    fs::remove_file(&segment.path).unwrap();
    assert_not_mined(&owner, &operator, &["segment 0 of dataset", "is missing"]);

    segment.mend();
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.json(MINE);
}

#[test]
fn a_segment_damaged_while_it_is_served() {
    let (owner, operator, segment) = published();
    let server = operator.serve("");
    owner.talk_to(server.url());
    // The first query reads the first two limbs only; other limbs are checked when they are read.
    owner.json(&format!("{MINE} --max-len 2"));
    // The last byte before the sealed cells of eight columns.
    flip(&segment.path, segment.bytes.len() - 8 * 4096 - 1);
    let message = owner.refused(MINE);
    says(&message, &["panel (limb 2, column 7)", "altered"]);
    // Restored in place, it is usable without a restart.
    segment.mend();
    owner.json(MINE);

    // Fetched cells are read, and checked, each time.
    owner.json("trust reset rows.oboro");
    let columns = "mine rows.oboro --min-support 10% --verify rows.dat --keep-cells 0";
    owner.json(columns);
    flip(&segment.path, segment.bytes.len() - 8 * 4096);
    let message = owner.refused(columns);
    says(
        &message,
        &["the server failed", "sealed cells (column 0)", "altered"],
    );
    segment.mend();
    owner.json(columns);
}

#[test]
fn catalogues() {
    let (owner, operator, segment) = published();
    let catalogue = Original::new(operator.path("data/catalogue.sqlite"));
    let serve = "serve --data data --listen 127.0.0.1:0";
    let refused = |phrases: &[&str]| {
        let message = operator.refused(serve);
        says(&message, phrases);
        assert!(segment.path.exists());
    };
    // The offsets of user_version and application_id in SQLite's file format (section 1.3).
    catalogue.damage(|bytes| bytes[63] = 2);
    refused(&[
        "catalogue.sqlite",
        "schema version 2",
        "encrypt their data again",
    ]);
    catalogue.damage(|bytes| bytes[63] = 4);
    refused(&[
        "catalogue.sqlite",
        "schema version 4",
        "Use the Oboro that wrote it",
    ]);
    catalogue.damage(|bytes| bytes[71] ^= 1);
    refused(&[
        "catalogue.sqlite",
        "another program",
        "Choose another directory",
    ]);
    catalogue.damage(|bytes| bytes[..16].fill(b'x'));
    refused(&["catalogue", "damaged", "Check the disk and restore"]);
    catalogue.damage(|bytes| bytes.truncate(0));
    refused(&["catalogue.sqlite is missing", "Restore it from a backup"]);
    fs::remove_file(&catalogue.path).unwrap();
    refused(&["catalogue.sqlite is missing", "move the directory away"]);

    // A manifest inside it: only its own dataset is affected.
    let manifest = manifest_of(&catalogue.bytes, &owner.path("rows.oboro/head"));
    catalogue.damage(|bytes| bytes[manifest + 90] ^= 1);
    assert_not_mined(
        &owner,
        &operator,
        &["the catalogue's manifest of dataset", "altered"],
    );
    // It does not hide the others, and it can be deleted.
    let server = operator.serve("");
    owner.talk_to(server.url());
    let listed = owner.json("datasets");
    assert_eq!(listed[0]["name"], "others");
    let damaged = listed[1]["damaged"].as_str().unwrap();
    says(damaged, &["\"rows\"", "altered", "Restore it from a copy"]);
    says(
        &owner.done("datasets"),
        &["others ", "damaged: the catalogue's"],
    );
    let rows = Original::new(segment.path.clone());
    owner.json("delete rows --yes --now");
    assert_eq!(owner.json("datasets").as_array().unwrap().len(), 1);
    server.kill();

    catalogue.mend();
    fs::create_dir_all(rows.path.parent().unwrap()).unwrap();
    rows.mend();
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.json(MINE);
}

/// The offset in a catalogue of the manifest in a bundle's head.
fn manifest_of(catalogue: &[u8], head: &Path) -> usize {
    let head = fs::read(head).unwrap();
    let manifest = &head[28..28 + 92];
    let at = catalogue
        .windows(manifest.len())
        .position(|window| window == manifest);
    at.unwrap()
}

#[test]
fn columns_that_are_no_longer_frequent_are_not_read() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let mut baskets = random_baskets(500, 4, 128);
    baskets.push(vec![9]);
    owner.write_fimi("rows.dat", &baskets);
    owner.json("encrypt rows.dat --max-len 2");
    let server = operator.serve("");
    owner.talk_to(server.url());
    let uploaded = owner.json("upload rows.oboro");
    server.kill();
    let dataset = uploaded["dataset"].as_str().unwrap();
    let directory = format!("data/segments/{dataset}");
    let segment = Original::new(operator.find(&directory, "00000000.seg"));
    let header = header_length(&segment.bytes);
    let (limbs, columns) = (2, 5);
    let cells = columns * 4096;
    let stride = (segment.bytes.len() - header - cells) / (limbs * columns);
    // Pairs of the frequent four need their second limb, not that of the fifth.
    let mut refused = 0;
    for column in 0..columns {
        segment.damage(|bytes| bytes[header + (columns + column) * stride] ^= 1);
        let server = operator.serve("");
        owner.talk_to(server.url());
        let ended = owner.run(&format!("{MINE} --json"));
        match ended.code {
            Some(0) => {}
            _ => {
                let panel = format!("panel (limb 1, column {column})");
                says(&ended.stderr, &[&panel, "altered"]);
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 4);
}
