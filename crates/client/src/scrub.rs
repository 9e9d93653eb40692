//! Scrub of a server's stored data.

use crate::{ClientError, Connection};
use oboro_format::{Damage, Scrubbed};
use oboro_protocol::v1::{self, scrub_reply::Reply};
use oboro_protocol::{MAX_DAMAGE, MAX_IDLE_MESSAGES};
use std::num::NonZero;
use tonic::Status;

/// Event of a scrub.
#[derive(Debug)]
pub enum Scrubbing {
    /// Bytes checked so far, and in total.
    Progress(u64, u64),
    /// Damaged part.
    Damage(Damage),
}

impl Connection {
    /// Requests a check of all stored data, or of one dataset, at `rate` bytes a second at most. Calls `tell` for each
    /// event, and returns the totals.
    ///
    /// # Errors
    /// An unknown dataset, another scrub in progress, or as every call.
    pub fn scrub(
        &self,
        name: Option<&str>,
        rate: Option<NonZero<u64>>,
        mut tell: impl FnMut(Scrubbing),
    ) -> Result<Scrubbed, ClientError> {
        let request = v1::ScrubRequest {
            name: name.unwrap_or_default().to_owned(),
            rate: rate.map_or(0, NonZero::get),
        };
        const DURING: &str = "scrubbing";
        let mut replies = self.when_free(|| {
            let request = request.clone();
            self.call(DURING, async |mut client| client.scrub(request).await)
        })?;
        let (mut checked, mut idle, mut damaged) = (None, 0, 0);
        loop {
            let broken = |status| ClientError::from_status(&status, DURING);
            let reply = self.wait(async { replies.message().await.map_err(broken) })?;
            match reply.and_then(|reply| reply.reply) {
                Some(Reply::Progress(progress)) => {
                    let now = Some(progress.checked_bytes);
                    if now > checked {
                        checked = now;
                    } else {
                        idle += 1;
                    }
                    tell(Scrubbing::Progress(
                        progress.checked_bytes,
                        progress.total_bytes,
                    ));
                }
                Some(Reply::Damage(damage)) => {
                    damaged += 1;
                    tell(Scrubbing::Damage(damage.try_into()?));
                }
                Some(Reply::Done(scrubbed)) => return Ok(scrubbed.into()),
                None => {
                    let status = Status::unavailable("the answer ended early");
                    return Err(ClientError::from_status(&status, DURING));
                }
            }
            if idle > MAX_IDLE_MESSAGES || damaged > MAX_DAMAGE {
                return Err(ClientError::OutOfTurn(
                    "a report on its store without an end",
                ));
            }
        }
    }
}
