//! The ways to give packets to the network, from the cheapest for the sender down to the one that always works.
//!
//! 1. [`Method::SendfileGso`]: the kernel takes a run of packets from a file by reference and cuts it into datagrams (`UDP_SEGMENT`).
//!    No byte is copied. There is no sign by which a sender could know when a page has left, so only packets in pages that are
//!    never overwritten ([`Packets::lasting`]) may go this way.
//! 2. [`Method::MappedGso`]: one send per run; the kernel copies the bytes once. Headers may differ from what lies in memory.
//! 3. [`Method::Sendmmsg`]: one system call for many packets, each of which travels through the stack by itself.
//! 4. [`Method::Sendto`]: one system call per packet.
//!
//! `MSG_ZEROCOPY` is not among them: virtual links (loopback, veth) copy what it sends all the same, it gains nothing for single
//! packets, and its sender has to read completions from the error queue, which `sendfile` from pages that last does without.
//!
//! A [`WireSocket`] does one system call and says what came of it; which method is used, and what to do about a refusal, is decided
//! by the [destination](super::destination). What holds between calls: the socket's segment size is known. Never sends a packet
//! twice, never waits.

use std::array;
use std::fmt;
use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::str::FromStr;

use hythe_sys::socket_option::{SocketOption, set_socket_option};
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, send, sendmmsg, sendmsg, sendmsg_addr};
use rustix::param::page_size;

use super::PacketMemory;
use super::packets::{Packets, VECTORS_MAX};
use super::run::{self, PacketPlace, Run};

/// Pages that `sendfile` moves at once (the kernel's `PIPE_DEF_BUFFERS`). A run in more of them would be taken in two steps, and a
/// failure in the second would look like a short count, without a reason.
const SENDFILE_PAGES: u64 = 16;

/// Most packets of one `sendmmsg`. More gain nothing: the way through the stack is what costs, not the call.
const MESSAGES_MAX: usize = 64;

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
    pub const LADDER: [Self; 4] = [
        Self::SendfileGso,
        Self::MappedGso,
        Self::Sendmmsg,
        Self::Sendto,
    ];

    /// The one to try where this one is refused.
    #[must_use]
    pub fn lower(self) -> Option<Self> {
        Self::LADDER.into_iter().find(|method| *method > self)
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
#[error("{0:?} is no way of sending: use sendfile-gso, gso, sendmmsg or sendto")]
pub struct UnknownMethod(String);

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        let mut ladder = Self::LADDER.into_iter();
        ladder
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
}

impl WireSocket {
    /// Takes over a connected socket that nobody has set `UDP_SEGMENT` on.
    #[must_use]
    pub fn new(socket: UdpSocket) -> Self {
        Self {
            socket,
            segment_bytes: 0,
        }
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Sends the first of `packets`, as many as one system call takes, and says how many those were. Packets that are written again
    /// or have headers of their own cannot be sent by reference: for them, [`Method::SendfileGso`] is [`Method::MappedGso`].
    ///
    /// # Errors
    ///
    /// What the kernel says; none of the packets that the call was for has been sent. An error may be the answer to an earlier packet.
    pub fn send_some(&mut self, method: Method, packets: &Packets<'_>) -> Result<usize, Refusal> {
        let first = packets.after(packets.len().min(MESSAGES_MAX));
        let count = packets.len() - first.len();
        match (method, count) {
            (_, 0) => Ok(0),
            (Method::SendfileGso, _) if packets.may_be_referenced() => {
                match packets
                    .together()
                    .and_then(|memory| Some((memory, memory.file?)))
                {
                    Some((memory, file)) => self.send_file(file, memory, packets.places()),
                    None => Ok(0),
                }
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
        let mut room = [IoSlice::new(&[]); VECTORS_MAX];
        let vectors = packets.vectors(count, &mut room);
        taken(self.send_vectors(vectors.all()), count)
    }

    fn send_many(&mut self, packets: &Packets<'_>, count: usize) -> Result<usize, Refusal> {
        self.segment(0, count)?;
        let mut room = [IoSlice::new(&[]); VECTORS_MAX];
        let vectors = packets.vectors(count, &mut room);
        let mut controls: [SendAncillaryBuffer<'_, '_, '_>; MESSAGES_MAX] =
            array::from_fn(|_| SendAncillaryBuffer::default());
        let mut next = 0..;
        let mut messages = controls
            .each_mut()
            .map(|control| MMsgHdr::new(vectors.of(next.next().unwrap_or_default()), control));
        sendmmsg(&self.socket, &mut messages[..count], SendFlags::NOSIGNAL).map_err(|errno| {
            Refusal {
                errno,
                // The kernel says nothing of those behind the first, because it has not tried them.
                packets: 1,
            }
        })
    }

    fn send_one(&mut self, packets: &Packets<'_>) -> Result<usize, Refusal> {
        self.segment(0, 1)?;
        let mut room = [IoSlice::new(&[]); VECTORS_MAX];
        taken(self.send_vectors(packets.vectors(1, &mut room).all()), 1)
    }

    /// Sends one datagram of its own, in parts: to where the socket is connected to, or elsewhere.
    pub(crate) fn send_datagram(
        &mut self,
        parts: &[IoSlice<'_>],
        elsewhere: Option<SocketAddr>,
    ) -> Result<(), Refusal> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > self.segment_bytes.into() {
            // It would be cut.
            self.segment(0, 1)?;
        }
        let sent = match elsewhere {
            None => self.send_vectors(parts),
            Some(address) => {
                let mut control = SendAncillaryBuffer::default();
                let flags = SendFlags::NOSIGNAL;
                sendmsg_addr(&self.socket, &address, parts, &mut control, flags)
            }
        };
        taken(sent, 1).map(|_| ())
    }

    fn send_vectors(&self, vectors: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut control = SendAncillaryBuffer::default();
        sendmsg(&self.socket, vectors, &mut control, SendFlags::NOSIGNAL)
    }

    /// Lets the kernel cut what is sent next, `packets` of them, into datagrams of `bytes`.
    fn segment(&mut self, bytes: u16, packets: usize) -> Result<(), Refusal> {
        // One datagram that is no longer than a segment is not cut, so that short packets between long runs cost no call.
        let is_uncut =
            packets == 1 && bytes != 0 && (self.segment_bytes == 0 || bytes <= self.segment_bytes);
        if self.segment_bytes == bytes || is_uncut {
            return Ok(());
        }
        set_socket_option(&self.socket, SocketOption::UdpSegment, bytes.into()).map_err(
            |error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                Refusal { errno, packets }
            },
        )?;
        self.segment_bytes = bytes;
        Ok(())
    }
}

fn taken<T>(result: Result<T, Errno>, packets: usize) -> Result<usize, Refusal> {
    match result {
        Ok(_) => Ok(packets),
        Err(errno) => Err(Refusal { errno, packets }),
    }
}
