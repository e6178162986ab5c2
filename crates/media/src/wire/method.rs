//! The ways to give packets to the network, from the cheapest for the sender down to the one that
//! always works.
//!
//! 1. [`Method::SendfileGso`]: the kernel takes a run of packets from a file by reference and cuts
//!    it into datagrams (`UDP_SEGMENT`). No byte is copied. There is no sign by which a sender
//!    could know when a page has left, so only packets in pages that are never overwritten
//!    ([`Packets::lasting`]) may go this way.
//! 2. [`Method::MappedGso`]: one send per run; the kernel copies the bytes once. Headers may differ
//!    from what lies in memory.
//! 3. [`Method::Sendmmsg`]: one system call for many packets, each of which travels through the
//!    stack by itself.
//! 4. [`Method::Sendto`]: one system call per packet.
//!
//! `MSG_ZEROCOPY` is not among them: virtual links (loopback, veth) copy what it sends all the
//! same, it gains nothing for single packets, and its sender has to read completions from the error
//! queue, which `sendfile` from pages that last does without.
//!
//! Packets with departure times ([`Packets::with_departures`]) go in one call, too, however many
//! times there are: a message for each time, with what leaves then cut by the kernel. `sendfile`
//! has no argument for a time, so by reference they do not go.
//!
//! A [`WireSocket`] does one system call and says what came of it; which method is used, and what
//! to do about a refusal, is decided by the [destination](super::destination). What holds between
//! calls: the socket's segment size is known. Never sends a packet twice, never waits.

use std::array;
use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::str::FromStr;

use hythe_sys::socket_option::{
    DepartureClock, SocketOption, set_departure_clock, set_socket_option,
};
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{
    MMsgHdr, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, send, sendmmsg, sendmsg,
    sendmsg_addr,
};
use rustix::param::page_size;

use super::PacketMemory;
use super::departure::{Given, Handed, ahead_ns};
use super::packets::{Packets, VECTORS_MAX};
use super::run::{self, PacketPlace, Run};
use crate::instant::now_ns;

/// Pages that `sendfile` moves at once (the kernel's `PIPE_DEF_BUFFERS`). A run in more of them
/// would be taken in two steps, and a failure in the second would look like a short count, without
/// a reason.
const SENDFILE_PAGES: u64 = 16;

/// Most packets of one `sendmmsg`. More gain nothing: the way through the stack is what costs, not
/// the call.
const MESSAGES_MAX: usize = 64;

/// When a datagram leaves that is to leave at once, where each needs a time: after etf had time to
/// take it up. Its `delta` is mostly less.
const SOON_NS: u64 = 2_000_000;

/// Space for a departure time beside a message.
const CONTROL_BYTES: usize = rustix::cmsg_space!(TxTime(1));

/// A way to give packets to the network; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// `sendfile` of a run with `UDP_SEGMENT`.
    SendfileGso,
    /// `sendmsg` of a run with `UDP_SEGMENT`.
    MappedGso,
    /// `sendmmsg`.
    Sendmmsg,
    /// One system call per packet.
    Sendto,
}

impl Method {
    /// All, best first.
    pub const BEST_FIRST: [Self; 4] = [
        Self::SendfileGso,
        Self::MappedGso,
        Self::Sendmmsg,
        Self::Sendto,
    ];

    /// The one to try where this one is refused.
    #[must_use]
    pub fn lower(self) -> Option<Self> {
        Self::BEST_FIRST.into_iter().find(|method| *method > self)
    }

    /// Does the kernel cut one send into many datagrams?
    #[must_use]
    pub fn segments(self) -> bool {
        matches!(self, Self::SendfileGso | Self::MappedGso)
    }

    fn name(self) -> &'static str {
        match self {
            Self::SendfileGso => "sendfile-gso",
            Self::MappedGso => "gso",
            Self::Sendmmsg => "sendmmsg",
            Self::Sendto => "sendto",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// There is no method of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a send method: use sendfile-gso, gso, sendmmsg or sendto")]
pub struct UnknownMethod(String);

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        let mut methods = Self::BEST_FIRST.into_iter();
        methods
            .find(|method| method.name() == name)
            .ok_or_else(|| UnknownMethod(name.into()))
    }
}

/// The kernel refused a call. None of its packets was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub errno: Errno,
    /// How many packets the call was for.
    pub packets: usize,
}

/// A connected UDP socket whose segment size is known.
#[derive(Debug)]
pub struct WireSocket {
    socket: UdpSocket,
    /// 0: not segmented.
    segment_bytes: u16,
    /// Set where the way heeds departure times.
    clock: Option<DepartureClock>,
    /// What a scheduler that drops packets may still drop.
    handed: Handed,
}

