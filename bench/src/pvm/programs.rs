//! The parallel programs of `bench/programs`: each is compiled once for PVM and once for each MPI,
//! and prints a line of JSON if its result is the serial one.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::case::{Case, Metric, Placement, Program, System};
use super::message::{Found, Run};
use super::tasks::{self, Surroundings, start_on_hythe, surround};
use crate::error::BenchError;
use crate::ipc::case::word;
use crate::starter::mpi::{Mpi, Ranks};
use crate::starter::{self, compile, pvm};
use crate::statistics;

const MESSAGE: (&str, &str) = ("message.h", include_str!("../../programs/message.h"));
const COMMON: (&str, &str) = ("program.h", include_str!("../../programs/program.h"));
/// After so long a program ends by itself, and a little later it is ended.
const SECONDS_MAX: u64 = 60;
const GRACE: Duration = Duration::from_secs(10);

/// What rank 0 prints, as far as it counts here.
#[derive(Debug, Deserialize)]
struct Printed {
    tasks: usize,
    total_ns: u64,
    communication_ns: u64,
}

impl Program {
    const fn source(self) -> (&'static str, &'static str) {
        match self {
            Self::Jacobi => ("jacobi.c", include_str!("../../programs/jacobi.c")),
            Self::Matrix => ("matrix.c", include_str!("../../programs/matrix.c")),
            Self::Sort => ("sort.c", include_str!("../../programs/sort.c")),
            Self::Gradients => ("gradients.c", include_str!("../../programs/gradients.c")),
        }
    }

    /// Size and rounds that take a moment.
    const fn quick(self) -> [&'static str; 2] {
        match self {
            Self::Jacobi | Self::Matrix => ["64", "2"],
            Self::Sort => ["16", "2"],
            Self::Gradients => ["1024", "4"],
        }
    }
}

/// Compiles a program for a system into `folder`, once; why that is not possible here.
pub(super) fn prepare(
    program: Program,
    case: Case,
    folder: &Path,
    library: Option<&Path>,
) -> Result<(), String> {
    let system = case.system;
    let files = [program.source(), MESSAGE, COMMON];
    let name = file_name(program, system);
    let mut built = starter::Program {
        name: &name,
        files: &files,
        options: &["-lgpvm3", "-lpvm3", "-lm"],
    };
    match mpi(system) {
        Some(mpi) => {
            mpi.look_for()?;
            built.options = &["-DMESSAGE_MPI", "-lm"];
            compile(mpi.compiler(), &built, folder)
        }
        None if system == System::HytheNative => tasks::why_not_native(case),
        None => {
            tasks::why_not(case, library)?;
            compile(pvm::COMPILER, &built, folder)
        }
    }
}

pub(super) fn measure(
    run: &Run,
    (program, placement): (Program, Placement),
    around: &Surroundings<'_>,
) -> Result<Vec<Found>, BenchError> {
    let mut command = command(run, (program, placement), around)?;
    if run.is_quick {
        let [size, rounds] = program.quick();
        command.args(["--size", size, "--rounds", rounds]);
    }
    command.args(["--seconds-max", &SECONDS_MAX.to_string()]);
    let bound = Duration::from_secs(SECONDS_MAX) + GRACE;
    let printed = starter::output(&mut command, bound)?;
    let printed: Printed = serde_json::from_str(printed.trim())
        .map_err(|error| BenchError::PeerLost(format!("it printed {printed:?}: {error}")))?;
    if printed.tasks != placement.tasks {
        let tasks = printed.tasks;
        return Err(BenchError::Invalid(format!("it ran with {tasks} tasks")));
    }
    let found = [
        (Metric::Total, printed.total_ns),
        (Metric::Communication, printed.communication_ns),
    ];
    // A task alone has nobody to talk to.
    let is_alone = placement.tasks == 1;
    let found = found
        .into_iter()
        .filter(|(metric, _)| !is_alone || *metric == Metric::Total);
    let found = found.map(|(metric, time)| {
        let mut times = statistics::histogram();
        statistics::record(&mut times, Duration::from_nanos(time));
        let times = statistics::encode(&[times])?;
        Ok(Found {
            metric,
            size: run.size,
            times,
        })
    });
    found.collect()
}

/// Rank 0, on the near host; every second rank is on the other one, or on its CPU.
fn command(
    run: &Run,
    (program, placement): (Program, Placement),
    around: &Surroundings<'_>,
) -> Result<Command, BenchError> {
    let hosts = around.hosts;
    let file = hosts.folder.join(file_name(program, run.case.system));
    let tasks = placement.tasks.to_string();
    let mut command = match mpi(run.case.system) {
        Some(mpi) => {
            let ranks = Ranks {
                count: placement.tasks,
                are_remote: placement.is_remote,
                share_cpus: run.case.subject.shares_cpus(hosts.neighbour.cpus),
            };
            let mut command = mpi.mpirun(ranks, hosts)?;
            command.arg(file);
            command
        }
        None if run.case.system == System::HytheNative => {
            let mut command = start_on_hythe(run.case, around, placement.tasks)?;
            command.arg(std::env::current_exe()?).arg("stencil");
            command
        }
        None => {
            let mut command = Command::new(file);
            surround(&mut command, run.case, around);
            let both = tasks::host_names(run.case.system, hosts, placement.is_remote);
            command.args(["--hosts", &both.join(",")]);
            command
        }
    };
    if run.case.system != System::HytheNative {
        command.args(["--tasks", &tasks]);
    }
    if hosts.neighbour.cpus.is_some() {
        command.args(["--cpus", &hosts.cpu_words().join(",")]);
    }
    Ok(command)
}

/// One file for PVM and for Hythe: it is not compiled again.
fn file_name(program: Program, system: System) -> String {
    let system = match system {
        System::Hythe => System::Pvm,
        other => other,
    };
    format!("{}-{}", word(program), word(system))
}

const fn mpi(system: System) -> Option<Mpi> {
    match system {
        System::Openmpi => Some(Mpi::Open),
        System::Mpich => Some(Mpi::Mpich),
        System::Pvm | System::Hythe | System::HytheNative | System::Tcp => None,
    }
}
