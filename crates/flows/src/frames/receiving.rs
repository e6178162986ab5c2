//! The subscriber's end of frames: which are taken, and when they are acknowledged.

use super::FrameSocket;
use super::encoding::Packet;
use super::socket::Arrived;
use crate::position::Position;

/// Frames that one turn looks at.
const RECEIVE_MAX: usize = 64;
/// An acknowledgement, which costs as much as a message, is sent after this number of messages.
const MESSAGES_MAX: u64 = 8;
/// Or at the latest so long after the first: less than a publisher waits.
const ACKNOWLEDGE_NS: u64 = 300_000;
/// While messages arrive by frames, the connection is looked at this often: each look is a system
/// call.
const CONNECTION_LOOK_NS: u64 = 20_000;

/// The subscriber's end.
#[derive(Debug)]
pub(crate) struct FrameReceiving {
    pub(crate) socket: FrameSocket,
    /// The last message has arrived by a frame.
    is_quick: bool,
    has_more: bool,
    looked_ns: u64,
    acknowledged: Position,
    /// When an acknowledgement is due, if something is unacknowledged.
    due_ns: Option<u64>,
}

impl FrameReceiving {
    pub(crate) fn new(socket: FrameSocket) -> Self {
        Self {
            socket,
            is_quick: false,
            has_more: false,
            looked_ns: 0,
            acknowledged: Position::default(),
            due_ns: None,
        }
    }

    /// Looks at what has arrived, and answers probes. `take` is given messages, and returns whether
    /// it takes them; with `first` the first that is taken is enough. True: that was so.
    pub(crate) fn receive(
        &mut self,
        now_ns: u64,
        first: bool,
        mut take: impl FnMut(u64, &[u8]) -> bool,
    ) -> bool {
        self.socket.look_for_end(now_ns);
        self.has_more = false;
        for _ in 0..RECEIVE_MAX {
            match self.socket.receive(now_ns) {
                Arrived::Packet(Packet::Message { number, length }) => {
                    let is_taken = take(number, self.socket.payload(length));
                    self.is_quick |= is_taken;
                    if is_taken && first {
                        return true;
                    }
                }
                // Without payload: nobody is answered with more bytes than it sent.
                Arrived::Packet(Packet::Probe(number)) => {
                    self.socket.send(now_ns, Packet::Answer(number));
                }
                Arrived::Packet(_) | Arrived::Other => {}
                Arrived::Nothing => return false,
            }
        }
        self.has_more = true;
        false
    }

    /// May more have arrived than the last [`receive`](Self::receive) looked at?
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Is the connection to be looked at, too?
    pub(crate) fn is_to_look_at_connection(&mut self, now_ns: u64) -> bool {
        let is_to_look = !(self.is_quick && self.socket.has_wire())
            || now_ns.saturating_sub(self.looked_ns) >= CONNECTION_LOOK_NS;
        if is_to_look {
            self.looked_ns = now_ns;
        }
        is_to_look
    }

    /// The caller is about to sleep: the next turn looks at the connection, and nobody waits for an
    /// acknowledgement.
    pub(crate) fn prepare_sleep(&mut self, now_ns: u64, position: Position) {
        self.is_quick = false;
        if self.due_ns.is_some() {
            self.due_ns = Some(now_ns);
            self.acknowledge(now_ns, position);
        }
    }

    /// Sends an acknowledgement, if one is due.
    pub(crate) fn acknowledge(&mut self, now_ns: u64, position: Position) {
        let messages = position.received - self.acknowledged.received;
        if messages == 0 || !self.socket.is_fresh(now_ns) {
            return;
        }
        let due_ns = *self.due_ns.get_or_insert(now_ns + ACKNOWLEDGE_NS);
        if messages < MESSAGES_MAX && now_ns < due_ns {
            return;
        }
        let acknowledgement = Packet::Acknowledgement(position);
        if self.socket.send(now_ns, acknowledgement) {
            (self.acknowledged, self.due_ns) = (position, None);
        }
    }

    /// What the publisher was told by frames.
    pub(crate) fn acknowledged(&self) -> Position {
        self.acknowledged
    }
}
