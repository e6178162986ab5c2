//! Open MPI: `mpirun` starts both ranks, by our remote shell where one is on the other host.

use std::path::Path;
use std::process::Command;

use super::{Hosts, compile, installed, output, remote_shell};
use crate::error::BenchError;
use crate::host::case::Reach;
use crate::host::message::Run;
use crate::lookout::SILENCE_BOUND;

const SOURCE: &str = include_str!("../../../peers/mpi_peer.c");
const PEER: &str = "openmpi-peer";
const STARTER: &str = "mpirun.openmpi";
const PACKAGE: &str = "openmpi-bin";

pub(super) fn prepare(folder: &Path) -> Result<(), String> {
    let starter = installed(STARTER, PACKAGE)?;
    let mut version = Command::new(starter);
    output(version.arg("--version"), SILENCE_BOUND).map_err(|error| error.to_string())?;
    let package = "libopenmpi-dev";
    installed("mpicc.openmpi", package)?;
    compile("mpicc.openmpi", (PEER, SOURCE), &[], folder)
}

pub(super) fn command(run: &Run, hosts: &Hosts<'_>) -> Result<Command, BenchError> {
    let folder = hosts.folder;
    let far = ("TMPDIR", folder.to_str().unwrap_or_default());
    let place = (folder, "openmpi-remote-shell");
    let shell = remote_shell::write(place, hosts.neighbour, &[far])?;
    let mut command = Command::new(STARTER);
    command.args(["--allow-run-as-root", "-n", "2", "--bind-to", "none"]);
    command.args(["--oversubscribe", "--map-by", "node"]);
    match run.case.reach {
        Reach::Local => {
            command.arg("--host").arg(format!("{}:2", hosts.own));
        }
        Reach::Remote => {
            let both = format!("{}:1,{}:1", hosts.own, hosts.other);
            command.arg("--host").arg(both);
            command.args(["--mca", "plm_rsh_agent"]).arg(shell);
        }
    }
    for (key, value) in [
        ("pml", "ob1"),
        ("btl", "self,vader,tcp"),
        ("btl_tcp_if_include", hosts.interface),
        ("oob_tcp_if_include", hosts.interface),
        // Each rank has its CPU; both of one host share it with nobody, either.
        ("mpi_yield_when_idle", "0"),
    ] {
        command.args(["--mca", key, value]);
    }
    command.arg(folder.join(PEER));
    command.args([run.size.to_string(), run.count.to_string()]);
    command.arg(run.time.as_secs_f64().to_string());
    command.args(hosts.cpu_words());
    command.env("TMPDIR", folder);
    Ok(command)
}
