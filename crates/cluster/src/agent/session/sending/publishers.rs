//! Numbers for the publishers of a stream: the other side has a publisher for each.

use hythe_node::hop::Origin;
use hythe_node::{MemberIndex, PortIndex};

use crate::agent::session::PUBLISHERS_MAX;

/// Who has which number.
#[derive(Debug, Default)]
pub(super) struct PublisherNumbers {
    numbers: Vec<Option<Origin>>,
    /// Those whose ports are open.
    open: Vec<(MemberIndex, Option<PortIndex>)>,
    have_changed: bool,
}

impl PublisherNumbers {
    /// The number of who sent a message; the smallest free one if it has none. `None`: there are
    /// too many.
    pub(super) fn of(&mut self, origin: Origin) -> Option<u32> {
        let known = self.numbers.iter().position(|known| *known == Some(origin));
        let found = known.or_else(|| {
            let free = self.numbers.iter().position(Option::is_none);
            let free = free.unwrap_or(self.numbers.len());
            if free >= PUBLISHERS_MAX {
                return None;
            }
            if free == self.numbers.len() {
                self.numbers.push(None);
            }
            self.numbers[free] = Some(origin);
            Some(free)
        });
        // Fits: just compared.
        found.map(|number| number as u32)
    }

    /// These are open.
    pub(super) fn set_open(&mut self, open: &[(MemberIndex, Option<PortIndex>)]) {
        if self.open != open {
            self.open = open.to_vec();
            self.have_changed = true;
        }
    }

    /// One that has a number and has closed its port; the number is free. Asked when all that they
    /// sent is taken.
    pub(super) fn take_closed(&mut self) -> Option<u32> {
        if !self.have_changed {
            return None;
        }
        let is_closed = |known: &Option<Origin>| {
            known.is_some_and(|known| !self.open.contains(&(known.member, known.port)))
        };
        let closed = self.numbers.iter().position(is_closed);
        match closed {
            Some(number) => {
                self.numbers[number] = None;
                Some(number as u32)
            }
            None => {
                self.have_changed = false;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_anothers_only_after_its_port_has_closed() {
        let origin = |port| Origin {
            member: MemberIndex(1),
            port: Some(PortIndex(port)),
            number: 7,
        };
        let mut numbers = PublisherNumbers::default();
        let ports = |ports: &[u32]| -> Vec<_> {
            let place = |&port: &u32| (MemberIndex(1), Some(PortIndex(port)));
            ports.iter().map(place).collect()
        };
        numbers.set_open(&ports(&[4, 5]));
        assert_eq!(numbers.of(origin(4)), Some(0));
        assert_eq!(numbers.of(origin(5)), Some(1));
        assert_eq!(numbers.of(origin(4)), Some(0));
        assert_eq!(numbers.take_closed(), None);
        numbers.set_open(&ports(&[5]));
        assert_eq!(numbers.take_closed(), Some(0));
        assert_eq!(numbers.take_closed(), None);
        assert_eq!(numbers.of(origin(6)), Some(0));
        for port in 7..7 + PUBLISHERS_MAX as u32 - 2 {
            assert!(numbers.of(origin(port)).is_some());
        }
        assert_eq!(numbers.of(origin(3)), None);
    }
}
