//! Packets that lie in messages of a channel: headers here, payloads in the very slots that the
//! publisher wrote.
//!
//! A message is held from when its first packet is cut until its last one was sent to all
//! destinations and is not kept for resending any more; then its slot goes back to the publisher.
//! All sends are by copying into the kernel's own buffers (`sendmsg` of header and payload
//! vectors), so when the call returns the network stack refers to nothing of ours: no completion is
//! waited for, and the slot may be written again at once.
//!
//! What is kept for resending is bounded by [`Budget`]: its publisher has only so many slots, and a
//! history must not stop a camera. Nothing is allocated for a packet once the queues have grown to
//! what the stream needs.

use std::collections::VecDeque;
use std::io::IoSlice;

use hythe_rtp::HEADER_BYTES;
use hythe_rtp::payload::{PREFIX_BYTES_MAX, Payload};

use crate::MediaError;
use crate::source::channel::Message;
use crate::wire::layout::Head;
use crate::wire::packets::{Packets, VECTORS_MAX};
use crate::wire::run::PacketPlace;

/// A header, and the payload header behind it.
const FRONT_BYTES_MAX: usize = HEADER_BYTES + PREFIX_BYTES_MAX;
/// Bytes made for a packet that stand between those of messages: the length of an aggregated NAL
/// unit.
const BETWEEN_BYTES_MAX: usize = 2;
/// Most pieces of a packet behind its front: sixteen aggregated NAL units with their lengths, and
/// some space.
const PIECES_MAX: usize = 40;
/// So many messages with so many packets that wait for their instant are enough: a group has at
/// most 64, and who publishes needs slots, too.
const WAITING_MESSAGES: usize = 16;
const WAITING_PACKETS: usize = 65;
/// More of either do not wait, beside those of one unit.
const WAITING_MESSAGES_MAX: usize = 128;
const WAITING_PACKETS_MAX: usize = 4096;

/// How much is kept, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    /// Slots.
    pub(super) messages: usize,
    /// Bytes in them.
    pub(super) bytes: usize,
}

/// A piece of a packet.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// Made for the packet.
    Between([u8; BETWEEN_BYTES_MAX], u8),
    /// In a message, by its number.
    Lying {
        message: u64,
        offset: u32,
        bytes: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    front: [u8; FRONT_BYTES_MAX],
    front_bytes: u8,
    /// Of the pieces behind the front: number of the first, and how many.
    first_piece: u64,
    pieces: u16,
    /// When it left, if it has.
    left_ns: u64,
}

impl Packet {
    /// Its front, and its pieces.
    fn vectors(&self) -> usize {
        1 + usize::from(self.pieces)
    }
}

/// A message, and the number of the last packet that lies in it so far.
#[derive(Debug)]
struct Hold {
    message: Message,
    last: u64,
}

/// The packets of a stream that lie in messages of a channel, oldest first. Numbers count over the
/// whole stream.
#[derive(Debug)]
pub(super) struct ZeroCopyQueue {
    messages: VecDeque<Hold>,
    first_message: u64,
    /// The first of them, so many with so many bytes, have no packet that waits.
    done: usize,
    done_bytes: usize,
    packets: VecDeque<Packet>,
    /// Of the same packets.
    places: VecDeque<PacketPlace>,
    first: u64,
    pieces: VecDeque<Piece>,
    first_piece: u64,
    /// How many of the packets left.
    left: usize,
    kept: Budget,
}

/// Space for the vectors of a group.
#[derive(Debug)]
pub(super) struct GroupVectors<'v> {
    vectors: [IoSlice<'v>; VECTORS_MAX],
    ends: [usize; VECTORS_MAX],
}

impl GroupVectors<'_> {
    pub(super) fn new() -> Self {
        Self {
            vectors: [IoSlice::new(&[]); VECTORS_MAX],
            ends: [0; VECTORS_MAX],
        }
    }
}

impl ZeroCopyQueue {
    pub(super) fn new(kept: Budget) -> Self {
        Self {
            messages: VecDeque::new(),
            first_message: 0,
            done: 0,
            done_bytes: 0,
            packets: VecDeque::new(),
            places: VecDeque::new(),
            first: 0,
            pieces: VecDeque::new(),
            first_piece: 0,
            left: 0,
            kept,
        }
    }

