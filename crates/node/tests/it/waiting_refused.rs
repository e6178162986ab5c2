//! A participant that may not wait for the end of its peers any more: its limit of open files was
//! lowered after it had joined, or `ppoll` is refused by seccomp. It still recovers the dead, does
//! not spin, and leaves when it is told to.
#![cfg(target_pointer_width = "64")]

use crate::support;

use std::time::{Duration, Instant};

use crate::support::player::{Player, own_role, say, until_told};
use crate::support::refusing::{Whose, refuse};
use crate::support::{Root, eventually};
use hythe_node::hop::HopPool as _;
use hythe_node::{Node, Pool, PoolOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Keeps two leases and waits.
const HOLDER: &str = "holder";
/// Says what becomes of it, without `ppoll`.
const FILTERED: &str = "filtered";
/// The same, with so few files that one descriptor can be waited for, and with none.
const LIMITED_TO_ONE: &str = "limited to one";
const LIMITED_TO_NONE: &str = "limited to none";

/// For how long its CPU time is looked at.
const WATCHED: Duration = Duration::from_secs(1);

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some(role) = own_role() else { return };
    let pool = Pool::open(&PoolOptions::new("test")).expect("the test has made it");
    let node = Node::join(&pool, &role).expect("joins");
    if role == HOLDER {
        let _kept = [node.lease(10).expect("free"), node.lease(99).expect("free")];
        say("holds");
        return until_told();
    }
    // The others are known, and waited for.
    eventually("the watcher looks", || {
        pool.control().tables().members().count() == 3
    });
    std::thread::sleep(Duration::from_millis(200));
    match role.as_str() {
        FILTERED => refuse(libc::SYS_ppoll, libc::EPERM, Whose::All).expect("confined"),
        LIMITED_TO_ONE => limit_files(1),
        LIMITED_TO_NONE => limit_files(0),
        other => panic!("no role {other}"),
    }
    say("refused");
    let members = || pool.control().tables().members().count();
    eventually("the dead one is recovered", || members() == 2);
    say("recovered");
    let (start, before) = (Instant::now(), cpu_time());
    std::thread::sleep(WATCHED);
    let used = cpu_time() - before;
    say(&format!("spins: {}", used > start.elapsed() / 2));
    drop(node);
    say(&format!("left, {} remain", members()));
}

fn limit_files(count: u64) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: Some(count),
        maximum,
    };
    setrlimit(Resource::Nofile, limit).expect("lowered");
}

fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.cast_unsigned(), used.tv_nsec as u32)
}

fn goes_on_and_leaves(role: &str) {
    let root = Root::new();
    let pool = root.pool();
    let _node = Node::join(&pool, "test").expect("joins");
    let mut holder = Player::start(&root, HOLDER);
    assert_eq!(holder.hear(), "holds");
    let refused = Player::start(&root, role);
    assert_eq!(refused.hear(), "refused");
    holder.kill();
    assert_eq!(refused.hear(), "recovered");
    assert_eq!(refused.hear(), "spins: false");
    assert_eq!(refused.hear(), "left, 1 remain");
    refused.end();
}

#[test]
fn without_ppoll_a_participant_goes_on_and_leaves() {
    if support::again::is_emulated() {
        eprintln!("SKIPPED (an emulator makes its own calls): refused system calls");
        return;
    }
    goes_on_and_leaves(FILTERED);
}

#[test]
fn with_too_few_files_a_participant_goes_on_and_leaves() {
    goes_on_and_leaves(LIMITED_TO_ONE);
    goes_on_and_leaves(LIMITED_TO_NONE);
}
