//! A directory for the pools of one test, and bounded waiting.
//!
//! Each test has a root of its own; it goes with the value, whatever became of the test.

#![allow(dead_code, reason = "each test file uses a part of it")]

#[path = "../../../../memory/tests/it/again/mod.rs"]
pub(crate) mod again;
pub(crate) mod player;
#[cfg(target_pointer_width = "64")]
pub(crate) mod refusing;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hythe_node::{Pool, PoolOptions};
pub(crate) use hythe_testing::eventually;

/// No wait of a test is longer. It only ends tests that have failed.
pub(crate) const BOUND: Duration = Duration::from_secs(120);

/// A root for pools.
#[derive(Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn new() -> Self {
        Self::under(&std::env::temp_dir())
    }

    fn under(place: &Path) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = place.join(format!("hythe-node-test-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Self(path),
                // A test that was killed left it behind, and had the same process id.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    /// On a tmpfs, where there is one: else says what is left out.
    pub(crate) fn on_tmpfs(left_out: &str) -> Option<Self> {
        const TMPFS: u64 = 0x0102_1994;
        let shared_memory = Path::new("/dev/shm");
        let found = rustix::fs::statfs(shared_memory);
        if !found.is_ok_and(|found| found.f_type as u64 & 0xFFFF_FFFF == TMPFS) {
            eprintln!("SKIPPED (no tmpfs at /dev/shm): {left_out}");
            return None;
        }
        Some(Self::under(shared_memory))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A small pool under this root.
    pub(crate) fn options(&self) -> PoolOptions {
        PoolOptions::new("test").root(&self.0).bytes(16 << 20)
    }

    /// The small pool, made.
    pub(crate) fn pool(&self) -> Pool {
        Pool::open_or_create(&self.options()).expect("made")
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until at least `count` processes watch the participant of a process that has one: each has
/// a connection to its liveness socket.
pub(crate) fn until_watched(pid: u32, count: usize) {
    eventually(&format!("process {pid} is watched by {count}"), || {
        connections_to(pid) >= count
    });
}

/// How many connections there are to the `SOCK_SEQPACKET` listener of a process. The kernel lists
/// a connection under the name to which its listener was bound, which is random here.
fn connections_to(pid: u32) -> usize {
    const SEQPACKET: &str = "0005";
    const LISTENS: &str = "01";
    const CONNECTED: &str = "03";
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let links = files.into_iter().flatten().flatten();
    let links = links.filter_map(|file| std::fs::read_link(file.path()).ok());
    let open: Vec<String> = links.map(|link| link.display().to_string()).collect();
    let listed = std::fs::read_to_string("/proc/net/unix").expect("procfs");
    let rows = || listed.lines().map(|row| row.split_whitespace().collect());
    let names: Vec<&str> = rows()
        .filter_map(|row: Vec<&str>| match row[..] {
            [_, _, _, _, SEQPACKET, LISTENS, inode, name] => {
                open.contains(&format!("socket:[{inode}]")).then_some(name)
            }
            _ => None,
        })
        .collect();
    let is_to = |row: &Vec<&str>| match row[..] {
        [_, _, _, _, SEQPACKET, CONNECTED, _, name] => names.contains(&name),
        _ => false,
    };
    rows().filter(is_to).count()
}

/// Is this test run by root? Says so if not, because then something is left out.
pub(crate) fn is_root(left_out: &str) -> bool {
    let is_root = rustix::process::getuid().is_root();
    if !is_root {
        eprintln!("SKIPPED (needs root): {left_out}");
    }
    is_root
}

/// Names the root in the child of [`in_a_small_file_system`].
const SMALL: &str = "HYTHE_TEST_SMALL";

/// Runs the body of the test of that name with a root on a file system of its own, of 24 MiB: in
/// another process, which has mounts of its own. Where that is not possible it says so.
#[track_caller]
pub(crate) fn in_a_small_file_system(test: &str, body: impl FnOnce(&Root)) {
    if let Some(root) = std::env::var_os(SMALL) {
        return body(&Root(PathBuf::from(root)));
    }
    if !is_root("a file system of its own, to fill it") {
        return;
    }
    let root = Root::new();
    let script = "mount -t tmpfs -o size=24m small \"$1\" && shift && exec \"$@\"";
    let unshared = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(root.path())
        .args(again::words(&std::env::current_exe().expect("own program")))
        .args(["--exact", &hythe_testing::in_module(test), "--nocapture"])
        .env(SMALL, root.path())
        .output()
        .expect("unshare");
    print!("{}", String::from_utf8_lossy(&unshared.stdout));
    let said = String::from_utf8_lossy(&unshared.stderr);
    if !unshared.status.success() && (said.contains("mount:") || said.contains("unshare:")) {
        eprintln!("SKIPPED (no private mounts here): a full file system: {said}");
        return;
    }
    assert!(unshared.status.success(), "{said}");
}

/// Takes all the space there is, as long as the file is open.
pub(crate) fn fill(root: &Path) -> File {
    let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let made = rustix::fs::open(root, flags, mode).expect("a nameless file");
    let mut file = File::from(made);
    let block = vec![5_u8; 1 << 16];
    while file.write_all(&block).is_ok() {}
    while file.write_all(&block[..4096]).is_ok() {}
    file
}
