//! Text with what it merely quotes blanked out, so that a rule finds `unsafe` in code and not in a
//! comment.
//!
//! Every function returns text of the same length with the same line breaks: positions stay valid.
//! The quotes around a literal stay, its content goes. Never a full parser: it knows comments and
//! literals, nothing more.

/// Rust without comments and without the content of string and character literals.
pub(crate) fn rust(text: &str) -> String {
    blank(text, rust_quote)
}

/// C without comments and without the content of string and character literals.
pub(crate) fn c(text: &str) -> String {
    blank(text, c_quote)
}

/// Markdown without fenced blocks and code spans.
pub(crate) fn markdown(text: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut unfenced = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark));
        let is_quoted = fence.is_some() || mark.is_some();
        unfenced.push_str(&if is_quoted {
            blanked(line.as_bytes())
        } else {
            line.to_owned()
        });
        fence = match (fence, mark) {
            (None, opened) => opened,
            (Some(open), Some(mark)) if open == mark => None,
            (open, _) => open,
        };
    }
    blank(&unfenced, code_span)
}

/// Something quoted: `end` is the first byte behind it, the outermost `kept` bytes on each side
/// stay.
struct Quote {
    end: usize,
    kept: usize,
}

/// Blanks every quote that `quote_at` recognises. It is asked at each byte that is not inside a
/// quote; identifiers are skipped as a whole, so that it sees their first byte only.
fn blank(text: &str, quote_at: fn(&[u8], usize) -> Option<Quote>) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let mut copied = 0;
    while at < bytes.len() {
        match quote_at(bytes, at) {
            Some(Quote { end, kept }) => {
                let start = (at + kept).min(end);
                // A literal that never closes may end inside a character of several bytes.
                let close = text.floor_char_boundary((end - kept).max(start));
                out.push_str(&text[copied..start]);
                out.push_str(&blanked(&bytes[start..close]));
                copied = close;
                at = end;
            }
            None => at += word_length(&bytes[at..]).max(1),
        }
    }
    out.push_str(&text[copied..]);
    out
}

fn blanked(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| if *byte == b'\n' { '\n' } else { ' ' })
        .collect()
}

fn rust_quote(bytes: &[u8], at: usize) -> Option<Quote> {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => Some(Quote {
            end: at + line_length(rest),
            kept: 0,
        }),
        [b'/', b'*', ..] => Some(Quote {
            end: at + nested_comment_length(rest),
            kept: 0,
        }),
        [b'"', ..] => Some(Quote {
            end: at + literal_length(rest, true),
            kept: 1,
        }),
        [b'\'', ..] => character_length(rest).map(|length| Quote {
            end: at + length,
            kept: 1,
        }),
        [b'r' | b'b' | b'c', ..] => raw_string_length(rest).map(|length| Quote {
            end: at + length,
            kept: 1,
        }),
        _ => None,
    }
}

fn c_quote(bytes: &[u8], at: usize) -> Option<Quote> {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => Some(Quote {
            end: at + line_length(rest),
            kept: 0,
        }),
        [b'/', b'*', ..] => {
            let length = find(&rest[2..], b"*/").map_or(rest.len(), |inner| inner + 4);
            Some(Quote {
                end: at + length,
                kept: 0,
            })
        }
        // A lone apostrophe (`#error don't`) ends with its line.
        [b'"' | b'\'', ..] => Some(Quote {
            end: at + literal_length(rest, false),
            kept: 1,
        }),
        _ => None,
    }
}

fn code_span(bytes: &[u8], at: usize) -> Option<Quote> {
    let ticks = bytes[at..].iter().take_while(|byte| **byte == b'`').count();
    if ticks == 0 {
        return None;
    }
    // A span closes with as many backticks as it opened; without them the backticks are text.
    let mut next = at + ticks;
    while next < bytes.len() {
        let run = bytes[next..]
            .iter()
            .take_while(|byte| **byte == b'`')
            .count();
        if run == ticks {
            return Some(Quote {
                end: next + ticks,
                kept: 0,
            });
        }
        next += run.max(1);
    }
    Some(Quote {
        end: at + ticks,
        kept: 0,
    })
}

/// Length of the identifier or number that starts here.
fn word_length(rest: &[u8]) -> usize {
    rest.iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_' || **byte >= 0x80)
        .count()
}

fn line_length(rest: &[u8]) -> usize {
    rest.iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(rest.len())
}

fn nested_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Length of a literal that starts with its quote, both quotes included.
fn literal_length(rest: &[u8], may_span_lines: bool) -> usize {
    let quote = rest[0];
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'\n' if !may_span_lines => return at,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `'x'` and `'\n'` are literals, `'x` is a lifetime.
fn character_length(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        return Some(literal_length(rest, false));
    }
    let width = match rest.get(1)? {
        0..0x80 => 1,
        0x80..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

/// `r"…"`, `br#"…"#` and so on. `r#name` is an identifier.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let prefix = rest.iter().take_while(|byte| b"rbc".contains(byte)).count();
    if prefix > 2 || rest[prefix - 1] != b'r' {
        return None;
    }
    let hashes = rest[prefix..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    let start = prefix + hashes + 1;
    if rest.get(start - 1) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"')
        .chain(std::iter::repeat_n(b'#', hashes))
        .collect();
    Some(find(&rest[start..], &close).map_or(rest.len(), |inner| start + inner + close.len()))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pair is a text and what is left of it, with `.` for each blanked byte; the texts have
    /// no dots or blanks.
    fn assert_masks(mask: fn(&str) -> String, pairs: &[(&str, &str)]) {
        for (text, left) in pairs {
            assert_eq!(mask(text).replace(' ', "."), *left, "{text}");
        }
    }

    #[test]
    fn rust_comments_and_literals_go() {
        assert_masks(
            rust,
            &[
                ("a//x\nb", "a...\nb"),
                ("a/*x/*x*/x\n*/b", "a.........\n..b"),
                (r#"a"x\"x"b"#, r#"a"...."b"#),
                (r"a('x','\'','ä')b", "a('.','..','..')b"),
                ("a\"x\nx\"b", "a\".\n.\"b"),
            ],
        );
    }

    #[test]
    fn rust_raw_strings_end_at_their_own_hashes() {
        assert_masks(
            rust,
            &[
                ("r#\"x\"x\"#b", "r......#b"),
                ("br\"x\\\"b", "b....\"b"),
                ("r#type+for_r\"x\"", "r#type+for_r\".\""),
            ],
        );
    }

    #[test]
    fn rust_lifetimes_stay() {
        let text = "fn f<'a>(x: &'a str) -> &'static str { x }";
        assert_eq!(rust(text), text);
    }

    #[test]
    fn c_comments_and_literals_go() {
        assert_masks(
            c,
            &[
                ("a/*x/*x*/b//x\nc", "a........b...\nc"),
                ("a\"x//\"b'\"'c", "a\"...\"b'.'c"),
                ("#error,don't\nb", "#error,don't\nb"),
            ],
        );
    }

    #[test]
    fn markdown_code_goes() {
        assert_masks(
            markdown,
            &[
                ("a`x`b``x`x``c", "a...b.......c"),
                ("a\n```sh\nx\n```\nb", "a\n.....\n.\n...\nb"),
                ("a`b", "a.b"),
            ],
        );
    }

    #[test]
    fn what_never_closes_reaches_to_the_end() {
        for text in ["/*x", "\"x", "\"ä", "r#\"x", "r\"ä", "'\\", "/*"] {
            assert_eq!(rust(text).len(), text.len(), "{text:?}");
            assert_eq!(c(text).len(), text.len(), "{text:?}");
        }
    }
}
