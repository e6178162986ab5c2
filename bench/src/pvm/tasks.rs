//! What PVM's own functions take: `bench/peers/pvm_peer.c`, which scenario `host` uses, too.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::{Case, Metric, Operation, Packing, Subject, System};
use super::message::{Found, Run};
use crate::error::BenchError;
use crate::host::agents::{self, Agent, FAR, NEAR};
use crate::host::case::Reach;
use crate::ipc::case::word;
use crate::lookout::SILENCE_BOUND;
use crate::product;
use crate::starter::{self, Hosts, STARTING, pvm};
use crate::statistics;

/// What `--library` must have in it.
const LIBRARIES: [&str; 2] = ["libpvm3.so.3", "libgpvm3.so.3"];
/// Where `hythe run --pvm` looks for them first.
pub(super) const LIBRARY_FOLDER: &str = "HYTHE_PVM_LIBRARIES";

/// What a program runs in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) hosts: &'a Hosts<'a>,
    /// The folder of Hythe's libraries.
    pub(super) library: Option<&'a Path>,
    /// Hythe's on this host, where there are two.
    pub(super) agent: Option<&'a Agent>,
}

/// Why programs of PVM do not run by the system of a case.
pub(super) fn why_not(case: Case, library: Option<&Path>) -> Result<(), String> {
    pvm::look_for()?;
    if case.system != System::Hythe {
        return Ok(());
    }
    why_not_native(case)?;
    let library = library.ok_or_else(|| {
        "not available: no libpvm3.so beside this program (`cargo build --release \
         -p hythe-libpvm3 -p hythe-libgpvm3`), and no --library"
            .to_owned()
    })?;
    let missing = LIBRARIES.iter().find(|name| !library.join(name).is_file());
    missing.map_or(Ok(()), |name| {
        let folder = library.display();
        Err(format!("not available: there is no {name} in {folder}"))
    })
}

/// A folder with Hythe's libraries under the names that programs ask for: those that were built
/// with the command, linked into `folder`. `None`: they were not.
pub(super) fn built_library(folder: &Path) -> Option<PathBuf> {
    let command = product::hythe()?;
    let library = folder.join("hythe-pvm");
    std::fs::create_dir_all(&library).ok()?;
    for name in LIBRARIES {
        let built = command.with_file_name(name.strip_suffix(".3")?);
        std::os::unix::fs::symlink(built, library.join(name)).ok()?;
    }
    Some(library)
}

/// Why tasks of Hythe do not run.
pub(super) fn why_not_native(case: Case) -> Result<(), String> {
    if case.subject.is_remote()
        && let Some(why) = agents::why_not()
    {
        return Err(format!("not available: {why}"));
    }
    let found = product::hythe().map(|_command| ());
    found.ok_or_else(|| format!("not available: {}", product::MISSING))
}

/// Starts so many tasks; program and words follow.
pub(super) fn start_on_hythe(
    case: Case,
    around: &Surroundings<'_>,
    tasks: usize,
) -> Result<Command, BenchError> {
    let missing = || BenchError::Unable(product::MISSING.to_owned());
    let mut run = Command::new(product::hythe().ok_or_else(missing)?);
    run.args(["run", "-n", &tasks.to_string()]);
    if case.subject.is_remote() {
        run.args(["--hosts", &[NEAR, FAR].join(",")]);
    }
    run.arg("--").env_remove("HYTHE_POOL");
    if let Some(agent) = around.agent.filter(|_| case.subject.is_remote()) {
        agent.environment(&mut run);
    }
    Ok(run)
}

/// By which a program of PVM becomes one of a case's system, without being compiled again. Its
/// arguments may follow.
pub(super) fn surround(command: &mut Command, case: Case, around: &Surroundings<'_>) {
    let folder = around.hosts.folder;
    match (case.system, around.library, product::hythe()) {
        (System::Hythe, Some(library), Some(hythe)) => {
            let mut run = Command::new(hythe);
            run.args(["run", "--pvm"]);
            if case.subject.is_remote() {
                run.args(["--hosts", &[NEAR, FAR].join(",")]);
            }
            if case.subject == Subject::Netpipe {
                run.args(["-n", "2"]);
            }
            run.arg("--").arg(command.get_program());
            run.args(command.get_args()).current_dir(folder);
            run.env(LIBRARY_FOLDER, library).env_remove("HYTHE_POOL");
            // The peer spawns itself by its name.
            run.env("PVM_PATH", folder);
            if let Some(agent) = around.agent.filter(|_| case.subject.is_remote()) {
                agent.environment(&mut run);
            }
            *command = run;
        }
        _ => pvm::environment(command, folder),
    }
}

/// What a program of PVM calls the first host and the second.
pub(super) fn host_names(system: System, hosts: &Hosts<'_>, is_remote: bool) -> [String; 2] {
    match (system, is_remote) {
        (System::Hythe, false) => [".".to_owned(), ".".to_owned()],
        (System::Hythe, true) => [NEAR.to_owned(), FAR.to_owned()],
        _ => [hosts.own.to_string(), hosts.second(is_remote).to_string()],
    }
}

pub(super) fn measure(run: &Run, around: &Surroundings<'_>) -> Result<Vec<Found>, BenchError> {
    let (metric, words) = words(run, around.hosts);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = pvm::peer_command(around.hosts.folder, &words);
    surround(&mut command, run.case, around);
    let printed = starter::output(&mut command, STARTING + SILENCE_BOUND + 2 * run.time)?;
    Ok(vec![Found {
        metric,
        size: run.size,
        times: statistics::encode(&[starter::times(&printed)?])?,
    }])
}

/// As the comment at the beginning of the peer has them.
fn words(run: &Run, hosts: &Hosts<'_>) -> (Metric, Vec<String>) {
    let plan = |size: usize| {
        [
            size.to_string(),
            run.count.to_string(),
            run.time.as_secs_f64().to_string(),
        ]
    };
    let names = |is_remote| host_names(run.case.system, hosts, is_remote);
    let second = |is_remote| names(is_remote)[1].clone();
    let cpus = hosts.cpu_words();
    let (metric, mut words, rest) = match run.case.subject {
        Subject::Packing { half, encoding } => {
            let metric = match half {
                Packing::Pack => Metric::Pack,
                Packing::Unpack => Metric::Unpack,
            };
            let mut words = vec![word(half), word(encoding)];
            words.extend(plan(run.size));
            words.push(cpus[0].clone());
            return (metric, words);
        }
        Subject::Spawn(reach) => {
            let mut words = vec!["spawn".to_owned()];
            words.extend(plan(run.size));
            (Metric::Spawn, words, second(reach == Reach::Remote))
        }
        Subject::Group(operation, placement) => {
            let metric = match operation {
                Operation::Barrier => Metric::Barrier,
                Operation::Reduce => Metric::Reduce,
            };
            let mut words = vec![word(operation), placement.tasks.to_string()];
            // The peer has an element of 8 bytes for barriers, too, and sends it nowhere.
            words.extend(plan(run.size.max(8)));
            let both = names(placement.is_remote).join(",");
            (metric, words, both)
        }
        Subject::Messages {
            reach,
            route,
            encoding,
        } => {
            let mut words = vec!["ping".to_owned(), word(route), word(encoding)];
            words.extend(plan(run.size));
            (Metric::RoundTrip, words, second(reach == Reach::Remote))
        }
        Subject::Program(..) | Subject::Netpipe => unreachable!("of modules of their own"),
    };
    words.push(rest);
    words.extend(cpus);
    (metric, words)
}
