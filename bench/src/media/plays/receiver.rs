//! The receiving side: a socket for each destination, and when each packet arrived by the kernel.
//!
//! The sockets are alike for all systems, and as those of `hythe media recv`: datagrams that come
//! as one piece are taken as one (`UDP_GRO`). Sleeps while packets come and takes them afterwards,
//! so that no sender pays for waking it. What the sockets hold is bounded by their buffers, which
//! are far larger than what comes meanwhile.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use hythe_sys::udp_receive::{
    BATCH_BYTES, MESSAGES_MAX, Message, enable_gro, enable_timestamps, receive,
};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use super::super::port;
use super::{PlaysCase, Watched};
use crate::error::BenchError;
use crate::statistics::{encode, histogram, record};

/// Of each socket.
const BUFFER_BYTES: usize = 1 << 22;
/// How long packets are left to come.
const NAP: Duration = Duration::from_millis(10);
/// After the sender has ended, nothing is on its way for so long.
const SILENCE: Duration = Duration::from_millis(300);
const RTP_HEADER_BYTES: usize = 12;
/// Ticks of a transport stream's clock in RTP (RFC 2250).
const CLOCK_HZ: i128 = 90_000;

/// What one destination got.
#[derive(Debug, Default)]
struct Arrivals {
    last: Option<Last>,
    /// Of each packet: its arrival less its time in the stream, nanoseconds.
    offsets_ns: Vec<i64>,
    missing: u64,
    wrong: u64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    sequence: u16,
    ticks: u32,
    /// In the stream, since its first packet.
    media_ticks: i64,
}

/// Open sockets, and what came to them.
#[derive(Debug)]
struct Receiver {
    media: Vec<UdpSocket>,
    /// Where reports go. Nobody reads them; without the socket each would be answered by ICMP.
    _reports: Vec<UdpSocket>,
    events: OwnedFd,
    arrivals: Vec<Arrivals>,
}

/// Opens the sockets, says that they are open, and takes what comes until there is an order on
/// `orders` and nothing comes any more.
pub(in super::super) fn watch(
    case: PlaysCase,
    address: IpAddr,
    ready: impl FnOnce() -> Result<(), BenchError>,
    orders: impl AsFd,
) -> Result<Watched, BenchError> {
    let mut receiver = Receiver::open(case, address)?;
    ready()?;
    receiver.run(&orders)?;
    receiver.watched()
}

impl Receiver {
    fn open(case: PlaysCase, address: IpAddr) -> Result<Self, BenchError> {
        let events = epoll::create(CreateFlags::CLOEXEC)?;
        let (mut media, mut reports) = (Vec::new(), Vec::new());
        for destination in 0..case.destinations {
            let socket = UdpSocket::bind(SocketAddr::new(address, port(destination)))?;
            socket.set_nonblocking(true)?;
            set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES)?;
            enable_timestamps(&socket)?;
            enable_gro(&socket)?;
            let event = EventData::new_u64(u64::from(destination));
            epoll::add(&events, &socket, event, EventFlags::IN)?;
            media.push(socket);
            let report = SocketAddr::new(address, port(destination) + 1);
            reports.push(UdpSocket::bind(report)?);
        }
        Ok(Self {
            arrivals: media.iter().map(|_| Arrivals::default()).collect(),
            media,
            _reports: reports,
            events,
        })
    }

    fn run(&mut self, orders: &impl AsFd) -> Result<(), BenchError> {
        let mut buffer = vec![0; BATCH_BYTES * MESSAGES_MAX];
        let (mut is_sent, mut last) = (false, Instant::now());
        while !is_sent || last.elapsed() < SILENCE {
            std::thread::sleep(NAP);
            if self.drain(&mut buffer)? {
                last = Instant::now();
            }
            if !is_sent {
                is_sent = is_readable(orders)?;
                last = Instant::now();
            }
        }
        Ok(())
    }

    /// Takes all that came; whether there was anything.
    fn drain(&mut self, buffer: &mut [u8]) -> Result<bool, BenchError> {
        let mut events = Vec::with_capacity(self.media.len());
        let at_once = Timespec::default();
        match epoll::wait(&self.events, spare_capacity(&mut events), Some(&at_once)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let place = event.data.u64() as usize;
            if let Some((socket, arrivals)) =
                self.media.get(place).zip(self.arrivals.get_mut(place))
            {
                take_all(socket, arrivals, buffer)?;
            }
        }
        Ok(!events.is_empty())
    }

    fn watched(&self) -> Result<Watched, BenchError> {
        let mut lateness = histogram();
        for arrivals in &self.arrivals {
            let least = arrivals.offsets_ns.iter().min().copied().unwrap_or(0);
            for offset in &arrivals.offsets_ns {
                record(&mut lateness, Duration::from_nanos(offset.abs_diff(least)));
            }
        }
        let sum = |of: fn(&Arrivals) -> u64| self.arrivals.iter().map(of).sum();
        Ok(Watched {
            delivered: sum(|arrivals| arrivals.offsets_ns.len() as u64),
            missing: sum(|arrivals| arrivals.missing),
            silent: sum(|arrivals| u64::from(arrivals.offsets_ns.is_empty())),
            wrong: sum(|arrivals| arrivals.wrong),
            lateness: encode(&[lateness])?,
        })
    }
}

