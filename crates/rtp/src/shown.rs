//! Text that a peer wrote, as it may be shown to people: shortened, and escaped by
//! `hythe_terminal`.
//!
//! Used wherever an error or a list repeats what a server or a description says. Never here: what a
//! person typed.

use std::fmt::Write;

use hythe_terminal::{escaped, escaped_bytes};

/// Characters of a value that an error repeats.
pub(crate) const VALUE: usize = 80;
/// Characters of a line that is meant to be read: a server's refusal.
pub(crate) const LINE: usize = 200;

/// `text`, of which at most `characters` are shown, and how many there are if that is not all.
pub(crate) fn shown(text: &str, characters: usize) -> String {
    let mut left = text.chars();
    let first: String = left.by_ref().take(characters).collect();
    let mut shown = escaped(&first).to_string();
    let more = left.count();
    if more > 0 {
        // A String takes everything.
        let _ = write!(shown, "… and {more} characters more");
    }
    shown
}

/// As [`shown`], of bytes that may be no text: the first ones, whatever their number.
pub(crate) fn shown_bytes(bytes: &[u8]) -> String {
    let first = &bytes[..bytes.len().min(VALUE)];
    let mut shown = escaped_bytes(first).to_string();
    if bytes.len() > VALUE {
        let _ = write!(shown, "… and {} bytes more", bytes.len() - VALUE);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_short_and_moves_no_cursor() {
        for (text, expected) in [
            ("it's \"so\" \\", "it's \"so\" \\"),
            ("a\r\n\t\0", "a\\r\\n\\t\\u{0}"),
            ("\u{1b}]0;x\u{7}", "\\u{1b}]0;x\\u{7}"),
            // Text that runs backwards from here on.
            ("\u{202e}x", "\\u{202e}x"),
            ("Straße", "Straße"),
        ] {
            assert_eq!(shown(text, 20), expected);
        }
        assert_eq!(shown("abcdef", 4), "abcd… and 2 characters more");
        assert_eq!(shown_bytes(b"\xff\x01"), "\\xff\\u{1}");
        assert!(shown_bytes(&[b'x'; 100]).ends_with("xx… and 20 bytes more"));
    }
}
