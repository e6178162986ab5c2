//! Named semaphores between real processes: hand-over, holders that die, kills in front of every
//! store of every operation, random operations against a model, and a file that somebody fills
//! with anything.
//!
//! Other processes are this test program again, asked by [`ROLE`].

use crate::support;

use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{BOUND, Root};
use hythe_abi::objects::{FILE_BYTES, HEADER_BYTES, OBJECT_BYTES, VALUE_MAX, object};
use hythe_memory::kill_points;
use hythe_node::object::{Deadline, Semaphore, SemaphoreOptions, SyncError};
use hythe_node::{Node, Pool, PoolOptions};
use hythe_sys::fork::run_in_child;
use hythe_testing::{eventually, in_module};

const ROLE: &str = "HYTHE_TEST_ROLE";
const STORE: &str = "HYTHE_TEST_STORE";
const SEED: &str = "HYTHE_TEST_SEED";

fn options(root: &Path) -> PoolOptions {
    PoolOptions::new("test").root(root).bytes(16 << 20)
}

fn start(root: &Root, role: &str, extra: &[(&str, String)]) -> Child {
    support::again::command()
        .args(["--exact", &in_module("plays_its_role"), "--nocapture"])
        .env(ROLE, role)
        .env("HYTHE_TEST_ROOT", root.path())
        .envs(extra.iter().map(|(name, value)| (name, value.as_str())))
        .stdout(Stdio::null())
        .spawn()
        .expect("started")
}

/// As long as a test may wait.
fn bounded() -> Deadline {
    Deadline::after(BOUND)
}

fn made(value: u32) -> SemaphoreOptions {
    SemaphoreOptions::default().create(value)
}

fn open(node: &Node, name: &str, value: u32) -> Semaphore {
    Semaphore::open(node, name, &made(value)).expect("opened")
}

/// The other processes.
#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let root = std::env::var_os("HYTHE_TEST_ROOT").expect("a root");
    let pool = Pool::open(&options(Path::new(&root))).expect("opened");
    let node = Node::join(&pool, &role).expect("joins");
    let number = |name| std::env::var(name).map_or(0, |text| text.parse().expect("a number"));
    match role.as_str() {
        "answers" => answers(&node),
        "holds" => holds(&node),
        "random" => random_operations(&node, number(SEED)),
        operation => dies_in(&node, operation, number(STORE) as u32),
    }
}

fn answers(node: &Node) {
    let (ping, pong) = (open(node, "/ping", 0), open(node, "/pong", 0));
    for _ in 0..ROUNDS {
        ping.wait(bounded()).expect("asked");
        pong.post().expect("answered");
    }
}

fn holds(node: &Node) {
    let semaphore = open(node, "/held", 0);
    semaphore.wait(bounded()).expect("taken");
    semaphore.wait(bounded()).expect("taken");
    open(node, "/holding", 0).post().expect("said");
    loop {
        std::thread::park();
    }
}

const ROUNDS: u32 = 500;

#[test]
fn two_processes_hand_over() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "asks").expect("joins");
    let (ping, pong) = (open(&node, "/ping", 0), open(&node, "/pong", 0));
    let mut other = start(&root, "answers", &[]);
    for _ in 0..ROUNDS {
        ping.post().expect("asked");
        pong.wait(bounded()).expect("answered");
    }
    assert!(other.wait().expect("ended").success());
    assert_eq!(ping.value().expect("whole"), 0);
    assert_eq!(pong.value().expect("whole"), 0);
}

/// Starts a process that holds two of three counts, and kills it.
fn with_dead_holder(root: &Root, node: &Node, options: &SemaphoreOptions) -> Semaphore {
    let semaphore = Semaphore::open(node, "/held", options).expect("made");
    let holding = open(node, "/holding", 0);
    let mut holder = start(root, "holds", &[]);
    holding.wait(bounded()).expect("it holds");
    assert_eq!(semaphore.value().expect("whole"), 1);
    holder.kill().expect("killed");
    holder.wait().expect("ended");
    semaphore
}

#[test]
fn dead_holder_is_reported_once_and_counts_return() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "other").expect("joins");
    let semaphore = with_dead_holder(&root, &node, &made(3));
    let (mut taken, mut reports) = (0, 0);
    // One count is there; the report comes when the death is known, which takes a moment.
    eventually("the report", || {
        match semaphore.wait(Deadline::after(Duration::from_millis(20))) {
            Ok(()) => taken += 1,
            Err(SyncError::OwnerDead) => reports += 1,
            Err(SyncError::TimedOut) => {}
            Err(other) => panic!("{other}"),
        }
        reports == 1
    });
    while semaphore.try_wait().is_ok() {
        taken += 1;
    }
    assert_eq!(taken, 1);
    assert!(
        matches!(semaphore.try_wait(), Err(SyncError::WouldBlock(_))),
        "reported once"
    );
    assert_eq!(semaphore.info().expect("whole").abandoned, 2);
    assert_eq!(semaphore.recover().expect("recovered"), 2);
    assert_eq!(semaphore.recover().expect("nothing left"), 0);
    assert_eq!(semaphore.value().expect("whole"), 2);
}

