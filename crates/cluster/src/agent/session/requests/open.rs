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
pub(in crate::agent::session) struct OpenRequests(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<u64, Open>,
    /// How many each stream has; none of a stream that has none.
    counts: BTreeMap<u32, usize>,
}

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

    const fn stream(number: u64) -> u32 {
        (number >> 32) as u32
    }

    /// A request is about to be sent.
    pub(in crate::agent::session) fn add(
        &self,
        number: u64,
        channel: &Arc<str>,
        responder: Responder,
    ) {
        let channel = Arc::clone(channel);
        let mut state = lock(&self.0);
        let before = state.open.insert(number, Open { channel, responder });
        if before.is_none() {
            *state.counts.entry(Self::stream(number)).or_default() += 1;
        }
    }

    /// How many a stream has.
    pub(in crate::agent::session) fn count_of(&self, stream: u32) -> usize {
        lock(&self.0).counts.get(&stream).copied().unwrap_or(0)
    }

    /// A slot for the reply to a request. `None`: nobody waits for it any more, or never did.
    pub(in crate::agent::session) fn lease(
        &self,
        number: u64,
        channel: &str,
        bytes: u32,
    ) -> Result<Option<Lease>, NodeError> {
        let state = lock(&self.0);
        let found = state
            .open
            .get(&number)
            .filter(|open| *open.channel == *channel);
        found
            .map(|open| open.responder.lease(bytes as usize))
            .transpose()
    }

    /// It has ended: whoever gets this tells the client how.
    pub(in crate::agent::session) fn take(&self, number: u64, channel: &str) -> Option<Responder> {
        let mut state = lock(&self.0);
        let found = state.open.get(&number);
        found.filter(|open| *open.channel == *channel)?;
        let taken = state.open.remove(&number)?;
        let stream = Self::stream(number);
        if let Some(count) = state.counts.get_mut(&stream) {
            *count -= 1;
            if *count == 0 {
                state.counts.remove(&stream);
            }
        }
        Some(taken.responder)
    }

    /// All of a stream end: their server's port is closed.
    pub(in crate::agent::session) fn end_all_of(&self, stream: u32) {
        let (first, last) = (Self::number(stream, 0), Self::number(stream, u32::MAX));
        let ended: Vec<Open> = {
            let mut state = lock(&self.0);
            state.counts.remove(&stream);
            let mut of_stream = state.open.split_off(&first);
            if let Some(behind) = last.checked_add(1) {
                state.open.append(&mut of_stream.split_off(&behind));
            }
            of_stream.into_values().collect()
        };
        drop(ended);
    }
}
