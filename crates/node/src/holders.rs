//! Who holds the slots or table rows that have run out. Added to the errors of a full pool or table
//! before they leave this crate.
//!
//! Reads the tables once: while other participants work, a figure may be off by one. Never called
//! when nothing has failed.

use std::time::Duration;

use hythe_abi::RegionIndex;
use hythe_pool::{
    ConnectionInfo, Geometry, HolderKind, LedgerSlot, MemberIndex, MemberInfo, PoolError, Side,
    holders_of_slots,
};

use crate::error::{Exhausted, LargerPool, Share};
use crate::pool::Pool;
use crate::{NodeError, clock};

/// Holders that an error names; the others are counted.
const NAMED: usize = 4;
/// Queues of this depth need no queue segments of those that are shared.
const USUAL_DEPTH: u32 = hythe_abi::pool::QUEUE_SEGMENT_DESCRIPTORS as u32;

/// Names the holders of what `error` says is full. Any other error stays as it is.
pub(crate) fn named(pool: &Pool, error: NodeError) -> NodeError {
    let NodeError::Pool(cause) = error else {
        return pool.unless_removed(error);
    };
    let mut shares = match &cause {
        PoolError::PoolFull { region, bytes, .. } => slots(pool, *region, *bytes),
        PoolError::TableFull { what, .. } => rows(pool, what),
        _ => return NodeError::Pool(cause),
    };
    shares.sort_by_key(|share| std::cmp::Reverse(share.count + share.waiting));
    let others = shares.len().saturating_sub(NAMED);
    shares.truncate(NAMED);
    NodeError::Exhausted(Box::new(Exhausted {
        cause,
        holders: shares,
        others,
        remedy: None,
    }))
}

/// Adds which pool suffices to the error of a full one that is too small for so many receivers.
pub(crate) fn with_remedy(pool: &Pool, error: NodeError, receivers: usize) -> NodeError {
    let NodeError::Exhausted(mut full) = error else {
        return error;
    };
    if let PoolError::PoolFull {
        region: RegionIndex(0),
        bytes,
        slots,
    } = full.cause
    {
        let needed = u32::try_from(receivers).map_or(u32::MAX, |all| all.saturating_add(2));
        let limits = pool.control().layout().limits();
        full.remedy = (receivers > 0 && slots < needed)
            .then(|| Geometry::smallest_with(limits, bytes, needed))
            .flatten()
            .map(|pool_bytes| LargerPool {
                receivers,
                slots: needed,
                pool_bytes,
            });
    }
    NodeError::Exhausted(full)
}

/// Adds up by participant.
struct Tally {
    members: Vec<MemberInfo>,
    shares: Vec<(MemberIndex, Share)>,
}

impl Tally {
    fn new(pool: &Pool) -> Self {
        Self {
            members: pool.control().tables().members().collect(),
            shares: Vec::new(),
        }
    }

    fn of(&mut self, index: MemberIndex) -> &mut Share {
        let known = self.shares.iter().position(|(known, _)| *known == index);
        let at = known.unwrap_or_else(|| {
            let member = self.members.iter().find(|member| member.index == index);
            let share = Share {
                name: member.map_or_else(
                    || format!("participant {}", index.0),
                    |member| member.name.clone(),
                ),
                pid: member.map_or(0, |member| member.identity.pid),
                count: 0,
                waiting: 0,
                oldest: None,
            };
            self.shares.push((index, share));
            self.shares.len() - 1
        });
        &mut self.shares[at].1
    }

    fn has_one(&mut self, index: MemberIndex) {
        self.of(index).count += 1;
    }

    /// A message waits for the consumer. If that has left, its number may be another participant's,
    /// and the queue is the producer's to free.
    fn has_queued(&mut self, connection: &ConnectionInfo) {
        match owner(connection) {
            Some(Side::Consumer) => self.of(connection.consumer).waiting += 1,
            Some(Side::Producer) => self.has_one(connection.producer),
            None => {}
        }
    }

    fn has_connection(&mut self, connection: &ConnectionInfo) {
        match owner(connection) {
            Some(Side::Consumer) => self.has_one(connection.consumer),
            Some(Side::Producer) => self.has_one(connection.producer),
            None => {}
        }
    }

    fn shares(self) -> Vec<Share> {
        self.shares.into_iter().map(|(_, share)| share).collect()
    }
}

/// The side that a connection is counted for: the consumer, or the producer once that has left.
/// `None`: both have left, and it is being freed.
const fn owner(connection: &ConnectionInfo) -> Option<Side> {
    match (connection.consumer_left, connection.producer_left) {
        (false, _) => Some(Side::Consumer),
        (true, false) => Some(Side::Producer),
        (true, true) => None,
    }
}

/// Holders of the slots of a region that take `bytes`.
fn slots(pool: &Pool, region: hythe_abi::RegionIndex, bytes: usize) -> Vec<Share> {
    let Some(geometry) = pool.regions().region(region) else {
        return Vec::new();
    };
    let fitting = geometry
        .classes
        .iter()
        .filter(|class| class.payload_bytes() >= bytes)
        .flat_map(|class| class.first..class.first + class.count)
        .map(|slot| LedgerSlot(geometry.ledger_base + slot))
        .collect();
    let control = pool.control();
    let holders = holders_of_slots(control, pool.regions(), fitting, clock::coarse_ms());
    let mut tally = Tally::new(pool);
    for holder in holders {
        match holder.kind {
            HolderKind::Member(index) => {
                let share = tally.of(index);
                share.count += 1;
                let held = Duration::from_millis(holder.held_ms);
                share.oldest = share.oldest.max(Some(held));
            }
            HolderKind::Queue(index) => {
                if let Some(connection) = control.tables().connection(index) {
                    tally.has_queued(&connection);
                }
            }
        }
    }
    tally.shares()
}

/// Owners of the records of a table. Channels are counted for those who have a port on them,
/// connections for their consumers.
fn rows(pool: &Pool, what: &str) -> Vec<Share> {
    let (control, mut tally) = (pool.control(), Tally::new(pool));
    match what {
        "participant" => {
            let all: Vec<MemberIndex> = control
                .tables()
                .members()
                .map(|member| member.index)
                .collect();
            all.into_iter().for_each(|index| tally.has_one(index));
        }
        "channel" => {
            let mut seen = Vec::new();
            for port in control.tables().ports() {
                if !seen.contains(&(port.member, port.channel)) {
                    seen.push((port.member, port.channel));
                    tally.has_one(port.member);
                }
            }
        }
        "port" => control
            .tables()
            .ports()
            .for_each(|port| tally.has_one(port.member)),
        "connection" => control
            .tables()
            .connections()
            .for_each(|connection| tally.has_connection(&connection)),
        "queue segment for deep queues" => control
            .tables()
            .connections()
            .filter(|connection| connection.places.capacity > USUAL_DEPTH)
            .for_each(|connection| tally.has_connection(&connection)),
        // What only cores have.
        _ => {}
    }
    tally.shares()
}
