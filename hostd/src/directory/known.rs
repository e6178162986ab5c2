//! Which hosts there are, by the tokens that are there, and what has not been told yet.
//!
//! Memory is bounded whatever is declared: so many hosts, so many tokens for each. Hosts of the
//! realm's list have places of their own, so that names that nobody has keep none of them out. A
//! change is told as what is true when it is asked for, so a host that comes and goes fills no
//! queue.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use hythe_cluster::{DirectoryEvent, HOSTS_MAX, HostName};

use super::token::Token;
use super::tokens::{Places, Tokens};

/// Hosts of the realm's list that are known at once: above it, routers belong between them
/// (`docs/guide/hosts.md`).
const LISTED_MAX: usize = 4_096;
/// Names that the realm's list does not have: of hosts that were added since, or of nobody. Fewer,
/// where the list has so many that the agent would have no place left for its hosts.
const UNLISTED_MAX: usize = 64;
/// Tokens that ended during a sweep, which may show them still; of more, some are taken for there
/// until the session is opened again.
const ENDED_MAX: usize = 4_096;

/// The hosts.
#[derive(Debug, Default)]
pub(super) struct Known {
    hosts: BTreeMap<HostName, Host>,
    /// Hosts with something to tell, each once.
    changed: VecDeque<HostName>,
    /// Those of the realm.
    listed: BTreeSet<HostName>,
    /// How many of the hosts are not.
    unlisted: usize,
    places: Places,
    generation: u64,
    refused: u64,
    /// There was no place for a host.
    has_refused_hosts: bool,
    sweep: Sweep,
}

#[derive(Debug, Default)]
struct Host {
    tokens: Tokens,
    /// The addresses that were told last, if it was said to be there.
    told: Option<Vec<SocketAddr>>,
    is_queued: bool,
}

/// The last sweep over all tokens.
#[derive(Debug, Default)]
struct Sweep {
    number: u64,
    is_going: bool,
    /// Tokens that ended meanwhile.
    ended: BTreeSet<(HostName, String)>,
}

impl Known {
    /// A token is there.
    pub(super) fn add(&mut self, token: &Token) {
        self.sweep.ended.remove(&token.key());
        if !self.make_place(&token.host) {
            self.refused += 1;
            return;
        }
        let Some(host) = self.hosts.get_mut(&token.host) else {
            return;
        };
        match host.tokens.add(token, self.generation, &self.places) {
            true => self.mark(&token.host),
            false => self.refused += 1,
        }
    }

    /// A token is there no more.
    pub(super) fn remove(&mut self, token: &Token) {
        if self.sweep.is_going && self.sweep.ended.len() < ENDED_MAX {
            self.sweep.ended.insert(token.key());
        }
        let host = self.hosts.get_mut(&token.host);
        if host.is_some_and(|host| host.tokens.remove(&token.rest)) {
            self.mark(&token.host);
        }
    }

    /// The hosts of the realm's list, which go before all others.
    pub(super) fn set_listed(&mut self, listed: impl IntoIterator<Item = HostName>) {
        let listed: BTreeSet<HostName> = listed.into_iter().collect();
        if listed == self.listed {
            return;
        }
        self.listed = listed;
        let names = self.hosts.keys();
        let unlisted = names.filter(|name| !self.listed.contains(*name));
        let unlisted: Vec<HostName> = unlisted.cloned().collect();
        self.unlisted = unlisted.len();
        for name in unlisted.iter().skip(self.unlisted_max()) {
            self.has_refused_hosts = true;
            if let Some(host) = self.hosts.get_mut(name) {
                host.tokens.clear();
                self.mark(name);
            }
        }
    }

    /// The session was opened again: all tokens are about to be seen anew.
    pub(super) fn begin_generation(&mut self) {
        self.end_sweep(self.sweep.number, false);
        self.generation += 1;
    }

    /// Tokens that were not seen anew are not there any more.
    pub(super) fn end_generation(&mut self) {
        let generation = self.generation;
        let all = self.hosts.iter_mut();
        let changed = all.filter_map(|(name, host)| {
            let has_changed = host.tokens.retain_generation(generation);
            has_changed.then(|| name.clone())
        });
        let changed: Vec<HostName> = changed.collect();
        changed.iter().for_each(|name| self.mark(name));
    }

