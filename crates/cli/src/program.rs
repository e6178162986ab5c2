//! Other programs that a command becomes: found beside this one, else in PATH.
//!
//! What such a program prints, and how it exits, is its own.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use hythe_terminal::escaped;

use crate::error::CliError;

/// A program of Hythe that is built and installed on its own.
#[derive(Debug)]
pub(crate) struct Program {
    /// The name of its file.
    pub(crate) name: &'static str,
    /// The environment variable that names the file instead, if there is one.
    pub(crate) variable: Option<&'static str>,
    /// What to do where it is missing.
    pub(crate) remedy: &'static str,
}

impl Program {
    /// Becomes the program, with the arguments and environment that `prepare` gives it. Returns
    /// only if that fails.
    pub(crate) fn exec(&self, prepare: impl FnOnce(&mut Command)) -> CliError {
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
    pub(crate) fn file(&self) -> PathBuf {
        let beside = || own_folder().map(|folder| folder.join(self.name));
        self.named()
            .or_else(|| beside().filter(|path| path.is_file()))
            .unwrap_or_else(|| PathBuf::from(self.name))
    }

    /// The file that the environment names, with its folder, so that it is not looked for in PATH.
    fn named(&self) -> Option<PathBuf> {
        let named = self.variable.and_then(std::env::var_os);
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
    let own = std::env::current_exe().ok()?;
    own.parent().map(Path::to_owned)
}
