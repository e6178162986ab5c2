//! One connection of a client: bytes until they are requests, and how long it may keep us waiting.
//!
//! The service owns it. Between calls it holds at most [`Limits::message_bytes`] of what was
//! received.

use std::net::SocketAddr;

use super::limits::Limits;
use super::message;
use super::status::Refusal;

/// Names a connection for as long as the service lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

#[derive(Debug)]
pub(crate) struct Connection {
    /// Where the client is; IPv4 as IPv4, whatever socket it came through.
    pub(crate) peer: SocketAddr,
    /// What the client reached us as.
    pub(crate) local: SocketAddr,
    received: Vec<u8>,
    /// A request came.
    is_acquainted: bool,
    /// When the wait for the next request began, or the request itself.
    since_ns: u64,
    /// Nothing more is read from it.
    is_over: bool,
    /// Requests to the client so far, and those whose answers may still come.
    asked: u32,
    unanswered: u32,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    Silent,
    Slow,
    Idle,
}

impl Connection {
    pub(crate) fn new(peer: SocketAddr, local: SocketAddr, now_ns: u64) -> Self {
        let canonical = |address: SocketAddr| match address.ip().to_canonical() {
            ip if ip == address.ip() => address, // keeps the scope of a link-local address
            ip => SocketAddr::new(ip, address.port()),
        };
        Self {
            peer: canonical(peer),
            local: canonical(local),
            received: Vec::new(),
            is_acquainted: false,
            since_ns: now_ns,
            is_over: false,
            asked: 0,
            unanswered: 0,
        }
    }

    /// How many bytes may be received.
    pub(crate) fn free_capacity(&self, limits: &Limits) -> usize {
        if self.is_over {
            return 0;
        }
        limits.message_bytes.saturating_sub(self.received.len())
    }

    /// Takes as many of `bytes` as there is free capacity for.
    pub(crate) fn receive(&mut self, bytes: &[u8], limits: &Limits, now_ns: u64) {
        let free_capacity = self.free_capacity(limits);
        let was_empty = self.received.is_empty();
        self.received
            .extend_from_slice(&bytes[..bytes.len().min(free_capacity)]);
        self.skip_line_breaks();
        // A client that was never heard of has no more time for bytes than for silence.
        if was_empty && !self.received.is_empty() && self.is_acquainted {
            self.since_ns = now_ns;
        }
    }

    /// RFC 2326, section 4.1: empty lines in front of a request mean nothing.
    fn skip_line_breaks(&mut self) {
        let breaks = self.received.iter();
        let breaks = breaks
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count();
        self.received.drain(..breaks);
    }

    /// The next whole request, as bytes.
    pub(crate) fn next(
        &mut self,
        limits: &Limits,
        now_ns: u64,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        if self.is_over || self.received.is_empty() {
            return Ok(None);
        }
        let Some(bytes) = message::split(&self.received, limits.message_bytes)? else {
            return Ok(None);
        };
        let message = self.received.drain(..bytes).collect();
        self.skip_line_breaks();
        self.is_acquainted = true;
        self.since_ns = now_ns;
        Ok(Some(message))
    }

    /// A request is sent to the client; its number.
    pub(crate) fn ask(&mut self) -> u32 {
        self.asked = self.asked.wrapping_add(1);
        self.unanswered += 1;
        self.asked
    }

    /// Is a message the answer to one of our requests? Whatever it says, nothing depends on it.
    pub(crate) fn is_answer(&mut self, message: &[u8]) -> bool {
        let is_answer = self.unanswered > 0 && message.starts_with(b"RTSP/");
        self.unanswered -= u32::from(is_answer);
        is_answer
    }

    /// The sequence number of what [`Self::next`] refused.
    pub(crate) fn sequence_number(&self) -> Option<u32> {
        message::sequence_number(&self.received)
    }

    /// Reads nothing more: where a message ends is not known.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
        self.received = Vec::new();
    }

    /// Did the client keep us waiting for too long? One with a session may be silent: media is its
    /// keep-alive.
    pub(crate) fn overdue(
        &self,
        limits: &Limits,
        now_ns: u64,
        has_session: bool,
    ) -> Option<Overdue> {
        let (overdue, limit_ns) = match (self.is_acquainted, self.received.is_empty()) {
            (false, _) => (Overdue::Silent, limits.first_request_ns),
            (true, false) => (Overdue::Slow, limits.message_ns),
            (true, true) if has_session => return None,
            (true, true) => (Overdue::Idle, limits.idle_ns),
        };
        (now_ns.saturating_sub(self.since_ns) >= limit_ns).then_some(overdue)
    }
}
