//! Rule `ignore`: a test that does not run by default says why, in the attribute where the test
//! report shows it.

use super::finding::Finding;
use super::tree::{Language, Source};

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if source.language != Language::Rust {
        return Vec::new();
    }
    let silent = source
        .lines()
        .filter(|(_line, text, code)| ignores_silently(text, code));
    let finding = |(line, _text, _code)| {
        let remedy = "write #[ignore = \"what it needs\"]";
        source.finding(line, "ignore", "a test is ignored without a reason", remedy)
    };
    silent.map(finding).collect()
}

/// Whether the line has an `ignore` attribute, directly or inside `cfg_attr`, with no reason or an
/// empty one.
fn ignores_silently(text: &str, code: &str) -> bool {
    let attribute = code.trim_start().starts_with("#[");
    let Some(at) = code.find("ignore").filter(|_| attribute) else {
        return false;
    };
    let is_name = code[..at].ends_with(['[', ' ', ',']);
    let behind = text[at + "ignore".len()..].trim_start();
    let has_reason = behind
        .strip_prefix('=')
        .is_some_and(|value| !value.trim_start().starts_with("\"\""));
    is_name && behind.starts_with([']', ')', '=']) && !has_reason
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: [usize; 0] = [];

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::new("crates/pool/tests/t.rs", text))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn refuses_silence() {
        let text = "#[test]\n#[ignore]\nfn a() {}\n#[ignore = \"\"]\n#[cfg_attr(miri, ignore)]\n";
        assert_eq!(lines(text), [2, 4, 5]);
    }

    #[test]
    fn passes_reasons_and_other_uses_of_the_word() {
        let text =
            "#[ignore = \"needs a UBIFS volume\"]\n// #[ignore]\nlet ignore = [1];\n#[ignored]\n";
        assert_eq!(lines(text), NOWHERE);
    }
}
