//! Subscribers that a publisher could not connect to, because a table or the queue memory is full.
//!
//! They keep nothing from the others: the publisher goes on, counts what passes them by, and tries
//! again now and then.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hythe_pool::{PoolError, PortIndex, PortInfo};

use crate::NodeError;
use crate::delivery::Published;
use crate::holders;
use crate::pool::Pool;

/// No event says when a connection or queue memory becomes free. So a retry is made this often
/// while messages are published, or requests taken.
pub(crate) const RETRY: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct UnconnectedSubscribers {
    subscribers: Vec<(PortInfo, PoolError)>,
    tried: Option<Instant>,
    /// By port and session: messages that passed it by, which it is told when there is a queue.
    missed: HashMap<(PortIndex, u32), u32>,
}

impl UnconnectedSubscribers {
    /// Is it time to try again?
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        !self.subscribers.is_empty() && self.tried.is_none_or(|tried| tried.elapsed() >= RETRY)
    }

    /// A new round of connecting.
    pub(crate) fn begin(&mut self) {
        let subscribers = std::mem::take(&mut self.subscribers);
        self.missed.retain(|&(index, session), _| {
            let mut ports = subscribers.iter().map(|(port, _)| port);
            ports.any(|port| (port.index, port.session) == (index, session))
        });
        self.tried = Some(Instant::now());
    }

    /// Remembers a refusal that may pass; anything else comes back.
    pub(crate) fn note(&mut self, subscriber: PortInfo, error: NodeError) -> Result<(), NodeError> {
        match error {
            NodeError::Pool(
                error @ (PoolError::TableFull { .. } | PoolError::QueueTooDeep { .. }),
            ) => {
                tracing::warn!(%error, participant = subscriber.member.0, "no queue to a subscriber");
                self.subscribers.push((subscriber, error));
                Ok(())
            }
            other => Err(other),
        }
    }

    /// How many there are.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        // Fits: there are at most as many as ports.
        self.subscribers.len() as u32
    }

    /// Messages that passed a subscriber by, to which there is a queue now.
    pub(crate) fn take_missed(&mut self, subscriber: &PortInfo) -> u32 {
        let missed = self.missed.remove(&(subscriber.index, subscriber.session));
        missed.unwrap_or(0)
    }

    /// What became of a message that these did not get, either.
    pub(crate) fn passed_by(
        &mut self,
        pool: &Pool,
        published: Result<Published, Box<NodeError>>,
    ) -> Result<Published, Box<NodeError>> {
        for (port, _) in &self.subscribers {
            let missed = self.missed.entry((port.index, port.session)).or_default();
            *missed = missed.saturating_add(1);
        }
        let mut published = published?;
        if published == Published::default() {
            // Nobody is there but these.
            self.first(pool).map_err(Box::new)?;
        }
        published.dropped += self.count();
        Ok(published)
    }

    /// The first refusal, with who has what there is.
    pub(crate) fn first(&self, pool: &Pool) -> Result<(), NodeError> {
        match self.subscribers.first() {
            Some((_, error)) => Err(holders::named(pool, error.clone().into())),
            None => Ok(()),
        }
    }
}
