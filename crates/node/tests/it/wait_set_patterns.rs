//! One wait set over ports of every kind: a server, a client, a listener and a subscriber.

use std::time::Duration;

use crate::support::{BOUND, Root};
use hythe_node::{
    ClientOptions, EventId, Node, NodeError, PublisherOptions, ServerOptions, SubscriberOptions,
    Token, WaitSet,
};
use hythe_testing::let_time_pass;

/// The tokens that a wait reports.
fn reported(wait_set: &mut WaitSet, timeout: Duration) -> Vec<Token> {
    let events = wait_set.wait(timeout).expect("sound");
    events.iter().map(|event| event.token()).collect()
}

#[test]
fn each_kind_of_port_wakes_the_wait_set_for_itself() {
    let root = Root::new();
    let pool = root.pool();
    let (near, far) = (Node::join(&pool, "near"), Node::join(&pool, "far"));
    let (near, far) = (near.expect("joins"), far.expect("joins"));
    let mut server = near
        .server("here", &ServerOptions::default())
        .expect("opens");
    let mut client = near
        .client("there", &ClientOptions::default())
        .expect("opens");
    let mut listener = near.listener("alarm").expect("opens");
    let mut subscriber = near
        .subscriber("data", &SubscriberOptions::default())
        .expect("opens");
    let mut wait_set = near.wait_set().expect("made");
    let serving = wait_set.attach(&mut server).expect("attached");
    let asking = wait_set.attach(&mut client).expect("attached");
    let hearing = wait_set.attach(&mut listener).expect("attached");
    let reading = wait_set.attach(&mut subscriber).expect("attached");
    assert_eq!(reported(&mut wait_set, Duration::from_millis(1)), []);

    let mut far_client = far
        .client("here", &ClientOptions::default())
        .expect("opens");
    let mut far_server = far
        .server("there", &ServerOptions::default())
        .expect("opens");
    let mut notifier = far.notifier("alarm").expect("opens");
    let mut publisher = far
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    let event = EventId::new(2).expect("an event");
    for round in 0..20_u64 {
        // From another thread, while this one sleeps, or before it does.
        let pause = Duration::from_micros(round * 100);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let_time_pass(pause, "in some rounds it sleeps, in others not yet");
                let lease = far_client.lease(1).expect("free");
                far_client.request(lease, 1).expect("a server with room");
            });
            assert_eq!(reported(&mut wait_set, BOUND), [serving]);
        });
        let request = server.try_take().expect("sound").expect("asked");
        assert!(request.reply_in_kind().expect("alone with it"));
        assert!(far_client.take(BOUND).expect("sound").is_some());

        std::thread::scope(|scope| {
            scope.spawn(|| {
                let_time_pass(pause, "in some rounds it sleeps, in others not yet");
                notifier.notify(event).expect("sound");
            });
            assert_eq!(reported(&mut wait_set, BOUND), [hearing]);
        });
        assert!(listener.try_take().expect("sound").contains(event));

        let lease = client.lease(1).expect("free");
        client.request(lease, 1).expect("a server with room");
        let request = far_server.take(BOUND).expect("sound").expect("asked");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let_time_pass(pause, "in some rounds it sleeps, in others not yet");
                assert!(request.reply_in_kind().expect("alone with it"));
            });
            assert_eq!(reported(&mut wait_set, BOUND), [asking]);
        });
        assert!(client.take(Duration::ZERO).expect("sound").is_some());

        let lease = publisher.lease(1).expect("free");
        publisher.publish(lease, 1).expect("room");
        assert_eq!(reported(&mut wait_set, BOUND), [reading]);
        assert!(subscriber.try_take().expect("sound").is_some());
    }
    assert_eq!(reported(&mut wait_set, Duration::from_millis(1)), []);
}

#[test]
fn client_is_reported_when_its_server_goes() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let server = node
        .server("sums", &ServerOptions::default())
        .expect("opens");
    let mut client = node
        .client("sums", &ClientOptions::default())
        .expect("opens");
    let mut wait_set = node.wait_set().expect("made");
    let asking = wait_set.attach(&mut client).expect("attached");
    // It never takes the request: no connection leads back.
    let lease = client.lease(1).expect("free");
    client.request(lease, 1).expect("a server with room");
    assert_eq!(reported(&mut wait_set, Duration::from_millis(1)), []);
    drop(server);
    assert_eq!(reported(&mut wait_set, BOUND), [asking]);
    let reply = client.take(Duration::ZERO).expect("sound").expect("an end");
    assert!(matches!(reply.outcome, Err(NodeError::ServerLost { .. })));
    assert_eq!(reported(&mut wait_set, Duration::from_millis(1)), []);
}
