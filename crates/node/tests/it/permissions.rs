//! Other users in a pool: refused with what is missing, or let in as far as the mode says.
//!
//! The pool belongs to root, the others are user [`OTHER`] with or without group [`GROUP`]. Without
//! root all of it is skipped.

use std::fs::OpenOptions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::support::player::{Player, own_role, say, until_told};
use crate::support::{BOUND, Root, eventually, is_root};
use hythe_node::hop::HopPool as _;
use hythe_node::{
    GroupAccess, Node, NodeError, Pool, PoolOptions, PortPolicy, PublisherOptions,
    SubscriberOptions,
};

const OTHER: u32 = 65534;
const GROUP: u32 = 54321;

/// Tries to open and list, and says what it is told.
const STRANGER: &str = "stranger";
/// Takes one sample, tries everything that needs writing, and keeps the sample.
const READER: &str = "reader";
/// Subscribes, blocks publishers for as long as they let it, and takes nothing.
const STUCK: &str = "stuck";
/// Joins as root and subscribes, gives its rights up, and takes one sample.
const DROPPING: &str = "dropping";
/// Publishes, and takes back what it published.
const WRITER: &str = "writer";
/// Makes a pool with another group.
const MAKER: &str = "maker";
/// Makes a pool and takes part under a umask that forbids others everything.
const MASKED: &str = "masked";
/// Makes a pool of its own and takes part under a umask that forbids everybody everything, itself
/// included.
const MASKED_WHOLLY: &str = "masked wholly";

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some(role) = own_role() else { return };
    let theirs = PoolOptions::new("test").owner(0);
    match role.as_str() {
        STRANGER => {
            say(&Pool::open(&theirs).expect_err("closed").to_string());
            say(&Pool::list(&theirs).expect_err("closed").to_string());
        }
        READER => read_only(&Pool::open(&theirs).expect("opens")),
        DROPPING => {
            let node = Node::join(&Pool::open(&theirs).expect("opens"), DROPPING).expect("joins");
            let subscriber = node.subscriber("data", &SubscriberOptions::default());
            let mut subscriber = subscriber.expect("opens");
            // Of this thread, which is the one that takes.
            let nobody = rustix::thread::Uid::from_raw(OTHER);
            rustix::thread::set_thread_uid(nobody).expect("root may");
            say("ready");
            let sample = subscriber.take(BOUND).expect("sound").expect("published");
            say(&String::from_utf8_lossy(&sample.to_vec()));
        }
        STUCK => stuck(&Pool::open(&theirs).expect("opens")),
        WRITER => write(&Pool::open(&theirs).expect("opens")),
        MAKER => make(),
        MASKED => make_masked(),
        MASKED_WHOLLY => make_masked_wholly(),
        other => panic!("no role {other}"),
    }
    until_told();
}

fn read_only(pool: &Pool) {
    let node = Node::join(pool, READER).expect("joins");
    let mut subscriber = node
        .subscriber("data", &SubscriberOptions::default())
        .expect("opens");
    say("ready");
    let sample = subscriber.take(BOUND).expect("sound").expect("published");
    say(&String::from_utf8_lossy(&sample.to_vec()));
    say(&node.lease(10).expect_err("may not write").to_string());
    let publisher = node.publisher("other", &PublisherOptions::default());
    say(&publisher.expect_err("may not write").to_string());
    let region = pool.path().join("region.0");
    say(&format!(
        "{:?}",
        OpenOptions::new().write(true).open(&region).map(drop)
    ));
    until_told();
}

fn stuck(pool: &Pool) {
    let node = Node::join(pool, STUCK).expect("joins");
    let options = SubscriberOptions::default()
        .depth(1)
        .policy(PortPolicy::Block {
            timeout_ms: 3_600_000,
        });
    let _subscriber = node.subscriber("data", &options).expect("opens");
    say("ready");
    until_told();
}

fn write(pool: &Pool) {
    let node = Node::join(pool, WRITER).expect("joins");
    let mut publisher = node
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let mut lease = publisher.lease(5).expect("free");
    lease.write(0, b"hello");
    publisher.publish(lease, 5).expect("room");
    say("published");
    let removed = Pool::remove_by_force(pool.options());
    say(&removed.expect_err("another's pool").to_string());
    let victim = pool
        .control()
        .tables()
        .members()
        .find(|member| member.name == "test");
    let session = victim.expect("takes part").session.to_string();
    let socket = pool.path().join("members").join(session);
    say(&format!("{:?}", std::fs::remove_file(socket)));
    until_told();
}

fn make() {
    let options = PoolOptions::new("own").bytes(16 << 20).group(GROUP);
    let made = Pool::create(&options.group_access(GroupAccess::Write));
    say(&made.map_or_else(|error| error.to_string(), |made| format!("made: {made}")));
}

fn make_masked() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let options = PoolOptions::new("test").bytes(16 << 20).mode(0o644);
    let pool = Pool::open_or_create(&options).expect("made");
    let node = Node::join(&pool, MASKED).expect("joins");
    say(&node.session().to_string());
    until_told();
}

