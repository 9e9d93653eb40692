//! Callers: who makes a call, and what it may do.

use crate::audit::Subject;
use crate::clients::Client;
use oboro_format::{DEFAULT_NAMESPACE, Roles};
use std::net::SocketAddr;
use std::sync::Arc;
use tonic::{Request, Status};

/// Caller of a call, which handlers find in the request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Client, for fair shares.
    pub client: Client,
    /// Roles in its own namespace, and upper bound of those in another.
    pub roles: Roles,
    /// Namespace of the caller.
    pub namespace: Arc<str>,
    /// Facts about the call for the audit log.
    pub subject: Subject,
}

impl Caller {
    /// Creates an authenticated caller.
    pub fn named(name: &Arc<str>, roles: Roles) -> Self {
        Self {
            client: Client::Named(Arc::clone(name)),
            roles,
            namespace: Arc::clone(name),
            subject: Subject::default(),
        }
    }

    /// Creates a caller of a server without authentication, which may do everything.
    pub fn connected(peer: Option<SocketAddr>) -> Self {
        Self {
            client: Client::Connected(peer),
            roles: Roles::ALL,
            namespace: DEFAULT_NAMESPACE.into(),
            subject: Subject::default(),
        }
    }
}

/// Returns the caller of a request.
///
/// # Errors
/// The request did not pass authentication, which is a bug: nothing is allowed then.
pub fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| {
        Status::internal("this server did not look who calls, and so refuses; report it as a bug")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn a_call_of_nobody_is_refused() {
        let mut request = Request::new(());
        assert_eq!(caller(&request).unwrap_err().code(), Code::Internal);
        let known = Caller::named(&"ward".into(), Roles::OWNER);
        request.extensions_mut().insert(known.clone());
        let found = caller(&request).unwrap();
        assert_eq!((found.client, found.roles), (known.client, known.roles));
        assert_eq!(&*found.namespace, "ward");
    }
}
