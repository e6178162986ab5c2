//! Rule `table`: lists in documents that repeat what is in the tree are complete, and name nothing
//! else.
//!
//! They are: the crates in ARCHITECTURE.md, the targets of the Makefile in CONTRIBUTING.md, the
//! decisions in docs/adr/README.md, and the guides, to which README.md links. A `make TARGET` that
//! any page names is one of the Makefile. A list whose page is not in the tree is not checked.

use super::finding::Finding;
use super::tree::{Language, Source, Tree};
use std::collections::BTreeSet;

const CRATES: &str = "ARCHITECTURE.md";
const TARGETS: &str = "CONTRIBUTING.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(page) = tree.file(CRATES) {
        findings.extend(check_crates(page, tree));
    }
    if let Some(makefile) = tree.file("Makefile") {
        findings.extend(check_targets(makefile, tree));
    }
    for (folder, index) in [
        ("docs/adr/", "docs/adr/README.md"),
        ("docs/guide/", "README.md"),
    ] {
        let index = tree.file(index);
        findings.extend(index.map_or_else(Vec::new, |index| check_links(folder, index, tree)));
    }
    findings
}

/// Each crate of `crates/` has a row of its own, and each row that begins with a path is of
/// something that is there.
fn check_crates(page: &Source, tree: &Tree) -> Vec<Finding> {
    let of_section = section(page, "## The crates");
    let rows: Vec<(usize, &str)> = of_section
        .filter_map(|(line, text)| Some((line, first_cell(text)?)))
        .flat_map(|(line, cell)| in_backticks(cell).map(move |path| (line, path)))
        .collect();
    let paths = tree.sources().map(|source| source.path.as_str());
    let crates = paths.filter(|path| path.starts_with("crates/") && path.matches('/').count() == 2);
    let crates = crates.filter_map(|path| path.strip_suffix("/Cargo.toml"));
    let without_row = crates.filter(|folder| rows.iter().all(|(_line, path)| path != folder));
    let mut findings: Vec<Finding> = without_row
        .map(|folder| {
            let what = format!("`{folder}` has no row in the table of crates");
            page.finding(
                1,
                "table",
                what,
                "say in a row what it is, and what it may use",
            )
        })
        .collect();
    let absent = rows
        .into_iter()
        .filter(|(_line, path)| !tree.has_folder(path.trim_end_matches('/')));
    findings.extend(absent.map(|(line, path)| {
        let what = format!("`{path}` is not in the tree");
        page.finding(line, "table", what, "take the row out")
    }));
    findings
}

/// Each target that `make` alone would list has a row, and each page names only targets.
fn check_targets(makefile: &Source, tree: &Tree) -> Vec<Finding> {
    let all: BTreeSet<&str> = makefile.text.lines().filter_map(target).collect();
    let mut findings = Vec::new();
    if let Some(page) = tree.file(TARGETS) {
        let cells = page.text.lines().filter_map(first_cell);
        let rows: BTreeSet<&str> = cells.flat_map(make_targets).collect();
        let without_row = all.iter().filter(|name| !rows.contains(*name));
        findings.extend(without_row.filter(|name| **name != "help").map(|name| {
            let what = format!("`make {name}` has no row in the table of commands");
            page.finding(
                1,
                "table",
                what,
                "say in a row what it does, and when it is run",
            )
        }));
    }
    let pages = tree.sources();
    for page in pages.filter(|source| is_of_root(source, tree)) {
        for (index, text) in page.text.lines().enumerate() {
            let unknown = make_targets(text).filter(|name| !all.contains(name));
            findings.extend(unknown.map(|name| {
                let what = format!("the Makefile has no documented target {name:?}");
                page.finding(index + 1, "table", what, "name a target that `make` lists")
            }));
        }
    }
    findings
}

/// Whether `make` in this page means that of the root: no folder above it has a makefile.
fn is_of_root(page: &Source, tree: &Tree) -> bool {
    let ends = page.path.match_indices('/').map(|(end, _slash)| end);
    let mut folders = ends.map(|end| &page.path[..end]);
    page.language == Language::Markdown
        && folders.all(|folder| tree.file(&format!("{folder}/Makefile")).is_none())
}

/// Each page of the folder is the target of a link on the page that is its index.
fn check_links(folder: &str, index: &Source, tree: &Tree) -> Vec<Finding> {
    let pages = tree.sources().map(|source| source.path.as_str());
    let pages = pages.filter(|path| {
        let name = path.strip_prefix(folder);
        *path != index.path && name.is_some_and(|name| name.ends_with(".md") && !name.contains('/'))
    });
    let own_folder = index.path.rsplit_once('/').map_or("", |(own, _name)| own);
    let without_link = pages.filter(|path| {
        let seen = path.strip_prefix(own_folder).unwrap_or(path);
        let link = format!("]({})", seen.trim_start_matches('/'));
        !index.text.contains(&link)
    });
    without_link
        .map(|path| {
            let what = format!("no link leads to {path}");
            index.finding(1, "table", what, "add the page to the list of its kind")
        })
        .collect()
}

