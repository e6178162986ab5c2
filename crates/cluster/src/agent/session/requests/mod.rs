//! Requests that cross: those of clients here that servers there have, and those of clients there
//! that servers here have.
//!
//! A request goes over the stream of its channel, with a number that its sender chose; what became
//! of it comes back over a stream of the other direction, with that number. Each ends: by a reply,
//! or by word that there will be none, or with the session. [`OpenRequests`] is the asking side,
//! [`RemoteClient`] the answering one.

mod open;
mod remote_client;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

pub(super) use self::open::{OpenRequests, REQUESTS_MAX};
pub(super) use self::remote_client::{Answered, Asked, RemoteClient};
use super::{lock, share};
use crate::error::ClusterError;
use crate::frame::Opening;

/// The requests of a session.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Of clients here.
    pub(super) open: OpenRequests,
    /// Who asks here, by channel, as long as a stream needs it.
    clients: Mutex<BTreeMap<String, Weak<RemoteClient>>>,
}

impl Requests {
    /// Who asks on the channel of a stream for clients there: the same for its requests and its
    /// replies.
    pub(super) fn client(
        &self,
        opening: &Opening,
        node: impl FnOnce() -> Result<hythe_node::Node, ClusterError>,
    ) -> Result<Arc<RemoteClient>, ClusterError> {
        let mut clients = lock(&self.clients);
        clients.retain(|_, client| client.strong_count() > 0);
        if let Some(known) = clients.get(&opening.channel).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let node = node()?;
        share::check(&node, 0)?;
        let opened = Arc::new(RemoteClient::open(node, opening)?);
        clients.insert(opening.channel.clone(), Arc::downgrade(&opened));
        Ok(opened)
    }

    /// Is there something to tell clients there, whether or not a server is left here?
    pub(super) fn owes(&self, channel: &str) -> bool {
        let client = lock(&self.clients).get(channel).and_then(Weak::upgrade);
        client.is_some_and(|client| !client.is_idle())
    }
}
