//! Another process of a test: this test program again, asked by [`ROLE`] to play one of the roles
//! of the module's `plays_its_role`, as another user or in a container of its own if wanted; or the
//! same program built for another machine. It says where it is in lines, goes on when it is told
//! to, and never outlives the value that started it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use hythe_node::{Node, Pool, PoolOptions};
use hythe_testing::in_module;

use super::{BOUND, Root, again};

/// The environment variable that makes `plays_its_role` do something.
const ROLE: &str = "HYTHE_TEST_ROLE";

/// Another process, killed with this value.
pub(crate) struct Player {
    pub(crate) child: Child,
    /// Its input; closed, it ends.
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Player {
    /// As this user, here.
    #[track_caller]
    pub(crate) fn start(root: &Root, role: &str) -> Self {
        Self::spawn(&[], root.path(), role)
    }

    /// As this user, where the pools are at `pools`.
    #[track_caller]
    pub(crate) fn start_at(pools: &Path, role: &str) -> Self {
        Self::spawn(&[], pools, role)
    }

    /// As another user with these groups, the first of which is its own.
    #[track_caller]
    pub(crate) fn start_as(root: &Root, role: &str, user: u32, groups: &[u32]) -> Self {
        let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
        Self::become_and_run(root, role, &[], user, &groups, &[])
    }

    /// As another user, whose program these words start.
    #[track_caller]
    pub(crate) fn start_as_by(root: &Root, role: &str, user: u32, words: &[&str]) -> Self {
        Self::become_and_run(root, role, &[], user, &[user.to_string()], words)
    }

    /// As another user, in a container of that user's own: root there, with the user's pools at
    /// `place`, which is that user's.
    #[track_caller]
    pub(crate) fn start_rootless(root: &Root, role: &str, user: u32, place: &Path) -> Self {
        let own = place.join("0");
        let theirs = root.path().join(user.to_string());
        let script = format!(
            "mkdir -p '{own}' && mount --bind '{theirs}' '{own}' && HYTHE_ROOT='{place}' exec \"$@\"",
            own = own.display(),
            theirs = theirs.display(),
            place = place.display()
        );
        let contain = [
            "unshare",
            "--user",
            "--map-root-user",
            "--pid",
            "--mount",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            &script,
            "sh",
        ];
        Self::become_and_run(root, role, &[], user, &[user.to_string()], &contain)
    }

    #[track_caller]
    fn become_and_run(
        root: &Root,
        role: &str,
        prefix: &[&str],
        user: u32,
        groups: &[String],
        suffix: &[&str],
    ) -> Self {
        let (user, all) = (user.to_string(), groups.join(","));
        let become_user = [
            "setpriv", "--reuid", &user, "--regid", &groups[0], "--groups", &all,
        ];
        // A copy, because the way to the program may be closed to others. Not by this process: what
        // it has open for writing while another test forks cannot be run.
        let program = root.path().join("player");
        if !program.exists() {
            let own = std::env::current_exe().expect("known");
            let copied = Command::new("cp").args([&own, &program]).status();
            assert!(copied.expect("started").success());
        }
        Self::run(
            &[prefix, &become_user, suffix].concat(),
            &program,
            root.path(),
            role,
        )
    }

    /// As another user in this group, who may lock only so many bytes.
    #[track_caller]
    pub(crate) fn start_limited(root: &Root, role: &str, user: u32, lockable: u64) -> Self {
        let limit = format!("--memlock={lockable}");
        Self::become_and_run(
            root,
            role,
            &["prlimit", &limit],
            user,
            &["0".to_owned()],
            &[],
        )
    }

    /// In PID and mount namespaces of its own, where it is process 1 and the root of the pools is
    /// at `place`.
    #[track_caller]
    pub(crate) fn start_in_container(root: &Root, role: &str, place: &Path) -> Self {
        let script = format!(
            "mount --bind '{}' '{}' && mount -t tmpfs hidden '{}' && exec \"$@\"",
            root.path().display(),
            place.display(),
            root.path().display()
        );
        let contain = [
            "unshare",
            "--pid",
            "--mount",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            &script,
            "sh",
        ];
        Self::spawn(&contain, place, role)
    }

    #[track_caller]
    fn spawn(prefix: &[&str], pools: &Path, role: &str) -> Self {
        let program = std::env::current_exe().expect("known");
        Self::run(prefix, &program, pools, role)
    }

    #[track_caller]
    fn run(prefix: &[&str], program: &Path, pools: &Path, role: &str) -> Self {
        let mut all: Vec<String> = prefix.iter().map(|&word| word.to_owned()).collect();
        all.extend(again::words(program));
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]);
        Self::start_command(command, pools, role)
    }

    /// A program with the same roles, by this command, where the pools are at `pools`.
    #[track_caller]
    pub(crate) fn start_command(mut command: Command, pools: &Path, role: &str) -> Self {
        let mut child = command
            .args([
                "--exact",
                &in_module("plays_its_role"),
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ROLE, role)
            .env("HYTHE_ROOT", pools)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let output = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let said = BufReader::new(output).lines().map_while(Result::ok);
            for line in
                said.filter_map(|line| line.split_once("role: ").map(|(_, said)| said.to_owned()))
            {
                let _ = sender.send(line);
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line it says.
    pub(crate) fn hear(&self) -> String {
        self.lines
            .recv_timeout(BOUND)
            .expect("it says something in time")
    }

    /// Lets it go on to its next step.
    pub(crate) fn go_on(&mut self) {
        let input = self.input.as_mut().expect("open");
        input.write_all(b"\n").expect("it listens");
    }

    /// Has it end by itself.
    pub(crate) fn end_input(&mut self) {
        drop(self.input.take());
    }

    /// Lets it live, and do nothing.
    pub(crate) fn stop(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("own child");
        // Its threads run on until the signal has reached them all.
        let stopped = rustix::process::WaitOptions::UNTRACED;
        rustix::process::waitpid(Some(pid), stopped).expect("own child");
    }

    /// Kills it, and waits until the kernel has no trace of it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("own child");
        self.child.wait().expect("own child");
    }

    /// Closes its input and waits for its end, which must be a good one.
    pub(crate) fn end(mut self) {
        self.end_input();
        assert!(self.child.wait().expect("own child").success());
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // Killed, it does not leave in good order: the end of its input would let it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.input.take());
    }
}

/// The role this process is to play, if it is one's player.
pub(crate) fn own_role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// The role, and the participant of the test's pool that bears its name.
pub(crate) fn own_part() -> Option<(String, Node)> {
    let role = own_role()?;
    let pool = Pool::open(&PoolOptions::new("test")).expect("the test has made it");
    let node = Node::join(&pool, &role).expect("joins");
    Some((role, node))
}

/// Tells the test something.
pub(crate) fn say(line: &str) {
    println!("role: {line}");
    std::io::stdout().flush().expect("the test listens");
}

/// Waits for [`Player::go_on`], or for the end of the input.
pub(crate) fn until_told() {
    let _ = std::io::stdin().read(&mut [0]);
}
