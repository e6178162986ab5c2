//! Participants that stand for other hosts: they meet processes on channels, and never each other;
//! one process is many of them.
//!
//! The other process is this test program again (`support::player`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::player::{Player, own_part, say, until_told};
use crate::support::{BOUND, Root, eventually};
use hythe_node::hop::{self, HopPool as _, HostAgent, join_host};
use hythe_node::{
    ClientOptions, EventId, MemberInfo, MemberKind, Node, NodeError, Pool, PortPolicy,
    PublisherOptions, ServerLoss, ServerOptions, Subscriber, SubscriberOptions,
};

/// What a child can be.
mod roles {
    /// Joins for two hosts, and holds a buffer as each.
    pub(super) const AGENT: &str = "agent";
}

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some((role, node)) = own_part() else {
        return;
    };
    assert_eq!(role, roles::AGENT);
    let hosts = ["b", "c"].map(|name| join_host(node.pool(), name, &[]).expect("joins"));
    let held = hosts.each_ref().map(|host| host.lease(8).expect("free"));
    let ports = hosts.each_ref().map(|host| {
        host.subscriber("camera", &SubscriberOptions::default())
            .expect("opens")
    });
    say("holds");
    until_told();
    drop((held, ports));
}

fn hosts(pool: &Pool) -> [Node; 2] {
    ["b", "c"].map(|name| join_host(pool, name, &[]).expect("joins"))
}

fn hosts_of(pool: &Pool) -> Vec<MemberInfo> {
    let members = pool.control().tables().members();
    members
        .filter(|member| member.kind == MemberKind::Host)
        .collect()
}

fn event() -> EventId {
    EventId::new(3).expect("an event")
}

#[test]
fn what_one_host_publishes_reaches_processes_and_no_other_host() {
    let root = Root::new();
    let pool = root.pool();
    let [one, other] = hosts(&pool);
    let local = Node::join(&pool, "local").expect("joins");
    let options = SubscriberOptions::default();
    let mut at_host = other.subscriber("camera", &options).expect("opens");
    let mut at_process = local.subscriber("camera", &options).expect("opens");

    let mut from_host = one
        .publisher("camera", &PublisherOptions::default())
        .expect("opens");
    assert_eq!(from_host.subscribers().expect("sound"), 1);
    let sent = from_host.publish(one.lease(8).expect("free"), 8);
    assert_eq!(sent.expect("sent").delivered, 1);
    assert!(at_process.try_take().expect("sound").is_some());
    assert!(at_host.try_take().expect("sound").is_none());
    assert_eq!(at_host.publishers().expect("sound"), 0);

    let mut from_process = local
        .publisher("camera", &PublisherOptions::default())
        .expect("opens");
    let sent = from_process.publish(local.lease(8).expect("free"), 8);
    assert_eq!(sent.expect("sent").delivered, 2);
    assert!(at_host.try_take().expect("sound").is_some());
}

/// A publisher sends each message to one of them: to the first until it looks, then to the other.
#[test]
fn stronger_port_of_a_host_takes_the_place_of_a_weaker_one() {
    let root = Root::new();
    let pool = root.pool();
    let [host, _] = hosts(&pool);
    let local = Node::join(&pool, "local").expect("joins");
    let keeping = PublisherOptions::default().history(2);
    let mut publisher = local.publisher("camera", &keeping).expect("opens");
    let weak = SubscriberOptions::default().depth(2).history(2);
    let mut first = host.subscriber("camera", &weak).expect("opens");
    let mut send = |bytes: usize| {
        let lease = local.lease(bytes).expect("free");
        publisher.publish(lease, bytes).expect("sent").delivered
    };
    assert_eq!(send(1), 1);

    let strong = weak.depth(8).policy(PortPolicy::EvictOldest);
    let mut second = host.subscriber("camera", &strong).expect("opens");
    assert_eq!(send(2), 1);
    let lengths = |subscriber: &mut Subscriber| -> Vec<usize> {
        std::iter::from_fn(|| subscriber.try_take().expect("sound"))
            .map(|sample| sample.len())
            .collect()
    };
    // The history is not given twice.
    assert_eq!(lengths(&mut second), [2]);
    assert_eq!(lengths(&mut first), [1]);
    assert_eq!(first.publishers().expect("sound"), 0);

    // One that comes now sends to the stronger alone; a process has as many ports as it likes.
    let options = PublisherOptions::default();
    let mut later = local.publisher("camera", &options).expect("opens");
    assert_eq!(later.subscribers().expect("sound"), 1);
    let ports = [4, 16].map(|depth| {
        let options = SubscriberOptions::default().depth(depth);
        local.subscriber("camera", &options).expect("opens")
    });
    assert_eq!(later.subscribers().expect("sound"), 1 + ports.len());
}