    /// There are hosts or tokens that were not kept: a sweep shows them.
    pub(super) fn is_incomplete(&self) -> bool {
        self.has_refused_hosts || self.hosts.values().any(|host| host.tokens.is_incomplete())
    }

    /// All tokens are about to be shown, by [`add_swept`](Self::add_swept) with this number.
    pub(super) fn begin_sweep(&mut self) -> u64 {
        self.end_sweep(self.sweep.number, false);
        self.has_refused_hosts = false;
        let hosts = self.hosts.values_mut();
        hosts.for_each(|host| host.tokens.begin_sweep());
        self.sweep.is_going = true;
        self.sweep.number += 1;
        self.sweep.number
    }

    /// A sweep shows a token.
    pub(super) fn add_swept(&mut self, number: u64, token: &Token) {
        let is_current = self.sweep.is_going && self.sweep.number == number;
        if !is_current || self.sweep.ended.contains(&token.key()) {
            return;
        }
        if !self.make_place(&token.host) {
            return;
        }
        if let Some(host) = self.hosts.get_mut(&token.host) {
            host.tokens.add_swept(token, self.generation, &self.places);
        }
        self.mark(&token.host);
    }

    /// A sweep has shown all tokens; or not, if it is not `whole`.
    pub(super) fn end_sweep(&mut self, number: u64, is_whole: bool) {
        if !self.sweep.is_going || self.sweep.number != number {
            return;
        }
        self.sweep.is_going = false;
        self.sweep.ended.clear();
        self.has_refused_hosts |= !is_whole;
        let all = self.hosts.iter_mut();
        let changed = all.filter_map(|(name, host)| {
            let has_changed = host.tokens.end_sweep(is_whole);
            has_changed.then(|| name.clone())
        });
        let changed: Vec<HostName> = changed.collect();
        changed.iter().for_each(|name| self.mark(name));
    }

    /// The next thing to tell.
    pub(super) fn take(&mut self) -> Option<DirectoryEvent> {
        while let Some(name) = self.changed.pop_front() {
            let Some(host) = self.hosts.get_mut(&name) else {
                continue;
            };
            host.is_queued = false;
            let now = host.tokens.addresses();
            if now == host.told {
                if now.is_none() {
                    self.forget(&name);
                }
                continue;
            }
            host.told.clone_from(&now);
            return Some(match now {
                Some(addresses) => DirectoryEvent::Seen {
                    host: name,
                    addresses,
                },
                None => {
                    self.forget(&name);
                    DirectoryEvent::Gone { host: name }
                }
            });
        }
        None
    }

    /// Tokens that there was no memory for when they were declared.
    pub(super) const fn refused(&self) -> u64 {
        self.refused
    }

    /// False: there is no place for a host of this name.
    fn make_place(&mut self, name: &HostName) -> bool {
        if self.hosts.contains_key(name) {
            return true;
        }
        let is_listed = self.listed.contains(name);
        let has_place = match is_listed {
            true => self.hosts.len() - self.unlisted < LISTED_MAX,
            false => self.unlisted < self.unlisted_max(),
        };
        if has_place {
            self.unlisted += usize::from(!is_listed);
            self.hosts.insert(name.clone(), Host::default());
        } else {
            self.has_refused_hosts = true;
        }
        has_place
    }

    fn unlisted_max(&self) -> usize {
        UNLISTED_MAX.min(HOSTS_MAX.saturating_sub(self.listed.len()))
    }

    /// Queues a host; forgets it instead if it was never told of and is not there.
    fn mark(&mut self, name: &HostName) {
        let Some(host) = self.hosts.get_mut(name) else {
            return;
        };
        if host.tokens.is_empty() && host.told.is_none() && !host.is_queued {
            self.forget(name);
        } else if !host.is_queued {
            host.is_queued = true;
            self.changed.push_back(name.clone());
        }
    }