fn make_masked_wholly() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777));
    let options = PoolOptions::new("test").bytes(16 << 20);
    let pool = Pool::open_or_create(&options).expect("made");
    let (one, other) = (Node::join(&pool, "one"), Node::join(&pool, "other"));
    let (one, other) = (one.expect("joins"), other.expect("joins"));
    let opened = other.subscriber("data", &SubscriberOptions::default());
    let mut subscriber = opened.expect("opens");
    let opened = one.publisher("data", &PublisherOptions::default());
    let mut publisher = opened.expect("opens");
    let mut lease = publisher.lease(4).expect("free");
    lease.write(0, b"heard");
    assert_eq!(publisher.publish(lease, 5).expect("room").delivered, 1);
    let sample = subscriber.take(BOUND).expect("sound").expect("published");
    say(&String::from_utf8_lossy(&sample.to_vec()));
    let private = Pool::create_private(&options).expect("made");
    Node::join(&private, "alone").expect("joins");
    until_told();
}

fn shared(root: &Root, access: GroupAccess) -> Pool {
    let options = root.options().group(GROUP).group_access(access);
    Pool::create(&options).expect("made");
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).expect("own");
    Pool::open(&root.options()).expect("opens")
}

fn directory(root: &Root) -> PathBuf {
    root.options().path()
}

#[test]
fn stranger_is_told_what_is_missing() {
    if !is_root("a stranger at a pool") {
        return;
    }
    let root = Root::new();
    let _pool = shared(&root, GroupAccess::Write);
    let stranger = Player::start_as(&root, STRANGER, OTHER, &[OTHER]);
    let named = |path: PathBuf, mode: &str, group: u32| {
        format!(
            "permission denied: {} has mode {mode}, owner 0, group {group}; you are user {OTHER}",
            path.display()
        )
    };
    let said = stranger.hear();
    let expected = named(directory(&root), "0750", GROUP);
    assert!(said.starts_with(&expected), "{said}");
    let said = stranger.hear();
    let user = directory(&root).parent().expect("has one").to_owned();
    assert!(said.starts_with(&named(user, "0711", 0)), "{said}");
    stranger.end();
}

#[test]
fn private_pool_is_closed_to_its_own_group() {
    if !is_root("a stranger at a private pool") {
        return;
    }
    let root = Root::new();
    drop(root.pool());
    let stranger = Player::start_as(&root, STRANGER, OTHER, &[0, GROUP]);
    for _ in 0..2 {
        let said = stranger.hear();
        assert!(said.contains("has mode 0700, owner 0, group 0"), "{said}");
    }
    stranger.end();
}

#[test]
fn group_that_may_read_reads_and_no_more() {
    if !is_root("a group that may only read") {
        return;
    }
    let root = Root::new();
    let pool = shared(&root, GroupAccess::Read);
    let node = Node::join(&pool, "test").expect("joins");
    let mut publisher = node
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    let mut reader = Player::start_as(&root, READER, OTHER, &[OTHER, GROUP]);
    assert_eq!(reader.hear(), "ready");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let mut lease = publisher.lease(4).expect("free");
    lease.write(0, b"news");
    publisher.publish(lease, 4).expect("room");
    assert_eq!(reader.hear(), "news");
    let region = directory(&root).join("region.0");
    let refused = format!(
        "permission denied: {} has mode 0640, owner 0, group {GROUP}; you are user {OTHER}",
        region.display()
    );
    for what in ["lease", "publish"] {
        let said = reader.hear();
        assert!(said.starts_with(&refused), "{what}: {said}");
    }
    let said = reader.hear();
    assert!(said.contains("PermissionDenied"), "{said}");
    // What it holds is the ledger's business like anybody else's, and goes back when it dies.
    assert_eq!(pool.snapshot().audit.held, 1);
    reader.kill();
    eventually("it is recovered", || {
        pool.control().tables().members().count() == 1 && pool.snapshot().audit.held == 0
    });
}

/// What a process may open is asked when it joins, as of any file.
#[test]
fn rights_given_up_after_joining_are_not_missed() {
    if !is_root("rights that are given up") {
        return;
    }
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joins");
    let mut publisher = node
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    let player = Player::start(&root, DROPPING);
    assert_eq!(player.hear(), "ready");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let mut lease = publisher.lease(4).expect("free");
    lease.write(0, b"news");
    publisher.publish(lease, 4).expect("room");
    assert_eq!(player.hear(), "news");
    player.end();
}

