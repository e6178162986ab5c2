//! The sockets of all calls, and the waiting.

use std::array;
use std::io::IoSlice;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU64;

use hdrhistogram::Histogram;
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use rustix::thread::set_current_timer_slack;

use crate::MediaError;
use crate::instant::{now_ns, sleep_until, unix_ns};
use crate::ports::rtcp_address;

use super::calls::{Calls, Due, INTERVAL_NS, TOOTH_NS};

/// Packets of one system call.
const BATCH: usize = 32;
/// Bytes that may wait in the kernel: those of a few turns of thousands of calls.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// What a sender did for all calls together.
#[derive(Clone, Debug)]
pub struct VoiceStatistics {
    /// Packets given to the network.
    pub packets: u64,
    /// Packets that the system refused.
    pub unsent: u64,
    /// Reports given to the network.
    pub reports: u64,
    /// Times that the machine stood still for longer than a packet, and the wheel was turned on
    /// without sending twice.
    pub stalls: u64,
    /// By how much the distance between two packets of a call was off from 20 ms, in nanoseconds.
    pub spacing_errors: Histogram<u64>,
}

/// Sends the packets of [`Calls`], each when it is due.
#[derive(Debug)]
pub struct VoiceSender {
    calls: Calls,
    v4: Option<Sockets>,
    v6: Option<Sockets>,
    /// When slot 0 was due.
    start_ns: u64,
    /// Slots since then.
    turn: u64,
    statistics: VoiceStatistics,
}

#[derive(Debug)]
struct Sockets {
    rtp: UdpSocket,
    rtcp: UdpSocket,
}

impl VoiceSender {
    /// A sender of these calls. Lets the calling thread's timers be precise to the nanosecond: it
    /// is the one to send.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`] if the kernel gives no socket of either address family.
    pub fn new(calls: Calls) -> Result<Self, MediaError> {
        // As precise as the timers are; refused to nobody today, and it would only cost precision.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let v4 = Sockets::bind((Ipv4Addr::UNSPECIFIED, 0).into());
        let v6 = Sockets::bind((Ipv6Addr::UNSPECIFIED, 0).into());
        let (v4, v6) = match (v4, v6) {
            (Err(source), Err(_)) => {
                let what = "open a UDP socket";
                return Err(MediaError::System { what, source });
            }
            (v4, v6) => (v4.ok(), v6.ok()),
        };
        #[allow(
            clippy::expect_used,
            reason = "proof: 1 < the bound, and three digits are between 0 and 5"
        )]
        let spacing_errors = Histogram::new_with_bounds(1, INTERVAL_NS * 100, 3).expect("sound");
        Ok(Self {
            calls,
            v4,
            v6,
            start_ns: now_ns(),
            turn: 0,
            statistics: VoiceStatistics {
                packets: 0,
                unsent: 0,
                reports: 0,
                stalls: 0,
                spacing_errors,
            },
        })
    }

    /// The calls, to add and remove some between two turns.
    pub fn calls(&mut self) -> &mut Calls {
        &mut self.calls
    }

    /// What was done so far.
    #[must_use]
    pub fn statistics(&self) -> &VoiceStatistics {
        &self.statistics
    }

    /// Waits for the next slot, 0.25 ms after the one before, and sends the packets that are due
    /// there.
    pub fn turn(&mut self) {
        let due_ns = self.start_ns + self.turn * TOOTH_NS;
        let late_ns = sleep_until(due_ns);
        if late_ns > INTERVAL_NS {
            // What was missed is not sent in one burst: everything to come moves.
            self.start_ns += late_ns;
            self.statistics.stalls += 1;
        }
        let turn = self.turn;
        self.turn += 1;
        for first in (0..self.calls.due_at(turn).len()).step_by(BATCH) {
            let due = self.due_batch(turn, first);
            for is_v4 in [true, false] {
                self.send(&due, is_v4);
            }
            self.report(&due);
        }
    }

    fn due_batch(&mut self, turn: u64, first: usize) -> [Option<Due>; BATCH] {
        array::from_fn(|index| {
            let number = *self.calls.due_at(turn).get(first + index)?;
            self.calls.next_packet(number)
        })
    }

    /// Sends the packets of one address family.
    fn send(&mut self, due: &[Option<Due>; BATCH], is_v4: bool) {
        let is_ours = |due: &&Due| due.destination.is_ipv4() == is_v4;
        let ours = || due.iter().flatten().filter(is_ours);
        if ours().next().is_none() {
            return;
        }
        let sent_ns = now_ns();
        let socket = if is_v4 { &self.v4 } else { &self.v6 };
        let mut outcomes = [false; BATCH];
        let count = ours().count();
        if let Some(sockets) = socket {
            let mut packets = ours();
            let batch: [Option<&Due>; BATCH] = array::from_fn(|_| packets.next());
            give(&sockets.rtp, &self.calls, &batch, &mut outcomes[..count]);
        }
        for (due, is_sent) in ours().zip(outcomes) {
            let distance = self.calls.note(due.call, is_sent.then_some(sent_ns));
            self.statistics.packets += u64::from(is_sent);
            self.statistics.unsent += u64::from(!is_sent);
            if let Some(distance_ns) = distance {
                let error_ns = distance_ns.abs_diff(INTERVAL_NS);
                self.statistics.spacing_errors.saturating_record(error_ns);
            }
        }
    }

    fn report(&mut self, due: &[Option<Due>; BATCH]) {
        for due in due.iter().flatten() {
            let sockets = if due.destination.is_ipv4() {
                &self.v4
            } else {
                &self.v6
            };
            let Some(report) = self.calls.due_report(due, unix_ns()) else {
                continue;
            };
            // A call without free capacity for RTCP was refused when it was added; a report that is
            // lost is followed by another.
            if let (Some(sockets), Ok(address)) = (sockets, rtcp_address(due.destination))
                && sockets.rtcp.send_to(report, address).is_ok()
            {
                self.statistics.reports += 1;
            }
        }
    }
}

