//! Ways to be dead, or to look like it: zombies, reused process ids, a program replaced by `exec`,
//! a table full of the dead.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::support::player::{Player, own_role, say, until_told};
use crate::support::{Root, eventually};
use hythe_memory::{Memory, Ordering};
use hythe_node::hop::HopPool as _;
use hythe_node::{
    Geometry, Liveness, MemberInfo, MemberKind, Node, Pool, PoolError, PoolOptions, identity_of,
};
use hythe_pool::{Identity, Member};
use hythe_testing::{let_time_pass, stays};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};

/// Several looks of a watcher at the members.
const LOOKS: Duration = Duration::from_millis(150);
/// Keeps two leases and waits.
const HOLDER: &str = "holder";
/// Keeps two leases and becomes another program.
const CHANGER: &str = "changer";
/// Lets a participant die, gives its process id to another process, and says who is left after
/// joining.
const RECYCLER: &str = "recycler";

const CLOSED: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some(role) = own_role() else { return };
    let pool = Pool::open(&PoolOptions::new("test")).expect("the test has made it");
    match role.as_str() {
        HOLDER => hold(&pool, &role, until_told),
        CHANGER => hold(&pool, &role, || {
            until_told();
            // Its input ends with the test.
            panic!("{}", Command::new("cat").exec());
        }),
        RECYCLER => recycle(&pool),
        other => panic!("no role {other}"),
    }
}

fn hold(pool: &Pool, name: &str, then: impl FnOnce()) {
    let node = Node::join(pool, name).expect("joins");
    let _kept = [node.lease(10).expect("free"), node.lease(99).expect("free")];
    say("holds");
    then();
}

fn members(pool: &Pool) -> Vec<String> {
    pool.control()
        .tables()
        .members()
        .map(|member| member.name)
        .collect()
}

fn sums_up_to(pool: &Pool, held: u32) -> bool {
    let audit = pool.snapshot().audit;
    audit.mismatches.is_empty() && audit.held == held
}

#[test]
fn zombie_is_recovered() {
    let root = Root::new();
    let pool = root.pool();
    let _node = Node::join(&pool, "test").expect("joins");
    let mut holder = Player::start(&root, HOLDER);
    assert_eq!(holder.hear(), "holds");
    assert!(sums_up_to(&pool, 2));
    holder.child.kill().expect("own child");
    // Nobody waits for it: it stays in the process table.
    eventually("it is recovered", || members(&pool) == ["test"]);
    assert!(sums_up_to(&pool, 0));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", holder.pid()));
    assert!(stat.expect("still there").contains(") Z "), "not a zombie");
}

#[test]
fn program_that_was_replaced_is_recovered() {
    let root = Root::new();
    let pool = root.pool();
    let _node = Node::join(&pool, "test").expect("joins");
    let mut changer = Player::start(&root, CHANGER);
    assert_eq!(changer.hear(), "holds");
    let before = identity_of(changer.pid()).expect("runs");
    changer.go_on();
    eventually("it is recovered", || members(&pool) == ["test"]);
    assert!(sums_up_to(&pool, 0));
    // By process id and start time it is still the same.
    assert_eq!(identity_of(changer.pid()), Some(before));
}

/// What was held comes back at the next look, and not when the turn comes to the one that held it:
/// there are many who would be asked before, one each second.
#[test]
fn program_that_was_replaced_is_noticed_among_many() {
    const OTHERS: usize = 60;
    let root = Root::new();
    let pool = root.pool();
    let own = identity_of(std::process::id()).expect("this process");
    for number in 0..OTHERS {
        leave_behind(&pool, own, &format!("other {number}"));
    }
    let _node = Node::join(&pool, "test").expect("joins");
    let mut changer = Player::start(&root, CHANGER);
    assert_eq!(changer.hear(), "holds");
    assert!(sums_up_to(&pool, OTHERS as u32 + 2));
    changer.go_on();
    eventually("it is recovered", || sums_up_to(&pool, OTHERS as u32));
    // Its record goes last.
    eventually("it is gone", || {
        !members(&pool).contains(&CHANGER.to_owned())
    });
}

/// A record whose process id belongs to somebody else now.
#[test]
fn reused_process_id_is_told_by_its_start_time() {
    let root = Root::new();
    let pool = root.pool();
    let own = identity_of(std::process::id()).expect("this process");
    let earlier = Identity {
        start_time: own.start_time - 1,
        ..own
    };
    leave_behind(&pool, earlier, "earlier");
    leave_behind(&pool, own, "now");
    assert!(sums_up_to(&pool, 2));
    let _node = Node::join(&pool, "test").expect("joins");
    assert_eq!(members(&pool), ["now", "test"], "one of them is alive");
    assert!(sums_up_to(&pool, 1));
}