#[test]
fn counts_of_a_dead_holder_come_back_at_once_where_asked_for() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "other").expect("joins");
    let semaphore = with_dead_holder(&root, &node, &made(3).recover(true));
    for _ in 0..3 {
        semaphore.wait(bounded()).expect("it came back");
    }
    assert!(matches!(
        semaphore.try_wait(),
        Err(SyncError::WouldBlock(_))
    ));
}

#[test]
fn closing_process_keeps_its_counts_as_posix_says() {
    let root = Root::new();
    let pool = root.pool();
    let (one, other) = (
        Node::join(&pool, "one").expect("joins"),
        Node::join(&pool, "other"),
    );
    let other = other.expect("joins");
    let (mine, theirs) = (open(&one, "/s", 2), open(&other, "/s", 0));
    mine.wait(bounded()).expect("taken");
    assert_eq!(theirs.info().expect("whole").holders.len(), 1);
    drop(mine);
    assert_eq!(theirs.info().expect("whole").holders, []);
    theirs.wait(bounded()).expect("one is left");
    assert!(matches!(theirs.try_wait(), Err(SyncError::WouldBlock(_))));
}

#[test]
fn names_rights_and_ranges_are_refused() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "user").expect("joins");
    let refused = |name: &str, options: &SemaphoreOptions| {
        Semaphore::open(&node, name, options).expect_err("refused")
    };
    let plain = SemaphoreOptions::default();
    assert!(
        matches!(refused("/none", &plain), SyncError::NoSuch { .. }),
        "no file yet"
    );
    let kept = open(&node, "/there", 1);
    assert!(matches!(refused("/none", &plain), SyncError::NoSuch { .. }));
    let exclusive = made(1).exclusive(true);
    assert!(matches!(
        refused("/there", &exclusive),
        SyncError::Exists { .. }
    ));
    for name in ["", "/", "/a/b", "/a\n"] {
        assert!(
            matches!(refused(name, &made(0)), SyncError::BadName { .. }),
            "{name:?}"
        );
    }
    let long = format!("/{}", "n".repeat(63));
    assert!(matches!(
        refused(&long, &made(0)),
        SyncError::NameTooLong { .. }
    ));
    drop(open(&node, &long[..63], 0));
    let large = made(VALUE_MAX + 1);
    assert!(matches!(
        refused("/large", &large),
        SyncError::OutOfRange { .. }
    ));
    let full = open(&node, "/full", VALUE_MAX);
    let over = full.post().expect_err("full");
    assert_eq!(over.errno(), rustix::io::Errno::OVERFLOW.raw_os_error());
    assert!(matches!(
        Semaphore::unlink(&node, "/none"),
        Err(SyncError::NoSuch { .. })
    ));
    drop(kept);
}

#[test]
fn unlinked_one_lives_until_its_last_user_has_closed_it() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "one").expect("joins");
    let first = open(&node, "/s", 1);
    let again = open(&node, "/s", 9);
    Semaphore::unlink(&node, "/s").expect("unlinked");
    let second = open(&node, "/s", 5);
    drop(first);
    again.wait(bounded()).expect("the old one");
    assert_eq!(again.value().expect("whole"), 0);
    assert_eq!(second.value().expect("whole"), 5);
    drop((again, second));
    // Without a name and users their places are used again: for more than there are.
    for round in 0..200 {
        let name = format!("/round-{round}");
        drop(open(&node, &name, 0));
        Semaphore::unlink(&node, &name).expect("unlinked");
    }
    drop(node);
    let node = Node::join(&pool, "later").expect("joins");
    assert_eq!(
        open(&node, "/s", 0).value().expect("whole"),
        5,
        "kept without any user"
    );
}

#[test]
fn table_has_an_end() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "one").expect("joins");
    let all: Vec<_> = (0..64).map(|n| open(&node, &format!("/{n}"), 0)).collect();
    let full = Semaphore::open(&node, "/more", &made(0)).expect_err("full");
    assert_eq!(full.errno(), rustix::io::Errno::NFILE.raw_os_error());
    drop(all);
}

