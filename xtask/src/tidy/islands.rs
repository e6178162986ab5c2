//! Rule `unsafe`: it stands only in the islands, and each block says why it is sound.
//!
//! The compiler checks the same for the code it builds; this rule also sees code behind any `cfg`,
//! and any attempt to `allow` its way around.

use super::finding::Finding;
use super::tree::{Language, Source};

/// Where `unsafe` may stand: the views on shared memory, the system calls, the glue to other
/// languages.
const ISLANDS: &[&str] = &[
    "crates/memory/",
    "crates/sys/",
    "crates/screen/",
    "bindings/",
];

const OUTSIDE: &str =
    "unsafe outside the islands crates/memory, crates/sys, crates/screen and bindings";

/// Single files outside the islands, each with its reason.
const LISTED: &[(&str, &str)] = &[
    ("bench/src/posix_queue.rs", CALLS_OF_A_PEER),
    ("bench/src/system_v.rs", CALLS_OF_A_PEER),
];

const CALLS_OF_A_PEER: &str =
    "the calls of a peer that is measured: no safe crate has them, and the product needs none";

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if source.language != Language::Rust {
        return Vec::new();
    }
    let lines: Vec<_> = source.lines().collect();
    let mut findings = Vec::new();
    for (index, (line, _text, code)) in lines.iter().enumerate() {
        if uses(code, |_behind| true) && !is_island(&source.path) {
            let remedy = "offer a safe function in an island and call it";
            findings.push(source.finding(*line, "unsafe", OUTSIDE, remedy));
        }
        let needs_argument = uses(code, |behind| {
            behind.starts_with('{') || behind.starts_with("impl")
        });
        if needs_argument && !is_argued(&lines[..=index]) {
            let remedy = "answer each obligation of the operation in one";
            findings.push(source.finding(*line, "unsafe", "no SAFETY comment above", remedy));
        }
    }
    findings
}

fn is_island(path: &str) -> bool {
    ISLANDS.iter().any(|island| path.starts_with(island))
        || LISTED.iter().any(|(file, _reason)| *file == path)
}

/// Whether the keyword stands in this line of code and what stands behind it matches.
fn uses(code: &str, matches: impl Fn(&str) -> bool) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices("unsafe").any(|(at, word)| {
        let behind = &code[at + word.len()..];
        !code[..at].ends_with(is_word)
            && !behind.starts_with(is_word)
            && matches(behind.trim_start())
    })
}

/// Whether `SAFETY:` stands in the last of `lines`, in the same statement, or in the comment
/// directly above it.
fn is_argued(lines: &[(usize, &str, &str)]) -> bool {
    let mut is_above_statement = false;
    for (steps_up, (_line, text, code)) in lines.iter().rev().enumerate() {
        let code = code.trim();
        let is_remark = code.starts_with("#[") || code.is_empty() && !text.trim().is_empty();
        let ends_another = code.is_empty() || code.ends_with([';', '{', '}', ',']);
        if steps_up > 0 && !is_remark && (is_above_statement || ends_another) {
            return false;
        }
        if text.contains("SAFETY:") {
            return true;
        }
        is_above_statement |= is_remark;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: [usize; 0] = [];

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Source::new(path, text))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn refuses_it_outside_the_islands_whatever_allows_it() {
        let text = "#![allow(unsafe_code)]\n// SAFETY: none\nunsafe { f() }\nunsafe fn g() {}\n#[unsafe(no_mangle)]\n";
        assert_eq!(lines("crates/pool/src/lib.rs", text), [3, 4, 5]);
        assert_eq!(lines("crates/sys/src/lib.rs", text), NOWHERE);
        for (file, _reason) in LISTED {
            assert_eq!(lines(file, text), NOWHERE);
        }
        assert_eq!(lines("bench/src/main.rs", text), [3, 4, 5]);
    }

    #[test]
    fn passes_the_word_in_comments_strings_and_names() {
        let text = "// unsafe { f() }\nlet s = \"unsafe {\";\nlet unsafe_count = 1;\n";
        assert_eq!(lines("crates/pool/src/lib.rs", text), NOWHERE);
    }

    #[test]
    fn refuses_blocks_without_an_argument() {
        for text in [
            "unsafe { f() }",
            "// SAFETY: for the other\nunsafe { f() };\nunsafe { g() };",
            "// SAFETY: too far\n\nunsafe impl Send for X {}",
            "g(); // SAFETY: for g\nlet x = unsafe { f() };",
        ] {
            assert_eq!(lines("crates/sys/src/a.rs", text).len(), 1, "{text}");
        }
    }

    #[test]
    fn passes_blocks_with_an_argument() {
        for text in [
            "// SAFETY: why,\n// in two lines\nunsafe { f() }",
            "// SAFETY: why\n#[cfg(a)]\nlet x: u8 =\n    unsafe { f() };",
            "unsafe { f() } // SAFETY: why",
            "/* SAFETY: why */\nunsafe impl Send for X {}",
            "/// # Safety\nunsafe fn f() {}",
        ] {
            assert_eq!(lines("crates/sys/src/a.rs", text), NOWHERE, "{text}");
        }
    }
}
