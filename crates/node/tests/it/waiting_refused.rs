//! A participant that may not wait for the end of its peers any more: its limit of open files was
//! lowered after it had joined, or `ppoll` is refused by seccomp. It still recovers the dead, does
//! not spin, and leaves when it is told to.
#![cfg(target_pointer_width = "64")]

use crate::support;

use crate::support::player::{Player, own_role, say, until_told};
use crate::support::refusing::{Whose, refuse};
use crate::support::{Root, eventually, until_watched};
use hythe_node::hop::HopPool as _;
use hythe_node::{Node, Pool, PoolOptions};
use hythe_testing::{sleeps_of_threads, until_thread_is_in_call};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Keeps two leases and waits.
const HOLDER: &str = "holder";
/// Says what becomes of it, without `ppoll`.
const FILTERED: &str = "filtered";
/// The same, with so few files that one descriptor can be waited for, and with none.
const LIMITED_TO_ONE: &str = "limited to one";
const LIMITED_TO_NONE: &str = "limited to none";

/// The thread that waits for the end of peers, as `comm` has it.
const WATCHER_THREAD: &str = "hythe-watcher";
/// How often it has to go to sleep.
const NAPS: u64 = 10;

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
    let mut others = pool.control().tables().members();
    let holder = others.find(|one| one.name == HOLDER).expect("holds");
    until_watched(holder.identity.pid, 2);
    until_thread_is_in_call(std::process::id(), WATCHER_THREAD, libc::SYS_ppoll);
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
    until_told();
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

fn goes_on_and_leaves(role: &str) {
    let root = Root::new();
    let pool = root.pool();
    let _node = Node::join(&pool, "test").expect("joins");
    let mut holder = Player::start(&root, HOLDER);
    assert_eq!(holder.hear(), "holds");
    let mut refused = Player::start(&root, role);
    assert_eq!(refused.hear(), "refused");
    holder.kill();
    assert_eq!(refused.hear(), "recovered");
    // A thread that spins never goes to sleep by itself.
    let naps = || sleeps_of_threads(refused.pid(), WATCHER_THREAD);
    let before = naps();
    eventually("its watcher naps between polls", || naps() >= before + NAPS);
    refused.go_on();
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