    /// A sweep shows what there was no room for.
    fn forget(&mut self, name: &HostName) {
        let Some(host) = self.hosts.remove(name) else {
            return;
        };
        self.unlisted -= usize::from(!self.listed.contains(name));
        self.has_refused_hosts |= host.tokens.is_incomplete();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(host: &str) -> HostName {
        host.parse().expect("a name")
    }

    fn token(host: &str, session: u16) -> Token {
        Token {
            host: name(host),
            rest: session.to_string(),
            addresses: vec![address(session)],
        }
    }

    fn address(session: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], session))
    }

    fn add(known: &mut Known, host: &str, session: u16) {
        known.add(&token(host, session));
    }

    fn sweep(known: &mut Known, tokens: &[Token]) {
        let number = known.begin_sweep();
        tokens
            .iter()
            .for_each(|token| known.add_swept(number, token));
        known.end_sweep(number, true);
    }

    fn told(known: &Known, host: &str) -> Vec<SocketAddr> {
        let host = known.hosts.get(&name(host));
        host.and_then(|host| host.told.clone()).unwrap_or_default()
    }

    fn events(known: &mut Known) -> Vec<String> {
        let next = std::iter::from_fn(|| known.take());
        let text = next.map(|event| match event {
            DirectoryEvent::Seen { host, addresses } => format!("{host} {addresses:?}"),
            DirectoryEvent::Gone { host } => format!("{host} gone"),
            other => panic!("{other:?} is of the realm's list"),
        });
        text.collect()
    }

    #[test]
    fn host_is_there_while_one_of_its_tokens_is() {
        let mut known = Known::default();
        add(&mut known, "a", 1);
        assert_eq!(events(&mut known), ["a [10.0.0.1:1]"]);
        add(&mut known, "a", 2);
        assert_eq!(events(&mut known), ["a [10.0.0.1:2, 10.0.0.1:1]"]);
        known.remove(&token("a", 1));
        assert_eq!(events(&mut known), ["a [10.0.0.1:2]"]);
        known.remove(&token("a", 2));
        assert_eq!(events(&mut known), ["a gone"]);
        assert!(known.hosts.is_empty());
    }

    #[test]
    fn what_came_and_went_unasked_is_not_told() {
        let mut known = Known::default();
        for _ in 0..100 {
            add(&mut known, "a", 1);
            known.remove(&token("a", 1));
        }
        assert_eq!(known.changed.len(), 1);
        assert!(events(&mut known).is_empty());
        assert!(known.hosts.is_empty());
        known.remove(&token("nobody", 1));
        assert!(events(&mut known).is_empty());
    }

    #[test]
    fn host_that_was_not_seen_again_after_reopening_is_gone() {
        let mut known = Known::default();
        add(&mut known, "a", 1);
        add(&mut known, "b", 1);
        assert_eq!(events(&mut known).len(), 2);
        known.begin_generation();
        add(&mut known, "a", 1);
        assert!(events(&mut known).is_empty(), "nothing is new");
        known.end_generation();
        assert_eq!(events(&mut known), ["b gone"]);
    }

    #[test]
    fn memory_is_bounded_and_what_exceeds_it_counted() {
        let mut known = Known::default();
        (1..=100).for_each(|session| add(&mut known, "a", session));
        assert_eq!(known.refused(), 96);
        for host in 0..2 * LISTED_MAX {
            add(&mut known, &format!("h{host}"), 1);
        }
        assert_eq!(known.hosts.len(), UNLISTED_MAX);
        assert_eq!(events(&mut known).len(), UNLISTED_MAX);
        assert_eq!(told(&known, "a").len(), 4);
        known.set_listed((0..2 * LISTED_MAX).map(|host| name(&format!("h{host}"))));
        for host in 0..2 * LISTED_MAX {
            add(&mut known, &format!("h{host}"), 1);
        }
        assert_eq!(known.hosts.len(), LISTED_MAX + 1, "a goes, once it is told");
        events(&mut known);
        assert_eq!(known.hosts.len(), LISTED_MAX);
    }

    /// A hundred false ones, whether they come before the real one or after it, and as many more
    /// that come and go.
    #[test]
    fn token_among_many_false_ones_of_its_host_is_kept_in_time() {
        let real = token("a", 1);
        let tokens: Vec<Token> = (1..=101).map(|session| token("a", session)).collect();
        for is_first in [true, false] {
            let mut known = Known::default();
            let mut declared = tokens.clone();
            if !is_first {
                declared.reverse();
            }
            declared.iter().for_each(|token| known.add(token));
            events(&mut known);
            // All are kept in their turn, the real one among them.
            for round in [1_u16, 2] {
                let mut seen = BTreeSet::new();
                for turn in 0..=101 / 4 {
                    assert!(known.is_incomplete());
                    for churning in 0..100 {
                        let other = token("a", 1000 * round + 100 * turn + churning);
                        known.add(&other);
                        known.remove(&other);
                    }
                    sweep(&mut known, &declared);
                    events(&mut known);
                    let now = told(&known, "a");
                    assert_eq!(now.len(), 4);
                    seen.extend(now);
                }
                assert!(seen.contains(&real.addresses[0]), "round {round}");
                assert_eq!(seen.len(), 101, "round {round}");
            }
            // The false ones end.
            let mut known_false = declared.iter().filter(|token| token.rest != real.rest);
            known_false.by_ref().for_each(|token| known.remove(token));
            sweep(&mut known, std::slice::from_ref(&real));
            events(&mut known);
            assert_eq!(told(&known, "a"), real.addresses);
            assert!(!known.is_incomplete());
        }
    }

    #[test]
    fn host_of_the_list_is_kept_whatever_names_are_declared() {
        let mut known = Known::default();
        let flood: Vec<Token> = (0..1000)
            .map(|number| token(&format!("a{number}"), 1))
            .collect();
        flood.iter().for_each(|token| known.add(token));
        // Not known to be one of the realm yet.
        add(&mut known, "b", 1);
        assert_eq!(told(&known, "b"), []);
        known.set_listed([name("b"), name("c")]);
        add(&mut known, "c", 1);
        let all = [&flood[..], &[token("b", 1), token("c", 1)]].concat();
        assert!(known.is_incomplete());
        sweep(&mut known, &all);
        events(&mut known);
        assert_eq!(told(&known, "b"), [address(1)]);
        assert_eq!(told(&known, "c"), [address(1)]);
    }

    /// The agent has a place for each host of the list, and unlisted names take none of them.
    #[test]
    fn unlisted_names_leave_the_agents_places_to_the_listed() {
        let mut known = Known::default();
        (0..50).for_each(|number| add(&mut known, &format!("false{number}"), 1));
        assert_eq!(events(&mut known).len(), 50);
        known.set_listed((0..HOSTS_MAX - 10).map(|number| name(&format!("h{number}"))));
        let gone = events(&mut known);
        assert_eq!(gone.len(), 40);
        assert!(
            gone.iter().all(|event| event.ends_with(" gone")),
            "{gone:?}"
        );
        assert_eq!(known.hosts.len(), 10);
    }

    #[test]
    fn what_ends_during_a_sweep_is_not_kept_by_it() {
        let mut known = Known::default();
        (1..=5).for_each(|session| add(&mut known, "a", session));
        let number = known.begin_sweep();
        known.remove(&token("a", 1));
        known.remove(&token("b", 1));
        for shown in [token("a", 1), token("b", 1), token("a", 2)] {
            known.add_swept(number, &shown);
        }
        known.end_sweep(number, true);
        events(&mut known);
        assert_eq!(told(&known, "a"), [address(2)]);
        assert!(!known.hosts.contains_key(&name("b")));
        // Of a sweep that is over.
        known.add_swept(number, &token("a", 3));
        assert!(events(&mut known).is_empty());
    }

    #[test]
    fn interrupted_sweep_keeps_entries_and_is_repeated() {
        let mut known = Known::default();
        (1..=5).for_each(|session| add(&mut known, "a", session));
        let number = known.begin_sweep();
        known.add_swept(number, &token("a", 5));
        known.end_sweep(number, false);
        events(&mut known);
        assert_eq!(told(&known, "a").len(), 4);
        assert!(told(&known, "a").contains(&address(5)));
        assert!(known.is_incomplete());
    }
}
