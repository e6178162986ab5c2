//! What waits to be sent over a control connection. Many threads put something in, one sends.
//!
//! Acknowledgements of a stream and counts of a channel's ends replace each other; events of a
//! channel and messages that are not taken join. So a slow connection keeps no thread waiting and
//! costs no memory. Never sends itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::agent::context::lock;
use crate::agent::local::ChannelKey;
use crate::error::ClusterError;
use crate::frame::{Control, Ends, NotTaken};

/// The most messages that wait, beside acknowledgements; and the most channels whose ends do.
const MESSAGES_MAX: usize = 8192;

/// What waits.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    condition: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By stream: up to where.
    acknowledgements: BTreeMap<u32, u64>,
    /// Messages of a stream that are not taken, and why.
    not_taken: BTreeMap<(u32, NotTaken), u32>,
    echo: Option<u64>,
    /// By channel.
    events: BTreeMap<String, u64>,
    ends: BTreeMap<ChannelKey, Ends>,
    messages: VecDeque<Control>,
    is_closed: bool,
}

impl Outbox {
    /// All frames of a stream up to this one are taken.
    pub(crate) fn acknowledge(&self, stream: u32, through: u64) {
        lock(&self.waiting).acknowledgements.insert(stream, through);
        self.condition.notify_one();
    }

    /// A message of a stream is not taken. It joins those that wait.
    pub(crate) fn note_not_taken(&self, stream: u32, why: NotTaken) {
        let mut waiting = lock(&self.waiting);
        let messages = waiting.not_taken.entry((stream, why)).or_default();
        *messages = messages.saturating_add(1);
        drop(waiting);
        self.condition.notify_one();
    }

    /// The other side's keep-alive goes back.
    pub(crate) fn echo(&self, number: u64) {
        lock(&self.waiting).echo = Some(number);
        self.condition.notify_one();
    }

    /// Events were raised on a channel. They join those that wait.
    pub(crate) fn raise(&self, channel: &str, events: u64) {
        let mut waiting = lock(&self.waiting);
        match waiting.events.get_mut(channel) {
            Some(known) => *known |= events,
            None => drop(waiting.events.insert(channel.to_owned(), events)),
        }
        drop(waiting);
        self.condition.notify_one();
    }

    /// These are the ends of a channel now, in place of those that wait.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(crate) fn count(&self, ends: Ends) -> Result<(), ClusterError> {
        let mut waiting = lock(&self.waiting);
        waiting.ends.insert(ends.key(), ends);
        check(waiting.ends.len())?;
        drop(waiting);
        self.condition.notify_one();
        Ok(())
    }

    /// # Errors
    /// [`ClusterError::TooMany`]: the other side takes none of them.
    pub(crate) fn put(&self, message: Control) -> Result<(), ClusterError> {
        let mut waiting = lock(&self.waiting);
        waiting.messages.push_back(message);
        check(waiting.messages.len())?;
        self.condition.notify_one();
        Ok(())
    }

    /// Nothing is sent any more.
    pub(crate) fn close(&self) {
        lock(&self.waiting).is_closed = true;
        self.condition.notify_one();
    }

    /// Waits until there is something, at most for `timeout`, and moves it to `into`. False:
    /// closed.
    pub(crate) fn take(&self, timeout: Duration, into: &mut Vec<Control>) -> bool {
        let waiting = lock(&self.waiting);
        let waited = self
            .condition
            .wait_timeout_while(waiting, timeout, |waiting| {
                let is_empty = waiting.acknowledgements.is_empty()
                    && waiting.not_taken.is_empty()
                    && waiting.messages.is_empty()
                    && waiting.ends.is_empty()
                    && waiting.echo.is_none()
                    && waiting.events.is_empty();
                is_empty && !waiting.is_closed
            });
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        while let Some((stream, through)) = waiting.acknowledgements.pop_first() {
            into.push(Control::Acknowledge { stream, through });
        }
        while let Some(((stream, why), messages)) = waiting.not_taken.pop_first() {
            into.push(Control::NotTaken {
                stream,
                messages,
                why,
            });
        }
        into.extend(waiting.echo.take().map(|number| Control::Echo { number }));
        while let Some((channel, events)) = waiting.events.pop_first() {
            into.push(Control::Raise { channel, events });
        }
        into.extend(waiting.messages.drain(..));
        // First what is gone: the other side keeps so many and no more.
        let ends = std::mem::take(&mut waiting.ends).into_values();
        let (gone, there): (Vec<_>, Vec<_>) = ends.partition(Ends::is_none);
        into.extend(gone.into_iter().chain(there).map(Control::Ends));
        !waiting.is_closed
    }
}

/// So many may wait.
fn check(waiting: usize) -> Result<(), ClusterError> {
    match waiting <= MESSAGES_MAX {
        true => Ok(()),
        false => Err(ClusterError::TooMany {
            what: "messages that it does not read",
            most: MESSAGES_MAX,
        }),
    }
}
