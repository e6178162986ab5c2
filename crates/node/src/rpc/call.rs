//! A call that was received, and the answers to it.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use hythe_abi::services::{CallHeader, NO_SUCH_METHOD, RESULT_TOO_LARGE, ReplyHeader};
use hythe_pool::PoolError;

use super::{HEADER_BYTES, is_method};
use crate::NodeError;
use crate::buffer::{Lease, Sample};
use crate::request::{Request, Responder, Server};

/// A call, to be answered by any thread, at any time. If it is dropped unanswered, its caller gets
/// an error.
///
/// Each answer returns false if the caller is gone: nobody has got it, and it is counted as
/// dropped.
#[derive(Debug)]
pub struct Call {
    header: CallHeader,
    argument: Sample,
    responder: Responder,
}

impl Call {
    /// Takes the next call, waiting for at most `timeout`. `None`: there was none. What is no call
    /// is given up, and counted as a violation.
    ///
    /// # Errors
    /// As [`Server::take`].
    pub fn take(server: &mut Server, timeout: Duration) -> Result<Option<Self>, NodeError> {
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let Some(request) = server.take(left)? else {
                return Ok(None);
            };
            if let Some(call) = Self::of(request)? {
                return Ok(Some(call));
            }
            server.note_violation();
            if start.elapsed() >= timeout {
                return Ok(None);
            }
        }
    }

    fn of(request: Request) -> Result<Option<Self>, NodeError> {
        let Some(bytes) = request.sample().len().checked_sub(HEADER_BYTES) else {
            return Ok(None);
        };
        let mut header = [0; HEADER_BYTES];
        request.sample().read(0, &mut header);
        request.sample().check_whole()?;
        let header = CallHeader::from_bytes(header)
            .filter(|header| is_method(header.method) && header.bytes as usize == bytes);
        Ok(header.map(|header| {
            let (payload, responder) = request.into_parts();
            Self {
                header,
                argument: payload.narrow(HEADER_BYTES, bytes),
                responder,
            }
        }))
    }

    /// Which method is called.
    #[must_use]
    pub const fn method(&self) -> u32 {
        self.header.method
    }

    /// Number of the caller's task if it is on a core, 0: none.
    #[must_use]
    pub const fn task(&self) -> u32 {
        self.header.task
    }

    /// How long the caller waits.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        Duration::from_millis(self.header.timeout_ms as u64)
    }

    /// The argument, where the caller wrote it.
    #[must_use]
    pub const fn argument(&self) -> &Sample {
        &self.argument
    }

    /// The largest result that the caller takes.
    #[must_use]
    pub const fn largest_result(&self) -> usize {
        self.header.arguments[0] as usize
    }

    /// Answers with a copy of the result. One that is larger than the caller takes, or than any
    /// buffer, is not sent; the caller is told its size.
    ///
    /// # Errors
    /// Those of [`Call::lease`] and [`Responder::reply`]; the caller gets an error, too.
    pub fn reply(self, result: &[u8]) -> Result<bool, NodeError> {
        if result.len() > self.largest_result() {
            return self.refuse_size(result.len());
        }
        match self.lease(result.len()) {
            Ok(mut lease) => {
                lease.write(HEADER_BYTES, result);
                self.reply_in(lease, result.len())
            }
            Err(error) if is_too_large(&error) => self.refuse_size(result.len()),
            Err(error) => Err(error),
        }
    }

    /// Leases a buffer for a result of so many bytes, which is to be written from [`HEADER_BYTES`]
    /// on.
    ///
    /// # Errors
    /// As [`Responder::lease`].
    pub fn lease(&self, bytes: usize) -> Result<Lease, NodeError> {
        self.responder.lease(HEADER_BYTES + bytes)
    }

    /// Answers with a result of so many bytes, written into its buffer. One that is larger than the
    /// caller takes is not sent; the caller is told its size.
    ///
    /// # Errors
    /// As [`Responder::reply`].
    ///
    /// # Panics
    /// As [`Responder::reply`].
    pub fn reply_in(self, lease: Lease, bytes: usize) -> Result<bool, NodeError> {
        if bytes > self.largest_result() {
            return self.answer(lease, RESULT_TOO_LARGE, value_of(bytes), 0);
        }
        self.answer(lease, 0, 0, bytes)
    }

    /// Answers that the method failed, with a number of its own, at most 2^31 - 1.
    ///
    /// # Errors
    /// Those of [`Call::lease`] and [`Responder::reply`]; the caller gets an error, too.
    ///
    /// # Panics
    /// If the number is larger.
    pub fn fail(self, number: NonZeroU32) -> Result<bool, NodeError> {
        let number = i32::try_from(number.get());
        assert!(number.is_ok(), "the number of a failure has 31 bits");
        let lease = self.lease(0)?;
        self.answer(lease, number.unwrap_or(i32::MAX), 0, 0)
    }

    /// Answers that there is no such method.
    ///
    /// # Errors
    /// As [`Call::fail`].
    pub fn refuse_method(self) -> Result<bool, NodeError> {
        let lease = self.lease(0)?;
        self.answer(lease, NO_SUCH_METHOD, 0, 0)
    }

    /// Answers that the result would have so many bytes, which is more than the caller takes.
    ///
    /// # Errors
    /// As [`Call::fail`].
    pub fn refuse_size(self, bytes: usize) -> Result<bool, NodeError> {
        let lease = self.lease(0)?;
        self.answer(lease, RESULT_TOO_LARGE, value_of(bytes), 0)
    }

    fn answer(
        self,
        mut lease: Lease,
        result: i32,
        value: u32,
        bytes: usize,
    ) -> Result<bool, NodeError> {
        let header = ReplyHeader {
            method: self.header.method,
            result,
            values: [value, 0, 0, 0, 0],
            // Fits: the buffer has as many.
            bytes: bytes as u32,
        };
        lease.write(0, &header.to_bytes());
        self.responder.reply(lease, HEADER_BYTES + bytes)
    }
}

/// What a header can say; whatever does not fit stands for "very large".
fn value_of(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn is_too_large(error: &NodeError) -> bool {
    matches!(error.refusal(), Some(PoolError::TooLarge { .. }))
}
