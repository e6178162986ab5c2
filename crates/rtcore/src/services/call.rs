//! A call of a core to its agent, and the answer (`spec/services.md`).

use hythe_abi::services::{BYTES, CallHeader, OWN_METHOD_MAX, ReplyHeader};
use hythe_node::{NodeError, Request, Responder};
use rustix::io::Errno;

/// A call, to be answered at any time. If it is dropped unanswered, the core gets an error.
#[derive(Debug)]
pub(super) struct Call {
    header: CallHeader,
    responder: Responder,
}

/// What is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// 0, or a negative error number of Linux.
    result: i32,
    values: [u32; 5],
    /// Behind the header.
    bytes: Vec<u8>,
}

impl Answer {
    /// It is done, and this came of it.
    pub(super) fn values(values: [u32; 5]) -> Self {
        Self {
            values,
            ..Self::default()
        }
    }

    /// It is done, and these bytes came of it.
    pub(super) fn bytes(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            ..Self::default()
        }
    }

    /// It is refused.
    pub(super) fn refused(why: Errno) -> Self {
        Self {
            result: -why.raw_os_error(),
            ..Self::default()
        }
    }
}

impl Call {
    /// `None`: it is no call of a method of Hythe's; the core is told that there is no answer.
    pub(super) fn of(request: Request) -> Result<Option<Self>, NodeError> {
        let sample = request.sample();
        let Some(behind) = sample.len().checked_sub(BYTES) else {
            return Ok(None);
        };
        let mut header = [0; BYTES];
        sample.read(0, &mut header);
        sample.check_whole()?;
        let header = CallHeader::from_bytes(header)
            .filter(|header| header.method > OWN_METHOD_MAX && header.bytes as usize == behind);
        Ok(header.map(|header| Self {
            header,
            // The slot goes back at once: what is behind the header, no method reads yet.
            responder: request.into_parts().1,
        }))
    }

    pub(super) const fn header(&self) -> &CallHeader {
        &self.header
    }

    /// Answers. A core that is gone, or has no slot for the answer, does not get it.
    pub(super) fn answer(self, answer: &Answer) {
        let header = ReplyHeader {
            method: self.header.method,
            result: answer.result,
            values: answer.values,
            bytes: answer.bytes.len() as u32,
        };
        let bytes = BYTES + answer.bytes.len();
        let sent = self.responder.lease(bytes).and_then(|mut lease| {
            lease.write(0, &header.to_bytes());
            lease.write(BYTES, &answer.bytes);
            self.responder.reply(lease, bytes)
        });
        if let Err(error) = sent {
            tracing::warn!(%error, "could not answer a core");
        }
    }
}
