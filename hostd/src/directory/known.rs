//! Which hosts there are, by the tokens that are there, and what has not been told yet.
//!
//! Memory is bounded whatever is declared: so many hosts, so many tokens for each. A change is told
//! as what is true when it is asked for, so a host that comes and goes fills no queue.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use hythe_cluster::{DirectoryEvent, HostName};

use super::token::Token;

/// Hosts that are known at once: above it, routers belong between them (`docs/guide/hosts.md`).
const HOSTS_MAX: usize = 4_096;
/// Tokens of one host: its agent's, that of the agent before it, which the lease still holds, and
/// as many again from those who declare what is not theirs.
const TOKENS_MAX: usize = 4;

/// The hosts.
#[derive(Debug, Default)]
pub(super) struct Known {
    hosts: BTreeMap<HostName, Host>,
    /// Hosts with something to tell, each once.
    changed: VecDeque<HostName>,
    generation: u64,
    refused: u64,
}

#[derive(Debug, Default)]
struct Host {
    /// Oldest first.
    tokens: Vec<Seen>,
    /// The addresses that were told last, if it was said to be there.
    told: Option<Vec<SocketAddr>>,
    is_queued: bool,
}

#[derive(Debug)]
struct Seen {
    rest: String,
    addresses: Vec<SocketAddr>,
    generation: u64,
}

impl Known {
    /// A token is there.
    pub(super) fn add(&mut self, token: Token) {
        let is_new = !self.hosts.contains_key(&token.host);
        if is_new && self.hosts.len() >= HOSTS_MAX {
            self.refused += 1;
            return;
        }
        let generation = self.generation;
        let host = self.hosts.entry(token.host.clone()).or_default();
        host.tokens.retain(|seen| seen.rest != token.rest);
        if host.tokens.len() >= TOKENS_MAX {
            host.tokens.remove(0);
            self.refused += 1;
        }
        host.tokens.push(Seen {
            rest: token.rest,
            addresses: token.addresses,
            generation,
        });
        self.mark(&token.host);
    }

    /// A token is there no more.
    pub(super) fn remove(&mut self, token: &Token) {
        if let Some(host) = self.hosts.get_mut(&token.host) {
            host.tokens.retain(|seen| seen.rest != token.rest);
            self.mark(&token.host);
        }
    }

    /// The session was opened again: all tokens are about to be seen anew.
    pub(super) fn begin_generation(&mut self) {
        self.generation += 1;
    }

    /// Tokens that were not seen anew are not there any more.
    pub(super) fn end_generation(&mut self) {
        let generation = self.generation;
        let mut changed = Vec::new();
        for (name, host) in &mut self.hosts {
            let before = host.tokens.len();
            host.tokens.retain(|seen| seen.generation == generation);
            if host.tokens.len() != before {
                changed.push(name.clone());
            }
        }
        changed.iter().for_each(|name| self.mark(name));
    }

    /// The next thing to tell.
    pub(super) fn take(&mut self) -> Option<DirectoryEvent> {
        while let Some(name) = self.changed.pop_front() {
            let Some(host) = self.hosts.get_mut(&name) else {
                continue;
            };
            host.is_queued = false;
            let now = host.addresses();
            if now == host.told {
                if now.is_none() {
                    self.hosts.remove(&name);
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
                    self.hosts.remove(&name);
                    DirectoryEvent::Gone { host: name }
                }
            });
        }
        None
    }

    /// Tokens that there was no memory for.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Queues a host; forgets it instead if it was never told of and is not there.
    fn mark(&mut self, name: &HostName) {
        let Some(host) = self.hosts.get_mut(name) else {
            return;
        };
        if host.tokens.is_empty() && host.told.is_none() && !host.is_queued {
            self.hosts.remove(name);
        } else if !host.is_queued {
            host.is_queued = true;
            self.changed.push_back(name.clone());
        }
    }
}

impl Host {
    /// Those of the newest token first. `None`: it is not there.
    fn addresses(&self) -> Option<Vec<SocketAddr>> {
        let mut all = Vec::new();
        for address in self.tokens.iter().rev().flat_map(|seen| &seen.addresses) {
            if !all.contains(address) {
                all.push(*address);
            }
        }
        (!self.tokens.is_empty()).then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(host: &str, session: u16) -> Token {
        let addresses = vec![SocketAddr::from(([10, 0, 0, 1], session))];
        Token {
            host: host.parse().expect("a name"),
            rest: session.to_string(),
            addresses,
        }
    }

    fn events(known: &mut Known) -> Vec<String> {
        let next = std::iter::from_fn(|| known.take());
        let text = next.map(|event| match event {
            DirectoryEvent::Seen { host, addresses } => format!("{host} {addresses:?}"),
            DirectoryEvent::Gone { host } => format!("{host} gone"),
        });
        text.collect()
    }

    #[test]
    fn a_host_is_there_while_one_of_its_tokens_is() {
        let mut known = Known::default();
        known.add(token("a", 1));
        assert_eq!(events(&mut known), ["a [10.0.0.1:1]"]);
        known.add(token("a", 2));
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
            known.add(token("a", 1));
            known.remove(&token("a", 1));
        }
        assert_eq!(known.changed.len(), 1);
        assert!(events(&mut known).is_empty());
        assert!(known.hosts.is_empty());
        known.remove(&token("nobody", 1));
        assert!(events(&mut known).is_empty());
    }

    #[test]
    fn a_host_that_was_not_seen_again_after_reopening_is_gone() {
        let mut known = Known::default();
        known.add(token("a", 1));
        known.add(token("b", 1));
        assert_eq!(events(&mut known).len(), 2);
        known.begin_generation();
        known.add(token("a", 1));
        assert!(events(&mut known).is_empty(), "nothing is new");
        known.end_generation();
        assert_eq!(events(&mut known), ["b gone"]);
    }

    #[test]
    fn memory_is_bounded_and_what_exceeds_it_counted() {
        let mut known = Known::default();
        for session in 0..100 {
            known.add(token("a", session));
        }
        assert_eq!(
            known.hosts["a".parse::<HostName>().as_ref().expect("a name")]
                .tokens
                .len(),
            4
        );
        assert_eq!(known.refused(), 96);
        for host in 0..2 * HOSTS_MAX {
            known.add(token(&format!("h{host}"), 1));
        }
        assert_eq!(known.hosts.len(), HOSTS_MAX);
        assert_eq!(known.refused(), 96 + HOSTS_MAX as u64 + 1);
        assert_eq!(events(&mut known).len(), HOSTS_MAX);
    }
}
