//! Semaphores and message queues among those who do not trust each other: another user with and
//! without the right, words of anything in a queue, an owner that is stopped.

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::time::{Duration, Instant};

use crate::support::player::{Player, own_role, say, until_told};
use crate::support::{BOUND, Root, eventually, is_root};
use hythe_abi::objects::{HEADER_BYTES, OBJECT_BYTES, object};
use hythe_node::hop::HopPool as _;
use hythe_node::object::{
    Deadline, MessageQueue, MessageQueueOptions, Semaphore, SemaphoreOptions, SyncError,
};
use hythe_node::{GroupAccess, Node, Pool, PoolOptions};
use hythe_testing::Dice;

const OTHER: u32 = 65534;
const GROUP: u32 = 54321;

/// Another user, whose group may write the pool.
const COLLEAGUE: &str = "colleague";
/// Takes part, and does nothing.
const IDLER: &str = "idler";

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some(role) = own_role() else { return };
    let mut options = PoolOptions::new("test");
    if role == COLLEAGUE {
        // Root's, whom only it meets.
        options = options.owner(0);
    }
    let pool = Pool::open(&options).expect("opens");
    let node = Node::join(&pool, &role).expect("joins");
    match role.as_str() {
        COLLEAGUE => use_what_is_granted(&node),
        IDLER => say("ready"),
        other => panic!("no role {other}"),
    }
    until_told();
}

fn bounded() -> Deadline {
    Deadline::after(BOUND)
}

fn use_what_is_granted(node: &Node) {
    let existing = SemaphoreOptions::default();
    let own = Semaphore::open(node, "/own", &existing);
    say(&own.expect_err("of its owner alone").to_string());
    let queue = MessageQueueOptions::default();
    let both = MessageQueue::open(node, "/in", &queue);
    say(&both.expect_err("for sending only").to_string());
    let answers = Semaphore::open(node, "/group", &existing).expect("the group's");
    let sending = queue.directions(false, true);
    let sending = MessageQueue::open(node, "/in", &sending).expect("for sending");
    sending
        .send_copy(b"from another user", 3, bounded())
        .expect("sent");
    answers.post().expect("posted");
}

#[test]
fn another_user_has_what_the_mode_grants() {
    if !is_root("semaphores and queues of two users") {
        return;
    }
    let root = Root::new();
    let options = root.options().group(GROUP).group_access(GroupAccess::Write);
    Pool::create(&options).expect("made");
    std::fs::set_permissions(root.path(), Permissions::from_mode(0o755)).expect("own");
    let pool = Pool::open(&root.options()).expect("opens");
    let node = Node::join(&pool, "owner").expect("joins");
    let made = SemaphoreOptions::default().create(0);
    let _own = Semaphore::open(&node, "/own", &made.mode(0o600)).expect("made");
    let group = Semaphore::open(&node, "/group", &made.mode(0o666)).expect("made");
    let queue = MessageQueueOptions::default().create(4, 64).mode(0o602);
    let queue = MessageQueue::open(&node, "/in", &queue).expect("made");
    let colleague = Player::start_as(&root, COLLEAGUE, OTHER, &[OTHER, GROUP]);
    for (name, mode) in [("/own", "0600"), ("/in", "0602")] {
        let said = colleague.hear();
        let expected = format!("`{name}` has mode {mode}, owner 0; you are user {OTHER}");
        assert!(said.contains(&expected), "{said}");
    }
    group.wait(bounded()).expect("posted by the other user");
    let received = queue.receive(Deadline::Now).expect("sent before");
    assert_eq!(received.sample.to_vec(), b"from another user");
    assert_eq!(received.priority, 3);
    colleague.end();
}

fn objects_of(pool: &Pool) -> File {
    let file = OpenOptions::new()
        .write(true)
        .open(pool.path().join("objects"));
    file.expect("opened")
}

/// Whatever stands in a queue's words, calls end, with an answer or an error; another queue goes
/// on, and what the damaged one lost is given back with it.
#[test]
fn queue_of_anything_is_an_error_at_worst() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "honest").expect("joins");
    let made = MessageQueueOptions::default().create(8, 64);
    let queue = MessageQueue::open(&node, "/first", &made).expect("made");
    let other = MessageQueue::open(&node, "/second", &made).expect("made");
    other.send_copy(b"kept", 1, bounded()).expect("sent");
    let file = objects_of(&pool);
    let mut dice = Dice::new(0x5EED_0B1E);
    let soon = || Deadline::after(Duration::from_millis(1));
    for _ in 0..400 {
        let mut at = object::LOCK;
        // The lock apart: what stands there is told after 2 s.
        while (object::LOCK..object::LOCK + 8).contains(&at) {
            at = 4 * dice.below(OBJECT_BYTES / 4);
        }
        let value = match dice.below(3) {
            0 => dice.below(64) as u32,
            1 => u32::MAX - dice.below(4) as u32,
            _ => dice.number() as u32,
        };
        let written = file.write_all_at(&value.to_le_bytes(), (HEADER_BYTES + at) as u64);
        written.expect("written");
        let _ = queue.send_copy(b"anything", 31, soon());
        let _ = queue.send_copy(b"anything", 0, soon());
        let _ = queue.receive(soon());
        let _ = MessageQueue::open(&node, "/first", &made);
    }
    let kept = other.receive(Deadline::Now).expect("not touched");
    assert_eq!(kept.sample.to_vec(), b"kept");
    let audit = pool.snapshot().audit;
    assert_eq!(audit.mismatches, [], "the ledger is not in these words");
}

/// That a process stands still with an object costs others a bounded wait, and an error that names
/// it; its end frees the object.
#[test]
fn stopped_owner_is_named_and_its_end_frees_the_object() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "waits").expect("joins");
    let made = SemaphoreOptions::default().create(1);
    let semaphore = Semaphore::open(&node, "/s", &made).expect("made");
    let mut idler = Player::start(&root, IDLER);
    assert_eq!(idler.hear(), "ready");
    idler.stop();
    let mut members = pool.control().tables().members();
    let stopped = members.find(|member| member.name == IDLER).expect("joined");
    let owner = (u64::from(stopped.session) << 32) | (u64::from(stopped.index.0) + 1);
    let at = (HEADER_BYTES + object::LOCK) as u64;
    let file = objects_of(&pool);
    file.write_all_at(&owner.to_le_bytes(), at)
        .expect("written");

    let begun = Instant::now();
    let told = semaphore.post().expect_err("its owner stands still");
    let waited = begun.elapsed();
    let named = matches!(&told, SyncError::Busy { member, .. } if *member == stopped.index.0);
    assert!(named, "{told}");
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
    idler.kill();
    eventually("its object is free", || semaphore.post().is_ok());
    semaphore.wait(bounded()).expect("there were two");
}
