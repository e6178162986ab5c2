//! Text from outside, as it may be shown on a terminal.
//!
//! Channels, participants, paths, hosts, tags and the text of servers are named by others. A
//! terminal obeys the control characters in them: they move the cursor, set the title or send
//! answers back. Whatever is printed for people (tables, logs, errors, progress) shows such text
//! through [`escaped`]. Called by every crate that puts such text into a message, and by the
//! command, which escapes once more all that it prints ([`escaped_lines`]): text that is escaped
//! already stays as it is.
//!
//! A backslash stands for itself, so the form is for people; programs read `--json`. Never prints
//! anything itself.

use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter, Write};

/// Text whose control characters are written as escapes. Made by [`escaped`] and its siblings,
/// shown by [`Display`].
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a> {
    bytes: &'a [u8],
    keeps_layout: bool,
}

/// A name, path or line from outside, on one line: `\n`, `\t`, `\u{1b}` for control characters,
/// `\xff` for what is no UTF-8.
#[must_use]
pub fn escaped<T: AsRef<OsStr> + ?Sized>(text: &T) -> Escaped<'_> {
    escaped_bytes(text.as_ref().as_encoded_bytes())
}

/// As [`escaped`], of bytes that may be no text.
#[must_use]
pub const fn escaped_bytes(bytes: &[u8]) -> Escaped<'_> {
    Escaped {
        bytes,
        keeps_layout: false,
    }
}

/// As [`escaped`], of several lines that the caller has laid out: line breaks and tabs stay.
#[must_use]
pub const fn escaped_lines(text: &str) -> Escaped<'_> {
    Escaped {
        bytes: text.as_bytes(),
        keeps_layout: true,
    }
}

/// Does a terminal obey this character instead of showing it? The control characters of C0 and C1,
/// DEL, breaks of lines and paragraphs, and what changes the direction of the text around it
/// (Unicode Standard Annex 9). All are below U+10000.
#[must_use]
pub const fn is_control(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(self.bytes.len());
        for chunk in self.bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                self.push(&mut text, character)?;
            }
            for byte in chunk.invalid() {
                write!(text, "\\x{byte:02x}")?;
            }
        }
        // As one string, so that widths of columns hold.
        formatter.pad(&text)
    }
}

impl Escaped<'_> {
    fn push(&self, text: &mut String, character: char) -> fmt::Result {
        match character {
            '\n' | '\t' if self.keeps_layout => text.push(character),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if is_control(control) => write!(text, "\\u{{{:x}}}", u32::from(control))?,
            plain => text.push(plain),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        for (text, expected) in [
            ("Straße \"1\" \\n", "Straße \"1\" \\n"),
            ("a\r\n\t\0b", "a\\r\\n\\t\\u{0}b"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{7f}\u{9b}31m", "\\u{7f}\\u{9b}31m"),
            ("\u{202e}cod.exe\u{2069}", "\\u{202e}cod.exe\\u{2069}"),
            ("\u{61c}\u{200e}\u{2028}", "\\u{61c}\\u{200e}\\u{2028}"),
            // Of a name in Persian, and of a family of emoji: they join letters and move nothing.
            (
                "می\u{200c}خواهم 👩\u{200d}👧",
                "می\u{200c}خواهم 👩\u{200d}👧",
            ),
        ] {
            assert_eq!(escaped(text).to_string(), expected);
            let twice = escaped(text).to_string();
            assert_eq!(escaped(&twice).to_string(), expected, "it stays so");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_written_out() {
        assert_eq!(escaped_bytes(b"a\xff\xc3").to_string(), "a\\xff\\xc3");
        // C1 as a byte of its own: terminals in an 8-bit mode obey it.
        let path = Path::new(OsStr::from_bytes(b"/tmp/\x9b2J"));
        assert_eq!(escaped(path).to_string(), "/tmp/\\x9b2J");
    }

    #[test]
    fn lines_stay_lines_and_widths_hold() {
        assert_eq!(
            escaped_lines("a\n\t\u{1b}b\r\n").to_string(),
            "a\n\t\\u{1b}b\\r\n"
        );
        assert_eq!(format!("{:<8}|", escaped("a\nb")), "a\\nb    |");
    }

    #[test]
    fn no_character_that_rust_calls_control_passes() {
        for character in (0..=0x10_ffff).filter_map(char::from_u32) {
            if character.is_control() {
                assert!(is_control(character), "{character:?}");
            }
            if is_control(character) {
                assert!(u32::from(character) < 0x1_0000);
                let shown = escaped(&character.to_string()).to_string();
                assert!(!shown.contains(character), "{character:?}");
            }
        }
    }
}
