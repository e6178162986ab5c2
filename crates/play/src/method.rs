//! How bytes cross between Linux and the core: in place, or, to compare with, copied.

use hythe::{Lease, Sample, TrustPeers};
use serde::Serialize;

/// Payload of a message of RPMsg: 512 bytes less its header.
const FRAGMENT_BYTES: usize = 496;

/// The way over the boundary, on the side of Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Slots are filled by the kernel and read in place.
    #[default]
    Hythe,
    /// Everything goes through memory of this process, and is copied to and from the slot in
    /// fragments, as over RPMsg.
    Copy,
}

impl Method {
    /// Copies of each payload byte that this adds to a hop over the core's boundary.
    pub(crate) const fn copies(self) -> u32 {
        match self {
            Self::Hythe => 0,
            Self::Copy => 1,
        }
    }

    /// The payload: in place, or copied to `own`.
    pub(crate) fn payload<'a>(self, sample: &'a Sample, own: &'a mut Vec<u8>) -> &'a [u8] {
        match self {
            Self::Hythe => {
                let trust = TrustPeers::i_trust_every_writer_of_this_pool();
                sample.as_slice(trust)
            }
            Self::Copy => {
                own.resize(sample.len(), 0);
                for (index, fragment) in own.chunks_mut(FRAGMENT_BYTES).enumerate() {
                    sample.read(index * FRAGMENT_BYTES, fragment);
                }
                own
            }
        }
    }
}

/// Copies bytes to `at` of the payload, in fragments.
pub(crate) fn write_fragments(lease: &mut Lease, at: usize, bytes: &[u8]) {
    for (index, fragment) in bytes.chunks(FRAGMENT_BYTES).enumerate() {
        lease.write(at + index * FRAGMENT_BYTES, fragment);
    }
}
