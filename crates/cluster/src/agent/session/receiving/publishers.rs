//! The publishers of this pool that stand for those of a stream.

use std::collections::BTreeMap;
use std::time::Duration;

use hythe_node::hop;
use hythe_node::{HISTORY_MAX, Lease, Node, Publisher, PublisherOptions};

use crate::agent::session::share;
use crate::error::ClusterError;
use crate::frame::Opening;

/// How long a message may be held up by a pool without a free slot, or by a receiver that seemed to
/// have free capacity. For subscribers that block it is held up for as long as they ask, before it
/// is published.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// One for each number.
#[derive(Debug)]
pub(super) struct Publishers {
    /// `None` when the stream has ended.
    node: Option<Node>,
    channel: String,
    options: PublisherOptions,
    by_number: BTreeMap<u32, Publisher>,
}

impl Publishers {
    pub(super) fn new(node: Node, opening: &Opening, history: u32) -> Self {
        let options = PublisherOptions::default()
            .carries(opening.carries.clone().into())
            .send_timeout(SEND_TIMEOUT)
            .history(history.min(HISTORY_MAX));
        Self {
            node: Some(node),
            channel: opening.channel.clone(),
            options,
            by_number: BTreeMap::new(),
        }
    }

    /// The one with this number, opened when it is first needed.
    fn get(&mut self, number: u32) -> Result<Option<&mut Publisher>, ClusterError> {
        use std::collections::btree_map::Entry;
        let Some(node) = &self.node else {
            return Ok(None);
        };
        Ok(Some(match self.by_number.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                share::check(node, 0)?;
                vacant.insert(node.publisher(&self.channel, &self.options)?)
            }
        }))
    }

    /// A slot for the next message of a publisher. `None`: the stream has ended.
    pub(super) fn lease(&mut self, number: u32, bytes: u32) -> Result<Option<Lease>, ClusterError> {
        let publisher = self.get(number)?;
        publisher
            .map(|publisher| Ok(publisher.lease(bytes as usize)?))
            .transpose()
    }

    /// For how long subscribers would hold the message up at most; `None`: not at all.
    pub(super) fn held_up(
        &mut self,
        number: u32,
        lease: &mut Lease,
        bytes: u32,
    ) -> Result<Option<Duration>, ClusterError> {
        match self.get(number)? {
            Some(publisher) => Ok(hop::held_up(publisher, lease, bytes as usize)?),
            None => Ok(None),
        }
    }

    /// Publishes a message; says how many subscribers missed it. With `is_late` nobody is waited
    /// for any more.
    pub(super) fn publish(
        &mut self,
        number: u32,
        lease: Lease,
        bytes: u32,
        is_late: bool,
    ) -> Result<u32, ClusterError> {
        let Some(publisher) = self.get(number)? else {
            return Ok(0);
        };
        let published = match is_late {
            false => publisher.publish(lease, bytes as usize)?,
            true => hop::publish_at_once(publisher, lease, bytes as usize)?,
        };
        Ok(published.dropped + published.evicted)
    }

    /// The subscribers count so many messages as missing.
    pub(super) fn note_missed(&mut self, number: u32, messages: u32) -> Result<(), ClusterError> {
        match self.get(number)? {
            Some(publisher) => {
                // Those who are not connected yet would not hear of it.
                publisher.subscribers()?;
                Ok(hop::note_missed(publisher, messages)?)
            }
            None => Ok(()),
        }
    }

    /// Connects to subscribers that have come, who want so much history: those get what is kept,
    /// and as much is kept from now on.
    pub(super) fn show_new_subscribers(&mut self, history: u32) {
        let history = history.min(HISTORY_MAX);
        self.options = self.options.clone().history(history);
        for publisher in self.by_number.values_mut() {
            let shown = publisher.subscribers();
            if let Err(error) = shown.and(hop::extend_history(publisher, history)) {
                tracing::warn!(channel = self.channel, %error, "a subscriber gets no history");
            }
        }
    }

    pub(super) fn close(&mut self, number: u32) {
        self.by_number.remove(&number);
    }

    /// Is none open?
    pub(super) fn are_none(&self) -> bool {
        self.by_number.is_empty()
    }

    pub(super) fn close_all(&mut self) {
        self.by_number.clear();
        self.node = None;
    }
}
