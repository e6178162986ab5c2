//! RouDi, the daemon of iceoryx: one for a run, with pools for its messages.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::starter::installed;

/// What it prints once it serves.
const READY: &str = "ready for clients";
const STARTING: Duration = Duration::from_secs(20);
/// It removes its shared memory meanwhile.
const ENDING: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);
/// Sizes of chunks, with what Cyclone DDS writes before a message, and how many of each. Queues of
/// 256 small ones are full in each direction.
const POOLS: [(usize, usize); 4] = [
    (1 << 10, 2048),
    (128 << 10, 64),
    ((1 << 20) + 4096, 16),
    ((4 << 20) + 4096, 16),
];

/// Ended when dropped.
#[derive(Debug)]
pub(super) struct Roudi(Child);

impl Roudi {
    /// Until it serves. Fails where another one does already.
    pub(super) fn start(folder: &Path) -> Result<Self, String> {
        let program = installed("iox-roudi", "iceoryx")?;
        let configuration = folder.join("roudi.toml");
        std::fs::write(&configuration, pools()).map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("-c").arg(configuration);
        // Its processes are ended by us, not by it.
        command.args(["-m", "off"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::null());
        hythe_sys::spawn::die_with_parent(&mut command);
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let printed = child.stdout.take();
        let started = Self(child);
        let (is_ready, ready) = channel();
        // Reads on to the end, so that it never waits for us.
        std::thread::spawn(move || {
            let lines = printed
                .into_iter()
                .flat_map(|out| BufReader::new(out).lines());
            for line in lines.map_while(Result::ok) {
                if line.contains(READY) {
                    // Nobody waits any more after a time-out.
                    let _ = is_ready.send(());
                }
            }
        });
        match ready.recv_timeout(STARTING) {
            Ok(()) => Ok(started),
            Err(_) => Err("iox-roudi does not serve; does another one?".to_owned()),
        }
    }
}

impl Drop for Roudi {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < ENDING {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pools() -> String {
    let head = "[general]\nversion = 1\n\n[[segment]]\n".to_owned();
    POOLS.iter().fold(head, |text, (size, count)| {
        text + &format!("\n[[segment.mempool]]\nsize = {size}\ncount = {count}\n")
    })
}
