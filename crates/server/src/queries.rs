//! Registry of the queries in progress: counts, fetches of columns, genome searches. Owners see and end their own,
//! operators those of all.

use oboro_edge::{Caller, Client};
use oboro_format::Role;
use oboro_format::wording::QUERIES_END;
use oboro_protocol::v1;
use oboro_residency::Permit;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::Span;

/// Queries in progress, by number.
#[derive(Debug, Default)]
pub(crate) struct Queries(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: BTreeMap<u64, Running>,
}

#[derive(Debug)]
struct Running {
    namespace: Arc<str>,
    call: &'static str,
    name: String,
    begun: Instant,
    ended: CancellationToken,
}

/// Query in progress, which holds a slot and is listed until dropped.
#[derive(Debug)]
pub(crate) struct Query {
    queries: Arc<Queries>,
    number: u64,
    ended: CancellationToken,
    _place: Permit<Client>,
}

impl State {
    /// Returns a random number that no query in progress has: consecutive ones would reveal how many queries others
    /// make.
    fn unused_number(&self) -> u64 {
        let fallback = self.running.keys().last().map_or(1, |it| it + 1);
        let random = || getrandom::u32().map_or(fallback, u64::from);
        loop {
            let number = random();
            if !self.running.contains_key(&number) {
                return number;
            }
        }
    }
}

impl Queries {
    /// Registers a query that has a slot, by its call and the name of its dataset or collection.
    pub(crate) fn begin(
        self: &Arc<Self>,
        caller: &Caller,
        (call, name): (&'static str, &str),
        place: Permit<Client>,
    ) -> Query {
        let ended = CancellationToken::new();
        let mut state = self.0.lock();
        let number = state.unused_number();
        let running = Running {
            namespace: Arc::clone(&caller.namespace),
            call,
            name: name.to_owned(),
            begun: Instant::now(),
            ended: ended.clone(),
        };
        state.running.insert(number, running);
        Span::current().record("query", number);
        Query {
            queries: Arc::clone(self),
            number,
            ended,
            _place: place,
        }
    }

    /// Lists the queries that a caller may end.
    ///
    /// # Errors
    /// The caller may end none.
    pub(crate) fn list(&self, caller: &Caller) -> Result<Vec<v1::QueryInfo>, Status> {
        check(caller)?;
        let state = self.0.lock();
        let seen = state.running.iter().filter(|(_, it)| it.is_of(caller));
        let mut seen: Vec<_> = seen.collect();
        seen.sort_by_key(|(_, it)| it.begun);
        let info = |(&number, it): (&u64, &Running)| v1::QueryInfo {
            number,
            caller: it.namespace.to_string(),
            call: it.call.to_owned(),
            // Operators need not know the names of owners' data.
            name: if it.namespace == caller.namespace {
                it.name.clone()
            } else {
                String::new()
            },
            milliseconds: u64::try_from(it.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        Ok(seen.into_iter().map(info).collect())
    }

    /// Ends a query and informs its caller.
    ///
    /// # Errors
    /// The caller may end none, or no query with this number.
    pub(crate) fn end(&self, caller: &Caller, number: u64) -> Result<(), Status> {
        check(caller)?;
        let state = self.0.lock();
        let running = state.running.get(&number).filter(|it| it.is_of(caller));
        let running = running.ok_or_else(|| {
            Status::not_found(format!(
                "there is no query {number} in progress; list the queries to see those that are"
            ))
        })?;
        running.ended.cancel();
        Ok(())
    }
}

/// Refuses callers that may end no queries, not even their own.
fn check(caller: &Caller) -> Result<(), Status> {
    if caller.roles.has(Role::Administer) || caller.roles.has(Role::Operate) {
        return Ok(());
    }
    Err(Status::permission_denied(
        "the token of this call has neither the role administer, to see and end its owner's queries, nor operate, for those of all; ask the server's operator for one that has",
    ))
}

impl Running {
    /// Returns true if a caller may see and end it.
    fn is_of(&self, caller: &Caller) -> bool {
        caller.roles.has(Role::Operate) || self.namespace == caller.namespace
    }
}

impl Query {
    /// Completes once the query is ended by an owner or operator.
    pub(crate) async fn ended(&self) -> Status {
        self.ended.cancelled().await;
        Status::failed_precondition(format!(
            "the query was ended by its owner or an operator of the server (`{QUERIES_END}`); ask them before you repeat it"
        ))
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        self.queries.0.lock().running.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_format::Roles;
    use oboro_residency::{FairSemaphore, ShareLimit};
    use tonic::Code;

    #[tokio::test]
    async fn queries_are_seen_and_ended_by_their_owner_and_operators() {
        let caller = |name: &str, roles| Caller::named(&name.into(), roles);
        let [alice, bob] = ["alice", "bob"].map(|name| caller(name, Roles::OWNER));
        let operator = caller("ops", Role::Operate.into());
        let queries = Arc::new(Queries::default());
        let places = FairSemaphore::new(ShareLimit::HalfOfRest { all: 10 });
        let begin = async |caller: &Caller| {
            let place = places.acquire(&caller.client, 1).await.unwrap();
            queries.begin(caller, ("Count", "rows"), place)
        };
        let (of_alice, of_bob) = (begin(&alice).await, begin(&bob).await);
        let seen = |caller: &Caller| -> Vec<(u64, String)> {
            let listed = queries.list(caller).unwrap().into_iter();
            listed.map(|it| (it.number, it.name)).collect()
        };
        let (first, second) = (of_alice.number, of_bob.number);
        assert_ne!(second, first + 1, "numbers tell of others' queries");
        assert_eq!(seen(&alice), [(first, "rows".into())]);
        assert_eq!(seen(&bob), [(second, "rows".into())]);
        assert_eq!(
            seen(&operator),
            [(first, String::new()), (second, String::new())]
        );
        // A query of another owner looks like a missing one.
        let never = 1 << 40;
        let refusals = [second, never].map(|number| queries.end(&alice, number).unwrap_err());
        let [foreign, absent] = refusals.map(|it| (it.code(), it.message().to_owned()));
        assert_eq!(foreign.0, Code::NotFound);
        assert_eq!(
            foreign.1.replace(&second.to_string(), &never.to_string()),
            absent.1
        );
        let weak = caller("alice", Role::Count.into());
        assert_eq!(
            queries.list(&weak).unwrap_err().code(),
            Code::PermissionDenied
        );
        assert_eq!(
            queries.end(&weak, first).unwrap_err().code(),
            Code::PermissionDenied
        );
        queries.end(&alice, first).unwrap();
        assert!(
            of_alice
                .ended()
                .await
                .message()
                .contains("ended by its owner")
        );
        queries.end(&operator, second).unwrap();
        of_bob.ended().await;
        drop((of_alice, of_bob));
        assert!(seen(&operator).is_empty());
        assert_eq!(places.used(), 0);
    }
}
