//! Sources of the streams of request/reply channels: requests of clients here, and what became of
//! those of clients there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hythe_node::{NodeError, Responder, Sample, Server, ServerOptions};

use super::source::{Frame, Source, Step};
use super::{SendingStream, Session, Stop, lock, share};
use crate::agent::session::requests::{Answered, OpenRequests, REQUESTS_MAX, RemoteClient};
use crate::error::ClusterError;
use crate::frame::FrameKind;

/// A server's port, to clients here the other host. It closes last, and then ends what is open.
pub(super) struct Requests<'a> {
    /// `None` only while it goes.
    server: Option<Server>,
    open: &'a OpenRequests,
    channel: Arc<str>,
    stream: u32,
    count: u32,
    /// Taken, and there was no credit for it.
    waiting: Option<(Sample, Responder)>,
}

impl<'a> Requests<'a> {
    pub(super) fn new(session: &'a Session, stream: &SendingStream) -> Result<Self, ClusterError> {
        let want = stream.want();
        let options = ServerOptions::default()
            .carries(stream.opening.carries.clone().into())
            .depth(want.depth);
        let node = session.node()?;
        share::check(&node, want.depth)?;
        Ok(Self {
            server: Some(node.server(&want.channel, &options)?),
            open: &session.requests.open,
            channel: want.channel.as_str().into(),
            stream: stream.number(),
            count: 0,
            waiting: None,
        })
    }
}

impl Source for Requests<'_> {
    /// What is open is answered before the port closes: there is an end to each.
    fn look(&mut self, stream: &SendingStream) -> Result<Option<Step>, NodeError> {
        let Some(server) = &mut self.server else {
            return Ok(Some(Step::End));
        };
        stream.waits_for_credit.store(true, Ordering::Relaxed);
        let open = self.open.count_of(self.stream);
        match stream.stopping() {
            Stop::No => {}
            Stop::WhenEmpty if server.clients()? == 0 => return Ok(Some(Step::End)),
            Stop::WhenEmpty => {}
            Stop::Reopen | Stop::Now => return Ok((open == 0).then_some(Step::End)),
        }
        if open >= REQUESTS_MAX || self.count == u32::MAX || !lock(&stream.outgoing).is_open() {
            return Ok(None);
        }
        let next = match self.waiting.take() {
            Some(waiting) => Some(waiting),
            None => server.try_take()?.map(|request| request.into_parts()),
        };
        let Some((sample, responder)) = next else {
            return Ok(None);
        };
        if !lock(&stream.outgoing).is_open_for(sample.len() as u32) {
            self.waiting = Some((sample, responder));
            return Ok(None);
        }
        self.count += 1;
        let number = OpenRequests::number(self.stream, self.count);
        self.open.add(number, &self.channel, responder);
        Ok(Some(Step::Frame(Frame::of_request(Answered {
            number,
            kind: FrameKind::Message,
            reply: Some(sample),
        }))))
    }

    /// Its client is told.
    fn too_long(&mut self, number: u64) -> Option<Frame> {
        drop(self.open.take(number, &self.channel));
        None
    }
}

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        // In this order: to its clients the server has gone with what is open.
        self.server = None;
        self.open.end_all_of(self.stream);
    }
}

/// What became of requests of the other side.
pub(super) struct Replies {
    client: Arc<RemoteClient>,
    waiting: Option<Answered>,
}

impl Replies {
    pub(super) fn new(session: &Session, stream: &SendingStream) -> Result<Self, ClusterError> {
        let client = session
            .requests
            .client(&stream.opening, || session.node())?;
        let waiting = None;
        Ok(Self { client, waiting })
    }
}

impl Source for Replies {
    fn look(&mut self, stream: &SendingStream) -> Result<Option<Step>, NodeError> {
        let stop = stream.stopping();
        if stop >= Stop::Reopen {
            return Ok(Some(Step::End));
        }
        stream.waits_for_credit.store(true, Ordering::Relaxed);
        if !lock(&stream.outgoing).is_open() {
            return Ok(None);
        }
        let next = match self.waiting.take() {
            Some(waiting) => Some(waiting),
            None => self.client.next()?,
        };
        let Some(answered) = next else {
            // No stream of requests has the client any more, and all that it asked has ended.
            let is_over = Arc::strong_count(&self.client) == 1 && self.client.is_idle();
            return Ok((stop == Stop::WhenEmpty && is_over).then_some(Step::End));
        };
        let bytes = answered.reply.as_ref().map_or(0, Sample::len);
        if !lock(&stream.outgoing).is_open_for(bytes as u32) {
            self.waiting = Some(answered);
            return Ok(None);
        }
        Ok(Some(Step::Frame(Frame::of_request(answered))))
    }

    fn too_long(&mut self, number: u64) -> Option<Frame> {
        Some(Frame::of_request(Answered::without(
            number,
            FrameKind::GivenUp,
        )))
    }

    /// It may have arrived: then the other side passes this over.
    fn unconfirmed(&mut self, number: u64) {
        self.client.end(number, FrameKind::Lost);
    }
}
