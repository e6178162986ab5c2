//! One host may not take all places that a pool has for flows: its channels beyond its share go by
//! the agents, and lose nothing.

use crate::support::host::TestHost;
use crate::support::{BOUND, eventually};
use hythe_cluster::Direction;
use hythe_node::{PortPolicy, Publisher, PublisherOptions, Subscriber, SubscriberOptions};

/// Of the 128 connections of a small pool a quarter.
const SHARE: u32 = 32;
const CHANNELS: u32 = SHARE + 3;

/// Both ends of a channel.
struct Ends {
    publisher: Publisher,
    subscriber: Subscriber,
}

impl Ends {
    fn exchange(&mut self, number: u32) {
        let mut lease = self.publisher.lease(4).expect("a slot");
        lease.write(0, &number.to_le_bytes());
        let published = self.publisher.publish(lease, 4).expect("published");
        assert_eq!(published.delivered, 1);
        let taken = self.subscriber.take(BOUND).expect("sound");
        assert_eq!(taken.expect("comes").to_vec(), number.to_le_bytes());
    }
}

#[test]
fn host_has_flows_for_its_share_and_the_rest_goes_by_the_agents() {
    // The second has the tables of a small device.
    let (a, b) = (TestHost::trusting("a"), TestHost::small_trusting("b"));
    a.meet(&b);
    eventually("both are connected", || {
        a.is_connected_to("b") && b.is_connected_to("a")
    });
    let from = a.join_with_flows("publishers");
    let to = b.join_with_flows("subscribers");
    let timeout_ms = BOUND.as_millis() as u32;
    let options = SubscriberOptions::default()
        .policy(PortPolicy::Block { timeout_ms })
        .depth(2);
    let receiving = || {
        let session = b.status_of("a").expect("known").session;
        session.expect("connected").link.receiving
    };
    let mut number = 0_u32;
    let mut exchange = |ends: &mut [Ends]| {
        number += 1;
        ends.iter_mut().for_each(|ends| ends.exchange(number));
    };
    let mut ends: Vec<Ends> = Vec::new();
    // One after the other: what goes by the agents has a share of its own.
    for number in 0..CHANNELS {
        let name = format!("data/{number}");
        let plan = PublisherOptions::default().send_timeout(BOUND);
        let subscriber = to.subscriber(&name, &options).expect("opened");
        let mut publisher = from.publisher(&name, &plan).expect("opened");
        assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
        ends.push(Ends {
            publisher,
            subscriber,
        });
        eventually("it has a flow, or there are as many as may be", || {
            exchange(&mut ends);
            receiving() == SHARE.min(number + 1)
        });
    }
    for _ in 0..20 {
        exchange(&mut ends);
        assert_eq!(receiving(), SHARE);
    }
    let status = a.status_of("b").expect("known").session.expect("connected");
    let by_agent: Vec<_> = status
        .channels
        .into_iter()
        .filter(|channel| channel.direction == Direction::Sending && channel.flows == 0)
        .collect();
    assert_eq!(by_agent.len() as u32, CHANNELS - SHARE);
    for channel in by_agent {
        let why = &channel.why_not_better;
        assert!(why.contains("32 of 32 flows"), "{why}");
    }
    // What ends makes places for others.
    drop(ends.drain(..CHANNELS as usize / 2));
    eventually("all that are left have one", || {
        exchange(&mut ends);
        receiving() == ends.len() as u32
    });
}
