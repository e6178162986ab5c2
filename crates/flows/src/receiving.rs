//! The receiving half of a flow: payload is copied from the datagrams straight to its place in a
//! slot, one for each message.
//!
//! A subscriber's depth and policy hold here, where its messages wait. Never waits.

use std::collections::VecDeque;
use std::sync::Arc;

use hythe_node::hop::{self, Participant};
use hythe_node::{Lease, PortPolicy};
use hythe_packets::{
    ACKNOWLEDGEMENT_BYTES_MAX, Arrival, Checksum, Content, Fault, HEADER_BYTES, Receiver, Settings,
};

use crate::queue::{Entry, Queue};
use crate::socket::{Buffer, FlowSocket, Received};

/// Batches that one turn takes: what comes without end keeps nobody here.
const BATCHES_MAX: usize = 16;

/// How far a turn goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until there is something to take.
    Message,
    /// Until nothing is left in the socket.
    Empty,
}

/// The receiving half of a flow.
#[derive(Debug)]
pub(crate) struct Receiving {
    participant: Arc<Participant>,
    socket: FlowSocket,
    receiver: Receiver,
    window_messages: usize,
    queue: Queue,
    /// Messages that are not whole or not in turn, the first of this number.
    filling: VecDeque<Option<Lease>>,
    first: u64,
    /// Bytes of their slots, and the most but for the first message's: a slot may be much larger
    /// than its message, and credit is in bytes of messages.
    held_bytes: u64,
    held_bytes_max: u64,
    /// There was no slot for it.
    stuck: Option<Whole>,
    /// As of [`drain`](Self::drain).
    is_draining: bool,
    /// The last turn has left something in the socket, or did not look.
    has_more: bool,
    /// Batches since an acknowledgement that is due was put off.
    put_off: usize,
    has_ended: bool,
}

/// Number and length of a message that is whole.
#[derive(Clone, Copy, Debug)]
struct Whole {
    number: u64,
    length: u32,
}

impl Receiving {
    pub(crate) fn new(
        participant: &Arc<Participant>,
        socket: FlowSocket,
        settings: Settings,
        (depth, policy): (u32, PortPolicy),
    ) -> Result<Self, Fault> {
        Ok(Self {
            participant: Arc::clone(participant),
            socket,
            receiver: Receiver::new(settings)?,
            window_messages: settings.window.messages as usize,
            queue: Queue::new(depth, policy),
            filling: VecDeque::with_capacity(settings.window.messages as usize),
            first: 0,
            held_bytes: 0,
            held_bytes_max: settings.window.bytes.into(),
            stuck: None,
            is_draining: false,
            has_more: false,
            put_off: 0,
            has_ended: false,
        })
    }

