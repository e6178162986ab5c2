//! Packets built in a slot of the wire region: header in front of payload, one packet behind the
//! other.
//!
//! A sender fills a layout from a packetizer ([`Layout::push`]) or straight from a file
//! ([`Layout::extend_from_file`]), sends its [packets](Layout::packets) to every destination from
//! its [memory](Layout::memory), and keeps it for as long as a packet may be asked for again
//! ([`Layout::find`]). Then it begins anew: by [`Layout::clear`] if the kernel copied whatever was
//! sent, else by [`Layout::renew`], or by dropping it, which gives the slot back. Between calls
//! what `packets` names is whole, and nothing behind it means anything.
//!
//! Never sends, never waits, never decides when something is sent. Nothing is allocated but by
//! [`Layout::new`].

use std::io;
use std::os::fd::AsFd;

use hythe_node::{Lease, NodeError, Pieces, TrustPeers};
use hythe_rtp::HEADER_BYTES;
use hythe_rtp::payload::Payload;

use super::PacketMemory;
use super::run::{PacketPlace, RUN_BYTES_MAX};

/// The largest payload of a packet.
pub const PAYLOAD_BYTES_MAX: usize = RUN_BYTES_MAX - HEADER_BYTES;

/// Packets in a slot.
#[derive(Debug)]
pub struct Layout {
    lease: Lease,
    trust: TrustPeers,
    /// The kernel may send from its file by reference.
    is_for_the_wire: bool,
    places: Vec<PacketPlace>,
    /// Bytes built: where the next packet begins.
    used: usize,
}

/// The layout has no free capacity for a packet; it is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no space for another packet with {payload_bytes} bytes of payload")]
pub struct Full {
    /// Of the packet that does not fit.
    pub payload_bytes: usize,
}

/// What a packet has besides its payload. The header is without contributing sources and extensions
/// (RFC 3550, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The RTP header, sequence number included.
    pub header: [u8; HEADER_BYTES],
    /// When it is to leave, as [`PacketPlace::due_ns`].
    pub due_ns: u64,
}

impl Head {
    const fn sequence(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }
}

/// A part of a file, in payloads of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePayloads {
    /// Of the first byte in the file.
    pub position: u64,
    /// Bytes of each payload; the last of the file may have fewer.
    pub payload_bytes: usize,
    /// How many at most.
    pub count: usize,
}

impl Layout {
    /// An empty layout in `lease`, for at most `packets_max` packets. It is our own lease: the
    /// `trust` is that no other writer of the pool writes into it meanwhile.
    ///
    /// # Errors
    ///
    /// [`NodeError::NotForTheWire`]: the lease is not of
    /// [`Node::wire_region`](hythe_node::Node::wire_region).
    pub fn new(lease: Lease, packets_max: usize, trust: TrustPeers) -> Result<Self, NodeError> {
        let is_for_the_wire = match lease.file_range() {
            Ok(_) => true,
            Err(NodeError::NotForTheWire { .. }) => false,
            Err(error) => return Err(error),
        };
        // More than 2^16 could not be told apart by their numbers.
        let places = Vec::with_capacity(packets_max.min(1 << 16));
        Ok(Self {
            lease,
            trust,
            is_for_the_wire,
            places,
            used: 0,
        })
    }

    /// Is there free capacity for one more packet with so many bytes of payload? For more than
    /// [`PAYLOAD_BYTES_MAX`] there never is.
    #[must_use]
    pub fn has_capacity(&self, payload_bytes: usize) -> bool {
        self.packets_left(payload_bytes) > 0
    }

