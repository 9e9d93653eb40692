//! Callers: who makes a call, and what it may do.

use crate::audit::Subject;
use crate::clients::Client;
use oboro_format::Roles;
use oboro_store::DEFAULT_NAMESPACE;
use std::net::SocketAddr;
use std::sync::Arc;
use tonic::{Request, Status};

/// Who makes a call, as its handler finds it in the request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) client: Client,
    /// What it may do in its own namespace, and at most in another one.
    pub(crate) roles: Roles,
    /// Its own.
    pub(crate) namespace: Arc<str>,
    /// What the audit log is told of the call.
    pub(crate) subject: Subject,
}

impl Caller {
    /// One that has proved its name.
    pub(crate) fn named(name: &Arc<str>, roles: Roles) -> Self {
        Self {
            client: Client::Named(Arc::clone(name)),
            roles,
            namespace: Arc::clone(name),
            subject: Subject::default(),
        }
    }

    /// One of a server that asks for no name: it may do everything.
    pub(crate) fn connected(peer: Option<SocketAddr>) -> Self {
        Self {
            client: Client::Connected(peer),
            roles: Roles::ALL,
            namespace: DEFAULT_NAMESPACE.into(),
            subject: Subject::default(),
        }
    }
}

/// Who makes a call.
///
/// # Errors
/// Nobody has looked who it is: then nobody may do anything.
pub(crate) fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
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
