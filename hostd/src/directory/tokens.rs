//! The tokens of one host: a bounded number of them, and in time each of the others.
//!
//! Anybody in the realm can declare tokens of any host, so the first few may all be false. Where
//! there are more than fit, a *sweep* asks for all that there are and keeps the next ones, in an
//! order that nobody outside knows: of `n` tokens each is kept after `n / TOKENS_MAX + 1` sweeps,
//! however many are declared and taken back meanwhile. Never dials.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use super::token::Token;

/// Tokens of one host that are kept: its agent's, that of the agent before it, which the lease
/// still holds, and as many again from those who declare what is not theirs.
pub(super) const TOKENS_MAX: usize = 4;

/// The tokens of a host.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    /// Oldest first.
    kept: Vec<Seen>,
    /// What a sweep has found so far, while there is one: those next to the cursor.
    gathered: Option<Vec<Seen>>,
    /// Where the next sweep begins, on the circle of all places.
    cursor: u64,
    is_incomplete: bool,
}

#[derive(Clone, Debug)]
struct Seen {
    rest: String,
    addresses: Vec<SocketAddr>,
    generation: u64,
    place: u64,
}

/// Where a token stands on the circle: its hash by a key of this process.
#[derive(Debug, Default)]
pub(super) struct Places(RandomState);

impl Tokens {
    /// One is there. False: there is no room for it before the next sweep.
    pub(super) fn add(&mut self, token: &Token, generation: u64, places: &Places) -> bool {
        let seen = Seen::new(token, generation, places);
        self.gather(&seen);
        if let Some(known) = self.kept.iter_mut().find(|kept| kept.rest == seen.rest) {
            known.generation = generation;
        } else if self.kept.len() < TOKENS_MAX {
            self.kept.push(seen);
        } else {
            self.is_incomplete = true;
            return false;
        }
        true
    }

    /// A sweep shows that one is there.
    pub(super) fn add_swept(&mut self, token: &Token, generation: u64, places: &Places) {
        match self.gathered {
            Some(_) => self.gather(&Seen::new(token, generation, places)),
            // It may have been declared before there was room for its host.
            None => drop(self.add(token, generation, places)),
        }
    }

    /// One is there no more. True: it was kept.
    pub(super) fn remove(&mut self, rest: &str) -> bool {
        if let Some(gathered) = &mut self.gathered {
            gathered.retain(|seen| seen.rest != rest);
        }
        let before = self.kept.len();
        self.kept.retain(|seen| seen.rest != rest);
        self.kept.len() != before
    }

    /// Forgets those of earlier generations. True: there were some.
    pub(super) fn retain_generation(&mut self, generation: u64) -> bool {
        let before = self.kept.len();
        self.kept.retain(|seen| seen.generation == generation);
        self.kept.len() != before
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// There are more than are kept, as far as is known.
    pub(super) const fn is_incomplete(&self) -> bool {
        self.is_incomplete || self.gathered.is_some()
    }

    /// All tokens are about to be shown.
    pub(super) fn begin_sweep(&mut self) {
        self.gathered = self.is_incomplete.then(Vec::new);
        self.is_incomplete = false;
    }

    /// All were shown; or not, if it is not `whole`. True: others are kept than before.
    pub(super) fn end_sweep(&mut self, is_whole: bool) -> bool {
        let Some(mut gathered) = self.gathered.take() else {
            return false;
        };
        if !is_whole {
            self.is_incomplete = true;
            let rest = self.kept.iter().filter(|kept| {
                let mut gathered = gathered.iter();
                !gathered.any(|seen| seen.rest == kept.rest)
            });
            let room = TOKENS_MAX - gathered.len();
            let rest: Vec<Seen> = rest.take(room).cloned().collect();
            gathered.extend(rest);
        }
        let farthest = gathered.iter().max_by_key(|seen| self.distance(seen));
        if let Some(farthest) = farthest {
            self.cursor = farthest.place.wrapping_add(1);
        }
        self.kept = gathered;
        true
    }

    /// Those of the newest token first. `None`: there is no token.
    pub(super) fn addresses(&self) -> Option<Vec<SocketAddr>> {
        let mut all = Vec::new();
        for address in self.kept.iter().rev().flat_map(|seen| &seen.addresses) {
            if !all.contains(address) {
                all.push(*address);
            }
        }
        (!self.is_empty()).then_some(all)
    }

    /// Keeps it, while there is a sweep, if it is one of those that are next to the cursor.
    fn gather(&mut self, seen: &Seen) {
        let Some(mut gathered) = self.gathered.take() else {
            return;
        };
        gathered.retain(|other| other.rest != seen.rest);
        gathered.push(seen.clone());
        if gathered.len() > TOKENS_MAX {
            self.is_incomplete = true;
            gathered.sort_by_key(|seen| self.distance(seen));
            gathered.truncate(TOKENS_MAX);
        }
        self.gathered = Some(gathered);
    }

    const fn distance(&self, seen: &Seen) -> u64 {
        seen.place.wrapping_sub(self.cursor)
    }
}

impl Seen {
    fn new(token: &Token, generation: u64, places: &Places) -> Self {
        Self {
            rest: token.rest.clone(),
            addresses: token.addresses.clone(),
            generation,
            place: places.0.hash_one(&token.rest),
        }
    }
}