    /// Adds a packet behind the others. Nothing of its body is copied but what was made for it.
    pub(super) fn push(
        &mut self,
        head: &Head,
        payload: &Payload<'_>,
        messages: &[Message],
    ) -> Result<(), MediaError> {
        let front_bytes = HEADER_BYTES + payload.prefix.len();
        let bytes = u16::try_from(HEADER_BYTES + payload.len());
        let (Ok(bytes), true, true) = (
            bytes,
            front_bytes <= FRONT_BYTES_MAX,
            payload.body.len() <= PIECES_MAX,
        ) else {
            return Err(unfit(payload));
        };
        let mut front = [0; FRONT_BYTES_MAX];
        front[..HEADER_BYTES].copy_from_slice(&head.header);
        front[HEADER_BYTES..front_bytes].copy_from_slice(payload.prefix);
        let number = self.first + self.packets.len() as u64;
        let first_piece = self.first_piece + self.pieces.len() as u64;
        let before = self.pieces.len();
        for slice in payload.body {
            let Some(piece) = self.piece(slice, messages, number) else {
                self.pieces.truncate(before);
                return Err(unfit(payload));
            };
            self.pieces.push_back(piece);
        }
        self.packets.push_back(Packet {
            front,
            front_bytes: front_bytes as u8, // at most 20
            first_piece,
            pieces: payload.body.len() as u16, // at most 40
            left_ns: 0,
        });
        self.places.push_back(PacketPlace {
            offset: 0,
            bytes,
            sequence: u16::from_be_bytes([head.header[2], head.header[3]]),
            due_ns: head.due_ns,
        });
        Ok(())
    }

    /// Where a slice lies; a few bytes that lie in no message were made for the packet.
    fn piece(&mut self, slice: &[u8], messages: &[Message], packet: u64) -> Option<Piece> {
        for message in messages {
            if message.find(slice).is_some() {
                return self.lying(slice, message, packet);
            }
        }
        let mut made = [0; BETWEEN_BYTES_MAX];
        made.get_mut(..slice.len())?.copy_from_slice(slice);
        Some(Piece::Between(made, slice.len() as u8))
    }

    fn lying(&mut self, slice: &[u8], message: &Message, packet: u64) -> Option<Piece> {
        let is_same = |hold: &Hold| hold.message.shares_slot_with(message);
        let known = self.messages.iter().rposition(is_same);
        let index = known.unwrap_or_else(|| {
            self.messages.push_back(Hold {
                message: message.whole(),
                last: packet,
            });
            self.messages.len() - 1
        });
        let hold = self.messages.get_mut(index)?;
        hold.last = packet;
        if index < self.done {
            // All that was cut of it had left, and here is more.
            self.done = index;
            let done = self.messages.iter().take(index);
            self.done_bytes = done.map(|hold| hold.message.len()).sum();
        }
        let hold = self.messages.get(index)?;
        let place = hold.message.find(slice)?;
        Some(Piece::Lying {
            message: self.first_message + index as u64,
            offset: u32::try_from(place.start).ok()?,
            bytes: u32::try_from(place.len()).ok()?,
        })
    }

    pub(super) fn is_far_ahead(&self) -> bool {
        let (messages, packets) = (
            self.messages.len() - self.done,
            self.packets.len() - self.left,
        );
        let is_enough = messages >= WAITING_MESSAGES && packets >= WAITING_PACKETS;
        is_enough || messages >= WAITING_MESSAGES_MAX || packets >= WAITING_PACKETS_MAX
    }

    /// Packets that have not left, in order; fewer where the queue goes round.
    pub(super) fn waiting(&self) -> &[PacketPlace] {
        let (front, behind) = self.places.as_slices();
        match self.left.checked_sub(front.len()) {
            Some(left) => &behind[left..],
            None => &front[self.left..],
        }
    }

    /// The number of the packet that is so many behind the first that waits.
    pub(super) fn number(&self, index: usize) -> u64 {
        self.first + (self.left + index) as u64
    }

    /// The number of the oldest packet that is kept.
    pub(super) fn oldest(&self) -> u64 {
        self.first
    }

    /// How many of those [`waiting`](Self::waiting) one group has vectors for.
    pub(super) fn fitting(&self) -> usize {
        let mut vectors = 0;
        let waiting = self.packets.range(self.left..).take(self.waiting().len());
        let fits = waiting.take_while(|packet| {
            vectors += packet.vectors();
            vectors <= VECTORS_MAX
        });
        fits.count()
    }

