//! How many packets arrived, counted by somebody else than the sender.
//!
//! `hythe demo` starts a [`PacketCounter`] before the first packet and stops it after the last.
//! Where the process may open a packet socket (`CAP_NET_RAW`), a tap on the loopback interface sees
//! each packet that the kernel delivers for the port, in a thread of its own. Where it may not,
//! [`count_from_recording`] computes the number from the samples that the third-party receiver
//! recorded. The result says which way it was. Nothing here is on the way of a packet.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use hythe::media::MediaError;
use hythe::rtp::{L16, MAX_PAYLOAD_BYTES};
use hythe_sys::packet::{SNAP_BYTES, UdpTap};
use rtp_types::RtpPacket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How soon the thread notices that it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(20);
const UDP_HEADER_BYTES: usize = 8;
const IPV6_HEADER_BYTES: usize = 40;

/// How packets were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// By a packet socket on the interface.
    Tap,
    /// From the number of samples in the receiver's recording.
    Recording,
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tap => "packet socket on the loopback interface",
            Self::Recording => "samples in the receiver's recording",
        })
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketCount {
    /// Different packets that arrived.
    pub packets: u64,
    /// Sequence numbers between the first and the last that did not; unknown (0) from a recording.
    pub missing: u64,
    /// Packets that arrived more than once; unknown (0) from a recording.
    pub duplicates: u64,
    /// How they were counted.
    pub method: Method,
}

/// Counts the packets that arrive for one port of this host.
#[derive(Debug)]
pub struct PacketCounter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<PacketCount>>>,
}

