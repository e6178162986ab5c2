//! Rule `header`: a file opens by saying what it is; a crate's header also says what the crate
//! never does.

use super::finding::Finding;
use super::tree::{Language, Source};

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if !says_what_it_is(source) {
        let remedy = "say what it is, who calls it, what holds between calls, what it never does";
        return vec![source.finding(1, "header", "the file does not open with a comment", remedy)];
    }
    if source.path.ends_with("src/lib.rs") && !says_never(&source.text) {
        let what = "the crate's header does not say what the crate never does";
        return vec![source.finding(1, "header", what, "end it with a sentence with \"never\"")];
    }
    Vec::new()
}

fn says_what_it_is(source: &Source) -> bool {
    let mut lines = source
        .text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let (skipped, openings): (&str, &[&str]) = match source.language {
        // Inner attributes, such as the cfg of a loom model, may come first.
        Language::Rust => ("#![", &["//!"]),
        Language::C => ("#pragma once", &["/*", "//"]),
        Language::Shell => ("#!", &["#"]),
        _ => return true,
    };
    let first = lines.find(|line| !line.starts_with(skipped));
    first.is_some_and(|line| openings.iter().any(|opening| line.starts_with(opening)))
}

fn says_never(text: &str) -> bool {
    let header = text.lines().filter(|line| line.starts_with("//!"));
    header
        .flat_map(|line| line.split(|character: char| !character.is_alphanumeric()))
        .any(|word| word.eq_ignore_ascii_case("never"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Source::new(path, text)).len()
    }

    #[test]
    fn refuses_files_that_start_with_code() {
        assert_eq!(
            count("crates/pool/src/a.rs", "use std::fs;\n//! Late.\n"),
            1
        );
        assert_eq!(count("rtos/src/a.c", "#include <a.h>\n"), 1);
        assert_eq!(count("scripts/a.sh", "#!/bin/bash\nset -e\n"), 1);
        assert_eq!(count("crates/pool/src/a.rs", ""), 1);
    }

    #[test]
    fn passes_files_that_say_what_they_are() {
        assert_eq!(
            count("crates/pool/src/a.rs", "#![cfg(loom)]\n\n//! A model.\n"),
            0
        );
        assert_eq!(count("rtos/include/a.h", "/* What it is. */\n"), 0);
        assert_eq!(count("scripts/a.sh", "#!/bin/bash\n# What it is.\n"), 0);
        assert_eq!(count("Makefile", "all:\n"), 0);
    }

    #[test]
    fn crate_says_what_it_never_does() {
        assert_eq!(
            count(
                "crates/pool/src/lib.rs",
                "//! Slots.\n/// It never sleeps.\nfn f() {}\n"
            ),
            1
        );
        assert_eq!(
            count(
                "crates/pool/src/lib.rs",
                "//! Slots.\n//!\n//! Never sleeps.\n"
            ),
            0
        );
    }
}
