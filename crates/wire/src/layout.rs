//! Who has which chunks, and how many there are.

use std::path::PathBuf;

use hythe_xdp::frame::{HEADERS_BYTES, PAYLOAD_BYTES_MAX};
use hythe_xdp::{CHUNK_BYTES, RingSizes};

/// Where services listen, each by the name of its interface.
pub const PATH: &str = "/run/hythe/wire";

/// Where the service of an interface listens.
#[must_use]
pub fn path_of(interface: &str) -> PathBuf {
    PathBuf::from(PATH).join(interface)
}

/// Flows of an interface, each of one process.
pub(crate) const FLOWS_MAX: u32 = 16;
/// Processes that are connected: as many as have a flow may be on their way to ask.
pub(crate) const CLIENTS_MAX: usize = 2 * FLOWS_MAX as usize;
/// Queues of an interface that are served; what comes by others goes the usual way.
pub(crate) const QUEUES_MAX: u32 = 8;
/// Chunks of each queue that the kernel receives into. Frames that find none are lost, and sent
/// again: so a flow that is not read ends where others need what it holds.
pub(crate) const RECEIVE_CHUNKS: u32 = 1024;
/// Frames of a flow that the kernel can have to send at once.
pub const FRAMES_MAX: u32 = SEND_CHUNKS;
/// Chunks of each flow that it sends from, by the first queue.
pub(crate) const SEND_CHUNKS: u32 = 128;
/// Of the region of the first queue; others have those to receive into only.
pub(crate) const FIRST_REGION_CHUNKS: u32 = RECEIVE_CHUNKS + FLOWS_MAX * SEND_CHUNKS;
/// Where the region that frames are sent from is, if there is one: behind that of the first queue.
pub(crate) const CARD_OFFSET: u64 = FIRST_REGION_CHUNKS as u64 * CHUNK_BYTES as u64;
/// A frame is headers and a payload of at most a chunk, which may lie in two of them.
pub(crate) const PIECES_MAX: usize = 3;
/// Fill and completion rings have space for every chunk, and for each piece of every frame.
pub(crate) const OWN_RING: u32 = 8192;
/// Those of a flow: the receive ring has an entry for each chunk, as its observer needs it, the
/// send ring for each piece of its frames.
pub(crate) const RINGS: RingSizes = RingSizes {
    receive: RECEIVE_CHUNKS,
    send: 4 * SEND_CHUNKS,
};
/// A word for each chunk to send from: 1 from when the kernel is given it until that has sent it.
pub(crate) const CONTROL_BYTES: usize = 4096;
/// A process rings when it has given back or sent so many chunks; if all flows have almost as many,
/// the service looks by itself before long.
pub(crate) const RING_AFTER: u32 = SEND_CHUNKS / 2;

/// What may be behind it has pages of 2 MiB.
const _: () = assert!(CARD_OFFSET.is_multiple_of(2 << 20));
/// Flows that have the same number, one after the other, begin their frames at as many places of a
/// chunk: so what the kernel completes late is not taken for a later flow's.
pub(crate) const GENERATIONS: u32 = 64;
const GENERATION_BYTES: u32 = 4;

const _: () = assert!(
    HEADERS_BYTES + PAYLOAD_BYTES_MAX + ((GENERATIONS - 1) * GENERATION_BYTES) as usize
        <= CHUNK_BYTES
);
const _: () = assert!(OWN_RING >= RECEIVE_CHUNKS);
const _: () = assert!(OWN_RING >= FLOWS_MAX * SEND_CHUNKS * PIECES_MAX as u32);
const _: () = assert!(RINGS.send >= SEND_CHUNKS * PIECES_MAX as u32);
const _: () = assert!(SEND_CHUNKS as usize * 4 <= CONTROL_BYTES);

/// The first chunk that a flow sends from.
pub(crate) const fn first_send_chunk(flow: u32) -> u32 {
    RECEIVE_CHUNKS + flow * SEND_CHUNKS
}

/// A place for a flow, of those that an interface has one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowPlace {
    /// Which chunks it sends from.
    pub(crate) number: u32,
    /// Below [`GENERATIONS`]: where in them its frames begin.
    pub(crate) generation: u32,
}

