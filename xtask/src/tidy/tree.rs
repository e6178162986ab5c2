//! The files that the rules look at: what git tracks, and what it would track if added.
//!
//! The only part of tidy that reads the file system. A copy of the tree without git (a release
//! archive) is walked instead. Never follows symbolic links and never enters `target`.

use super::finding::Finding;
use super::mask;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What a file is written in, as far as a rule cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    C,
    Python,
    Shell,
    Markdown,
    /// Text that is only searched for left-over notes: TOML, assembler, linker scripts, makefiles,
    /// systemd units.
    Plain,
    /// Not read at all; a link may still point at it.
    Unread,
}

/// One file. `path` is relative to the root, with `/` between the parts.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) language: Language,
    pub(crate) text: String,
    /// `text` with comments and literals blanked (Rust, C), or what stands in backticks (Markdown).
    /// Byte for byte as long as `text`, line for line in step with it.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let language = Language::of(path, text);
        let code = match language {
            Language::Rust => mask::rust(text),
            Language::C => mask::c(text),
            Language::Markdown => mask::markdown(text),
            _ => text.to_owned(),
        };
        Self {
            path: path.to_owned(),
            language,
            text: text.to_owned(),
            code,
        }
    }

    /// What a rule says about a line of this file.
    pub(crate) fn finding(
        &self,
        line: usize,
        rule: &'static str,
        what: impl Into<String>,
        remedy: &'static str,
    ) -> Finding {
        Finding {
            path: self.path.clone(),
            line,
            rule,
            what: what.into(),
            remedy,
        }
    }

    /// Lines of `text` beside the same lines of `code`, numbered from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str, &str)> {
        let pairs = self.text.lines().zip(self.code.lines()).enumerate();
        pairs.map(|(index, (text, code))| (index + 1, text, code))
    }
}

impl Language {
    fn of(path: &str, text: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name.rsplit_once('.').map(|(_stem, extension)| extension) {
            Some("rs") => Self::Rust,
            Some("c" | "h") => Self::C,
            Some("py") => Self::Python,
            Some("sh") => Self::Shell,
            Some("md") => Self::Markdown,
            Some("toml" | "S" | "ld" | "mk" | "yml" | "yaml" | "service") => Self::Plain,
            _ if name == "Makefile" => Self::Plain,
            _ if text.starts_with("#!")
                && text.lines().next().is_some_and(|line| line.ends_with("sh")) =>
            {
                Self::Shell
            }
            _ => Self::Unread,
        }
    }
}

/// All files, by path.
pub(crate) struct Tree {
    files: BTreeMap<String, Source>,
}

impl Tree {
    /// Reads the files below `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => {
                let mut paths = Vec::new();
                walk(root, "", &mut paths)
                    .map_err(|error| format!("reading {}: {error}", root.display()))?;
                paths
            }
        };
        let mut sources = Vec::new();
        for path in paths {
            let full = root.join(&path);
            // Deleted but still in git's index, a symbolic link, or a submodule: nothing to read.
            if !full
                .symlink_metadata()
                .is_ok_and(|metadata| metadata.is_file())
            {
                continue;
            }
            let bytes = fs::read(&full).map_err(|error| format!("reading {path}: {error}"))?;
            // Bytes that are no text (a golden vector, a sound) have no lines to judge.
            sources.push(Source::new(
                &path,
                &String::from_utf8(bytes).unwrap_or_default(),
            ));
        }
        Ok(Self::from_sources(sources))
    }

    pub(crate) fn from_sources(sources: impl IntoIterator<Item = Source>) -> Self {
        let files = sources
            .into_iter()
            .map(|source| (source.path.clone(), source))
            .collect();
        Self { files }
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.files.values()
    }

    pub(crate) fn file(&self, path: &str) -> Option<&Source> {
        self.files.get(path)
    }

    /// Whether `path` names a folder with something in it; the empty path is the root.
    pub(crate) fn has_folder(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty() || self.files.keys().any(|file| file.starts_with(&inside))
    }
}

/// What `git ls-files` lists, or `None` where there is no git or no repository.
fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    // safe.directory: a checkout owned by another user (a CI container) is only listed here,
    // nothing in it is run.
    let output = Command::new("git")
        .args([
            "-c",
            "safe.directory=*",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()?;
    let names = output.status.success().then_some(output.stdout)?;
    let names = String::from_utf8_lossy(&names).into_owned();
    Some(names.split_terminator('\0').map(str::to_owned).collect())
}

fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_dir() && path != "target" && name != ".git" {
            walk(root, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_languages_by_name_and_scripts_by_their_first_line() {
        assert_eq!(Language::of("a/b.rs", ""), Language::Rust);
        assert_eq!(Language::of("a/b.h", ""), Language::C);
        assert_eq!(
            Language::of(".ci/run", "#!/usr/bin/env bash\n"),
            Language::Shell
        );
        assert_eq!(
            Language::of("run", "#!/usr/bin/env python3\n"),
            Language::Unread
        );
        assert_eq!(Language::of("a.b/Makefile", ""), Language::Plain);
        assert_eq!(Language::of("a/b.service", "[Unit]"), Language::Plain);
        assert_eq!(Language::of("LICENSE-MIT", "MIT"), Language::Unread);
    }

    #[test]
    fn pairs_lines_of_text_and_code() {
        let source = Source::new("a.rs", "f(); // why\ng(\"x\");\n");
        let lines: Vec<_> = source.lines().collect();
        assert_eq!(lines[0], (1, "f(); // why", "f();       "));
        assert_eq!(lines[1], (2, "g(\"x\");", "g(\" \");"));
    }

    #[test]
    fn folder_is_there_when_a_file_is_in_it() {
        let tree = Tree::from_sources([Source::new("docs/adr/0001.md", "")]);
        assert!(tree.has_folder("docs") && tree.has_folder("docs/adr") && tree.has_folder(""));
        assert!(!tree.has_folder("doc") && !tree.has_folder("docs/adr/0001.md"));
    }

    #[test]
    fn reads_this_very_repository() -> Result<(), String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tree = Tree::read(&root)?;
        assert!(tree.file("xtask/src/tidy/tree.rs").is_some());
        assert!(tree.has_folder("crates/abi") && !tree.has_folder("target"));
        Ok(())
    }

    #[test]
    fn walks_where_git_is_not() -> std::io::Result<()> {
        let root = std::env::temp_dir().join(format!("hythe-tidy-{}", std::process::id()));
        for folder in ["src", "target", ".git"] {
            fs::create_dir_all(root.join(folder))?;
            fs::write(root.join(folder).join("file.rs"), "")?;
        }
        let mut paths = Vec::new();
        let walked = walk(&root, "", &mut paths);
        fs::remove_dir_all(&root)?;
        walked?;
        assert_eq!(paths, ["src/file.rs"]);
        Ok(())
    }
}
