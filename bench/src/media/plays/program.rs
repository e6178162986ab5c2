//! The sending programs: where they are, how they are started, and what the kernel counts for them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::Value;

use super::super::{port, program};
use super::{PACKET_BYTES, Play, Played, PlaysCase, PlaysSystem};
use crate::error::BenchError;
use crate::product;

/// Beyond the length of the media; whoever needs longer is ended.
const BOUND: Duration = Duration::from_secs(60);
/// How often is looked whether it has ended: seldom, since it has the CPU of who looks.
const LOOK: Duration = Duration::from_millis(50);
/// Of what a program says of its troubles, so much is enough to know them.
const SAID_BYTES_MAX: u64 = 1000;
/// Of the product's document.
const DOCUMENT_BYTES_MAX: u64 = 4 << 20;
/// What is compiled for `plain`.
const PLAIN_SOURCE: &str = include_str!("../../../peers/plain_sender.c");

/// The programs that there are.
#[derive(Debug)]
pub(in super::super) struct Programs {
    hythe: Option<PathBuf>,
    /// Without a name: it goes with this process, however it ends.
    plain: Option<File>,
}

impl Programs {
    /// Looks for those that `cases` want, and compiles the plain one.
    pub(in super::super) fn find(cases: &[PlaysCase]) -> Self {
        let wants = |system| cases.iter().any(|case| case.system == system);
        Self {
            hythe: product::hythe(),
            plain: wants(PlaysSystem::Plain).then(compile).and_then(Result::ok),
        }
    }

    /// The one of a system, or why there is none.
    pub(in super::super) fn of(&self, system: PlaysSystem) -> Result<PathBuf, String> {
        let in_path = |name: &str| match program::is_installed(name) {
            true => Ok(PathBuf::from(name)),
            false => Err(format!(
                "no {name} in PATH: `make setup` or scripts/media-tools.sh"
            )),
        };
        match system {
            PlaysSystem::Hythe => self
                .hythe
                .clone()
                .ok_or_else(|| product::MISSING.to_owned()),
            PlaysSystem::Ffmpeg => in_path("ffmpeg"),
            PlaysSystem::Gstreamer => in_path("gst-launch-1.0"),
            PlaysSystem::Plain => {
                let plain = self.plain.as_ref().map(|file| {
                    let (process, number) = (std::process::id(), file.as_raw_fd());
                    PathBuf::from(format!("/proc/{process}/fd/{number}"))
                });
                plain.ok_or_else(|| "no C compiler `cc`, or it fails".into())
            }
        }
    }
}

/// The program, whose name is gone already.
fn compile() -> Result<File, BenchError> {
    let path = tempfile::NamedTempFile::new()?.into_temp_path();
    let mut command = Command::new("cc");
    command
        .args(["-std=c99", "-O2", "-x", "c", "-", "-o"])
        .arg(&path);
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    hythe_sys::spawn::die_with_parent(&mut command);
    let mut compiler = command.spawn()?;
    if let Some(mut input) = compiler.stdin.take() {
        input.write_all(PLAIN_SOURCE.as_bytes())?;
    }
    match compiler.wait()?.success() {
        true => Ok(File::open(&path)?),
        false => Err(BenchError::Unable("cc does not compile it".to_owned())),
    }
}

/// A command, and the part of it that says where to, which is long.
struct Line {
    command: Command,
    destinations: String,
}

fn line(play: &Play, to: IpAddr) -> Line {
    let (case, path) = (play.case, play.path.as_str());
    let ports = || (0..case.destinations).map(port);
    let mut command = Command::new(&play.program);
    let destinations = match case.system {
        PlaysSystem::Hythe => {
            command.args(["media", "send", path, "--json"]);
            for port in ports() {
                command.args(["--to", &format!("rtp://{to}:{port}")]);
            }
            String::new()
        }
        PlaysSystem::Ffmpeg => {
            command.args([
                "-nostdin",
                "-loglevel",
                "error",
                "-re",
                "-f",
                "mpegts",
                "-i",
                path,
            ]);
            command.args(["-map", "0", "-c", "copy"]);
            let url = |port| format!("rtp://{to}:{port}?pkt_size={PACKET_BYTES}");
            let outputs: Vec<String> = match case.destinations {
                1 => vec![url(port(0))],
                _ => ports()
                    .map(|port| format!("[f=rtp_mpegts]{}", url(port)))
                    .collect(),
            };
            let muxer = if case.destinations == 1 {
                "rtp_mpegts"
            } else {
                "tee"
            };
            command.args(["-f", muxer]);
            outputs.join("|")
        }
        PlaysSystem::Gstreamer => {
            command.args(["-q", "filesrc", &format!("location={path}"), "!"]);
            // It gives buffers of seven packets the times of the stream's clock.
            command.args(["tsparse", "set-timestamps=true", "alignment=7", "!"]);
            command.args(["rtpmp2tpay", "!", "multiudpsink", "sync=true"]);
            let clients: Vec<String> = ports().map(|port| format!("{to}:{port}")).collect();
            format!("clients={}", clients.join(","))
        }
        PlaysSystem::Plain => {
            command.args([path, &case.bits_per_second().to_string()]);
            command.args([to.to_string(), port(0).to_string()]);
            case.destinations.to_string()
        }
    };
    Line {
        command,
        destinations,
    }
}