#[test]
fn who_may_only_read_stops_nobody_from_working() {
    if !is_root("a reader that blocks publishers") {
        return;
    }
    let root = Root::new();
    let pool = shared(&root, GroupAccess::Read);
    let node = Node::join(&pool, "test").expect("joins");
    let options = PublisherOptions::default().send_timeout(Duration::from_millis(80));
    let mut publisher = node.publisher("data", &options).expect("opens");
    let own = SubscriberOptions::default().depth(64);
    let mut works = node.subscriber("data", &own).expect("opens");
    let reader = Player::start_as(&root, STUCK, OTHER, &[OTHER, GROUP]);
    assert_eq!(reader.hear(), "ready");
    assert!(publisher.wait_for_subscribers(2, BOUND).expect("sound"));
    let mut blocked = 0;
    for _ in 0..12 {
        let lease = publisher.lease(4).expect("free");
        match publisher.publish(lease, 4) {
            Ok(_) => {}
            Err(NodeError::Blocked { .. }) => blocked += 1,
            Err(error) => panic!("{error}"),
        }
        let got = works.take(BOUND).expect("sound");
        assert!(got.is_some(), "the other subscriber gets every message");
    }
    assert!(blocked > 0, "the reader's queue was never full");
    reader.end();
}

#[test]
fn group_that_may_write_takes_part_in_all_but_owning() {
    if !is_root("a group that may write") {
        return;
    }
    let root = Root::new();
    let pool = shared(&root, GroupAccess::Write);
    let node = Node::join(&pool, "test").expect("joins");
    let mut subscriber = node
        .subscriber("data", &SubscriberOptions::default())
        .expect("opens");
    let writer = Player::start_as(&root, WRITER, OTHER, &[OTHER, GROUP]);
    let sample = subscriber.take(BOUND).expect("sound").expect("published");
    assert_eq!(sample.to_vec(), b"hello");
    assert_eq!(writer.hear(), "published");
    let refused = writer.hear();
    assert!(refused.starts_with("permission denied"), "{refused}");
    let unlinked = writer.hear();
    assert!(
        unlinked.contains("PermissionDenied") || unlinked.contains("Operation not permitted"),
        "it removed another's socket: {unlinked}"
    );
    writer.end();
    eventually("it left", || pool.control().tables().members().count() == 1);
    let members = std::fs::read_dir(directory(&root).join("members"));
    assert_eq!(members.expect("there").count(), 1, "its socket is left");
}

#[test]
fn pool_is_given_only_to_a_group_of_ones_own() {
    if !is_root("giving pools to groups") {
        return;
    }
    let root = Root::new();
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o1777)).expect("own");
    let maker = Player::start_as(&root, MAKER, OTHER, &[OTHER]);
    let said = maker.hear();
    let expected = format!("cannot give a pool to group {GROUP}: user {OTHER} is not in it");
    assert!(said.starts_with(&expected), "{said}");
    maker.end();
    let left = std::fs::read_dir(root.path().join(OTHER.to_string()));
    assert_eq!(left.map_or(0, Iterator::count), 0, "half a pool is left");
    let maker = Player::start_as(&root, MAKER, OTHER, &[OTHER, GROUP]);
    assert_eq!(maker.hear(), "made: true");
    maker.end();
    // Root sees it as theirs.
    let theirs = PoolOptions::new("own").root(root.path()).owner(OTHER);
    let pool = Pool::open(&theirs).expect("root may");
    let node = Node::join(&pool, "root").expect("root may");
    drop(node);
    Pool::remove(&theirs).expect("root may");
}

/// Explicit modes, whatever the umask of those who make files.
#[test]
fn umask_has_no_say() {
    let root = Root::new();
    let masked = Player::start(&root, MASKED);
    let session = masked.hear();
    let mode = |path: PathBuf| {
        let found = std::fs::metadata(path).expect("there");
        found.permissions().mode() & 0o7777
    };
    let path = directory(&root);
    let socket = path.join("members").join(session);
    let found = ["", "members", "control", "region.0"].map(|name| mode(path.join(name)));
    assert_eq!(found, [0o755, 0o3777, 0o666, 0o644]);
    assert_eq!(mode(socket), 0o666);
    masked.end();
}

/// For root nothing is forbidden, hence another user.
#[test]
fn umask_that_forbids_everything_has_no_say_either() {
    if !is_root("another user with a umask of 0777") {
        return;
    }
    let root = Root::new();
    let open_to_all = std::fs::Permissions::from_mode(0o1777);
    std::fs::set_permissions(root.path(), open_to_all).expect("own");
    // A root of its own as well, which it makes.
    let place = root.path().join("made");
    let script = format!("HYTHE_ROOT='{}' exec \"$@\"", place.display());
    let masked = Player::start_as_by(&root, MASKED_WHOLLY, OTHER, &["sh", "-c", &script, "sh"]);
    assert_eq!(masked.hear(), "heard");
    let mode = |path: &std::path::Path| {
        let found = std::fs::metadata(path).expect("there");
        found.permissions().mode() & 0o7777
    };
    let user = place.join(OTHER.to_string());
    let pool = user.join("test");
    let paths = [
        &place,
        &user,
        &pool,
        &pool.join("members"),
        &pool.join("control"),
    ];
    assert_eq!(
        paths.map(|path| mode(path)),
        [0o1777, 0o700, 0o700, 0o700, 0o600]
    );
    masked.end();
}
