//! `fork` without `exec` in a participant: the copies in the child act on nothing, whatever becomes
//! of the child.

use std::cell::RefCell;
use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use crate::support::player::{Player, own_role, say, until_told};
use crate::support::{BOUND, Root, eventually};
use hythe_memory::{Memory, Ordering};
use hythe_node::hop::{HopNode as _, HopPool as _};
use hythe_node::{
    Client, ClientOptions, EventId, Interest, Lease, Listener, Liveness, Node, NodeError, Notifier,
    Pool, PoolOptions, Publisher, PublisherOptions, Request, Sample, Server, ServerOptions,
    Subscriber, SubscriberOptions, Token, WaitSet,
};
use hythe_sys::fork::run_in_child;
use hythe_testing::await_kill;

/// Forks a child that lives on, keeps two leases, and waits.
const PARENT: &str = "parent";
const EVENT: EventId = EventId::new(5).expect("one of 40");

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some(role) = own_role() else { return };
    assert_eq!(role, PARENT);
    let pool = Pool::open(&PoolOptions::new("test")).expect("the test has made it");
    let node = Node::join(&pool, &role).expect("joins");
    let _kept = [node.lease(10).expect("free"), node.lease(99).expect("free")];
    std::thread::spawn(|| {
        let child = || {
            say("forked");
            until_told();
            0
        };
        run_in_child(child).expect("forked")
    });
    // The child has copies of everything, the listening socket included.
    await_kill();
}

/// Everything a participant can have.
struct Belongings {
    node: Node,
    publisher: Publisher,
    subscriber: Subscriber,
    lease: Lease,
    sample: Sample,
    waiting: Waiting,
    asking: Asking,
    telling: Telling,
}

/// A wait set that is waited for as a file descriptor itself: it has a thread, and asks for rings.
struct Waiting {
    wait_set: WaitSet,
    file: Token,
    input: PipeWriter,
    _output: PipeReader,
    _quiet: Subscriber,
}

impl Waiting {
    fn collect(node: &Node) -> Self {
        let mut quiet = node
            .subscriber("quiet", &SubscriberOptions::default())
            .expect("opens");
        let mut wait_set = node.wait_set().expect("made");
        wait_set.attach(&mut quiet).expect("free");
        let (output, input) = std::io::pipe().expect("made");
        let file = wait_set.attach_fd(&output, Interest::Readable);
        let file = file.expect("a pipe can be waited for");
        let _exported = wait_set.as_fd();
        let ready = wait_set.wait(Duration::ZERO).expect("sound");
        assert_eq!(ready, []);
        Self {
            wait_set,
            file,
            input,
            _output: output,
            _quiet: quiet,
        }
    }
}

/// A request that is not answered yet.
struct Asking {
    client: Client,
    _server: Server,
    request: Request,
}

impl Asking {
    fn collect(node: &Node) -> Self {
        let options = ServerOptions::default();
        let mut server = node.server("sums", &options).expect("opens");
        let options = ClientOptions::default();
        let mut client = node.client("sums", &options).expect("opens");
        let lease = client.lease(1).expect("free");
        client.request(lease, 1).expect("there is a server");
        let request = server.take(BOUND).expect("sound").expect("asked");
        Self {
            client,
            _server: server,
            request,
        }
    }
}

/// An event that is not taken yet.
struct Telling {
    notifier: Notifier,
    listener: Listener,
}

impl Telling {
    fn collect(node: &Node) -> Self {
        let listener = node.listener("house").expect("opens");
        let mut notifier = node.notifier("house").expect("opens");
        assert_eq!(notifier.notify(EVENT).expect("whole"), 1);
        Self { notifier, listener }
    }
}

