//! Other programs that a command becomes: found beside this one, else in PATH.
//!
//! What such a program prints, and how it exits, is its own.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use hythe_terminal::escaped;

use crate::error::CliError;

/// A program of Hythe that is built and installed on its own.
#[derive(Debug)]
pub struct Program {
    /// The name of its file.
    pub name: &'static str,
    /// The environment variable that names the file instead, if there is one.
    pub variable: Option<&'static str>,
    /// What to do where it is missing.
    pub remedy: &'static str,
}

/// The agent of a host.
pub const HOSTD: Program = Program {
    name: "hythe-hostd",
    variable: Some("HYTHE_HOSTD"),
    remedy: "`make hosts` makes it from Hythe's sources",
};

impl Program {
    /// One that is installed beside `hythe`.
    pub(crate) const fn part(name: &'static str, remedy: &'static str) -> Self {
        Self {
            name,
            variable: None,
            remedy,
        }
    }

    /// Becomes the program, with the arguments and environment that `prepare` gives it. Returns
    /// only if that fails.
    pub fn exec(&self, prepare: impl FnOnce(&mut Command)) -> CliError {
        let (named, folder) = (self.named(), own_folder());
        let file = self.file();
        let mut command = Command::new(&file);
        prepare(&mut command);
        let error = command.exec();
        if error.kind() != ErrorKind::NotFound || file.is_file() {
            return CliError::file("run", file)(error);
        }
        CliError::Failed(match (named, self.variable) {
            (Some(path), Some(variable)) => format!(
                "there is no program {}, which {variable} names: set it right, or unset it; {}",
                escaped(&path),
                self.remedy
            ),
            (_, variable) => {
                let unset = variable.map(|name| format!(" ({name} is not set)"));
                format!(
                    "`{}` is neither in {} nor in PATH{}: {}",
                    self.name,
                    escaped(folder.as_deref().unwrap_or(Path::new("?"))),
                    unset.unwrap_or_default(),
                    self.remedy
                )
            }
        })
    }

    /// The file of the program. A name without a folder is to be looked for in PATH.
    pub fn file(&self) -> PathBuf {
        let beside = || own_folder().map(|folder| folder.join(self.name));
        self.named()
            .or_else(|| beside().filter(|path| path.is_file()))
            .unwrap_or_else(|| PathBuf::from(self.name))
    }

    /// The file of the program, with its folder; `None`: there is none.
    pub fn find(&self) -> Option<PathBuf> {
        let file = self.file();
        if file.parent() == Some(Path::new("")) {
            return find(self.name);
        }
        file.is_file().then_some(file)
    }

    /// The file that the environment names, with its folder, so that it is not looked for in PATH.
    fn named(&self) -> Option<PathBuf> {
        let named = self.variable.and_then(env::var_os);
        let named = named.filter(|path| !path.is_empty()).map(PathBuf::from)?;
        let has_folder = named.parent() != Some(Path::new(OsStr::new("")));
        Some(match has_folder {
            true => named,
            false => Path::new(".").join(named),
        })
    }
}

/// Where this program is.
fn own_folder() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    own.parent().map(Path::to_owned)
}

/// Where on `PATH` (or where system programs are) `program` lies.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|path| {
        fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(find("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find("hythe-no-such-program"), None);
    }
}
