//! The calls: whom each goes to, where it is in what it says, its numbers and its account.

use std::net::SocketAddr;
use std::sync::Arc;

use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::rtcp::{Counts, Reports};
use hythe_rtp::{HEADER_BYTES, Identity};

use crate::MediaError;
use crate::ports::rtcp_address;
use crate::wire::header::Headers;

use super::wheel::Wheel;

/// Samples, and so bytes, of a packet: 20 ms at 8 kHz.
pub(super) const PACKET_SAMPLES: usize = 160;
/// A report every five seconds (RFC 3550, 6.2).
const REPORT_PACKETS: u64 = 250;
/// How long a packet lasts.
pub(super) const INTERVAL_NS: u64 = 20_000_000;
/// The wheel has a slot every 0.25 ms: fine enough that no slot of 2,000 calls has more packets
/// than a network card's queue likes, coarse enough that sleeping is not the most of the work.
const TEETH: usize = 80;
/// From one slot to the next.
pub(super) const TOOTH_NS: u64 = INTERVAL_NS / TEETH as u64;

/// The prompt: G.711 samples in memory that any number of calls share. Repeated from the start
/// when it ends.
#[derive(Clone)]
pub struct Prompt {
    samples: Arc<dyn AsRef<[u8]> + Send + Sync>,
    payload_type: u8,
}

impl Prompt {
    /// Whole packets of `samples`, which may lie in a buffer of the pool; what is left over behind
    /// the last one is not said. `None` for another format than PCMU or PCMA with one channel at 8
    /// kHz, or less than one packet.
    #[must_use]
    pub fn new(
        format: &StreamFormat,
        samples: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Option<Self> {
        let is_telephone = matches!(format.encoding, Encoding::Pcmu | Encoding::Pcma)
            && (format.clock_hz, format.channels) == (8_000, 1);
        let is_enough = samples.as_ref().len() >= PACKET_SAMPLES;
        (is_telephone && is_enough).then(|| Self {
            samples: Arc::new(samples),
            payload_type: format.payload_type,
        })
    }

    fn packets(&self) -> &[[u8; PACKET_SAMPLES]] {
        (*self.samples).as_ref().as_chunks().0
    }
}

impl std::fmt::Debug for Prompt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let packets = self.packets().len();
        write!(
            formatter,
            "Prompt({packets} packets of type {})",
            self.payload_type
        )
    }
}

/// Which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(u32);

/// What became of a call's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStatistics {
    /// Packets given to the network.
    pub packets: u64,
    /// Packets that the system refused: no way there, no free capacity.
    pub unsent: u64,
}

/// One call.
#[derive(Debug)]
struct Call {
    destination: SocketAddr,
    prompt: Prompt,
    /// Index of the prompt's packet that is next.
    packet: usize,
    /// Samples said so far.
    time: u64,
    headers: Headers,
    reports: Reports,
    slot: usize,
    /// When the packet before left; 0: there was none.
    sent_ns: u64,
    statistics: CallStatistics,
}

/// A packet that is due: a header of its own, and which of the prompt's packets it carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) call: u32,
    pub(super) destination: SocketAddr,
    pub(super) header: [u8; HEADER_BYTES],
    packet: usize,
}

/// All calls of a sender.
#[derive(Debug)]
pub struct Calls {
    calls: Vec<Option<Call>>,
    free: Vec<u32>,
    wheel: Wheel,
}

