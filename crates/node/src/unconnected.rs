//! Subscribers that a publisher could not connect to, because a table or the queue memory is full.
//!
//! They keep nothing from the others: the publisher goes on, counts what passes them by, and tries
//! again now and then.

use std::time::{Duration, Instant};

use hythe_pool::{PoolError, PortInfo};

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
}

impl UnconnectedSubscribers {
    /// Is it time to try again?
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        !self.subscribers.is_empty() && self.tried.is_none_or(|tried| tried.elapsed() >= RETRY)
    }

    /// A new round of connecting.
    pub(crate) fn begin(&mut self) {
        self.subscribers.clear();
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

    /// What became of a message that these did not get, either.
    pub(crate) fn passed_by(
        &self,
        pool: &Pool,
        published: Result<Published, Box<NodeError>>,
    ) -> Result<Published, Box<NodeError>> {
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
