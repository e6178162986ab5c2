//! The receiving side of a request/reply port: takes messages and checks the header of each.
//!
//! `Client` uses it for replies, `Server` for requests. A message with a wrong header is counted
//! and skipped. One call never examines more messages than a source can hold.

use std::sync::Arc;

use hythe_abi::request::{BYTES, Header, OFFSET};
use hythe_pool::{PortStatistics, Taken};

use crate::NodeError;
use crate::buffer::{Reference, Sample};
use crate::participant::Participant;
use crate::sources::Sources;
use crate::transport::Origin;

/// A message with what is known about where it came from.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) origin: Origin,
    pub(super) header: Header,
    pub(super) sample: Sample,
    /// As much can wait where it came from.
    pub(super) capacity: u32,
}

/// Takes the next message, if there is one. Counts what was passed over.
pub(super) fn take(
    sources: &mut Sources,
    shared: &Arc<Participant>,
    counted: &mut PortStatistics,
) -> Result<Option<Arrived>, NodeError> {
    let mut nonsense = 0;
    while let Some((index, taken)) = sources.take(counted).map_err(|error| *error)? {
        let source = sources.get(index);
        let (origin, capacity) = (source.origin(), source.capacity());
        if let Some((header, sample)) = open(shared, taken)? {
            return Ok(Some(Arrived {
                origin,
                header,
                sample,
                capacity,
            }));
        }
        counted.violations += 1;
        nonsense += 1;
        if nonsense > capacity {
            break;
        }
    }
    Ok(None)
}

/// `None`: it has no header.
fn open(shared: &Arc<Participant>, taken: Taken) -> Result<Option<(Header, Sample)>, NodeError> {
    let sample = Sample::new(Reference::own(shared, taken));
    // A region that cannot be mapped: the sample goes back as it is dropped.
    shared.pool().map(taken.descriptor.place.region)?;
    let mut bytes = [0; BYTES];
    sample.read_headroom(OFFSET, &mut bytes);
    Ok(Header::from_bytes(bytes).map(|header| (header, sample)))
}
