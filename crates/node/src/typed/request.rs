//! Typed requests and replies, over the ports for bytes.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use super::{Carried, SKIPPED_MAX, TypedSample, request_type};
use crate::wait_set::Waitable;
use crate::wait_set::sealed::{Parts, PortParts};
use crate::{
    Client, ClientOptions, Node, NodeError, PendingReply, Request, Responder, Server, ServerOptions,
};

impl Node {
    /// Opens a client that asks with `Q` and is answered with `R`; each a value, or a slice.
    ///
    /// # Errors
    /// As [`Node::client`].
    pub fn typed_client<Q: Carried + ?Sized, R: Carried + ?Sized>(
        &self,
        channel: &str,
        options: &ClientOptions,
    ) -> Result<TypedClient<Q, R>, NodeError> {
        let options = options.clone().carries(request_type::<Q, R>());
        Ok(TypedClient {
            client: self.client(channel, &options)?,
            of: PhantomData,
        })
    }

    /// Opens a server that is asked with `Q` and answers with `R`; each a value, or a slice.
    ///
    /// # Errors
    /// As [`Node::server`].
    pub fn typed_server<Q: Carried + ?Sized, R: Carried + ?Sized>(
        &self,
        channel: &str,
        options: &ServerOptions,
    ) -> Result<TypedServer<Q, R>, NodeError> {
        let options = options.clone().carries(request_type::<Q, R>());
        Ok(TypedServer {
            server: self.server(channel, &options)?,
            of: PhantomData,
        })
    }
}

/// A client of values or slices.
#[derive(Debug)]
pub struct TypedClient<Q: Carried + ?Sized, R: Carried + ?Sized> {
    client: Client,
    of: PhantomData<fn(&Q, &R)>,
}

impl<Q: Carried + ?Sized, R: Carried + ?Sized> Waitable for TypedClient<Q, R> {}

impl<Q: Carried + ?Sized, R: Carried + ?Sized> Parts for TypedClient<Q, R> {
    fn parts(&mut self) -> PortParts<'_> {
        self.client.parts()
    }
}

impl<Q: Carried + ?Sized, R: Carried + ?Sized> TypedClient<Q, R> {
    /// Asks, without waiting for the reply.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn request(&mut self, question: &Q) -> Result<PendingReply, NodeError> {
        let bytes = question.as_bytes();
        let mut lease = self.client.lease(bytes.len())?;
        lease.write(0, bytes);
        self.client.request(lease, bytes.len())
    }

    /// Asks, and waits for the reply for at most `timeout`.
    ///
    /// # Errors
    /// As [`Client::call`]; [`NodeError::NotThisType`] if the reply has a wrong length, which is
    /// counted as a violation.
    pub fn call(&mut self, question: &Q, timeout: Duration) -> Result<TypedSample<R>, NodeError> {
        let bytes = question.as_bytes();
        let mut lease = self.client.lease(bytes.len())?;
        lease.write(0, bytes);
        let reply = self.client.call(lease, bytes.len(), timeout)?;
        TypedSample::new(reply).inspect_err(|_| self.client.note_violation())
    }

    /// Waits for the reply to one request, for at most `timeout`. `None`: it has not come yet.
    ///
    /// # Errors
    /// As [`Client::wait`] and [`TypedClient::call`].
    pub fn wait(
        &mut self,
        request: PendingReply,
        timeout: Duration,
    ) -> Result<Option<TypedSample<R>>, NodeError> {
        let reply = self.client.wait(request, timeout)?;
        let typed = reply.map(TypedSample::new).transpose();
        typed.inspect_err(|_| self.client.note_violation())
    }

    /// The port for bytes: to wait for servers, to abandon requests, to see what was counted.
    pub const fn raw(&mut self) -> &mut Client {
        &mut self.client
    }
}

/// A server of values or slices.
#[derive(Debug)]
pub struct TypedServer<Q: Carried + ?Sized, R: Carried + ?Sized> {
    server: Server,
    of: PhantomData<fn(&Q, &R)>,
}

impl<Q: Carried + ?Sized, R: Carried + ?Sized> Waitable for TypedServer<Q, R> {}

impl<Q: Carried + ?Sized, R: Carried + ?Sized> Parts for TypedServer<Q, R> {
    fn parts(&mut self) -> PortParts<'_> {
        self.server.parts()
    }
}

impl<Q: Carried + ?Sized, R: Carried + ?Sized> TypedServer<Q, R> {
    /// Takes the next request, waiting for at most `timeout`. `None`: there was none. One of a
    /// wrong length is given up, which its client hears of, and counted as a violation.
    ///
    /// # Errors
    /// As [`Server::take`].
    pub fn take(&mut self, timeout: Duration) -> Result<Option<TypedRequest<Q, R>>, NodeError> {
        let (start, mut late) = (Instant::now(), 0);
        while late < SKIPPED_MAX {
            let left = timeout.saturating_sub(start.elapsed());
            let Some(request) = self.server.take(left)? else {
                return Ok(None);
            };
            if Q::takes(request.sample().len()) {
                return TypedRequest::new(request).map(Some);
            }
            self.server.note_violation();
            late += u32::from(left.is_zero());
        }
        Ok(None)
    }

    /// The port for bytes: to see clients and what was counted.
    pub const fn raw(&mut self) -> &mut Server {
        &mut self.server
    }
}

/// A request with its type, to be read and answered. Dropped unanswered, it tells its client so.
#[derive(Debug)]
pub struct TypedRequest<Q: Carried + ?Sized, R: Carried + ?Sized> {
    /// What was asked.
    pub question: TypedSample<Q>,
    responder: Responder,
    of: PhantomData<fn(&R)>,
}

impl<Q: Carried + ?Sized, R: Carried + ?Sized> TypedRequest<Q, R> {
    fn new(request: Request) -> Result<Self, NodeError> {
        let (sample, responder) = request.into_parts();
        Ok(Self {
            question: TypedSample::new(sample)?,
            responder,
            of: PhantomData,
        })
    }

    /// Copies a reply into a buffer and sends it. False: the client is gone, or its queue is full;
    /// the reply is counted as dropped.
    ///
    /// # Errors
    /// As [`Node::lease`]; a damaged pool.
    pub fn reply(self, answer: &R) -> Result<bool, NodeError> {
        let bytes = answer.as_bytes();
        let mut lease = self.responder.lease(bytes.len())?;
        lease.write(0, bytes);
        self.responder.reply(lease, bytes.len())
    }

    /// Replies with a received value without copying. False: as [`TypedRequest::reply`].
    ///
    /// # Errors
    /// As [`Responder::forward`].
    pub fn forward(self, answer: TypedSample<R>) -> Result<bool, NodeError> {
        drop(self.question);
        self.responder.forward(answer.into_raw())
    }
}

impl<Q: Carried + ?Sized> TypedRequest<Q, Q> {
    /// Replies with the buffer that the request came in, without copying. False: as
    /// [`TypedRequest::reply`].
    ///
    /// # Errors
    /// As [`Request::reply_in_kind`].
    pub fn reply_in_kind(self) -> Result<bool, NodeError> {
        self.responder.forward(self.question.into_raw())
    }
}
