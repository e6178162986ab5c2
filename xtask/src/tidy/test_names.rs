//! Rule `test-name`: the name of a test is subject, verb and object in at most 60 characters, and
//! does not start with an article: the line of a failure then says what broke.
//!
//! Whether it is a sentence is found by reading; length and article are checked here.

use super::finding::Finding;
use super::tree::{Language, Source};

const MAX_CHARACTERS: usize = 60;

const ARTICLES: &[&str] = &["a_", "an_", "the_"];

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if source.language != Language::Rust {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut is_test = false;
    for (line, _text, code) in source.lines() {
        is_test |= code.trim() == "#[test]";
        let Some(name) = function_name(code).filter(|_| is_test) else {
            continue;
        };
        is_test = false;
        let remedy = "write subject_verb_object";
        if name.len() > MAX_CHARACTERS {
            let length = name.len();
            let what = format!("the test's name has {length} characters, {MAX_CHARACTERS} at most");
            findings.push(source.finding(line, "test-name", what, remedy));
        }
        if ARTICLES.iter().any(|article| name.starts_with(article)) {
            let what = "the test's name starts with an article";
            findings.push(source.finding(line, "test-name", what, remedy));
        }
    }
    findings
}

/// The name of the function that this line defines.
fn function_name(code: &str) -> Option<&str> {
    let (before, behind) = code.split_once("fn ")?;
    let is_alone = before.is_empty() || before.ends_with(' ');
    let name = behind.split(['(', '<']).next()?;
    is_alone.then_some(name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: [usize; 0] = [];

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::new("crates/a/tests/t.rs", text))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn refuses_articles_and_long_names() {
        let long = "b".repeat(MAX_CHARACTERS + 1);
        let text = format!(
            "#[test]\nfn a_b() {{}}\n#[test]\n#[cfg(x)]\n// why\nfn the_b() {{}}\n#[test]\nfn {long}() {{}}\n"
        );
        assert_eq!(lines(&text), [2, 6, 8]);
        assert_eq!(lines(&format!("#[test]\nfn an_{long}() {{}}\n")), [2, 2]);
    }

    #[test]
    fn passes_other_functions_and_the_limit() {
        let most = "b".repeat(MAX_CHARACTERS);
        let text = format!(
            "fn a_b() {{}}\n#[test]\nfn {most}() {{}}\nfn the_c() {{}}\n// #[test]\nfn a_d() {{}}\n"
        );
        assert_eq!(lines(&text), NOWHERE);
    }
}
