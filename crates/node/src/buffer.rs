//! Buffers: a lease to write, a sample to read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use hythe_abi::{Descriptor, Generation, HEADROOM_BYTES, Place};
use hythe_memory::{Mapped, Pieces, TrustPeers};
use hythe_pool::{LedgerSlot, RegionGeometry, Taken};

use crate::NodeError;
use crate::participant::{Joined, Participant};

/// The slots of one size in a region of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    pub(crate) first: LedgerSlot,
    /// How many there are.
    pub slots: u32,
}

/// One reference to a slot, given back when dropped.
///
/// Whole words only: padding is moved byte by byte, which stalls a processor that has just written
/// its neighbours.
#[derive(Debug)]
pub(crate) struct Reference {
    /// `None` once the reference has gone elsewhere.
    joined: Option<Arc<Joined>>,
    /// The descriptor, as in a queue.
    words: [u32; 4],
    /// From the region's first byte to the slot's.
    slot_offset: usize,
    slot: LedgerSlot,
    /// References that are still this value's to give back: one, or none.
    owned: u32,
}

impl Reference {
    #[inline]
    pub(crate) fn leased(
        shared: &Arc<Participant>,
        region: &RegionGeometry,
        (slot, slot_offset): (u32, usize),
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
        let taken = Taken {
            descriptor,
            slot: LedgerSlot(region.ledger_base + slot),
            slot_offset,
            missed: 0,
        };
        Self::own(shared, taken)
    }

    /// Wraps a reference that this node holds already. The descriptor is checked.
    #[inline]
    pub(crate) fn own(shared: &Arc<Participant>, taken: Taken) -> Self {
        Self::kept(shared.keep(), taken)
    }

    #[inline(always)]
    fn kept(joined: Arc<Joined>, taken: Taken) -> Self {
        Self {
            joined: Some(joined),
            words: taken.descriptor.to_words(),
            slot: taken.slot,
            slot_offset: taken.slot_offset,
            owned: 1,
        }
    }

    #[inline]
    pub(crate) const fn descriptor(&self) -> Descriptor {
        Descriptor::from_words(self.words)
    }

    #[inline]
    const fn set_length(&mut self, length: u32) {
        self.words = Descriptor {
            length,
            ..self.descriptor()
        }
        .to_words();
    }

    #[inline]
    pub(crate) const fn slot(&self) -> LedgerSlot {
        self.slot
    }

