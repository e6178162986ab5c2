//! A group of packets that leave together: where they lie, and what may be done with them.
//!
//! Made once per group by whoever paces, then given to every [destination](super::destination).
//! What is checked when it is made (every packet lies in the memory and has a header) holds from
//! then on, so that nobody on the way checks again.

use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use hythe_rtp::HEADER_BYTES;

use super::PacketMemory;
use super::run::PacketPlace;
use crate::MediaError;

/// An RTP header that replaces the first [`HEADER_BYTES`] of a packet.
pub type Header = [u8; HEADER_BYTES];

/// Most vectors of one group, and of one system call: a header and a payload for each of the
/// packets that a call takes, and as many again for payloads in several pieces. The kernel allows
/// 1,024 (`UIO_MAXIOV`).
pub const VECTORS_MAX: usize = 256;

/// Packets whose bytes do not lie one behind the other: headers in one place, slices of the payload
/// in others.
#[derive(Clone, Copy, Debug)]
pub struct Apart<'p> {
    /// The bytes of all packets, in order.
    vectors: &'p [IoSlice<'p>],
    /// Behind which vector each packet ends, counted from the first vector of the group.
    ends: &'p [usize],
    /// Vectors of packets that were passed over.
    passed: usize,
}

/// Where the bytes of packets are.
#[derive(Clone, Copy, Debug)]
enum Bytes<'p> {
    /// Each in one piece.
    Together(PacketMemory<'p>),
    /// Each in one piece, but for its header.
    Headed(PacketMemory<'p>, &'p [Header]),
    Apart(Apart<'p>),
}

/// Packets in memory, in the order of sending.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'p> {
    bytes: Bytes<'p>,
    places: &'p [PacketPlace],
    departures_ns: Option<&'p [u64]>,
    is_lasting: bool,
}