/// Packets that go in one message: one behind the other, leaving together.
#[derive(Clone, Copy, Debug, Default)]
struct Message<'v> {
    parts: &'v [IoSlice<'v>],
    packets: usize,
    departure_ns: Option<u64>,
}

impl WireSocket {
    /// Takes over a connected socket that nobody has set `UDP_SEGMENT` on.
    #[must_use]
    pub fn new(socket: UdpSocket) -> Self {
        Self {
            socket,
            segment_bytes: 0,
            clock: None,
            handed: Handed::default(),
        }
    }

    /// From now on packets are given their departure times, by this clock; or not.
    pub(crate) fn keep_departures(&mut self, clock: Option<DepartureClock>) -> Result<(), Errno> {
        self.clock = None;
        if let Some(clock) = clock {
            set_departure_clock(&self.socket, clock).map_err(|error| errno_of(&error))?;
        }
        self.clock = clock;
        Ok(())
    }

    /// Are packets dropped that come to the scheduler or leave it after their time?
    pub(crate) fn may_miss_departures(&self) -> bool {
        self.clock == Some(DepartureClock::Tai)
    }

    /// What a scheduler's report of a departure time is about.
    pub(crate) fn missed(&mut self, departure_ns: u64) -> Option<Given> {
        self.handed.take(departure_ns)
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Sends the first of `packets`, as many as one system call takes, and says how many those
    /// were. Packets that are written again or have headers of their own cannot be sent by
    /// reference: for them, [`Method::SendfileGso`] is [`Method::MappedGso`].
    ///
    /// # Errors
    ///
    /// What the kernel says; none of the packets that the call was for has been sent. An error may
    /// be the answer to an earlier packet.
    pub fn send_some(&mut self, method: Method, packets: &Packets<'_>) -> Result<usize, Refusal> {
        let first = packets.after(packets.len().min(MESSAGES_MAX));
        let count = packets.len() - first.len();
        if let (Method::SendfileGso, Some((memory, file))) = (method, packets.by_reference()) {
            return self.send_file(file, memory, packets.places());
        }
        match (method, count) {
            (_, 0) => Ok(0),
            (Method::SendfileGso | Method::MappedGso, _) if self.has_departures(packets) => {
                self.send_runs(packets, count)
            }
            (Method::SendfileGso | Method::MappedGso, _) => match packets.together() {
                Some(memory) => self.send_run(memory, packets.places()),
                None => self.send_gathered(packets),
            },
            (Method::Sendmmsg, 2..) => self.send_many(packets, count),
            (Method::Sendmmsg | Method::Sendto, _) => self.send_one(packets),
        }
    }

    fn send_file(
        &mut self,
        file: BorrowedFd<'_>,
        memory: &PacketMemory<'_>,
        places: &[PacketPlace],
    ) -> Result<usize, Refusal> {
        let page_of =
            |offset: usize| memory.file_offset.saturating_add(offset as u64) / page_size() as u64;
        let begins_in = places.first().map(|first| page_of(first.offset as usize));
        let near =
            |end: usize| begins_in.is_some_and(|page| page_of(end - 1) - page < SENDFILE_PAGES);
        let Some(run) = Run::first_of(places, |next| near(next.end())) else {
            return Ok(0);
        };
        self.segment(run.segment_bytes, run.packets.into())?;
        let mut offset = memory.file_offset + u64::from(run.offset);
        let result = sendfile(&self.socket, file, Some(&mut offset), run.bytes as usize);
        // A short count means that the file ended, or a socket that is none of UDP.
        let result = result.and_then(|sent| match sent == run.bytes as usize {
            true => Ok(()),
            false => Err(Errno::IO),
        });
        taken(result, run.packets.into())
    }

    fn send_run(
        &mut self,
        memory: &PacketMemory<'_>,
        places: &[PacketPlace],
    ) -> Result<usize, Refusal> {
        let Some(run) = Run::first_of(places, |_| true) else {
            return Ok(0);
        };
        self.segment(run.segment_bytes, run.packets.into())?;
        let begin = run.offset as usize;
        // Each packet was checked to lie in the memory, so the run does.
        let bytes = &memory.bytes[begin..begin + run.bytes as usize];
        taken(
            send(&self.socket, bytes, SendFlags::NOSIGNAL),
            run.packets.into(),
        )
    }

    fn send_gathered(&mut self, packets: &Packets<'_>) -> Result<usize, Refusal> {
        let count = run::length(packets.places(), |_, _| true);
        let segment_bytes = packets.places().first().map_or(0, |first| first.bytes);
        self.segment(segment_bytes, count)?;
        let mut storage = [IoSlice::new(&[]); VECTORS_MAX];
        let vectors = packets.vectors(count, &mut storage);
        taken(self.send_vectors(vectors.all()), count)
    }

    fn send_many(&mut self, packets: &Packets<'_>, count: usize) -> Result<usize, Refusal> {
        self.segment(0, count)?;
        let mut storage = [IoSlice::new(&[]); VECTORS_MAX];
        let vectors = packets.vectors(count, &mut storage);
        let messages: [Message<'_>; MESSAGES_MAX] = array::from_fn(|index| Message {
            parts: vectors.of(index),
            packets: 1,
            departure_ns: packets.departure_ns(index),
        });
        self.send_messages(&messages[..count])
    }