/// A record that says `joining` bears no identity yet: its process id may be one of another
/// container.
#[test]
fn joiner_is_proven_dead_by_its_socket_alone() {
    let root = Root::new();
    let pool = root.pool();
    let control = pool.control();
    let session = control.new_session();
    let socket = pool.path().join("members").join(session.to_string());
    let listener =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, CLOSED, None).expect("made");
    let address = SocketAddrUnix::new(&socket).expect("short enough");
    rustix::net::bind(&listener, &address).expect("bound");
    rustix::net::listen(&listener, 128).expect("listens");
    // No process here has this number; one in another container may.
    let joining = 0x7FFF_FFFE_u64 | 1 << 32 | u64::from(session) << 40;
    let record = control.layout().participant(3) + hythe_abi::pool::participant::STATE;
    control
        .memory()
        .store_cell(record, joining, Ordering::Release);
    let node = Node::join(&pool, "test").expect("joins");
    let there = || control.tables().members().count() == 2;
    stays("it lives", LOOKS, there);
    std::fs::rename(&socket, socket.with_extension("aside")).expect("own");
    drop(listener);
    stays("nothing is proven", LOOKS, there);
    std::fs::rename(socket.with_extension("aside"), &socket).expect("own");
    eventually("it is recovered", || members(&pool) == ["test"]);
    drop(node);
}

/// A participant of that identity with one lease.
fn leave_behind(pool: &Pool, identity: Identity, name: &str) {
    let control = pool.control();
    let mut member =
        Member::join(control, MemberKind::Process, identity, name).expect("a free record");
    let region = pool.region(hythe_node::RegionIndex(0)).expect("there");
    member
        .lease_any(control, &region, 10, &mut hythe_pool::Cursors::default())
        .expect("a free slot");
}

#[test]
fn process_id_given_anew_is_not_the_participant() {
    let possible = Command::new("unshare")
        .args(["--pid", "--mount", "--fork", "--mount-proc", "true"])
        .status();
    if !possible.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED (needs root and unshare): giving process ids anew");
        return;
    }
    let root = Root::new();
    let pool = root.pool();
    let place = root.path().with_extension("place");
    std::fs::create_dir(&place).expect("a fresh directory");
    let recycler = Player::start_in_container(&root, RECYCLER, &place);
    assert_eq!(
        recycler.hear(),
        "[\"recycler\"], the other process is alive"
    );
    assert!(sums_up_to(&pool, 0));
    recycler.end();
    std::fs::remove_dir(&place).expect("own");
}

/// Process 1 of its namespace, so that nobody else takes process ids.
fn recycle(pool: &Pool) {
    let root = std::env::var_os("HYTHE_ROOT").expect("set by the test");
    let mut holder = Player::start_at(Path::new(&root), HOLDER);
    assert_eq!(holder.hear(), "holds");
    let info: MemberInfo = pool
        .control()
        .tables()
        .members()
        .next()
        .expect("takes part");
    let pid = holder.pid();
    holder.kill();
    let mut other = start_with_id(pid);
    assert_ne!(
        identity_of(pid).expect("runs").start_time,
        info.identity.start_time,
        "started in the same tick"
    );
    let node = Node::join(pool, RECYCLER).expect("joins");
    let lives = other.try_wait().expect("own child").is_none();
    let lives = if lives { "alive" } else { "ended" };
    say(&format!(
        "{:?}, the other process is {lives}",
        members(node.pool())
    ));
    other.kill().expect("own child");
    other.wait().expect("own child");
    until_told();
}

/// Starts a process under a certain number of this namespace.
fn start_with_id(pid: u32) -> Child {
    let_time_pass(
        Duration::from_millis(30),
        "its start is of another clock tick",
    );
    for _ in 0..20 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).expect("root may");
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        if child.id() == pid {
            return child;
        }
        child.kill().expect("own child");
        child.wait().expect("own child");
    }
    panic!("process {pid} could not be made again");
}

fn small_table(root: &Root, participants: u32) -> PoolOptions {
    let mut limits = Geometry::default_limits();
    limits.participants = participants;
    let plan = [hythe_node::ClassPlan {
        payload_bytes: 1000,
        count: 64,
    }];
    let geometry = Geometry::with_classes(limits, &plan).expect("sound");
    root.options().geometry(geometry)
}

