//! How many connections about tasks there may be at a time. Each has two threads.
//!
//! A host may have as many as are left for the others. So one that takes all that it gets has half
//! of them, two such hosts have a third each, and there is always one left for a host that has none
//! (the dynamic thresholds of a switch that shares its memory between ports).

use std::sync::Arc;

use super::super::context::{Group, Member};
use crate::error::ClusterError;

/// What other hosts have, together.
pub(super) const PIPES_MAX: usize = 512;
/// What processes of this pool have.
pub(super) const OWN_PIPES_MAX: usize = 256;

/// One more connection of a host, of whose connections `own` is the group, if it may have one.
pub(super) fn enter(all: &Arc<Group>, own: &Arc<Group>) -> Result<[Member; 2], ClusterError> {
    let members = [all.enter(), own.enter()];
    let left = PIPES_MAX.saturating_sub(all.count());
    match own.count() > left {
        true => Err(ClusterError::TooMany {
            what: "connections of tasks, as many as are left for other hosts",
            most: left,
        }),
        false => Ok(members),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_some_hosts_take_there_is_one_left_for_another() {
        let all: Arc<Group> = Arc::default();
        let mut kept = Vec::new();
        let mut taken = Vec::new();
        for _ in 0..40 {
            let own: Arc<Group> = Arc::default();
            let before = kept.len();
            while let Ok(members) = enter(&all, &own) {
                kept.push(members);
            }
            taken.push(kept.len() - before);
        }
        assert_eq!(taken[..3], [PIPES_MAX / 2, PIPES_MAX / 4, PIPES_MAX / 8]);
        // What one gives back the others may have.
        drop(kept.split_off(PIPES_MAX / 2));
        assert_eq!(all.count(), PIPES_MAX / 2);
        assert!(enter(&all, &Arc::default()).is_ok());
    }

    #[test]
    fn hosts_that_take_turns_have_equal_shares() {
        let all: Arc<Group> = Arc::default();
        let hosts: Vec<Arc<Group>> = (0..9).map(|_| Arc::default()).collect();
        let mut kept = Vec::new();
        for _ in 0..PIPES_MAX {
            kept.extend(hosts.iter().filter_map(|own| enter(&all, own).ok()));
        }
        let counts: Vec<usize> = hosts.iter().map(|own| own.count()).collect();
        assert!(
            counts.iter().all(|count| counts[0].abs_diff(*count) <= 1),
            "{counts:?}"
        );
        assert!(
            enter(&all, &Arc::default()).is_ok(),
            "and one that comes later its own"
        );
    }
}