    /// Runs of one segment size, each with a departure time of its own.
    fn send_runs(&mut self, packets: &Packets<'_>, count: usize) -> Result<usize, Refusal> {
        let mut storage = [IoSlice::new(&[]); VECTORS_MAX];
        let vectors = packets.vectors(count, &mut storage);
        let mut messages = [Message::default(); MESSAGES_MAX];
        let segment_bytes = packets.places().first().map_or(0, |first| first.bytes);
        let mut done = 0;
        let mut used = 0;
        for message in &mut messages {
            let rest = packets.after(done);
            let departure_ns = rest.departure_ns(0);
            let leave_together = |index: &usize| rest.departure_ns(*index) == departure_ns;
            let together = (0..count - done).take_while(leave_together).count();
            let together = &rest.places()[..together];
            let length = run::length(together, |_, _| true);
            // A lone packet that is no longer than a segment is not cut.
            let fits = together.first().is_some_and(|first| {
                first.bytes == segment_bytes || length == 1 && first.bytes < segment_bytes
            });
            if !fits {
                break;
            }
            *message = Message {
                parts: vectors.between(done..done + length),
                packets: length,
                departure_ns,
            };
            used += 1;
            done += length;
        }
        self.segment(segment_bytes, done)?;
        self.send_messages(&messages[..used])
    }

    /// One call for all, at most [`MESSAGES_MAX`]; how many packets it took.
    fn send_messages(&mut self, messages: &[Message<'_>]) -> Result<usize, Refusal> {
        let ahead_ns = self.clock.map(ahead_ns);
        let departure = |message: &Message<'_>| {
            let departure_ns = message.departure_ns?;
            Some(departure_ns.saturating_add_signed(ahead_ns?))
        };
        let mut space = [[MaybeUninit::<u8>::uninit(); CONTROL_BYTES]; MESSAGES_MAX];
        let mut next = messages.iter();
        let mut controls = space
            .each_mut()
            .map(|space| control(space, next.next().and_then(departure)));
        let mut next = messages.iter();
        let mut headers = controls
            .each_mut()
            .map(|control| MMsgHdr::new(next.next().map_or(&[], |message| message.parts), control));
        let sent = sendmmsg(
            &self.socket,
            &mut headers[..messages.len()],
            SendFlags::NOSIGNAL,
        );
        if self.may_miss_departures() {
            // The kernel has tried no others.
            let tried = messages.iter().take(sent.unwrap_or(1));
            for (message, departure_ns) in tried.filter_map(|one| Some((one, departure(one)?))) {
                self.handed.push(Given {
                    departure_ns,
                    packets: message.packets as u32, // at most MESSAGES_MAX
                    was_refused: sent.is_err(),
                });
            }
        }
        let sent = sent.map_err(|errno| Refusal {
            errno,
            // The kernel says nothing of those behind the first, because it has not tried them.
            packets: messages.first().map_or(0, |first| first.packets),
        })?;
        let went = messages.iter().take(sent);
        Ok(went.map(|message| message.packets).sum())
    }

    fn send_one(&mut self, packets: &Packets<'_>) -> Result<usize, Refusal> {
        if self.has_departures(packets) {
            return self.send_many(packets, 1);
        }
        self.segment(0, 1)?;
        let mut storage = [IoSlice::new(&[]); VECTORS_MAX];
        taken(self.send_vectors(packets.vectors(1, &mut storage).all()), 1)
    }

    /// Do packets leave at times of their own, which their way heeds?
    fn has_departures(&self, packets: &Packets<'_>) -> bool {
        self.clock.is_some() && packets.departure_ns(0).is_some()
    }

