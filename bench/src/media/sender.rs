//! The sending process: sends a case once, by the method that it names, and measures itself.
//!
//! A method is made before the time begins: sockets are open and memory has its pages, as in a server that has run for a while.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use super::case::{Case, Content, Mode, System};
use super::hythe::Hythe;
use super::message::{Sent, Spent};
use super::one_by_one::{Sendmmsg, Sendto};
use super::packets::{self, HEADER_BYTES};
use super::program;
use super::segmented::{Gso, SendfileGso};
use super::session::Session;
use super::{monotonic_ns, nanoseconds, port};
use crate::error::BenchError;

/// Most bytes of a UDP datagram over IPv4 (RFC 768), which is what one send with segmentation may have.
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

    /// Of all packets laid out.
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

    /// Reads, lays out and sends.
    fn send_first(&mut self) -> Result<(), BenchError>;

    /// Which way it chose, where there is a choice.
    fn chosen(&mut self) -> Option<String> {
        None
    }
}

/// Sends once.
pub(super) fn run(job: &Job<'_>) -> Result<Sent, BenchError> {
    let mode = job.case.mode;
    let mut method: Box<dyn Method + '_> = match (job.case.system, mode) {
        (System::Ffmpeg | System::Gstreamer, _) => return program::run(job),
        (System::Sendto, Mode::Prepared | Mode::FirstSend) => Box::new(Sendto::new(job)?),
        (System::Sendmmsg, Mode::Prepared | Mode::FirstSend) => Box::new(Sendmmsg::new(job)?),
        (System::Hythe, Mode::FirstSend) if job.case.content == Content::TransportStream => {
            Box::new(Session::new(job)?)
        }
        (System::Hythe, _) => Box::new(Hythe::new(job)?),
        (System::Gso, _) => Box::new(Gso::new(job)?),
        (System::SendfileGso, Mode::Prepared | Mode::FirstSend) => Box::new(SendfileGso::new(job)?),
        _ => {
            let why = format!("there is no {}", job.case);
            return Err(BenchError::WrongUse(why));
        }
    };
    let mut layout = None;
    if mode != Mode::FirstSend {
        let spent = measure(|| method.prepare())?;
        // Without headers, they are not laid out.
        layout = (mode == Mode::Prepared).then_some(spent);
    }
    let began_ns = monotonic_ns();
    let spent = measure(|| match mode {
        Mode::FirstSend => method.send_first(),
        Mode::Prepared | Mode::Headers => method.send_prepared(),
    })?;
    Ok(Sent {
        began_ns,
        cpu_ns: spent.cpu_ns,
        layout,
        method: method.chosen(),
    })
}

fn measure(work: impl FnOnce() -> Result<(), BenchError>) -> Result<Spent, BenchError> {
    // Of all threads: a method may have some.
    let cpu_ns = || nanoseconds(clock_gettime(ClockId::ProcessCPUTime));
    let (began, cpu) = (Instant::now(), cpu_ns());
    work()?;
    Ok(Spent {
        cpu_ns: cpu_ns() - cpu,
        elapsed_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
    })
}
