//! Where the programs of spawned tasks are: where PVM looks, then in `PATH`.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::machine::{Spawn, architecture};

/// Where Debian has PVM.
const ROOT: &str = "/usr/lib/pvm3";

/// The path of a program, and its arguments. `None`: it is nowhere.
pub(super) fn find(spawn: &Spawn) -> Option<(String, Vec<String>)> {
    let variable = |name: &str| std::env::var(name).ok();
    let path = look(&spawn.program, &folders(variable))?;
    let path = path.into_os_string().into_string().ok()?;
    if !spawn.is_debugged {
        return Some((path, spawn.arguments.clone()));
    }
    let debugger = variable("PVM_DEBUGGER").unwrap_or_else(|| format!("{}/lib/debugger", root()));
    let mut arguments = vec![path];
    arguments.extend(spawn.arguments.iter().cloned());
    is_program(Path::new(&debugger)).then_some((debugger, arguments))
}

fn root() -> String {
    std::env::var("PVM_ROOT").unwrap_or_else(|_| ROOT.to_owned())
}

/// `PVM_PATH`, or what PVM looks through by default; then `PATH`.
fn folders(variable: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let architecture = variable("PVM_ARCH").unwrap_or_else(|| architecture().to_owned());
    let root = variable("PVM_ROOT").unwrap_or_else(|| ROOT.to_owned());
    let home = variable("HOME").unwrap_or_default();
    let default = || format!("{home}/pvm3/bin/{architecture}:{root}/bin/{architecture}");
    let own = variable("PVM_PATH").unwrap_or_else(default);
    let path = variable("PATH").unwrap_or_default();
    let folders = own.split(':').chain(path.split(':'));
    folders
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .collect()
}

fn look(program: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    if program.contains('/') {
        let path = std::path::absolute(program).ok()?;
        return is_program(&path).then_some(path);
    }
    let mut paths = folders.iter().map(|folder| folder.join(program));
    paths.find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pvms_folders_come_first() {
        let found = folders(|name| match name {
            "HOME" => Some("/home/a".to_owned()),
            "PVM_ARCH" => Some("SUN4".to_owned()),
            "PATH" => Some("/bin::/usr/bin".to_owned()),
            _ => None,
        });
        let wanted = [
            "/home/a/pvm3/bin/SUN4",
            "/usr/lib/pvm3/bin/SUN4",
            "/bin",
            "/usr/bin",
        ];
        assert_eq!(found, wanted.map(PathBuf::from));
        let own = folders(|name| (name == "PVM_PATH").then(|| "/x:/y".to_owned()));
        assert_eq!(own, ["/x", "/y"].map(PathBuf::from));
    }

    #[test]
    fn only_what_can_be_run_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("data"), "no program").expect("written");
        let folders = [folder.path().to_owned(), PathBuf::from("/bin")];
        assert_eq!(look("data", &folders), None);
        assert_eq!(look("sh", &folders), Some(PathBuf::from("/bin/sh")));
        assert_eq!(look("/bin/sh", &[]), Some(PathBuf::from("/bin/sh")));
        assert_eq!(look("no-such-program", &folders), None);
    }
}
