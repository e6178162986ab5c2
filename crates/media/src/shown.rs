//! Text that a peer wrote, as it may be shown to people: shortened, and without characters that a terminal obeys.
//!
//! Used wherever an error or a list repeats what a server or a description says. Never here: what a person typed.

use std::fmt::Write;

/// Characters of a value that an error repeats.
pub(crate) const VALUE: usize = 80;

/// `text`, of which at most `characters` are shown, and how many there are if that is not all.
pub(crate) fn shown(text: &str, characters: usize) -> String {
    let mut left = text.chars();
    let mut shown = plain(left.by_ref().take(characters));
    let more = left.count();
    if more > 0 {
        // A String takes everything.
        let _ = write!(shown, "… and {more} characters more");
    }
    shown
}

fn plain(text: impl Iterator<Item = char>) -> String {
    let mut plain = String::new();
    for character in text {
        match character {
            '"' | '\'' | '\\' => plain.push(character),
            other => plain.extend(other.escape_debug()),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_short_and_moves_no_cursor() {
        for (text, expected) in [
            ("it's \"so\" \\", "it's \"so\" \\"),
            ("a\r\n\t\0", "a\\r\\n\\t\\0"),
            ("\u{1b}]0;x\u{7}", "\\u{1b}]0;x\\u{7}"),
            // Text that runs backwards from here on.
            ("\u{202e}x", "\\u{202e}x"),
            ("Straße", "Straße"),
        ] {
            assert_eq!(shown(text, 20), expected);
        }
        assert_eq!(shown("abcdef", 4), "abcd… and 2 characters more");
    }
}