/// As a person would write it, with the name alone of the program and of the file.
fn shown(line: &Line, play: &Play) -> String {
    let name = play.program.file_name().unwrap_or_default();
    let words = line
        .command
        .get_args()
        .filter(|word| *word != OsStr::new("--to"));
    let words = words.map(OsStr::to_string_lossy);
    let words = words.filter(|word| !word.starts_with("rtp://"));
    let words: Vec<_> = words.map(|word| word.replace(&play.path, "FILE")).collect();
    let name = match play.case.system {
        PlaysSystem::Plain => "plain_sender".into(),
        _ => name.to_string_lossy(),
    };
    format!("{name} {} DESTINATIONS", words.join(" "))
}

/// Plays it once, on this process's CPU and network.
pub(in super::super) fn play(play: &Play, to: IpAddr) -> Result<Played, BenchError> {
    let mut line = line(play, to);
    let command_line = shown(&line, play);
    if !line.destinations.is_empty() {
        line.command.arg(&line.destinations);
    }
    // Into files: a program that says much would wait for whoever reads a pipe.
    let (mut printed, mut said) = (tempfile::tempfile()?, tempfile::tempfile()?);
    line.command.stdin(Stdio::null());
    line.command
        .stdout(printed.try_clone()?)
        .stderr(said.try_clone()?);
    hythe_sys::spawn::die_with_parent(&mut line.command);
    let mut child = line.command.spawn()?;
    let bound = BOUND + Duration::from_secs(play.case.seconds.into());
    let (pid, began) = (Pid::from_child(&child), Instant::now());
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(pid), options)?.is_none() {
        if began.elapsed() > bound {
            let _ = child.kill();
        }
        std::thread::sleep(LOOK);
    }
    let (status, cpu) = hythe_sys::spawn::wait_with_cpu_time(child)?;
    if !status.success() {
        let first = read(&mut said, SAID_BYTES_MAX)?;
        let why = format!("{}: {status}: {}", play.case, first.trim());
        return Err(BenchError::Unable(why));
    }
    let document = read(&mut printed, DOCUMENT_BYTES_MAX)?;
    // Of the others there is none.
    let document: Value = serde_json::from_str(&document).unwrap_or_default();
    let method = &document["destinations"][0]["method"];
    Ok(Played {
        cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
        command: command_line,
        packets_per_handover: document["packets_per_handover"].as_f64(),
        method: method.as_str().map(str::to_owned),
    })
}

fn read(file: &mut File, bytes_max: u64) -> Result<String, BenchError> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(system: PlaysSystem, destinations: u16) -> String {
        let play = Play {
            case: PlaysCase {
                system,
                destinations,
                seconds: 1,
            },
            program: "/somewhere/hythe".into(),
            path: "/proc/1/fd/3".to_owned(),
        };
        let line = line(&play, "10.0.0.1".parse().expect("an address"));
        format!("{} | {}", shown(&line, &play), line.destinations)
    }

    #[test]
    fn all_are_told_the_same_file_and_the_same_destinations() {
        assert_eq!(
            told(PlaysSystem::Hythe, 2),
            "hythe media send FILE --json DESTINATIONS | "
        );
        assert!(told(PlaysSystem::Ffmpeg, 1).contains("-f rtp_mpegts DESTINATIONS"));
        let tee = told(PlaysSystem::Ffmpeg, 2);
        assert!(
            tee.contains("-f tee") && tee.contains(":5006?pkt_size=1328"),
            "{tee}"
        );
        let many = told(PlaysSystem::Gstreamer, 2);
        assert!(
            many.ends_with("clients=10.0.0.1:5004,10.0.0.1:5006"),
            "{many}"
        );
        let plain = told(PlaysSystem::Plain, 101);
        assert_eq!(
            plain,
            "plain_sender FILE 2000000 10.0.0.1 5004 DESTINATIONS | 101"
        );
    }
}