    /// Whose it is.
    #[inline(always)]
    fn joined(&self) -> &Arc<Joined> {
        #[allow(
            clippy::expect_used,
            reason = "proof: it goes with the reference, of which nothing is asked behind that"
        )]
        self.joined.as_ref().expect("a reference that is here")
    }

    #[inline]
    pub(crate) fn is_of(&self, shared: &Arc<Participant>) -> bool {
        shared.is(self.joined())
    }

    /// Another value for one more reference, which the caller has made.
    pub(crate) fn same_again(&self) -> Self {
        Self {
            joined: self.joined.clone(),
            ..*self
        }
    }

    /// Takes more references to the slot, which are the caller's to [wrap](Self::own).
    ///
    /// # Errors
    /// [`hythe_pool::PoolError::TooManyReferences`], [`NodeError::ForkedCopy`].
    fn duplicate(&self, more: u32) -> Result<(), NodeError> {
        self.joined().check_original()?;
        let control = self.joined().pool().control();
        self.joined()
            .act(|member| member.duplicate(control, self.slot, more))?;
        Ok(())
    }

    /// Wraps one of the references that [`Self::duplicate`] took, under `descriptor`.
    fn wrapped(&self, descriptor: Descriptor) -> Self {
        let taken = Taken {
            descriptor,
            slot: self.slot,
            slot_offset: self.slot_offset,
            missed: 0,
        };
        Self::kept(Arc::clone(self.joined()), taken)
    }

    /// One more reference to the slot, under `descriptor`.
    fn again(&self, descriptor: Descriptor) -> Result<Self, NodeError> {
        self.duplicate(1)?;
        Ok(self.wrapped(descriptor))
    }

    /// How many references there are to the slot.
    pub(crate) fn count(&self) -> u32 {
        self.joined().pool().control().ledger().slot(self.slot).0
    }

    /// Is this the only reference to the slot? Then it stays so: only a holder makes more.
    pub(crate) fn is_alone(&self) -> bool {
        self.count() == 1
    }

    /// Copies bytes into the headroom, from the slot's first byte on. The caller looked whether it
    /// is alone with the slot.
    ///
    /// # Errors
    /// The region cannot be written.
    pub(crate) fn write_headroom(&self, bytes: &[u8]) -> Result<(), NodeError> {
        check_headroom(0, bytes.len());
        let pool = self.joined().pool();
        let mapped = pool.map_to_write(self.descriptor().place.region)?;
        mapped.write(self.slot_offset, bytes);
        Ok(())
    }

    /// The reference went elsewhere: nothing is given back.
    #[inline]
    pub(crate) const fn moved(&mut self) {
        self.owned = 0;
    }

    /// The same; what it kept is for the next reference of this participant.
    #[inline(always)]
    pub(crate) fn moved_from(&mut self, shared: &Participant) {
        self.moved();
        if let Some(joined) = self.joined.take() {
            shared.unkeep(joined);
        }
    }

    #[inline(never)]
    fn give_back(&self) {
        if self.joined().is_a_copy() {
            return;
        }
        let region = self.descriptor().place.region;
        if let Err(error) = self.joined().release(region, self.slot) {
            tracing::error!(%error, "could not release a buffer");
        }
    }

    fn map(&self) -> &Mapped {
        #[allow(
            clippy::expect_used,
            reason = "proof: the region was mapped before the reference was made, and stays so"
        )]
        self.joined()
            .pool()
            .map(self.descriptor().place.region)
            .expect("a mapped region")
    }

    const fn payload(&self) -> usize {
        self.slot_offset + self.descriptor().offset as usize
    }

    /// `None`: the geometry of its region is not known, as for no slot that can be held.
    fn size_class(&self) -> Option<SizeClass> {
        let place = self.descriptor().place;
        let region = self.joined().pool().regions().region(place.region)?;
        let class = region.class_of(place.slot)?;
        Some(SizeClass {
            first: LedgerSlot(region.ledger_base + class.first),
            slots: class.count,
        })
    }

    /// Where the payload is in the file of a wire region.
    fn file_range(&self) -> Result<(BorrowedFd<'_>, u64), NodeError> {
        let opened = self
            .joined()
            .pool()
            .wire_file(self.descriptor().place.region)?;
        Ok((opened.as_fd(), self.payload() as u64))
    }

    /// Gives the slot fresh pages. After an error it may have a hole.
    fn renew(&self) -> Result<(), NodeError> {
        self.joined().check_original()?;
        let (pool, place) = (self.joined().pool(), self.descriptor().place);
        let refused = NodeError::NotForTheWire {
            region: place.region,
        };
        let region = pool.regions().region(place.region).ok_or(refused)?;
        crate::wire::renew(pool, region, place.slot)
    }
}

