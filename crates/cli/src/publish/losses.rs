//! Messages that do not reach everybody: counted, said once for each cause, and gone on from.
//!
//! Used by `hythe pub` and `hythe replay`. One receiver that is slow, stopped or gone is no reason
//! not to serve the others.

use std::collections::BTreeSet;

use hythe::{Lease, NodeError, PoolError, Published, Publisher};

use crate::output;
use crate::remedy;

/// What was said already.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    said: BTreeSet<String>,
}

impl Losses {
    /// Publishes; whom the message passed by is counted as dropped.
    pub(crate) fn publish(
        &mut self,
        publisher: &mut Publisher,
        lease: Lease,
        bytes: usize,
    ) -> Result<Published, NodeError> {
        let published = publisher.publish(lease, bytes);
        let (subscriber, delivered) = match &published {
            Err(
                NodeError::Blocked {
                    subscriber,
                    delivered,
                    ..
                }
                | NodeError::ReceiverGone {
                    subscriber,
                    delivered,
                    ..
                },
            ) => (subscriber.clone(), *delivered),
            _ => return published,
        };
        if let Err(error) = &published {
            self.say_once(subscriber, error);
        }
        Ok(Published {
            delivered,
            dropped: 1,
            ..Published::default()
        })
    }

    /// Is this the error of a pool whose slots all stay held? Then the message is lost, and said.
    pub(crate) fn is_full(&mut self, error: &NodeError) -> bool {
        let full = matches!(error.refusal(), Some(PoolError::PoolFull { .. }));
        if full {
            self.say_once("the pool".to_owned(), error);
        }
        full
    }

    fn say_once(&mut self, who: String, error: &NodeError) {
        if self.said.insert(who) {
            output::note(format!(
                "{error}{} (messages lost by this are counted, and not said again)",
                remedy::of_node(error)
            ));
        }
    }
}