impl Calls {
    /// No calls yet, space for `most`.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            calls: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            wheel: Wheel::new(TEETH, most),
        }
    }

    /// Adds a call that says `prompt` from its start. `None` if there are as many calls as there is
    /// space for.
    ///
    /// # Errors
    ///
    /// [`MediaError::Destination`] for a port that leaves RTCP none.
    pub fn add(
        &mut self,
        destination: SocketAddr,
        prompt: &Prompt,
        identity: &Identity,
    ) -> Result<Option<CallId>, MediaError> {
        rtcp_address(destination)?;
        let reports = Reports::new(identity)?;
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.calls.len() < self.calls.capacity() => {
                self.calls.push(None);
                (self.calls.len() - 1) as u32
            }
            None => return Ok(None),
        };
        self.calls[number as usize] = Some(Call {
            destination,
            prompt: prompt.clone(),
            packet: 0,
            time: 0,
            headers: Headers::new(prompt.payload_type, identity),
            reports,
            slot: self.wheel.add(number),
            sent_ns: 0,
            statistics: CallStatistics::default(),
        });
        Ok(Some(CallId(number)))
    }

    /// Ends a call; no other is disturbed. `None` if there is none of that number.
    pub fn remove(&mut self, call: CallId) -> Option<CallStatistics> {
        let ended = self.calls.get_mut(call.0 as usize)?.take()?;
        self.wheel.remove(ended.slot, call.0);
        self.free.push(call.0);
        Some(ended.statistics)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len() - self.free.len()
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What became of a call's packets so far.
    #[must_use]
    pub fn statistics(&self, call: CallId) -> Option<CallStatistics> {
        let call = self.calls.get(call.0 as usize)?.as_ref()?;
        Some(call.statistics)
    }

    /// The calls whose packets are due at the `turn`th slot.
    pub(super) fn due_at(&self, turn: u64) -> &[u32] {
        self.wheel.at(turn)
    }

    /// The next packet of a call; the call is one packet further from now on.
    pub(super) fn next_packet(&mut self, number: u32) -> Option<Due> {
        let call = self.calls.get_mut(number as usize)?.as_mut()?;
        // The marker says where talk begins (RFC 3551, 4.1), and this talk never pauses.
        let header = call.headers.next(call.time == 0, call.time);
        call.time += PACKET_SAMPLES as u64;
        let packet = call.packet;
        call.packet = (packet + 1) % call.prompt.packets().len();
        Some(Due {
            call: number,
            destination: call.destination,
            header,
            packet,
        })
    }

    /// What a due packet says, where it lies.
    pub(super) fn payload(&self, due: &Due) -> &[u8] {
        let call = self.calls.get(due.call as usize).and_then(Option::as_ref);
        call.and_then(|call| call.prompt.packets().get(due.packet))
            .map_or(&[], |packet| packet)
    }

    /// The report of a call that it is time for: one in [`REPORT_PACKETS`] packets, the calls of a
    /// slot at different ones.
    pub(super) fn due_report(&mut self, due: &Due, unix_ns: u64) -> Option<&[u8]> {
        let call = self.calls.get_mut(due.call as usize)?.as_mut()?;
        let said = call.time / PACKET_SAMPLES as u64 + u64::from(due.call);
        if !said.is_multiple_of(REPORT_PACKETS) {
            return None;
        }
        let packets = call.statistics.packets;
        let counts = Counts {
            unix_ns,
            timestamp: call.headers.timestamp_at(call.time),
            // Both wrap by design (RFC 3550, 6.4.1).
            packets: packets as u32,
            bytes: (packets * PACKET_SAMPLES as u64) as u32,
        };
        call.reports.report(counts).ok()
    }

    /// Tells what became of the packet before: sent at `now_ns`, or not. Returns the time since the
    /// one before that, if both were.
    pub(super) fn note(&mut self, number: u32, sent_ns: Option<u64>) -> Option<u64> {
        let call = self.calls.get_mut(number as usize)?.as_mut()?;
        let Some(now_ns) = sent_ns else {
            call.statistics.unsent += 1;
            call.sent_ns = 0;
            return None;
        };
        call.statistics.packets += 1;
        let before_ns = std::mem::replace(&mut call.sent_ns, now_ns);
        (before_ns != 0).then(|| now_ns.saturating_sub(before_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtp_types::RtpPacket;

    fn prompt(packets: usize) -> Prompt {
        let format = StreamFormat {
            encoding: Encoding::Pcmu,
            payload_type: 0,
            clock_hz: 8_000,
            channels: 1,
            parameters: String::new(),
        };
        let samples: Vec<u8> = (0..packets * PACKET_SAMPLES + 7)
            .map(|sample| (sample / PACKET_SAMPLES) as u8)
            .collect();
        Prompt::new(&format, samples).unwrap()
    }

    fn calls(count: u32) -> Calls {
        let mut calls = Calls::new(count as usize);
        for number in 0..count {
            let destination = SocketAddr::from(([127, 0, 0, 1], 5004));
            let identity = Identity::seeded(number.into());
            calls
                .add(destination, &prompt(3), &identity)
                .unwrap()
                .unwrap();
        }
        calls
    }

    #[test]
    fn call_says_its_prompt_again_and_again() {
        let mut calls = calls(1);
        for expected in [0, 1, 2, 0, 1] {
            let due = calls.next_packet(0).unwrap();
            assert_eq!(calls.payload(&due), [expected; PACKET_SAMPLES]);
        }
    }

    #[test]
    fn call_continues_numbers_and_marks_first_packet() {
        let mut calls = calls(1);
        let identity = Identity::seeded(0);
        for index in 0..5_u16 {
            let due = calls.next_packet(0).unwrap();
            let read = RtpPacket::parse(&due.header).unwrap();
            assert_eq!(
                read.sequence_number(),
                identity.sequence.wrapping_add(index)
            );
            let time = identity.timestamp.wrapping_add(160 * u32::from(index));
            assert_eq!((read.timestamp(), read.marker_bit()), (time, index == 0));
            assert_eq!((read.ssrc(), read.payload_type()), (identity.ssrc, 0));
        }
    }

    #[test]
    fn calls_come_and_go_within_the_limit() {
        let mut calls = calls(3);
        let destination = SocketAddr::from(([127, 0, 0, 1], 5004));
        let add = |calls: &mut Calls| calls.add(destination, &prompt(1), &Identity::seeded(9));
        assert_eq!(add(&mut calls).unwrap(), None);
        assert!(calls.remove(CallId(1)).is_some());
        assert!(calls.remove(CallId(1)).is_none());
        assert_eq!(calls.len(), 2);
        assert!(calls.next_packet(1).is_none());
        assert_eq!(add(&mut calls).unwrap(), Some(CallId(1)));
    }

    #[test]
    fn distances_count_from_packet_to_packet_of_one_call() {
        let mut calls = calls(1);
        assert_eq!(calls.note(0, Some(100)), None);
        assert_eq!(calls.note(0, Some(120)), Some(20));
        assert_eq!(calls.note(0, None), None);
        assert_eq!(calls.note(0, Some(160)), None);
        let statistics = calls.statistics(CallId(0)).unwrap();
        assert_eq!((statistics.packets, statistics.unsent), (3, 1));
    }

    #[test]
    fn each_call_reports_once_in_five_seconds() {
        let mut calls = calls(2);
        let mut reports = [0; 2];
        for _ in 0..2 * REPORT_PACKETS {
            for number in 0..2 {
                let due = calls.next_packet(number).unwrap();
                reports[number as usize] += u32::from(calls.due_report(&due, 1).is_some());
            }
        }
        assert_eq!(reports, [2, 2]);
    }

    #[test]
    fn only_telephone_audio_is_a_prompt() {
        let format = StreamFormat {
            encoding: Encoding::L16,
            payload_type: 97,
            clock_hz: 8_000,
            channels: 1,
            parameters: String::new(),
        };
        assert!(Prompt::new(&format, vec![0; 1000]).is_none());
        let format = StreamFormat {
            encoding: Encoding::Pcma,
            payload_type: 8,
            ..format
        };
        assert!(Prompt::new(&format, vec![0; 159]).is_none());
        assert!(Prompt::new(&format, vec![0; 160]).is_some());
    }
}
