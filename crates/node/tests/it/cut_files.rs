//! Files of a pool that are cut away at random instants of each call: it ends with an error that
//! names the file, and never by a signal.
//!
//! A signal ends the whole program, so the cuts are made in another process, played by this test
//! program, asked by [`ROLE`].

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::support::{BOUND, Root, again};
use hythe_node::object::{
    Deadline, MessageQueue, MessageQueueOptions, Semaphore, SemaphoreOptions, SyncError,
};
use hythe_node::{
    ClientOptions, EventId, Node, NodeError, Pool, PoolOptions, PublisherOptions, ServerOptions,
    SubscriberOptions,
};
use hythe_testing::{Dice, in_module};

const ROLE: &str = "HYTHE_TEST_ROLE";
/// How often each file is cut under each call.
const CUTS: &str = "HYTHE_TEST_CUTS";

/// Longer than anything takes that a call does, in iterations of a spin loop.
const SPINS_MAX: usize = 40_000;

/// A call, repeated until it fails.
struct Call {
    name: &'static str,
    /// Files that it touches.
    files: &'static [&'static str],
    repeat: fn(&Node) -> Result<(), SyncError>,
}

const CALLS: [Call; 11] = [
    Call {
        name: "post",
        files: &["objects", "control"],
        repeat: post,
    },
    Call {
        name: "wait",
        files: &["objects", "control"],
        repeat: wait,
    },
    Call {
        name: "open",
        files: &["objects", "control"],
        repeat: open_and_unlink,
    },
    Call {
        name: "descriptor",
        files: &["objects", "control"],
        repeat: descriptor,
    },
    Call {
        name: "send",
        files: &["objects", "control", "region.0"],
        repeat: send,
    },
    Call {
        name: "receive",
        files: &["objects", "control"],
        repeat: receive,
    },
    Call {
        name: "notify",
        files: &["objects", "control", "region.0"],
        repeat: notify,
    },
    Call {
        name: "publish",
        files: &["control", "region.0"],
        repeat: publish,
    },
    Call {
        name: "request",
        files: &["control", "region.0"],
        repeat: request,
    },
    Call {
        name: "event",
        files: &["control"],
        repeat: event,
    },
    Call {
        name: "join",
        files: &["control"],
        repeat: join,
    },
];

fn cut_in_another_process(cuts: usize) {
    let mut command = again::command();
    command.args(["--exact", &in_module("plays_its_role"), "--nocapture"]);
    command.env(ROLE, "cut").env(CUTS, cuts.to_string());
    let status = command.status().expect("started");
    assert!(status.success(), "{status}");
}

#[test]
fn each_call_ends_typed_when_a_file_is_cut() {
    cut_in_another_process(5);
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn each_call_ends_typed_when_a_file_is_cut_often() {
    cut_in_another_process(1000);
}

/// Not a test of its own.
#[test]
fn plays_its_role() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    let cuts = std::env::var(CUTS).expect("a number");
    let mut dice = Dice::from_environment();
    for call in CALLS {
        for file in call.files {
            for _ in 0..cuts.parse().expect("a number") {
                cut_under(&call, file, dice.below(SPINS_MAX));
            }
        }
        println!("{}: {cuts} cuts of each of {:?}", call.name, call.files);
    }
}

fn cut_under(call: &Call, file: &str, spins: usize) {
    let root = Root::new();
    let options = PoolOptions::new("cut").root(root.path()).bytes(12 << 20);
    let pool = Pool::open_or_create(&options).expect("made");
    let node = Node::join(&pool, "cut").expect("joined");
    // The file is there before the call begins.
    drop(open(&node, "/first").expect("made"));
    let started = Barrier::new(2);
    let failed = std::thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let begun = Instant::now();
            started.wait();
            loop {
                if let Err(error) = (call.repeat)(&node) {
                    return error;
                }
                assert!(
                    begun.elapsed() < BOUND,
                    "{} of {file} never ends",
                    call.name
                );
            }
        });
        started.wait();
        (0..spins).for_each(|_| std::hint::spin_loop());
        cut(&pool.path().join(file));
        calling.join().expect("no panic")
    });
    let SyncError::Pool(NodeError::PoolLost { path, .. }) = failed else {
        panic!("{} of {file}: {failed}", call.name);
    };
    assert_eq!(path, pool.path().join(file), "{}", call.name);
}

