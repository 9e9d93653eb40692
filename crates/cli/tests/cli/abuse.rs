//! What those do who want a server down, or do not care: callers without a token, tenants who send without end, tenants who
//! take nothing of what they asked for. Whatever it is, meanwhile and afterwards another owner's question is answered, and
//! memory, descriptors and log of the server stay within their bounds.
//!
//! A test makes a hundredth of its abuse, or as much as exceeds the limit that it is about; all of it with
//! `OBORO_ABUSE=full` (`make test-abuse`).

mod answers;
mod strangers;
mod uploads;

use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server};

const MIB: u64 = 1 << 20;
/// The memory that a server is given unless an abuse is about more, and what leaves most of it to nothing in particular.
const MEMORY: u64 = 192;
const LEAN: &str = "--moment-cache 0 --threads 1 --max-queries 8";
/// Descriptors that a server has besides connections: standard streams, catalogues, queues of the kernel, files of segments.
const DESCRIPTORS: usize = 96;
/// Bytes of log besides a line for each call that was begun, and the longest line.
const LOG: usize = 64 << 10;
const LINE: usize = 1 << 10;

/// How much of an abuse.
fn scaled(all: usize, least: usize) -> usize {
    match std::env::var("OBORO_ABUSE") {
        Ok(how_much) => {
            assert_eq!(how_much, "full", "OBORO_ABUSE is full or not set");
            all
        }
        Err(_) => (all / 100).max(least),
    }
}

/// An owner with a dataset, and the operator of a server with a limit on its memory.
struct Scene {
    owner: Home,
    operator: Home,
    server: Server,
    memory: u64,
}

impl Scene {
    fn new(options: &str) -> Self {
        Self::with_memory(MEMORY, options)
    }

    /// With these mebibytes of memory.
    fn with_memory(memory: u64, options: &str) -> Self {
        Self::served(memory, |operator, lean| {
            operator.serve(&format!("{lean} {options}"))
        })
    }

    /// With a server that `serve` starts with the options it is given.
    fn served(memory: u64, serve: impl FnOnce(&Home, &str) -> Server) -> Self {
        let (owner, operator) = (Home::with_key(), Home::new());
        owner.write("token", operator.token("ward"));
        let lean = format!("--tokens tokens --memory {memory}MiB {LEAN}");
        let server = serve(&operator, &lean);
        owner.talk_to(server.url());
        owner.write_fimi("rows.dat", &random_baskets(300, 6, 128));
        owner.json("encrypt rows.dat --max-len 2");
        owner.json("upload rows.oboro --token-file token");
        let scene = Self {
            owner,
            operator,
            server,
            memory,
        };
        scene.answers();
        scene
    }

    /// A tenant's token.
    fn tenant(&self, name: &str) -> String {
        self.operator.token(name)
    }

    /// The owner's question is answered rightly, with no more than the retries of the command.
    fn answers(&self) {
        self.owner.json(
            "mine rows.oboro --min-support 10% --answers moments --verify rows.dat --token-file token",
        );
    }

    /// The owner is answered, and the server is within its bounds, where this many connections are open, and this many calls
    /// were begun.
    fn holds(&self, connections: usize, calls: usize) {
        self.answers();
        let peak = self.server.peak_bytes();
        let (descriptors, log) = (self.server.descriptors().len(), self.server.log().len());
        println!(
            "{} of {} MiB, {descriptors} descriptors, {log} bytes of log",
            peak / MIB,
            self.memory
        );
        assert!(peak <= self.memory * MIB * 11 / 10, "{} MiB", peak / MIB);
        assert!(descriptors <= connections + DESCRIPTORS, "{descriptors}");
        assert!(log <= LOG + LINE * calls, "{log} bytes of log");
    }
}
