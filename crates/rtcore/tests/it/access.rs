//! Who may do what with a core's memory: another user, a member that may only read, a core whose
//! agent is another user. Refused by the modes of files and by the kernel's check of segments, and
//! seen in what is mapped.
//!
//! The pools belong to root unless said otherwise, the others are user [`OTHER`] with or without
//! group [`GROUP`]. Without root all of it is skipped.

use std::fs::{OpenOptions, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::support::segment_core::{EACCES, EPERM, SegmentCore, key};
use crate::support::{LONG, board, eventually};
use hythe_memory::Access;
use hythe_node::{GroupAccess, Pool, PoolOptions, SubscriberOptions};
use hythe_rtcore::segment::{SegmentError, Segments};
use hythe_rtcore::{Board, Core, CoreOptions};
use hythe_sys::system_v::{CREATE, PRIVATE};
use rustix::io::Errno;

const OTHER: u32 = 65534;
const GROUP: u32 = 54321;

/// A folder for pools that every user reaches, removed when dropped.
struct Root(PathBuf);

impl Root {
    fn new(name: &str, mode: u32) -> Self {
        let path = format!("/dev/shm/hythe-access-{name}-{}", std::process::id());
        std::fs::create_dir_all(&path).expect("a folder");
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("own");
        Self(PathBuf::from(path))
    }

    fn options(&self) -> PoolOptions {
        PoolOptions::new("rtcore").root(&self.0).bytes(12 << 20)
    }

    fn shared(&self, access: GroupAccess) -> Pool {
        let options = self.options().group(GROUP).group_access(access);
        assert!(Pool::create(&options).expect("made"));
        Pool::open(&self.options()).expect("opens")
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = Pool::remove_by_force(&self.options());
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::getuid().is_root();
    if !is_root {
        eprintln!("SKIPPED (needs root): other users at a core's memory");
    }
    is_root
}

/// The test of that name, as another process of user [`OTHER`].
struct Stranger {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Stranger {
    fn start(role: &str, root: &Root, groups: &str, words: &[i32]) -> Self {
        // A copy, because the way to the program may be closed to others. Not by this process: what
        // it has open for writing while another test forks cannot be run.
        let program = root.0.join("program");
        let own = std::env::current_exe().expect("this program");
        let copied = Command::new("cp").arg(own).arg(&program).status();
        assert!(copied.expect("cp").success());
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("own");
        let words: Vec<String> = words.iter().map(i32::to_string).collect();
        let mut child = Command::new("setpriv")
            .args(["--reuid", &OTHER.to_string(), "--regid", &OTHER.to_string()])
            .args(["--groups", groups, "--"])
            .arg(&program)
            .args([&hythe_testing::in_module(role), "--exact"])
            .args(["--nocapture", "--test-threads=1"])
            .current_dir("/")
            .env("HYTHE_TEST_ROLE", role)
            .env("HYTHE_TEST_ROOT", &root.0)
            .env("HYTHE_TEST_WORDS", words.join(","))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("setpriv");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, said }
    }

    /// The next thing that it says.
    fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            let bytes = self.said.read_line(&mut line).expect("a line");
            assert!(bytes > 0, "it ended");
            if let Some((_, said)) = line.split_once("says: ") {
                return said.trim_end().to_owned();
            }
        }
    }

    /// Lines of its maps that name files of the pool which begin so.
    fn maps(&self, names: &[&str]) -> Vec<String> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id()));
        let maps = maps.expect("its maps");
        let is_asked = |line: &&str| {
            let file = line.rsplit('/').next().unwrap_or_default();
            names.iter().any(|name| file.starts_with(name))
        };
        maps.lines().filter(is_asked).map(str::to_owned).collect()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("reaped").success());
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In a process started for this role: the folder of pools, and the words.
fn role(name: &str) -> Option<(PathBuf, Vec<i32>)> {
    if std::env::var("HYTHE_TEST_ROLE").ok()? != name {
        return None;
    }
    let root = std::env::var_os("HYTHE_TEST_ROOT").expect("a root");
    let words = std::env::var("HYTHE_TEST_WORDS").expect("words");
    let words = words.split(',').filter(|word| !word.is_empty());
    let words = words.map(|word| word.parse().expect("a number"));
    Some((PathBuf::from(root), words.collect()))
}

fn say(what: impl std::fmt::Display) {
    println!("says: {what}");
}

