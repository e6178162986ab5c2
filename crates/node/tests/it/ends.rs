//! What this host has on its channels, as the agent of other hosts asks for it; and when it has to
//! ask again.

use crate::support::{BOUND, Root};
use hythe_node::hop::{ChannelEnds, HopNode as _, ends, epoch, join_host};
use hythe_node::{
    ChannelType, ClientOptions, Node, Pool, PortKind, PortPolicy, PublisherOptions, ServerOptions,
    SubscriberOptions,
};
use hythe_testing::watched;

fn on(pool: &Pool, channel: &str) -> Option<ChannelEnds> {
    ends(pool)
        .into_iter()
        .find(|found| found.channel.name == channel)
}

fn kinds(found: &ChannelEnds) -> Vec<(PortKind, bool)> {
    let ends = found.ends.iter();
    ends.map(|end| (end.kind, end.receives())).collect()
}

#[test]
fn ends_of_processes_are_listed_and_those_of_hosts_are_not() {
    let root = Root::new();
    let pool = root.pool();
    let local = Node::join(&pool, "local").expect("joins");
    let host = join_host(&pool, "b", &[]).expect("joins");
    assert_eq!(ends(&pool), []);

    let carries = ChannelType {
        name: "pose".to_owned(),
        bytes: 24,
        align: 8,
        version: 2,
    };
    let options = SubscriberOptions::default()
        .carries(carries.clone())
        .depth(5)
        .policy(PortPolicy::EvictOldest)
        .history(3);
    let subscriber = local.subscriber("pose", &options).expect("opens");
    let theirs = host
        .publisher("pose", &PublisherOptions::default())
        .expect("opens");
    let found = on(&pool, "pose").expect("has an end");
    assert_eq!(kinds(&found), [(PortKind::Subscriber, true)]);
    assert_eq!(found.channel.carries, carries);
    let [end] = found.ends[..] else {
        panic!("{found:?}")
    };
    assert_eq!((end.depth, end.history, end.is_core), (5, 3, false));
    assert_eq!(end.policy, PortPolicy::EvictOldest);
    assert_eq!(end.member, local.index());
    drop(subscriber);
    assert_eq!(on(&pool, "pose"), None, "only a host has a port there");
    drop(theirs);

    let _client = local
        .client("sums", &ClientOptions::default())
        .expect("opens");
    let _server = local
        .server("sums", &ServerOptions::default())
        .expect("opens");
    let found = on(&pool, "sums").expect("has ends");
    assert_eq!(
        kinds(&found),
        [(PortKind::Client, false), (PortKind::Server, true)]
    );
    let _notifier = local.notifier("alarm").expect("opens");
    let _listener = local.listener("alarm").expect("opens");
    let found = on(&pool, "alarm").expect("has ends");
    assert_eq!(
        kinds(&found),
        [(PortKind::Notifier, false), (PortKind::Listener, true)]
    );
}

#[test]
fn change_of_ports_changes_the_epoch_and_rings_hosts() {
    let root = Root::new();
    let pool = root.pool();
    let local = Node::join(&pool, "local").expect("joins");
    let host = join_host(&pool, "b", &[]).expect("joins");
    let before = epoch(&pool);
    assert_eq!(epoch(&pool), before);

    // As long as the wait itself: only a bell ends it before that.
    let waits = || {
        let seen = epoch(&pool);
        let host = host.clone();
        let pool = pool.clone();
        let (thread, wait) = watched(move || {
            let look = || Ok((epoch(&pool) != seen).then_some(()));
            host.wait_until(BOUND, BOUND, look).expect("sound")
        });
        let waiter = std::thread::spawn(wait);
        thread.until_asleep();
        waiter
    };
    let waiter = waits();
    let publisher = local
        .publisher("pose", &PublisherOptions::default())
        .expect("opens");
    assert_eq!(waiter.join().expect("no panic"), Some(()));
    let waiter = waits();
    drop(publisher);
    assert_eq!(waiter.join().expect("no panic"), Some(()));
    assert_ne!(epoch(&pool), before);
    assert_eq!(ends(&pool), []);
}
