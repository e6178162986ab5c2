//! Making a connection between two ports.
//!
//! A port that closes meanwhile sees the connection, or the sender sees the closed port: each looks
//! behind a full barrier.

use std::sync::Arc;

use hythe_pool::{ConnectionInfo, PortIndex, PortInfo, PortPolicy, QueuePlan};

use super::queue_target::QueueTarget;
use crate::NodeError;
use crate::participant::Participant;
use crate::quota::Outstanding;
use crate::wait::ring_port;

/// A connection from a port to another. `None`: that closed meanwhile.
pub(super) fn connect(
    shared: &Arc<Participant>,
    port: PortIndex,
    receiver: PortInfo,
    outstanding: Outstanding,
) -> Result<Option<QueueTarget>, NodeError> {
    connect_with(shared, port, receiver, outstanding, |_| Ok(()))
}

/// The same; `begin` sends the first things over it.
pub(super) fn connect_with(
    shared: &Arc<Participant>,
    port: PortIndex,
    receiver: PortInfo,
    outstanding: Outstanding,
    begin: impl FnOnce(&mut QueueTarget) -> Result<(), NodeError>,
) -> Result<Option<QueueTarget>, NodeError> {
    let control = shared.pool().control();
    let queue = QueuePlan {
        capacity: receiver.depth,
        evicts_oldest: receiver.policy == PortPolicy::EvictOldest,
    };
    let (member, index) = (receiver.member, receiver.index);
    let info = shared.act(|me| me.connect(control, port, member, index, queue))?;
    let mut target = QueueTarget::new(
        shared,
        control.tables().producer_end(info),
        receiver,
        outstanding,
    );
    // Before the look below: what a receiver that closes now does not take, whoever leaves last
    // releases.
    if let Err(error) = begin(&mut target) {
        // The next attempt makes another.
        leave_unattended(shared, &info)?;
        return Err(error);
    }
    hythe_memory::full_barrier();
    let tables = control.tables();
    if !tables.takes_connections(&receiver) || !tables.consumer_stays(&info) {
        // It closes while we connect, and may have looked before there was something to see. Or it
        // has closed and left what it saw, and its number is another port's by now.
        leave_unattended(shared, &info)?;
        return Ok(None);
    }
    // Behind what was sent first: a wait set looks for that.
    ring_port(control, member, index);
    Ok(Some(target))
}

/// Leaves a connection just made to a port that closed meanwhile: for both sides, unless the other
/// has begun with it.
fn leave_unattended(shared: &Participant, info: &ConnectionInfo) -> Result<(), NodeError> {
    let (control, regions) = (shared.pool().control(), shared.pool().regions());
    Ok(shared.act(|member| member.leave_unattended(control, regions, info))?)
}

#[cfg(test)]
mod tests {
    use hythe_pool::PortKind;

    use super::*;
    use crate::quota::Quota;
    use crate::{Node, Pool, PoolOptions, PublisherOptions, SubscriberOptions};

    #[test]
    fn port_that_took_over_a_number_gets_its_own_connection() {
        let root = std::env::temp_dir().join(format!("hythe-connecting-{}", std::process::id()));
        let options = PoolOptions::new("test").root(&root).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        let [from, to] = ["from", "to"].map(|name| Node::join(&pool, name).expect("joins"));
        let publisher = from.publisher("news", &PublisherOptions::default());
        let _publisher = publisher.expect("opens");
        let open = || to.subscriber("news", &SubscriberOptions::default());
        let mut subscriber = Some(open().expect("opens"));
        let tables = || pool.control().tables();
        let port_of = |kind| tables().ports().find(|port| port.kind == kind);
        let port = port_of(PortKind::Publisher).expect("open").index;
        let receiver = port_of(PortKind::Subscriber).expect("open");
        let quota = Quota::for_receivers(&pool, 1);
        let connect = |between: &mut dyn FnMut()| {
            let outstanding = Outstanding::for_quota(&quota);
            connect_with(from.participant(), port, receiver, outstanding, |_| {
                between();
                Ok(())
            })
            .expect("sound")
        };

        // The first one closes and another opens, while the publisher is between its steps.
        let gone = connect(&mut || {
            drop(subscriber.take());
            subscriber = Some(open().expect("opens"));
        });
        let now = port_of(PortKind::Subscriber).expect("open");
        assert_eq!(now.index, receiver.index, "the number is used again");
        assert!(gone.is_none(), "nobody takes from it");
        assert!(connect(&mut || ()).is_some());
        drop((subscriber, from, to));
        std::fs::remove_dir_all(root).expect("own");
    }
}
