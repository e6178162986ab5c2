//! Participants in different PID and mount namespaces that share the pool's directory: they talk,
//! and recover each other.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::player::{Player, own_role, say, until_told};
use crate::support::{BOUND, Root, eventually};
use hythe_node::hop::HopPool as _;
use hythe_node::{
    Liveness, Node, Pool, PoolOptions, PortPolicy, Publisher, PublisherOptions, Sample, Subscriber,
    SubscriberOptions,
};
use hythe_testing::stays;

/// Publishes, keeps two leases, and waits.
const SOURCE: &str = "source";
/// Takes two samples, keeps them, and waits.
const SINK: &str = "sink";
/// Says when another participant has been recovered, and what the ledger says then.
const SURVIVOR: &str = "survivor";

/// Makes the pool.
const MAKER: &str = "maker";

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some(role) = own_role() else { return };
    if role == MAKER {
        let options = PoolOptions::new("test").bytes(16 << 20);
        let made = Pool::create(&options).expect("made");
        return say(&format!("made: {made}"));
    }
    let pool = Pool::open(&PoolOptions::new("test")).expect("the test has made it");
    let node = Node::join(&pool, &role).expect("joins");
    match role.as_str() {
        SOURCE => source(&node),
        SINK => sink(&node),
        SURVIVOR => survive(&node),
        other => panic!("no role {other}"),
    }
}

fn source(node: &Node) {
    let mut publisher = publish(node);
    let _kept = [
        node.lease(10).expect("free"),
        node.lease(100_000).expect("free"),
    ];
    let lease = publisher.lease(5).expect("free");
    publisher.publish(lease, 5).expect("room");
    say(&format!("published as {}", std::process::id()));
    until_told();
}

fn sink(node: &Node) {
    let mut subscriber = subscribe(node);
    say(&format!("ready as {}", std::process::id()));
    let kept: Vec<Sample> = (0..2)
        .map(|_| subscriber.take(BOUND).expect("sound").expect("published"))
        .collect();
    say(&format!("holds {}", kept.len()));
    until_told();
}

fn survive(node: &Node) {
    let _subscriber = subscribe(node);
    say(&format!("ready as {}", std::process::id()));
    until_told();
    eventually("the other is recovered", || members(node.pool()).len() == 1);
    let audit = node.pool().snapshot().audit;
    let sound = audit.mismatches.is_empty() && audit.held == 0;
    say(&format!("alone, sound: {sound}"));
    until_told();
}

fn publish(node: &Node) -> Publisher {
    let mut publisher = node
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    publisher
}

fn subscribe(node: &Node) -> Subscriber {
    let options = SubscriberOptions::default()
        .policy(PortPolicy::DropNewest)
        .depth(8);
    node.subscriber("data", &options).expect("opens")
}

fn members(pool: &Pool) -> Vec<String> {
    pool.control()
        .tables()
        .members()
        .map(|member| member.name)
        .collect()
}

/// The kernel kills a container a moment after the program that started it. Nobody recovers anybody
/// meanwhile.
fn await_ends(pool: &Pool) {
    eventually("all are dead", || {
        let mut members = pool.control().tables().members();
        members.all(|member| pool.liveness(&member) == Liveness::Dead)
    });
}

fn holds_sum_up(pool: &Pool, held: u32) -> bool {
    let audit = pool.snapshot().audit;
    audit.mismatches.is_empty() && audit.held == held
}

/// Places for the mounts of containers, outside the root. Skips the test, and says so, where there
/// can be none.
fn places(count: usize) -> Option<Vec<PathBuf>> {
    let possible = std::process::Command::new("unshare")
        .args(["--pid", "--mount", "--fork", "--mount-proc", "true"])
        .status();
    if !possible.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED (needs root and unshare): participants in containers");
        return None;
    }
    static MADE: AtomicU32 = AtomicU32::new(0);
    let place = |_| {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("hythe-container-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a fresh directory");
        path
    };
    Some((0..count).map(place).collect())
}

fn remove(places: &[PathBuf]) {
    for place in places {
        let _ = std::fs::remove_dir(place);
    }
}

fn sockets(pool: &Pool) -> usize {
    std::fs::read_dir(pool.path().join("members"))
        .expect("there")
        .count()
}

#[test]
fn publisher_killed_in_a_container_is_recovered_from_outside() {
    let Some(places) = places(1) else { return };
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "outside").expect("joins");
    let mut subscriber = subscribe(&node);
    let mut inside = Player::start_in_container(&root, SOURCE, &places[0]);
    assert_eq!(inside.hear(), "published as 1");
    let sample = subscriber.take(BOUND).expect("sound").expect("published");
    assert_eq!(sample.len(), 5);
    let other = pool
        .control()
        .tables()
        .members()
        .find(|member| member.name == SOURCE)
        .expect("takes part");
    assert_eq!(other.identity.pid, 1, "known by its own number");
    assert_eq!(pool.liveness(&other), Liveness::Alive);
    assert!(holds_sum_up(&pool, 3));
    inside.kill();
    eventually("it is recovered", || members(&pool) == ["outside"]);
    assert!(holds_sum_up(&pool, 1), "what it held went back");
    assert_eq!(sockets(&pool), 1, "its socket went, too");
    drop(sample);
    // A new one takes part at once.
    let again = Player::start_in_container(&root, SOURCE, &places[0]);
    assert_eq!(again.hear(), "published as 1");
    subscriber.take(BOUND).expect("sound").expect("published");
    again.end();
    eventually("it left", || members(&pool) == ["outside"]);
    remove(&places);
}

