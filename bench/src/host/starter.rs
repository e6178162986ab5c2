//! The systems that have a starter of their own, as this scenario uses them: two sides, there and
//! back.

use std::path::Path;

use super::case::{Reach, System};
use super::message::Run;
use crate::error::BenchError;
use crate::lookout::SILENCE_BOUND;
use crate::starter::{self, Hosts, STARTING, mpi, pvm};
use crate::statistics;

/// Compiles the two sides of a system into `folder`, once. Why that is not possible here.
pub(super) fn prepare(system: System, folder: &Path) -> Option<String> {
    let prepared = match system {
        System::Openmpi => mpi::prepare_peer(folder),
        _ => pvm::prepare_peer(folder),
    };
    prepared.err()
}

/// There and back; what was found, as base64 of an HdrHistogram V2.
pub(super) fn measure(run: &Run, hosts: &Hosts<'_>) -> Result<String, BenchError> {
    let is_remote = run.case.reach == Reach::Remote;
    let plan = [
        run.size.to_string(),
        run.count.to_string(),
        run.time.as_secs_f64().to_string(),
    ];
    let mut command = match run.case.system {
        System::Openmpi => {
            let mut command = mpi::peer_command(is_remote, hosts)?;
            command.args(plan);
            command
        }
        _ => {
            let mut command = pvm::peer_command(hosts.folder, &["ping", "direct", "raw"]);
            command.args(plan).arg(hosts.second(is_remote).to_string());
            command
        }
    };
    command.args(hosts.cpu_words());
    let printed = starter::output(&mut command, STARTING + SILENCE_BOUND + 2 * run.time)?;
    statistics::encode(&[starter::times(&printed)?])
}
