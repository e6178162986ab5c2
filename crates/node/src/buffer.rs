//! Buffers: a lease to write, a sample to read.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use hythe_abi::{Descriptor, Generation, HEADROOM_BYTES, Place};
use hythe_memory::{Mapped, TrustPeers};
use hythe_pool::{LedgerSlot, RegionGeometry};

use crate::NodeError;
use crate::node::Shared;

/// One reference to a slot, given back when dropped.
#[derive(Debug)]
pub(crate) struct Reference {
    shared: Arc<Shared>,
    descriptor: Descriptor,
    slot: LedgerSlot,
    /// From the region's first byte to the slot's.
    slot_offset: usize,
    /// The reference is still this value's to give back.
    owned: bool,
}

impl Reference {
    pub(crate) fn leased(
        shared: &Arc<Shared>,
        region: &RegionGeometry,
        slot: u32,
        generation: Generation,
    ) -> Self {
        let descriptor = Descriptor {
            place: Place {
                region: region.index,
                slot,
            },
            generation,
            offset: HEADROOM_BYTES,
            length: 0,
        };
        Self::own(shared, region, descriptor)
    }

    /// Wraps a reference that this node holds already. The descriptor is checked.
    pub(crate) fn own(
        shared: &Arc<Shared>,
        region: &RegionGeometry,
        descriptor: Descriptor,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            descriptor,
            slot: LedgerSlot(region.ledger_base + descriptor.place.slot),
            slot_offset: region.slot_offset(descriptor.place.slot).unwrap_or(0),
            owned: true,
        }
    }

    pub(crate) const fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    pub(crate) const fn slot(&self) -> LedgerSlot {
        self.slot
    }

    pub(crate) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// The reference went elsewhere: nothing is given back.
    pub(crate) fn moved(mut self) {
        self.owned = false;
    }

    fn map(&self) -> &Mapped {
        #[allow(
            clippy::expect_used,
            reason = "proof: the region was mapped before the reference was made, and stays so"
        )]
        self.shared
            .pool()
            .map(self.descriptor.place.region)
            .expect("a mapped region")
    }

    const fn payload(&self) -> usize {
        self.slot_offset + self.descriptor.offset as usize
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        let control = self.shared.pool().control();
        if let Err(error) = self
            .shared
            .act(|member| member.release(control, self.slot, 1))
        {
            tracing::error!(%error, "could not release a buffer");
        }
    }
}

/// The exclusive right to write a buffer. Dropped unpublished, the slot goes back.
#[derive(Debug)]
pub struct Lease {
    reference: Reference,
    room: usize,
}

impl Lease {
    pub(crate) const fn new(reference: Reference, room: usize) -> Self {
        Self { reference, room }
    }

    /// Bytes of payload that fit: at least as many as were asked for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.room
    }

    /// The region that the buffer is in.
    #[must_use]
    pub const fn region(&self) -> hythe_abi::RegionIndex {
        self.reference.descriptor().place.region
    }

    /// Copies bytes in, from `at` on.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.check(at, bytes.len());
        self.reference
            .map()
            .write(self.reference.payload() + at, bytes);
    }

    /// Copies bytes into the headroom in front of the payload, from the slot's first byte on: what travels beside the payload.
    ///
    /// # Panics
    /// If they do not fit the headroom.
    pub fn write_headroom(&mut self, at: usize, bytes: &[u8]) {
        check_headroom(at, bytes.len());
        self.reference
            .map()
            .write(self.reference.slot_offset + at, bytes);
    }

    /// Copies bytes out: what was written so far, or an earlier payload.
    ///
    /// # Panics
    /// If the range does not fit.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        self.check(at, into.len());
        self.reference
            .map()
            .read(self.reference.payload() + at, into);
    }

    /// Reads from a file at `position` straight into the buffer; returns the bytes read, 0 at the end of the file.
    ///
    /// # Errors
    /// What `pread` says.
    ///
    /// # Panics
    /// If the range does not fit.
    pub fn read_file(
        &mut self,
        file: impl AsFd,
        position: u64,
        at: usize,
        bytes: usize,
    ) -> io::Result<usize> {
        self.check(at, bytes);
        let target = self.reference.payload() + at;
        self.reference
            .map()
            .read_file(file.as_fd(), position, target, bytes)
    }

    /// Reads from a pipe or socket straight into the buffer; returns the bytes read, 0 at the end.
    ///
    /// # Errors
    /// What `read` says.
    ///
    /// # Panics
    /// If the range does not fit.
    pub fn read_stream(&mut self, from: impl AsFd, at: usize, bytes: usize) -> io::Result<usize> {
        self.check(at, bytes);
        self.reference
            .map()
            .read_stream(from.as_fd(), self.reference.payload() + at, bytes)
    }

    /// The whole buffer in place, by decision of trust.
    #[must_use]
    pub fn as_mut_slice(&mut self, decision: TrustPeers) -> &mut [u8] {
        self.reference
            .map()
            .trusted_mut(decision, self.reference.payload(), self.room)
    }

    pub(crate) fn into_reference(self, length: u32) -> Reference {
        let mut reference = self.reference;
        reference.descriptor.length = length;
        reference
    }

    fn check(&self, at: usize, bytes: usize) {
        let end = at.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.room),
            "{bytes} bytes at {at} do not fit a buffer of {}",
            self.room
        );
    }
}

