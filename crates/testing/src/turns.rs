//! Turns: what only one test of this machine may do at a time, whatever process it is in.
//!
//! A mutex serves the tests of one program; programs run side by side. As for ports, a Unix socket
//! with an abstract name stands for the turn: the kernel frees it when its process ends, however it
//! ends. It is of the network namespace: take a turn before entering another one.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

/// How often it is looked whether the turn of another has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Nobody else's until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _name: UnixListener,
}

impl Turn {
    /// Waits for the turn of that name, for as long as another living process has it.
    ///
    /// # Panics
    ///
    /// If the kernel refuses a Unix socket for another reason.
    #[must_use]
    pub fn take(name: &str) -> Self {
        let name = format!("hythe-test-turn-{name}");
        let address = SocketAddr::from_abstract_name(name).expect("a short name");
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(name) => return Self { _name: name },
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    std::thread::sleep(LOOK_EVERY);
                }
                Err(error) => panic!("a turn among tests: {error}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    const ROLE: &str = "HYTHE_TEST_TAKES_A_TURN";

    #[test]
    fn turn_ends_with_the_value_and_with_the_process() {
        let _alone = crate::STARTING.lock();
        let own = Turn::take("own");
        drop(own);
        drop(Turn::take("own"));
        let mut child = Command::new(std::env::current_exe().expect("known"))
            .args(["turns::tests::process_takes_a_turn", "--exact"])
            .args(["--nocapture", "--test-threads=1"])
            .env(ROLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(lines.any(|line| line.expect("text") == "taken"));
        let waiting = std::thread::spawn(|| drop(Turn::take("another's")));
        // It has had time to take what it must not get; more of it makes the test stricter only.
        std::thread::sleep(10 * LOOK_EVERY);
        assert!(!waiting.is_finished());
        child.kill().expect("own child");
        child.wait().expect("own child");
        waiting.join().expect("it got the turn");
    }

    /// The other process: it has its turn until it is killed.
    #[test]
    fn process_takes_a_turn() {
        if std::env::var_os(ROLE).is_none() {
            return;
        }
        let _turn = Turn::take("another's");
        println!("\ntaken");
        // Its standard input ends when the parent does.
        let _ = std::io::stdin().lines().last();
    }
}
