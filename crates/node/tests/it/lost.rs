//! Pools that are cut away, or whose file system is full, under those who use them: an error that
//! names the file, no death.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Root, eventually, fill, in_a_small_file_system};
use hythe_abi::pool::participant;
use hythe_memory::{Memory, Ordering};
use hythe_node::hop::HopPool as _;
use hythe_node::{
    ClientOptions, EventId, Node, NodeError, Pool, PoolOptions, PortPolicy, PublisherOptions,
    ServerOptions, SizeBound, SubscriberOptions,
};
use hythe_testing::watched;

fn cut(path: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("opened");
    file.set_len(bytes).expect("cut");
}

fn lost<T: std::fmt::Debug>(outcome: Result<T, NodeError>) -> (PathBuf, String) {
    match outcome {
        Err(NodeError::PoolLost { path, what }) => (path, what),
        other => panic!("not lost: {other:?}"),
    }
}

#[test]
fn cut_control_file_is_named_by_whoever_acts() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "tester").expect("join");
    let mut subscriber = node
        .subscriber("way", &SubscriberOptions::default())
        .expect("port");
    let mut publisher = node
        .publisher("way", &PublisherOptions::default())
        .expect("port");
    let lease = node.lease(100).expect("lease");
    publisher.publish(lease, 100).expect("published");
    let kept = subscriber.try_take().expect("taken").expect("one");
    let lease = node.lease(100).expect("lease");
    pool.check_whole().expect("whole");

    cut(&pool.path().join("control"), 4096);
    let (path, what) = lost(publisher.publish(lease, 100));
    assert_eq!(path, pool.path().join("control"));
    assert!(what.contains("cut to 4096 bytes"), "{what}");
    lost(subscriber.try_take());
    lost(subscriber.take(Duration::from_secs(10)));
    lost(node.lease(100));
    lost(publisher.subscribers());
    lost(publisher.wait_for_subscribers(1, Duration::from_secs(10)));
    lost(node.publisher("other", &PublisherOptions::default()));
    lost(Ok(()).and_then(|()| pool.check_whole()));
    assert_eq!(kept.to_vec().len(), 100, "the region is still there");
    drop((kept, subscriber, publisher, node));
    let refused = Pool::open(&root.options()).expect_err("cut");
    assert!(
        refused.to_string().contains("the file was cut"),
        "{refused}"
    );
}

#[test]
fn cut_region_reads_as_zeroes_and_is_named() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "tester").expect("join");
    let mut subscriber = node
        .subscriber("way", &SubscriberOptions::default())
        .expect("port");
    let mut publisher = node
        .publisher("way", &PublisherOptions::default())
        .expect("port");
    let mut lease = node.lease(5000).expect("lease");
    lease.write(0, &[7; 5000]);
    publisher.publish(lease, 5000).expect("published");
    let sample = subscriber.try_take().expect("taken").expect("one");

    cut(&pool.path().join("region.0"), 0);
    assert_eq!(sample.to_vec(), vec![0; 5000]);
    let (path, what) = lost(subscriber.try_take());
    assert_eq!(path, pool.path().join("region.0"));
    assert!(what.contains("cut to 0 bytes"), "{what}");
    // Whoever has not touched it yet finds out by touching; the kernel by being asked to.
    let other = Pool::open(&root.options()).expect("the control file is whole");
    lost(
        other
            .check_whole()
            .and(Node::join(&pool, "late").and_then(|late| late.lease(100))),
    );
}

#[test]
fn file_read_into_a_cut_region_is_refused() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "tester").expect("join");
    let mut lease = node.lease(5000).expect("lease");
    let program = std::fs::File::open("/proc/self/exe").expect("own program");
    cut(&pool.path().join("region.0"), 0);
    lease.read_file(&program, 0, 0, 5000).expect_err("cut away");
    lost(pool.check_whole());
}

/// One that waits meets the loss when it looks again, and not after its time-out.
#[test]
fn waiting_ports_report_lost_pool() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "wait set").expect("join");
    let blocking = SubscriberOptions::default()
        .depth(2)
        .policy(PortPolicy::Block {
            timeout_ms: 600_000,
        });
    let _stuck = node.subscriber("way", &blocking).expect("port");
    let mut idle = node
        .subscriber("idle", &SubscriberOptions::default())
        .expect("port");
    let patient = PublisherOptions::default().send_timeout(Duration::from_secs(600));
    let mut publisher = node.publisher("way", &patient).expect("port");
    std::thread::scope(|scope| {
        let (taker, take) = watched(move || idle.take(Duration::from_secs(600)).map(drop));
        let waiting = scope.spawn(take);
        let node = &node;
        let (sender, send) = watched(move || {
            loop {
                let lease = node.lease(10)?;
                publisher.publish(lease, 10)?;
            }
        });
        let blocked = scope.spawn(send);
        taker.until_asleep();
        sender.until_asleep();
        cut(&pool.path().join("control"), 0);
        lost(waiting.join().expect("no panic"));
        let blocked: Result<(), NodeError> = blocked.join().expect("no panic");
        lost(blocked);
    });
}

