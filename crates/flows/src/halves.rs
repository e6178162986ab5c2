//! The half of a flow that its transport makes: by TCP, or by packets over UDP and `AF_XDP`.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use hythe_node::{RegionIndex, Sample};
use hythe_wire::WireStatistics;
use rustix::event::PollFlags;

use crate::queue::Entry;
use crate::receiving::{Receiving, Until};
use crate::sending::Sending;
use crate::socket::{Buffer, FlowSocket};
use crate::tcp::{TcpReceiving, TcpSending};

/// The publisher's half.
#[derive(Debug)]
pub(crate) enum SendingHalf {
    Packets(Box<PacketSending>),
    Tcp(TcpSending),
}

/// A half, and the buffer for its acknowledgements.
#[derive(Debug)]
pub(crate) struct PacketSending {
    pub(crate) half: Sending,
    buffer: Buffer,
    /// The same socket, to be polled.
    socket: Arc<OwnedFd>,
}

/// The subscriber's half.
#[derive(Debug)]
pub(crate) enum ReceivingHalf {
    Packets(Box<PacketReceiving>),
    Tcp(Box<TcpReceiving>),
}

/// A half, and the buffer for its datagrams.
#[derive(Debug)]
pub(crate) struct PacketReceiving {
    pub(crate) half: Receiving,
    buffer: Buffer,
}

impl SendingHalf {
    pub(crate) fn by_packets(half: Sending) -> std::io::Result<Self> {
        let socket = half.socket().try_clone_to_owned()?;
        Ok(Self::Packets(Box::new(PacketSending {
            half,
            buffer: Buffer::for_acknowledgements(),
            socket: Arc::new(socket),
        })))
    }

    pub(crate) fn tcp_mut(&mut self) -> Option<&mut TcpSending> {
        match self {
            Self::Packets(_) => None,
            Self::Tcp(half) => Some(half),
        }
    }

    pub(crate) fn push(&mut self, now_ns: u64, sample: Sample) -> Result<(), Sample> {
        match self {
            Self::Packets(packets) => packets.half.push(now_ns, sample),
            Self::Tcp(half) => half.push(sample),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Packets(packets) => packets.half.is_full(),
            Self::Tcp(half) => half.is_full(),
        }
    }

    pub(crate) fn unaccepted(&self) -> usize {
        match self {
            Self::Packets(packets) => packets.half.unaccepted(),
            Self::Tcp(half) => half.unaccepted(),
        }
    }

    /// May the process leave without a loss?
    pub(crate) fn is_delivered(&self) -> bool {
        match self {
            Self::Packets(packets) => packets.half.unaccepted() == 0,
            Self::Tcp(half) => half.is_delivered(),
        }
    }

    pub(crate) fn say_end(&mut self, now_ns: u64) {
        match self {
            Self::Packets(packets) => packets.half.say_end(now_ns),
            Self::Tcp(half) => half.say_end(now_ns),
        }
    }

    pub(crate) fn release(&mut self) {
        match self {
            Self::Packets(packets) => packets.half.release(),
            Self::Tcp(half) => half.release(),
        }
    }

    pub(crate) fn free_returned(&mut self) {
        if let Self::Packets(packets) = self {
            packets.half.free_returned();
        }
    }

    pub(crate) fn flush(&mut self, now_ns: u64) {
        match self {
            Self::Packets(packets) => packets.half.flush(now_ns),
            Self::Tcp(half) => half.flush(now_ns),
        }
    }

