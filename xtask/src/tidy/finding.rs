//! What a rule says when it is broken: where, which rule, what is there, and what to do.

use std::fmt;

/// One broken rule at one place. Sorts by place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// Counted from 1; 1 also for what concerns the file as a whole.
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            rule,
            what,
            remedy,
        } = self;
        write!(out, "{path}:{line}: {rule}: {what}; {remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::Finding;

    #[test]
    fn reads_like_a_compiler_message() {
        let finding = Finding {
            path: "a/b.rs".to_owned(),
            line: 7,
            rule: "length",
            what: "too long".to_owned(),
            remedy: "cut it",
        };
        assert_eq!(finding.to_string(), "a/b.rs:7: length: too long; cut it");
    }
}