fn take_all(
    socket: &UdpSocket,
    arrivals: &mut Arrivals,
    buffer: &mut [u8],
) -> Result<(), BenchError> {
    let part = NonZeroUsize::new(BATCH_BYTES).unwrap_or(NonZeroUsize::MIN);
    let mut messages = [Message::NONE; MESSAGES_MAX];
    loop {
        let count = receive(socket, buffer, part, &mut messages)?;
        for (message, bytes) in messages[..count].iter().zip(buffer.chunks(BATCH_BYTES)) {
            let arrived_ns = message.arrived_unix_ns.unwrap_or(0);
            let packets =
                bytes[..message.bytes.min(bytes.len())].chunks(message.segment_bytes.max(1));
            packets.for_each(|packet| arrivals.take(packet, arrived_ns));
        }
        if count < messages.len() {
            return Ok(());
        }
    }
}

impl Arrivals {
    fn take(&mut self, packet: &[u8], arrived_ns: u64) {
        let Some(header) = packet.first_chunk::<RTP_HEADER_BYTES>() else {
            self.wrong += 1;
            return;
        };
        let sequence = u16::from_be_bytes([header[2], header[3]]);
        let ticks = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let media_ticks = match self.last {
            None => 0,
            Some(last) => {
                let ahead = sequence.wrapping_sub(last.sequence);
                // What comes twice or is overtaken is behind by a little.
                if !(1..1 << 15).contains(&ahead) {
                    self.wrong += 1;
                    return;
                }
                self.missing += u64::from(ahead) - 1;
                last.media_ticks + i64::from(ticks.wrapping_sub(last.ticks).cast_signed())
            }
        };
        self.last = Some(Last {
            sequence,
            ticks,
            media_ticks,
        });
        let media_ns = i128::from(media_ticks) * 1_000_000_000 / CLOCK_HZ;
        let offset_ns = i128::from(arrived_ns) - media_ns;
        self.offsets_ns
            .push(i64::try_from(offset_ns).unwrap_or(i64::MAX));
    }
}

fn is_readable(orders: &impl AsFd) -> Result<bool, BenchError> {
    let mut waited = [PollFd::new(orders, PollFlags::IN)];
    match poll(&mut waited, Some(&Timespec::default())) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u16, ticks: u32) -> Vec<u8> {
        let mut packet = vec![0x80, 33];
        packet.extend(sequence.to_be_bytes());
        packet.extend(ticks.to_be_bytes());
        packet.extend([0; 8]);
        packet
    }

    #[test]
    fn arrivals_are_compared_with_the_clock_of_the_packets() {
        let mut arrivals = Arrivals::default();
        // Numbers and ticks wrap; 90 ticks are a millisecond.
        for (number, ticks, arrived_ms) in [
            (65_534, u32::MAX - 89, 1000),
            (65_535, 0, 1001),
            (1, 180, 1004),
            (1, 180, 1004),
            (0, 90, 1005),
        ] {
            arrivals.take(&packet(number, ticks), arrived_ms * 1_000_000);
        }
        arrivals.take(&[0x80], 0);
        let least = arrivals.offsets_ns[0];
        let late: Vec<i64> = arrivals
            .offsets_ns
            .iter()
            .map(|offset| offset - least)
            .collect();
        assert_eq!(late, [0, 0, 1_000_000]);
        assert_eq!((arrivals.missing, arrivals.wrong), (1, 3));
    }
}
