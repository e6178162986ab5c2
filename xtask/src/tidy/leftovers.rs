//! Rule `leftover`: main holds no notes about work to be done, which belong into an issue, and no
//! marks of a merge.
//!
//! Markdown may speak about the words in backticks.

use super::finding::Finding;
use super::tree::{Language, Source};

const NOTES: &[&str] = &["TODO", "FIXME", "XXX"];
/// At the beginning of a line. Not what stands between the sides: Markdown underlines with it.
const MERGE_MARKS: &[&str] = &["<<<<<<< ", ">>>>>>> "];
const MACROS: &[&str] = &["todo!", "unimplemented!"];

/// This file must name what it looks for.
const OWN_PATH: &str = "xtask/src/tidy/leftovers.rs";

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if source.language == Language::Unread || source.path == OWN_PATH {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, text, code) in source.lines() {
        // Notes stand in comments and strings, which `code` of a program does not have.
        let prose = if source.language == Language::Markdown {
            code
        } else {
            text
        };
        let note = NOTES.iter().find(|note| has_word(prose, note));
        let call = MACROS
            .iter()
            .find(|call| source.language == Language::Rust && has_word(code, call));
        findings.extend(note.or(call).map(|what| {
            let remedy = "do it now, or open an issue and remove the note";
            source.finding(line, "leftover", format!("{what} on main"), remedy)
        }));
        if MERGE_MARKS.iter().any(|mark| text.starts_with(mark)) {
            let remedy = "decide between the two sides";
            let what = "a conflict of a merge".to_owned();
            findings.push(source.finding(line, "leftover", what, remedy));
        }
    }
    findings
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(at, found)| {
        !line[..at].ends_with(is_part) && !line[at + found.len()..].starts_with(is_part)
    })
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
    fn refuses_notes_and_placeholders() {
        assert_eq!(
            lines(
                "a.rs",
                "// TODO: x\nf(\"FIXME\");\ntodo!()\nunimplemented!(\"x\")\n"
            ),
            [1, 2, 3, 4]
        );
        assert_eq!(lines("a.c", "/* XXX */\n"), [1]);
        assert_eq!(lines("a.sh", "# TODO(me)\n"), [1]);
        assert_eq!(lines("a.md", "TODO\n"), [1]);
    }

    #[test]
    fn refuses_marks_of_a_merge() {
        let conflict = "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n";
        assert_eq!(lines("a.md", conflict), [1, 5]);
        assert_eq!(lines("a.rs", conflict), [1, 5]);
        assert_eq!(lines("a.md", "Title\n=======\n"), NOWHERE);
    }

    #[test]
    fn passes_other_words_and_quotations() {
        assert_eq!(lines("a.rs", "// todo!\nlet todo = AUTODOC;\n"), NOWHERE);
        assert_eq!(lines("a.sh", "mktemp /tmp/a.XXXXXX\n"), NOWHERE);
        assert_eq!(lines("a.md", "no `TODO` on main\n"), NOWHERE);
        assert_eq!(lines("a.wav", "TODO\n"), NOWHERE);
    }
}
