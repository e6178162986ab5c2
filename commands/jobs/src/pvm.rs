//! `hythe run --pvm`: programs for PVM find our libraries, and a machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hythe::Pool;
use hythe_cluster::HostName;
use hythe_cluster::tasks::{self, JobHost, JobOptions};
use hythe_command::error::CliError;
use hythe_pvm::machine::Host;
use hythe_pvm::native::{places_text, take_in_hosts};
use hythe_pvm::server::{FirstHost, Server};
use hythe_pvm::session::variables;

use super::RunArgs;
use super::hosts::file_of_pvm;

/// Where programs look for libraries first.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// The folder of the libraries, if they are in none of the usual ones.
const FOLDER: &str = "HYTHE_PVM_LIBRARIES";
/// What has to be in it.
const LIBRARIES: [&str; 2] = ["libpvm3.so.3", "libgpvm3.so.3"];

/// Variables of an environment, with their values.
type Variables = Vec<(OsString, OsString)>;

/// Serves the machine of a pool while the job runs, unless another job does, and takes the hosts of
/// this one in. Its tasks find the libraries, and where they are, in their environment.
pub(super) fn serve(
    args: &RunArgs,
    pool: &Pool,
    job: &mut JobOptions,
) -> Result<Option<Server>, CliError> {
    let failed = |error: &dyn std::fmt::Display| {
        CliError::Failed(format!("cannot serve a machine for PVM: {error}"))
    };
    let here = tasks::here(pool)?.filter(|here| here.number > 0);
    let first = match &here {
        Some(here) => FirstHost {
            name: here.name.to_string(),
            realm_number: here.number,
        },
        None => FirstHost {
            name: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            realm_number: 0,
        },
    };
    let server = Server::start(pool, &first).map_err(|error| failed(&error))?;
    job.environment.push((LIBRARY_PATH.into(), library_path()?));
    // Without an agent the job has no hosts, and the runner says so.
    let Some(here) = here.filter(|_| !job.hosts.is_empty() || args.hostfile.is_some()) else {
        return Ok(server);
    };
    let mut file = None;
    if let Some(path) = &args.hostfile {
        begin_here(&mut job.hosts, &here.name);
        let read = file_of_pvm(path)?;
        let unused: Vec<&str> = read.unused.iter().copied().collect();
        if !unused.is_empty() {
            let unused = unused.join("= ");
            tracing::warn!("{unused}= of the hostfile are not used: hosts have agents");
        }
        file = Some(read);
    }
    let names: Vec<String> = job.hosts.iter().map(|host| host.name.to_string()).collect();
    let known = take_in_hosts(pool, names, file.as_ref()).map_err(|error| failed(&error))?;
    let places = places(&job.hosts, &known, job.count, |host| {
        // The agent knows why.
        let reason = tasks::find_host(pool, host).err();
        reason.map(|reason| reason.to_string())
    })?;
    job.environment
        .push((variables::PLACES.into(), places.into()));
    Ok(server)
}

/// PVM's machine has the host where it begins first, also if its file does not name that.
fn begin_here(hosts: &mut Vec<JobHost>, here: &HostName) {
    hosts.retain(|host| host.name != *here);
    let here = JobHost {
        name: here.clone(),
        slots: 1,
    };
    hosts.insert(0, here);
}

/// The number of the host of each task that the job begins with, by ranks: as the runner starts
/// them, in turn.
fn places(
    hosts: &[JobHost],
    known: &[Host],
    count: u32,
    why_missing: impl Fn(&HostName) -> Option<String>,
) -> Result<String, CliError> {
    let mut slots = Vec::new();
    for host in hosts {
        let found = known.iter().find(|known| known.name == host.name.as_str());
        let found = found.ok_or_else(|| {
            CliError::Failed(why_missing(&host.name).unwrap_or_else(|| {
                format!(
                    "host {} is not connected; `hythe host status` says why",
                    host.name
                )
            }))
        })?;
        slots.extend(std::iter::repeat_n(found.host, host.slots as usize));
    }
    Ok(places_text(
        slots.iter().copied().cycle().take(count as usize),
    ))
}

/// On another host than that of the job: tasks of a machine find the libraries of this one.
pub(super) fn adapt(environment: &mut Variables) {
    let is_of_machine = environment
        .iter()
        .any(|(name, _)| name == variables::PLACES);
    let own = is_of_machine.then(library_path);
    // Without them the host's own libraries are found, if there are any, and say what they miss.
    if let Some(Ok(own)) = own {
        environment.retain(|(name, _)| name != LIBRARY_PATH);
        environment.push((LIBRARY_PATH.into(), own));
    }
}

/// The value of [`LIBRARY_PATH`] for the tasks: our folder before those that there are.
pub(super) fn library_path() -> Result<OsString, CliError> {
    let own = std::env::current_exe().ok();
    let folders = folders(
        own.as_deref(),
        hythe_sys::environment::variable(FOLDER).map(PathBuf::from),
    );
    let has_all = |folder: &PathBuf| LIBRARIES.iter().all(|name| folder.join(name).is_file());
    let Some(found) = folders.iter().find(|folder| has_all(folder)) else {
        let looked: Vec<_> = folders
            .iter()
            .map(|one| hythe_terminal::escaped(one).to_string())
            .collect();
        return Err(CliError::Failed(format!(
            "there is no libpvm3.so.3 of Hythe in {}; install it, or set {FOLDER} to its folder",
            looked.join(", ")
        )));
    };
    let before = std::env::var_os(LIBRARY_PATH).unwrap_or_default();
    let all = std::iter::once(found.clone()).chain(std::env::split_paths(&before));
    let all: Vec<PathBuf> = all.filter(|one| !one.as_os_str().is_empty()).collect();
    let joined = std::env::join_paths(all);
    joined.map_err(|error| CliError::Failed(format!("{LIBRARY_PATH}: {error}")))
}

/// The one that is set, alone; else beside this program, and where it is installed.
fn folders(own: Option<&Path>, set: Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(set) = set {
        return vec![set];
    }
    let Some(beside) = own.and_then(Path::parent) else {
        return Vec::new();
    };
    let architecture = std::env::consts::ARCH;
    vec![
        beside.to_owned(),
        beside.join("../lib/hythe-pvm"),
        beside.join(format!("../lib/{architecture}-linux-gnu/hythe-pvm")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_of_a_hostfile_begins_here() {
        let host = |name: &str| JobHost {
            name: name.parse().expect("a name"),
            slots: 1,
        };
        let here = host("a").name;
        for named in [["b", "a"].as_slice(), &["b"], &["a", "b"]] {
            let mut hosts: Vec<JobHost> = named.iter().map(|name| host(name)).collect();
            begin_here(&mut hosts, &here);
            let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
            assert_eq!(names, ["a", "b"]);
        }
    }

    #[test]
    fn folder_that_is_set_is_the_only_one() {
        let own = Path::new("/opt/bin/hythe");
        let set = PathBuf::from("/elsewhere");
        assert_eq!(folders(Some(own), Some(set.clone())), [set]);
        let usual = folders(Some(own), None);
        assert_eq!(usual[0], Path::new("/opt/bin"));
        assert_eq!(usual[1], Path::new("/opt/bin/../lib/hythe-pvm"));
        assert!(folders(None, None).is_empty());
    }
}
