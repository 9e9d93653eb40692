//! Server within the process, and interrupted calls.

use crate::common::{options, two};
use oboro_client::genome::{GenomeSearch, GenomicPosition, Pattern, Symbols, Where};
use oboro_client::{ClientError, Connection, Mining, upload};
use oboro_dataset::{Dataset, Shuffled, Target};
use oboro_genome::Kind;
use oboro_input::{MinSupport, Transactions};
use oboro_mining::{AprioriError, AprioriOptions, eclat};
use oboro_results::ItemsetsDocument;
use oboro_rlwe::MasterKey;
use oboro_server::Local;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio_util::sync::CancellationToken;

fn start(data: &Path) -> Local {
    Local::start(options(data, 0)).unwrap()
}

fn connect(server: &Local) -> Connection {
    let connector = server.connector();
    Connection::through("local", move || connector.connect()).unwrap()
}

fn transactions() -> Transactions {
    let basket = |i: usize| (0..9).filter(move |item| !(i + item).is_multiple_of(3));
    let names = |i: usize| basket(i).map(|item| item.to_string());
    Transactions::from_named((0..60).map(|i| Vec::from_iter(names(i)))).unwrap()
}

pub fn encrypted(directory: &Path) -> Dataset {
    let master = MasterKey::generate().unwrap();
    let path = directory.join("dataset");
    let rows = Shuffled::of(transactions());
    let go_on = |_, _| ControlFlow::Continue(());
    Dataset::create(rows, &master, Target::New(&path), 2, two(), &go_on).unwrap()
}

/// Mines and counts every support; `progress` is called for each message.
fn mine(
    connection: &Connection,
    dataset: &Dataset,
    trust_server: bool,
    progress: impl Fn() + Sync,
) -> Result<ItemsetsDocument, ClientError> {
    let options = AprioriOptions::new(MinSupport::Fraction(0.3))
        .with_max_len(Some(two()))
        .with_deduction(false);
    let mined = Mining::new(dataset, "dataset", two())
        .trusting_server(trust_server)
        .on_local_server(connection.is_local())
        .interrupted_by(connection.interrupt())
        .with_progress(|_, _, _| progress())
        .run(options, || Ok(connection.clone()));
    match mined {
        Ok(mined) => {
            assert_eq!(mined.found.standing(), "local");
            let itemsets = mined.found.itemsets();
            Ok(ItemsetsDocument::new(itemsets, &mined.names).unwrap())
        }
        Err(AprioriError::Counter(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

fn plaintext() -> ItemsetsDocument {
    let all = transactions();
    let found = eclat(&all, MinSupport::Fraction(0.3), Some(two()));
    ItemsetsDocument::new(&found, all.names()).unwrap()
}

#[test]
fn a_server_within_the_process_counts_and_leaves_its_data_at_rest() {
    let directory = tempfile::tempdir().unwrap();
    let (data, dataset) = (directory.path().join("store"), encrypted(directory.path()));
    let server = start(&data);
    let connection = connect(&server);
    upload(&connection, dataset.bundle(), "dataset", &|_, _| {}).unwrap();
    for trust_server in [true, false] {
        let found = mine(&connection, &dataset, trust_server, || {}).unwrap();
        assert_eq!(found, plaintext());
    }
    drop(server);
    let cut_off = connection.datasets().unwrap_err();
    assert!(matches!(cut_off, ClientError::Broken { .. }), "{cut_off}");
    // The lock on the directory is released, and everything published is present.
    let server = start(&data);
    let listing = connect(&server).datasets().unwrap();
    assert_eq!(listing.datasets[0].name, "dataset");
    drop(server);
    std::fs::remove_dir_all(&data).unwrap();
}

#[test]
fn a_stopped_server_is_not_reached() {
    let directory = tempfile::tempdir().unwrap();
    let connector = start(directory.path()).connector();
    let refused = Connection::through("local", move || connector.connect()).err();
    let said = refused.unwrap().to_string();
    assert!(said.contains("has been stopped"), "{said}");
}

/// Connects to a peer that reads everything and never answers. `interrupt` is cancelled as soon as a call arrives
/// there.
fn silent(interrupt: &CancellationToken) -> Connection {
    let (near, far) = duplex(1 << 20);
    let near = Mutex::new(Some(near));
    let connect = move || near.lock().unwrap().take().ok_or(io::ErrorKind::NotFound);
    let interrupt = interrupt.clone();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(listen(far, &interrupt));
    });
    Connection::through("silence", move || Ok(connect()?)).unwrap()
}

/// Reads HTTP/2 until the peer closes, and cancels `interrupt` when a request begins.
async fn listen(mut stream: DuplexStream, interrupt: &CancellationToken) {
    const HEADERS: u8 = 1;
    let mut preface = [0; 24];
    let mut read = stream.read_exact(&mut preface).await;
    while read.is_ok() {
        let mut frame = [0; 9];
        read = stream.read_exact(&mut frame).await;
        if read.is_ok() && frame[3] == HEADERS {
            interrupt.cancel();
        }
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]);
        let mut payload = vec![0; length as usize];
        read = read.and(stream.read_exact(&mut payload).await);
    }
}