/// A received buffer, to read. Dropped, it is released; published again by [`crate::Publisher::hand_on`], it travels on uncopied.
#[derive(Debug)]
pub struct Sample {
    reference: Reference,
}

impl Sample {
    pub(crate) const fn new(reference: Reference) -> Self {
        Self { reference }
    }

    /// Bytes of payload.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.reference.descriptor().length as usize
    }

    /// Is there no payload?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The descriptor it came with.
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.reference.descriptor()
    }

    /// Copies bytes out, from `at` on.
    ///
    /// # Panics
    /// If they are not all in the payload.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        self.check(at, into.len());
        self.reference
            .map()
            .read(self.reference.payload() + at, into);
    }

    /// Copies bytes out of the headroom in front of the payload, from the slot's first byte on.
    ///
    /// # Panics
    /// If they are not all in the headroom.
    pub fn read_headroom(&self, at: usize, into: &mut [u8]) {
        check_headroom(at, into.len());
        self.reference
            .map()
            .read(self.reference.slot_offset + at, into);
    }

    /// A copy of the payload.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut copy = vec![0; self.len()];
        self.read(0, &mut copy);
        copy
    }

    /// The payload in place, by decision of trust.
    #[must_use]
    pub fn as_slice(&self, decision: TrustPeers) -> &[u8] {
        self.reference
            .map()
            .trusted(decision, self.reference.payload(), self.len())
    }

    /// Another sample of a part of this payload, without copying: both are references to one slot.
    ///
    /// # Errors
    /// [`hythe_pool::PoolError::TooManyReferences`].
    ///
    /// # Panics
    /// If the part is not inside the payload.
    pub fn part(&self, at: usize, bytes: usize) -> Result<Self, NodeError> {
        self.check(at, bytes);
        let reference = &self.reference;
        let control = reference.shared.pool().control();
        reference
            .shared
            .act(|member| member.duplicate(control, reference.slot, 1))?;
        let whole = reference.descriptor;
        // Both fit: they are inside a payload whose offset and length are 32 bits.
        let descriptor = Descriptor {
            offset: whole.offset + at as u32,
            length: bytes as u32,
            ..whole
        };
        Ok(Self {
            reference: Reference {
                shared: Arc::clone(&reference.shared),
                descriptor,
                slot: reference.slot,
                slot_offset: reference.slot_offset,
                owned: true,
            },
        })
    }

    pub(crate) fn into_reference(self) -> Reference {
        self.reference
    }

    fn check(&self, at: usize, bytes: usize) {
        let end = at.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.len()),
            "{bytes} bytes at {at} are not in a payload of {}",
            self.len()
        );
    }
}

fn check_headroom(at: usize, bytes: usize) {
    let end = at.checked_add(bytes);
    assert!(
        end.is_some_and(|end| end <= HEADROOM_BYTES as usize),
        "{bytes} bytes at {at} are outside the headroom"
    );
}
