//! `hythe run --pvm`: programs for PVM find our libraries, and a machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hythe::Pool;
use hythe_pvm::server::Server;

use super::RunArgs;
use crate::error::CliError;

/// Where programs look for libraries first.
pub(super) const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// The folder of the libraries, if they are in none of the usual ones.
const FOLDER: &str = "HYTHE_PVM_LIBRARIES";
/// What has to be in it.
const LIBRARIES: [&str; 2] = ["libpvm3.so.3", "libgpvm3.so.3"];

/// Serves the machine of a pool while the job runs, unless another job does.
pub(super) fn serve(args: &RunArgs, pool: &Pool) -> Result<Option<Server>, CliError> {
    if !args.pvm {
        return Ok(None);
    }
    let started = Server::start(pool);
    started.map_err(|error| CliError::Failed(format!("cannot serve a machine for PVM: {error}")))
}

/// The value of [`LIBRARY_PATH`] for the tasks: our folder before those that there are.
pub(super) fn library_path() -> Result<OsString, CliError> {
    let own = std::env::current_exe().ok();
    let folders = folders(own.as_deref(), std::env::var_os(FOLDER).map(PathBuf::from));
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
    fn the_folder_that_is_set_is_the_only_one() {
        let own = Path::new("/opt/bin/hythe");
        let set = PathBuf::from("/elsewhere");
        assert_eq!(folders(Some(own), Some(set.clone())), [set]);
        let usual = folders(Some(own), None);
        assert_eq!(usual[0], Path::new("/opt/bin"));
        assert_eq!(usual[1], Path::new("/opt/bin/../lib/hythe-pvm"));
        assert!(folders(None, None).is_empty());
    }
}
