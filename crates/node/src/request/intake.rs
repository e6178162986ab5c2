//! The taking end of a request/reply port: from each connection in turn, with the header that every message carries.
//!
//! Used by `Client` for replies and by `Server` for requests. What a lying peer sent is counted and passed over; never is more
//! of it looked at in one call than a queue can hold.

use std::sync::Arc;

use hythe_abi::request::{BYTES, Header, OFFSET};
use hythe_pool::{ConnectionEnd, ConnectionInfo, PoolError, PortIndex};
use hythe_queue::Consumer;

use crate::NodeError;
use crate::buffer::{Reference, Sample};
use crate::node::Shared;
use crate::subscriber::{leave, update_sources};

/// A message with what is known about where it came from.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) way: ConnectionInfo,
    pub(super) header: Header,
    pub(super) sample: Sample,
}

/// The connections that lead to a port.
#[derive(Debug, Default)]
pub(super) struct Intake {
    sources: Vec<ConnectionEnd<Consumer>>,
    next: usize,
}

impl Intake {
    /// Finds new connections, and leaves those that are left and empty. False: some are left but not empty yet.
    pub(super) fn update(
        &mut self,
        shared: &Arc<Shared>,
        port: PortIndex,
    ) -> Result<bool, NodeError> {
        update_sources(shared, port, &mut self.sources)
    }

    pub(super) fn ways(&self) -> impl Iterator<Item = &ConnectionInfo> {
        self.sources.iter().map(|source| &source.info)
    }

    /// Messages that fit all queues together.
    pub(super) fn capacity(&self) -> u64 {
        self.ways().map(|way| u64::from(way.places.capacity)).sum()
    }

    /// Takes the next message, if there is one. Adds to `violations` what was passed over.
    pub(super) fn take(
        &mut self,
        shared: &Arc<Shared>,
        violations: &mut u64,
    ) -> Result<Option<Arrived>, NodeError> {
        let (mut looks, mut nonsense) = (self.sources.len(), 0);
        while looks > 0 && !self.sources.is_empty() {
            let index = self.next % self.sources.len();
            let way = self.sources[index].info;
            match self.take_from(shared, index)? {
                From::Nothing => looks -= 1,
                From::Message(header, sample) => {
                    self.next = index + 1;
                    return Ok(Some(Arrived {
                        way,
                        header,
                        sample,
                    }));
                }
                From::Nonsense => {
                    *violations += 1;
                    nonsense += 1;
                    if nonsense <= way.places.capacity {
                        continue;
                    }
                    looks -= 1;
                }
                From::Liar => {
                    *violations += 1;
                    leave(shared, &self.sources.swap_remove(index))?;
                    looks -= 1;
                    continue;
                }
            }
            self.next = index + 1;
        }
        Ok(None)
    }

    fn take_from(&mut self, shared: &Arc<Shared>, index: usize) -> Result<From, NodeError> {
        let (pool, source) = (shared.pool(), &mut self.sources[index]);
        match source.is_something_waiting(pool.control()) {
            Ok(false) => return Ok(From::Nothing),
            Ok(true) => {}
            Err(_) => return Ok(From::Liar),
        }
        let taken = shared.act(|member| member.take(pool.control(), pool.regions(), source));
        match taken {
            Ok(None) => Ok(From::Nothing),
            Err(PoolError::BadDescriptor { .. }) => Ok(From::Nonsense),
            // Counters that fitted a moment ago: as bad a lie as above.
            Err(_) => Ok(From::Liar),
            Ok(Some(taken)) => {
                let sample = Sample::new(Reference::own(shared, taken));
                // A region that cannot be mapped: the sample goes back as it is dropped.
                pool.map(taken.descriptor.place.region)?;
                let mut bytes = [0; BYTES];
                sample.read_headroom(OFFSET, &mut bytes);
                let header = Header::from_bytes(bytes);
                Ok(header.map_or(From::Nonsense, |header| From::Message(header, sample)))
            }
        }
    }

    /// Leaves all of them; what waits in them is released. The first damage is the result.
    pub(super) fn leave_all(&mut self, shared: &Arc<Shared>) -> Result<(), NodeError> {
        let sources = std::mem::take(&mut self.sources);
        let left = sources.iter().map(|source| leave(shared, source));
        left.fold(Ok(()), Result::and)
    }
}

/// What one look at one connection brought.
enum From {
    Nothing,
    Message(Header, Sample),
    Nonsense,
    Liar,
}
