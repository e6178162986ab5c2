//! References that ports of a node keep but can release when the pool is full, such as a history.
//!
//! [`crate::leasing`] asks for one when no slot is free. Never releases what an application holds.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use hythe_abi::RegionIndex;
use hythe_pool::RegionGeometry;

use crate::pool::Pool;

/// Which slots are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    region: RegionIndex,
    geometry: Option<&'a RegionGeometry>,
    bytes: usize,
}

impl Wanted<'_> {
    /// Is a slot of this region one of them?
    pub(crate) fn fits(&self, place: hythe_abi::Place) -> bool {
        let class = self
            .geometry
            .and_then(|geometry| geometry.class_of(place.slot));
        place.region == self.region
            && class.is_some_and(|class| class.payload_bytes() >= self.bytes)
    }
}

/// Slots that a port holds only as long as nobody else wants them.
pub(crate) trait Reserve: std::fmt::Debug + Send + Sync {
    /// How many it holds, if one of them is wanted.
    fn held(&self, wanted: &Wanted<'_>) -> Option<usize>;

    /// Gives up the oldest that is wanted. False: there is none.
    fn give_up_one(&self, wanted: &Wanted<'_>) -> bool;
}

/// Those of all ports of a node.
#[derive(Debug, Default)]
pub(crate) struct Reserves(Mutex<Vec<Weak<dyn Reserve>>>);

impl Reserves {
    pub(crate) fn add(&self, reserve: Weak<dyn Reserve>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(reserve);
    }

    /// The largest reserve gives up one slot of this region that takes `bytes`. False: there is
    /// none.
    pub(crate) fn give_up_one(&self, pool: &Pool, region: RegionIndex, bytes: usize) -> bool {
        let all: Vec<Arc<dyn Reserve>> = {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        let wanted = Wanted {
            region,
            geometry: pool.regions().region(region),
            bytes,
        };
        let holders = all
            .iter()
            .filter_map(|reserve| Some((reserve.held(&wanted)?, reserve)));
        let largest = holders.max_by_key(|(held, _)| *held);
        largest.is_some_and(|(_, reserve)| reserve.give_up_one(&wanted))
    }
}