impl Belongings {
    fn collect(pool: &Pool) -> Self {
        let node = Node::join(pool, "original").expect("joins");
        let mut subscriber = node
            .subscriber("data", &SubscriberOptions::default())
            .expect("opens");
        let mut publisher = node
            .publisher("data", &PublisherOptions::default())
            .expect("opens");
        for _ in 0..2 {
            let lease = publisher.lease(100).expect("free");
            publisher.publish(lease, 100).expect("room");
        }
        let sample = subscriber.take(BOUND).expect("sound").expect("published");
        Self {
            lease: node.lease(10).expect("free"),
            asking: Asking::collect(&node),
            telling: Telling::collect(&node),
            // Last: it sees no change behind its look.
            waiting: Waiting::collect(&node),
            node,
            publisher,
            subscriber,
            sample,
        }
    }

    /// The explicit calls that are not refused as a copy's, a bit for each.
    fn not_refused(&mut self) -> i32 {
        let Self {
            node,
            publisher,
            subscriber,
            sample,
            waiting: Waiting { wait_set, .. },
            asking: Asking { client, .. },
            telling: Telling { notifier, listener },
            ..
        } = self;
        let calls = [
            node.lease(1).map(drop),
            publisher.lease(1).map(drop),
            publisher.subscribers().map(drop),
            subscriber.try_take().map(drop),
            sample.part(0, 1).map(drop),
            node.publisher("other", &PublisherOptions::default())
                .map(drop),
            publisher.flush(Duration::ZERO),
            node.act(|_, _| ()),
            node.wait_set().map(drop),
            wait_set.wait(Duration::ZERO).map(drop),
            wait_set
                .attach_fd(std::io::stdin(), Interest::Readable)
                .map(drop),
            wait_set.attach(subscriber).map(drop),
            client.servers().map(drop),
            client.take(Duration::ZERO).map(drop),
            notifier.wait_for_listeners(1, Duration::ZERO).map(drop),
            listener.wait(Duration::ZERO).map(drop),
        ];
        let process = std::os::unix::process::parent_id();
        let is_refusal = |result: &Result<(), NodeError>| matches!(result, Err(NodeError::ForkedCopy { process: original }) if *original == process);
        let calls = calls.iter().enumerate();
        calls
            .filter(|(_, result)| !is_refusal(result))
            .map(|(index, _)| 1 << index)
            .sum()
    }
}

/// All that others can see, but the time.
fn seen(pool: &Pool) -> String {
    let snapshot = pool.snapshot();
    let (control, memory) = (pool.control(), pool.control().memory());
    let bells = snapshot.members.iter().map(|member| {
        let bell = control.tables().bell(member.index);
        [bell.count, bell.sleepers].map(|word| memory.load(word, Ordering::Acquire))
    });
    format!(
        "{:?} {:?} {:?} {:?} {:?} {} {} {:?}",
        bells.collect::<Vec<_>>(),
        snapshot.members,
        snapshot.channels,
        snapshot.ports,
        snapshot.connections,
        snapshot.audit.held,
        snapshot.audit.queued,
        snapshot.audit.mismatches
    )
}

fn sockets(directory: &Path) -> usize {
    std::fs::read_dir(directory.join("members"))
        .expect("there")
        .count()
}

#[test]
fn forked_child_that_drops_everything_changes_nothing() {
    let root = Root::new();
    let pool = root.pool();
    let everything = RefCell::new(Some(Belongings::collect(&pool)));
    let before = seen(&pool);
    let child = || {
        let copies = everything.borrow_mut().take();
        drop(copies);
        0
    };
    assert_eq!(run_in_child(child).expect("forked"), 0);
    assert_eq!(seen(&pool), before);
    assert_eq!(sockets(&pool.path()), 1);
    // The parent goes on, with its watcher.
    let mut ours = everything.into_inner().expect("still here");
    let next = ours.subscriber.take(BOUND).expect("sound");
    assert_eq!(next.expect("still in the queue").len(), 100);
    let told = ours.telling.listener.try_take().expect("whole");
    assert!(told.contains(EVENT));
    assert!(ours.asking.request.reply_in_kind().expect("alone with it"));
    let reply = ours.asking.client.take(BOUND).expect("sound");
    assert!(reply.expect("answered").outcome.is_ok());
    ours.waiting.input.write_all(b"!").expect("room");
    let ready = ours.waiting.wait_set.wait(BOUND).expect("sound");
    assert_eq!(ready[0].token(), ours.waiting.file);
    ours.publisher.publish(ours.lease, 3).expect("room");
    let mut other = Player::start(&root, PARENT);
    assert_eq!(other.hear(), "forked");
    other.kill();
    eventually("our watcher recovers", || {
        pool.control().tables().members().count() == 1
    });
}

