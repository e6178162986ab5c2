//! One boot of the emulated board, from power to the end of its run, with the time at which each
//! line arrived.
//!
//! Bounded: a board that is not done in time is ended. QEMU never outlives a boot, nor this
//! program, however that ends.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::board::Boot;
use super::transcript::{Outcome, Transcript};
use crate::error::{BenchError, BootError};
use crate::lookout::{Lookout, NAP};

/// Many times what a boot takes, also on a machine that does other things meanwhile.
const BOOT_BOUND: Duration = Duration::from_secs(180);

/// QEMU. Ended and reaped when dropped.
struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        // It has ended already, or does so now; there is nobody to tell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots, and listens until the run is over. The calling thread must live as long as the board
/// shall.
pub(crate) fn run(
    boot: &Boot<'_>,
    folder: &Path,
    lookout: &Lookout,
) -> Result<Outcome, BenchError> {
    let mut command = boot.command()?;
    let program = command.get_program().to_string_lossy().into_owned();
    let complaints = folder.join("qemu.log");
    let log =
        File::create(&complaints).map_err(BootError::host(complaints.display().to_string()))?;
    command
        // A terminal's interrupt is for this program, which then ends the board.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    hythe_sys::spawn::die_with_parent(&mut command);
    let child = command.spawn().map_err(|why| match why.kind() {
        ErrorKind::NotFound => BootError::Missing {
            what: "the emulator",
            path: program.clone().into(),
        },
        _ => BootError::host(program.clone())(why),
    })?;
    let mut transcript = Transcript::default();
    let heard = listen(Emulator(child), &mut transcript, lookout);
    let complaints = std::fs::read_to_string(&complaints).unwrap_or_default();
    for line in complaints.lines() {
        transcript.take(format!("{program}: {line}\n").as_bytes(), Instant::now());
    }
    heard?;
    Ok(transcript.finish(boot.runs(), boot.bytes())?)
}

/// Until the run is over, or QEMU has closed the line.
fn listen(
    mut emulator: Emulator,
    transcript: &mut Transcript,
    lookout: &Lookout,
) -> Result<(), BenchError> {
    let Some(mut line) = emulator.0.stdout.take() else {
        return Ok(());
    };
    let began = Instant::now();
    let nap = Timespec::try_from(NAP).unwrap_or_default();
    let mut bytes = [0; 4096];
    while !transcript.is_over() {
        lookout.check_stop()?;
        if began.elapsed() > BOOT_BOUND {
            let tail = transcript.tail();
            let waited = BOOT_BOUND;
            return Err(BootError::Silent { waited, tail }.into());
        }
        let ready = match poll(&mut [PollFd::new(&line, PollFlags::IN)], Some(&nap)) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        if ready == 0 {
            continue;
        }
        let count = line.read(&mut bytes)?;
        if count == 0 {
            break;
        }
        transcript.take(&bytes[..count], Instant::now());
    }
    Ok(())
}