impl<'p> Packets<'p> {
    /// Packets whose pages nobody will overwrite: once sent, they are only ever replaced by fresh
    /// pages. They may be sent by reference (`sendfile`), so that what is on its way is the page
    /// itself, for as long as a receiver leaves it in its socket.
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
            return Err(refused(format!(
                "{} bytes at {} are no packet in {} bytes of memory",
                place.bytes,
                place.offset,
                memory.bytes.len()
            )));
        }
        Ok(Self {
            bytes: Bytes::Together(memory),
            places,
            departures_ns: None,
            is_lasting: true,
        })
    }

    /// Packets in memory that is written again: the kernel copies them, and the caller may
    /// overwrite them as soon as they were sent.
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

    /// Packets in pieces, such as headers and slices of messages: the `vectors` of packet `n` end
    /// in front of `ends[n]`, at most [`VECTORS_MAX`] in all. The kernel copies them; of `places`
    /// the lengths and instants count, not the offsets.
    ///
    /// # Errors
    ///
    /// [`MediaError::Packet`] if the vectors of a packet are not as long as its place says, or are
    /// too many.
    pub fn apart(
        vectors: &'p [IoSlice<'p>],
        ends: &'p [usize],
        places: &'p [PacketPlace],
    ) -> Result<Self, MediaError> {
        let mut begin = 0;
        for (place, end) in places.iter().zip(ends) {
            let parts = vectors.get(begin..*end);
            let bytes = parts.map(|parts| parts.iter().map(|part| part.len()).sum::<usize>());
            let is_whole = usize::from(place.bytes) >= HEADER_BYTES;
            if bytes != Some(place.bytes.into()) || !is_whole {
                return Err(refused(format!(
                    "vectors {begin} to {end} of {} are no packet of {} bytes",
                    vectors.len(),
                    place.bytes
                )));
            }
            begin = *end;
        }
        let is_all = places.len() == ends.len() && begin == vectors.len();
        if !is_all || vectors.len() > VECTORS_MAX {
            let counts = (vectors.len(), ends.len(), places.len());
            return Err(refused(format!(
                "{} vectors, of which {} packets were given the ends, for {} packets",
                counts.0, counts.1, counts.2
            )));
        }
        Ok(Self {
            bytes: Bytes::Apart(Apart {
                vectors,
                ends,
                passed: 0,
            }),
            places,
            departures_ns: None,
            is_lasting: false,
        })
    }

    /// The same packets, each with a header of its own in place of its first [`HEADER_BYTES`].
    ///
    /// # Errors
    ///
    /// [`MediaError::Packet`] if there are not as many headers as packets, or the packets lie apart
    /// from their headers already.
    pub fn with_headers(self, headers: &'p [Header]) -> Result<Self, MediaError> {
        if headers.len() != self.places.len() {
            let (headers, packets) = (headers.len(), self.places.len());
            return Err(refused(format!("{headers} headers for {packets} packets")));
        }
        let (Bytes::Together(memory) | Bytes::Headed(memory, _)) = self.bytes else {
            return Err(refused("headers for packets in pieces".to_owned()));
        };
        Ok(Self {
            bytes: Bytes::Headed(memory, headers),
            ..self
        })
    }

    /// The same packets, each with the instant of the monotonic clock at which the kernel is to
    /// send it. Those with the same instant, one behind the other, leave together. Destinations
    /// whose way does not heed departure times send them at once.
    ///
    /// # Errors
    ///
    /// [`MediaError::Packet`] if there are not as many instants as packets.
    pub fn with_departures(self, departures_ns: &'p [u64]) -> Result<Self, MediaError> {
        if departures_ns.len() != self.places.len() {
            let (times, packets) = (departures_ns.len(), self.places.len());
            return Err(refused(format!(
                "{times} departure times for {packets} packets"
            )));
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
        let bytes = match self.bytes {
            Bytes::Together(memory) => Bytes::Together(memory),
            Bytes::Headed(memory, headers) => Bytes::Headed(memory, &headers[count..]),
            Bytes::Apart(apart) => Bytes::Apart(apart.after(count)),
        };
        Self {
            bytes,
            places: &self.places[count..],
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

    /// May they be sent by reference, as they lie there?
    pub(crate) fn may_be_referenced(&self) -> bool {
        self.by_reference().is_some()
    }

    /// Where they lie in which file, if they may be sent by reference. Not with departure times,
    /// which `sendfile` has no argument for.
    pub(crate) fn by_reference(&self) -> Option<(&PacketMemory<'p>, BorrowedFd<'p>)> {
        if !self.is_lasting || self.departures_ns.is_some() {
            return None;
        }
        let memory = self.together()?;
        Some((memory, memory.file?))
    }

    /// When one of them leaves, if that is the kernel's business.
    pub(crate) fn departure_ns(&self, index: usize) -> Option<u64> {
        self.departures_ns?.get(index).copied()
    }

    /// Where they lie, if each is in one piece.
    pub(crate) fn together(&self) -> Option<&PacketMemory<'p>> {
        match &self.bytes {
            Bytes::Together(memory) => Some(memory),
            Bytes::Headed(..) | Bytes::Apart(_) => None,
        }
    }

    pub(crate) fn places(&self) -> &'p [PacketPlace] {
        self.places
    }

    /// The first `count` packets, piece by piece, in `storage` if there is no list of them yet.
    pub(crate) fn vectors<'r>(
        &self,
        count: usize,
        storage: &'r mut [IoSlice<'p>; VECTORS_MAX],
    ) -> Vectors<'r>
    where
        'p: 'r,
    {
        let (memory, headers) = match self.bytes {
            Bytes::Apart(apart) => return apart.first(count),
            Bytes::Together(memory) => (memory, None),
            Bytes::Headed(memory, headers) => (memory, Some(headers)),
        };
        let count = count.min(self.len()).min(VECTORS_MAX / 2);
        let pairs = storage.as_chunks_mut::<2>().0.iter_mut();
        for (index, (pair, place)) in pairs.zip(&self.places[..count]).enumerate() {
            // Checked when the group was made.
            let packet = &memory.bytes[place.offset as usize..place.end()];
            let (built, payload) = packet.split_at(HEADER_BYTES);
            let header = headers.map_or(built, |headers| &headers[index]);
            *pair = [IoSlice::new(header), IoSlice::new(payload)];
        }
        Vectors {
            all: &storage[..2 * count],
            ends: Ends::Pairs,
        }
    }
}

impl<'p> Apart<'p> {
    fn after(self, count: usize) -> Self {
        let Some(last) = count.checked_sub(1) else {
            return self;
        };
        let passed = self.ends.get(last).copied().unwrap_or(self.passed);
        Self {
            vectors: self.vectors.get(passed - self.passed..).unwrap_or_default(),
            ends: self.ends.get(count..).unwrap_or_default(),
            passed,
        }
    }

