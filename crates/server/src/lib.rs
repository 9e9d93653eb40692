//! The service that stores ciphertext and counts on it.
//!
//! It never holds a key: this crate does not depend on the one that has them. A server is a
//! [`Store`](oboro_store::Store) behind gRPC; beyond loopback it insists on TLS and a token.

mod auth;
mod counting;
mod linger;
mod listen;
mod service;
mod status;

pub use listen::{Options, ServeError, Server};