impl PacketCounter {
    /// Starts to count what arrives over the loopback interface for `destination`.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`] where a packet socket is not allowed, or `destination` is not on the
    /// loopback interface: the caller then counts from the recording.
    pub fn start(destination: SocketAddr) -> Result<Self, MediaError> {
        let failed = |source| MediaError::System {
            what: "tap the loopback interface",
            source,
        };
        if !destination.ip().is_loopback() {
            let error = io::Error::new(
                io::ErrorKind::Unsupported,
                format!("{} is reached over another one", destination.ip()),
            );
            return Err(failed(error));
        }
        let tap = UdpTap::open("lo", destination.port()).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("hythe-tap".into())
            .spawn(move || count(&tap, &seen))
            .map_err(failed)?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Stops, after taking all that has arrived, and returns the count.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`] if the tap failed or lost packets itself: then the count is unknown.
    pub fn stop(mut self) -> Result<PacketCount, MediaError> {
        let failed = |source| MediaError::System {
            what: "count packets on the loopback interface",
            source,
        };
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return Err(failed(io::Error::other("it was stopped before")));
        };
        match thread.join() {
            Ok(counted) => counted.map_err(failed),
            Err(_) => Err(failed(io::Error::other("the counting thread panicked"))),
        }
    }
}

impl Drop for PacketCounter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its result is of no interest any more
        }
    }
}

/// How many packets carried `samples` of each channel, when the payloads given to the sender had so
/// many samples each, in their order.
#[must_use]
pub fn count_from_recording(
    format: L16,
    payload_samples: impl IntoIterator<Item = u64>,
    samples: u64,
) -> PacketCount {
    let most = (MAX_PAYLOAD_BYTES / format.frame_bytes()).max(1) as u64;
    let (mut packets, mut left) = (0, samples);
    for payload in payload_samples {
        let received = payload.min(left);
        packets += received.div_ceil(most);
        left -= received;
        if left == 0 {
            break;
        }
    }
    PacketCount {
        // More than was sent: the verdict finds that.
        packets: packets + left.div_ceil(most),
        missing: 0,
        duplicates: 0,
        method: Method::Recording,
    }
}

fn count(tap: &UdpTap, stop: &AtomicBool) -> io::Result<PacketCount> {
    let mut stream = Stream::default();
    let mut buffer = [0; SNAP_BYTES];
    loop {
        // Read before the last look: what arrived before the stop is still counted.
        let is_last = stop.load(Ordering::Relaxed);
        while let Some(packet) = tap.take(&mut buffer)? {
            stream.note(packet);
        }
        if is_last {
            break;
        }
        let mut interests = [PollFd::new(tap, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: STOP_INTERVAL.subsec_nanos().into(),
        };
        match poll(&mut interests, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match tap.overflows()? {
        0 => Ok(stream.count()),
        lost => Err(io::Error::other(format!(
            "the tap itself lost {lost} packets"
        ))),
    }
}

/// The packets of the first source that was heard.
#[derive(Default)]
struct Stream {
    ssrc: Option<u32>,
    /// The latest sequence number, extended beyond 16 bits.
    latest: u64,
    seen: HashSet<u64>,
    duplicates: u64,
}

impl Stream {
    fn note(&mut self, packet: &[u8]) {
        let Some((ssrc, sequence)) = parse(packet) else {
            return;
        };
        if *self.ssrc.get_or_insert(ssrc) != ssrc {
            return; // somebody else's packet for the same port
        }
        if self.seen.is_empty() {
            // One round of numbers up, so that earlier ones do not fall below zero.
            self.latest = 0x1_0000 + u64::from(sequence);
        }
        let ahead = sequence.wrapping_sub(self.latest as u16) as i16;
        let extended = self.latest.saturating_add_signed(ahead.into());
        self.latest = self.latest.max(extended);
        if !self.seen.insert(extended) {
            self.duplicates += 1;
        }
    }

    fn count(&self) -> PacketCount {
        let packets = self.seen.len() as u64;
        let range = match (self.seen.iter().min(), self.seen.iter().max()) {
            (Some(first), Some(last)) => last - first + 1,
            _ => 0,
        };
        let missing = range - packets;
        PacketCount {
            packets,
            missing,
            duplicates: self.duplicates,
            method: Method::Tap,
        }
    }
}

/// Source and sequence number of the RTP packet inside an IP packet.
fn parse(packet: &[u8]) -> Option<(u32, u16)> {
    let first = *packet.first()?;
    let ip_bytes = if first >> 4 == 6 {
        IPV6_HEADER_BYTES
    } else {
        usize::from(first & 0x0f) * 4
    };
    // The tap cuts packets off; the RTP header is inside what it keeps.
    let rtp = RtpPacket::parse(packet.get(ip_bytes + UDP_HEADER_BYTES..)?).ok()?;
    Some((rtp.ssrc(), rtp.sequence_number()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe::media::wire::header::Headers;
    use hythe::rtp::Identity;
    use hythe::rtp::payload::Packetize;
    use hythe::rtp::payload::pcm::PcmPacketizer;
    use hythe::rtp::unit::Unit;
    use std::net::UdpSocket;

    fn packet(ssrc: u32, sequence: u16) -> Vec<u8> {
        let mut bytes = vec![0x45; 1];
        bytes.resize(28, 0);
        let identity = Identity {
            ssrc,
            sequence,
            ..Identity::seeded(0)
        };
        bytes.extend(Headers::new(97, &identity).next(false, 0));
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn loss_duplicates_reordering_and_wrapping_are_told_apart() {
        let mut stream = Stream::default();
        for sequence in [0xfffe, 0xffff, 1, 0, 1, 4] {
            stream.note(&packet(7, sequence));
        }
        stream.note(&packet(8, 2)); // another source
        stream.note(&[0x45, 0, 0]);
        let expected = PacketCount {
            packets: 5,
            missing: 2,
            duplicates: 1,
            method: Method::Tap,
        };
        assert_eq!(stream.count(), expected);
    }

    #[test]
    fn recording_tells_the_number_of_packets() {
        for (rate, channels, payload_samples) in [(44_100, 2, 1152), (8_000, 1, 576)] {
            let format = L16::new(rate, channels).unwrap();
            let mut packetizer = PcmPacketizer::new(format.frame_bytes());
            for samples in [0, 1, 575, 576, 1151, 1152, 10_000] {
                let bytes = vec![0; samples * format.frame_bytes()];
                let mut sent = 0;
                for payload in bytes.chunks(payload_samples * format.frame_bytes()) {
                    let unit = Unit {
                        pieces: &[payload],
                        time: 0,
                        due: 0,
                        duration: 0,
                        is_start: true,
                    };
                    packetizer.packetize(&unit, MAX_PAYLOAD_BYTES, &mut |_| sent += 1);
                }
                let payloads = std::iter::repeat(payload_samples as u64);
                let count = count_from_recording(format, payloads, samples as u64);
                assert_eq!(count.packets, sent, "{format:?} {samples}");
            }
        }
    }

    #[test]
    fn recording_counts_payloads_of_different_lengths() {
        let format = L16::new(44_100, 2).unwrap();
        let most = (MAX_PAYLOAD_BYTES / format.frame_bytes()) as u64;
        let counted = |samples| {
            let payloads = [most + 1, 1, 0, 2 * most];
            count_from_recording(format, payloads, samples).packets
        };
        let counts = [0, 1, most, most + 1, most + 2, 3 * most + 2].map(counted);
        assert_eq!(counts, [0, 1, 1, 2, 3, 5]);
        assert_eq!(counted(3 * most + 3), 6, "more than was sent");
    }

    #[test]
    fn tap_counts_what_arrives() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let destination = receiver.local_addr().unwrap();
        let counter = match PacketCounter::start(destination) {
            Ok(counter) => counter,
            Err(error) => {
                eprintln!("SKIPPED: {error}");
                return;
            }
        };
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for sequence in [5, 6, 8] {
            sender
                .send_to(&packet(7, sequence)[28..], destination)
                .unwrap();
        }
        let expected = PacketCount {
            packets: 3,
            missing: 1,
            duplicates: 0,
            method: Method::Tap,
        };
        assert_eq!(counter.stop().unwrap(), expected);
    }

    #[test]
    fn destination_elsewhere_cannot_be_tapped() {
        let error = PacketCounter::start("192.0.2.1:5004".parse().unwrap()).unwrap_err();
        assert!(matches!(error, MediaError::System { .. }), "{error}");
    }
}
