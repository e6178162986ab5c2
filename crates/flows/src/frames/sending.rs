//! The publisher's end of frames: when they may be used, and until when they are waited for.

use super::FrameSocket;
use super::encoding::Packet;
use super::socket::Arrived;
use crate::position::Position;

/// Frames that one turn looks at: anybody on the link can send more than can be looked at.
const RECEIVE_MAX: usize = 256;
/// A message is waited for through so many round trips.
const ROUND_TRIPS: u64 = 4;
/// And at least for so long.
const WAIT_MIN_NS: u64 = 2_000_000;
const WAIT_MAX_NS: u64 = 1_000_000_000;
/// Messages in turn that count as lost before a probe must show that frames arrive: a subscriber
/// that was kept from its processor for some milliseconds has lost none.
const LOSSES_MAX: u32 = 3;
/// A probe that was not answered is repeated after this time, then after twice that, and so on.
const PROBE_NS: u64 = 100_000_000;
const PROBE_MAX_NS: u64 = 10_000_000_000;

/// The publisher's end.
#[derive(Debug)]
pub(crate) struct FrameSending {
    pub(crate) socket: FrameSocket,
    /// A probe was answered, and frames were acknowledged since.
    is_proven: bool,
    /// Messages that counted as lost since the last acknowledgement.
    losses: u32,
    /// Number and time of the last probe, and when the next may be sent.
    probe: (u64, u64),
    next_probe_ns: u64,
    probe_pause_ns: u64,
    /// Smoothed; 0: none was measured.
    round_trip_ns: u64,
    /// A message that was sent at that time, until it is acknowledged: that measures the round
    /// trip.
    timed: Option<(u64, u64)>,
    /// Since when the oldest message that left by a frame is waited for.
    waits_since_ns: Option<u64>,
}

impl FrameSending {
    pub(crate) fn new(socket: FrameSocket) -> Self {
        Self {
            socket,
            is_proven: false,
            losses: 0,
            probe: (0, 0),
            next_probe_ns: 0,
            probe_pause_ns: PROBE_NS,
            round_trip_ns: 0,
            timed: None,
            waits_since_ns: None,
        }
    }

    /// Do frames arrive at the other end, as far as anybody knows?
    pub(crate) fn is_usable(&self, now_ns: u64) -> bool {
        self.is_proven && self.socket.is_fresh(now_ns)
    }

    /// Does a message of this length fit a frame?
    pub(crate) fn fits(&self, length: usize) -> bool {
        length <= self.socket.payload_bytes_max()
    }

    /// Sends a message. How many frames are to be returned before its slot is free; `None`: it was
    /// not taken.
    pub(crate) fn send(
        &mut self,
        now_ns: u64,
        number: u64,
        payload: &[u8],
        place: Option<u64>,
    ) -> Option<u64> {
        if !self.socket.send_message(now_ns, number, payload, place) {
            return None;
        }
        self.timed.get_or_insert((number, now_ns));
        self.waits_since_ns.get_or_insert(now_ns);
        Some(self.socket.frames())
    }

    /// Frames of which the kernel and the card read nothing any more.
    pub(crate) fn returned(&mut self) -> u64 {
        self.socket.returned()
    }

    pub(crate) fn flush(&mut self) {
        self.socket.flush();
    }

    /// Takes what has arrived: the last acknowledgement.
    pub(crate) fn turn(&mut self, now_ns: u64) -> Option<Position> {
        self.socket.look_for_end(now_ns);
        let mut last: Option<Position> = None;
        for _ in 0..RECEIVE_MAX {
            match self.socket.receive(now_ns) {
                Arrived::Packet(Packet::Acknowledgement(position)) => {
                    let before = last.unwrap_or_default();
                    last = Some(Position {
                        received: position.received.max(before.received),
                        accepted: position.accepted.max(before.accepted),
                    });
                }
                Arrived::Packet(Packet::Answer(number)) => self.answered(now_ns, number),
                Arrived::Packet(_) | Arrived::Other => {}
                Arrived::Nothing => break,
            }
        }
        last
    }

    fn answered(&mut self, now_ns: u64, number: u64) {
        let (last, sent_ns) = self.probe;
        if number == last && !self.is_proven {
            (self.is_proven, self.losses) = (true, 0);
            (self.next_probe_ns, self.probe_pause_ns) = (0, PROBE_NS);
            self.measured(now_ns.saturating_sub(sent_ns));
        }
    }

    /// Messages below `received` have arrived, which is news; those up to `sent` left by frames.
    pub(crate) fn acknowledged(&mut self, now_ns: u64, received: u64, sent: u64) {
        self.losses = 0;
        if let Some((number, sent_ns)) = self.timed
            && number < received
        {
            self.timed = None;
            self.measured(now_ns.saturating_sub(sent_ns));
        }
        self.waits_since_ns = (received < sent).then_some(now_ns);
    }

    /// Smoothed as TCP's (RFC 6298).
    fn measured(&mut self, round_trip_ns: u64) {
        self.round_trip_ns = match self.round_trip_ns {
            0 => round_trip_ns,
            before => (7 * before + round_trip_ns) / 8,
        };
    }

    /// When the oldest message that left by a frame counts as lost.
    pub(crate) fn late_ns(&self) -> Option<u64> {
        let wait_ns = ROUND_TRIPS.saturating_mul(self.round_trip_ns);
        let wait_ns = wait_ns.clamp(WAIT_MIN_NS, WAIT_MAX_NS);
        self.waits_since_ns
            .map(|since_ns| since_ns.saturating_add(wait_ns))
    }

    /// Nothing that left by a frame is waited for any more: it goes by the connection.
    pub(crate) fn leave(&mut self) {
        (self.timed, self.waits_since_ns) = (None, None);
    }

    /// As [`leave`](Self::leave): a message counts as lost.
    pub(crate) fn note_loss(&mut self) {
        self.leave();
        self.losses += 1;
        self.is_proven &= self.losses < LOSSES_MAX;
    }

    /// Asks whether frames arrive, unless that was asked just now.
    pub(crate) fn probe(&mut self, now_ns: u64) {
        if !self.socket.has_wire() || now_ns < self.next_probe_ns {
            return;
        }
        self.is_proven = false;
        self.next_probe_ns = now_ns + self.probe_pause_ns;
        self.probe_pause_ns = (2 * self.probe_pause_ns).min(PROBE_MAX_NS);
        self.probe = (self.probe.0 + 1, now_ns);
        let number = self.probe.0;
        self.socket.probe(now_ns, number);
    }
}
