//! Where a host looks for a program first, and where its tasks begin there, as who spawns them
//! says: in words of that host, so that one name may mean another path on each.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::tasks::error::TaskError;
use crate::tasks::message::OnHost;

/// The most folders that are looked through: each is a question to the agent.
const FOLDERS_MAX: usize = 16;
/// Variables that tell another host nothing that it is not to know; others are empty.
const VARIABLES: [&str; 3] = ["HOME", "LOGNAME", "USER"];
const VARIABLES_BEGIN: &str = "PVM_";

pub(super) fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

impl OnHost {
    /// The first of its folders that has the program, and that may be used: who may not is not told
    /// whether it is there. Else why one may not.
    pub(super) fn find(
        &self,
        may: impl Fn(&Path) -> Result<(), TaskError>,
    ) -> Result<PathBuf, Option<TaskError>> {
        // It is no name, and leads elsewhere.
        if self.program.contains('/') {
            return Err(None);
        }
        let mut refused = None;
        for folder in self.folders.iter().take(FOLDERS_MAX) {
            let path = expanded(folder, variable).join(&self.program);
            match may(&path) {
                Ok(()) if is_program(&path) => return Ok(path),
                Ok(()) => {}
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused)
    }

    /// Where tasks begin, if that is said.
    pub(super) fn directory(&self, host: &str) -> Result<Option<PathBuf>, TaskError> {
        let Some(named) = &self.directory else {
            return Ok(None);
        };
        let path = expanded(named, variable);
        match path.is_dir() {
            true => Ok(Some(path)),
            false => Err(TaskError::NoDirectory {
                host: host.to_owned(),
                directory: named.clone(),
            }),
        }
    }
}

fn variable(name: &str) -> Option<OsString> {
    let is_known = VARIABLES.contains(&name) || name.starts_with(VARIABLES_BEGIN);
    is_known.then(|| std::env::var_os(name)).flatten()
}

/// With the values of `$NAME`; what is relative begins at home, as `~` does.
fn expanded(text: &str, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let home = PathBuf::from(variable("HOME").unwrap_or_else(|| "/".into()));
    let text = match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => text,
    };
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut pieces = text.split('$');
    let mut whole = OsString::from(pieces.next().unwrap_or_default());
    for piece in pieces {
        let end = piece.find(|letter| !is_of_name(letter));
        let (name, rest) = piece.split_at(end.unwrap_or(piece.len()));
        match name {
            "" => whole.push("$"),
            name => whole.push(variable(name).as_deref().unwrap_or(OsStr::new(""))),
        }
        whole.push(rest);
    }
    home.join(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_has_variables_of_host_and_home_directory() {
        let variable = |name: &str| match name {
            "HOME" => Some("/home/b".into()),
            "PVM_ARCH" => Some("LINUX64".into()),
            "PVM_ROOT" => Some("/opt/pvm".into()),
            _ => None,
        };
        for (text, path) in [
            ("/opt/bin", "/opt/bin"),
            ("bin", "/home/b/bin"),
            ("~", "/home/b"),
            ("~/bin", "/home/b/bin"),
            ("~bin", "/home/b/~bin"),
            ("$HOME/pvm3/bin/$PVM_ARCH", "/home/b/pvm3/bin/LINUX64"),
            ("$PVM_ROOT/a$PVM_ARCH.$", "/opt/pvm/aLINUX64.$"),
            ("/x$UNKNOWN/y", "/x/y"),
        ] {
            assert_eq!(expanded(text, variable), Path::new(path), "{text}");
        }
        assert_eq!(super::variable("PATH"), None, "others are not told");
        assert_eq!(super::variable("HOME"), std::env::var_os("HOME"));
    }

    #[test]
    fn first_folder_that_may_be_used_and_has_it_is_taken() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = |name: &str| {
            let path = root.path().join(name);
            std::fs::create_dir(&path).expect("made");
            path.to_str().expect("text").to_owned()
        };
        let [closed, empty, data, first, second] =
            ["closed", "empty", "data", "first", "second"].map(folder);
        for name in [&closed, &first, &second] {
            std::os::unix::fs::symlink("/bin/sh", Path::new(name).join("worker")).expect("linked");
        }
        std::fs::write(Path::new(&data).join("worker"), "no program").expect("written");
        let may = |path: &Path| match path.starts_with(&closed) {
            true => Err(TaskError::NoAgent),
            false => Ok(()),
        };
        let on = |folders: &[&String], program: &str| OnHost {
            host: "b".to_owned(),
            program: program.to_owned(),
            folders: folders.iter().map(|one| (*one).clone()).collect(),
            directory: None,
        };
        let all = on(&[&closed, &empty, &data, &first, &second], "worker");
        let found = all.find(may).expect("it is there");
        assert_eq!(found, Path::new(&first).join("worker"));
        let refused = on(&[&empty, &closed], "worker").find(may);
        assert!(matches!(refused, Err(Some(TaskError::NoAgent))));
        // Also what is not there.
        let refused = on(&[&closed], "other").find(may);
        assert!(matches!(refused, Err(Some(_))));
        assert!(matches!(on(&[&empty], "worker").find(may), Err(None)));
        assert!(matches!(on(&[&first], "./worker").find(may), Err(None)));
        let many = vec![&empty; FOLDERS_MAX];
        let many: Vec<&String> = many.into_iter().chain([&first]).collect();
        assert!(matches!(on(&many, "worker").find(may), Err(None)));
    }

    #[test]
    fn directory_that_is_not_there_is_named_as_it_was_said() {
        let mut on = OnHost {
            directory: Some("/".to_owned()),
            ..OnHost::default()
        };
        let directory = on.directory("b").expect("it is there");
        assert_eq!(directory.as_deref(), Some(Path::new("/")));
        on.directory = Some("/$HOME/nowhere".to_owned());
        let error = on.directory("b").expect_err("it is not").to_string();
        assert!(
            error.contains("/$HOME/nowhere") && error.contains("host b"),
            "{error}"
        );
        on.directory = None;
        assert_eq!(on.directory("b").expect("nothing is said"), None);
    }
}
