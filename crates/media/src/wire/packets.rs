//! A group of packets that leave together: where they lie, and what may be done with them.
//!
//! Made once per group by whoever paces, then given to every [destination](super::destination). What is checked when it is made
//! (every packet lies in the memory and has a header) holds from then on, so that nobody on the way checks again.

use std::io::IoSlice;

use super::PacketMemory;
use super::run::PacketPlace;
use crate::MediaError;
use crate::rtp::HEADER_BYTES;

/// An RTP header that replaces the first [`HEADER_BYTES`] of a packet.
pub type Header = [u8; HEADER_BYTES];

/// Packets in memory, in the order of sending.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'p> {
    memory: PacketMemory<'p>,
    places: &'p [PacketPlace],
    headers: Option<&'p [Header]>,
    departures_ns: Option<&'p [u64]>,
    is_lasting: bool,
}

impl<'p> Packets<'p> {
    /// Packets whose pages nobody will overwrite: once sent, they are only ever replaced by fresh pages. They may be sent by
    /// reference (`sendfile`), so that what is on its way is the page itself, for as long as a receiver leaves it in its socket.
    ///
    /// # Errors
    ///
    /// [`MediaError::Packet`] if a packet does not lie in `memory` or is shorter than its header.
    pub fn lasting(
        memory: PacketMemory<'p>,
        places: &'p [PacketPlace],
    ) -> Result<Self, MediaError> {
        let is_whole = |place: &PacketPlace| {
            usize::from(place.bytes) >= HEADER_BYTES && place.end() <= memory.bytes.len()
        };
        if let Some(place) = places.iter().find(|place| !is_whole(place)) {
            return Err(MediaError::Packet {
                what: "group of packets",
                reason: format!(
                    "{} bytes at {} are no packet in {} bytes of memory",
                    place.bytes,
                    place.offset,
                    memory.bytes.len()
                ),
            });
        }
        Ok(Self {
            memory,
            places,
            headers: None,
            departures_ns: None,
            is_lasting: true,
        })
    }

    /// Packets in memory that is written again: the kernel copies them, and the caller may overwrite them as soon as they were sent.
    ///
    /// # Errors
    ///
    /// As [`Self::lasting`].
    pub fn passing(
        memory: PacketMemory<'p>,
        places: &'p [PacketPlace],
    ) -> Result<Self, MediaError> {
        let packets = Self::lasting(memory, places)?;
        Ok(Self {
            is_lasting: false,
            ..packets
        })
    }

    /// The same packets, each with a header of its own in place of its first [`HEADER_BYTES`].
    ///
    /// # Errors
    ///
    /// [`MediaError::Packet`] if there are not as many headers as packets.
    pub fn with_headers(self, headers: &'p [Header]) -> Result<Self, MediaError> {
        if headers.len() != self.places.len() {
            return Err(MediaError::Packet {
                what: "headers of a group",
                reason: format!("{} for {} packets", headers.len(), self.places.len()),
            });
        }
        Ok(Self {
            headers: Some(headers),
            ..self
        })
    }

    /// The same packets, each with the instant of the monotonic clock at which the kernel is to send it. Those with the same instant, one
    /// behind the other, leave together. Destinations whose way does not heed departure times send them at once.
    ///
    /// # Errors
    ///
    /// [`MediaError::Packet`] if there are not as many instants as packets.
    pub fn with_departures(self, departures_ns: &'p [u64]) -> Result<Self, MediaError> {
        if departures_ns.len() != self.places.len() {
            return Err(MediaError::Packet {
                what: "departure times of a group",
                reason: format!("{} for {} packets", departures_ns.len(), self.places.len()),
            });
        }
        Ok(Self {
            departures_ns: Some(departures_ns),
            ..self
        })
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// None at all?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All but the first `count`.
    #[must_use]
    pub fn after(self, count: usize) -> Self {
        let count = count.min(self.len());
        Self {
            places: &self.places[count..],
            headers: self.headers.map(|headers| &headers[count..]),
            departures_ns: self.departures_ns.map(|departures| &departures[count..]),
            ..self
        }
    }

    /// Header and payload bytes of the first `count`.
    #[must_use]
    pub fn bytes(&self, count: usize) -> u64 {
        let first = self.places.iter().take(count);
        first.map(|place| u64::from(place.bytes)).sum()
    }

    /// May they be sent by reference, as they lie there? Not with departure times, which `sendfile` has no room for.
    pub(crate) fn may_be_referenced(&self) -> bool {
        self.is_lasting && !self.has_headers() && self.departures_ns.is_none()
    }

    /// When one of them leaves, if that is the kernel's business.
    pub(crate) fn departure_ns(&self, index: usize) -> Option<u64> {
        self.departures_ns?.get(index).copied()
    }

    /// Has each a header of its own?
    pub(crate) fn has_headers(&self) -> bool {
        self.headers.is_some()
    }

    pub(crate) fn memory(&self) -> &PacketMemory<'p> {
        &self.memory
    }

    pub(crate) fn places(&self) -> &'p [PacketPlace] {
        self.places
    }

    /// Header and payload of one packet; both empty behind the last.
    pub(crate) fn vectors(&self, index: usize) -> [IoSlice<'p>; 2] {
        let Some(place) = self.places.get(index) else {
            return [IoSlice::new(&[]), IoSlice::new(&[])];
        };
        // Checked when the group was made.
        let packet = &self.memory.bytes[place.offset as usize..place.end()];
        let (laid_out, payload) = packet.split_at(HEADER_BYTES);
        let header = self.headers.map_or(laid_out, |headers| &headers[index]);
        [IoSlice::new(header), IoSlice::new(payload)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn place(offset: u32, bytes: u16) -> PacketPlace {
        PacketPlace {
            offset,
            bytes,
            sequence: 0,
            due_ns: 0,
        }
    }

    #[test]
    fn packets_outside_the_memory_and_without_a_header_are_refused() {
        let input = std::io::stdin();
        let memory = PacketMemory {
            file: input.as_fd(),
            file_offset: 0,
            bytes: &[7; 100],
        };
        for wrong in [
            place(0, 11),
            place(50, 51),
            place(101, 12),
            place(u32::MAX, u16::MAX),
        ] {
            let places = [place(0, 50), wrong];
            assert!(Packets::lasting(memory, &places).is_err(), "{wrong:?}");
        }
        let places = [place(0, 50), place(50, 50)];
        let packets = Packets::lasting(memory, &places).unwrap();
        assert!(packets.with_headers(&[[0; HEADER_BYTES]]).is_err());
        assert!(packets.may_be_referenced());
        let headed = packets.with_headers(&[[1; 12], [2; 12]]).unwrap();
        assert!(!headed.may_be_referenced());
        assert_eq!(headed.after(1).vectors(0)[0][..], [2; 12]);
        assert_eq!(headed.vectors(1)[1].len(), 38);
        assert_eq!(headed.vectors(2)[1].len(), 0);
        assert_eq!((headed.bytes(1), headed.bytes(9)), (50, 100));
        assert!(headed.after(3).is_empty());
        let passing = Packets::passing(memory, &places).unwrap();
        assert!(!passing.may_be_referenced());
        assert!(packets.with_departures(&[1]).is_err());
        let timed = packets.with_departures(&[1, 2]).unwrap();
        assert!(!timed.may_be_referenced());
        let left = timed.after(1);
        assert_eq!(
            (left.departure_ns(0), left.departure_ns(1)),
            (Some(2), None)
        );
    }
}
