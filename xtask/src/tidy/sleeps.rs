//! Rule `sleep`: a test does not sleep, it waits for a state with the functions of `hythe-testing`.
//!
//! Code of tests is what stands below a folder `tests`, in a module behind `#[cfg(test)]`, and in
//! the file of such a module. Methods called `sleep` are something else, and pass.

use super::finding::Finding;
use super::tree::{Language, Source, Tree};
use std::collections::BTreeSet;

/// The crate whose functions wait for tests.
const HELPERS: &str = "crates/testing/";

/// Files that may, each with its reason.
const LISTED: &[(&str, &str)] = &[
    ("crates/latency/src/host/wake.rs", "a function of its own"),
    ("crates/sys/src/wait.rs", "tests the function itself"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let files = test_files(tree);
    let is_test_file = |path: &str| {
        let inside = |file: &String| {
            let folder = file.strip_suffix(".rs").unwrap_or(file);
            path == file || path.starts_with(&format!("{folder}/"))
        };
        path.contains("/tests/") || files.iter().any(inside)
    };
    let sources = tree.sources().filter(|source| {
        source.language == Language::Rust
            && !source.path.starts_with(HELPERS)
            && !LISTED.iter().any(|(file, _reason)| *file == source.path)
    });
    sources
        .flat_map(|source| check_file(source, is_test_file(&source.path)))
        .collect()
}

fn check_file(source: &Source, is_test_file: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The indentation of the module behind `#[cfg(test)]` that a line is in.
    let mut inside: Option<usize> = None;
    let mut is_behind_attribute = false;
    for (line, _text, code) in source.lines() {
        let indentation = code.len() - code.trim_start().len();
        let trimmed = code.trim();
        if inside.is_none() && is_behind_attribute && opens_module(trimmed) {
            inside = Some(indentation);
        } else if inside == Some(indentation) && trimmed == "}" {
            inside = None;
        }
        let stays = trimmed.starts_with("#[") || trimmed.is_empty();
        is_behind_attribute = is_for_tests(trimmed) || is_behind_attribute && stays;
        if (is_test_file || inside.is_some()) && sleeps(code) {
            let what = "a test sleeps instead of waiting for a state";
            let remedy = "call eventually, Polling, stays or let_time_pass of hythe-testing";
            findings.push(source.finding(line, "sleep", what, remedy));
        }
    }
    findings
}

/// The files of the modules that only tests compile: `a/tests.rs` for `#[cfg(test)] mod tests;` in
/// `a/mod.rs` or `a.rs`.
fn test_files(tree: &Tree) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for source in tree.sources() {
        let (folder, file) = source.path.rsplit_once('/').unwrap_or_default();
        let folder = match file {
            "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
            _ => source.path.trim_end_matches(".rs").to_owned(),
        };
        let mut is_behind_attribute = false;
        for (_line, _text, code) in source.lines() {
            let trimmed = code.trim();
            let module = trimmed.split("mod ").nth(1);
            let name = module.and_then(|module| module.strip_suffix(';'));
            if let (Some(name), true) = (name, is_behind_attribute) {
                files.insert(format!("{folder}/{name}.rs"));
            }
            let stays = trimmed.starts_with("#[");
            is_behind_attribute = is_for_tests(trimmed) || is_behind_attribute && stays;
        }
    }
    files
}

fn is_for_tests(code: &str) -> bool {
    code.starts_with("#[cfg(test)]") || code.starts_with("#[cfg(all(test")
}

fn opens_module(code: &str) -> bool {
    let words: Vec<&str> = code.split_whitespace().collect();
    words.contains(&"mod") && words.last() == Some(&"{")
}

/// Whether a function called `sleep` is called in this line of code.
fn sleeps(code: &str) -> bool {
    code.match_indices("sleep(").any(|(at, _)| {
        let before = &code[..at];
        let is_longer = before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        !is_longer && !before.ends_with('.') && !before.ends_with("fn ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let sources = files.iter().map(|(path, text)| Source::new(path, text));
        let findings = check(&Tree::from_sources(sources)).into_iter();
        findings.map(|one| (one.path, one.line)).collect()
    }

    #[test]
    fn refuses_sleep_in_tests_of_all_kinds() {
        let sleep = "use std::thread;\nfn f() {\n    thread::sleep(LONG);\n}\n";
        let module =
            format!("fn g() {{\n    sleep(SHORT);\n}}\n#[cfg(test)]\nmod t {{\n{sleep}}}\n");
        let files = [
            ("crates/a/tests/it/main.rs", sleep),
            ("crates/a/src/lib.rs", &module),
            ("crates/a/src/b/mod.rs", "#[cfg(test)]\nmod tests;\n"),
            ("crates/a/src/b/tests.rs", sleep),
            ("crates/a/src/b/tests/deep.rs", sleep),
            (
                "crates/a/src/c.rs",
                "#[cfg(all(test, not(loom)))]\npub(crate) mod d;\n",
            ),
            ("crates/a/src/c/d.rs", sleep),
        ];
        let wanted = [
            ("crates/a/src/b/tests.rs", 3),
            ("crates/a/src/b/tests/deep.rs", 3),
            ("crates/a/src/c/d.rs", 3),
            ("crates/a/src/lib.rs", 8),
            ("crates/a/tests/it/main.rs", 3),
        ];
        let wanted = wanted.map(|(path, line)| (path.to_owned(), line));
        assert_eq!(found(&files), wanted);
    }

    #[test]
    fn passes_products_helpers_methods_and_comments() {
        let product =
            "fn f() {\n    sleep(A);\n}\n#[cfg(test)]\nmod t {\n}\nfn g() {\n    sleep(A);\n}\n";
        let other =
            "fn sleep(a: u8) {}\nline.sleep(A);\nuntil_asleep(A);\n// sleep(A)\n\"sleep(A)\"\n";
        let files = [
            ("crates/a/src/lib.rs", product),
            ("crates/a/tests/it.rs", other),
            ("crates/testing/src/tests/a.rs", "sleep(A);\n"),
        ];
        assert_eq!(found(&files), []);
    }
}
