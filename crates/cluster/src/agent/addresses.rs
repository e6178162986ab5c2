//! Where another host is dialled: at the addresses that the directory shows, at those where it
//! should be, and at the one that led to it last.
//!
//! Anybody in the realm can have any address shown for any host. So each attempt takes a bounded
//! number, those that have waited longest, and the address that led to the host and those where it
//! should be are always among them. Never dials.

use std::collections::VecDeque;
use std::net::SocketAddr;

/// Addresses of one attempt, which share its time: as many as one token of the directory has.
const AT_ONCE: usize = 12;

/// The addresses of a host.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// As the directory shows them: the newest first.
    shown: Vec<SocketAddr>,
    /// The same: whose turn it is.
    turns: VecDeque<SocketAddr>,
    /// Where it should be, whatever is shown.
    listed: Vec<SocketAddr>,
    /// The host proved its name there last.
    proven: Option<SocketAddr>,
}

impl Addresses {
    /// The directory shows these, and no others.
    pub(crate) fn show(&mut self, shown: Vec<SocketAddr>) {
        self.turns.retain(|address| shown.contains(address));
        for address in &shown {
            if !self.turns.contains(address) {
                self.turns.push_back(*address);
            }
        }
        self.shown = shown;
    }

    /// It should be at these, and no others. Of more than one attempt takes, the first.
    pub(crate) fn list(&mut self, mut listed: Vec<SocketAddr>) {
        listed.truncate(AT_ONCE);
        self.listed = listed;
    }

    /// The host proved its name at this address.
    pub(crate) fn prove(&mut self, address: &str) {
        // A carrier may name a place that is none.
        self.proven = address.parse().ok().or(self.proven);
    }

    /// All of them, the best first.
    pub(crate) fn all(&self) -> Vec<SocketAddr> {
        self.with_others(self.shown.clone())
    }

    /// Those of the next attempt, the best first.
    pub(crate) fn next_attempt(&mut self) -> Vec<SocketAddr> {
        if self.shown.len() <= AT_ONCE {
            return self.all();
        }
        let attempt: Vec<SocketAddr> = self.turns.iter().take(AT_ONCE).copied().collect();
        self.turns.rotate_left(AT_ONCE);
        self.with_others(attempt)
    }

    /// Those where it should be come behind what is shown. The proven one is in front if it is any
    /// of these; else the host may have moved, and it comes last.
    fn with_others(&self, mut some: Vec<SocketAddr>) -> Vec<SocketAddr> {
        for listed in &self.listed {
            if !some.contains(listed) {
                some.push(*listed);
            }
        }
        let Some(proven) = self.proven else {
            return some;
        };
        some.retain(|address| *address != proven);
        match self.shown.contains(&proven) || self.listed.contains(&proven) {
            true => some.insert(0, proven),
            false => some.push(proven),
        }
        some
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[test]
    fn each_of_many_addresses_has_its_turn_whatever_comes_and_goes() {
        let mut addresses = Addresses::default();
        let real = address(1);
        for first in [2, 1000] {
            let (mut tried, mut attempts) = (BTreeSet::new(), 0);
            // New ones in front of it all the time.
            while !tried.contains(&real) {
                let newest = (0..47).map(|number| address(first + 47 * attempts + number));
                addresses.show(newest.chain([real]).collect());
                let attempt = addresses.next_attempt();
                assert!(attempt.len() <= AT_ONCE + 1);
                tried.extend(attempt);
                attempts += 1;
                assert!(attempts <= 4, "48 are 4 attempts of 12");
            }
        }
    }

    #[test]
    fn where_it_should_be_it_is_dialled_whatever_is_shown() {
        let mut addresses = Addresses::default();
        addresses.list(vec![address(1), address(2)]);
        assert_eq!(addresses.next_attempt(), [address(1), address(2)]);
        addresses.show(vec![address(3), address(1)]);
        assert_eq!(
            addresses.next_attempt(),
            [address(3), address(1), address(2)]
        );
        addresses.show((3..100).map(address).collect());
        for _ in 0..20 {
            let attempt = addresses.next_attempt();
            assert!(attempt.contains(&address(1)) && attempt.contains(&address(2)));
        }
        addresses.list((0..100).map(address).collect());
        assert!(addresses.next_attempt().len() <= 2 * AT_ONCE);
        addresses.list(Vec::new());
        addresses.show(vec![address(3)]);
        assert_eq!(addresses.next_attempt(), [address(3)]);
    }

    #[test]
    fn address_that_led_to_the_host_is_in_every_attempt() {
        let mut addresses = Addresses::default();
        addresses.show(vec![address(1), address(2)]);
        assert_eq!(addresses.next_attempt(), [address(1), address(2)]);
        addresses.prove("10.0.0.1:2");
        addresses.prove("nowhere");
        assert_eq!(addresses.next_attempt(), [address(2), address(1)]);
        addresses.show((3..100).map(address).collect());
        for _ in 0..20 {
            assert!(addresses.next_attempt().contains(&address(2)));
        }
        // It has moved.
        addresses.show(vec![address(3)]);
        assert_eq!(addresses.next_attempt(), [address(3), address(2)]);
    }
}
