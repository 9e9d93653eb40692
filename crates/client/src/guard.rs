//! Checks on a server's answers below the level of messages, for every call.
//!
//! `grpc-status-details-bin` is removed: it is unused, and tonic panics if it is not base64. The header of each message
//! is checked before the message is awaited. A stream without a status, or that is not gRPC, counts as a broken
//! connection.

use oboro_protocol::{MAX_MESSAGE_BYTES, MalformedAnswer, bound_of_call};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response, StatusCode, header::CONTENT_TYPE};
use tonic::codegen::{BoxFuture, Bytes, Service};
use tonic::{Code, Status};

const DETAILS: &str = "grpc-status-details-bin";
const STATUS: &str = "grpc-status";
const GRPC: &[u8] = b"application/grpc";

/// Channel that checks answers.
#[derive(Clone)]
pub(crate) struct GuardedChannel<S>(pub(crate) S);

impl<S> Service<Request<Body>> for GuardedChannel<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<Self::Response, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let bound = bound_of_call(request.uri().path());
        let bytes = bound.map_or(MAX_MESSAGE_BYTES, |it| it.bytes);
        let answering = self.0.call(request);
        Box::pin(async move {
            let (mut head, body) = answering.await?.into_parts();
            head.headers.remove(DETAILS);
            if head.status != StatusCode::OK {
                // tonic derives a status from the HTTP status; the body contains no messages.
                return Ok(Response::from_parts(head, Body::empty()));
            }
            let kind = head.headers.get(CONTENT_TYPE);
            let is_grpc = kind.is_some_and(|it| it.as_bytes().starts_with(GRPC));
            let body = CheckedBody {
                body: if is_grpc { body } else { Body::empty() },
                frames: Frames::new(bytes),
                has_status: head.headers.contains_key(STATUS),
                has_ended: false,
            };
            Ok(Response::from_parts(head, Body::new(body)))
        })
    }
}

/// Body of an answer, checked as it arrives.
struct CheckedBody {
    body: Body,
    frames: Frames,
    /// `true` once the headers or trailers had a status.
    has_status: bool,
    has_ended: bool,
}

impl CheckedBody {
    fn check(&mut self, frame: &mut http_body::Frame<Bytes>) -> Result<(), Status> {
        if let Some(data) = frame.data_ref() {
            return Ok(self.frames.check(data)?);
        }
        if let Some(trailers) = frame.trailers_mut() {
            trailers.remove(DETAILS);
            self.has_status |= trailers.contains_key(STATUS);
            if self.frames.is_within_message() {
                return Err(MalformedAnswer("an answer that ends within a message").into());
            }
        }
        Ok(())
    }
}

impl http_body::Body for CheckedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Status>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let next = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(mut frame)) => Some(self.check(&mut frame).map(|()| frame)),
            None if !self.has_status || self.frames.is_within_message() => Some(Err(early_end())),
            other => other,
        };
        self.has_ended = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }
}

/// Returns the error of an answer without a status. It has a source, as every failure of the connection.
fn early_end() -> Status {
    const EARLY: &str = "the answer ended early";
    let mut status = Status::new(Code::Unavailable, EARLY);
    status.set_source(Arc::new(io::Error::new(
        io::ErrorKind::UnexpectedEof,
        EARLY,
    )));
    status
}

/// Tracks the frames of gRPC: before each message a flag (1 byte; 0: not compressed) and its length (4 bytes).
struct Frames {
    /// Maximum number of bytes of a message.
    most: usize,
    header: [u8; 5],
    /// Bytes of the next header received so far.
    came: usize,
    /// Remaining bytes of the current message.
    left: usize,
}

impl Frames {
    fn new(most: usize) -> Self {
        Self {
            most,
            header: [0; 5],
            came: 0,
            left: 0,
        }
    }

    fn is_within_message(&self) -> bool {
        self.came > 0 || self.left > 0
    }

    fn check(&mut self, mut data: &[u8]) -> Result<(), MalformedAnswer> {
        while !data.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(data.len());
                self.left -= taken;
                data = &data[taken..];
                continue;
            }
            let taken = (self.header.len() - self.came).min(data.len());
            self.header[self.came..][..taken].copy_from_slice(&data[..taken]);
            self.came += taken;
            data = &data[taken..];
            if self.came == self.header.len() {
                let [flag, length @ ..] = self.header;
                if flag != 0 {
                    return Err(MalformedAnswer("a message of an unknown encoding"));
                }
                self.left = u32::from_be_bytes(length) as usize;
                if self.left > self.most {
                    return Err(MalformedAnswer("a message longer than any of its kind"));
                }
                self.came = 0;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a message with its header.
    fn frame(flag: u8, length: u32, message: &[u8]) -> Vec<u8> {
        [&[flag][..], &length.to_be_bytes(), message].concat()
    }

    #[test]
    fn messages_may_be_cut_anywhere_but_not_be_longer_than_their_bound() {
        let two = [frame(0, 3, b"abc"), frame(0, 0, b""), frame(0, 2, b"de")].concat();
        for each in 1..=two.len() {
            let mut frames = Frames::new(3);
            for data in two.chunks(each) {
                frames.check(data).unwrap();
            }
            assert!(!frames.is_within_message());
            frames.check(&[0]).unwrap();
            assert!(frames.is_within_message());
        }
        for bad in [
            frame(0, 4, b""),
            frame(1, 3, b"abc"),
            frame(0, u32::MAX, b""),
        ] {
            assert!(Frames::new(3).check(&bad).is_err(), "{bad:?}");
        }
    }
}