    fn first(&self, count: usize) -> Vectors<'p> {
        let ends = &self.ends[..count.min(self.ends.len())];
        let end = ends.last().copied().unwrap_or(self.passed) - self.passed;
        Vectors {
            all: &self.vectors[..end],
            ends: Ends::Listed(ends, self.passed),
        }
    }
}

/// The pieces of some packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vectors<'v> {
    all: &'v [IoSlice<'v>],
    ends: Ends<'v>,
}

#[derive(Clone, Copy, Debug)]
enum Ends<'v> {
    /// Each packet has two.
    Pairs,
    /// Behind which each packet ends, and how many were in front.
    Listed(&'v [usize], usize),
}

impl<'v> Vectors<'v> {
    /// Of all packets, in order.
    pub(crate) fn all(&self) -> &'v [IoSlice<'v>] {
        self.all
    }

    /// Of one packet; none behind the last.
    pub(crate) fn of(&self, packet: usize) -> &'v [IoSlice<'v>] {
        self.between(packet..packet + 1)
    }

    /// Of packets one behind the other; none if they are not all there.
    pub(crate) fn between(&self, packets: Range<usize>) -> &'v [IoSlice<'v>] {
        let behind = |count: usize| match (self.ends, count.checked_sub(1)) {
            (Ends::Pairs, _) => 2 * count,
            (Ends::Listed(..), None) => 0,
            (Ends::Listed(ends, passed), Some(last)) => {
                ends.get(last).map_or(usize::MAX, |end| end - passed)
            }
        };
        let range = behind(packets.start)..behind(packets.end);
        self.all.get(range).unwrap_or_default()
    }
}

fn refused(reason: String) -> MediaError {
    MediaError::Packet {
        what: "group of packets",
        reason,
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
            file: Some(input.as_fd()),
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
        let mut storage = [IoSlice::new(&[]); VECTORS_MAX];
        assert_eq!(
            headed.after(1).vectors(2, &mut storage).of(0)[0][..],
            [2; 12]
        );
        let vectors = headed.vectors(2, &mut storage);
        assert_eq!(vectors.of(1)[1].len(), 38);
        assert!(vectors.of(2).is_empty());
        assert_eq!(vectors.all().len(), 4);
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

    #[test]
    fn packets_in_pieces_are_as_long_as_their_places_say() {
        let (header, body) = ([9; 14], [7; 100]);
        let piece = |bytes| IoSlice::new(bytes);
        let vectors = [
            piece(&header[..12]),
            piece(&body[..38]),
            piece(&header),
            piece(&body[..20]),
            piece(&body[20..36]),
        ];
        let places = [place(0, 50), place(0, 50)];
        let packets = Packets::apart(&vectors, &[2, 5], &places).unwrap();
        assert!(!packets.may_be_referenced() && packets.with_headers(&[[0; 12]; 2]).is_err());
        let mut storage = [IoSlice::new(&[]); VECTORS_MAX];
        assert_eq!(packets.vectors(1, &mut storage).all().len(), 2);
        assert_eq!(packets.vectors(2, &mut storage).of(1).len(), 3);
        let second = packets.after(1);
        let vectors_of_second = second.vectors(9, &mut storage);
        assert_eq!(vectors_of_second.of(0).len(), 3);
        assert_eq!(vectors_of_second.all().len(), 3);
        assert!(vectors_of_second.of(1).is_empty());
        assert_eq!(packets.vectors(2, &mut storage).between(0..2).len(), 5);
        assert!(second.vectors(9, &mut storage).between(0..2).is_empty());
        let timed = packets.with_departures(&[1, 2]).unwrap().after(1);
        assert_eq!(timed.departure_ns(0), Some(2));
        assert_eq!(timed.vectors(9, &mut storage).of(0).len(), 3);
        assert!(second.after(1).is_empty());
        for (ends, places) in [
            (&[2, 4][..], &places[..]),
            (&[2, 6], &places),
            (&[3, 2], &places),
            (&[2], &places[..1]),
            (&[2], &places),
            (&[2, 5], &places[..1]),
        ] {
            assert!(Packets::apart(&vectors, ends, places).is_err(), "{ends:?}");
        }
        assert!(Packets::apart(&vectors[..1], &[1], &[place(0, 11)]).is_err());
    }
}
