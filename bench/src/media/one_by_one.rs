//! `sendto` and `sendmmsg`, as they are commonly used: the network stack sees each packet by
//! itself.

use std::io::{IoSlice, Read, Seek};
use std::net::{SocketAddr, UdpSocket};

use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use super::job::{Job, Method};
use super::packets::{HEADER_BYTES, header};
use crate::error::BenchError;

/// Packets of one `sendmmsg`: more gains nothing.
const BATCH: usize = 64;

/// A `read` for each packet and a `sendto` for each destination: the paper's plain way.
#[derive(Debug)]
pub(super) struct Sendto<'j> {
    job: &'j Job<'j>,
    socket: UdpSocket,
    destinations: Vec<SocketAddr>,
    memory: Vec<u8>,
}

impl<'j> Sendto<'j> {
    pub(super) fn new(job: &'j Job<'j>) -> Result<Self, BenchError> {
        Ok(Self {
            job,
            socket: UdpSocket::bind("0.0.0.0:0")?,
            destinations: job.destinations().collect(),
            // Not zeroes, which would come without pages.
            memory: vec![1; job.bytes()],
        })
    }

    fn send(&self, packet: &[u8]) -> Result<(), BenchError> {
        for destination in &self.destinations {
            self.socket.send_to(packet, destination)?;
        }
        Ok(())
    }
}

impl Method for Sendto<'_> {
    fn prepare(&mut self) -> Result<(), BenchError> {
        self.job.lay_out(0, &mut self.memory)
    }

    fn send_prepared(&mut self) -> Result<(), BenchError> {
        let mut packets = self.memory.chunks(self.job.packet_bytes());
        packets.try_for_each(|packet| self.send(packet))
    }

    fn send_first(&mut self) -> Result<(), BenchError> {
        let mut file = self.job.file;
        file.rewind()?;
        let mut packet = vec![0; self.job.packet_bytes()];
        for number in 0..self.job.case.packets {
            file.read_exact(&mut packet[HEADER_BYTES..])?;
            packet[..HEADER_BYTES].copy_from_slice(&header(number, 0));
            self.send(&packet)?;
        }
        Ok(())
    }
}

/// Many packets for each call.
#[derive(Debug)]
pub(super) struct Sendmmsg<'j> {
    job: &'j Job<'j>,
    sockets: Vec<UdpSocket>,
    memory: Vec<u8>,
}

impl<'j> Sendmmsg<'j> {
    pub(super) fn new(job: &'j Job<'j>) -> Result<Self, BenchError> {
        Ok(Self {
            job,
            sockets: job.connect()?,
            memory: vec![1; job.bytes()],
        })
    }

    fn send(&self, packets: &[u8]) -> Result<(), BenchError> {
        let packets = packets.chunks(self.job.packet_bytes());
        let slices: Vec<_> = packets.map(|packet| [IoSlice::new(packet)]).collect();
        for socket in &self.sockets {
            let mut controls: Vec<_> = slices
                .iter()
                .map(|_| SendAncillaryBuffer::default())
                .collect();
            let messages = slices.iter().zip(&mut controls);
            let mut messages: Vec<_> = messages
                .map(|(slices, control)| MMsgHdr::new(slices, control))
                .collect();
            let mut sent = 0;
            while sent < messages.len() {
                sent += sendmmsg(socket, &mut messages[sent..], SendFlags::empty())?;
            }
        }
        Ok(())
    }
}

impl Method for Sendmmsg<'_> {
    fn prepare(&mut self) -> Result<(), BenchError> {
        self.job.lay_out(0, &mut self.memory)
    }

    fn send_prepared(&mut self) -> Result<(), BenchError> {
        let mut batches = self.memory.chunks(BATCH * self.job.packet_bytes());
        batches.try_for_each(|batch| self.send(batch))
    }

    fn send_first(&mut self) -> Result<(), BenchError> {
        let mut memory = vec![0; BATCH * self.job.packet_bytes()];
        let packets = self.job.case.packets as usize;
        for first in (0..packets).step_by(BATCH) {
            let count = BATCH.min(packets - first);
            let batch = &mut memory[..count * self.job.packet_bytes()];
            self.job.lay_out(first, batch)?;
            self.send(batch)?;
        }
        Ok(())
    }
}
