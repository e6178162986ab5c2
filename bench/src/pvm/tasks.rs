//! What PVM's own functions take: `bench/peers/pvm_peer.c`, which scenario `host` uses, too.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::case::{Metric, Operation, Packing, Subject, System};
use super::message::{Found, Run};
use crate::error::BenchError;
use crate::host::case::Reach;
use crate::ipc::case::word;
use crate::lookout::SILENCE_BOUND;
use crate::starter::{self, Hosts, STARTING, pvm};
use crate::statistics;

/// What `--library` must have in it.
const LIBRARIES: [&str; 2] = ["libpvm3.so.3", "libgpvm3.so.3"];
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// Why programs of PVM do not run by this system.
pub(super) fn why_not(system: System, library: Option<&Path>) -> Result<(), String> {
    pvm::look_for()?;
    if system != System::Hythe {
        return Ok(());
    }
    let library = library.ok_or_else(|| {
        "not available: give the folder of Hythe's libpvm3.so.3 by --library".to_owned()
    })?;
    let missing = LIBRARIES.iter().find(|name| !library.join(name).is_file());
    missing.map_or(Ok(()), |name| {
        let folder = library.display();
        Err(format!("not available: there is no {name} in {folder}"))
    })
}

/// By which a program of PVM becomes one of this system, without being compiled again.
pub(super) fn surround(
    command: &mut Command,
    system: System,
    hosts: &Hosts<'_>,
    library: Option<&Path>,
) {
    match (system, library) {
        (System::Hythe, Some(library)) => {
            command.env(LIBRARY_PATH, path_with(library));
        }
        _ => pvm::environment(command, hosts.folder),
    }
}

fn path_with(library: &Path) -> OsString {
    let mut path = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(LIBRARY_PATH) {
        path.push(":");
        path.push(others);
    }
    path
}

pub(super) fn measure(
    run: &Run,
    hosts: &Hosts<'_>,
    library: Option<&Path>,
) -> Result<Vec<Found>, BenchError> {
    let (metric, words) = words(run, hosts);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = pvm::peer_command(hosts.folder, &words);
    surround(&mut command, run.case.system, hosts, library);
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
    let second = |is_remote| hosts.second(is_remote).to_string();
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
            let both = format!("{},{}", hosts.own, second(placement.is_remote));
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
