//! Records of living participants that somebody else has changed. Who has seen the participant
//! before does not take it for dead, counts the damage, and still notices its death. Who has not
//! seen it before asks the socket that the record names.

use crate::support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::player::{Player, own_role, say, until_told};
use crate::support::{Root, eventually, is_root, until_watched};
use hythe_abi::pool::participant;
use hythe_memory::{Memory, Ordering};
use hythe_node::hop::HopPool as _;
use hythe_node::{GroupAccess, Liveness, MemberInfo, Node, Pool, PoolOptions};
use hythe_testing::{await_kill, stays};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

/// Keeps two leases, and publishes when it is told to.
const HOLDER: &str = "holder";
/// Keeps two leases; a child that it has forked outlives it.
const PARENT: &str = "parent";
/// Takes part on a kernel that gives no pidfd of the other end of a socket.
const OLD_KERNEL: &str = "old kernel";
/// Forges the record of the holder; a member that may only read payload is enough for that.
const FORGER: &str = "forger";
/// Takes part.
const WATCHER: &str = "watcher";

/// Another user, and the group that it reads by.
const OTHER: u32 = 65534;
const GROUP: u32 = 54321;
/// Enough looks of a watcher for whatever it would do.
const LOOKS: Duration = Duration::from_millis(500);
/// A session number that nobody has.
const FORGED_SESSION: u64 = 0xF0_0000;

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some(role) = own_role() else { return };
    if role == FORGER {
        let pool = Pool::open(&PoolOptions::new("test").owner(0)).expect("opens");
        Forged::Both.write(&pool, &find(&pool, HOLDER));
        return say("forged");
    }
    let pool = Pool::open(&PoolOptions::new("test")).expect("the test has made it");
    #[cfg(target_pointer_width = "64")]
    if role == OLD_KERNEL {
        use support::refusing::{Whose, refuse_peer_pidfds};
        refuse_peer_pidfds(Whose::All).expect("confined");
    }
    let node = Node::join(&pool, &role).expect("joins");
    match role.as_str() {
        HOLDER => {
            let _kept = [node.lease(10).expect("free"), node.lease(99).expect("free")];
            say("holds");
            until_told();
        }
        PARENT => fork_and_hold(&node),
        OLD_KERNEL | WATCHER => watch(&pool),
        other => panic!("no role {other}"),
    }
}

/// The child lives as long as the test keeps the input open.
fn fork_and_hold(node: &Node) {
    let _kept = [node.lease(10).expect("free"), node.lease(99).expect("free")];
    let child = || {
        until_told();
        0
    };
    std::thread::scope(|scope| {
        scope.spawn(|| hythe_sys::fork::run_in_child(child));
        let forked = || {
            let own = std::process::id();
            let children = format!("/proc/{own}/task");
            let tasks = std::fs::read_dir(children).expect("own");
            let mut lists = tasks.flatten().map(|task| {
                std::fs::read_to_string(task.path().join("children")).unwrap_or_default()
            });
            lists.any(|list| !list.trim().is_empty())
        };
        eventually("the child runs", forked);
        say("forked");
        await_kill();
    });
}

/// Says on request when it has counted a damaged record.
fn watch(pool: &Pool) {
    say("watches");
    until_told();
    eventually("the damage is counted", || pool.damaged_records() == 1);
    say("counted");
    until_told();
}

/// What is forged in a record.
#[derive(Clone, Copy, Debug)]
enum Forged {
    Pid,
    Session,
    Both,
}

const ALL: [Forged; 3] = [Forged::Pid, Forged::Session, Forged::Both];

impl Forged {
    /// Writes it, as any member can: the record then names a process that has ended, or a socket
    /// that refuses. Returns what was there.
    fn write(self, pool: &Pool, victim: &MemberInfo) -> u64 {
        let control = pool.control();
        let state = control.layout().participant(victim.index.0.into()) + participant::STATE;
        let before = control.memory().load_cell(state, Ordering::Acquire);
        let mut after = before;
        if !matches!(self, Self::Session) {
            after = after & !0xFFFF_FFFF | u64::from(ended_process());
        }
        if !matches!(self, Self::Pid) {
            refusing_socket(&pool.path().join("members"));
            after = after & 0xFF_FFFF_FFFF | FORGED_SESSION << 40;
        }
        control.memory().store_cell(state, after, Ordering::Release);
        control
            .memory()
            .add(hythe_abi::pool::header::MEMBERSHIP, 1, Ordering::Release);
        before
    }
}

/// The number of a process that is no more.
fn ended_process() -> u32 {
    let mut child = Command::new("true").spawn().expect("true");
    child.wait().expect("own child");
    child.id()
}

/// The socket of the forged session, which nobody listens on.
fn refusing_socket(members: &Path) {
    let path = members.join(FORGED_SESSION.to_string());
    let _ = std::fs::remove_file(&path);
    let flags = SocketFlags::CLOEXEC;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("made");
    let address = SocketAddrUnix::new(&path).expect("short enough");
    rustix::net::bind(&socket, &address).expect("bound");
}

fn find(pool: &Pool, name: &str) -> MemberInfo {
    let mut members = pool.control().tables().members();
    members.find(|one| one.name == name).expect("takes part")
}