fn cut(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).expect("opened");
    file.set_len(0).expect("cut");
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_millis(1))
}

/// What a wait may say that nobody has anything for.
fn unless_over(outcome: Result<(), SyncError>) -> Result<(), SyncError> {
    match outcome {
        Err(SyncError::TimedOut | SyncError::WouldBlock(_)) => Ok(()),
        outcome => outcome,
    }
}

fn open(node: &Node, name: &str) -> Result<Semaphore, SyncError> {
    Semaphore::open(node, name, &SemaphoreOptions::default().create(0))
}

fn queue(node: &Node) -> Result<MessageQueue, SyncError> {
    MessageQueue::open(
        node,
        "/queue",
        &MessageQueueOptions::default().create(4, 64),
    )
}

fn post(node: &Node) -> Result<(), SyncError> {
    let semaphore = open(node, "/posted")?;
    for _ in 0..20 {
        semaphore.post()?;
        semaphore.value()?;
        semaphore.try_wait()?;
        semaphore.forget_holds()?;
        semaphore.info()?;
    }
    Ok(())
}

fn wait(node: &Node) -> Result<(), SyncError> {
    let semaphore = open(node, "/waited")?;
    for _ in 0..20 {
        unless_over(semaphore.wait(soon()))?;
    }
    Ok(())
}

fn open_and_unlink(node: &Node) -> Result<(), SyncError> {
    drop(open(node, "/opened")?);
    Semaphore::unlink(node, "/opened")
}

fn descriptor(node: &Node) -> Result<(), SyncError> {
    let semaphore = open(node, "/watched")?;
    semaphore.descriptor()?;
    for _ in 0..20 {
        semaphore.post()?;
        semaphore.try_wait()?;
    }
    Ok(())
}

fn send(node: &Node) -> Result<(), SyncError> {
    let queue = queue(node)?;
    for _ in 0..20 {
        queue.send_copy(b"message", 3, soon())?;
        queue.queued()?;
        drop(queue.receive(soon())?.sample.to_vec());
    }
    Ok(())
}

fn receive(node: &Node) -> Result<(), SyncError> {
    let queue = queue(node)?;
    for _ in 0..20 {
        unless_over(queue.receive(soon()).map(drop))?;
    }
    Ok(())
}

fn notify(node: &Node) -> Result<(), SyncError> {
    let queue = queue(node)?;
    queue.notify(Box::new(|| {}))?;
    queue.send_copy(b"message", 3, soon())?;
    queue.forget_notification()?;
    drop(queue.receive(soon())?);
    MessageQueue::unlink(node, "/queue")
}

fn publish(node: &Node) -> Result<(), SyncError> {
    let mut subscriber = node.subscriber("way", &SubscriberOptions::default())?;
    let mut publisher = node.publisher("way", &PublisherOptions::default())?;
    for number in 0..20 {
        let mut lease = node.lease(100)?;
        lease.write(0, &[number; 100]);
        publisher.publish(lease, 100)?;
        if let Some(sample) = subscriber.try_take()? {
            let read = sample.to_vec();
            sample.check_whole()?;
            assert_eq!(read, [number; 100]);
        }
    }
    Ok(())
}

fn request(node: &Node) -> Result<(), SyncError> {
    let mut server = node.server("ask", &ServerOptions::default())?;
    let mut client = node.client("ask", &ClientOptions::default())?;
    client.wait_for_servers(1, BOUND)?;
    for number in 0..10 {
        let mut lease = node.lease(4)?;
        lease.write(0, &[number; 4]);
        let pending = client.request(lease, 4)?;
        if let Some(request) = server.take(BOUND)? {
            let answer = node.lease(4)?;
            request.reply(answer, 4)?;
        }
        drop(client.wait(pending, BOUND)?);
    }
    Ok(())
}

fn event(node: &Node) -> Result<(), SyncError> {
    let mut listener = node.listener("bells")?;
    let mut notifier = node.notifier("bells")?;
    for _ in 0..20 {
        notifier.notify(EventId::new(1).expect("an event"))?;
        listener.try_take()?;
    }
    Ok(())
}

fn join(node: &Node) -> Result<(), SyncError> {
    drop(Node::join(node.pool(), "another")?);
    Ok(())
}
