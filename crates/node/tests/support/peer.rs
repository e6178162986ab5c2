//! Another process taking part: this test program again, or the same one built for another machine.
//!
//! The program plays a role instead of testing if [`ROLE`] is set: a test named `plays_its_role` looks at it. It says where it
//! is in lines, and goes on until its input ends. Never outlives the value that started it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use super::{BOUND, Root, again};

/// The environment variable that names the role to play.
pub(crate) const ROLE: &str = "HYTHE_TEST_ROLE";

/// Another process taking part, killed with this value.
pub(crate) struct Peer {
    child: Child,
    /// Its input; closed, it ends.
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Peer {
    /// This program in another process.
    pub(crate) fn start(root: &Root, role: &str) -> Self {
        Self::start_command(again::command(), root, role)
    }

    /// A program with the same roles.
    pub(crate) fn start_command(mut command: Command, root: &Root, role: &str) -> Self {
        let mut child = command
            .args([
                "--exact",
                "plays_its_role",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ROLE, role)
            .env("HYTHE_ROOT", root.path())
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

    /// Kills it at once, and waits until the kernel has no trace of it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("own child");
        self.child.wait().expect("own child");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// For the peer: says a line to the test.
pub(crate) fn say(line: &str) {
    println!("role: {line}");
    std::io::stdout().flush().expect("the test listens");
}

/// For the peer: waits until the test is done with it.
pub(crate) fn until_input_ends() {
    let _ = std::io::stdin().read(&mut [0]);
}