fn members(pool: &Pool) -> usize {
    pool.control().tables().members().count()
}

fn held(pool: &Pool) -> u32 {
    pool.snapshot().audit.held
}

/// No watcher takes the participant that holds two slots for dead.
fn stays_alive(pool: &Pool, context: &str) {
    let what = format!("it is not taken for dead: {context}");
    stays(&what, LOOKS, || held(pool) == 2);
}

#[test]
fn known_peer_with_forged_record_lives_until_its_end() {
    for forged in ALL {
        let root = Root::new();
        let pool = root.pool();
        let _node = Node::join(&pool, "test").expect("joins");
        let mut holder = Player::start(&root, HOLDER);
        assert_eq!(holder.hear(), "holds");
        until_watched(holder.pid(), 1);
        let victim = find(&pool, HOLDER);
        forged.write(&pool, &victim);
        eventually("the damage is counted", || pool.damaged_records() == 1);
        stays_alive(&pool, &format!("{forged:?}"));
        let now = pool
            .control()
            .tables()
            .member(victim.index)
            .expect("still there");
        assert_eq!(pool.liveness(&now), Liveness::Alive, "{forged:?}");
        holder.kill();
        eventually("its death is noticed", || held(&pool) == 0);
        eventually("its record is free", || members(&pool) == 1);
    }
}

#[test]
fn member_that_may_only_read_cannot_have_another_taken_for_dead() {
    if !is_root("a member of a group that may only read") {
        return;
    }
    let root = Root::new();
    let options = root.options().group(GROUP).group_access(GroupAccess::Read);
    let pool = Pool::open_or_create(&options).expect("made");
    let _node = Node::join(&pool, "test").expect("joins");
    let holder = Player::start(&root, HOLDER);
    assert_eq!(holder.hear(), "holds");
    until_watched(holder.pid(), 1);
    let forger = Player::start_as(&root, FORGER, OTHER, &[OTHER, GROUP]);
    assert_eq!(forger.hear(), "forged");
    eventually("the damage is counted", || pool.damaged_records() == 1);
    stays_alive(&pool, "forged by a reader");
    drop(holder);
    eventually("its death is noticed", || held(&pool) == 0);
}

/// Another's socket cannot be forged: it says who listens. Only a record of which everything was
/// forged is not seen through.
#[test]
fn stranger_with_a_forged_process_is_asked_by_its_socket() {
    let root = Root::new();
    let pool = root.pool();
    let holder = Player::start(&root, HOLDER);
    assert_eq!(holder.hear(), "holds");
    Forged::Pid.write(&pool, &find(&pool, HOLDER));
    let newcomer = Node::join(&pool, "newcomer").expect("joins");
    stays_alive(&pool, "seen by a newcomer");
    drop(holder);
    eventually("its death is noticed", || held(&pool) == 0);
    drop(newcomer);
}

/// Both on a kernel that gives pidfds of peers, if this is one, and on one that does not.
fn kernels() -> Vec<&'static str> {
    let mut kernels = vec![WATCHER];
    if cfg!(target_pointer_width = "64") && !support::again::is_emulated() {
        kernels.push(OLD_KERNEL);
    } else {
        eprintln!("SKIPPED (needs seccomp): a kernel without pidfds of peers");
    }
    kernels
}

#[test]
fn forked_child_changes_no_liveness_of_parent() {
    for kernel in kernels() {
        for forged in [
            None,
            Some(Forged::Pid),
            Some(Forged::Session),
            Some(Forged::Both),
        ] {
            let root = Root::new();
            let pool = root.pool();
            let mut parent = Player::start(&root, PARENT);
            assert_eq!(parent.hear(), "forked");
            let mut watcher = Player::start(&root, kernel);
            assert_eq!(watcher.hear(), "watches");
            until_watched(parent.pid(), 1);
            if let Some(forged) = forged {
                forged.write(&pool, &find(&pool, PARENT));
                watcher.go_on();
                assert_eq!(watcher.hear(), "counted", "{kernel}, {forged:?}");
            }
            stays_alive(&pool, &format!("{kernel}, {forged:?}"));
            parent.kill();
            eventually("its death is noticed", || held(&pool) == 0);
            eventually("its record is free", || members(&pool) == 1);
            drop(watcher);
        }
    }
}

/// As [`stranger_with_a_forged_process_is_asked_by_its_socket`], and the socket is held open by a
/// child.
#[test]
fn stranger_with_a_forked_child_is_known_by_who_listens() {
    for kernel in kernels() {
        let root = Root::new();
        let pool = root.pool();
        let mut parent = Player::start(&root, PARENT);
        assert_eq!(parent.hear(), "forked");
        Forged::Pid.write(&pool, &find(&pool, PARENT));
        let watcher = Player::start(&root, kernel);
        assert_eq!(watcher.hear(), "watches");
        stays_alive(&pool, kernel);
        drop(watcher);
        parent.kill();
        // Nobody is left who has seen it.
        let later = Player::start(&root, kernel);
        assert_eq!(later.hear(), "watches");
        eventually("its death is noticed", || held(&pool) == 0);
    }
}