/// Files that are removed stay mapped: only their name tells, and the next program makes another
/// pool.
#[test]
fn removed_pool_is_lost_to_its_members() {
    const LONG: Duration = Duration::from_secs(600);
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "old").expect("join");
    let mut subscriber = node
        .subscriber("way", &SubscriberOptions::default())
        .expect("port");
    let opened = node.publisher("way", &PublisherOptions::default());
    let mut publisher = opened.expect("port");
    std::thread::scope(|scope| {
        // It sleeps in one wait, which only the loss ends.
        let waits = scope.spawn(|| lost(subscriber.take(LONG)));
        // As the end of a user's last session does.
        std::fs::remove_dir_all(pool.path()).expect("own");
        let (path, what) = waits.join().expect("no panic");
        assert_eq!(path, pool.path().join("control"));
        assert!(what.contains("removed"), "{what}");
    });
    let new = root.pool();
    let _late = Node::join(&new, "new").expect("join");
    lost(node.lease(100));
    lost(publisher.subscribers());
    lost(node.subscriber("other", &SubscriberOptions::default()));
    lost(Node::join(&pool, "again"));
}

#[test]
fn replaced_pool_is_lost_to_its_members() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "old").expect("join");
    let moved = root.path().join("moved");
    std::fs::rename(pool.path(), &moved).expect("own");
    node.publisher("way", &PublisherOptions::default())
        .expect("nobody has its name, and those in it meet each other");
    let new = root.pool();
    let (_, what) = lost(node.publisher("other", &PublisherOptions::default()));
    assert!(what.contains("replaced"), "{what}");
    let late = Node::join(&new, "new").expect("join");
    late.lease(100).expect("another pool is not lost");
}

#[test]
fn pool_removed_by_force_is_lost_to_its_members() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "old").expect("join");
    Pool::remove_by_force(&root.options()).expect("own");
    let (_, what) = lost(node.publisher("way", &PublisherOptions::default()));
    assert!(what.contains("removed"), "{what}");
}

/// As another member does that takes it for dead.
#[test]
fn freed_record_is_noticed_by_its_process() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "freed").expect("join");
    let control = pool.control();
    let record = control.layout().participant(node.index().0.into());
    let free = 0;
    control
        .memory()
        .store_cell(record + participant::STATE, free, Ordering::Release);
    let acts = || pool.check_whole();
    eventually("it is noticed", || acts().is_err());
    let (_, what) = lost(acts());
    assert!(what.contains("taken for that of a dead process"), "{what}");
    lost(node.lease(100));
}

/// Whatever a program calls, whether it waits or only looks: no pattern leaves it without the news.
#[test]
fn every_pattern_tells_the_loss() {
    const LONG: Duration = Duration::from_secs(600);
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "tester").expect("join");
    let mut notifier = node.notifier("bells").expect("port");
    let mut listener = node.listener("bells").expect("port");
    let mut server = node.server("ask", &ServerOptions::default()).expect("port");
    let mut client = node.client("ask", &ClientOptions::default()).expect("port");
    assert!(client.wait_for_servers(1, LONG).expect("sound"));
    let question = node.lease(4).expect("lease");
    client.request(question, 4).expect("asked");
    let request = server.try_take().expect("sound").expect("asked");
    let [answer, more] = [(); 2].map(|()| node.lease(4).expect("lease"));

    cut(&pool.path().join("control"), 0);
    lost(notifier.notify(EventId::new(1).expect("an event")));
    lost(notifier.listeners());
    lost(notifier.wait_for_listeners(2, LONG));
    lost(listener.try_take());
    lost(listener.wait(LONG));
    lost(answer.check_whole());
    lost(request.sample().check_whole());
    lost(request.reply(answer, 4));
    lost(server.try_take());
    lost(server.take(LONG));
    lost(server.clients());
    lost(client.servers());
    lost(client.request(more, 4));
    lost(client.take(LONG));
}

/// The space of a pool is reserved. If somebody gives it away (punches a hole) and the file system
/// is full then, no page is left.
#[test]
fn full_file_system_loses_the_pool_and_kills_nobody() {
    let name = "full_file_system_loses_the_pool_and_kills_nobody";
    in_a_small_file_system(name, |root| starve(root.path()));
}

fn starve(root: &Path) {
    let too_large = PoolOptions::new("large").root(root).bytes(64 << 20);
    let refused = Pool::open_or_create(&too_large).expect_err("no room");
    let NodeError::TooLarge {
        wanted,
        possible,
        bound: SizeBound::FileSystem,
        ..
    } = refused
    else {
        panic!("{refused:?}");
    };
    assert!(possible <= 24 << 20 && possible < wanted, "{possible}");

    let options = PoolOptions::new("test").root(root).bytes(16 << 20);
    let pool = Pool::open_or_create(&options).expect("fits");
    let node = Node::join(&pool, "tester").expect("join");
    let mut lease = node.lease(100_000).expect("lease");
    lease.write(0, &[1; 100_000]);
    // Full: those who have their space reserved notice nothing.
    let filler = fill(root);
    let mut more = node.lease(1 << 20).expect("lease");
    more.write(0, &vec![2; 1 << 20]);
    // The hole, and what was in it given away before it is needed again.
    let region = OpenOptions::new()
        .write(true)
        .open(pool.path().join("region.0"))
        .expect("opened");
    let bytes = region.metadata().expect("metadata").len();
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&region, hole, 0, bytes).expect("punched");
    let more_filler = fill(root);
    more.write(0, &vec![3; 1 << 20]);
    let (path, what) = lost(node.lease(10));
    assert_eq!(path, pool.path().join("region.0"));
    assert!(what.contains("full"), "{what}");
    let control = pool.control().memory();
    assert_eq!(
        control.load(12, Ordering::Relaxed),
        1,
        "the control file is whole"
    );
    drop((filler, more_filler));
}
