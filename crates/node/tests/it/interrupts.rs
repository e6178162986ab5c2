//! A program ends its own waits: each kind, those under way and the next one, once. A
//! signal handler of C does so in `bindings/c/tests/interrupts.c`.

use std::time::Duration;

use crate::support::Root;
use hythe_node::{
    ClientOptions, Interest, Node, NodeError, PortPolicy, PublisherOptions, ServerOptions,
    SubscriberOptions,
};
use hythe_testing::{Polling, let_time_pass};
use rustix::event::{EventfdFlags, eventfd};

/// No test waits for its end.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(20);

type Wait = Box<dyn FnMut(Duration) -> Result<(), NodeError> + Send>;

/// One wait of each kind, for what never comes.
fn waits(node: &Node) -> Vec<(&'static str, Wait)> {
    let mut subscriber = node
        .subscriber("messages", &SubscriberOptions::default())
        .expect("opens");
    let publisher = node.publisher("nobody", &PublisherOptions::default());
    let mut publisher = publisher.expect("opens");
    let mut server = node
        .server("requests", &ServerOptions::default())
        .expect("opens");
    let mut client = node
        .client("no server", &ClientOptions::default())
        .expect("opens");
    let mut listener = node.listener("events").expect("opens");
    let mut notifier = node.notifier("no listener").expect("opens");
    let mut ports = node.wait_set().expect("made");
    let mut other = node
        .subscriber("other", &SubscriberOptions::default())
        .expect("opens");
    ports.attach(&mut other).expect("free");
    let mut files = node.wait_set().expect("made");
    let file = eventfd(0, EventfdFlags::CLOEXEC).expect("made");
    files
        .attach_fd(&file, Interest::Readable)
        .expect("attached");
    vec![
        (
            "take",
            Box::new(move |time| subscriber.take(time).map(drop)),
        ),
        (
            "subscribers",
            Box::new(move |time| publisher.wait_for_subscribers(1, time).map(drop)),
        ),
        (
            "requests",
            Box::new(move |time| server.take(time).map(drop)),
        ),
        ("replies", Box::new(move |time| client.take(time).map(drop))),
        (
            "events",
            Box::new(move |time| listener.wait(time).map(drop)),
        ),
        (
            "listeners",
            Box::new(move |time| notifier.wait_for_listeners(1, time).map(drop)),
        ),
        (
            "ports",
            Box::new(move |time| {
                let _attached = &other;
                ports.wait(time).map(drop)
            }),
        ),
        (
            "files",
            Box::new(move |time| {
                let _attached = &file;
                files.wait(time).map(drop)
            }),
        ),
    ]
}

fn is_interrupted(result: &Result<(), NodeError>) -> bool {
    matches!(result, Err(NodeError::Interrupted))
}

#[test]
fn interrupt_ends_the_next_wait_of_each_kind_once() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joins");
    for (kind, mut wait) in waits(&node) {
        node.interrupt();
        node.interrupt();
        wait(Duration::ZERO).expect("a call that does not wait takes no notice");
        let ended = wait(LONG);
        assert!(is_interrupted(&ended), "{kind}: {ended:?}");
        wait(SHORT).expect("two before a wait are one");
    }
}

#[test]
fn interrupt_ends_all_waits_that_are_under_way() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joins");
    let bell = |round: u32| {
        let ended = std::thread::scope(|scope| {
            let waiting: Vec<_> = waits(&node)
                .into_iter()
                .map(|(kind, mut wait)| scope.spawn(move || (kind, wait(LONG))))
                .collect();
            // In some rounds amid the sleeps, in others amid the looks before them.
            let pause = Duration::from_millis((round % 3 * 20).into());
            let_time_pass(pause, "another state each round");
            let mut polling = Polling::new("the end of all waits");
            while !waiting
                .iter()
                .all(std::thread::ScopedJoinHandle::is_finished)
            {
                node.interrupt();
                polling.pause();
            }
            let ended = waiting.into_iter().map(|one| one.join().expect("no panic"));
            ended.collect::<Vec<_>>()
        });
        for (kind, ended) in ended {
            assert!(is_interrupted(&ended), "{kind}: {ended:?}");
        }
    };
    (0..6).for_each(bell);
}

#[test]
fn message_comes_before_an_interrupt_which_stays() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joins");
    let subscriber = node.subscriber("data", &SubscriberOptions::default());
    let mut subscriber = subscriber.expect("opens");
    let publisher = node.publisher("data", &PublisherOptions::default());
    let mut publisher = publisher.expect("opens");
    publisher
        .publish(node.lease(1).expect("free"), 1)
        .expect("sent");
    node.interrupt();
    assert!(subscriber.take(LONG).expect("it is there").is_some());
    assert!(matches!(subscriber.take(LONG), Err(NodeError::Interrupted)));
}

#[test]
fn interrupt_ends_the_wait_for_a_full_queue() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joins");
    let blocking = PortPolicy::Block {
        timeout_ms: u32::MAX,
    };
    let options = SubscriberOptions::default().depth(2).policy(blocking);
    let mut full = node.subscriber("data", &options).expect("opens");
    let options = PublisherOptions::default().send_timeout(LONG);
    let mut publisher = node.publisher("data", &options).expect("opens");
    let mut publish = || publisher.publish(node.lease(1).expect("free"), 1).map(drop);
    publish().and_then(|()| publish()).expect("two fit");
    node.interrupt();
    let ended = publish();
    assert!(matches!(ended, Err(NodeError::Blocked { .. })), "{ended:?}");
    assert!(full.take(LONG).expect("what comes is first").is_some());
    assert!(full.take(LONG).expect("what comes is first").is_some());
    assert!(matches!(full.take(LONG), Err(NodeError::Interrupted)));
}

#[test]
fn interrupt_of_a_forked_copy_does_nothing() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joins");
    let in_child = hythe_sys::fork::run_in_child(|| {
        node.interrupt();
        0
    });
    assert_eq!(in_child.expect("forked"), 0);
    let mut listener = node.listener("events").expect("opens");
    assert!(listener.wait(SHORT).expect("not interrupted").is_empty());
}
