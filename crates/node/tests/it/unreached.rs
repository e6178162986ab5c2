//! Ports that cannot be connected to, because queue memory or a counter is at its limit: they keep
//! nothing from the others, leave nothing behind, and are reached once there is room.

use crate::support::{BOUND, Root, eventually};
use hythe_abi::pool::REFERENCES_MAX;
use hythe_node::hop::{HopNode as _, HopPool as _};
use hythe_node::{
    Client, ClientOptions, Node, NodeError, Pool, PoolError, PortKind, Publisher, PublisherOptions,
    Server, ServerOptions, Subscriber, SubscriberOptions,
};

/// More than every connection has memory for.
const DEEP: u32 = 64;

fn join(pool: &Pool, name: &str) -> Node {
    Node::join(pool, name).expect("joins")
}

fn server(node: &Node, depth: u32) -> Result<Server, NodeError> {
    node.server("sums", &ServerOptions::default().depth(depth))
}

fn client(node: &Node, outstanding: u32) -> Result<Client, NodeError> {
    let options = ClientOptions::default().outstanding(outstanding);
    node.client("sums", &options.send_timeout(BOUND))
}

/// A queue that takes all the deep memory which one participant may have.
fn use_up_its_half(greedy: &Node, sender: &Node) -> (Subscriber, Publisher) {
    let deepest = SubscriberOptions::default().depth(32768);
    let subscriber = greedy.subscriber("much", &deepest).expect("opens");
    let mut publisher = sender
        .publisher("much", &PublisherOptions::default())
        .expect("opens");
    assert_eq!(publisher.subscribers().expect("room"), 1);
    (subscriber, publisher)
}

fn is_too_deep(error: &NodeError) -> bool {
    matches!(error.refusal(), Some(PoolError::QueueTooDeep { .. }))
}

#[test]
fn server_that_cannot_be_reached_hides_no_other() {
    let root = Root::new();
    let pool = root.pool();
    let (asking, greedy, serving) = (
        join(&pool, "asking"),
        join(&pool, "greedy"),
        join(&pool, "serving"),
    );
    let unreached = server(&greedy, DEEP).expect("room when it opens");
    let _half = use_up_its_half(&greedy, &asking);
    let mut reached = server(&serving, DEEP).expect("opens");
    let ports: Vec<_> = pool.control().tables().ports().collect();
    let servers = ports.iter().filter(|port| port.kind == PortKind::Server);
    let first = servers.map(|port| port.member).next();
    assert_eq!(
        first,
        Some(greedy.index()),
        "the unreached one is met first"
    );

    let mut client = client(&asking, 1).expect("opens");
    let lease = client.lease(1).expect("free");
    let sent = client.request(lease, 1).expect("one server has room");
    let request = reached.take(BOUND).expect("sound").expect("asked");
    assert!(request.reply_in_kind().expect("alone with it"));
    assert!(client.wait(sent, BOUND).expect("sound").is_some());
    assert!(is_too_deep(&client.servers().expect_err("one is missing")));
    drop(unreached);
    assert_eq!(client.servers().expect("all are there"), 1);
}

#[test]
fn depth_that_nobody_could_make_queues_for_is_refused() {
    let root = Root::new();
    let pool = root.pool();
    let (greedy, other) = (join(&pool, "greedy"), join(&pool, "other"));
    assert!(is_too_deep(&server(&other, 32769).expect_err("too deep")));
    let half = use_up_its_half(&greedy, &other);
    assert!(is_too_deep(&server(&greedy, DEEP).expect_err("its half")));
    assert!(is_too_deep(&client(&greedy, DEEP).expect_err("its half")));
    server(&greedy, 32).expect("every connection has memory for that");
    client(&greedy, 32).expect("as above");
    drop(half);
    server(&greedy, DEEP).expect("room again");
    client(&greedy, DEEP).expect("room again");
}

/// Nothing tells the server that there is room, and it does not wait: it only tries to take.
#[test]
fn client_that_could_not_be_answered_is_once_there_is_room() {
    let root = Root::new();
    let pool = root.pool();
    let (greedy, serving, sender) = (
        join(&pool, "greedy"),
        join(&pool, "serving"),
        join(&pool, "sender"),
    );
    let mut client = client(&greedy, DEEP).expect("room when it opens");
    let half = use_up_its_half(&greedy, &sender);
    let mut server = server(&serving, 32).expect("opens");
    let mut replies = || {
        client
            .request(client.lease(1).expect("free"), 1)
            .expect("room");
        let request = server.try_take().expect("sound").expect("asked");
        request.reply_in_kind().expect("alone with it")
    };
    assert!(!replies(), "there is no room for the way back");
    drop(half);
    eventually("a reply goes its way", replies);
}

/// What is kept cannot be given, so it is all tried again: the connection made for it must not
/// stay.
#[test]
fn undeliverable_history_leaves_no_connection() {
    let root = Root::new();
    let pool = root.pool();
    let (sending, receiving) = (join(&pool, "sending"), join(&pool, "receiving"));
    let keeps = PublisherOptions::default().history(1);
    let mut publisher = sending.publisher("data", &keeps).expect("opens");
    let wants = SubscriberOptions::default().history(1);
    let mut first = receiving.subscriber("data", &wants).expect("opens");
    let lease = publisher.lease(9).expect("free");
    publisher.publish(lease, 9).expect("room");
    let sample = first.try_take().expect("sound").expect("published");
    let place = sample.descriptor().place;
    let base = pool.region(place.region).expect("its region").ledger_base;
    let slot = hythe_pool::LedgerSlot(base + place.slot);
    drop((sample, first));
    assert_eq!(publisher.subscribers().expect("sound"), 0);

    // As many as can be counted: the history has one of them.
    let duplicates = REFERENCES_MAX - 1;
    let referred = sending.act(|member, control| member.duplicate(control, slot, duplicates));
    referred.expect("the original").expect("up to the limit");
    let mut late = receiving.subscriber("data", &wants).expect("opens");
    for _ in 0..2 {
        let refused = publisher.subscribers().expect_err("one more is too many");
        let too_many = PoolError::TooManyReferences {
            limit: REFERENCES_MAX,
        };
        assert_eq!(refused.refusal(), Some(&too_many));
        assert_eq!(pool.snapshot().connections.len(), 0, "left behind");
    }
    let released = sending.act(|member, control| member.release(control, slot, duplicates));
    released.expect("the original").expect("they were ours");
    assert_eq!(publisher.subscribers().expect("it can be given"), 1);
    let given = late.try_take().expect("sound").expect("kept");
    assert_eq!(given.len(), 9);
    drop((given, late, publisher));
    let audit = pool.snapshot().audit;
    assert_eq!(audit.mismatches, [], "the ledger does not add up");
    assert_eq!(audit.free, audit.slots);
}
