//! The words and signs of a Rust file, without the parts that only tests compile.
//!
//! Called by `modules` with code whose comments and literals are blanked. Never a full lexer: it
//! knows words, `::` and single signs.

/// One word, one `::` or one other sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    /// Counted from 1.
    pub(super) line: usize,
}

impl Token<'_> {
    pub(super) fn is_word(&self) -> bool {
        self.text.starts_with(is_word_part)
    }
}

/// The tokens of `code` that are compiled without `cfg(test)`.
pub(super) fn tokens_outside_tests(code: &str) -> Vec<Token<'_>> {
    let all = tokens(code);
    let mut kept = Vec::with_capacity(all.len());
    let mut rest = all.as_slice();
    while let [first, behind @ ..] = rest {
        if let Some(length) = test_item_length(rest) {
            rest = &rest[length..];
        } else {
            kept.push(*first);
            rest = behind;
        }
    }
    kept
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let lines = code.lines().zip(1..);
    lines
        .flat_map(|(text, line)| LineTokens { text, line })
        .collect()
}

struct LineTokens<'a> {
    text: &'a str,
    line: usize,
}

impl<'a> Iterator for LineTokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let rest = self.text.trim_start();
        let first = rest.chars().next()?;
        let length = if is_word_part(first) {
            rest.find(|character| !is_word_part(character))
                .unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (text, behind) = rest.split_at(length);
        self.text = behind;
        Some(Token {
            text,
            line: self.line,
        })
    }
}

fn is_word_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Length of the attribute `#[cfg(test)]` that starts here and of what it stands before.
fn test_item_length(tokens: &[Token]) -> Option<usize> {
    let predicate = match_texts(tokens, &["#", "[", "cfg", "("])?;
    if !needs_test(predicate) {
        return None;
    }
    let mut at = 0;
    while texts_start(&tokens[at..], &["#", "["]) {
        at += 1 + group_length(&tokens[at + 1..]);
    }
    Some(at + item_length(&tokens[at..]))
}

/// Whether the predicate of a `cfg` that starts here is `test`, or `all` of `test` and others.
fn needs_test(predicate: &[Token]) -> bool {
    if texts_start(predicate, &["test", ")"]) {
        return true;
    }
    let Some(mut parts) = match_texts(predicate, &["all", "("]) else {
        return false;
    };
    while let [first, behind @ ..] = parts {
        match first.text {
            "test" => return true,
            ")" => return false,
            "(" => parts = &parts[group_length(parts)..],
            _ => parts = behind,
        }
    }
    false
}

/// Length of the item, field, arm or statement that starts here.
fn item_length(tokens: &[Token]) -> usize {
    const KEYWORDS: &[&str] = &[
        "async", "const", "enum", "extern", "fn", "impl", "mod", "pub", "static", "struct",
        "trait", "type", "union", "unsafe", "use",
    ];
    let is_item = tokens
        .first()
        .is_some_and(|first| KEYWORDS.contains(&first.text));
    // The braces of a `use` are not its end.
    let mut head = tokens.iter().take_while(|token| token.text != "{");
    let ends_with_semicolon = head.any(|token| token.text == "use");
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            ")" | "]" | "}" => return at,
            "{" if !ends_with_semicolon => return at + group_length(&tokens[at..]),
            "(" | "[" | "{" => at += group_length(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

/// Length of the bracketed group that starts here, both brackets included.
fn group_length(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// What stands behind `texts`, if the tokens start with them.
fn match_texts<'t, 'a>(tokens: &'t [Token<'a>], texts: &[&str]) -> Option<&'t [Token<'a>]> {
    texts_start(tokens, texts).then(|| &tokens[texts.len()..])
}

fn texts_start(tokens: &[Token], texts: &[&str]) -> bool {
    tokens.len() >= texts.len()
        && tokens
            .iter()
            .zip(texts)
            .all(|(token, text)| token.text == *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(code: &str) -> String {
        let texts: Vec<&str> = tokens_outside_tests(code)
            .iter()
            .map(|token| token.text)
            .collect();
        texts.join(" ")
    }

    #[test]
    fn words_paths_and_signs_have_their_lines() {
        let tokens = tokens("use a::b_1;\n\nx.y()");
        let pairs: Vec<_> = tokens
            .iter()
            .map(|token| (token.text, token.line))
            .collect();
        let first = [("use", 1), ("a", 1), ("::", 1), ("b_1", 1), (";", 1)];
        assert_eq!(pairs[..5], first);
        assert_eq!(pairs[5..7], [("x", 3), (".", 3)]);
    }

    #[test]
    fn what_only_tests_compile_goes() {
        for code in [
            "#[cfg(test)] mod tests { use a; }",
            "#[cfg(test)] #[path = \"\"] pub mod tests;",
            "#[cfg(all(not(loom), test))] pub(crate) use a::{b, c};",
            "#[cfg(test)] fn f<A, B>(x: [u8; 4]) -> A { { } }",
            "#[cfg(test)] pub(crate) const X: [u8; 2] = [1, 2];",
            "#[cfg(test)] field: crate::a::B,",
        ] {
            assert_eq!(kept(&format!("a {code} z")), "a z", "{code}");
        }
    }

    #[test]
    fn what_a_product_compiles_stays() {
        for code in [
            "# [ cfg ( not ( test ) ) ] mod a ;",
            "# [ cfg ( any ( test , loom ) ) ] mod a ;",
            "# [ cfg ( all ( not ( test ) , loom ) ) ] mod a ;",
            "# [ test_case ] fn a ( ) { }",
        ] {
            assert_eq!(kept(code), code);
        }
    }
}
