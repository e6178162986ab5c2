//! `cargo xtask api [--write]`: the names that an application reaches through the crate `hythe`.
//!
//! `docs/api.txt` lists them, so that a review sees each change of the public surface. The list is
//! made from what rustdoc says about `hythe` and the crates that it re-exports, `#[doc(hidden)]`
//! items included; auto traits and blanket implementations are left out. Without `--write` a list
//! that is not current is an error. Names that no application may reach are one in any case.
//! Never reads source files.

mod difference;
mod forbidden;
mod lines;
mod names;
mod rustdoc;
mod types;

use crate::metadata::Metadata;
use std::path::Path;

/// The crate whose names are listed.
const FACADE: &str = "hythe";

/// Where the list is kept, from the root of the workspace on.
const LIST: &str = "docs/api.txt";

const HEADER: &str = "\
# The public names that an application reaches through the crate `hythe`: path, and what it is.
# A type is written with its path below `hythe`. One that `hythe` does not re-export is written with
# the path of its definition, and listed, too: whoever is given a value can call its methods.
# Types of the standard library are written with the last segment of their path.
# Checked by `cargo xtask api`, written by `cargo xtask api --write`.
";

/// Compares the kept list with the names of today, or writes it. Prints how many there are.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let is_writing = match words[..] {
        [] => false,
        ["--write"] => true,
        _ => return Err("api takes nothing or --write".into()),
    };
    let metadata = Metadata::load()?;
    let docs = rustdoc::Docs::make(&metadata, FACADE)?;
    let mut names = names::Names::collect(&docs, FACADE)?;
    let lines = lines::all(&docs, &mut names);
    let list = metadata.workspace_root.join(LIST);
    if is_writing {
        let text = format!("{HEADER}{}\n", lines.join("\n"));
        std::fs::write(&list, text).map_err(|error| format!("{}: {error}", list.display()))?;
    } else {
        compare(&list, &lines)?;
    }
    forbidden::check(&lines)?;
    println!("api: {} lines in {LIST}", lines.len());
    Ok(())
}

/// An error that shows what the list lacks and what is gone, if it is not current.
fn compare(list: &Path, lines: &[String]) -> Result<(), String> {
    let kept = std::fs::read_to_string(list).map_err(|error| {
        format!(
            "{}: {error}; cargo xtask api --write makes it",
            list.display()
        )
    })?;
    let kept: Vec<&str> = kept.lines().filter(|line| !line.starts_with('#')).collect();
    match difference::report(&kept, lines) {
        None => Ok(()),
        Some(report) => Err(format!(
            "{report}\napi: the public names of `{FACADE}` are not those of {LIST}\n\
             If they should be, accept them: cargo xtask api --write, and commit {LIST} with the \
             change"
        )),
    }
}
