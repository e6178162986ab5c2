//! PVM: a daemon on each host, started once for all runs; the task that measures spawns the other.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Hosts, compile, installed, output, remote_shell};
use crate::error::BenchError;
use crate::host::message::Run;
use crate::lookout::SILENCE_BOUND;

const SOURCE: &str = include_str!("../../../peers/pvm_peer.c");
const PEER: &str = "pvm-peer";
const DAEMON: &str = "pvmd";
const ROOT: &str = "/usr/lib/pvm3";
/// Until the daemons of both hosts have met.
const MEETING: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// Of each host, where its daemon and its tasks find each other.
const OWN_FILES: &str = "pvm-near";
const FAR_FILES: &str = "pvm-far";

pub(super) fn prepare(folder: &Path) -> Result<(), String> {
    installed(DAEMON, "pvm")?;
    if !Path::new("/usr/include/pvm3.h").is_file() {
        return Err("pvm3.h is not installed (package pvm-dev)".to_owned());
    }
    compile("cc", (PEER, SOURCE), &["-lpvm3"], folder)
}

/// The virtual machine of both hosts; ended when dropped.
#[derive(Debug)]
pub(in crate::host) struct VirtualMachine {
    daemon: Child,
    halt: Command,
}

impl VirtualMachine {
    pub(in crate::host) fn start(hosts: &Hosts<'_>) -> Result<Self, BenchError> {
        let folder = hosts.folder;
        for files in [OWN_FILES, FAR_FILES] {
            std::fs::create_dir_all(folder.join(files))?;
        }
        let far_files = folder.join(FAR_FILES);
        let far = [
            ("PVM_TMP", far_files.to_str().unwrap_or_default()),
            ("PVM_ROOT", ROOT),
            ("PVM_ALLOW_ROOT", "1"),
        ];
        let shell = remote_shell::write((folder, "pvm-remote-shell"), hosts.neighbour, &far)?;
        let list = folder.join("pvm-hosts");
        let (place, daemon) = (folder.display(), installed(DAEMON, "pvm"));
        let daemon = daemon.map_err(BenchError::Unable)?;
        let lines = format!(
            "* ep={place} wd={place} dx={}\n{}\n{}\n",
            daemon.display(),
            hosts.own,
            hosts.other
        );
        std::fs::write(&list, lines)?;
        let mut command = Command::new(daemon);
        command.arg(format!("-n{}", hosts.own)).arg(&list);
        environment(&mut command, folder);
        command.env("PVM_RSH", shell);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        hythe_sys::spawn::die_with_parent(&mut command);
        let machine = Self {
            daemon: command.spawn()?,
            halt: peer(folder, &["halt"]),
        };
        machine.wait_for_both(folder)?;
        Ok(machine)
    }

    fn wait_for_both(&self, folder: &Path) -> Result<(), BenchError> {
        let start = Instant::now();
        while start.elapsed() < MEETING {
            let mut hosts = peer(folder, &["hosts"]);
            if output(&mut hosts, SILENCE_BOUND).is_ok_and(|said| said.trim() == "2") {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        let why = format!("the daemons of PVM did not meet within {MEETING:?}");
        Err(BenchError::Unable(why))
    }
}

impl Drop for VirtualMachine {
    fn drop(&mut self) {
        // Ends the daemon of the other host, too; whoever halts is lost with it.
        let _ = output(&mut self.halt, SILENCE_BOUND);
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

pub(super) fn command(run: &Run, hosts: &Hosts<'_>) -> Command {
    let other = hosts.of(run.case.reach).to_string();
    let [near_cpu, other_cpu] = hosts.cpu_words();
    let words = [
        "ping",
        &other,
        &run.size.to_string(),
        &run.count.to_string(),
        &run.time.as_secs_f64().to_string(),
        &near_cpu,
        &other_cpu,
    ];
    peer(hosts.folder, &words)
}

fn peer(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(folder.join(PEER));
    command.args(words);
    environment(&mut command, folder);
    command
}

fn environment(command: &mut Command, folder: &Path) {
    command.env("PVM_TMP", folder.join(OWN_FILES));
    command.env("PVM_ROOT", ROOT).env("PVM_ALLOW_ROOT", "1");
}
