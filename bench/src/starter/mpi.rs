//! Open MPI and MPICH: `mpirun` starts all ranks, by our remote shell where some are on the other
//! host; every second rank is there.

use std::path::Path;
use std::process::Command;

use super::{EXCHANGE, Hosts, compile, installed, output, peer, remote_shell};
use crate::error::BenchError;
use crate::lookout::SILENCE_BOUND;

const SOURCE: (&str, &str) = ("mpi_peer.c", include_str!("../../peers/mpi_peer.c"));

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mpi {
    Open,
    Mpich,
}

/// How many ranks, and on how many hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranks {
    pub(crate) count: usize,
    pub(crate) are_remote: bool,
    /// More ranks than CPUs: they must not spin while they wait.
    pub(crate) share_cpus: bool,
}

impl Mpi {
    const fn starter(self) -> &'static str {
        match self {
            Self::Open => "mpirun.openmpi",
            Self::Mpich => "mpirun.mpich",
        }
    }

    pub(crate) const fn compiler(self) -> &'static str {
        match self {
            Self::Open => "mpicc.openmpi",
            Self::Mpich => "mpicc.mpich",
        }
    }

    /// The program of scenario `host`, which each compiles for itself.
    const fn peer_name(self) -> &'static str {
        match self {
            Self::Open => "openmpi-peer",
            Self::Mpich => "mpich-peer",
        }
    }

    const fn packages(self) -> [&'static str; 2] {
        match self {
            Self::Open => ["openmpi-bin", "libopenmpi-dev"],
            Self::Mpich => ["mpich", "libmpich-dev"],
        }
    }

    /// Why it is not there.
    pub(crate) fn look_for(self) -> Result<(), String> {
        let [starter, compiler] = self.packages();
        let mut version = Command::new(installed(self.starter(), starter)?);
        output(version.arg("--version"), SILENCE_BOUND).map_err(|error| error.to_string())?;
        installed(self.compiler(), compiler).map(|_path| ())
    }

    /// Compiles the peer of scenarios `ipc` and `host`.
    pub(crate) fn prepare_peer(self, folder: &Path) -> Result<(), String> {
        self.look_for()?;
        let program = peer(self.peer_name(), &[SOURCE, EXCHANGE], &[]);
        compile(self.compiler(), &program, folder)
    }

    /// Its two ranks on this machine, without a network; the words of the plan follow.
    pub(crate) fn local_peer(self, folder: &Path) -> Command {
        let mut command = Command::new(self.starter());
        match self {
            Self::Open => {
                command.args(["--allow-run-as-root", "-n", "2", "--bind-to", "none"]);
                command.args(["--oversubscribe", "--host", "localhost:2"]);
                for (key, value) in [
                    ("pml", "ob1"),
                    ("btl", "self,vader"),
                    // Each rank has its CPU and shares it with nobody.
                    ("mpi_yield_when_idle", "0"),
                ] {
                    command.args(["--mca", key, value]);
                }
                command.env("TMPDIR", folder);
            }
            Self::Mpich => {
                command.args(["-n", "2", "-launcher", "fork"]);
            }
        }
        command.arg(folder.join(self.peer_name()));
        command
    }

    /// What starts ranks; program and words follow.
    pub(crate) fn mpirun(self, ranks: Ranks, hosts: &Hosts<'_>) -> Result<Command, BenchError> {
        match self {
            Self::Open => open_mpirun(ranks, hosts),
            Self::Mpich => mpich_mpirun(ranks, hosts),
        }
    }
}

/// The two ranks of scenario `host`; the words of the plan follow.
pub(crate) fn peer_command(
    mpi: Mpi,
    are_remote: bool,
    hosts: &Hosts<'_>,
) -> Result<Command, BenchError> {
    let ranks = Ranks {
        count: 2,
        are_remote,
        share_cpus: false,
    };
    let mut command = mpi.mpirun(ranks, hosts)?;
    command.arg(hosts.folder.join(mpi.peer_name()));
    Ok(command)
}

fn open_mpirun(ranks: Ranks, hosts: &Hosts<'_>) -> Result<Command, BenchError> {
    let folder = hosts.folder;
    let far = ("TMPDIR", folder.to_str().unwrap_or_default());
    let place = (folder, "openmpi-remote-shell");
    let shell = remote_shell::write(place, hosts.neighbour, &[far])?;
    let mut command = Command::new(Mpi::Open.starter());
    command.args(["--allow-run-as-root", "-n", &ranks.count.to_string()]);
    command.args(["--bind-to", "none", "--oversubscribe", "--map-by", "node"]);
    if ranks.are_remote {
        let each = ranks.count.div_ceil(2);
        let both = format!("{}:{each},{}:{each}", hosts.own, hosts.other);
        command.arg("--host").arg(both);
        command.args(["--mca", "plm_rsh_agent"]).arg(shell);
    } else {
        let here = format!("{}:{}", hosts.own, ranks.count);
        command.arg("--host").arg(here);
    }
    for (key, value) in [
        ("pml", "ob1"),
        ("btl", "self,vader,tcp"),
        ("btl_tcp_if_include", hosts.interface),
        ("oob_tcp_if_include", hosts.interface),
        // Where each rank has its CPU, it shares it with nobody.
        (
            "mpi_yield_when_idle",
            if ranks.share_cpus { "1" } else { "0" },
        ),
    ] {
        command.args(["--mca", key, value]);
    }
    command.env("TMPDIR", folder);
    Ok(command)
}

/// By Hydra; one rank after the other goes to the next host.
fn mpich_mpirun(ranks: Ranks, hosts: &Hosts<'_>) -> Result<Command, BenchError> {
    let place = (hosts.folder, "mpich-remote-shell");
    let shell = remote_shell::write(place, hosts.neighbour, &[])?;
    let mut command = Command::new(Mpi::Mpich.starter());
    command.args(["-n", &ranks.count.to_string(), "-iface", hosts.interface]);
    if ranks.are_remote {
        let both = format!("{},{}", hosts.own, hosts.other);
        command.args(["-ppn", "1", "-hosts", &both]);
        command.args(["-launcher", "rsh", "-launcher-exec"]);
        command.arg(shell);
        // Both hosts are one machine, which what is below MPICH finds out: it would share memory.
        command.envs(super::ucx::variables(true, hosts));
        command.env("FI_PROVIDER", "tcp");
    } else {
        command.args(["-launcher", "fork"]);
        // Memory only: it would try each interface, also those that carry frames of others.
        command.envs(super::ucx::variables(false, hosts));
    }
    Ok(command)
}
