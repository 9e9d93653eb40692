//! Detection of a silent server: one that does not even answer keep-alive pings.

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_util::io::InspectReader;
use tonic::codegen::{BoxFuture, Service};
use tonic::transport::Uri;

/// Interval of keep-alive pings during a call.
pub(crate) const PING: Duration = Duration::from_secs(2);
/// Silence that is reported.
const LONG: Duration = Duration::from_secs(4);
/// Polling interval for silence.
const TICK: Duration = Duration::from_millis(500);

/// Reason for an unusually long wait of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Busy server, with the time until the next attempt.
    Busy(Duration),
    /// Server that has been silent for this time, while the call continues to wait.
    Silent(Duration),
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: Duration| time.as_secs_f64().ceil();
        match *self {
            Self::Busy(time) => {
                write!(f, "the server is busy; trying again in {} s", seconds(time))
            }
            Self::Silent(time) => write!(
                f,
                "the server has said nothing for {} s; still waiting",
                seconds(time)
            ),
        }
    }
}

/// Time of the last bytes from a server. Clones share it.
#[derive(Clone)]
pub(crate) struct LastActivity(Arc<Mutex<Instant>>);

impl LastActivity {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// Calls `tell` once for each long silence, counted from this call on.
    pub(crate) async fn tell_silence(&self, tell: fn(Wait)) -> Infallible {
        let begun = Instant::now();
        let mut reported = false;
        loop {
            tokio::time::sleep(TICK).await;
            let silence = begun.max(*self.0.lock()).elapsed();
            let is_long = silence >= LONG;
            if is_long && !reported {
                tell(Wait::Silent(silence));
            }
            reported = is_long;
        }
    }
}

/// Callback for received bytes.
type Note = Box<dyn FnMut(&[u8]) + Send>;

/// Connector that records the time of received bytes.
pub(crate) struct ActivityConnector<C>(pub(crate) C, pub(crate) LastActivity);

impl<C> Service<Uri> for ActivityConnector<C>
where
    C: Service<Uri, Response = TokioIo<TcpStream>>,
    C::Future: Send + 'static,
{
    type Response = TokioIo<InspectReader<TcpStream, Note>>;
    type Error = C::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let connecting = self.0.call(server);
        let LastActivity(last) = self.1.clone();
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            let note: Note = Box::new(move |_| *last.lock() = Instant::now());
            Ok(TokioIo::new(InspectReader::new(stream, note)))
        })
    }
}
