//! How many flows other hosts may have here.
//!
//! A flow is in the place of a connection of the pool, and costs a process a socket and memory: so
//! one host has at most the part of them that it may have of connections, and all together have
//! theirs. Who finds none sends by the channel's stream, and is asked again.

use hythe_node::Pool;
use hythe_node::hop::HopPool as _;

use crate::agent::parts::{HOST_PART, HOSTS_PART};
use crate::error::ClusterError;

/// Places for flows of one host, of both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// Taken by this host, and by all.
    own: u32,
    all: u32,
    of_one: u32,
    of_all: u32,
}

impl Places {
    /// Those of a pool, of which so many are taken.
    pub(super) fn of(pool: &Pool, own: usize, all: usize) -> Self {
        let connections = pool.control().layout().limits().connections;
        let count = |flows| u32::try_from(flows).unwrap_or(u32::MAX);
        Self {
            own: count(own),
            all: count(all),
            of_one: connections / HOST_PART,
            of_all: connections / HOSTS_PART,
        }
    }

    /// One more, if there is one.
    pub(super) fn take(&mut self) -> Result<(), String> {
        if self.own >= self.of_one || self.all >= self.of_all {
            let full = ClusterError::Share {
                what: "flows",
                own: self.own,
                of_one: self.of_one,
                all: self.all,
                of_all: self.of_all,
            };
            return Err(full.to_string());
        }
        self.own += 1;
        self.all += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_has_its_part_and_all_have_theirs() {
        let places = |own, all| Places {
            own,
            all,
            of_one: 2,
            of_all: 4,
        };
        let mut alone = places(0, 0);
        assert_eq!([alone.take(), alone.take()], [Ok(()), Ok(())]);
        let why = alone.take().expect_err("it has its part");
        assert!(why.contains("2 of 2 flows"), "{why}");
        assert!(places(0, 4).take().is_err(), "all have theirs");
    }
}
