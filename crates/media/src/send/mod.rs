//! Sending: packets on the wire, each at its instant.
//!
//! The sender of the media hop hands each decoded frame to [`RtpSender::send`], still in its slot.
//! The sender waits for the media clock and sends header and payload with one `sendmsg` of two
//! vectors, so the payload is read by the kernel where it lies. Between two calls nothing is
//! pending; the slot can be given back as soon as `send` returns.
//!
//! A receiver that is not there, a full socket buffer or a network that is down is counted, not an
//! error: the stream goes on. Every wait is bounded: by one packet's duration (pacing), by
//! [`SEND_TIMEOUT`] (a full buffer), by the caller's figure (the end).
//!
//! Never here: allocation after [`RtpSender::connect`], bursts to catch up after a stall, retries
//! without a bound.

mod ahead;
pub mod feedback;
mod parity;
pub mod repair;
mod reporting;
pub mod session;
pub mod spacer;
mod store;

use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustix::thread::set_current_timer_slack;

use crate::MediaError;
use crate::clock::MediaClock;
use crate::instant::{now_ns, sleep_until, unix_ns};
use crate::ports::rtcp_address;
use crate::rtcp::{Counts, REPORT_INTERVAL_NS, Reports};
use crate::rtp::{Identity, L16, Packet, Packetizer};

/// How long a packet waits for room in a full socket buffer before it is dropped and counted.
pub const SEND_TIMEOUT: Duration = Duration::from_millis(100);

/// A stream this late is taken to have stalled: the clock is moved instead of sending all that was
/// missed at once. Two MP3 frames at 44.1 kHz; scheduling delays are far shorter.
const STALL_NS: u64 = 52_000_000;

/// What was sent and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// RTP packets given to the network.
    pub packets: u64,
    /// Their payload bytes.
    pub payload_bytes: u64,
    /// Samples of each channel in them.
    pub samples: u64,
    /// RTCP packets given to the network.
    pub reports: u64,
    /// Times the destination's host said that nobody listens on the port (ICMP).
    pub refused: u64,
    /// Packets dropped because host or network were out of reach.
    pub unreachable: u64,
    /// Packets dropped because the socket buffer stayed full.
    pub overflows: u64,
    /// Times the source of the samples stalled and the clock was moved.
    pub stalls: u64,
    /// The most that a packet left after its instant, stalls aside.
    pub max_late_ns: u64,
    /// How long packets waited for their instant.
    pub waited_ns: u64,
}

/// Sends one stream of L16 to one destination.
#[derive(Debug)]
pub struct RtpSender {
    destination: SocketAddr,
    rtp: UdpSocket,
    rtcp: UdpSocket,
    packetizer: Packetizer,
    reports: Reports,
    statistics: Statistics,
    /// From the first packet on.
    clock: Option<MediaClock>,
    first_timestamp: u32,
    next_report_ns: u64,
}