#[test]
fn publisher_killed_outside_is_recovered_from_a_container() {
    let Some(places) = places(1) else { return };
    let root = Root::new();
    let pool = root.pool();
    let mut inside = Player::start_in_container(&root, SURVIVOR, &places[0]);
    assert_eq!(inside.hear(), "ready as 1");
    let mut outside = Player::start(&root, SOURCE);
    assert!(outside.hear().starts_with("published"));
    assert!(holds_sum_up(&pool, 2));
    outside.kill();
    inside.go_on();
    assert_eq!(inside.hear(), "alone, sound: true");
    inside.end();
    remove(&places);
}

/// Both are process 1 where they are: neither may be taken for the other.
#[test]
fn containers_with_equal_pids_recover_each_other() {
    let Some(places) = places(2) else { return };
    let root = Root::new();
    let pool = root.pool();
    let mut one = Player::start_in_container(&root, SURVIVOR, &places[0]);
    assert_eq!(one.hear(), "ready as 1");
    let mut two = Player::start_in_container(&root, SOURCE, &places[1]);
    assert_eq!(two.hear(), "published as 1");
    let found: Vec<_> = pool.control().tables().members().collect();
    assert_eq!(found[0].identity.pid, found[1].identity.pid);
    assert_ne!(
        found[0].identity.pid_namespace,
        found[1].identity.pid_namespace
    );
    assert_eq!(found.len(), 2);
    two.kill();
    one.go_on();
    assert_eq!(one.hear(), "alone, sound: true");
    one.end();
    remove(&places);
}

/// Nobody of its namespace is left, nor anybody else who saw it alive.
#[test]
fn next_to_come_recovers_what_a_dead_container_left() {
    let Some(places) = places(2) else { return };
    let root = Root::new();
    let pool = root.pool();
    let sink = Player::start_in_container(&root, SINK, &places[0]);
    assert_eq!(sink.hear(), "ready as 1");
    let source = Player::start_in_container(&root, SOURCE, &places[1]);
    assert_eq!(source.hear(), "published as 1");
    // Both at once: drop kills.
    drop((sink, source));
    await_ends(&pool);
    let left = members(&pool);
    let node = Node::join(&pool, "late").expect("joins");
    assert_eq!(
        members(&pool),
        ["late"],
        "recovered before the node is used; {left:?}"
    );
    assert!(holds_sum_up(&pool, 0));
    drop(node);
    assert_eq!(sockets(&pool), 0);
    remove(&places);
}

#[test]
fn record_of_a_participant_that_lives_elsewhere_is_never_taken() {
    let Some(places) = places(1) else { return };
    let root = Root::new();
    let pool = root.pool();
    let inside = Player::start_in_container(&root, SINK, &places[0]);
    assert_eq!(inside.hear(), "ready as 1");
    // Process 1 of the outer namespace has another start time: by number alone it would be a reused
    // id.
    for _ in 0..3 {
        let node = Node::join(&pool, "passes by").expect("joins");
        let looks = Duration::from_millis(120);
        stays("it lives", looks, || members(&pool).len() == 2);
        drop(node);
    }
    let refused = Pool::remove(&root.options()).expect_err("somebody takes part");
    assert!(refused.to_string().contains("sink (pid 1)"), "{refused}");
    assert!(Path::new(&pool.path()).exists());
    drop(inside);
    await_ends(&pool);
    Pool::remove(&root.options()).expect("its death is proven here, too");
    remove(&places);
}

/// Where users are numbered anew as well: a user's own container, in which that user is root.
#[test]
fn rootless_container_takes_part_with_its_user_outside() {
    const USER: u32 = 4321;
    let Some(places) = places(1) else { return };
    let possible = std::process::Command::new("setpriv")
        .args(["--reuid=4321", "--clear-groups", "unshare", "-r", "true"])
        .status();
    if !possible.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED (users may not make user namespaces here): a rootless container");
        return remove(&places);
    }
    let root = Root::new();
    let for_all = std::fs::Permissions::from_mode(0o1777);
    std::fs::set_permissions(root.path(), for_all).expect("own");
    chown(&places[0], Some(USER), Some(USER)).expect("root may");
    let maker = Player::start_as(&root, MAKER, USER, &[USER]);
    assert_eq!(maker.hear(), "made: true");
    maker.end();

    let mut outside = Player::start_as(&root, SURVIVOR, USER, &[USER]);
    assert!(outside.hear().starts_with("ready"));
    let mut inside = Player::start_rootless(&root, SOURCE, USER, &places[0]);
    assert_eq!(inside.hear(), "published as 1");
    inside.kill();
    outside.go_on();
    assert_eq!(outside.hear(), "alone, sound: true");
    outside.end();

    let mut inside = Player::start_rootless(&root, SURVIVOR, USER, &places[0]);
    assert_eq!(inside.hear(), "ready as 1");
    let mut outside = Player::start_as(&root, SOURCE, USER, &[USER]);
    assert!(outside.hear().starts_with("published"));
    outside.kill();
    inside.go_on();
    assert_eq!(inside.hear(), "alone, sound: true");
    inside.end();
    let _ = std::fs::remove_dir(places[0].join("0"));
    remove(&places);
}
