//! Rule `length`: files of at most 800 lines, C functions of at most 70 (clippy measures the Rust
//! ones), and comments in Rust and C of at most 100 columns (rustfmt and clang-format break the
//! code).

use super::finding::Finding;
use super::tree::{Language, Source};

const MAX_FILE_LINES: usize = 800;
const MAX_FUNCTION_LINES: usize = 70;
const MAX_COLUMNS: usize = 100;

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let is_program = matches!(
        source.language,
        Language::Rust | Language::C | Language::Python | Language::Shell
    );
    let file_lines = source.text.lines().count();
    let mut findings = Vec::new();
    if is_program && !is_generated(source) && file_lines > MAX_FILE_LINES {
        let what = format!("the file has {file_lines} lines, {MAX_FILE_LINES} are the limit");
        findings.push(source.finding(1, "length", what, "cut it where a reader would"));
    }
    if source.language == Language::C {
        let functions = c_functions(&source.code).into_iter();
        let too_long = functions.filter(|function| function.lines > MAX_FUNCTION_LINES);
        findings.extend(too_long.map(|Function { line, lines }| {
            let what =
                format!("the function has {lines} lines, {MAX_FUNCTION_LINES} are the limit");
            let remedy = "keep the branches, move straight-line work into functions of its own";
            source.finding(line, "length", what, remedy)
        }));
    }
    if has_bounded_comments(source) {
        let too_wide = wide_comments(source).into_iter();
        findings.extend(too_wide.map(|line| {
            let what = format!("the comment is wider than {MAX_COLUMNS} columns");
            source.finding(line, "length", what, "break it; only a table may be wider")
        }));
    }
    findings
}

/// Whether the width of comments is held in this file.
fn has_bounded_comments(source: &Source) -> bool {
    match source.language {
        Language::Rust => true,
        Language::C => !is_generated(source),
        _ => false,
    }
}

/// Numbers of the lines that hold nothing but a comment and are too wide. Rows of tables cannot be
/// broken.
fn wide_comments(source: &Source) -> Vec<usize> {
    // In Rust, a line inside a long literal is blank in `code`, too.
    let is_comment = |text: &str, code: &str| match source.language {
        Language::Rust => text.trim_start().starts_with("//"),
        _ => code.trim().is_empty(),
    };
    let lines = source.lines().filter(|(_line, text, code)| {
        text.chars().count() > MAX_COLUMNS && is_comment(text, code) && !is_row(text)
    });
    lines.map(|(line, _text, _code)| line).collect()
}

/// Whether a line of a comment is a row of a table.
fn is_row(text: &str) -> bool {
    let words = text.trim_start().trim_start_matches(['/', '!', '*', ' ']);
    words.starts_with('|')
}

/// Kept files that a tool has made say so in their header; what they are made of is measured.
fn is_generated(source: &Source) -> bool {
    let header = source.text.split("*/").next().unwrap_or_default();
    source.language == Language::C && header.contains("Made by cbindgen")
}

/// A C function: where its body opens, and how many lines of code the body has, as clippy counts
/// them for Rust: without comments and empty lines.
struct Function {
    line: usize,
    lines: usize,
}

/// Finds bodies by the layout that clang-format enforces: `{` alone in the first column opens a
/// function and nothing else, the next `}` in the first column closes it. `code` is free of
/// comments and literals.
fn c_functions(code: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    let mut open: Option<Function> = None;
    for (index, line) in code.lines().enumerate() {
        if line.trim_end() == "{" {
            open = Some(Function {
                line: index + 1,
                lines: 0,
            });
        } else if line.starts_with('}') {
            functions.extend(open.take());
        } else if let Some(function) = &mut open {
            function.lines += usize::from(!line.trim().is_empty());
        }
    }
    functions
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

    fn function(lines: usize) -> String {
        format!(
            "int f(void)\n{{\n\t/* why */\n\n{}}}\n",
            "\tif (a) { b(); }\n".repeat(lines)
        )
    }

    #[test]
    fn refuses_wide_comments_but_not_rows_of_tables() {
        let words = "word ".repeat(20);
        let text = format!(
            "//! {words}\n//! | {words} |\n// {}\nlet a = \"{words}{words}\";\n",
            &words[..90]
        );
        assert_eq!(lines("a.rs", &text), [1]);
        assert_eq!(lines("a.md", &text), NOWHERE);
        let text =
            format!("/*\n * {words}\n * | {words} |\n */\nint a; /* {words} */\n/* {words} */\n");
        assert_eq!(lines("a.c", &text), [2, 6]);
        let made = format!("/* Made by cbindgen. */\n{text}");
        assert_eq!(lines("a.h", &made), NOWHERE);
    }

    #[test]
    fn refuses_long_files() {
        assert_eq!(lines("a.rs", &"//\n".repeat(MAX_FILE_LINES + 1)), [1]);
        assert_eq!(lines("a.sh", &"#\n".repeat(MAX_FILE_LINES + 1)), [1]);
        assert_eq!(lines("a.rs", &"//\n".repeat(MAX_FILE_LINES)), NOWHERE);
        let made = format!("/* Made by cbindgen. */\n{}", "//\n".repeat(MAX_FILE_LINES));
        assert_eq!(lines("a.h", &made), NOWHERE);
        let not_made = format!(
            "/* Why. */\n/* Made by cbindgen. */\n{}",
            "//\n".repeat(MAX_FILE_LINES)
        );
        assert_eq!(lines("a.h", &not_made), [1]);
        assert_eq!(
            lines("CHANGELOG.md", &"-\n".repeat(MAX_FILE_LINES + 1)),
            NOWHERE
        );
    }

    #[test]
    fn refuses_long_c_functions_wherever_they_stand() {
        let too_long = function(MAX_FUNCTION_LINES + 1);
        assert_eq!(lines("a.c", &too_long), [2]);
        assert_eq!(lines("a.c", &format!("{}{too_long}", function(1))), [8]);
    }

    #[test]
    fn passes_c_functions_at_the_limit_and_long_tables() {
        assert_eq!(lines("a.c", &function(MAX_FUNCTION_LINES)), NOWHERE);
        let table = format!("static const int t[] = {{\n{}}};\n", "\t1,\n".repeat(100));
        assert_eq!(lines("a.c", &format!("{}{table}", function(1))), NOWHERE);
    }
}
