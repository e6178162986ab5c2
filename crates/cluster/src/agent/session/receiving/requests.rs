//! Frames of request/reply channels: requests for servers here, and what became of requests of
//! clients here.

use std::sync::Arc;

use hythe_node::hop::{self, HopNode as _};
use hythe_node::{Lease, NodeError};

use super::carry::{NAP, Reading, survive};
use super::lock;
use crate::agent::session::requests::{Asked, RemoteClient};
use crate::error::ClusterError;
use crate::frame::{FrameKind, Header};

impl Reading<'_> {
    /// Reads a request into a slot and asks a server. Waits where none has room: the other side is
    /// told by its window.
    pub(super) fn request(&mut self, header: &Header) -> Result<(), ClusterError> {
        let client = {
            let mut client = lock(&self.stream.client);
            match &*client {
                Some(client) => Arc::clone(client),
                None => {
                    let (session, opening) = (self.session, &self.stream.opening);
                    let opened = session.requests.client(opening, || session.node())?;
                    Arc::clone(client.insert(opened))
                }
            }
        };
        self.wait(&client, |client| Ok(client.has_room().then_some(())))?;
        let mut lease = match client.lease(header.length) {
            Ok(lease) => Some(lease),
            Err(error) => {
                self.not_taken(error)?;
                None
            }
        };
        self.payload(header.length, &mut lease)?;
        let asked = match lease {
            Some(lease) => self.ask(&client, lease, header)?,
            None => Err(FrameKind::GivenUp),
        };
        if let Err(kind) = asked {
            client.end(header.number, kind);
            self.session.wake();
        }
        self.count(header.length);
        Ok(())
    }

    /// Asks a server; an error is how the request ends instead.
    fn ask(
        &mut self,
        client: &RemoteClient,
        lease: Lease,
        header: &Header,
    ) -> Result<Result<(), FrameKind>, ClusterError> {
        let mut waiting = Some(lease);
        let asked = self.wait(client, |client| {
            let Some(lease) = waiting.take() else {
                return Ok(None);
            };
            Ok(match client.ask(lease, header.length, header.number)? {
                Asked::Sent => Some(Ok(())),
                Asked::Nobody => Some(Err(FrameKind::Lost)),
                Asked::NotNow(lease) => {
                    waiting = Some(lease);
                    None
                }
            })
        });
        match asked {
            Err(ClusterError::Node(error)) => {
                survive(error)?;
                Ok(Err(FrameKind::GivenUp))
            }
            asked => asked,
        }
    }

    /// Waits until something comes of `attempt`, the session ends, or the connection does: then the
    /// frame comes again over the next.
    fn wait<T>(
        &mut self,
        client: &RemoteClient,
        mut attempt: impl FnMut(&RemoteClient) -> Result<Option<T>, NodeError>,
    ) -> Result<T, ClusterError> {
        if let Some(done) = attempt(client)? {
            return Ok(done);
        }
        self.acknowledge(true);
        loop {
            let done = client.node.wait_until(NAP, NAP, || {
                let is_closed = self.session.is_over() || lock(&self.stream.closer).is_none();
                match is_closed {
                    true => Ok(Some(None)),
                    false => Ok(attempt(client)?.map(Some)),
                }
            })?;
            match done {
                Some(Some(done)) => return Ok(done),
                Some(None) if self.session.is_over() => return Err(ClusterError::Over),
                Some(None) => return Err(ClusterError::Closed),
                None => {}
            }
        }
    }

    /// Reads a reply into a slot and gives it to the client. One for which nobody waits is passed
    /// over.
    pub(super) fn reply(&mut self, header: &Header) -> Result<(), ClusterError> {
        let (open, channel) = (&self.session.requests.open, &self.stream.opening.channel);
        let leased = open.lease(header.number, channel, header.length);
        let mut lease = match leased {
            Ok(lease) => lease,
            Err(error) => {
                self.not_taken(error)?;
                None
            }
        };
        self.payload(header.length, &mut lease)?;
        // Only now: of a connection that breaks in between, the reply comes again over the next.
        let open = &self.session.requests.open;
        let responder = open.take(header.number, &self.stream.opening.channel);
        let replied = responder.zip(lease).map_or(Ok(true), |(responder, lease)| {
            responder.reply(lease, header.length as usize)
        });
        match replied {
            Ok(true) => {}
            Ok(false) => self.session.record.losses.not_delivered.add(1),
            Err(error) => survive(error)?,
        }
        self.count(header.length);
        self.session.wake();
        Ok(())
    }

    /// A request of a client here ends without a reply.
    pub(super) fn end_request(&self, header: &Header) {
        let open = &self.session.requests.open;
        let responder = open.take(header.number, &self.stream.opening.channel);
        match (responder, header.kind) {
            (Some(responder), FrameKind::Lost) => hop::lose(responder),
            // Dropped, it tells its client that it is given up.
            (responder, _) => drop(responder),
        }
        self.session.wake();
    }
}
