//! The systems that have a starter of their own, as this scenario uses them: two sides, there and
//! back.

use std::path::Path;

use super::case::{Reach, System};
use super::message::Run;
use crate::error::BenchError;
use crate::lookout::SILENCE_BOUND;
use crate::starter::mpi::Mpi;
use crate::starter::{self, Hosts, STARTING, mpi, pvm, ucx};
use crate::statistics;

/// Compiles the two sides of a system into `folder`, once. Why that is not possible here.
pub(super) fn prepare(system: System, folder: &Path) -> Option<String> {
    let prepared = match system {
        System::Openmpi => Mpi::Open.prepare_peer(folder),
        System::Mpich => Mpi::Mpich.prepare_peer(folder),
        System::Ucx => ucx::prepare_peer(folder),
        _ => pvm::prepare_peer(folder),
    };
    prepared.err()
}

/// There and back; what was found, as base64 of an HdrHistogram V2.
pub(super) fn measure(run: &Run, hosts: &Hosts<'_>) -> Result<String, BenchError> {
    let is_remote = run.case.reach == Reach::Remote;
    let bound = STARTING + SILENCE_BOUND + 2 * run.time;
    let plan = [
        run.size.to_string(),
        run.count.to_string(),
        run.time.as_secs_f64().to_string(),
    ];
    let of_mpi = |mpi| {
        let mut command = mpi::peer_command(mpi, is_remote, hosts)?;
        command.args(&plan).args(hosts.cpu_words());
        starter::output(&mut command, bound)
    };
    let printed = match run.case.system {
        System::Openmpi => of_mpi(Mpi::Open),
        System::Mpich => of_mpi(Mpi::Mpich),
        System::Ucx => ucx::measure(&plan, is_remote, hosts, bound),
        _ => {
            let mut command = pvm::peer_command(hosts.folder, &["ping", "direct", "raw"]);
            command.args(&plan).arg(hosts.second(is_remote).to_string());
            command.args(hosts.cpu_words());
            starter::output(&mut command, bound)
        }
    }?;
    statistics::encode(&[starter::times(&printed)?])
}