#[test]
fn forked_child_is_refused_what_only_the_participant_may_do() {
    let root = Root::new();
    let pool = root.pool();
    let everything = RefCell::new(Some(Belongings::collect(&pool)));
    let before = seen(&pool);
    let child = || {
        let mut copies = everything.borrow_mut().take().expect("copied");
        let not_refused = copies.not_refused();
        if not_refused != 0 {
            eprintln!("not refused: {not_refused:#b}");
            return 1;
        }
        // What is given away goes nowhere.
        let gone = [
            copies.publisher.publish(copies.lease, 1).is_ok(),
            copies.publisher.forward(copies.sample).is_ok(),
            copies.asking.request.reply_in_kind().is_ok(),
            copies.waiting.wait_set.detach(copies.waiting.file),
            copies.telling.notifier.notify(EVENT).is_ok(),
            copies.telling.listener.try_take().is_ok(),
        ];
        i32::from(gone != [false; 6]) * 2
    };
    assert_eq!(run_in_child(child).expect("forked"), 0, "not refused");
    assert_eq!(seen(&pool), before);
    let mut ours = everything.into_inner().expect("still here");
    ours.waiting.input.write_all(b"!").expect("room");
    let ready = ours.waiting.wait_set.wait(BOUND).expect("sound");
    assert_eq!(ready[0].token(), ours.waiting.file, "the copy detached it");
}

#[test]
fn forked_child_may_join_by_itself() {
    let root = Root::new();
    let pool = root.pool();
    let everything = RefCell::new(Some(Belongings::collect(&pool)));
    let before = seen(&pool);
    let child = || {
        drop(everything.borrow_mut().take());
        let own = Node::join(&pool, "child").expect("joins");
        let mut publisher = own
            .publisher("data", &PublisherOptions::default())
            .expect("opens");
        let lease = own.lease(7).expect("free");
        let published = publisher.publish(lease, 7).expect("room");
        let both = pool.control().tables().members().count() == 2;
        i32::from(both && published.delivered == 1)
    };
    assert_eq!(run_in_child(child).expect("forked"), 1);
    let mut ours = everything.into_inner().expect("still here");
    let mut lengths = Vec::new();
    while let Some(sample) = ours.subscriber.try_take().expect("sound") {
        lengths.push(sample.len());
    }
    assert!(lengths.contains(&100), "{lengths:?}");
    drop(ours);
    assert!(pool.snapshot().audit.mismatches.is_empty());
    assert_eq!(pool.snapshot().audit.held, 0, "before: {before}");
}

/// The child holds the listening socket open, and so do its connections stay: death is still the
/// parent's.
#[test]
fn participant_whose_forked_child_lives_on_is_recovered() {
    let root = Root::new();
    let pool = root.pool();
    let mut parent = Player::start(&root, PARENT);
    assert_eq!(parent.hear(), "forked");
    let mut info = pool
        .control()
        .tables()
        .members()
        .next()
        .expect("takes part");
    parent.kill();
    assert_eq!(pool.liveness(&info), Liveness::Dead);
    // As seen from another container: by the socket alone, which still listens.
    info.identity.pid_namespace = 1;
    let by_socket = pool.liveness(&info);
    let has_peer_pidfds =
        hythe_sys::peer::peer_pidfd(std::os::unix::net::UnixStream::pair().expect("made").0)
            .is_ok();
    let expected = if has_peer_pidfds {
        Liveness::Dead
    } else {
        eprintln!("SKIPPED (needs Linux 6.5): the socket is held open by the child");
        Liveness::Alive
    };
    assert_eq!(by_socket, expected);
    let _node = Node::join(&pool, "next").expect("joins");
    assert_eq!(pool.snapshot().audit.held, 0);
    assert_eq!(pool.control().tables().members().count(), 1);
}
