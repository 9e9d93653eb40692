//! Messages of a genome search.

use crate::decoded;
use crate::wire::message;
use oboro_client::genome::{OwnQuery, Pattern, SearchResult};
use oboro_genome::wire::{Answer, EncryptedQuery};
use oboro_genome::{Kind, Plan, SearchSpec};
use oboro_genome_server::{Evaluation, ExpandedQuery, Multiplicity, Rows, Window, Workspace};
use oboro_protocol::{kind, nonce, v1};
use oboro_ring::Nonce;
use std::sync::{Arc, LazyLock};

/// Rows of the searched collection.
const ROWS: u64 = 3;
/// The longest query to plan, in symbols.
const PLANNED: u32 = 64;
const NONCE: Nonce = Nonce([5; 32]);

static OWN: LazyLock<OwnQuery> = LazyLock::new(|| {
    let pattern = Pattern::of_alleles("01?10").expect("they are alleles");
    let exact = Kind::Match { within: 0 };
    let spec = SearchSpec::new(pattern.len() as u32, 2, ROWS, exact).expect("it can be asked");
    let plan = Arc::new(Plan::new(spec).expect("a ring supports it"));
    OwnQuery::encrypt(plan, &pattern, &NONCE, &[]).expect("there is randomness")
});

static WINDOW: LazyLock<Arc<Window>> = LazyLock::new(|| {
    let length = OWN.plan().spec().length() as usize;
    Arc::new(Window::new(Rows::new(
        [0; 32],
        length,
        1,
        vec![0b01010, 0, 0b11111],
    )))
});

/// Repeats the pattern to the expected length, or a few bytes more or less, as the first byte says.
fn filled(bytes: &[u8], length: u64) -> Option<Vec<u8>> {
    let (&difference, pattern) = bytes.split_first()?;
    let length = length.checked_add_signed((difference as i8).into())? as usize;
    let pattern = if pattern.is_empty() { &[0] } else { pattern };
    Some(pattern.iter().copied().cycle().take(length).collect())
}

/// The first message of a search, its kind in the first byte, with all fields decoded.
pub fn search(bytes: &[u8]) -> Option<()> {
    let (&which, bytes) = bytes.split_first()?;
    match which {
        0 => match message::<v1::SearchRequest>(bytes)?.request? {
            v1::search_request::Request::Open(open) => {
                let kind = decoded(kind(open.kind))?;
                assert_eq!(Some(kind.into()), open.kind);
                if open.length > PLANNED {
                    return None;
                }
                let spec = decoded(SearchSpec::new(open.length, 2, ROWS, kind))?;
                let plan = decoded(Plan::new(spec))?;
                assert!(plan.ciphertexts() * plan.width() >= spec.terms());
                assert!(plan.answers() * plan.tests_per_answer() as u64 >= plan.tests());
            }
            v1::search_request::Request::Query(_) => {}
        },
        1 => match message::<v1::SearchReply>(bytes)?.reply? {
            v1::search_reply::Reply::Opened(opened) => {
                let seed = decoded(nonce(&opened.nonce))?;
                assert_eq!(opened.nonce, seed.0[..]);
            }
            v1::search_reply::Reply::Answer(_) | v1::search_reply::Reply::Done(_) => {}
        },
        2 => {
            message::<v1::ListGenomesReply>(bytes)?;
        }
        _ => {
            message::<v1::SitesReply>(bytes)?;
        }
    }
    Some(())
}

/// An encrypted query, its bytes repeated to its length. A server evaluates every accepted one.
pub fn search_query(bytes: &[u8]) -> Option<()> {
    let plan = OWN.plan();
    let bytes = filled(bytes, EncryptedQuery::bytes(plan))?;
    let query = decoded(EncryptedQuery::decode(&bytes, plan, &NONCE))?;
    assert_eq!(query.encode(plan), bytes);
    let query = decoded(ExpandedQuery::decode(Arc::clone(plan), bytes, NONCE))?;
    let evaluation = Evaluation::new(Arc::new(query), Arc::clone(&WINDOW), Multiplicity::Each);
    let answer = decoded(evaluation)?.answer(0, &mut Workspace::default());
    assert_eq!(answer.values.len(), OWN.plan().tests_per_answer());
    Some(())
}

/// An answer, its bytes repeated to its length, decoded as the owner would.
pub fn search_answer(bytes: &[u8]) -> Option<()> {
    let plan = OWN.plan();
    let bytes = filled(bytes, plan.answer_bytes() as u64)?;
    let answer = decoded(Answer::decode(&bytes, plan))?;
    let again = Answer::decode(&answer.encode(plan), plan);
    assert_eq!(again.as_ref(), Ok(&answer));
    let found = decoded(OWN.read(&[&bytes], 1, 0))?;
    assert!(matches!(found, SearchResult::Matches(0..=ROWS)));
    Some(())
}