    /// Sends one datagram of its own, in parts: to where the socket is connected to, or elsewhere;
    /// at once, or at its departure if the way heeds it.
    pub(crate) fn send_datagram(
        &mut self,
        parts: &[IoSlice<'_>],
        elsewhere: Option<SocketAddr>,
        departure_ns: Option<u64>,
    ) -> Result<(), Refusal> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > self.segment_bytes.into() {
            // It would be cut.
            self.segment(0, 1)?;
        }
        // Without a time of its own it leaves as soon as it can: fq lets that pass, etf would drop
        // it.
        let soon_ns = || self.may_miss_departures().then(|| now_ns() + SOON_NS);
        let departure_ns = departure_ns.or_else(soon_ns);
        let of_clock = |clock| departure_ns?.checked_add_signed(ahead_ns(clock));
        let mut space = [MaybeUninit::<u8>::uninit(); CONTROL_BYTES];
        let mut control = control(&mut space, self.clock.and_then(of_clock));
        let flags = SendFlags::NOSIGNAL;
        let sent = match elsewhere {
            None => sendmsg(&self.socket, parts, &mut control, flags),
            Some(address) => sendmsg_addr(&self.socket, &address, parts, &mut control, flags),
        };
        taken(sent, 1).map(|_| ())
    }

    fn send_vectors(&self, vectors: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut control = SendAncillaryBuffer::default();
        sendmsg(&self.socket, vectors, &mut control, SendFlags::NOSIGNAL)
    }

    /// Lets the kernel cut what is sent next, `packets` of them, into datagrams of `bytes`.
    fn segment(&mut self, bytes: u16, packets: usize) -> Result<(), Refusal> {
        // One datagram that is no longer than a segment is not cut, so that short packets between
        // long runs cost no call.
        let is_uncut =
            packets == 1 && bytes != 0 && (self.segment_bytes == 0 || bytes <= self.segment_bytes);
        if self.segment_bytes == bytes || is_uncut {
            return Ok(());
        }
        set_socket_option(&self.socket, SocketOption::UdpSegment, bytes.into()).map_err(
            |error| {
                let errno = errno_of(&error);
                Refusal { errno, packets }
            },
        )?;
        self.segment_bytes = bytes;
        Ok(())
    }
}

