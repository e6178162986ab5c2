//! Sockets of a busy pool that a group may use, made under umask 0: another user of the group is
//! refused by each over which anything is read, by its mode and, where that is changed, by its
//! owner.

use crate::support;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::{Root, Running, eventually};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;

const GROUP: u32 = 54321;
const STRANGER: u32 = 65534;
const POOL: &str = "busy";
/// It only ends a test that has failed.
const ANSWER: Duration = Duration::from_secs(100);

/// What came of a connection of the stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    /// The kernel let it not connect.
    Refused = 1,
    /// It was connected, and nothing was answered: closed.
    Closed,
    /// It was connected, and stays so.
    Connected,
    /// Something was answered.
    Answered,
    /// The socket was no longer there.
    Gone,
    /// The test itself failed.
    Unknown,
}

fn under_umask_zero(root: &Root, arguments: &[&str]) -> Running {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 000 && exec \"$0\" \"$@\""]);
    shell.arg(support::HYTHE);
    // Only looked for: no task here is of PVM.
    shell.env("HYTHE_PVM_LIBRARIES", root.path());
    Running::new(root.command_by(shell, arguments))
}

fn sockets(root: &Root) -> Vec<PathBuf> {
    let mut found = root.traces();
    found.retain(|path| {
        let found = path.symlink_metadata();
        found.is_ok_and(|found| found.file_type().is_socket())
    });
    found
}

/// Only proves that a member lives: nothing is ever read.
fn is_liveness_socket(path: &Path) -> bool {
    path.parent()
        .is_some_and(|folder| folder.ends_with("members"))
}

/// In a child, which becomes the other user.
fn meet_as_stranger(path: &Path) -> Met {
    let as_stranger = || {
        let (user, group) = (
            rustix::process::Uid::from_raw(STRANGER),
            rustix::process::Gid::from_raw(GROUP),
        );
        let became = rustix::thread::set_thread_groups(&[group])
            .and_then(|()| rustix::thread::set_thread_res_gid(group, group, group))
            .and_then(|()| rustix::thread::set_thread_res_uid(user, user, user));
        let met = became.map_or(Met::Unknown, |()| meet(path).unwrap_or(Met::Unknown));
        met as i32
    };
    let met = hythe_sys::fork::run_in_child(as_stranger).expect("forked");
    let all = [
        Met::Refused,
        Met::Closed,
        Met::Connected,
        Met::Answered,
        Met::Gone,
    ];
    let met = all.into_iter().find(|one| *one as i32 == met);
    met.unwrap_or(Met::Unknown)
}

fn meet(path: &Path) -> Result<Met, Errno> {
    let socket = match connect(path, SocketType::STREAM) {
        Err(Errno::PROTOTYPE) => connect(path, SocketType::SEQPACKET),
        connected => connected,
    };
    let socket = match socket {
        Ok(socket) => socket,
        Err(Errno::ACCESS) => return Ok(Met::Refused),
        Err(Errno::NOENT) => return Ok(Met::Gone),
        Err(error) => return Err(error),
    };
    if is_liveness_socket(path) {
        return Ok(Met::Connected);
    }
    // Whatever of it is understood: an answer is what must not come. Closed already is fine.
    let line = b"{\"request\":\"list\"}\n";
    let _ = rustix::net::send(&socket, line, SendFlags::NOSIGNAL);
    let timeout = Some(ANSWER);
    set_socket_timeout(&socket, Timeout::Recv, timeout)?;
    match rustix::net::recv(&socket, &mut [0_u8; 64], RecvFlags::empty()) {
        Ok((_, 0)) | Err(Errno::CONNRESET) => Ok(Met::Closed),
        Ok(_) => Ok(Met::Answered),
        Err(error) => Err(error),
    }
}

fn connect(path: &Path, kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn prepare() -> Root {
    let root = Root::new();
    for library in ["libpvm3.so.3", "libgpvm3.so.3"] {
        std::fs::write(root.path().join(library), "").expect("own");
    }
    let group = GROUP.to_string();
    let access = ["--group", &group, "--group-access", "write"];
    let create = ["pool", "create", POOL, "--size", "24M"];
    root.ok(&[&create[..], &access].concat());
    root
}

#[test]
fn busy_pool_admits_no_other_user() {
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED (needs root): another user at the sockets of a pool");
        return;
    }
    let root = prepare();
    let on_pool = ["--pool", POOL];
    let program = ["--stay", "--pvm", "--", "sleep", "600"];
    let job = under_umask_zero(&root, &[&["run"][..], &on_pool, &program].concat());
    let subscribe = [&["sub", "x"][..], &on_pool].concat();
    let subscriber = under_umask_zero(&root, &subscribe);
    let core = under_umask_zero(&root, &[&["core", "run", "hosted"][..], &on_pool].concat());
    let names = || -> Vec<String> {
        let names = sockets(&root).into_iter();
        names
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect()
    };
    let are_there = |begun: &[&str]| {
        let names = names();
        begun
            .iter()
            .all(|begun| names.iter().any(|name| name.starts_with(begun)))
    };
    eventually("the sockets are there", || {
        are_there(&["tasks.1", "service.hosts", "pvm"])
    });
    eventually("the core runs", || {
        let status = root.run(&["core", "status", "hosted", "--pool", POOL]);
        status.code == Some(0)
    });
    eventually("they take part", || names().len() >= 6);

    let mut seen = (0, 0);
    // That of a doorbell goes as soon as its core has connected, and one that is being made gets
    // another name.
    let is_lasting = |path: &PathBuf| {
        let path = path.to_string_lossy();
        !path.contains("/doorbell.") && !path.contains("/.new.")
    };
    for path in sockets(&root).into_iter().filter(is_lasting) {
        let met = meet_as_stranger(&path);
        // One of a command that has ended meanwhile; how many must stay is checked below.
        if met == Met::Gone {
            continue;
        }
        match is_liveness_socket(&path) {
            true => {
                assert_eq!(met, Met::Connected, "{}", path.display());
                seen.0 += 1;
            }
            false => {
                assert_eq!(met, Met::Refused, "{}", path.display());
                let mode = std::fs::Permissions::from_mode(0o666);
                std::fs::set_permissions(&path, mode).expect("own");
                assert_eq!(meet_as_stranger(&path), Met::Closed, "{}", path.display());
                seen.1 += 1;
            }
        }
    }
    assert!(seen.0 >= 2 && seen.1 >= 3, "{seen:?} of {:?}", names());
    assert!(root.run(&[&["tasks"][..], &on_pool].concat()).code == Some(0));
    for running in [job, subscriber, core] {
        // Not as Ctrl-C: a shell that runs the tests in the background has that ignored.
        running.signal(Signal::TERM);
        let _ = running.end();
    }
}

/// Every file and directory of a pool, too, has what was asked for and not what the umask leaves.
#[test]
fn pool_made_under_umask_zero_is_closed() {
    let root = Root::new();
    let made = under_umask_zero(&root, &["pool", "create", "--size", "16M"]).end();
    made.succeeded();
    let job = under_umask_zero(&root, &["run", "true"]).end();
    job.succeeded();
    for path in root.traces() {
        let mode = match path.symlink_metadata() {
            Ok(found) => found.permissions().mode(),
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => panic!("{}: {error}", path.display()),
        };
        assert_eq!(mode & 0o077, 0, "{} has {mode:o}", path.display());
    }
}
