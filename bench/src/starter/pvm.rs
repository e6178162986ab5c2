//! PVM: a daemon on each host, started once for all runs; the task that measures spawns the others.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{EXCHANGE, Hosts, compile, installed, output, peer, remote_shell};
use crate::error::BenchError;
use crate::lookout::SILENCE_BOUND;

const SOURCE: (&str, &str) = ("pvm_peer.c", include_str!("../../peers/pvm_peer.c"));
const PEER: &str = "pvm-peer";
/// Any will do.
pub(crate) const COMPILER: &str = "cc";
/// What a program in C is linked with.
const LIBRARIES: [&str; 2] = ["-lgpvm3", "-lpvm3"];
const DAEMON: &str = "pvmd";
/// Serves groups; the first task that joins one has it started.
const GROUP_SERVER: &str = "pvmgs";
const ROOT: &str = "/usr/lib/pvm3";
/// Until the daemons of both hosts have met.
const MEETING: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// Of each host, where its daemon and its tasks find each other.
const OWN_FILES: &str = "pvm-near";
const FAR_FILES: &str = "pvm-far";

/// Why it is not there.
pub(crate) fn look_for() -> Result<(), String> {
    installed(DAEMON, "pvm")?;
    installed(GROUP_SERVER, "pvm")?;
    match Path::new("/usr/include/pvm3.h").is_file() {
        true => Ok(()),
        false => Err("pvm3.h is not installed (package pvm-dev)".to_owned()),
    }
}

/// Compiles the peer.
pub(crate) fn prepare_peer(folder: &Path) -> Result<(), String> {
    look_for()?;
    let program = peer(PEER, &[SOURCE, EXCHANGE], &LIBRARIES);
    compile(COMPILER, &program, folder)
}

/// The virtual machine of both hosts; ended when dropped.
#[derive(Debug)]
pub(crate) struct VirtualMachine {
    daemon: Child,
    halt: Command,
}

impl VirtualMachine {
    pub(crate) fn start(hosts: &Hosts<'_>) -> Result<Self, BenchError> {
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
        let [daemon, server] = [DAEMON, GROUP_SERVER].map(|name| installed(name, "pvm"));
        let daemon = daemon.map_err(BenchError::Unable)?;
        let server = server.map_err(BenchError::Unable)?;
        let servers = server.parent().unwrap_or(Path::new("/")).display();
        let place = folder.display();
        let lines = format!(
            "* ep={place}:{servers} wd={place} dx={}\n{}\n{}\n",
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
            halt: peer_command(folder, &["halt"]),
        };
        machine.wait_for_both(folder)?;
        Ok(machine)
    }

    fn wait_for_both(&self, folder: &Path) -> Result<(), BenchError> {
        let start = Instant::now();
        while start.elapsed() < MEETING {
            let mut hosts = peer_command(folder, &["hosts"]);
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

/// The peer, as a task of the near host.
pub(crate) fn peer_command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(folder.join(PEER));
    command.args(words);
    environment(&mut command, folder);
    command
}

/// By which a program of the near host finds its daemon.
pub(crate) fn environment(command: &mut Command, folder: &Path) {
    command.env("PVM_TMP", folder.join(OWN_FILES));
    command.env("PVM_ROOT", ROOT).env("PVM_ALLOW_ROOT", "1");
}