#[test]
fn host_asks_no_host() {
    let root = Root::new();
    let pool = root.pool();
    let [one, other] = hosts(&pool);
    let options = ClientOptions::default().send_timeout(Duration::from_millis(10));
    let mut client = one.client("sums", &options).expect("opens");
    let mut server = other
        .server("sums", &ServerOptions::default())
        .expect("opens");
    assert_eq!(client.servers().expect("sound"), 0);
    let refused = client.request(one.lease(8).expect("free"), 8);
    assert!(
        matches!(refused, Err(NodeError::NoServer { .. })),
        "{refused:?}"
    );
    assert_eq!(server.clients().expect("sound"), 0);

    let local = Node::join(&pool, "local").expect("joins");
    let mut asking = local
        .client("sums", &ClientOptions::default().send_timeout(BOUND))
        .expect("opens");
    let pending = asking
        .request(local.lease(8).expect("free"), 8)
        .expect("asked");
    let asked = server.take(BOUND).expect("sound").expect("asked");
    assert!(asked.reply_in_kind().expect("alone with it"));
    let reply = asking.wait(pending, BOUND).expect("sound");
    assert!(reply.is_some());
}

#[test]
fn host_notifies_no_host() {
    let root = Root::new();
    let pool = root.pool();
    let [one, other] = hosts(&pool);
    let mut at_host = other.listener("alarm").expect("opens");
    let mut notifier = one.notifier("alarm").expect("opens");
    assert_eq!(notifier.notify(event()).expect("sound"), 0);
    assert!(at_host.try_take().expect("sound").is_empty());

    let local = Node::join(&pool, "local").expect("joins");
    let mut at_process = local.listener("alarm").expect("opens");
    assert_eq!(notifier.notify(event()).expect("sound"), 1);
    assert!(at_process.try_take().expect("sound").contains(event()));
    let mut from_process = local.notifier("alarm").expect("opens");
    assert_eq!(from_process.notify(event()).expect("sound"), 2);
    assert!(at_host.try_take().expect("sound").contains(event()));
}

#[test]
fn process_joins_once_for_each_host_and_is_recovered_from_each() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut agent = Player::start(&root, roles::AGENT);
    assert_eq!(agent.hear(), "holds");
    let found = hosts_of(&pool);
    let names: Vec<&str> = found.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["host b", "host c"]);
    assert_ne!(found[0].session, found[1].session);
    let is_agent = |member: &MemberInfo| member.identity.pid == agent.pid();
    assert!(found.iter().all(is_agent), "{found:?}");
    let held = pool.snapshot().audit;
    assert_eq!(held.slots - held.free, 2, "a buffer each");

    agent.kill();
    eventually("recovered from both", || {
        let audit = pool.snapshot().audit;
        hosts_of(&pool).is_empty() && audit.free == audit.slots
    });
    assert_eq!(pool.snapshot().audit.mismatches, []);
    drop(node);
}

#[test]
fn host_leaves_alone_and_its_process_stays_the_others() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let [one, other] = hosts(&pool);
    drop(one);
    let names: Vec<String> = hosts_of(&pool)
        .into_iter()
        .map(|member| member.name)
        .collect();
    assert_eq!(names, ["host c"]);
    assert!(other.lease(8).is_ok());
    drop(node);
}