/// The control messages of a packet with or without a departure time.
fn control<'s>(
    space: &'s mut [MaybeUninit<u8>; CONTROL_BYTES],
    departure_ns: Option<u64>,
) -> SendAncillaryBuffer<'s, 'static, 'static> {
    let mut control = SendAncillaryBuffer::new(space);
    if let Some(departure_ns) = departure_ns {
        // There is space for one.
        control.push(SendAncillaryMessage::TxTime(departure_ns));
    }
    control
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn taken<T>(result: Result<T, Errno>, packets: usize) -> Result<usize, Refusal> {
    match result {
        Ok(_) => Ok(packets),
        Err(errno) => Err(Refusal { errno, packets }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PacketMemory;
    use crate::wire::run::PacketPlace;
    use std::os::fd::AsFd;

    const SIZES: [u16; 8] = [1000, 1000, 1000, 400, 1000, 300, 300, 1000];
    const METHODS: [Method; 3] = [Method::MappedGso, Method::Sendmmsg, Method::Sendto];

    fn places() -> Vec<PacketPlace> {
        let mut offset = 0;
        let place = |bytes: u16| {
            let place = PacketPlace {
                offset,
                bytes,
                sequence: 0,
                due_ns: 0,
            };
            offset += u32::from(bytes);
            place
        };
        SIZES.into_iter().map(place).collect()
    }

    /// Packets that leave at those times, built and then in pieces, and a connected socket with
    /// the one it sends to.
    fn with_packets(departures_ns: &[u64], test: impl Fn(Packets<'_>, WireSocket, UdpSocket)) {
        let input = io::stdin();
        let bytes = bytes();
        let memory = PacketMemory {
            file: Some(input.as_fd()),
            file_offset: 0,
            bytes: &bytes,
        };
        let places = &places()[..departures_ns.len()];
        let prebuilt = Packets::lasting(memory, places).unwrap();
        let (mut vectors, mut ends) = (Vec::new(), Vec::new());
        for (index, place) in places.iter().enumerate() {
            let (header, body) = bytes[place.offset as usize..place.end()].split_at(12);
            let pieces = body.chunks(body.len().div_ceil(index % 3 + 1));
            vectors.push(IoSlice::new(header));
            vectors.extend(pieces.map(IoSlice::new));
            ends.push(vectors.len());
        }
        let apart = Packets::apart(&vectors, &ends, places).unwrap();
        for packets in [prebuilt, apart] {
            let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
            receiver.set_nonblocking(true).unwrap();
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            sender.connect(receiver.local_addr().unwrap()).unwrap();
            let packets = packets.with_departures(departures_ns).unwrap();
            test(packets, WireSocket::new(sender), receiver);
        }
    }

    /// Of all packets, one behind the other.
    fn bytes() -> Vec<u8> {
        let byte = |index: u32| ((index * 7919) >> 8) as u8;
        (0..6000).map(byte).collect()
    }

    /// How long the packets are that came, which are the first ones.
    fn received(socket: &UdpSocket) -> Vec<u16> {
        let (mut buffer, mut all) = ([0; 2000], Vec::new());
        let mut sizes = Vec::new();
        while let Ok(bytes) = socket.recv(&mut buffer) {
            sizes.push(bytes as u16);
            all.extend_from_slice(&buffer[..bytes]);
        }
        assert!(bytes().starts_with(&all));
        sizes
    }

    /// The kernel refuses a time on a socket that was not told of times, and only a time: so what
    /// is sent is one.
    #[test]
    fn departure_time_is_what_the_kernel_takes_for_one() {
        for method in METHODS {
            with_packets(&[1, 1, 2], |packets, mut socket, receiver| {
                socket.clock = Some(DepartureClock::Monotonic);
                let refusal = socket.send_some(method, &packets).unwrap_err();
                assert_eq!(refusal.errno, Errno::INVAL, "{method}");
                assert!(received(&receiver).is_empty());
                let clock = Some(DepartureClock::Monotonic);
                socket.keep_departures(clock).unwrap();
                assert!(socket.send_some(method, &packets).unwrap() >= 1);
            });
        }
    }

    #[test]
    fn times_are_left_out_where_nobody_heeds_them() {
        for method in METHODS {
            with_packets(&[u64::MAX; 3], |packets, mut socket, receiver| {
                let mut done = 0;
                while done < 3 {
                    done += socket.send_some(method, &packets.after(done)).unwrap();
                }
                assert_eq!(received(&receiver), SIZES[..3], "{method}");
            });
        }
    }

    /// In the past, so that they leave at once whatever schedules this machine's loopback
    /// interface.
    #[test]
    fn one_call_sends_equal_messages_of_several_times() {
        let departures_ns = [1, 1, 2, 2, 3, 3, 4, 5];
        with_packets(&departures_ns, |packets, mut socket, receiver| {
            let clock = Some(DepartureClock::Monotonic);
            socket.keep_departures(clock).unwrap();
            // 1000+1000, 1000+400, 1000+300, 300, 1000: each is cut into pieces of 1,000 bytes, or
            // not at all.
            assert_eq!(socket.send_some(Method::MappedGso, &packets), Ok(8));
            assert_eq!(received(&receiver), SIZES);
        });
        // A run of shorter ones is cut by another size, and has a call of its own.
        let departures_ns = [1, 1, 2, 2, 3, 4, 4, 5];
        with_packets(&departures_ns, |packets, mut socket, receiver| {
            let clock = Some(DepartureClock::Monotonic);
            socket.keep_departures(clock).unwrap();
            let mut taken = Vec::new();
            let mut done = 0;
            while done < 8 {
                let more = socket.send_some(Method::MappedGso, &packets.after(done));
                taken.push(more.unwrap());
                done += more.unwrap();
            }
            assert_eq!(taken, [5, 2, 1]);
            assert_eq!(received(&receiver), SIZES);
        });
    }

    #[test]
    fn two_groups_are_never_one_message() {
        // As many as could be cut from one send.
        let departures_ns = [1, 2, 3];
        with_packets(&departures_ns, |packets, mut socket, _receiver| {
            let clock = Some(DepartureClock::Tai);
            if socket.keep_departures(clock) == Err(Errno::PERM) {
                eprintln!("SKIPPED: CLOCK_TAI needs CAP_NET_ADMIN");
                return;
            }
            assert!(socket.may_miss_departures());
            assert_eq!(socket.send_some(Method::MappedGso, &packets), Ok(3));
            let ahead = ahead_ns(DepartureClock::Tai);
            // What a scheduler could report is known by its time, a packet each.
            let mut given = Vec::new();
            while let Some(one) = socket.handed.take_oldest() {
                given.push((one.packets, one.was_refused));
                let expected = ahead.unsigned_abs();
                assert!(one.departure_ns.abs_diff(expected) < 1_000_000_000);
            }
            assert_eq!(given, [(1, false); 3]);
        });
    }
}
