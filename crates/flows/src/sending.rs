//! The sending half of a flow: messages stay in the slots where they lie, and leave from there.
//!
//! A slot is held until the receiver's pool has taken the message over. By UDP the kernel has
//! copied what it was given when its call returns; where a message left by the wire from its slot,
//! that is held until the kernel has given back the frames, too. Never waits, never copies payload.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd};

use hythe_node::{RegionIndex, Sample, TrustPeers, hop};
use hythe_packets::{Acknowledged, Checksum, Fault, HEADER_BYTES, Sender, Settings};
use hythe_sys::udp_send::{SEGMENTED_BYTES_MAX, SEGMENTS_MAX};
use hythe_wire::WireStatistics;

use crate::socket::{Buffer, FlowSocket, Passed, Received, Run};

/// Datagrams that one call looks at.
const RECEIVE_MAX: usize = 256;
/// Header and payload of each datagram of a run.
const PIECES_MAX: usize = 2 * SEGMENTS_MAX;
/// As many messages can have a frame with the kernel, since a wire has as many.
const FRAMES_MAX: usize = hythe_wire::FRAMES_MAX as usize;

/// The sending half of a flow.
#[derive(Debug)]
pub(crate) struct Sending {
    socket: FlowSocket,
    sender: Sender,
    window: u64,
    mtu_bytes: u16,
    /// Datagrams of one call; 1 where the kernel does not cut them.
    segments_max: usize,
    /// Messages that are not accepted, the first of this number.
    held: VecDeque<Held>,
    first: u64,
    /// Messages that are accepted, and whose frames the kernel has still.
    leaving: VecDeque<Held>,
    /// What the protocol has given out and the kernel has not taken: datagrams of one size, of
    /// which the last may be shorter.
    run: Vec<Datagram>,
    /// Did not fit the run.
    next: Option<Datagram>,
}

/// A message that has its slot.
#[derive(Debug)]
struct Held {
    sample: Sample,
    /// Where its payload is in the region for network cards, if it is there.
    place: Option<u64>,
    /// So many frames of the wire are to be back before the slot is free.
    frames: u64,
}

#[derive(Clone, Copy, Debug)]
struct Datagram {
    message: u64,
    offset: u32,
    payload_bytes: u16,
    header: [u8; HEADER_BYTES],
}

impl Datagram {
    fn bytes(&self) -> usize {
        HEADER_BYTES + usize::from(self.payload_bytes)
    }

    fn range(&self) -> Range<usize> {
        let at = self.offset as usize;
        at..at + usize::from(self.payload_bytes)
    }
}

impl Sending {
    pub(crate) fn new(socket: FlowSocket, settings: Settings) -> Result<Self, Fault> {
        Ok(Self {
            socket,
            sender: Sender::new(settings)?,
            window: settings.window.messages.into(),
            mtu_bytes: settings.mtu_bytes,
            segments_max: SEGMENTS_MAX,
            held: VecDeque::with_capacity(settings.window.messages as usize),
            leaving: VecDeque::with_capacity(FRAMES_MAX),
            first: 0,
            run: Vec::with_capacity(SEGMENTS_MAX),
            next: None,
        })
    }

    /// Takes a message into the flow; [`flush`](Self::flush) sends it. It comes back if as many as
    /// the window has are not accepted yet.
    pub(crate) fn push(&mut self, now_ns: u64, sample: Sample) -> Result<(), Sample> {
        if self.is_full() {
            return Err(sample);
        }
        // Fits: a slot's size is 32 bits.
        match self.sender.push(now_ns, sample.len() as u32, 0) {
            Some(_) => {
                let (region, offset) = hop::place_of(&sample);
                let is_there = self.socket.card() == Some(region);
                self.held.push_back(Held {
                    place: is_there.then_some(offset),
                    sample,
                    frames: 0,
                });
                Ok(())
            }
            None => Err(sample),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.held.len() as u64 >= self.window
    }

    /// Messages that nobody has accepted.
    pub(crate) fn unaccepted(&self) -> usize {
        self.held.len()
    }

    /// Tells the subscriber that nothing more comes. Once, and last: that may be lost.
    pub(crate) fn say_end(&mut self, now_ns: u64) {
        if self.sender.end(now_ns).is_some() {
            self.flush(now_ns);
        }
    }

    /// Gives all slots back, but for what the kernel has still: nothing is sent any more.
    pub(crate) fn release(&mut self) {
        self.leaving.extend(self.held.drain(..));
        self.free_returned();
        self.run.clear();
        self.next = None;
    }

    /// Gives back slots whose frames the kernel has given back.
    pub(crate) fn free_returned(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let returned = self.socket.returned();
        self.leaving.retain(|held| held.frames > returned);
    }

    /// Sends what may leave now.
    pub(crate) fn flush(&mut self, now_ns: u64) {
        loop {
            self.fill(now_ns);
            if self.run.is_empty() || !self.send_run(now_ns) {
                return;
            }
        }
    }

    /// Takes what has come back, frees slots, runs timers, and sends what may leave then.
    pub(crate) fn turn(&mut self, now_ns: u64, buffer: &mut Buffer) -> Result<(), Fault> {
        let Self { socket, sender, .. } = self;
        // Bounded: whoever is on the link can send more than can be looked at.
        for _ in 0..RECEIVE_MAX {
            let received = socket.receive(now_ns, buffer, |datagram| {
                let taken = sender.acknowledged(now_ns, datagram)?;
                if let Acknowledged::Dropped(reason) = taken {
                    tracing::debug!(?reason, "dropped an acknowledgement");
                }
                Ok(())
            })?;
            if received != Received::Some {
                break;
            }
        }
        self.sender.expire(now_ns)?;
        while self.first < self.sender.accepted() {
            self.first += 1;
            match self.held.pop_front() {
                Some(held) if held.frames > 0 => self.leaving.push_back(held),
                _ => {}
            }
        }
        self.free_returned();
        self.flush(now_ns);
        Ok(())
    }

    /// Does something wait for the window, for the pace, or for the kernel? It goes on with what
    /// comes back.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.run.is_empty() || self.next.is_some() || self.sender.has_unsent()
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn has_wire(&self) -> bool {
        self.socket.has_wire()
    }

    /// The region from which messages are best sent, if there is one.
    pub(crate) fn card(&self) -> Option<RegionIndex> {
        self.socket.card()
    }

    pub(crate) fn wire_statistics(&self) -> WireStatistics {
        self.socket.wire_statistics()
    }

    pub(crate) fn socket_mut(&mut self) -> &mut FlowSocket {
        &mut self.socket
    }

    /// When a turn is due at the latest.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        self.sender.next_wake()
    }