#[test]
fn wait_ends_with_its_time() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "one").expect("joins");
    let semaphore = open(&node, "/s", 0);
    let begun = Instant::now();
    let timeout = Duration::from_millis(150);
    let over = semaphore
        .wait(Deadline::after(timeout))
        .expect_err("nobody posts");
    assert!(matches!(over, SyncError::TimedOut), "{over}");
    // The wall clock decides, and may have been set meanwhile; by milliseconds, in a test machine.
    assert!(begun.elapsed() >= timeout - Duration::from_millis(50));
    let past = Deadline::from_timespec(1, 0).expect("a time");
    assert!(matches!(semaphore.wait(past), Err(SyncError::TimedOut)));
    semaphore.post().expect("posted");
    semaphore
        .wait(past)
        .expect("what is there is taken, however late");
    assert_eq!(Deadline::from_timespec(0, 1_000_000_000), None);
    assert_eq!(Deadline::from_timespec(0, -1), None);
}

#[test]
fn copy_in_a_forked_child_is_refused() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "one").expect("joins");
    let semaphore = open(&node, "/s", 1);
    let outcome = run_in_child(|| {
        let refused = semaphore.try_wait();
        i32::from(!matches!(refused, Err(SyncError::Pool(_))))
    });
    assert_eq!(outcome.expect("forked"), 0);
    assert_eq!(semaphore.value().expect("whole"), 1);
}

/// What is done at each store of which a process dies.
const OPERATIONS: [&str; 6] = ["post", "wait", "open", "unlink", "close", "recover"];

fn dies_in(node: &Node, operation: &str, store: u32) {
    let semaphore = open(node, "/swept", 0);
    if operation == "recover" {
        // Something to recover: as if another had died.
        semaphore.wait(bounded()).expect("taken");
    }
    kill_points::arm(store);
    match operation {
        "post" => semaphore.post().expect("posted"),
        "wait" => semaphore.wait(bounded()).expect("taken"),
        "open" => drop(Semaphore::open(node, "/new", &made(7)).expect("opened")),
        "unlink" => Semaphore::unlink(node, "/other").expect("unlinked"),
        "close" => drop(semaphore),
        "recover" => drop(semaphore.recover()),
        other => panic!("no role {other}"),
    }
    let stores = kill_points::disarm();
    // Whoever is not killed says how many there are, and dies as the others do.
    let _ = std::fs::write(
        std::env::var_os("HYTHE_TEST_ROOT")
            .map(std::path::PathBuf::from)
            .expect("a root")
            .join("stores"),
        stores.to_string(),
    );
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

/// A process dies in front of each store of an operation: no count is lost or made, others go on.
fn sweep(operation: &str) {
    let root = Root::new();
    let node = Node::join(&root.pool(), "survivor").expect("joins");
    let recovering = made(3).recover(operation != "recover");
    let semaphore = Semaphore::open(&node, "/swept", &recovering).expect("made");
    let mut store = 1;
    loop {
        let _ = std::fs::remove_file(root.path().join("stores"));
        drop(open(&node, "/other", 0));
        let before = semaphore.value().expect("whole");
        let mut victim = start(&root, operation, &[(STORE, store.to_string())]);
        let ended = victim.wait().expect("ended");
        assert_eq!(ended.signal(), Some(9), "{operation} {store}");
        let members = || node.pool().snapshot().members.len();
        eventually("recovered", || members() == 1);
        let after = semaphore
            .info()
            .map(|_| semaphore.value())
            .expect("whole")
            .expect("whole");
        // Counts of the dead come back at the next look, at the latest.
        let taken = match semaphore.wait(bounded()) {
            Ok(()) => 1,
            Err(SyncError::OwnerDead) => 0,
            Err(other) => panic!("{operation} {store}: {other}"),
        };
        if operation == "recover" {
            semaphore.recover().expect("recovered");
        }
        for _ in 0..taken {
            semaphore.post().expect("posted");
        }
        let now = semaphore.info().expect("whole");
        let posted = u32::from(operation == "post");
        assert!(
            (before..=before + posted).contains(&now.value),
            "{operation} {store}: {before} {after} {now:?}"
        );
        assert_eq!(now.holders, [], "{operation} {store}");
        if let Ok(opened) = Semaphore::open(&node, "/new", &SemaphoreOptions::default()) {
            assert_eq!(
                opened.value().expect("whole"),
                7,
                "{operation} {store}: seen whole or not"
            );
            Semaphore::unlink(&node, "/new").expect("unlinked");
        }
        if let Ok(stores) = std::fs::read_to_string(root.path().join("stores")) {
            let stores: u32 = stores.parse().expect("a number");
            assert!(
                store > stores,
                "{operation}: lived through store {store} of {stores}"
            );
            println!("{operation}: died in front of each of {stores} stores");
            break;
        }
        store += step(operation, store);
    }
}

/// Making an object zeroes its two thousand words: of those a few are enough.
const fn step(operation: &str, store: u32) -> u32 {
    let is_zeroing = operation.len() == "open".len() && store > 10 && store < 1980;
    if is_zeroing { 193 } else { 1 }
}

#[test]
fn death_at_any_store_of_a_post() {
    sweep(OPERATIONS[0]);
}

#[test]
fn death_at_any_store_of_a_wait() {
    sweep(OPERATIONS[1]);
}

#[test]
fn death_at_any_store_of_opening_and_unlinking() {
    sweep(OPERATIONS[2]);
    sweep(OPERATIONS[3]);
}

#[test]
fn death_at_any_store_of_closing_and_recovering() {
    sweep(OPERATIONS[4]);
    sweep(OPERATIONS[5]);
}

/// A sequence of numbers by a seed (xorshift).
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Posts and waits, and counts what succeeded in a file of its own: the model is the sum.
fn random_operations(node: &Node, seed: u64) {
    let semaphore = open(node, "/random", 0);
    let mut draws = Draws(seed | 1);
    let (mut posts, mut waits) = (0, 0);
    for _ in 0..3000 {
        match draws.below(5) {
            0 | 1 => posts += i64::from(semaphore.post().is_ok()),
            2 => waits += i64::from(semaphore.try_wait().is_ok()),
            3 => {
                let soon = Deadline::after(Duration::from_micros(draws.below(300)));
                waits += i64::from(semaphore.wait(soon).is_ok());
            }
            _ => drop(open(node, "/random", 0)),
        }
    }
    let root = std::env::var_os("HYTHE_TEST_ROOT").expect("a root");
    let to = Path::new(&root).join(format!("sum-{}", std::process::id()));
    std::fs::write(to, (posts - waits).to_string()).expect("written");
}

#[test]
fn random_operations_of_several_processes_add_up() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "looks on").expect("joins");
    let semaphore = open(&node, "/random", 100);
    let seed = std::env::var(SEED).map_or_else(
        |_| u64::from(std::process::id()) * 7919,
        |text| text.parse().expect("a number"),
    );
    println!("{SEED}={seed}");
    let children: Vec<Child> = (0..4)
        .map(|child| {
            start(
                &root,
                "random",
                &[(SEED, (seed + child * 104_729).to_string())],
            )
        })
        .collect();
    let mut expected = 100;
    for mut child in children {
        let id = child.id();
        assert!(child.wait().expect("ended").success());
        let sum = std::fs::read_to_string(root.path().join(format!("sum-{id}")));
        expected += sum.expect("a sum").parse::<i64>().expect("a number");
    }
    assert_eq!(i64::from(semaphore.value().expect("whole")), expected);
}

