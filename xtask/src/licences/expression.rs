//! SPDX licence expressions: `(MIT OR Apache-2.0) AND Unicode-3.0`, `Apache-2.0 WITH
//! LLVM-exception`.
//!
//! The grammar, with the older `MIT/Apache-2.0` for OR:
//!
//! ```text
//! choice = all { "OR" all }
//! all    = term { "AND" term }
//! term   = "(" choice ")" | NAME [ "WITH" NAME ]
//! ```
//!
//! Never knows which licences are good: the caller judges each term.

/// Whether some choice in `expression` consists of terms for which `is_permitted` holds. A term
/// with an exception is judged as a whole, `NAME WITH EXCEPTION`.
pub(crate) fn is_satisfied(
    expression: &str,
    is_permitted: impl Fn(&str) -> bool,
) -> Result<bool, String> {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut parser = Parser {
        tokens: spaced.split_whitespace().collect(),
        next: 0,
        is_permitted,
    };
    let satisfied = parser.choice()?;
    match parser.peek() {
        None => Ok(satisfied),
        Some(token) => Err(format!("unexpected {token:?}")),
    }
}

struct Parser<'text, Judge> {
    tokens: Vec<&'text str>,
    next: usize,
    is_permitted: Judge,
}

impl<Judge: Fn(&str) -> bool> Parser<'_, Judge> {
    fn choice(&mut self) -> Result<bool, String> {
        let mut satisfied = self.all()?;
        while self.accept("OR") {
            satisfied |= self.all()?;
        }
        Ok(satisfied)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut satisfied = self.term()?;
        while self.accept("AND") {
            satisfied &= self.term()?;
        }
        Ok(satisfied)
    }

    // Recursion is as deep as the parentheses of an expression that cargo has accepted.
    fn term(&mut self) -> Result<bool, String> {
        if self.accept("(") {
            let satisfied = self.choice()?;
            return if self.accept(")") {
                Ok(satisfied)
            } else {
                Err("missing )".to_owned())
            };
        }
        let mut term = self.name()?.to_owned();
        if self.accept("WITH") {
            term = format!("{term} WITH {}", self.name()?);
        }
        Ok((self.is_permitted)(&term))
    }

    fn name(&mut self) -> Result<&str, String> {
        match self.peek() {
            None => Err("ends too early".to_owned()),
            Some(token @ ("AND" | "OR" | "WITH" | "(" | ")")) => {
                Err(format!("unexpected {token:?}"))
            }
            Some(_) => {
                self.next += 1;
                Ok(self.tokens[self.next - 1])
            }
        }
    }

    fn accept(&mut self, token: &str) -> bool {
        let accepted = self.peek() == Some(token);
        self.next += usize::from(accepted);
        accepted
    }

    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.next).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::is_satisfied;

    fn with_mit(expression: &str) -> Result<bool, String> {
        is_satisfied(expression, |term| term == "MIT" || term == "A WITH B")
    }

    #[test]
    fn and_binds_tighter_than_or() {
        assert_eq!(with_mit("MIT OR GPL AND GPL"), Ok(true));
        assert_eq!(with_mit("GPL AND MIT OR GPL"), Ok(false));
        assert_eq!(with_mit("GPL AND (MIT OR GPL)"), Ok(false));
        assert_eq!(with_mit("MIT AND (GPL OR MIT)"), Ok(true));
    }

    #[test]
    fn exception_belongs_to_its_licence() {
        assert_eq!(with_mit("A WITH B"), Ok(true));
        assert_eq!(with_mit("A"), Ok(false));
        assert_eq!(with_mit("MIT WITH B"), Ok(false));
    }

    #[test]
    fn refuses_what_is_no_expression() {
        for expression in [
            "", "MIT MIT", "MIT AND", "(MIT", "MIT)", "OR MIT", "MIT WITH",
        ] {
            assert!(with_mit(expression).is_err(), "{expression:?}");
        }
    }
}