#[test]
fn no_call_waits_for_a_silent_server_longer_than_its_caller_does() {
    let directory = tempfile::tempdir().unwrap();
    let dataset = encrypted(directory.path());
    let search = |connection: &Connection| {
        let name = "panel".to_owned();
        let place = GenomicPosition {
            chromosome: None,
            position: 1,
        };
        let search = GenomeSearch {
            pattern: Pattern::of_bases("ACGT").unwrap(),
            r#where: Where::Panel {
                name,
                place,
                decoys: oboro_client::genome::Decoys(0),
                symbols: Symbols::Bases,
                sites_digest: None,
            },
            kind: Kind::Longest,
            count: false,
        };
        connection.search(&search, |_, _| {}).map(drop)
    };
    type Call<'a> = &'a dyn Fn(&Connection) -> Result<(), ClientError>;
    let calls: [Call<'_>; 8] = [
        &|it| it.datasets().map(drop),
        &|it| it.placement("dataset").map(drop),
        &|it| it.delete("dataset", true),
        &|it| it.scrub(None, None, |_| {}).map(drop),
        &|it| it.genomes().map(drop),
        &search,
        &|it| upload(it, dataset.bundle(), "dataset", &|_, _| {}).map(drop),
        &|it| mine(it, &dataset, false, || {}).map(drop),
    ];
    for call in calls {
        let interrupt = CancellationToken::new();
        let connection = silent(&interrupt).interrupted_by(interrupt);
        let ended = call(&connection).unwrap_err();
        assert!(matches!(ended, ClientError::Interrupted), "{ended}");
    }
}

#[test]
fn an_upload_that_waits_to_try_again_is_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let dataset = encrypted(directory.path());
    let server = start(&directory.path().join("store"));
    let interrupt = CancellationToken::new();
    let (connector, token) = (server.connector(), interrupt.clone());
    let streams = AtomicUsize::new(0);
    // The first stream reaches the server, all others break; callers wait for three at most.
    let connect = move || {
        let stream = streams.fetch_add(1, Ordering::Relaxed);
        if stream == 2 {
            token.cancel();
        }
        match stream {
            0 => connector.connect(),
            _ => Ok(duplex(1).0),
        }
    };
    let connection = Connection::through("local", connect).unwrap();
    connection.datasets().unwrap();
    drop(server);
    let connection = connection.interrupted_by(interrupt);
    let ended = upload(&connection, dataset.bundle(), "dataset", &|_, _| {}).unwrap_err();
    assert!(matches!(ended, ClientError::Interrupted), "{ended}");
}

#[test]
fn what_was_interrupted_half_way_is_done_by_calling_again() {
    let directory = tempfile::tempdir().unwrap();
    let dataset = encrypted(directory.path());
    let server = start(&directory.path().join("store"));
    let connection = connect(&server);
    let interrupted = |call: &dyn Fn(&Connection, &CancellationToken) -> Option<ClientError>| {
        let interrupt = CancellationToken::new();
        let ended = call(&connection.interrupted_by(interrupt.clone()), &interrupt);
        assert!(matches!(ended, Some(ClientError::Interrupted)), "{ended:?}");
    };
    interrupted(&|it, interrupt| {
        upload(it, dataset.bundle(), "dataset", &|_, _| interrupt.cancel()).err()
    });
    upload(&connection, dataset.bundle(), "dataset", &|_, _| {}).unwrap();
    for trust_server in [true, false] {
        interrupted(&|it, interrupt| mine(it, &dataset, trust_server, || interrupt.cancel()).err());
        let found = mine(&connection, &dataset, trust_server, || {}).unwrap();
        assert_eq!(found, plaintext());
    }
    interrupted(&|it, interrupt| it.scrub(None, None, |_| interrupt.cancel()).err());
}
