//! One run of `hythe play`, and what it says of it.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use super::case::System;
use crate::error::BenchError;
use crate::lookout::Lookout;

/// How often is looked whether it has ended: seldom, since it has the CPUs of who looks.
const LOOK: Duration = Duration::from_millis(100);
/// How long a player that is told to stop may take to leave its pool.
const STOP_BOUND: Duration = Duration::from_secs(10);
/// Of what it says of its troubles, so much is enough to know them.
const SAID_BYTES_MAX: u64 = 2000;
/// Of its document: some hundred bytes for each frame.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// What all systems play.
#[derive(Debug)]
pub(super) struct Film {
    /// `hythe`.
    pub(super) program: PathBuf,
    pub(super) board: String,
    pub(super) path: PathBuf,
}

/// What `hythe play --json` says, as far as it is of use here.
#[derive(Debug, Deserialize)]
pub(super) struct Played {
    /// None: Linux decoded.
    pub(super) board: Option<String>,
    pub(super) emulated: bool,
    pub(super) linux_cpu_ns: u64,
    /// Of decoders that are processes of Linux.
    #[serde(default)]
    pub(super) decoder_cpu_ns: u64,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) frames_shown: u64,
    pub(super) frames_dropped: u64,
    pub(super) sound: Option<Sound>,
    slots_leaked: u32,
    pub(super) frames: Vec<Frame>,
}

/// What was heard, in blocks.
#[derive(Debug, Deserialize)]
pub(super) struct Sound {
    pub(super) late: u64,
    pub(super) silent: u64,
    /// How often the clock stood because sound was late.
    pub(super) stalls: u64,
}

/// One frame, whose times are missing where it was dropped.
#[derive(Debug, Deserialize)]
pub(super) struct Frame {
    pub(super) sync_error_ns: Option<u64>,
    pub(super) decode_ns: Option<u64>,
    pub(super) file_to_shown_ns: Option<u64>,
}

impl Film {
    /// Can this `hythe` play so at all?
    pub(super) fn has_method(&self, system: System) -> Result<bool, BenchError> {
        let mut command = Command::new(&self.program);
        command.args([
            "play",
            "--method",
            &system.to_string(),
            "--no-window",
            "--help",
        ]);
        command.stdin(Stdio::null());
        Ok(command.output()?.status.success())
    }

    /// Plays it to its end. Each wait of a player has a bound of its own.
    pub(super) fn play(&self, system: System, lookout: &Lookout) -> Result<Played, BenchError> {
        let mut command = Command::new(&self.program);
        command.args([
            "play",
            "--json",
            "--no-window",
            "--method",
            &system.to_string(),
        ]);
        if system.has_core() {
            command.args(["--board", &self.board]);
        }
        command.arg("--").arg(&self.path);
        // Into files: a program that says much would wait for whoever reads a pipe.
        let (mut printed, mut said) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null());
        command
            .stdout(printed.try_clone()?)
            .stderr(said.try_clone()?);
        hythe_sys::spawn::die_with_parent(&mut command);
        let status = wait(command.spawn()?, lookout)?;
        if !status.success() {
            let said = read(&mut said, SAID_BYTES_MAX)?;
            let why = format!("hythe play --method {system}: {status}: {}", said.trim());
            return Err(BenchError::Unable(why));
        }
        let document = read(&mut printed, DOCUMENT_BYTES_MAX)?;
        let played: Played = serde_json::from_str(&document).map_err(|error| {
            let why = format!("hythe play --method {system} printed another document: {error}");
            BenchError::Unable(why)
        })?;
        played.check(system)?;
        Ok(played)
    }
}

impl Played {
    fn check(&self, system: System) -> Result<(), BenchError> {
        if self.slots_leaked > 0 {
            return Err(BenchError::Audit {
                case: system.to_string(),
                size: self.picture_bytes(),
                why: format!("{} slots are not free", self.slots_leaked),
            });
        }
        if self.frames_shown == 0 {
            return Err(BenchError::Unable(format!(
                "hythe play --method {system} showed no frame: the movie needs a picture"
            )));
        }
        Ok(())
    }

    /// A frame of 8 bits, 4:2:0.
    pub(super) const fn picture_bytes(&self) -> usize {
        self.width * self.height + 2 * (self.width / 2) * (self.height / 2)
    }
}

/// Waits for its end; it is stopped where this program is.
fn wait(mut child: Child, lookout: &Lookout) -> Result<ExitStatus, BenchError> {
    loop {
        if let Some(status) = child.try_wait()? {
            // A terminal's Ctrl-C reaches both.
            return lookout.check_stop().map(|()| status);
        }
        if let Err(stopped) = lookout.check_stop() {
            stop(child)?;
            return Err(stopped);
        }
        std::thread::sleep(LOOK);
    }
}

/// So that it leaves no pool behind.
fn stop(mut child: Child) -> Result<(), BenchError> {
    // It may have ended this moment.
    let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > STOP_BOUND {
            child.kill()?;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn read(file: &mut File, bytes_max: u64) -> Result<String, BenchError> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