fn until_told() {
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

fn number<T>(result: Result<T, SegmentError>) -> String {
    result.map_or_else(
        |error| match Errno::from_raw_os_error(error.errno()) {
            Errno::ACCESS => "EACCES".to_owned(),
            Errno::PERM => "EPERM".to_owned(),
            other => other.to_string(),
        },
        |_| "fine".to_owned(),
    )
}

fn opened(path: &Path, writes: bool) -> String {
    let opened = OpenOptions::new().read(true).write(writes).open(path);
    opened.map_or_else(|error| format!("{:?}", error.kind()), |_| "fine".to_owned())
}

/// Not a test of its own: a member of the pool's group, told a key and ids.
#[test]
fn member() {
    let Some((root, words)) = role("member") else {
        return;
    };
    let options = PoolOptions::new("rtcore").root(&root).owner(0);
    let pool = Pool::open(&options).expect("opens");
    let segments = Segments::open(&pool, None).expect("an area");
    say(number(segments.get(words[0], 1, 0o600)));
    for &id in &words[1..] {
        let write = segments.attach(id, Access::Write, None);
        let read = segments.attach(id, Access::Read, None);
        say(format!("{} {}", number(write), number(read)));
    }
    let first = words[1];
    say(number(segments.change(first, OTHER, OTHER, 0o666)));
    say(number(segments.remove(first)));
    // What it has for reading, beside a port of the core's channel.
    let kept = segments.attach(words[2], Access::Read, None);
    let kept = kept.expect("attached");
    let mut bytes = [0; 5];
    kept.read(0, &mut bytes);
    say(String::from_utf8_lossy(&bytes));
    let node = hythe_rtcore::join(&pool, "member").expect("joins");
    let subscriber = node.subscriber("pong", &SubscriberOptions::default());
    say(if subscriber.is_ok() {
        "subscribed"
    } else {
        "refused"
    });
    for file in ["region.1", "segments.1"] {
        say(opened(&pool.path().join(file), true));
    }
    until_told();
    drop((kept, subscriber, node));
}

/// Not a test of its own: a user who is in no group of the pool's.
#[test]
fn stranger() {
    let Some((root, _)) = role("stranger") else {
        return;
    };
    let options = PoolOptions::new("rtcore").root(&root).owner(0);
    let refused = Pool::open(&options).expect_err("closed").to_string();
    say(refused.contains("permission denied"));
    for file in ["region.1", "segments.1", "region.0", "control"] {
        say(opened(&options.path().join(file), false));
    }
    until_told();
}

/// Not a test of its own: the agent of a core, in a pool of its own user.
#[test]
fn other_agent() {
    let Some((root, _)) = role("other_agent") else {
        return;
    };
    let Some(board) = board("hosted").filter(|board| board.missing("p1").is_empty()) else {
        say("the board cannot be reached");
        return;
    };
    let options = PoolOptions::new("rtcore").root(&root).bytes(12 << 20);
    let pool = Pool::open_or_create(&options).expect("made");
    let options = CoreOptions::default().start_bound(LONG).app("p1");
    let core = Core::start(&pool, &board, &options).expect("core");
    say("up");
    until_told();
    core.stop().expect("stopped");
}

fn hosted(pool: &Pool, app: &str) -> Option<(Board, Core)> {
    let board = board("hosted")?;
    let options = CoreOptions::default().start_bound(LONG).app(app);
    let core = Core::start(pool, &board, &options).expect("core");
    Some((board, core))
}

/// Two segments of root, of these modes and the pool's group; "hello" in the second.
fn two_segments(segments: &Segments, key: i32, modes: [u32; 2]) -> [i32; 2] {
    let made = [key, PRIVATE].map(|key| segments.get(key, 5000, CREATE | 0o600).expect("made"));
    for (id, mode) in made.into_iter().zip(modes) {
        segments.change(id, 0, GROUP, mode).expect("changed");
    }
    let attached = segments.attach(made[1], Access::Write, None);
    attached.expect("attached").write(0, b"hello");
    made
}

#[test]
fn segment_s_mode_is_kept_for_members_that_may_write() {
    if !is_root() {
        return;
    }
    let root = Root::new("write", 0o755);
    let pool = root.shared(GroupAccess::Write);
    let Some((_, core)) = hosted(&pool, "decoder") else {
        return;
    };
    let segments = Segments::open(&pool, None).expect("an area");
    let key = key();
    let ids = two_segments(&segments, key, [0o600, 0o640]);
    let groups = format!("{OTHER},{GROUP}");
    let mut member = Stranger::start("member", &root, &groups, &[key, ids[0], ids[1]]);
    assert_eq!(member.hear(), "EACCES", "shmget");
    assert_eq!(member.hear(), "EACCES EACCES", "its owner's alone");
    assert_eq!(member.hear(), "EACCES fine", "for reading only");
    assert_eq!(member.hear(), "EPERM", "IPC_SET");
    assert_eq!(member.hear(), "EPERM", "IPC_RMID");
    assert_eq!(member.hear(), "hello");
    assert_eq!(member.hear(), "subscribed");
    assert_eq!(member.hear(), "fine");
    assert_eq!(member.hear(), "fine");
    // The page of the segment, and it cannot be written where it stands.
    let of_segments = member.maps(&["region.1"]);
    assert!(
        of_segments.iter().any(|line| line.contains(" r--s ")),
        "{of_segments:?}"
    );
    member.end();
    for id in ids {
        segments.remove(id).expect("removed");
    }
    core.stop().expect("stopped");
}

#[test]
fn member_that_may_only_read_has_nothing_mapped_to_write() {
    if !is_root() {
        return;
    }
    let root = Root::new("read", 0o755);
    let pool = root.shared(GroupAccess::Read);
    let Some((_, core)) = hosted(&pool, "decoder") else {
        return;
    };
    let segments = Segments::open(&pool, None).expect("an area");
    let key = key();
    // The modes would let it write; the files do not.
    let ids = two_segments(&segments, key, [0o666, 0o666]);
    let groups = format!("{OTHER},{GROUP}");
    let mut member = Stranger::start("member", &root, &groups, &[key, ids[0], ids[1]]);
    assert_eq!(member.hear(), "fine", "shmget");
    assert_eq!(member.hear(), "EACCES fine");
    assert_eq!(member.hear(), "EACCES fine");
    assert_eq!(member.hear(), "EPERM", "IPC_SET");
    assert_eq!(member.hear(), "EPERM", "IPC_RMID");
    assert_eq!(member.hear(), "hello");
    let _port = member.hear();
    assert_eq!(member.hear(), "PermissionDenied", "region.1");
    assert_eq!(member.hear(), "PermissionDenied", "segments.1");
    let mapped = member.maps(&["region.", "segments."]);
    assert!(!mapped.is_empty(), "the segment at least");
    for line in &mapped {
        assert!(line.contains(" r--s "), "may be written: {line}");
    }
    member.end();
    for id in ids {
        segments.remove(id).expect("removed");
    }
    core.stop().expect("stopped");
}

#[test]
fn user_outside_of_the_group_opens_nothing() {
    if !is_root() {
        return;
    }
    let root = Root::new("none", 0o755);
    let pool = root.shared(GroupAccess::Write);
    let Some((_, core)) = hosted(&pool, "decoder") else {
        return;
    };
    let mut stranger = Stranger::start("stranger", &root, &OTHER.to_string(), &[]);
    assert_eq!(stranger.hear(), "true", "told what is missing");
    for _ in 0..4 {
        assert_eq!(stranger.hear(), "PermissionDenied");
    }
    assert_eq!(stranger.maps(&["region.", "segments."]), [""; 0]);
    stranger.end();
    core.stop().expect("stopped");
}

#[test]
fn core_may_what_its_agent_may() {
    if !is_root() {
        return;
    }
    let root = Root::new("agent", 0o1777);
    let mut agent = Stranger::start("other_agent", &root, &OTHER.to_string(), &[]);
    if agent.hear() != "up" {
        eprintln!("SKIPPED: user {OTHER} does not reach the board");
        return;
    }
    // Root sees it as theirs.
    let pool = Pool::open(&root.options().owner(OTHER)).expect("root may");
    let segments = Segments::open(&pool, None).expect("an area");
    let node = hythe_rtcore::join(&pool, "root").expect("joins");
    let mut core = SegmentCore::open(&node);
    eventually("the core is served", || {
        core.get(PRIVATE, 0, 0) == Err(-Errno::INVAL.raw_os_error())
    });
    let key = key();
    let id = segments.get(key, 5000, CREATE | 0o600).expect("made");
    assert_eq!(core.get(key, 1, 0o600), Err(EACCES));
    assert_eq!(core.attach(id, 0).map(drop), Err(EACCES));
    assert_eq!(core.status(id).map(drop), Err(EACCES));
    assert_eq!(core.set(id, [OTHER, OTHER, 0o666]), Err(EPERM));
    assert_eq!(core.remove(id), Err(EPERM));
    segments.change(id, 0, 0, 0o604).expect("changed");
    assert_eq!(core.attach(id, 0).map(drop), Err(EACCES));
    let there = core.attach(id, 0o10000).expect("for reading");
    assert_eq!(core.read(there, 0, 4), [0; 4]);
    assert_eq!(core.detach(there), 0);
    // Its own.
    let own = core.get(PRIVATE, 1, CREATE | 0o600).expect("made");
    assert_eq!(core.status(own).expect("there").uid, OTHER);
    assert_eq!(core.remove(own), Ok(()));
    segments.remove(id).expect("removed");
    drop((core, node));
    agent.end();
}
