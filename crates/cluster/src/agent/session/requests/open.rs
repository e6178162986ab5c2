//! Requests of clients here that the other host has, until it says what became of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hythe_node::{Lease, NodeError, Responder};

use crate::agent::context::lock;

/// The most of one stream.
pub(in crate::agent::session) const REQUESTS_MAX: usize = 4096;

/// All open requests of a session. A number begins with that of the stream that the request went
/// over, so that none is used twice.
#[derive(Debug, Default)]
pub(in crate::agent::session) struct OpenRequests(Mutex<BTreeMap<u64, Open>>);

#[derive(Debug)]
struct Open {
    channel: Arc<str>,
    responder: Responder,
}

impl OpenRequests {
    /// A number for the request of that count of a stream, from 1 on.
    pub(in crate::agent::session) const fn number(stream: u32, count: u32) -> u64 {
        (stream as u64) << 32 | count as u64
    }

    /// A request is about to be sent.
    pub(in crate::agent::session) fn add(
        &self,
        number: u64,
        channel: &Arc<str>,
        responder: Responder,
    ) {
        let channel = Arc::clone(channel);
        lock(&self.0).insert(number, Open { channel, responder });
    }

    /// How many a stream has.
    pub(in crate::agent::session) fn count_of(&self, stream: u32) -> usize {
        let (first, last) = (Self::number(stream, 0), Self::number(stream, u32::MAX));
        lock(&self.0).range(first..=last).count()
    }

    /// A slot for the reply to a request. `None`: nobody waits for it any more, or never did.
    pub(in crate::agent::session) fn lease(
        &self,
        number: u64,
        channel: &str,
        bytes: u32,
    ) -> Result<Option<Lease>, NodeError> {
        let open = lock(&self.0);
        let found = open.get(&number).filter(|open| *open.channel == *channel);
        found
            .map(|open| open.responder.lease(bytes as usize))
            .transpose()
    }

    /// It has ended: whoever gets this tells the client how.
    pub(in crate::agent::session) fn take(&self, number: u64, channel: &str) -> Option<Responder> {
        let mut open = lock(&self.0);
        open.get(&number).filter(|open| *open.channel == *channel)?;
        open.remove(&number).map(|open| open.responder)
    }

    /// All of a stream end: their server's port is closed.
    pub(in crate::agent::session) fn end_all_of(&self, stream: u32) {
        let (first, last) = (Self::number(stream, 0), Self::number(stream, u32::MAX));
        let ended: Vec<Open> = {
            let mut open = lock(&self.0);
            let mut of_stream = open.split_off(&first);
            if let Some(behind) = last.checked_add(1) {
                open.append(&mut of_stream.split_off(&behind));
            }
            of_stream.into_values().collect()
        };
        drop(ended);
    }
}
