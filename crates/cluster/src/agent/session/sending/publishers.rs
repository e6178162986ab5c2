//! Numbers for the publishers of a stream: the other side has a publisher for each.

use hythe_node::hop::Origin;

use crate::agent::session::PUBLISHERS_MAX;

/// Who has which number.
#[derive(Debug, Default)]
pub(super) struct PublisherNumbers {
    numbers: Vec<Option<Origin>>,
    /// How many of them are somebody's.
    used: usize,
}

impl PublisherNumbers {
    /// The number of who sent a message; the smallest free one if it has none. `None`: there are
    /// too many.
    pub(super) fn of(&mut self, origin: Origin) -> Option<u32> {
        let known = self.numbers.iter().position(|known| *known == Some(origin));
        // Fits, as that of a new one: there are at most so many.
        known.map(|known| known as u32).or_else(|| self.add(origin))
    }

    fn add(&mut self, origin: Origin) -> Option<u32> {
        let free = self.numbers.iter().position(Option::is_none);
        let free = free.unwrap_or(self.numbers.len());
        if free >= PUBLISHERS_MAX {
            return None;
        }
        if free == self.numbers.len() {
            self.numbers.push(None);
        }
        self.numbers[free] = Some(origin);
        self.used += 1;
        Some(free as u32)
    }

    /// A publisher sends to a stronger port of this side now: it keeps its number. So does one
    /// that has its port's number meanwhile; to the other side they are one.
    pub(super) fn follow(&mut self, origin: Origin) {
        let port = |of: Origin| of.port.map(|port| (of.member, port));
        if port(origin).is_none() || self.numbers.contains(&Some(origin)) {
            return;
        }
        let is_its = |known: &&mut Option<Origin>| known.is_some_and(|of| port(of) == port(origin));
        if let Some(known) = self.numbers.iter_mut().find(is_its) {
            *known = Some(origin);
        }
    }

    /// One that is none of those any more: it has closed its port, and all that it sent is taken.
    /// Its number is free.
    pub(super) fn take_closed<I>(&mut self, open: impl Fn() -> I) -> Option<u32>
    where
        I: Iterator<Item = Origin>,
    {
        if open().count() >= self.used {
            // One that has closed while another opened is found when that has sent something.
            return None;
        }
        let mut numbered = self.numbers.iter().enumerate();
        let closed = numbered.find_map(|(number, known)| {
            let known = (*known)?;
            (!open().any(|origin| origin == known)).then_some(number)
        })?;
        self.numbers[closed] = None;
        self.used -= 1;
        Some(closed as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_node::{MemberIndex, PortIndex};

    #[test]
    fn publisher_that_goes_over_to_another_port_keeps_its_number() {
        let origin = |port, number| Origin {
            member: MemberIndex(1),
            port: Some(PortIndex(port)),
            number,
        };
        let mut numbers = PublisherNumbers::default();
        assert_eq!(numbers.of(origin(3, 4)), Some(0));
        assert_eq!(numbers.of(origin(5, 6)), Some(1));
        numbers.follow(origin(5, 8));
        numbers.follow(origin(7, 9));
        assert_eq!(numbers.of(origin(5, 8)), Some(1));
        let both = || [origin(3, 4), origin(5, 8)].into_iter();
        assert_eq!(numbers.take_closed(both), None);
        assert_eq!(numbers.of(origin(7, 9)), Some(2));
    }

    #[test]
    fn number_is_anothers_only_after_its_publisher_has_gone() {
        let origin = |number| Origin {
            member: MemberIndex(1),
            port: Some(PortIndex(3)),
            number,
        };
        let mut numbers = PublisherNumbers::default();
        assert_eq!(numbers.of(origin(4)), Some(0));
        assert_eq!(numbers.of(origin(5)), Some(1));
        assert_eq!(numbers.of(origin(4)), Some(0));
        let both = || [4, 5].map(origin).into_iter();
        assert_eq!(numbers.take_closed(both), None);
        let one = || [5].map(origin).into_iter();
        assert_eq!(numbers.take_closed(one), Some(0));
        assert_eq!(numbers.take_closed(one), None);
        assert_eq!(numbers.of(origin(6)), Some(0));
        for number in 7..7 + PUBLISHERS_MAX as u64 - 2 {
            assert!(numbers.of(origin(number)).is_some());
        }
        assert_eq!(numbers.of(origin(3)), None);
    }
}