/// Whatever stands in the file, calls end, with an answer or an error, and others than the object
/// that was written over go on.
#[test]
fn file_of_anything_is_an_error_at_worst() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "honest").expect("joins");
    let (semaphore, other) = (open(&node, "/first", 3), open(&node, "/second", 2));
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(pool.path().join("objects"));
    let file = file.expect("opened");
    let mut draws = Draws(0x9E37_79B9_7F4A_7C15);
    let soon = || Deadline::after(Duration::from_millis(1));
    for _ in 0..300 {
        // The lock apart: what stands there is told after 2 s.
        let at = loop {
            let at = HEADER_BYTES as u64 + 4 * draws.below(OBJECT_BYTES as u64 / 4);
            if !(object::LOCK..object::LOCK + 8).contains(&(at as usize - HEADER_BYTES)) {
                break at;
            }
        };
        let value = match draws.below(3) {
            0 => draws.below(64) as u32,
            1 => u32::MAX - draws.below(4) as u32,
            _ => draws.below(1 << 32) as u32,
        };
        file.write_all_at(&value.to_le_bytes(), at)
            .expect("written");
        let _ = semaphore.post();
        let _ = semaphore.wait(soon());
        let _ = semaphore.recover();
        let _ = semaphore.info();
        let _ = Semaphore::open(&node, "/first", &made(1));
    }
    other.wait(bounded()).expect("not touched");
    let _ = Semaphore::unlink(&node, "/first");
    drop(semaphore);
    other.post().expect("goes on");
}

#[test]
fn lock_that_nobody_has_is_told_after_a_bounded_wait() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "honest").expect("joins");
    let semaphore = open(&node, "/s", 1);
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(pool.path().join("objects"));
    let file = file.expect("opened");
    assert_eq!(file.metadata().expect("asked").len(), FILE_BYTES as u64);
    let at = (HEADER_BYTES + object::LOCK) as u64;
    file.write_all_at(&u64::MAX.to_le_bytes(), at)
        .expect("written");
    let told = semaphore.post().expect_err("nobody's");
    assert!(
        matches!(told, SyncError::Busy { member: 255, .. }),
        "{told}"
    );
    file.write_all_at(&0_u64.to_le_bytes(), at)
        .expect("written");
    semaphore.post().expect("free again");
}
