//! The calling end. Never keeps anything of a call: what is outstanding is in the client.

use std::time::Duration;

use hythe_abi::services::{
    CallHeader, NO_SUCH_METHOD, RESULT_TOO_LARGE, ReplyHeader, TIMEOUT_MS_MAX,
};

use super::{HEADER_BYTES, is_method};
use crate::NodeError;
use crate::buffer::{Lease, Sample};
use crate::request::{Client, PendingReply};

/// Calls methods of the servers of a channel.
#[derive(Debug)]
pub struct Caller<'a> {
    client: &'a mut Client,
    largest: u32,
}

impl<'a> Caller<'a> {
    /// Calls through this client. Calls that are outstanding belong to the client, so a caller may
    /// be made for each use.
    #[must_use]
    pub const fn new(client: &'a mut Client) -> Self {
        let largest = u32::MAX;
        Self { client, largest }
    }

    /// Takes results of at most so many bytes. A larger one is [`NodeError::ResultTooLarge`], and
    /// a server that looks does not send it.
    #[must_use]
    pub const fn largest_result(mut self, bytes: u32) -> Self {
        self.largest = bytes;
        self
    }

    /// Calls a method and waits for its result.
    ///
    /// # Errors
    /// Those of [`Caller::begin`] and [`Caller::wait`]. [`NodeError::NoReply`] if `timeout` has
    /// passed: the call is abandoned, and its reply dropped and counted when it comes.
    ///
    /// # Panics
    /// As [`Caller::begin`].
    pub fn call(
        &mut self,
        method: u32,
        argument: &[u8],
        timeout: Duration,
    ) -> Result<Sample, NodeError> {
        let mut lease = self.lease(argument.len())?;
        lease.write(HEADER_BYTES, argument);
        let lease = self.headed(lease, method, argument.len(), timeout);
        let bytes = HEADER_BYTES + argument.len();
        let reply = self.client.call(lease, bytes, timeout)?;
        self.checked(reply)
    }

    /// Begins a call, with a copy of the argument. `timeout` is told to the server.
    ///
    /// # Errors
    /// Those of [`Client::lease`] and [`Client::request`].
    ///
    /// # Panics
    /// If `method` is none of a program's own: not [`is_method`].
    pub fn begin(
        &mut self,
        method: u32,
        argument: &[u8],
        timeout: Duration,
    ) -> Result<PendingReply, NodeError> {
        let mut lease = self.lease(argument.len())?;
        lease.write(HEADER_BYTES, argument);
        self.begin_in(lease, method, argument.len(), timeout)
    }

    /// Leases a buffer for an argument of so many bytes, which is to be written from
    /// [`HEADER_BYTES`] on.
    ///
    /// # Errors
    /// As [`Client::lease`].
    pub fn lease(&self, bytes: usize) -> Result<Lease, NodeError> {
        self.client.lease(HEADER_BYTES + bytes)
    }

    /// Begins a call whose argument of so many bytes was written into its buffer.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Panics
    /// As [`Caller::begin`] and [`Client::request`].
    pub fn begin_in(
        &mut self,
        lease: Lease,
        method: u32,
        bytes: usize,
        timeout: Duration,
    ) -> Result<PendingReply, NodeError> {
        let lease = self.headed(lease, method, bytes, timeout);
        self.client.request(lease, HEADER_BYTES + bytes)
    }

    fn headed(&self, mut lease: Lease, method: u32, bytes: usize, timeout: Duration) -> Lease {
        assert!(
            is_method(method),
            "method {method} is none of a program's own"
        );
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(TIMEOUT_MS_MAX);
        let header = CallHeader {
            method,
            timeout_ms: timeout_ms.min(TIMEOUT_MS_MAX),
            arguments: [self.largest, 0, 0],
            // Fits: the buffer has as many.
            bytes: bytes as u32,
            ..CallHeader::default()
        };
        lease.write(0, &header.to_bytes());
        lease
    }

    /// Waits for the result of one call, for at most `timeout`. `None`: it has not come yet; the
    /// call is still outstanding. The result is read where the server wrote it.
    ///
    /// # Errors
    /// [`NodeError::NoSuchMethod`], [`NodeError::ResultTooLarge`], [`NodeError::MethodFailed`],
    /// [`NodeError::MalformedReply`] (which is counted as a violation), and those of
    /// [`Client::wait`]: the call is over.
    pub fn wait(
        &mut self,
        call: PendingReply,
        timeout: Duration,
    ) -> Result<Option<Sample>, NodeError> {
        let reply = self.client.wait(call, timeout)?;
        reply.map(|reply| self.checked(reply)).transpose()
    }

    /// The result, or the reason why there is none. What is no reply to a call is counted.
    fn checked(&mut self, reply: Sample) -> Result<Sample, NodeError> {
        let result = self.result_of(reply);
        if matches!(result, Err(NodeError::MalformedReply { .. })) {
            self.client.note_violation();
        }
        result
    }

    fn result_of(&self, reply: Sample) -> Result<Sample, NodeError> {
        // For errors only: a call that is answered allocates nothing.
        let channel = || self.client.channel().to_owned();
        let malformed = || NodeError::MalformedReply { channel: channel() };
        let Some(bytes) = reply.len().checked_sub(HEADER_BYTES) else {
            return Err(malformed());
        };
        let mut header = [0; HEADER_BYTES];
        reply.read(0, &mut header);
        reply.check_whole()?;
        let ReplyHeader {
            method,
            result,
            values,
            bytes: said,
        } = ReplyHeader::from_bytes(header);
        let too_large = |bytes| NodeError::ResultTooLarge {
            channel: channel(),
            method,
            bytes,
            largest: self.largest,
        };
        match result {
            _ if said as usize != bytes => Err(malformed()),
            0 if said > self.largest => Err(too_large(said)),
            0 => Ok(reply.narrow(HEADER_BYTES, bytes)),
            1.. => Err(NodeError::MethodFailed {
                channel: channel(),
                method,
                number: result,
            }),
            NO_SUCH_METHOD => Err(NodeError::NoSuchMethod {
                channel: channel(),
                method,
            }),
            RESULT_TOO_LARGE => Err(too_large(values[0])),
            _ => Err(malformed()),
        }
    }
}