impl RtpSender {
    /// Sockets for a stream to `destination`: RTP to its port, RTCP to the next. Lets the calling
    /// thread's timers be precise to the nanosecond, so the thread that connects is the one to send.
    ///
    /// # Errors
    ///
    /// [`MediaError::Destination`] for a port that leaves RTCP none, [`MediaError::Socket`] if the
    /// kernel refuses a socket or knows no way there.
    pub fn connect(
        destination: SocketAddr,
        format: L16,
        identity: Identity,
    ) -> Result<Self, MediaError> {
        let rtcp_destination = rtcp_address(destination)?;
        // The default slack of 50 us is as much as the rest of the way; failing to lower it (it is
        // refused to nobody today) only costs precision.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        Ok(Self {
            destination,
            rtp: connected_socket(destination)?,
            rtcp: connected_socket(rtcp_destination)?,
            packetizer: Packetizer::new(format, identity),
            reports: Reports::new(&identity)?,
            statistics: Statistics::default(),
            clock: None,
            first_timestamp: identity.timestamp,
            next_report_ns: 0,
        })
    }

    /// Sends `payload`, whole sample frames in network byte order, each packet when its first
    /// sample is due; returns after the last packet left. The first call starts the clock.
    ///
    /// # Errors
    ///
    /// [`MediaError::PartialSample`]; [`MediaError::Send`] for what will not pass by itself
    /// (a packet too large for the way, no permission).
    pub fn send(&mut self, payload: &[u8]) -> Result<(), MediaError> {
        let rate = self.packetizer.format().samples_per_second();
        let clock = self
            .clock
            .get_or_insert_with(|| MediaClock::new(rate, now_ns()));
        // Taken apart, because the packets borrow the packetizer.
        let mut way = Way {
            destination: self.destination,
            socket: &self.rtp,
            statistics: &mut self.statistics,
        };
        for packet in self.packetizer.packets(payload)? {
            let due_ns = clock.due_ns();
            let before_ns = now_ns();
            let late_ns = sleep_until(due_ns);
            way.statistics.waited_ns += now_ns().saturating_sub(before_ns);
            if late_ns > STALL_NS {
                clock.restart_at(due_ns + late_ns);
                way.statistics.stalls += 1;
            } else {
                way.statistics.max_late_ns = way.statistics.max_late_ns.max(late_ns);
            }
            if due_ns >= self.next_report_ns {
                self.next_report_ns = due_ns + REPORT_INTERVAL_NS;
                let counts = counts(clock, self.first_timestamp, way.statistics);
                way.report(&self.rtcp, self.reports.report(counts)?)?;
            }
            way.packet(&packet)?;
            clock.advance(packet.samples);
        }
        Ok(())
    }

    /// What was sent so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Ends the stream: waits until its last sample was played and `linger` longer, then says BYE.
    ///
    /// A receiver may read RTCP before RTP that arrived earlier (ffmpeg does, and ends at a BYE), so
    /// `linger` is the time it has to empty its socket: 0.5 s is much on an idle machine, and
    /// [`FfmpegReceiver::wait_received`](crate::receiver::FfmpegReceiver::wait_received) knows.
    ///
    /// # Errors
    ///
    /// [`MediaError::Send`], as [`Self::send`].
    pub fn finish(mut self, linger: Duration) -> Result<Statistics, MediaError> {
        let Some(clock) = &self.clock else {
            return Ok(self.statistics);
        };
        let linger_ns = u64::try_from(linger.as_nanos()).unwrap_or(u64::MAX);
        // Never longer than one payload and the linger from now: the clock is at the last sample.
        sleep_until(clock.due_ns().saturating_add(linger_ns));
        let counts = counts(clock, self.first_timestamp, &self.statistics);
        let mut way = Way {
            destination: self.destination,
            socket: &self.rtp,
            statistics: &mut self.statistics,
        };
        way.report(&self.rtcp, self.reports.goodbye(counts)?)?;
        Ok(self.statistics)
    }
}

/// Where packets go and where they are counted.
struct Way<'s> {
    destination: SocketAddr,
    socket: &'s UdpSocket,
    statistics: &'s mut Statistics,
}

impl Way<'_> {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<(), MediaError> {
        let vectors = [IoSlice::new(&packet.header), IoSlice::new(packet.payload)];
        if self.give(self.socket, &vectors)? {
            self.statistics.packets += 1;
            self.statistics.payload_bytes += packet.payload.len() as u64;
            self.statistics.samples += u64::from(packet.samples);
        }
        Ok(())
    }

    fn report(&mut self, socket: &UdpSocket, report: &[u8]) -> Result<(), MediaError> {
        if self.give(socket, &[IoSlice::new(report)])? {
            self.statistics.reports += 1;
        }
        Ok(())
    }

    /// Gives one packet to the network; whether it took it.
    fn give(&mut self, socket: &UdpSocket, vectors: &[IoSlice<'_>]) -> Result<bool, MediaError> {
        // A refusal is the answer to an earlier packet and this one was not sent yet, so it is
        // tried again; a second refusal can only answer the first try, and the third one goes.
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let mut control = SendAncillaryBuffer::default();
            match sendmsg(socket, vectors, &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(true),
                Err(Errno::CONNREFUSED) => self.statistics.refused += 1,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => {
                    self.statistics.overflows += 1;
                    return Ok(false);
                }
                Err(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN) => {
                    self.statistics.unreachable += 1;
                    return Ok(false);
                }
                Err(error) => {
                    let destination = self.destination;
                    return Err(MediaError::Send {
                        destination,
                        source: error.into(),
                    });
                }
            }
        }
        Ok(false)
    }
}