impl FlowPlace {
    /// Where the frame begins that is in a chunk of its own.
    pub(crate) const fn frame_at(self, chunk: u32) -> usize {
        let chunk = first_send_chunk(self.number) + chunk;
        chunk as usize * CHUNK_BYTES + (self.generation * GENERATION_BYTES) as usize
    }

    /// Whose which chunk begins a frame there, if it is one to send from.
    pub(crate) fn of_frame(address: u64) -> Option<(Self, u32)> {
        let chunk = u32::try_from(address / CHUNK_BYTES as u64).ok()?;
        let of_flows = chunk.checked_sub(first_send_chunk(0))?;
        let (number, chunk) = (of_flows / SEND_CHUNKS, of_flows % SEND_CHUNKS);
        // Fits: within a chunk.
        let generation = (address % CHUNK_BYTES as u64) as u32 / GENERATION_BYTES;
        let place = Self { number, generation };
        (number < FLOWS_MAX).then_some((place, chunk))
    }
}

/// How many flows have had each number.
#[derive(Debug, Default)]
pub(crate) struct FlowPlaces([u32; FLOWS_MAX as usize]);

impl FlowPlaces {
    /// A number that is free, of those that were taken least often; if there is one. The same until
    /// it is [taken](Self::take): who gets none in the end has had no frame there.
    pub(crate) fn next(&self, is_used: impl Fn(u32) -> bool) -> Option<FlowPlace> {
        let numbers = (0..FLOWS_MAX).zip(&self.0);
        let free = numbers.filter(|(number, _)| !is_used(*number));
        let (number, taken) = free.min_by_key(|(_, taken)| **taken)?;
        let generation = *taken % GENERATIONS;
        Some(FlowPlace { number, generation })
    }

    /// A flow has this number from now on.
    pub(crate) fn take(&mut self, number: u32) {
        let taken = &mut self.0[number as usize];
        *taken = taken.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_says_whose_it_is_and_no_other_address_does() {
        let mut all = std::collections::BTreeSet::new();
        for number in 0..FLOWS_MAX {
            for generation in 0..GENERATIONS {
                let place = FlowPlace { number, generation };
                for chunk in [0, 1, SEND_CHUNKS - 1] {
                    let at = place.frame_at(chunk);
                    assert_eq!(FlowPlace::of_frame(at as u64), Some((place, chunk)));
                    assert!(all.insert(at), "{place:?}");
                    let end = at + HEADERS_BYTES + PAYLOAD_BYTES_MAX;
                    assert_eq!(
                        at / CHUNK_BYTES,
                        (end - 1) / CHUNK_BYTES,
                        "leaves its chunk"
                    );
                }
            }
        }
        let first = u64::from(RECEIVE_CHUNKS) * 4096;
        // To receive into, and a piece in a slot.
        for address in [0, first - 1, CARD_OFFSET, CARD_OFFSET + 4, u64::MAX] {
            assert_eq!(FlowPlace::of_frame(address), None, "{address}");
        }
        assert!(FlowPlace::of_frame(CARD_OFFSET - 1).is_some());
    }

    #[test]
    fn place_comes_again_behind_all_others_only() {
        let mut places = FlowPlaces::default();
        let all = FLOWS_MAX * GENERATIONS;
        let mut taken = std::collections::BTreeSet::new();
        for _ in 0..all {
            let place = places.next(|_| false).expect("free");
            // However many ask in vain.
            assert_eq!(places.next(|_| false), Some(place));
            let FlowPlace { number, generation } = place;
            assert!(taken.insert((number, generation)), "{number} {generation}");
            places.take(number);
        }
        // Where all others are in use it is another generation each time.
        let mut generations: Vec<_> = (0..GENERATIONS)
            .map(|_| {
                let place = places.next(|number| number != 3).expect("free");
                places.take(place.number);
                (place.number, place.generation)
            })
            .collect();
        generations.dedup();
        assert_eq!(generations.len(), GENERATIONS as usize);
        assert_eq!(places.next(|_| true), None);
    }
}
