//! What to send, what a way of sending it can do, and what sending took.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use serde::{Deserialize, Serialize};

use super::case::Case;
use super::packets::{self, HEADER_BYTES};
use super::port;
use crate::error::BenchError;

/// Most bytes of a UDP datagram over IPv4 (RFC 768), which is what one send with segmentation may
/// have.
const RUN_BYTES_MAX: usize = 65_507;
/// Most segments of one send before Linux 6.9.
const RUN_PACKETS_MAX: usize = 64;

/// What to send where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'j> {
    pub(super) case: Case,
    pub(super) path: &'j str,
    pub(super) file: &'j File,
    pub(super) to: IpAddr,
}

impl Job<'_> {
    pub(super) fn destinations(&self) -> impl Iterator<Item = SocketAddr> {
        let to = self.to;
        (0..self.case.destinations).map(move |destination| SocketAddr::new(to, port(destination)))
    }

    pub(super) fn packet_bytes(&self) -> usize {
        usize::from(self.case.packet_bytes)
    }

    pub(super) fn payload_bytes(&self) -> usize {
        self.packet_bytes() - HEADER_BYTES
    }

    /// Of all packets built.
    pub(super) fn bytes(&self) -> usize {
        self.packet_bytes() * self.case.packets as usize
    }

    /// Packets that one send with segmentation takes.
    pub(super) fn run_packets(&self) -> usize {
        (RUN_BYTES_MAX / self.packet_bytes()).min(RUN_PACKETS_MAX)
    }

    /// A socket for each destination.
    pub(super) fn connect(&self) -> Result<Vec<UdpSocket>, BenchError> {
        let open = |destination| {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(destination)?;
            Ok(socket)
        };
        self.destinations().map(open).collect()
    }

    /// Lays out packets `first` and up, as many as `memory` holds.
    pub(super) fn lay_out(&self, first: usize, memory: &mut [u8]) -> Result<(), BenchError> {
        let first = u32::try_from(first).unwrap_or(u32::MAX);
        Ok(packets::lay_out(
            self.file,
            first,
            self.packet_bytes(),
            memory,
        )?)
    }
}

/// A way of sending all packets of a job to all its destinations.
pub(super) trait Method {
    /// Lays all packets out, or reads all media where headers are made later.
    fn prepare(&mut self) -> Result<(), BenchError>;

    /// Sends what was prepared.
    fn send_prepared(&mut self) -> Result<(), BenchError>;

    /// Reads, builds and sends.
    fn send_first(&mut self) -> Result<(), BenchError>;

    /// Which way it chose, where there is a choice.
    fn chosen(&mut self) -> Option<String> {
        None
    }
}

/// What sending took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sent {
    /// When it began, on the monotonic clock.
    pub(super) began_ns: u64,
    /// Time of a CPU, of all threads of the sender.
    pub(super) cpu_ns: u64,
    /// Of building packets beforehand.
    pub(super) layout: Option<Spent>,
    /// How the product sent it.
    pub(super) method: Option<String>,
}

/// Time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spent {
    pub(super) elapsed_ns: u64,
    pub(super) cpu_ns: u64,
}