#[test]
fn table_full_of_the_dead_has_room() {
    let root = Root::new();
    let pool = Pool::open_or_create(&small_table(&root, 4)).expect("made");
    let mut holders: Vec<Player> = (0..4).map(|_| Player::start(&root, HOLDER)).collect();
    for holder in &holders {
        assert_eq!(holder.hear(), "holds");
    }
    let refused = Node::join(&pool, "one too many").expect_err("all live");
    assert!(
        matches!(
            refused.refusal(),
            Some(PoolError::TableFull {
                what: "participant",
                limit: 4
            })
        ),
        "{refused:?}"
    );
    // Stopped first: so nobody is left who recovers another.
    for holder in &holders {
        let pid = Pid::from_child(&holder.child);
        kill_process(pid, Signal::STOP).expect("own child");
    }
    eventually("all have stopped", || {
        holders.iter().all(|holder| has_stopped(holder.pid()))
    });
    holders.iter_mut().for_each(Player::kill);
    assert_eq!(members(&pool).len(), 4);
    assert!(sums_up_to(&pool, 8));
    let node = Node::join(&pool, "next").expect("the dead make room");
    assert_eq!(members(&pool), ["next"]);
    assert!(sums_up_to(&pool, 0));
    drop(node);
    let members = std::fs::read_dir(pool.path().join("members"));
    assert_eq!(members.expect("there").count(), 0, "a socket is left");
}

/// Have all threads of a process stopped?
fn has_stopped(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("runs");
    let stats = tasks.map(|task| task.expect("read").path().join("stat"));
    stats
        .map(|stat| std::fs::read_to_string(stat).expect("runs"))
        .all(|stat| stat.contains(") T "))
}

/// Connections to a participant's socket cost it a bounded number of descriptors, and do not keep
/// it from its work.
#[test]
fn flood_of_connections_does_not_stop_a_watcher() {
    let root = Root::new();
    let pool = root.pool();
    let watching = Player::start(&root, HOLDER);
    assert_eq!(watching.hear(), "holds");
    let session = pool
        .control()
        .tables()
        .members()
        .next()
        .expect("takes part")
        .session;
    let path = pool.path().join("members").join(session.to_string());
    let address = SocketAddrUnix::new(path).expect("short enough");
    let mut flood = Vec::new();
    let mut pour = || {
        for _ in 0..200 {
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, CLOSED, None)
                .expect("made");
            if flood.len() < 600 && connect(&socket, &address).is_ok() {
                flood.push(socket);
            }
        }
        flood.len()
    };
    eventually("many connections were made", || pour() >= 300);
    let mut dying = Player::start(&root, HOLDER);
    assert_eq!(dying.hear(), "holds");
    dying.kill();
    eventually("the flooded one recovers the dead one", || {
        pour();
        members(&pool).len() == 1
    });
    assert!(sums_up_to(&pool, 2));
    let opened = std::fs::read_dir(format!("/proc/{}/fd", watching.pid()));
    let opened = opened.expect("own child").count();
    assert!(opened < 350, "{opened} descriptors");
}

#[test]
fn socket_that_somebody_else_put_there_proves_nothing() {
    let root = Root::new();
    let pool = root.pool();
    let holder = Player::start(&root, HOLDER);
    assert_eq!(holder.hear(), "holds");
    let mut info = pool
        .control()
        .tables()
        .members()
        .next()
        .expect("takes part");
    // As if it were in another container.
    info.identity.pid_namespace = 1;
    assert_eq!(pool.liveness(&info), Liveness::Alive);
    let socket = pool.path().join("members").join(info.session.to_string());
    let aside = socket.with_extension("aside");
    std::fs::rename(&socket, &aside).expect("own");
    assert_eq!(pool.liveness(&info), Liveness::Unknown, "no socket");
    std::fs::write(&socket, "a file").expect("own");
    assert_eq!(pool.liveness(&info), Liveness::Unknown, "a file");
    std::fs::remove_file(&socket).expect("own");
    std::os::unix::fs::symlink(&aside, &socket).expect("own");
    assert_eq!(pool.liveness(&info), Liveness::Unknown, "a link");
    std::fs::remove_file(&socket).expect("own");
    std::fs::rename(&aside, &socket).expect("own");
    assert_eq!(pool.liveness(&info), Liveness::Alive);
    drop(holder);
    assert_eq!(pool.liveness(&info), Liveness::Dead);
}