    /// Forms the next run.
    fn fill(&mut self, now_ns: u64) {
        if !self.run.is_empty() {
            return;
        }
        let mut bytes = 0;
        while self.run.len() < self.segments_max {
            let Some(datagram) = self.next.take().or_else(|| self.transmit(now_ns)) else {
                return;
            };
            let size = datagram.bytes();
            let segment = self.run.first().map_or(size, Datagram::bytes);
            if size > segment || bytes + size > SEGMENTED_BYTES_MAX {
                self.next = Some(datagram);
                return;
            }
            bytes += size;
            self.run.push(datagram);
            if size < segment {
                return;
            }
        }
    }

    fn transmit(&mut self, now_ns: u64) -> Option<Datagram> {
        let packet = self.sender.transmit(now_ns)?;
        let held = held(&self.held, self.first, packet.message);
        let payload = payload(held, packet.range());
        Some(Datagram {
            message: packet.message,
            offset: packet.offset,
            payload_bytes: packet.payload_bytes,
            header: packet.seal(Checksum::of(payload)),
        })
    }

    /// Gives the run to the kernel. False: it takes none now.
    fn send_run(&mut self, now_ns: u64) -> bool {
        let count = self.run.len();
        // Most runs are one short datagram: 3 KiB are not filled for that.
        let (mut one, mut one_place, mut many, mut many_places);
        let (pieces, places): (&mut [IoSlice<'_>], &mut [Option<u64>]) = if count == 1 {
            (one, one_place) = ([IoSlice::new(&[]); 2], [None]);
            (&mut one, &mut one_place)
        } else {
            many = [IoSlice::new(&[]); PIECES_MAX];
            many_places = [None; SEGMENTS_MAX];
            (&mut many, &mut many_places)
        };
        let pairs = pieces
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .zip(places.iter_mut());
        for (datagram, (pair, place)) in self.run.iter().zip(pairs) {
            let held = held(&self.held, self.first, datagram.message);
            let payload = payload(held, datagram.range());
            *pair = [IoSlice::new(&datagram.header), IoSlice::new(payload)];
            let first = held.and_then(|held| held.place);
            *place = first.map(|first| first + u64::from(datagram.offset));
        }
        // Fits: a datagram has less than 64 KiB.
        let segment_bytes = self.run[0].bytes() as u16;
        let run = Run {
            pieces: &pieces[..2 * count],
            places: &places[..count],
            segments: count,
            segment_bytes,
            is_first: self.held.len() == 1 && self.run[0].offset == 0,
        };
        let before = self.socket.frames();
        let passed = self.socket.send(now_ns, run);
        self.note_frames(before);
        match passed {
            Passed::Later => return false,
            Passed::Taken | Passed::Lost => {}
            Passed::TooLong => self.note_too_long(),
        }
        // What was not taken counts as lost on the way.
        self.run.clear();
        true
    }

    /// The first datagrams of the run are the frames that the wire has taken beyond so many: their
    /// messages keep their slots until those are back.
    fn note_frames(&mut self, before: u64) {
        for (frame, datagram) in (before + 1..=self.socket.frames()).zip(&self.run) {
            let index = datagram.message.checked_sub(self.first);
            let held = index.and_then(|index| self.held.get_mut(index as usize));
            if let Some(held) = held.filter(|held| held.place.is_some()) {
                held.frames = frame;
            }
        }
    }

    /// The path has become narrower, or the kernel cuts nothing for it.
    fn note_too_long(&mut self) {
        let mtu_bytes = self.socket.path_mtu().unwrap_or(self.mtu_bytes);
        if mtu_bytes < self.mtu_bytes && self.sender.set_mtu(mtu_bytes).is_ok() {
            self.mtu_bytes = mtu_bytes;
        } else {
            self.segments_max = 1;
        }
    }
}

/// A message that is not accepted yet.
fn held(all: &VecDeque<Held>, first: u64, message: u64) -> Option<&Held> {
    let index = message.checked_sub(first).map(|index| index as usize);
    index.and_then(|index| all.get(index))
}

/// Bytes of a message that is held. Of one that was accepted meanwhile none are sent any more.
fn payload(held: Option<&Held>, range: Range<usize>) -> &[u8] {
    // The writers of this pool are this host's own programs; what one of them changes meanwhile
    // makes the packet's checksum wrong, and it is sent again.
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    held.map_or(&[], |held| &held.sample.as_slice(trust)[range])
}
