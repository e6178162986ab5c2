//! The other process: this program again, watched, and ended with us.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::setting::Setting;
use crate::error::BenchError;
use crate::lookout::{Lookout, SILENCE_BOUND};

/// Beyond its share of the time, for start, warm-up and one-way runs.
const GRACE: Duration = Duration::from_secs(60);

/// The other process; killed and waited for when dropped.
#[derive(Debug)]
pub(super) struct Peer {
    child: Child,
    /// Dropped to call the watchdog off.
    leash: Option<Sender<()>>,
    watchdog: Option<JoinHandle<()>>,
    complaints: Option<JoinHandle<String>>,
    status: Option<ExitStatus>,
}

impl Peer {
    /// Starts it, with where to meet and what it needs as its standard input and output. The
    /// lookout notices when it ends.
    pub(super) fn start(
        setting: &Setting<'_>,
        place: &str,
        input: Stdio,
        output: Stdio,
    ) -> Result<(Self, Lookout), BenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["echo", "--case", &setting.case.to_string()]);
        command.args(["--size", &setting.size.to_string()]);
        command.args(["--messages", &setting.messages().to_string()]);
        command.args(["--place", place]);
        if let Some([_, far]) = setting.cpus {
            command.args(["--cpu", &far.to_string()]);
        }
        command.stdin(input).stdout(output).stderr(Stdio::piped());
        hythe_sys::spawn::die_with_parent(&mut command);
        let mut child = command.spawn()?;
        let (lookout, gone) = setting.lookout.for_peer();
        let complaints = child.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut said = Vec::new();
                // It ends when the process does; what was said before an error still counts.
                let _ = stderr.read_to_end(&mut said);
                gone.store(true, Ordering::Relaxed);
                String::from_utf8_lossy(&said).trim().to_owned()
            })
        });
        let (leash, watchdog) = watch(&child, setting.budget.time + GRACE);
        let peer = Self {
            child,
            leash: Some(leash),
            watchdog: Some(watchdog),
            complaints,
            status: None,
        };
        Ok((peer, lookout))
    }

    /// Waits until it has ended well.
    pub(super) fn join(&mut self) -> Result<(), BenchError> {
        let start = Instant::now();
        loop {
            self.look()?;
            match self.status {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(BenchError::PeerLost(status.to_string())),
                None if start.elapsed() > SILENCE_BOUND => {
                    return Err(BenchError::PeerLost(format!(
                        "it does not end, {SILENCE_BOUND:?} after the last message"
                    )));
                }
                None => std::thread::sleep(Duration::from_micros(200)),
            }
        }
    }

    /// Adds to an error about the peer how it ended and what it said.
    pub(super) fn explain(mut self, error: BenchError) -> BenchError {
        let why = match error {
            BenchError::PeerLost(why) => why,
            // Whoever died was no receiver any more when the message was sent.
            BenchError::Dropped { number } if self.has_ended() => {
                format!("message {number} found it gone")
            }
            error => return error,
        };
        self.end();
        let ended = self.status.map_or_else(String::new, |status| {
            // It may have been ended here.
            format!(" ({status})")
        });
        let said = self.complaints.take().and_then(|thread| thread.join().ok());
        let said = said
            .filter(|said| !said.is_empty())
            .map(|said| format!("; it said: {said}"));
        BenchError::PeerLost(format!("{why}{ended}{}", said.unwrap_or_default()))
    }

    fn look(&mut self) -> Result<(), BenchError> {
        if self.status.is_some() {
            return Ok(());
        }
        // The watchdog goes first: once waited for, the number may be another's.
        if self.has_ended() {
            self.call_off();
            self.status = Some(self.child.wait()?);
        }
        Ok(())
    }

    /// Without waiting for it: it stays a zombie that keeps its number.
    fn has_ended(&self) -> bool {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let looked = waitid(WaitId::Pid(Pid::from_child(&self.child)), options);
        !matches!(looked, Ok(None))
    }

    fn call_off(&mut self) {
        self.leash = None;
        if let Some(watchdog) = self.watchdog.take() {
            // It cannot panic: it waits, and sends a signal.
            let _ = watchdog.join();
        }
    }

    fn end(&mut self) {
        self.call_off();
        if self.status.is_none() {
            // Gone already, or ended now: either way it is waited for.
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Kills the process when its time is over: what bounds our blocking calls. The sender calls it
/// off.
fn watch(child: &Child, bound: Duration) -> (Sender<()>, JoinHandle<()>) {
    let pid = Pid::from_child(child);
    let (leash, pulled) = channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if pulled.recv_timeout(bound) == Err(RecvTimeoutError::Timeout) {
            // Gone already is as good.
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    (leash, watchdog)
}