#[test]
fn lost_remote_server_ends_request_like_lost_host() {
    let root = Root::new();
    let pool = root.pool();
    let [host, _] = hosts(&pool);
    let local = Node::join(&pool, "local").expect("joins");
    let mut server = host
        .server("sums", &ServerOptions::default())
        .expect("opens");
    let mut client = local
        .client("sums", &ClientOptions::default().send_timeout(BOUND))
        .expect("opens");
    let pending = client
        .request(local.lease(8).expect("free"), 8)
        .expect("asked");
    let request = server.take(BOUND).expect("sound").expect("asked");
    let (sample, responder) = request.into_parts();
    hop::lose(responder);
    drop(sample);
    match client.wait(pending, BOUND) {
        Err(NodeError::ServerLost { server, reason, .. }) => {
            assert!(server.starts_with("host b (pid "), "{server}");
            assert_eq!(reason, ServerLoss::Went);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(client.statistics().violations, 0);
    let again = client
        .request(local.lease(8).expect("free"), 8)
        .expect("asked");
    let request = server.take(BOUND).expect("sound").expect("asked");
    assert!(request.reply_in_kind().expect("alone with it"));
    assert!(client.wait(again, BOUND).expect("sound").is_some());
    let audit = pool.snapshot().audit;
    assert_eq!(audit.mismatches, []);
}

#[test]
fn request_that_no_server_takes_now_gives_its_buffer_back() {
    let root = Root::new();
    let pool = root.pool();
    let [host, _] = hosts(&pool);
    let local = Node::join(&pool, "local").expect("joins");
    let options = ClientOptions::default().outstanding(2);
    let mut client = host.client("sums", &options).expect("opens");
    let lease = client.lease(8).expect("free");
    let lease = hop::try_request(&mut client, lease, 8).expect("sound");
    let lease = lease.expect_err("there is no server");

    let mut server = local
        .server("sums", &ServerOptions::default())
        .expect("opens");
    let first = hop::try_request(&mut client, lease, 8).expect("sound");
    let first = first.expect("it has room");
    let lease = client.lease(8).expect("free");
    let second = hop::try_request(&mut client, lease, 8).expect("sound");
    let _second = second.expect("it has room");
    let lease = client.lease(8).expect("free");
    let lease = hop::try_request(&mut client, lease, 8).expect("sound");
    let lease = lease.expect_err("two are open");

    let request = server.take(BOUND).expect("sound").expect("asked");
    assert!(request.reply_in_kind().expect("alone with it"));
    assert!(client.wait(first, BOUND).expect("sound").is_some());
    let third = hop::try_request(&mut client, lease, 8).expect("sound");
    assert!(third.is_ok());
    assert_eq!(client.statistics().messages, 3);
    assert_eq!(client.statistics().dropped, 0);
}

/// Stands for the agent: answers behind opening a port for a host, until told to stop.
fn answer_until(agent: &HostAgent, host: &Node, stop: &AtomicBool) -> Option<Subscriber> {
    let mut port = None;
    while !stop.load(Ordering::Acquire) {
        let asked = agent.asked();
        if port.is_none() && !hop::ends(host.pool()).is_empty() {
            let opened = host.subscriber("camera", &SubscriberOptions::default());
            port = Some(opened.expect("opens"));
        }
        agent.answer(asked);
        let is_due = || agent.asked() != asked || stop.load(Ordering::Acquire);
        agent.wait(BOUND, is_due).expect("sound");
    }
    port
}

#[test]
fn opened_publisher_knows_hosts_of_agent() {
    let root = Root::new();
    let pool = root.pool();
    let agent = HostAgent::join(&pool).expect("joins");
    let [host, _] = hosts(&pool);
    let local = Node::join(&pool, "local").expect("joins");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| answer_until(&agent, &host, &stop));
        let options = PublisherOptions::default();
        let mut publisher = local.publisher("camera", &options).expect("opens");
        let sent = publisher.publish(local.lease(8).expect("free"), 8);
        assert_eq!(sent.expect("sent").delivered, 1);
        stop.store(true, Ordering::Release);
        agent.wake();
        let port = answering.join().expect("answers").expect("opened");
        assert_eq!(port.channel(), "camera");
    });
    // Hosts are not held up by their own agent, and nobody by one that has stopped.
    let asked = agent.asked();
    drop(host.publisher("other", &PublisherOptions::default()));
    assert_eq!(agent.asked(), asked);
    agent.answer_always();
    for _ in 0..1000 {
        drop(
            local
                .publisher("other", &PublisherOptions::default())
                .expect("opens"),
        );
    }
}

#[test]
fn silent_or_left_agent_delays_no_publisher() {
    let root = Root::new();
    let pool = root.pool();
    let agent = HostAgent::join(&pool).expect("joins");
    let local = Node::join(&pool, "local").expect("joins");
    let publisher = local.publisher("camera", &PublisherOptions::default());
    assert_eq!(publisher.expect("opens").channel(), "camera");
    assert_ne!(agent.asked(), 0);
    drop(agent);
    for _ in 0..1000 {
        drop(
            local
                .publisher("camera", &PublisherOptions::default())
                .expect("opens"),
        );
    }
}
