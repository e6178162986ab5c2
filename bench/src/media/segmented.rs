//! `UDP_SEGMENT`: the network stack sees a run of packets as one, and cuts it at the end of its
//! way.
//!
//! Written by hand for one case, without the checks, the fall-backs and the care for pages still on
//! their way that the product has: what its duties cost shows beside these.

use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;

use hythe_memory::{Access, Mapped, TrustPeers};
use hythe_sys::socket_option::{SocketOption, set_socket_option};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create, sendfile};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::case::Mode;
use super::job::{Job, Method};
use super::packets::header;
use crate::error::BenchError;

const PAGE_BYTES: usize = 4096;
/// The memory is this process's own.
const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();

fn connect(job: &Job<'_>) -> Result<Vec<UdpSocket>, BenchError> {
    let sockets = job.connect()?;
    for socket in &sockets {
        let segment = i32::from(job.case.packet_bytes);
        set_socket_option(socket, SocketOption::UdpSegment, segment)?;
    }
    Ok(sockets)
}

/// Where runs begin in what is built, and what they have.
fn runs(job: &Job<'_>) -> impl Iterator<Item = std::ops::Range<usize>> {
    let (all, run) = (job.bytes(), job.run_packets() * job.packet_bytes());
    (0..all).step_by(run).map(move |at| at..all.min(at + run))
}

/// From ordinary memory.
#[derive(Debug)]
pub(super) struct Gso<'j> {
    job: &'j Job<'j>,
    sockets: Vec<UdpSocket>,
    memory: Vec<u8>,
}

impl<'j> Gso<'j> {
    pub(super) fn new(job: &'j Job<'j>) -> Result<Self, BenchError> {
        Ok(Self {
            job,
            sockets: connect(job)?,
            memory: vec![1; job.bytes()],
        })
    }

    fn send(&self, run: &[u8]) -> Result<(), BenchError> {
        for socket in &self.sockets {
            socket.send(run)?;
        }
        Ok(())
    }

    /// Media from where it is, with headers of each destination's own.
    fn send_with_headers(&self) -> Result<(), BenchError> {
        let run = self.job.run_packets();
        let media = self.memory.chunks(run * self.job.payload_bytes());
        for (first, media) in (0..).step_by(run).zip(media) {
            for (socket, source) in self.sockets.iter().zip(0..) {
                let numbers = first..first + run as u32;
                let headers: Vec<_> = numbers.map(|number| header(number, source)).collect();
                let pieces = headers.iter().zip(media.chunks(self.job.payload_bytes()));
                let pieces: Vec<IoSlice<'_>> = pieces
                    .flat_map(|(header, media)| [IoSlice::new(header), IoSlice::new(media)])
                    .collect();
                let mut control = SendAncillaryBuffer::default();
                sendmsg(socket, &pieces, &mut control, SendFlags::empty())?;
            }
        }
        Ok(())
    }
}

impl Method for Gso<'_> {
    fn prepare(&mut self) -> Result<(), BenchError> {
        if self.job.case.mode == Mode::Headers {
            let media = self.job.payload_bytes() * self.job.case.packets as usize;
            self.memory.truncate(media);
            let read = rustix::io::pread(self.job.file, &mut self.memory[..], 0)?;
            debug_assert_eq!(read, media, "a file in memory is read whole");
            return Ok(());
        }
        self.job.lay_out(0, &mut self.memory)
    }

    fn send_prepared(&mut self) -> Result<(), BenchError> {
        if self.job.case.mode == Mode::Headers {
            return self.send_with_headers();
        }
        runs(self.job).try_for_each(|run| self.send(&self.memory[run]))
    }

    fn send_first(&mut self) -> Result<(), BenchError> {
        let packet_bytes = self.job.packet_bytes();
        let mut memory = vec![0; self.job.run_packets() * packet_bytes];
        for run in runs(self.job) {
            let packets = &mut memory[..run.len()];
            self.job.lay_out(run.start / packet_bytes, packets)?;
            self.send(packets)?;
        }
        Ok(())
    }
}

/// From a file in memory, whose pages go out themselves. They are written once: no page that is on
/// its way is written again.
#[derive(Debug)]
pub(super) struct SendfileGso<'j> {
    job: &'j Job<'j>,
    sockets: Vec<UdpSocket>,
    file: OwnedFd,
    mapped: Mapped,
}

impl<'j> SendfileGso<'j> {
    pub(super) fn new(job: &'j Job<'j>) -> Result<Self, BenchError> {
        let file = memfd_create("packets", MemfdFlags::CLOEXEC)?;
        let bytes = job.bytes().next_multiple_of(PAGE_BYTES);
        ftruncate(&file, bytes as u64)?;
        let mapped = Mapped::file(&file, 0, bytes, Access::Write)?;
        mapped.trusted_mut(TRUST, 0, bytes).fill(1);
        Ok(Self {
            job,
            sockets: connect(job)?,
            file,
            mapped,
        })
    }

    fn lay_out(&self, run: &std::ops::Range<usize>) -> Result<(), BenchError> {
        let memory = self.mapped.trusted_mut(TRUST, run.start, run.len());
        self.job
            .lay_out(run.start / self.job.packet_bytes(), memory)
    }

    fn send(&self, run: &std::ops::Range<usize>) -> Result<(), BenchError> {
        for socket in &self.sockets {
            let mut offset = run.start as u64;
            // A datagram goes whole or not at all.
            sendfile(socket, &self.file, Some(&mut offset), run.len())?;
        }
        Ok(())
    }
}

impl Method for SendfileGso<'_> {
    fn prepare(&mut self) -> Result<(), BenchError> {
        self.lay_out(&(0..self.job.bytes()))
    }

    fn send_prepared(&mut self) -> Result<(), BenchError> {
        runs(self.job).try_for_each(|run| self.send(&run))
    }

    fn send_first(&mut self) -> Result<(), BenchError> {
        runs(self.job).try_for_each(|run| {
            self.lay_out(&run)?;
            self.send(&run)
        })
    }
}