    /// Lays out one packet behind the others. Headers count packets: let [`Layout::has_capacity`]
    /// say yes before one is made.
    ///
    /// # Errors
    ///
    /// [`Full`]: nothing was written.
    ///
    /// # Panics
    ///
    /// If the sequence number does not follow that of the packet before.
    pub fn push(&mut self, head: &Head, payload: &Payload<'_>) -> Result<(), Full> {
        let payload_bytes = payload.len();
        if !self.has_capacity(payload_bytes) {
            return Err(Full { payload_bytes });
        }
        let bytes = self.lease.as_mut_slice(self.trust);
        let mut at = self.used + HEADER_BYTES;
        let pieces = std::iter::once(payload.prefix).chain(payload.body.iter().copied());
        for piece in pieces {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        self.complete(head, payload_bytes);
        Ok(())
    }

    /// Reads payloads of one size straight from a file, with one system call for up to
    /// [`PIECES_PER_CALL`](hythe_node::PIECES_PER_CALL) of them, as many as there is free capacity
    /// for.
    /// `head` says what stands in front of each, and is shown it. Returns the bytes taken from the
    /// file: 0 at its end, or if the layout is full.
    ///
    /// # Errors
    ///
    /// What the kernel says of the file; nothing was built.
    ///
    /// # Panics
    ///
    /// If the payloads are to have no byte or more than [`PAYLOAD_BYTES_MAX`]; as [`Layout::push`].
    pub fn extend_from_file(
        &mut self,
        file: impl AsFd,
        part: FilePayloads,
        head: &mut dyn FnMut(&[u8]) -> Head,
    ) -> io::Result<usize> {
        let size = part.payload_bytes;
        assert!(
            (1..=PAYLOAD_BYTES_MAX).contains(&size),
            "payloads of {size} bytes"
        );
        let count = part.count.min(self.packets_left(size));
        if count == 0 {
            return Ok(0);
        }
        let pieces = Pieces {
            at: self.used + HEADER_BYTES,
            piece_bytes: size,
            gap_bytes: HEADER_BYTES,
            count,
        };
        let taken = self
            .lease
            .read_file_scattered(file, part.position, pieces)?;
        let mut left = taken;
        while left > 0 {
            let payload_bytes = left.min(size);
            let at = self.used + HEADER_BYTES;
            let payload = &self.lease.as_slice(self.trust)[at..at + payload_bytes];
            let head = head(payload);
            self.complete(&head, payload_bytes);
            left -= payload_bytes;
        }
        Ok(taken)
    }

    /// The packets, in order.
    #[must_use]
    pub fn packets(&self) -> &[PacketPlace] {
        &self.places
    }

    /// What is sent from.
    ///
    /// # Errors
    ///
    /// What [`Lease::file_range`] says; not after it was answered once, as it was for
    /// [`Layout::new`].
    pub fn memory(&self) -> Result<PacketMemory<'_>, NodeError> {
        let (file, file_offset) = if self.is_for_the_wire {
            let (file, offset) = self.lease.file_range()?;
            (Some(file), offset)
        } else {
            (None, 0)
        };
        Ok(PacketMemory {
            file,
            file_offset,
            bytes: &self.lease.as_slice(self.trust)[..self.used],
        })
    }

    /// The packet with this sequence number, if it is here.
    #[must_use]
    pub fn find(&self, sequence: u16) -> Option<&PacketPlace> {
        let first = self.places.first()?.sequence;
        // They follow each other, over the end of the numbers too.
        self.places.get(usize::from(sequence.wrapping_sub(first)))
    }

    /// Header and payload of a packet of this layout.
    ///
    /// # Panics
    ///
    /// If it is of another, and not inside this one.
    #[must_use]
    pub fn packet(&self, place: &PacketPlace) -> &[u8] {
        let at = place.offset as usize;
        &self.lease.as_slice(self.trust)[..self.used][at..at + usize::from(place.bytes)]
    }

    /// Empty again, in the same pages: only if everything that was sent was copied by the kernel
    /// when it was sent.
    pub fn clear(&mut self) {
        self.places.clear();
        self.used = 0;
    }

    /// Empty again, in fresh pages: what is still on its way from the old ones stays as it is.
    ///
    /// # Errors
    ///
    /// As [`Lease::renew`]: the slot has gone back.
    pub fn renew(mut self) -> Result<Self, NodeError> {
        self.clear();
        let lease = self.lease.renew()?;
        Ok(Self { lease, ..self })
    }

    /// How many more packets of this size fit.
    fn packets_left(&self, payload_bytes: usize) -> usize {
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return 0;
        }
        let by_bytes = (self.lease.capacity() - self.used) / (HEADER_BYTES + payload_bytes);
        by_bytes.min(self.places.capacity() - self.places.len())
    }

    /// Writes the header of the next packet, whose payload is there, and enters it.
    fn complete(&mut self, head: &Head, payload_bytes: usize) {
        let sequence = head.sequence();
        if let Some(before) = self.places.last() {
            let next = before.sequence.wrapping_add(1);
            assert_eq!(sequence, next, "the packet behind {}", before.sequence);
        }
        let bytes = HEADER_BYTES + payload_bytes;
        self.lease.as_mut_slice(self.trust)[self.used..][..HEADER_BYTES]
            .copy_from_slice(&head.header);
        // Both fit: a slot has less than 2^32 bytes, a packet less than 2^16.
        self.places.push(PacketPlace {
            offset: self.used as u32,
            bytes: bytes as u16,
            sequence,
            due_ns: head.due_ns,
        });
        self.used += bytes;
    }
}
