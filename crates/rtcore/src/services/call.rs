//! A call of a core to its agent, and the answer (`spec/services.md`).

use hythe_abi::services::{BYTES, CallHeader, OWN_METHOD_MAX, ReplyHeader};
use hythe_node::object::SyncError;
use hythe_node::{Lease, NodeError, Request, Responder, Sample};
use rustix::io::Errno;

/// A call, to be answered at any time. If it is dropped unanswered, the core gets an error.
#[derive(Debug)]
pub(super) struct Call {
    header: CallHeader,
    /// What is behind the header, until somebody takes it.
    payload: Option<Sample>,
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
    /// It is done.
    pub(super) const DONE: Self = Self {
        result: 0,
        values: [0; 5],
        bytes: Vec::new(),
    };

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
        let Some(header) = header else {
            return Ok(None);
        };
        let (sample, responder) = request.into_parts();
        Ok(Some(Self {
            header,
            payload: Some(sample.narrow(BYTES, behind)),
            responder,
        }))
    }

    /// The payload, in the core's buffer; once.
    pub(super) const fn take_payload(&mut self) -> Option<Sample> {
        self.payload.take()
    }

    pub(super) const fn header(&self) -> &CallHeader {
        &self.header
    }

    /// Answers. A core that is gone, or has no slot for the answer, does not get it.
    pub(super) fn answer(self, answer: &Answer) {
        match self.responder.lease(BYTES + answer.bytes.len()) {
            Ok(mut lease) => {
                lease.write(BYTES, &answer.bytes);
                self.send(lease, answer, answer.bytes.len());
            }
            Err(error) => tracing::warn!(%error, "could not answer a core"),
        }
    }

    /// Answers with so many bytes, which `fill` writes into the buffer from a place on. False: the
    /// core does not get them; where it is there, it is told that there is no slot for them.
    pub(super) fn answer_filled(
        self,
        values: [u32; 5],
        bytes: usize,
        fill: impl FnOnce(&mut Lease, usize) -> Result<(), SyncError>,
    ) -> bool {
        let leased = self.responder.lease(BYTES + bytes).map_err(SyncError::from);
        let filled = leased.and_then(|mut lease| fill(&mut lease, BYTES).map(|()| lease));
        match filled {
            Ok(lease) => self.send(lease, &Answer::values(values), bytes),
            Err(error) => {
                tracing::warn!(%error, "could not give a core a message");
                self.answer(&Answer::refused(Errno::NOBUFS));
                false
            }
        }
    }

    /// Sends the answer, of which the bytes behind the header are written.
    fn send(self, mut lease: Lease, answer: &Answer, bytes: usize) -> bool {
        let header = ReplyHeader {
            method: self.header.method,
            result: answer.result,
            values: answer.values,
            bytes: bytes as u32,
        };
        lease.write(0, &header.to_bytes());
        let sent = self.responder.reply(lease, BYTES + bytes);
        sent.unwrap_or_else(|error| {
            tracing::warn!(%error, "could not answer a core");
            false
        })
    }

    /// The core expects no answer to this.
    pub(super) fn end_silently(self) {
        self.responder.end_silently();
    }
}

#[cfg(test)]
impl Answer {
    pub(super) const fn first_value(&self) -> u32 {
        self.values[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_node::{ClientOptions, Node, Pool, PoolOptions, ServerOptions};
    use std::time::Duration;

    const SECONDS: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_no_call_of_hythe_s_is_given_up() {
        let root = std::env::temp_dir().join(format!("hythe-service-{}", std::process::id()));
        let options = PoolOptions::new("calls").root(&root).bytes(12 << 20);
        let pool = Pool::open_or_create(&options).expect("pool");
        let node = Node::join(&pool, "both").expect("joins");
        let server = node.server("services", &ServerOptions::default());
        let mut server = server.expect("a server");
        let client = node.client("services", &ClientOptions::default());
        let mut client = client.expect("a client");
        let mut ask = |bytes: &[u8]| {
            let mut lease = client.lease(bytes.len()).expect("a slot");
            lease.write(0, bytes);
            let asked = client.request(lease, bytes.len()).expect("asked");
            let request = server.take(SECONDS).expect("sound").expect("a request");
            let call = Call::of(request).expect("sound");
            let is_call = call.is_some();
            if let Some(call) = call {
                call.answer(&Answer::bytes(b"there"));
            }
            let reply = client.wait(asked, SECONDS);
            assert_eq!(reply.is_ok(), is_call);
            reply.ok().flatten().map(|reply| reply.to_vec())
        };
        let header = CallHeader {
            method: OWN_METHOD_MAX + 1,
            ..CallHeader::default()
        };
        let good = ask(&header.to_bytes()).expect("answered");
        assert_eq!(&good[BYTES..], b"there");
        let own = CallHeader {
            method: OWN_METHOD_MAX,
            ..header
        };
        let long = CallHeader { bytes: 1, ..header };
        assert_eq!(ask(&[]), None);
        assert_eq!(ask(&header.to_bytes()[..BYTES - 1]), None);
        assert_eq!(ask(&own.to_bytes()), None);
        assert_eq!(ask(&long.to_bytes()), None);
        assert_eq!(ask(&[&header.to_bytes()[..], &[0]].concat()), None);
        assert_eq!(ask(&[0xFF; BYTES]), None);
        drop((client, server, node));
        std::fs::remove_dir_all(&root).expect("removed");
    }
}