    /// The first `count` of those [`waiting`](Self::waiting), no more than [`fit`](Self::fitting).
    pub(super) fn packets<'s>(
        &'s self,
        count: usize,
        storage: &'s mut GroupVectors<'s>,
    ) -> Result<Packets<'s>, MediaError> {
        let count = count.min(self.fitting());
        let mut vectors = 0;
        let packets = self.packets.range(self.left..).take(count);
        for (packet, last) in packets.zip(&mut storage.ends) {
            let end = vectors + packet.vectors();
            storage.vectors[vectors] = IoSlice::new(&packet.front[..packet.front_bytes.into()]);
            let places = storage.vectors[vectors + 1..end].iter_mut();
            for (vector, piece) in places.zip(self.pieces_of(packet)) {
                *vector = IoSlice::new(self.slice(piece));
            }
            (vectors, *last) = (end, end);
        }
        let (vectors, ends) = (&storage.vectors[..vectors], &storage.ends[..count]);
        Packets::apart(vectors, ends, &self.waiting()[..count])
    }

    fn pieces_of(&self, packet: &Packet) -> impl Iterator<Item = &Piece> {
        let begin = (packet.first_piece - self.first_piece) as usize;
        self.pieces.range(begin..begin + usize::from(packet.pieces))
    }

    /// Its length was fixed when the packet was cut; what it says is what the publisher's slot says
    /// now.
    fn slice<'s>(&'s self, piece: &'s Piece) -> &'s [u8] {
        match piece {
            Piece::Between(made, bytes) => &made[..usize::from(*bytes)],
            Piece::Lying {
                message,
                offset,
                bytes,
            } => {
                let hold = &self.messages[(message - self.first_message) as usize];
                &hold.message.bytes()[*offset as usize..][..*bytes as usize]
            }
        }
    }

    /// Shows a packet that is kept: its header, and what follows in pieces.
    pub(super) fn show<T>(
        &self,
        number: u64,
        see: impl FnOnce(&[u8; HEADER_BYTES], &[&[u8]]) -> T,
    ) -> Option<T> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let packet = self.packets.get(index)?;
        let front = &packet.front[..packet.front_bytes.into()];
        let (header, prefix) = front.split_first_chunk()?;
        let mut body: [&[u8]; PIECES_MAX + 1] = [&[]; PIECES_MAX + 1];
        body[0] = prefix;
        for (slice, piece) in body[1..].iter_mut().zip(self.pieces_of(packet)) {
            *slice = self.slice(piece);
        }
        Some(see(header, &body[..1 + usize::from(packet.pieces)]))
    }

    /// The first `count` packets that waited left.
    pub(super) fn left(&mut self, count: usize, now_ns: u64) {
        let count = count.min(self.packets.len() - self.left);
        for packet in self.packets.range_mut(self.left..self.left + count) {
            packet.left_ns = now_ns;
        }
        self.left += count;
        let next = self.number(0);
        while let Some(hold) = self.messages.get(self.done).filter(|hold| hold.last < next) {
            self.done += 1;
            self.done_bytes += hold.message.len();
        }
    }

    /// Lets go of packets that left before `before_ns`, and of more if too much is kept; how many
    /// those are.
    pub(super) fn recycle(&mut self, before_ns: u64) -> u64 {
        let mut early = 0;
        while self.left > 0 {
            let is_old = self
                .packets
                .front()
                .is_some_and(|oldest| oldest.left_ns < before_ns);
            let is_too_much = self.done > self.kept.messages || self.done_bytes > self.kept.bytes;
            if !is_old && !is_too_much {
                break;
            }
            early += u64::from(!is_old);
            self.let_go();
        }
        early
    }

    /// Lets go of the oldest packet, and of the messages in which no other lies.
    fn let_go(&mut self) {
        let Some(packet) = self.packets.pop_front() else {
            return;
        };
        self.places.pop_front();
        self.pieces.drain(..usize::from(packet.pieces));
        self.first_piece += u64::from(packet.pieces);
        self.first += 1;
        self.left -= 1;
        while let Some(done) = self.messages.pop_front_if(|hold| hold.last < self.first) {
            self.first_message += 1;
            self.done -= 1;
            self.done_bytes -= done.message.len();
        }
    }
}

/// No packetizer makes such.
fn unfit(payload: &Payload<'_>) -> MediaError {
    MediaError::Packet {
        what: "packet",
        reason: format!(
            "{} bytes in {} pieces do not lie in the messages of its unit",
            payload.len(),
            payload.body.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made for the packet, so that no message is needed.
    const BETWEEN: [u8; BETWEEN_BYTES_MAX] = [7; BETWEEN_BYTES_MAX];

    fn push(store: &mut ZeroCopyQueue, pieces: usize) {
        let head = Head {
            header: [0x80; HEADER_BYTES],
            due_ns: 0,
        };
        let payload = Payload {
            prefix: &[],
            body: &vec![&BETWEEN[..]; pieces],
            marker: false,
            time: 0,
            due: 0,
        };
        store.push(&head, &payload, &[]).unwrap();
    }

    #[test]
    fn group_fits_vectors_and_has_departure_per_packet() {
        let mut store = ZeroCopyQueue::new(Budget {
            messages: 0,
            bytes: 0,
        });
        assert_eq!(store.fitting(), 0);
        // With its front, each is 41 vectors of 256.
        (0..10).for_each(|_| push(&mut store, PIECES_MAX));
        (0..3).for_each(|_| push(&mut store, 1));
        for (waiting, fitting) in [(13, 6), (7, 7)] {
            assert_eq!((store.waiting().len(), store.fitting()), (waiting, fitting));
            let mut storage = GroupVectors::new();
            let packets = store.packets(waiting, &mut storage).unwrap();
            assert_eq!(packets.len(), fitting);
            let departures_ns = vec![1; fitting];
            assert!(packets.with_departures(&departures_ns).is_ok());
            assert!(packets.with_departures(&vec![1; fitting + 1]).is_err());
            store.left(6, 0);
        }
    }
}