    pub(crate) fn turn(&mut self, now_ns: u64) -> Result<(), String> {
        match self {
            Self::Packets(packets) => {
                let PacketSending { half, buffer, .. } = &mut **packets;
                half.turn(now_ns, buffer).map_err(|fault| fault.to_string())
            }
            Self::Tcp(half) => half.turn(now_ns),
        }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Self::Packets(packets) => packets.half.has_unsent(),
            Self::Tcp(half) => half.has_unsent(),
        }
    }

    /// The socket, and what to poll it for while something is unsent.
    pub(crate) fn awaited(&self) -> Option<(Arc<OwnedFd>, PollFlags)> {
        match self {
            Self::Packets(packets) => Some((Arc::clone(&packets.socket), PollFlags::IN)),
            Self::Tcp(half) => half.awaited(),
        }
    }

    pub(crate) fn next_wake(&self) -> Option<u64> {
        match self {
            Self::Packets(packets) => packets.half.next_wake(),
            Self::Tcp(_) => None,
        }
    }

    pub(crate) fn has_wire(&self) -> bool {
        match self {
            Self::Packets(packets) => packets.half.has_wire(),
            Self::Tcp(_) => false,
        }
    }

    pub(crate) fn card(&self) -> Option<RegionIndex> {
        match self {
            Self::Packets(packets) => packets.half.card(),
            Self::Tcp(_) => None,
        }
    }

    pub(crate) fn wire_statistics(&self) -> WireStatistics {
        match self {
            Self::Packets(packets) => packets.half.wire_statistics(),
            Self::Tcp(_) => WireStatistics::default(),
        }
    }

    /// The socket for packets.
    pub(crate) fn packet_socket(&mut self) -> Option<&mut FlowSocket> {
        match self {
            Self::Packets(packets) => Some(packets.half.socket_mut()),
            Self::Tcp(_) => None,
        }
    }
}

impl ReceivingHalf {
    pub(crate) fn by_packets(half: Receiving) -> Self {
        let buffer = Buffer::for_batches();
        Self::Packets(Box::new(PacketReceiving { half, buffer }))
    }

    pub(crate) fn tcp(&self) -> Option<&TcpReceiving> {
        match self {
            Self::Packets(_) => None,
            Self::Tcp(half) => Some(half),
        }
    }

    pub(crate) fn tcp_mut(&mut self) -> Option<&mut TcpReceiving> {
        match self {
            Self::Packets(_) => None,
            Self::Tcp(half) => Some(half),
        }
    }

    pub(crate) fn take(&mut self, now_ns: u64) -> Option<Entry> {
        match self {
            Self::Packets(packets) => packets.half.take(now_ns),
            Self::Tcp(half) => half.take(now_ns),
        }
    }

    pub(crate) fn drain(&mut self, now_ns: u64) {
        match self {
            Self::Packets(packets) => packets.half.drain(now_ns),
            Self::Tcp(half) => half.drain(now_ns),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Packets(packets) => packets.half.is_empty(),
            Self::Tcp(half) => half.is_empty(),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Packets(packets) => packets.half.has_ended(),
            Self::Tcp(half) => half.has_ended(),
        }
    }

    pub(crate) fn has_more(&self) -> bool {
        match self {
            Self::Packets(packets) => packets.half.has_more(),
            Self::Tcp(half) => half.has_more(),
        }
    }

    pub(crate) fn turn(&mut self, now_ns: u64, until: Until) -> Result<(), String> {
        match self {
            Self::Packets(packets) => {
                let PacketReceiving { half, buffer } = &mut **packets;
                let turned = half.turn(now_ns, buffer, until);
                turned.map_err(|fault| fault.to_string())
            }
            Self::Tcp(half) => half.turn(now_ns, until),
        }
    }

    /// Behind the end of the flow: is there nothing that may still be received? What was sent just
    /// before may be on its way until the grace is over.
    pub(crate) fn is_exhausted(&self, is_grace_over: bool) -> bool {
        match self {
            Self::Packets(_) => true,
            Self::Tcp(half) => {
                half.is_disconnected() || is_grace_over && !half.has_more() && !half.lacks_slot()
            }
        }
    }

    pub(crate) fn next_wake(&self) -> Option<u64> {
        match self {
            Self::Packets(packets) => packets.half.next_wake(),
            Self::Tcp(half) => half.next_wake(),
        }
    }

    pub(crate) fn has_wire(&self) -> bool {
        match self {
            Self::Packets(packets) => packets.half.has_wire(),
            Self::Tcp(_) => false,
        }
    }

    /// The socket for packets.
    pub(crate) fn packet_socket(&mut self) -> Option<&mut FlowSocket> {
        match self {
            Self::Packets(packets) => Some(packets.half.socket_mut()),
            Self::Tcp(_) => None,
        }
    }
}