/// A socket of our own address family, connected, that gives up after [`SEND_TIMEOUT`].
fn connected_socket(destination: SocketAddr) -> Result<UdpSocket, MediaError> {
    let failed = |what| {
        move |source| MediaError::Socket {
            what,
            destination,
            source,
        }
    };
    let any = if destination.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = UdpSocket::bind(any).map_err(failed("open a UDP socket"))?;
    socket.connect(destination).map_err(failed("find a way"))?;
    socket
        .set_write_timeout(Some(SEND_TIMEOUT))
        .map_err(failed("set a time-out"))?;
    Ok(socket)
}

/// The figures of a report for this instant.
fn counts(clock: &MediaClock, first_timestamp: u32, statistics: &Statistics) -> Counts {
    Counts {
        unix_ns: unix_ns(),
        // Timestamps and counters wrap by design (RFC 3550, 5.1 and 6.4.1).
        timestamp: first_timestamp.wrapping_add(clock.samples_at(now_ns()) as u32),
        packets: statistics.packets as u32,
        bytes: statistics.payload_bytes as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(destination: &str) -> Result<RtpSender, MediaError> {
        let format = L16::new(48_000, 1).unwrap();
        RtpSender::connect(destination.parse().unwrap(), format, Identity::seeded(1))
    }

    #[test]
    fn ports_that_leave_rtcp_none_are_refused() {
        for destination in ["127.0.0.1:0", "127.0.0.1:5005", "127.0.0.1:65535"] {
            let error = sender(destination).unwrap_err();
            assert!(matches!(error, MediaError::Destination { .. }), "{error}");
        }
    }

    #[test]
    fn nobody_listening_is_counted_and_the_stream_goes_on() {
        // An even port that nobody has: bound and let go.
        let port = loop {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let port = socket.local_addr().unwrap().port();
            if port.is_multiple_of(2) && UdpSocket::bind(("127.0.0.1", port + 1)).is_ok() {
                break port;
            }
        };
        let mut sender = sender(&format!("127.0.0.1:{port}")).unwrap();
        sender.send(&[0; 2 * 4800]).unwrap();
        let statistics = sender.finish(Duration::ZERO).unwrap();
        assert_eq!(statistics.samples, 4800);
        assert_eq!(statistics.payload_bytes, 9600);
        assert_eq!(statistics.packets, 9600_u64.div_ceil(1400));
        assert_eq!(statistics.reports, 2);
        assert!(statistics.refused > 0, "{statistics:?}");
    }

    #[test]
    fn a_packet_too_large_for_the_way_is_an_error() {
        let mut sender = sender("127.0.0.1:5004").unwrap();
        sender.packetizer = sender.packetizer.with_max_payload_bytes(80_000);
        let error = sender.send(&[0; 70_000]).unwrap_err();
        assert!(matches!(error, MediaError::Send { .. }), "{error}");
    }

    #[test]
    fn a_stall_is_counted_and_not_made_up_for() {
        let mut sender = sender("127.0.0.1:5004").unwrap();
        sender.send(&[0; 96]).unwrap();
        std::thread::sleep(Duration::from_millis(120));
        let before = now_ns();
        sender.send(&[0; 2 * 4800]).unwrap();
        // Seven packets, the first at once, the last due 6/7 of 0.1 s later.
        assert!(now_ns() - before >= 80_000_000);
        assert_eq!(sender.statistics().stalls, 1);
    }
}