    /// The next message, or how many are missing before it.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<Entry> {
        let entry = self.queue.pop()?;
        self.accept(now_ns);
        Some(entry)
    }

    /// From now on the sender has nothing to wait for but the network: what has come whole is its
    /// no more, taken or not. For a flow that is to end, whose subscriber takes what is left of it
    /// before what comes by another way.
    pub(crate) fn drain(&mut self, now_ns: u64) {
        if !std::mem::replace(&mut self.is_draining, true) {
            self.queue.add_places(self.window_messages);
            self.accept(now_ns);
        }
    }

    pub(crate) fn has_wire(&self) -> bool {
        self.socket.has_wire()
    }

    pub(crate) fn socket_mut(&mut self) -> &mut FlowSocket {
        &mut self.socket
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The sender has ended the flow, and everything has come.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Is there nothing to take, and may there be after another turn? Who sleeps on the socket is
    /// woken once for all that has come, not for each datagram.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more && self.is_empty()
    }

    /// Takes what has come, and acknowledges it: what brings the message that is waited for as a
    /// rule at the next turn, which finds nothing else.
    pub(crate) fn turn(
        &mut self,
        now_ns: u64,
        buffer: &mut Buffer,
        until: Until,
    ) -> Result<(), Fault> {
        self.has_more = true;
        for _ in 0..BATCHES_MAX {
            let received = self.receive(now_ns, buffer)?;
            self.collect();
            self.accept(now_ns);
            self.receiver.expire(now_ns)?;
            let has_message = until == Until::Message && !self.is_empty();
            // An acknowledgement takes as long as some kilobytes of a message. So what has come
            // already is taken first, and whoever is given a message answers that first; but never
            // so much of it that the sender's window stands still.
            if received == Received::Some && self.put_off < 1 + usize::from(has_message) {
                self.put_off += 1;
            } else {
                self.put_off = 0;
                self.acknowledge(now_ns);
            }
            if received != Received::Some {
                self.has_more = received == Received::NotLooked;
                return Ok(());
            }
            if has_message {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes one batch.
    fn receive(&mut self, now_ns: u64, buffer: &mut Buffer) -> Result<Received, Fault> {
        let Self {
            participant,
            socket,
            receiver,
            filling,
            first,
            held_bytes,
            held_bytes_max,
            ..
        } = self;
        socket.receive(now_ns, buffer, |datagram| {
            let Some((header, payload)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
                receiver.too_short();
                return Ok(());
            };
            if let Arrival::Place(place) =
                receiver.receive(now_ns, header, Checksum::of(payload))?
            {
                // Fits: within the window, which has 32 bits.
                let index = (place.message() - *first) as usize;
                if filling.len() <= index {
                    filling.resize_with(index + 1, || None);
                }
                let slot = &mut filling[index];
                let may_lease = index == 0 || *held_bytes < *held_bytes_max;
                if slot.is_none() && may_lease {
                    *slot = hop::lease(participant, place.length() as usize).ok();
                    *held_bytes += slot.as_ref().map_or(0, capacity);
                }
                // Without a slot it is as if lost, and comes again.
                if let Some(lease) = slot {
                    lease.write(place.range().start, payload);
                    place.done();
                }
            }
            Ok(())
        })
    }

    /// Sends the acknowledgement that is due, if one is.
    fn acknowledge(&mut self, now_ns: u64) {
        let mut out = [0; ACKNOWLEDGEMENT_BYTES_MAX];
        if let Some(bytes) = self.receiver.acknowledge(now_ns, &mut out) {
            // One that is lost is made good by the next.
            self.socket.send_one(now_ns, &out[..bytes]);
        }
    }

    /// When a turn is due at the latest.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        self.receiver.next_wake()
    }

    /// Moves messages that are whole to the queue, in their order.
    fn collect(&mut self) {
        while let Some(whole) = self.stuck.take().or_else(|| self.next_whole()) {
            let lease = match self.filling.pop_front().flatten() {
                Some(lease) => {
                    self.held_bytes -= capacity(&lease);
                    Some(lease)
                }
                // It has no payload, and so no packet that a slot was leased for.
                None => hop::lease(&self.participant, whole.length as usize).ok(),
            };
            let Some(lease) = lease else {
                self.filling.push_front(None);
                self.stuck = Some(whole);
                return;
            };
            self.first = whole.number + 1;
            let sample = lease.freeze(whole.length as usize);
            self.queue.push(whole.number, sample);
        }
    }

    fn next_whole(&mut self) -> Option<Whole> {
        let message = self.receiver.next_message()?;
        let number = message.number;
        match message.content {
            Content::Message { length, .. } => Some(Whole { number, length }),
            Content::End => {
                self.first = number + 1;
                self.has_ended = true;
                None
            }
        }
    }

    /// Messages that the subscriber has, or that its policy has dropped, are the sender's no more.
    fn accept(&mut self, now_ns: u64) {
        // So there is credit for no more than depth and spare places together.
        let has_spare = self.is_draining && self.queue.has_depth_free();
        let oldest = self.queue.oldest().filter(|_| !has_spare);
        let through = oldest.unwrap_or(self.first);
        self.receiver.accept(now_ns, through);
    }
}

/// Bytes of payload that its slot has.
fn capacity(lease: &Lease) -> u64 {
    lease.capacity() as u64
}

#[cfg(test)]
mod tests {
    use hythe_pool::{ClassPlan, Geometry};

    use super::*;
    use crate::fixture::{Fixture, SendingPeer, settings, sockets};

    /// A receiving half, and the sender at its other end.
    fn pair(fixture: &Fixture, settings: Settings) -> (Receiving, SendingPeer) {
        let (socket, other) = sockets();
        let limits = (64, PortPolicy::Block { timeout_ms: 1 });
        let half = Receiving::new(fixture.participant(), socket, settings, limits);
        (half.expect("settings"), SendingPeer::new(other, settings))
    }

    #[test]
    fn one_turn_takes_all_datagrams_of_message() {
        let fixture = Fixture::new();
        let (mut half, mut peer) = pair(&fixture, settings(64));
        let message: Vec<u8> = (0..12_000_u32).map(|at| ((at * 7) >> 3) as u8).collect();
        peer.sender.push(1, message.len() as u32, 0).expect("free");
        assert_eq!(peer.send(1, &message), 9);
        // Who sleeps on the socket is woken once for all of them.
        let mut buffer = Buffer::for_batches();
        half.turn(2, &mut buffer, Until::Message).expect("honest");
        assert!(!half.has_more());
        let Some(Entry::Sample(0, sample)) = half.take(2) else {
            panic!("it is not whole");
        };
        assert!(sample.to_vec() == message);
        assert!(peer.hear(3) > 0, "acknowledged");
        half.turn(4, &mut buffer, Until::Message).expect("honest");
        assert!(half.is_empty() && !half.has_more(), "nothing is left");
    }

    #[test]
    fn turn_is_bounded_and_says_that_it_has_left_something() {
        let fixture = Fixture::new();
        let (mut half, mut peer) = pair(&fixture, settings(64));
        let count = 2 * BATCHES_MAX as u64;
        (0..count).for_each(|_| assert!(peer.sender.push(1, 1, 0).is_some()));
        assert_eq!(peer.send(1, &[1]) as u64, count);
        let mut buffer = Buffer::for_batches();
        half.turn(2, &mut buffer, Until::Empty).expect("honest");
        let drain = |half: &mut Receiving| std::iter::from_fn(|| half.take(2)).count();
        assert_eq!(drain(&mut half), BATCHES_MAX);
        assert!(half.has_more(), "who would sleep looks again");
        half.turn(2, &mut buffer, Until::Empty).expect("honest");
        assert_eq!(drain(&mut half), BATCHES_MAX);
        half.turn(2, &mut buffer, Until::Empty).expect("honest");
        assert!(!half.has_more());
        // One that is asked for a message takes no more than that from the socket.
        (0..2).for_each(|_| assert!(peer.sender.push(3, 1, 0).is_some()));
        peer.hear(3);
        assert_eq!(peer.send(3, &[1]), 2);
        half.turn(4, &mut buffer, Until::Message).expect("honest");
        assert_eq!(half.queue.samples(), 1);
    }

    #[test]
    fn acknowledgement_waits_at_most_two_batches() {
        let fixture = Fixture::new();
        let (mut half, mut peer) = pair(&fixture, settings(64));
        let (mut buffer, message) = (Buffer::for_batches(), [7; 1_404]);
        let send = |peer: &mut SendingPeer, now_ns, count| {
            (0..count).for_each(|_| assert!(peer.sender.push(now_ns, 1_404, 0).is_some()));
            assert_eq!(peer.send(now_ns, &message), count);
        };
        let turn = |half: &mut Receiving, buffer: &mut Buffer, now_ns| {
            half.turn(now_ns, buffer, Until::Message).expect("honest");
            half.take(now_ns).is_some()
        };
        // With the second of two largest packets one is due: it leaves when nothing else has come.
        send(&mut peer, 1, 1);
        assert!(turn(&mut half, &mut buffer, 2) && !turn(&mut half, &mut buffer, 3));
        assert_eq!(peer.hear(3), 0);
        send(&mut peer, 4, 1);
        assert!(turn(&mut half, &mut buffer, 5) && peer.hear(5) == 0);
        assert!(!turn(&mut half, &mut buffer, 6) && peer.hear(6) == 1);
        // Or with the next message, for whoever takes one after the other.
        send(&mut peer, 7, 1);
        assert!(turn(&mut half, &mut buffer, 8) && !turn(&mut half, &mut buffer, 9));
        send(&mut peer, 10, 8);
        let mut heard = vec![];
        for now_ns in 11..19 {
            assert!(turn(&mut half, &mut buffer, now_ns));
            heard.push(peer.hear(now_ns));
        }
        assert_eq!(heard, [0, 0, 1, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn messages_out_of_turn_occupy_no_more_than_the_credit() {
        let plan = ClassPlan {
            payload_bytes: 256 << 10,
            count: 40,
        };
        let geometry = Geometry::with_classes(Geometry::small_limits(), &[plan]);
        let fixture = Fixture::with(|options| options.geometry(geometry.expect("fits")));
        let (mut half, mut peer) = pair(&fixture, settings(64));
        let mut buffer = Buffer::for_batches();
        // All but the first of them come, each in a slot that is 256 times as large.
        let message = [7; 1_000];
        (0..9).for_each(|_| assert!(peer.sender.push(1, 1_000, 0).is_some()));
        let lost = peer.sender.transmit(1).expect("free");
        assert_eq!(peer.send(1, &message), 8);
        half.turn(2, &mut buffer, Until::Empty).expect("honest");
        let held = half.filling.iter().flatten().count();
        assert_eq!(held, 4, "of 256 KiB, and 1 MiB are granted");
        assert!(half.is_empty());
        // The first has a slot whatever the others have, and then their turn comes.
        let payload = &message[lost.range()];
        let mut first = lost.seal(Checksum::of(payload)).to_vec();
        first.extend_from_slice(payload);
        peer.socket.send(&first).expect("sent");
        let mut now_ns = 2;
        let mut came = 0;
        while came < 9 {
            half.turn(now_ns, &mut buffer, Until::Empty)
                .expect("honest");
            came += std::iter::from_fn(|| half.take(now_ns)).count();
            now_ns += 1_000_000;
            peer.hear(now_ns);
            peer.sender.expire(now_ns).expect("heard");
            peer.send(now_ns, &message);
            assert!(now_ns < 10_000_000_000, "{came} came");
        }
        assert_eq!((half.held_bytes, half.filling.len()), (0, 0));
    }

    #[test]
    fn one_that_drains_waits_for_nobody_and_drops_nothing() {
        let fixture = Fixture::new();
        let (socket, other) = sockets();
        let settings = settings(2);
        let limits = (2, PortPolicy::Block { timeout_ms: 1 });
        let half = Receiving::new(fixture.participant(), socket, settings, limits);
        let (mut half, mut peer) = (half.expect("settings"), SendingPeer::new(other, settings));
        let (mut buffer, mut now_ns) = (Buffer::for_batches(), 1);
        // Nobody takes anything.
        let mut turn = |half: &mut Receiving, peer: &mut SendingPeer| {
            for _ in 0..3 {
                now_ns += 2_000_000;
                peer.send(now_ns, &[1]);
                half.turn(now_ns, &mut buffer, Until::Empty)
                    .expect("honest");
                peer.hear(now_ns);
            }
            peer.sender.accepted()
        };
        (0..9).for_each(|_| assert!(peer.sender.push(1, 1, 0).is_some()));
        assert_eq!(turn(&mut half, &mut peer), 0);
        half.drain(10_000_000);
        // Two that fit the depth, and no credit beyond the spare places.
        let accepted = turn(&mut half, &mut peer);
        assert_eq!((accepted, half.queue.samples()), (2, 4));
        let mut now_ns = 100_000_000;
        let mut taken = vec![];
        while taken.len() < 9 {
            let Some(entry) = half.take(now_ns) else {
                panic!("{taken:?} came");
            };
            let Entry::Sample(number, _) = entry else {
                panic!("one is missing");
            };
            taken.push(number);
            now_ns += 2_000_000;
            turn(&mut half, &mut peer);
        }
        assert_eq!(taken, (0..9).collect::<Vec<_>>());
    }
}