/// The lines between this heading and the next one, numbered from 1.
fn section<'page>(page: &'page Source, heading: &str) -> impl Iterator<Item = (usize, &'page str)> {
    let lines = page.text.lines().enumerate();
    let behind = lines
        .skip_while(move |(_index, text)| *text != heading)
        .skip(1);
    behind
        .take_while(|(_index, text)| !text.starts_with('#'))
        .map(|(index, text)| (index + 1, text))
}

/// What stands first in a row of a table.
fn first_cell(text: &str) -> Option<&str> {
    let row = text.trim().strip_prefix('|')?;
    row.split('|').next()
}

fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The names of targets in commands such as `make test`; `make -C FOLDER …` is another makefile's.
fn make_targets(text: &str) -> impl Iterator<Item = &str> {
    let commands = in_backticks(text).filter_map(|code| code.strip_prefix("make "));
    commands
        .filter_map(|words| words.split_whitespace().next())
        .filter(|word| word.starts_with(|first: char| first.is_ascii_lowercase()))
}

/// The target of a rule with a description: `NAME: … ## DESCRIPTION`.
fn target(rule: &str) -> Option<&str> {
    let (name, rest) = rule.split_once(':')?;
    let is_name = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
    (rest.contains("## ") && !name.is_empty() && name.chars().all(is_name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "| `make test` | all |\n| `make test-p1` | one |\n\
                        | `make install`, `make uninstall` | both |\n";
    const MAKEFILE: &str = "help: ## this list\ntest: setup ## all tests\ntest-p1: ## one\n\
                            install: ## in\nuninstall: ## out\nhidden:\n";
    const LINKS: &str = "[a](docs/guide/a.md)\n";

    fn said(pages: &[(&str, &str)]) -> Vec<String> {
        let sources = pages.iter().map(|(path, text)| Source::new(path, text));
        let findings = check(&Tree::from_sources(sources));
        findings.iter().map(ToString::to_string).collect()
    }

    fn refuses(pages: &[(&str, &str)], start: &str) {
        let said = said(pages);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with(start), "{said:?}");
    }

    #[test]
    fn table_of_crates_has_each_crate_and_nothing_else() {
        let table = "## The crates\n\n| folder | is |\n| --- | --- |\n| `crates/a` | one |\n";
        let outside = "\n## Later\n\n| `crates/later` | none |\n";
        let page = format!("{table}{outside}");
        let a = ("crates/a/Cargo.toml", "");
        assert_eq!(said(&[(CRATES, &page), a]), [""; 0]);
        refuses(
            &[(CRATES, &page), a, ("crates/b/Cargo.toml", "")],
            "ARCHITECTURE.md:1: table: `crates/b` has no row",
        );
        refuses(
            &[(CRATES, &format!("{table}| `gone/` | one |\n")), a],
            "ARCHITECTURE.md:6: table: `gone/` is not in the tree",
        );
    }

    #[test]
    fn table_of_commands_has_each_described_target() {
        assert_eq!(said(&[("Makefile", MAKEFILE), (TARGETS, ROWS)]), [""; 0]);
        let more = format!("{MAKEFILE}test-slow: setup ## the rest\n");
        refuses(
            &[("Makefile", &more), (TARGETS, ROWS)],
            "CONTRIBUTING.md:1: table: `make test-slow` has no row",
        );
    }

    #[test]
    fn pages_name_only_targets_that_there_are() {
        let used = "Run `make test PART=1`, `make -C rtos all` or `make`.\n";
        let makefile = ("Makefile", MAKEFILE);
        assert_eq!(said(&[makefile, ("a.md", used)]), [""; 0]);
        let other = ("rtos/Makefile", "");
        let pages = [makefile, other, ("rtos/src/a.md", "`make boards`\n")];
        assert_eq!(said(&pages), [""; 0]);
        refuses(
            &[makefile, ("a.md", "\n`make hidden`\n")],
            "a.md:2: table: the Makefile has no documented target \"hidden\"",
        );
    }

    #[test]
    fn indexes_link_to_each_page_of_their_folder() {
        let guide = ("docs/guide/a.md", "");
        let drawing = ("docs/guide/a.svg", "");
        assert_eq!(said(&[("README.md", LINKS), guide, drawing]), [""; 0]);
        refuses(
            &[("README.md", LINKS), guide, ("docs/guide/b.md", "")],
            "README.md:1: table: no link leads to docs/guide/b.md",
        );
        let adr = ("docs/adr/0001-a.md", "");
        let index = ("docs/adr/README.md", "[0001](0001-a.md)");
        assert_eq!(said(&[index, adr]), [""; 0]);
        refuses(
            &[index, adr, ("docs/adr/0002-b.md", "")],
            "docs/adr/README.md:1: table: no link leads to docs/adr/0002-b.md",
        );
    }
}
