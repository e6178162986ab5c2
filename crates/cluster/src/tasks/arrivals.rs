//! Messages that wait for their receiver, found by sender and tag in the order of their arrival.
//!
//! Used by the inbox of a task and by that of PVM. Of few messages each is compared. Of many there
//! is an index for each kind of [`Pattern`], made when that kind is used first: finding, adding or
//! removing one takes a time that grows with the logarithm of their number, also where sender, tag
//! or both may be any.
//!
//! Never limits what is kept: its user does.

use std::collections::{BTreeMap, BTreeSet};

/// The most messages that are compared one by one.
const COMPARED_MAX: usize = 32;
/// Kinds of patterns: with or without a sender, with or without a tag.
const KINDS: usize = 4;

/// What a message is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its context, which is never any.
    pub context: u32,
    /// The number of its sender.
    pub source: u32,
    /// Its tag.
    pub tag: u32,
}

/// Which messages are looked for. `None` matches any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The context, which has to be the same.
    pub context: u32,
    /// The number of the sender.
    pub source: Option<u32>,
    /// The tag.
    pub tag: Option<u32>,
}

impl Pattern {
    /// Does it match a message with this label?
    #[must_use]
    pub fn matches(self, label: Label) -> bool {
        self.context == label.context
            && self.source.is_none_or(|source| source == label.source)
            && self.tag.is_none_or(|tag| tag == label.tag)
    }

    fn kind(self) -> Kind {
        Kind {
            has_source: self.source.is_some(),
            has_tag: self.tag.is_some(),
        }
    }

    /// The least key that an index of its kind may have for it.
    fn first_key(self) -> Key {
        (
            self.context,
            self.source.unwrap_or(0),
            self.tag.unwrap_or(0),
            0,
        )
    }
}

/// Which parts of a label patterns of a kind name.
#[derive(Clone, Copy, Debug)]
struct Kind {
    has_source: bool,
    has_tag: bool,
}

/// Context, sender and tag, or 0 for what a kind does not name, and the number of the message.
type Key = (u32, u32, u32, u64);

impl Kind {
    const fn of_index(index: usize) -> Self {
        Self {
            has_source: index & 1 != 0,
            has_tag: index & 2 != 0,
        }
    }

    const fn index(self) -> usize {
        self.has_source as usize | (self.has_tag as usize) << 1
    }

    const fn key(self, label: Label, number: u64) -> Key {
        (
            label.context,
            if self.has_source { label.source } else { 0 },
            if self.has_tag { label.tag } else { 0 },
            number,
        )
    }
}

/// Messages in the order of their arrival. Each has a number, from 1 on.
#[derive(Debug)]
pub struct Arrivals<M> {
    messages: BTreeMap<u64, (Label, M)>,
    indexes: [Option<BTreeSet<Key>>; KINDS],
    arrived: u64,
}

impl<M> Default for Arrivals<M> {
    fn default() -> Self {
        Self {
            messages: BTreeMap::new(),
            indexes: [const { None }; KINDS],
            arrived: 0,
        }
    }
}

impl<M> Arrivals<M> {
    /// Adds a message behind all others: its number.
    pub fn push(&mut self, label: Label, message: M) -> u64 {
        self.arrived += 1;
        let number = self.arrived;
        self.messages.insert(number, (label, message));
        for (index, kept) in self.indexes.iter_mut().enumerate() {
            if let Some(kept) = kept {
                kept.insert(Kind::of_index(index).key(label, number));
            }
        }
        number
    }

    /// The number of the first message that matches.
    pub fn find(&mut self, pattern: Pattern) -> Option<u64> {
        let kind = pattern.kind();
        let index = &mut self.indexes[kind.index()];
        let messages = &self.messages;
        if index.is_none() && messages.len() <= COMPARED_MAX {
            let mut messages = messages.iter();
            let found = messages.find(|(_, (label, _))| pattern.matches(*label));
            return found.map(|(number, _)| *number);
        }
        let index = index.get_or_insert_with(|| {
            let keys = messages.iter();
            keys.map(|(number, (label, _))| kind.key(*label, *number))
                .collect()
        });
        let first = pattern.first_key();
        let last = (first.0, first.1, first.2, u64::MAX);
        index.range(first..=last).next().map(|key| key.3)
    }

    /// The message with a number.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&M> {
        self.messages.get(&number).map(|(_, message)| message)
    }

    /// Takes the message with a number.
    pub fn take(&mut self, number: u64) -> Option<M> {
        let (label, message) = self.messages.remove(&number)?;
        match self.messages.is_empty() {
            true => self.indexes = [const { None }; KINDS],
            false => {
                for (index, kept) in self.indexes.iter_mut().enumerate() {
                    if let Some(kept) = kept {
                        kept.remove(&Kind::of_index(index).key(label, number));
                    }
                }
            }
        }
        Some(message)
    }

    /// The number of the first message behind that with number `after`.
    #[must_use]
    pub fn next(&self, after: u64) -> Option<u64> {
        let behind = after.checked_add(1)?;
        let mut behind = self.messages.range(behind..);
        behind.next().map(|(number, _)| *number)
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn label(source: u32, tag: u32, context: u32) -> Label {
        Label {
            context,
            source,
            tag,
        }
    }

    /// All patterns that name one of few senders, tags and contexts, or any.
    fn patterns() -> Vec<Pattern> {
        let any_or = [None, Some(0), Some(1), Some(2), Some(3)];
        let of_context = |context| {
            any_or.into_iter().flat_map(move |source| {
                any_or.into_iter().map(move |tag| Pattern {
                    context,
                    source,
                    tag,
                })
            })
        };
        (0..3).flat_map(of_context).collect()
    }

    /// What the first match is, found without an index.
    fn first(kept: &[(u64, Label)], pattern: Pattern) -> Option<u64> {
        let mut kept = kept.iter();
        let found = kept.find(|(_, label)| pattern.matches(*label));
        found.map(|(number, _)| *number)
    }

    #[test]
    fn indexes_find_the_first_match_in_order_of_arrival() {
        let (mut arrivals, mut kept) = (Arrivals::default(), Vec::new());
        for step in 0..4 * COMPARED_MAX as u32 {
            let label = label(step % 3, step / 3 % 4, step / 7 % 3);
            kept.push((arrivals.push(label, step), label));
            for pattern in patterns() {
                assert_eq!(arrivals.find(pattern), first(&kept, pattern), "{pattern:?}");
            }
        }
        // Each pattern in turn takes its first, until none is left.
        while !kept.is_empty() {
            for pattern in patterns() {
                let found = arrivals.find(pattern);
                assert_eq!(found, first(&kept, pattern), "{pattern:?}");
                let Some(number) = found else { continue };
                let message = arrivals.take(number).expect("it was found");
                assert_eq!(u64::from(message) + 1, number);
                kept.retain(|(other, _)| *other != number);
            }
        }
        assert!(arrivals.is_empty());
        assert_eq!(arrivals.take(1), None);
    }

    #[test]
    fn next_walks_messages_in_order_of_arrival() {
        let mut arrivals = Arrivals::default();
        for tag in 1..=3 {
            arrivals.push(label(1, tag, 0), tag);
        }
        assert_eq!(arrivals.take(2), Some(2));
        assert_eq!(arrivals.next(0), Some(1));
        assert_eq!(arrivals.next(1), Some(3));
        assert_eq!(arrivals.next(3), None);
        assert_eq!(arrivals.next(u64::MAX), None);
        assert_eq!(arrivals.get(3), Some(&3));
    }
}
