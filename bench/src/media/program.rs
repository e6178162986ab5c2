//! Programs that send RTP today: ffmpeg and GStreamer, started for each sending, measured by what
//! the kernel counts for them.

use std::io::{Read, Seek};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::case::System;
use super::job::{Job, Sent};
use super::{monotonic_ns, port};
use crate::error::BenchError;

/// Far beyond what they take.
const BOUND: Duration = Duration::from_secs(60);
/// How often is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(5);
/// How much of the input ffmpeg looks at first; less than the shortest input has, so that this part
/// is the same of all.
const PROBE_BYTES: &str = "500000";

/// Before what a packet carries.
const RTP_HEADER_BYTES: usize = 12;
/// Of what a program says of its troubles, so much is enough to know them.
const SAID_BYTES_MAX: u64 = 1000;

/// The program's name.
pub(super) const fn name(system: System) -> Option<&'static str> {
    match system {
        System::Ffmpeg => Some("ffmpeg"),
        System::Gstreamer => Some("gst-launch-1.0"),
        _ => None,
    }
}

/// Is it there?
pub(super) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn command(job: &Job<'_>, name: &str) -> Command {
    let (host, port, path) = (job.to, port(0), job.path);
    let mut command = Command::new(name);
    if job.case.system == System::Ffmpeg {
        command.args(["-nostdin", "-loglevel", "error", "-probesize", PROBE_BYTES]);
        command.args(["-f", "mpegts", "-i", path, "-c", "copy", "-f", "rtp_mpegts"]);
        let bytes = job.case.packet_bytes;
        command.arg(format!("rtp://{host}:{port}?pkt_size={bytes}"));
    } else {
        // No tsparse: it costs half as much again, and complains of each buffer that it aligns.
        let blocksize = usize::from(job.case.packet_bytes) - RTP_HEADER_BYTES;
        command.args(["-q", "filesrc", &format!("location={path}")]);
        // With times, since the payloader asks for them and complains once without.
        command.args([&format!("blocksize={blocksize}"), "do-timestamp=true", "!"]);
        command.args(["video/mpegts,systemstream=true,packetsize=188", "!"]);
        command.args(["rtpmp2tpay", "!", "udpsink"]);
        command.args([&format!("host={host}"), &format!("port={port}")]);
        command.args(["sync=false", "async=false"]);
    }
    command
}

/// Runs it once, on this process's CPU and network.
pub(super) fn run(job: &Job<'_>) -> Result<Sent, BenchError> {
    let Some(name) = name(job.case.system) else {
        return Err(BenchError::WrongUse(format!("{} is no program", job.case)));
    };
    let mut command = command(job, name);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // Into a file: a program that says much would wait for whoever reads a pipe.
    let mut said = tempfile::tempfile()?;
    command.stderr(said.try_clone()?);
    hythe_sys::spawn::die_with_parent(&mut command);
    let began_ns = monotonic_ns();
    let mut child = command.spawn()?;
    let (pid, began) = (Pid::from_child(&child), Instant::now());
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(pid), options)?.is_none() {
        if began.elapsed() > BOUND {
            let _ = child.kill();
        }
        std::thread::sleep(LOOK);
    }
    let (status, cpu) = hythe_sys::spawn::wait_with_cpu_time(child)?;
    said.rewind()?;
    let mut first = Vec::new();
    said.take(SAID_BYTES_MAX).read_to_end(&mut first)?;
    let first = String::from_utf8_lossy(&first);
    // Whoever complains does other work than was asked for.
    if !status.success() || !first.trim().is_empty() {
        let first = first.trim();
        return Err(BenchError::Unable(format!("{name}: {status}: {first}")));
    }
    Ok(Sent {
        began_ns,
        cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
        layout: None,
        method: None,
    })
}
