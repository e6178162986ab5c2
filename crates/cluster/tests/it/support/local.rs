//! Two programs of one host, which whatever happens between hosts leaves alone.

use hythe_node::{Node, Publisher, PublisherOptions, Subscriber, SubscriberOptions};

use super::BOUND;

/// On a channel that is in nobody's way.
pub(crate) struct Local {
    publisher: Publisher,
    subscriber: Subscriber,
}

impl Local {
    pub(crate) fn open(node: &Node) -> Self {
        let publisher = node.publisher("local", &PublisherOptions::default());
        let subscriber = node.subscriber("local", &SubscriberOptions::default());
        Self {
            publisher: publisher.expect("opened"),
            subscriber: subscriber.expect("opened"),
        }
    }

    pub(crate) fn assert_goes_on(&mut self) {
        let lease = self.publisher.lease(8).expect("a slot");
        self.publisher.publish(lease, 8).expect("published");
        assert!(self.subscriber.take(BOUND).expect("sound").is_some());
    }
}
