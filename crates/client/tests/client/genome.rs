//! Searches on a server that alters the answers of one window.

use oboro_client::genome::{
    Decoys, GenomeSearch, GenomicPosition, Pattern, SearchResult, Symbols, Where,
};
use oboro_client::{ClientError, Connection};
use oboro_genome::wire::Answer;
use oboro_genome::{Kind, Plan, SearchSpec};
use oboro_protocol::v1::genome_server::{Genome, GenomeServer};
use oboro_protocol::v1::search_reply::Reply;
use oboro_protocol::v1::search_request::Request as Asked;
use oboro_protocol::v1::{self, open_search};
use prost::Message;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};

/// Sites of the panel. A query of four symbols can begin at the first four.
const SITES: [u64; 7] = [100, 200, 300, 400, 500, 600, 700];
/// Position of the search.
const REAL: u64 = 300;

/// Alteration of the answers of one window by the server.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// A match of the first two symbols without a match of the first.
    Contradiction,
    Short,
    Long,
    Twice,
    Missing,
    Number,
    /// Failure of the search in place of the window's answers.
    Fails(Code),
    Ends,
    /// Alteration of all replies, the beginning and the end among them.
    Replies(fn(&mut Vec<Answered>)),
}

type Answered = Result<v1::SearchReply, Status>;

/// Server's view of a client: the calls and their bytes, in order. Bytes of a query are only counted, since each
/// encryption differs.
type Seen = Vec<(&'static str, Vec<u8>)>;

/// Server with a panel whose `n`-th site matches the first `n` symbols of a query.
struct Fake {
    lie: Option<(u64, Lie)>,
    seen: Arc<Mutex<Seen>>,
}

impl Fake {
    fn see(&self, call: &'static str, message: Vec<u8>) {
        self.seen.lock().unwrap().push((call, message));
    }

    /// Returns the replies about the window that begins at the `place`-th site.
    fn answers(
        &self,
        plan: &Plan,
        window: u32,
        place: usize,
    ) -> Vec<Result<v1::SearchReply, Status>> {
        assert_eq!(plan.answers(), 1);
        let lie = self.lie.filter(|&(position, _)| position == SITES[place]);
        let lie = lie.map(|(_, lie)| lie);
        let not_zero = 1 << (plan.value_bits() - 1);
        let groups = plan.spec().groups();
        let values = (1..).zip(groups).flat_map(|(length, tests)| {
            let is_there = match lie {
                Some(Lie::Contradiction) => length == 2,
                _ => length <= place + 1,
            };
            vec![if is_there { 0 } else { not_zero }; tests as usize]
        });
        let mut values: Vec<u64> = values.collect();
        values.resize(plan.tests_per_answer(), not_zero);
        // Without a mask a ciphertext is its own phase, whatever the key.
        let mask = vec![0; plan.ring().basis().degree()];
        let mut answer = Answer { mask, values }.encode(plan);
        match lie {
            Some(Lie::Short) => drop(answer.pop()),
            Some(Lie::Long) => answer.push(0),
            _ => {}
        }
        let reply = v1::search_reply::Reply::Answer(v1::SearchAnswer {
            window,
            number: u64::from(matches!(lie, Some(Lie::Number))),
            answer: answer.into(),
        });
        let reply = v1::SearchReply::from(reply);
        match lie {
            Some(Lie::Twice) => vec![Ok(reply.clone()), Ok(reply)],
            Some(Lie::Missing) => Vec::new(),
            Some(Lie::Fails(code)) => vec![Err(Status::new(code, "it fails"))],
            _ => vec![Ok(reply)],
        }
    }
}

type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Genome for Fake {
    async fn list_genomes(
        &self,
        _: Request<v1::ListGenomesRequest>,
    ) -> Result<Response<v1::ListGenomesReply>, Status> {
        Err(Status::unimplemented("not here"))
    }

    type ListSitesStream = Replies<v1::SitesReply>;

    async fn list_sites(
        &self,
        request: Request<v1::ListSitesRequest>,
    ) -> Result<Response<Self::ListSitesStream>, Status> {
        self.see("sites", request.into_inner().encode_to_vec());
        let reply = v1::SitesReply {
            chromosome: Some("7".to_owned()),
            gaps: vec![100; SITES.len()],
        };
        Ok(Response::new(Box::pin(tokio_stream::once(Ok(reply)))))
    }

    type SearchGenomeStream = Replies<v1::SearchReply>;

    async fn search_genome(
        &self,
        request: Request<Streaming<v1::SearchRequest>>,
    ) -> Result<Response<Self::SearchGenomeStream>, Status> {
        let mut requests = request.into_inner();
        let first = requests.message().await?.and_then(|it| it.request);
        let Some(Asked::Open(mut open)) = first else {
            return Err(Status::invalid_argument("no search"));
        };
        let Some(open_search::Where::Panel(panel)) = &mut open.r#where else {
            return Err(Status::invalid_argument("no panel"));
        };
        let windows: Vec<u64> = panel.windows.iter().map(|it| it.position).collect();
        panel.windows.sort_by_key(|it| it.position);
        self.see("open", open.encode_to_vec());
        let spec = SearchSpec::new(open.length, 2, 2, Kind::Longest).unwrap();
        let plan = Plan::new(spec).unwrap();
        let mut replies = vec![Ok(v1::search_reply::Reply::Opened(v1::Opened {
            nonce: vec![5; 32].into(),
            rows: spec.rows(),
            symbols: spec.symbols().into(),
            plan: Some((&plan).into()),
        })
        .into())];
        for (window, position) in (0..).zip(windows) {
            let place = SITES.iter().position(|&site| site == position).unwrap();
            replies.extend(self.answers(&plan, window, place));
            if let Some((there, Lie::Ends)) = self.lie
                && there == position
            {
                break;
            }
        }
        if !matches!(self.lie, Some((_, Lie::Ends))) {
            let done = v1::search_reply::Reply::Done(v1::Searched::default());
            replies.push(Ok(done.into()));
        }
        if let Some((_, Lie::Replies(alter))) = self.lie {
            alter(&mut replies);
        }
        let seen = Arc::clone(&self.seen);
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut replies = replies.into_iter();
        sender.send(replies.next().unwrap()).unwrap();
        tokio::spawn(async move {
            let mut bytes = 0;
            while let Ok(Some(request)) = requests.message().await {
                if let Some(Asked::Query(part)) = request.request {
                    bytes += part.len();
                }
            }
            seen.lock()
                .unwrap()
                .push(("query", bytes.to_le_bytes().to_vec()));
            for reply in replies {
                let _ = sender.send(reply);
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(
            receiver,
        ))))
    }
}

