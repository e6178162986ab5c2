//! Message handlers of `pvm_addmhf`: what is called for which messages, as soon as they come in.

use std::collections::BTreeMap;

use crate::buffer::Info;
use crate::code::Code;

/// Which messages a handler is for; -1 matches any sender, tag or context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Number of the sender.
    pub source: i32,
    /// Their tag.
    pub tag: i32,
    /// Their context.
    pub context: i32,
}

impl Pattern {
    fn is(&self, info: &Info) -> bool {
        [-1, info.source].contains(&self.source)
            && [-1, info.tag].contains(&self.tag)
            && [-1, info.context].contains(&self.context)
    }
}

/// Handlers by their numbers, from 0 on. `F` is what is called.
#[derive(Debug)]
pub struct Handlers<F> {
    handlers: BTreeMap<i32, (Pattern, F)>,
}

impl<F> Default for Handlers<F> {
    fn default() -> Self {
        Self {
            handlers: BTreeMap::new(),
        }
    }
}

impl<F: Clone> Handlers<F> {
    /// Adds one: its number, the least that is free.
    ///
    /// # Errors
    /// [`Code::EXISTS`]: there is one for the same messages.
    pub fn add(&mut self, pattern: Pattern, call: F) -> Result<i32, Code> {
        if self.handlers.values().any(|(other, _)| *other == pattern) {
            return Err(Code::EXISTS);
        }
        let free = (0..).find(|number| !self.handlers.contains_key(number));
        // There is one: a table in memory has fewer than 2^31 entries.
        let number = free.ok_or(Code::NO_MEMORY)?;
        self.handlers.insert(number, (pattern, call));
        Ok(number)
    }

    /// Takes one away.
    ///
    /// # Errors
    /// [`Code::BAD_PARAMETER`]: a negative number; [`Code::NOT_FOUND`].
    pub fn remove(&mut self, number: i32) -> Result<(), Code> {
        if number < 0 {
            return Err(Code::BAD_PARAMETER);
        }
        let removed = self.handlers.remove(&number);
        removed.map(drop).ok_or(Code::NOT_FOUND)
    }

    /// What is to be called for a message: the handler that names most about it.
    #[must_use]
    pub fn find(&self, info: &Info) -> Option<F> {
        let matching = self.handlers.values().filter(|(one, _)| one.is(info));
        let named = |pattern: &Pattern| {
            let fields = [pattern.source, pattern.tag, pattern.context];
            fields.iter().filter(|field| **field != -1).count()
        };
        // Of equals the last.
        let found = matching.max_by_key(|(pattern, _)| named(pattern));
        found.map(|(_, call)| call.clone())
    }

    /// Numbers and patterns, for a person.
    pub fn list(&self) -> impl Iterator<Item = (i32, &Pattern)> {
        let handlers = self.handlers.iter();
        handlers.map(|(number, (pattern, _))| (*number, pattern))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Pattern = Pattern {
        source: -1,
        tag: -1,
        context: 3,
    };

    #[test]
    fn numbers_are_used_again_and_patterns_are_not() {
        let mut handlers = Handlers::default();
        assert_eq!(handlers.add(ANY, 'a'), Ok(0));
        assert_eq!(handlers.add(ANY, 'b'), Err(Code::EXISTS));
        let one = Pattern { tag: 5, ..ANY };
        assert_eq!(handlers.add(one, 'b'), Ok(1));
        assert_eq!(handlers.remove(0), Ok(()));
        assert_eq!(handlers.remove(0), Err(Code::NOT_FOUND));
        assert_eq!(handlers.remove(-1), Err(Code::BAD_PARAMETER));
        assert_eq!(handlers.add(ANY, 'c'), Ok(0));
    }

    #[test]
    fn closest_handler_is_called() {
        let mut handlers = Handlers::default();
        handlers.add(ANY, 'a').expect("new");
        handlers.add(Pattern { tag: 5, ..ANY }, 'b').expect("new");
        let mut info = Info {
            context: 3,
            tag: 5,
            ..Info::default()
        };
        assert_eq!(handlers.find(&info), Some('b'));
        info.tag = 6;
        assert_eq!(handlers.find(&info), Some('a'));
        info.context = 4;
        assert_eq!(handlers.find(&info), None);
    }
}
