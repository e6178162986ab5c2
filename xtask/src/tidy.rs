//! `cargo xtask tidy`: the rules of STYLE.md that a machine can check and that neither rustc nor
//! clippy checks.
//!
//! Each rule is a module with a `check` that gets text and returns findings, so it is tested on
//! strings; only `tree` reads files. A rule sees every file that git tracks or would track. Never
//! changes a file, and never judges generated or ignored ones.

mod circles;
mod finding;
mod folders;
mod headers;
mod ignores;
mod islands;
mod layers;
mod leftovers;
mod lengths;
mod links;
mod mask;
mod sleeps;
mod tables;
mod test_names;
mod tree;
mod words;

use crate::metadata::Metadata;
use finding::Finding;
use tree::{Source, Tree};

/// The rules that need one file at a time.
const FILE_RULES: &[fn(&Source) -> Vec<Finding>] = &[
    folders::check,
    headers::check,
    ignores::check,
    islands::check,
    leftovers::check,
    test_names::check,
    words::check,
    lengths::check,
];

/// Checks everything, prints the findings in the order of the files.
pub(crate) fn run() -> Result<(), String> {
    let metadata = Metadata::load()?;
    let tree = Tree::read(&metadata.workspace_root)?;
    let mut findings = layers::check(&metadata);
    findings.extend(circles::check(&tree));
    findings.extend(sleeps::check(&tree));
    findings.extend(tables::check(&tree));
    for source in tree.sources() {
        findings.extend(FILE_RULES.iter().flat_map(|check| check(source)));
        findings.extend(links::check(source, &tree));
    }
    if findings.is_empty() {
        println!("tidy: {} files follow STYLE.md", tree.sources().count());
        return Ok(());
    }
    findings.sort();
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    Err(format!(
        "{}\ntidy: {} findings",
        lines.join("\n"),
        lines.len()
    ))
}