/// Searches once, with all other places as decoys; returns the result and the server's view.
fn search(lie: Option<(u64, Lie)>) -> (Result<SearchResult, ClientError>, Seen) {
    let runtime = Runtime::new().unwrap();
    let seen = Arc::default();
    let fake = Fake {
        lie,
        seen: Arc::clone(&seen),
    };
    let (sender, receiver) = mpsc::unbounded_channel();
    let streams = UnboundedReceiverStream::new(receiver).map(Ok::<_, std::io::Error>);
    runtime.spawn(
        tonic::transport::Server::builder()
            .add_service(GenomeServer::new(fake))
            .serve_with_incoming(streams),
    );
    let connection = Connection::through("fake", move || {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        sender.send(theirs).map_err(std::io::Error::other)?;
        Ok(ours)
    });
    let search = GenomeSearch {
        pattern: Pattern::of_alleles("0101").unwrap(),
        r#where: Where::Panel {
            name: "small".to_owned(),
            place: GenomicPosition {
                chromosome: Some("7".to_owned()),
                position: REAL,
            },
            decoys: Decoys(3),
            symbols: Symbols::Alleles,
            sites_digest: None,
        },
        kind: Kind::Longest,
        count: false,
    };
    let found = connection.unwrap().search(&search, |_, _| {});
    let seen = seen.lock().unwrap().clone();
    (found.map(|outcome| outcome.found), seen)
}

#[test]
fn whichever_window_a_server_alters_the_client_ends_alike() {
    let (honest, seen) = search(None);
    assert_eq!(honest.unwrap(), SearchResult::Longest(3));
    let calls: Vec<_> = seen.iter().map(|(call, _)| *call).collect();
    assert_eq!(calls, ["sites", "open", "query"]);
    let lies = [
        Lie::Contradiction,
        Lie::Short,
        Lie::Long,
        Lie::Twice,
        Lie::Missing,
        Lie::Number,
        Lie::Fails(Code::Internal),
        Lie::Fails(Code::Unavailable),
        Lie::Ends,
    ];
    for lie in lies {
        let altered = SITES[..4].iter().map(|&position| {
            let (found, seen_now) = search(Some((position, lie)));
            assert_eq!(seen_now, seen, "{lie:?} at {position}");
            found.unwrap_err().to_string()
        });
        let mut errors: Vec<String> = altered.collect();
        errors.dedup();
        assert_eq!(errors.len(), 1, "{lie:?}: {errors:?}");
    }
}

#[test]
fn replies_that_cannot_be_are_refused() {
    /// Returns the first answer of a window.
    fn answer(replies: &mut [Answered]) -> &mut v1::SearchAnswer {
        match replies[1].as_mut().unwrap().reply.as_mut() {
            Some(Reply::Answer(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }
    /// Returns the beginning.
    fn opened(replies: &mut [Answered]) -> &mut v1::Opened {
        match replies[0].as_mut().unwrap().reply.as_mut() {
            Some(Reply::Opened(opened)) => opened,
            other => panic!("{other:?}"),
        }
    }
    type Alter = fn(&mut Vec<Answered>);
    let lies: [(Alter, &str); 15] = [
        (|it| it.truncate(1), "ended early"),
        (|it| drop(it.pop()), "ended early"),
        (|it| drop(it.remove(1)), "missing"),
        (|it| it.insert(1, it[1].clone()), "twice"),
        (|it| answer(it).window = 9, "not asked for"),
        (|it| answer(it).number = u64::MAX, "not asked for"),
        (|it| answer(it).answer = vec![0; 9].into(), "9 bytes"),
        (|it| it.push(it[1].clone()), "after the end"),
        (|it| it.insert(1, it[0].clone()), "two beginnings"),
        (|it| opened(it).nonce = vec![1; 31].into(), "nonce"),
        (|it| opened(it).rows += 1000, "other numbers"),
        (|it| opened(it).rows = u64::MAX, "rows cannot be searched"),
        (|it| opened(it).symbols = 99, "99 different symbols"),
        (|it| opened(it).symbols = u32::MAX, "no collection has"),
        (|it| opened(it).plan = None, "other numbers"),
    ];
    for (alter, phrase) in lies {
        let (found, _) = search(Some((REAL, Lie::Replies(alter))));
        let message = found.unwrap_err().to_string();
        assert!(message.contains(phrase), "{message:?} lacks {phrase:?}");
    }
}