impl Drop for Reference {
    #[inline(always)]
    fn drop(&mut self) {
        if self.owned > 0 {
            self.give_back();
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

    /// Copies bytes into the headroom in front of the payload, from the slot's first byte on: what
    /// travels beside the payload.
    ///
    /// # Panics
    /// If they do not fit the headroom.
    pub fn write_headroom(&mut self, at: usize, bytes: &[u8]) {
        check_headroom(at, bytes.len());
        self.reference
            .map()
            .write(self.reference.slot_offset + at, bytes);
    }

    /// Copies bytes of a region in, from `at` on.
    pub(crate) fn copy_in(&mut self, at: usize, from: &Mapped, first: usize, bytes: usize) {
        self.check(at, bytes);
        let to = self.reference.payload() + at;
        self.reference.map().copy(to, from, first, bytes);
    }

    /// Copies a sample in, with its headroom.
    pub(crate) fn copy_from(&mut self, sample: &Sample) {
        self.check(0, sample.len());
        let (to, from) = (&self.reference, &sample.reference);
        let headroom = HEADROOM_BYTES as usize;
        to.map()
            .copy(to.slot_offset, from.map(), from.slot_offset, headroom);
        to.map()
            .copy(to.payload(), from.map(), from.payload(), sample.len());
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

    /// Is the pool whole behind what was written or read? Asked behind the bytes: they may have met
    /// no memory, and nobody else.
    ///
    /// # Errors
    /// [`NodeError::PoolLost`].
    pub fn check_whole(&self) -> Result<(), NodeError> {
        self.reference.joined().pool().check_whole()
    }

    /// Reads from a file at `position` straight into the buffer; returns the bytes read, 0 at the
    /// end of the file.
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
    /// Goes on after a signal.
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

    /// Reads consecutive bytes of a file straight into pieces of the buffer, with gaps for what
    /// goes between them, a header each for instance; returns the bytes read, fewer only at the end
    /// of the file.
    ///
    /// # Errors
    /// What `preadv` says.
    ///
    /// # Panics
    /// If the pieces do not fit, or are empty.
    pub fn read_file_scattered(
        &mut self,
        file: impl AsFd,
        position: u64,
        pieces: Pieces,
    ) -> io::Result<usize> {
        self.check(pieces.at, pieces.span());
        let at = self.reference.payload() + pieces.at;
        let reference = &self.reference;
        reference
            .map()
            .read_file_scattered(file.as_fd(), position, Pieces { at, ..pieces })
    }

    /// The file that the network stack may send from without a copy, and where the buffer's first
    /// byte is in it.
    ///
    /// What was sent so must not be written again: [`Lease::renew`], or give the buffer back.
    ///
    /// # Errors
    /// [`NodeError::NotForTheWire`]: not a buffer of [`crate::Node::wire_region`].
    pub fn file_range(&self) -> Result<(BorrowedFd<'_>, u64), NodeError> {
        self.reference.file_range()
    }

    /// The same buffer with fresh pages: what is being sent from the old ones stays as it is. What
    /// was written is gone.
    ///
    /// # Errors
    /// [`NodeError::NotForTheWire`]; [`NodeError::NoRoom`] if there is no page left for it. The
    /// buffer goes back then.
    pub fn renew(self) -> Result<Self, NodeError> {
        self.reference.renew()?;
        Ok(self)
    }

    /// Keeps what was written, the first `bytes` of the buffer, to be read only: as if it had been
    /// published and received.
    ///
    /// # Panics
    /// If that is more than the buffer has.
    #[must_use]
    pub fn freeze(mut self, bytes: usize) -> Sample {
        self.as_payload(bytes);
        Sample::new(self.reference)
    }

    /// The whole buffer in place, to read, by decision of trust.
    #[must_use]
    pub fn as_slice(&self, decision: TrustPeers) -> &[u8] {
        self.reference
            .map()
            .trusted(decision, self.reference.payload(), self.room)
    }

    /// The whole buffer in place, by decision of trust.
    #[must_use]
    pub fn as_mut_slice(&mut self, decision: TrustPeers) -> &mut [u8] {
        self.reference
            .map()
            .trusted_mut(decision, self.reference.payload(), self.room)
    }

    /// What is behind the first `at` bytes, in place, by decision of trust: for a buffer of which
    /// the front is [shared](Self::share) already.
    ///
    /// # Panics
    /// If the buffer is shorter than that.
    #[must_use]
    pub fn rest_mut(&mut self, at: usize, decision: TrustPeers) -> &mut [u8] {
        self.check(at, 0);
        let reference = &self.reference;
        reference
            .map()
            .trusted_mut(decision, reference.payload() + at, self.room - at)
    }

    /// Another reference to the whole buffer, to publish [parts](Sample::part) of it while what is
    /// behind them is still written.
    ///
    /// What was published is not to be written again, and nobody prevents it: write by
    /// [`Lease::rest_mut`], behind it.
    ///
    /// # Errors
    /// As [`Sample::part`].
    pub fn share(&self) -> Result<Sample, NodeError> {
        let whole = Descriptor {
            // Fits: a slot's size is 32 bits.
            length: self.room as u32,
            ..self.reference.descriptor()
        };
        self.reference.again(whole).map(Sample::new)
    }

    /// As a payload of the first `bytes`. Not moved: what was just written would have to reach the
    /// cache before it can be copied.
    #[inline]
    pub(crate) fn as_payload(&mut self, bytes: usize) -> &mut Reference {
        assert!(
            bytes <= self.room,
            "{bytes} bytes from a buffer of {}",
            self.room
        );
        // Fits: a slot's size is 32 bits.
        self.reference.set_length(bytes as u32);
        &mut self.reference
    }

    pub(crate) fn size_class(&self) -> Option<SizeClass> {
        self.reference.size_class()
    }

    pub(crate) fn into_reference(mut self, length: u32) -> Reference {
        self.reference.set_length(length);
        self.reference
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

/// A received buffer, to read. Dropped, it is released; published again by
/// [`crate::Publisher::forward`], it travels on uncopied.
#[derive(Debug)]
pub struct Sample {
    reference: Reference,
    missed_before: u32,
}

impl Sample {
    pub(crate) const fn new(reference: Reference) -> Self {
        Self::taken(reference, 0)
    }

    /// One in front of which so many are missing.
    #[inline(always)]
    pub(crate) const fn taken(reference: Reference, missed_before: u32) -> Self {
        Self {
            reference,
            missed_before,
        }
    }

    /// Messages of its publisher that did not reach this subscriber since the one before: dropped,
    /// or evicted, because it was slow, or lost on the way from another host. Also counted in
    /// [`PortStatistics::dropped`](crate::PortStatistics::dropped) of the subscriber. Zero of what
    /// was not taken from a subscriber.
    #[must_use]
    #[inline]
    pub const fn missed_before(&self) -> u32 {
        self.missed_before
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

    pub(crate) fn size_class(&self) -> Option<SizeClass> {
        self.reference.size_class()
    }

    /// From the region's first byte to the payload's.
    pub(crate) const fn offset_in_region(&self) -> u64 {
        self.reference.payload() as u64
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

    /// Is the pool whole behind what was read? Asked behind the bytes: those of a lost pool are
    /// zeroes.
    ///
    /// # Errors
    /// [`NodeError::PoolLost`].
    pub fn check_whole(&self) -> Result<(), NodeError> {
        self.reference.joined().pool().check_whole()
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

    /// The file that the network stack may send from without a copy, and where the payload's first
    /// byte is in it. What was sent so stays as it is when the sample is released.
    ///
    /// # Errors
    /// [`NodeError::NotForTheWire`]: not a buffer of [`crate::Node::wire_region`].
    pub fn file_range(&self) -> Result<(BorrowedFd<'_>, u64), NodeError> {
        self.reference.file_range()
    }

    /// Another sample of a part of this payload, without copying: both are references to one slot.
    ///
    /// # Errors
    /// [`hythe_pool::PoolError::TooManyReferences`], [`NodeError::ForkedCopy`].
    ///
    /// # Panics
    /// If the part is not inside the payload.
    pub fn part(&self, at: usize, bytes: usize) -> Result<Self, NodeError> {
        let part = self.descriptor_of(at, bytes);
        self.reference.again(part).map(Self::new)
    }

    /// The same payload so many more times, into `into`, without copying: all are references to one
    /// slot. Cheaper than as many [parts](Self::part), which [`Sample::narrow`] makes of them.
    ///
    /// # Errors
    /// As [`Sample::part`]; nothing was added.
    pub fn repeat(&self, more: u32, into: &mut Vec<Self>) -> Result<(), NodeError> {
        self.reference.duplicate(more)?;
        let again = || Self::new(self.reference.wrapped(self.descriptor()));
        into.extend((0..more).map(|_| again()));
        Ok(())
    }

    /// A part of this payload in its place.
    ///
    /// # Panics
    /// If the part is not inside the payload.
    #[must_use]
    pub fn narrow(mut self, at: usize, bytes: usize) -> Self {
        self.reference.words = self.descriptor_of(at, bytes).to_words();
        self
    }

    fn descriptor_of(&self, at: usize, bytes: usize) -> Descriptor {
        self.check(at, bytes);
        let whole = self.reference.descriptor();
        // Both fit: they are inside a payload whose offset and length are 32 bits.
        Descriptor {
            offset: whole.offset + at as u32,
            length: bytes as u32,
            ..whole
        }
    }

    /// The reference, which is the caller's to give back.
    pub(crate) fn into_taken(mut self) -> Taken {
        self.reference.moved();
        Taken {
            descriptor: self.reference.descriptor(),
            slot: self.reference.slot(),
            slot_offset: self.reference.slot_offset,
            missed: self.missed_before,
        }
    }

    /// How many references there are to its slot, anywhere in the pool. If all are of one holder,
    /// none is added by others.
    #[must_use]
    pub fn references(&self) -> u32 {
        self.reference.count()
    }

    pub(crate) fn into_reference(self) -> Reference {
        self.reference
    }

    #[inline]
    pub(crate) const fn as_reference(&mut self) -> &mut Reference {
        &mut self.reference
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
