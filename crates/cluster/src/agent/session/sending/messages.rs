//! Messages of publishers, taken from the queue of a subscriber.

use std::sync::atomic::Ordering;

use hythe_node::hop::{self, Origin};
use hythe_node::{NodeError, Sample, Subscriber, SubscriberOptions};

use super::source::{Source, Step};
use super::{SendingStream, Session, Stop, lock};
use crate::error::ClusterError;

/// Messages of publishers.
pub(super) struct Messages {
    subscriber: Subscriber,
    /// What its subscriber had missed when that was last looked at.
    dropped: u64,
    /// Taken, and there was no credit for it.
    waiting: Option<(Sample, Origin)>,
}

impl Messages {
    pub(super) fn new(session: &Session, stream: &SendingStream) -> Result<Self, ClusterError> {
        let want = &stream.want;
        let options = SubscriberOptions::default()
            .carries(stream.opening.carries.clone().into())
            .depth(want.depth)
            .policy(want.policy.into())
            .history(want.history.min(want.depth));
        Ok(Self {
            subscriber: session.node()?.subscriber(&want.channel, &options)?,
            dropped: 0,
            waiting: None,
        })
    }
}

impl Source for Messages {
    fn look(&mut self, stream: &SendingStream) -> Result<Option<Step>, NodeError> {
        let stop = stream.stopping();
        if stop >= Stop::Reopen {
            return Ok(Some(Step::End));
        }
        stream.waits_for_credit.store(true, Ordering::Relaxed);
        if !lock(&stream.outgoing).is_open() {
            return Ok(None);
        }
        let next = match self.waiting.take() {
            Some(waiting) => Some(waiting),
            None => hop::try_take_from(&mut self.subscriber)?,
        };
        let Some((sample, origin)) = next else {
            let closed = lock(&stream.publishers).take_closed(&self.subscriber);
            let is_over = stop == Stop::WhenEmpty && self.subscriber.publishers()? == 0;
            return Ok(closed.map(Step::Closed).or(is_over.then_some(Step::End)));
        };
        if !lock(&stream.outgoing).is_open_for(sample.len() as u32) {
            self.waiting = Some((sample, origin));
            return Ok(None);
        }
        Ok(Some(Step::Send(sample, origin)))
    }

    fn take_dropped(&mut self) -> u64 {
        let dropped = self.subscriber.statistics().dropped;
        dropped - std::mem::replace(&mut self.dropped, dropped)
    }
}