/// Gives packets to the network, in order, as few system calls as possible; says of each whether it
/// was taken.
fn give(socket: &UdpSocket, calls: &Calls, batch: &[Option<&Due>; BATCH], taken: &mut [bool]) {
    let vectors: [[IoSlice<'_>; 2]; BATCH] = array::from_fn(|index| match batch[index] {
        Some(due) => [IoSlice::new(&due.header), IoSlice::new(calls.payload(due))],
        None => [IoSlice::new(&[]), IoSlice::new(&[])],
    });
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let addresses = batch.map(|due| due.map_or(nowhere, |due| due.destination).into());
    let mut controls: [SendAncillaryBuffer<'_, '_, '_>; BATCH] = Default::default();
    let mut places = addresses.iter().zip(&vectors);
    let mut messages = controls.each_mut().map(|control| {
        #[allow(
            clippy::expect_used,
            reason = "proof: both arrays are as long as that of controls"
        )]
        let (address, vectors) = places.next().expect("as many");
        MMsgHdr::new_with_addr(address, vectors, control)
    });
    let mut next = 0;
    while next < taken.len() {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmmsg(socket, &mut messages[next..taken.len()], flags) {
            Ok(count) => {
                taken[next..next + count].fill(true);
                next += count;
            }
            Err(Errno::INTR) => {}
            // The others have no free capacity either.
            Err(Errno::AGAIN | Errno::NOBUFS) => return,
            // It is about this packet's way.
            Err(_) => next += 1,
        }
    }
}

impl Sockets {
    fn bind(any: SocketAddr) -> std::io::Result<Self> {
        let rtp = UdpSocket::bind(any)?;
        // A smaller buffer than asked for only means that packets are refused sooner.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&rtp, SEND_BUFFER_BYTES);
        let rtcp = UdpSocket::bind(any)?;
        rtcp.set_nonblocking(true)?;
        Ok(Self { rtp, rtcp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::voice::Prompt;
    use hythe_rtp::Identity;
    use hythe_rtp::format::{Encoding, StreamFormat};
    use rtp_types::RtpPacket;
    use std::collections::HashMap;
    use std::time::Duration;

    const CALLS: u16 = 50;
    const TURNS: usize = 3 * 80;

    fn prompt() -> Prompt {
        let format = StreamFormat {
            encoding: Encoding::Pcma,
            payload_type: 8,
            clock_hz: 8_000,
            channels: 1,
            parameters: String::new(),
        };
        Prompt::new(&format, vec![0x55; 480]).unwrap()
    }

    /// An even port that nobody has, with the next one free as well.
    fn receiver(any: &str) -> Option<UdpSocket> {
        for _ in 0..1000 {
            let socket = UdpSocket::bind((any, 0)).ok()?;
            let port = socket.local_addr().unwrap().port();
            if port.is_multiple_of(2) {
                let timeout = Duration::from_millis(200);
                socket.set_read_timeout(Some(timeout)).unwrap();
                return Some(socket);
            }
        }
        None
    }

    #[test]
    fn every_call_says_three_packets_in_three_turns_of_the_wheel() {
        for any in ["127.0.0.1", "::1"] {
            let Some(receiver) = receiver(any) else {
                eprintln!("skipped: no socket on {any}");
                continue;
            };
            let destination = receiver.local_addr().unwrap();
            let mut calls = Calls::new(CALLS.into());
            for number in 0..CALLS {
                let identity = Identity::seeded(number.into());
                calls.add(destination, &prompt(), &identity).unwrap();
            }
            let mut sender = VoiceSender::new(calls).unwrap();
            for _ in 0..TURNS {
                sender.turn();
            }
            let statistics = sender.statistics();
            assert_eq!((statistics.packets, statistics.unsent), (150, 0));
            assert_eq!(statistics.spacing_errors.len(), 100);

            let mut packets: HashMap<u32, u16> = HashMap::new();
            let mut bytes = [0; 2000];
            for _ in 0..150 {
                let length = receiver.recv(&mut bytes).unwrap();
                let packet = RtpPacket::parse(&bytes[..length]).unwrap();
                assert_eq!(packet.payload(), [0x55; 160]);
                *packets.entry(packet.ssrc()).or_default() += 1;
            }
            assert_eq!(packets.len(), usize::from(CALLS));
            assert!(packets.values().all(|count| *count == 3));
        }
    }

    #[test]
    fn call_that_cannot_be_sent_does_not_stop_the_others() {
        let receiver = receiver("127.0.0.1").unwrap();
        let mut calls = Calls::new(3);
        let address = receiver.local_addr().unwrap();
        let broadcast: SocketAddr = "255.255.255.255:5004".parse().unwrap(); // refused: no permission
        let places = [address, broadcast, address];
        let ids = places.map(|place| {
            let added = calls.add(place, &prompt(), &Identity::seeded(1));
            added.unwrap().unwrap()
        });
        let mut sender = VoiceSender::new(calls).unwrap();
        for _ in 0..80 {
            sender.turn();
        }
        let statistics = ids.map(|id| sender.calls().statistics(id).unwrap());
        assert_eq!(statistics.map(|call| call.packets), [1, 0, 1]);
        assert_eq!(statistics.map(|call| call.unsent), [0, 1, 0]);
    }
}
