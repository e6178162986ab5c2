//! Messages over UDP: each as many datagrams as it takes, sent and received in batches where the
//! kernel can (GSO, GRO), straight from and into the message.
//!
//! No acknowledgement and no retransmission: the link between the two hosts loses nothing, and the
//! other side's socket holds a whole message. What is missing or out of order ends the run.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use hythe_sys::socket_option::{SocketOption, set_socket_option};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};

use super::case::{Case, Wait};
use crate::error::BenchError;
use crate::ipc::end::End;
use crate::lookout::{BoundedWait, Lookout, NAP};
use crate::payload::{fill, is_message};

/// Of one datagram: what a packet of 1,500 bytes carries over IPv4.
const DATAGRAM_BYTES: usize = 1472;
/// In front of each part of a message: which message, and which part.
const HEADER_BYTES: usize = 8;
const PART_BYTES: usize = DATAGRAM_BYTES - HEADER_BYTES;
/// Datagrams of one call: less than 64 KiB.
const PARTS_PER_CALL: usize = 44;
/// The longest message, with what the kernel reckons for each packet.
const SOCKET_BYTES: usize = 32 << 20;

/// One end. An empty datagram says that nothing comes any more.
#[derive(Debug)]
pub(super) struct DatagramsEnd {
    socket: UdpSocket,
    wait: Wait,
    /// It knows where its messages go.
    is_connected: bool,
    message: Vec<u8>,
    lookout: Lookout,
}

impl DatagramsEnd {
    /// Listens where the system finds a port.
    pub(super) fn open(
        own: IpAddr,
        other: Option<SocketAddr>,
        (case, size): (Case, usize),
        lookout: Lookout,
    ) -> Result<Self, BenchError> {
        let socket = UdpSocket::bind((own, 0))?;
        set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES)?;
        set_socket_option(&socket, SocketOption::UdpSegment, DATAGRAM_BYTES as i32)?;
        set_socket_option(&socket, SocketOption::UdpGro, 1)?;
        match case.wait {
            Wait::Poll => socket.set_nonblocking(true)?,
            Wait::Block => socket.set_read_timeout(Some(NAP))?,
        }
        if let Some(other) = other {
            socket.connect(other)?;
        }
        Ok(Self {
            socket,
            wait: case.wait,
            is_connected: other.is_some(),
            message: vec![0; size],
            lookout,
        })
    }

    pub(super) fn port(&self) -> Result<u16, BenchError> {
        Ok(self.socket.local_addr()?.port())
    }

    /// From then on, messages go to who sent the first one.
    fn connect_to_sender(&mut self) -> Result<(), BenchError> {
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        while !self.is_connected {
            match self.socket.peek_from(&mut []) {
                Ok((_, from)) => {
                    self.socket.connect(from)?;
                    self.is_connected = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => match self.wait {
                    Wait::Poll => bounded_wait.spin()?,
                    Wait::Block => bounded_wait.look_up()?,
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// What there is of the message from `first` on; 0 bytes: it was an empty datagram.
    fn receive_some(&mut self, number: u64, first: usize) -> Result<usize, BenchError> {
        let mut headers = [[0; HEADER_BYTES]; PARTS_PER_CALL];
        let parts = self.message.chunks_mut(PART_BYTES).skip(first);
        let mut slices: Vec<IoSliceMut<'_>> = headers
            .iter_mut()
            .zip(parts)
            .flat_map(|(header, part)| [IoSliceMut::new(header), IoSliceMut::new(part)])
            .collect();
        let mut control = RecvAncillaryBuffer::default();
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        let bytes = loop {
            match recvmsg(&self.socket, &mut slices, &mut control, RecvFlags::empty()) {
                Ok(received) => break received.bytes,
                // Of a socket with a time-out, too: its time is over.
                Err(Errno::AGAIN) if self.wait == Wait::Poll => bounded_wait.spin()?,
                Err(Errno::AGAIN | Errno::INTR) => bounded_wait.look_up()?,
                Err(errno) => return Err(errno.into()),
            }
        };
        let received = bytes.div_ceil(DATAGRAM_BYTES);
        let expected = (first..).map(|part| header(number, part));
        let mut found = headers[..received.min(PARTS_PER_CALL)].iter().zip(expected);
        match found.all(|(found, expected)| *found == expected) {
            true => Ok(bytes),
            false => Err(BenchError::Damaged { number }),
        }
    }
}

/// Which part of which message.
fn header(number: u64, part: usize) -> [u8; HEADER_BYTES] {
    // Never so many that the lower half does not tell them apart.
    let words = [number as u32, part as u32];
    let mut bytes = [0; HEADER_BYTES];
    let (of_message, of_part) = bytes.split_at_mut(4);
    of_message.copy_from_slice(&words[0].to_le_bytes());
    of_part.copy_from_slice(&words[1].to_le_bytes());
    bytes
}

impl End for DatagramsEnd {
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        fill(&mut self.message, number);
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        for (call, parts) in self.message.chunks(PARTS_PER_CALL * PART_BYTES).enumerate() {
            let first = call * PARTS_PER_CALL;
            let headers: [_; PARTS_PER_CALL] =
                std::array::from_fn(|part| header(number, first + part));
            let slices: Vec<IoSlice<'_>> = headers
                .iter()
                .zip(parts.chunks(PART_BYTES))
                .flat_map(|(header, part)| [IoSlice::new(header), IoSlice::new(part)])
                .collect();
            let mut control = SendAncillaryBuffer::default();
            loop {
                match sendmsg(&self.socket, &slices, &mut control, SendFlags::empty()) {
                    Ok(_) => break,
                    Err(Errno::AGAIN) => bounded_wait.spin()?,
                    Err(Errno::INTR) => bounded_wait.look_up()?,
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self, number: u64) -> Result<bool, BenchError> {
        self.connect_to_sender()?;
        let parts = self.message.len().div_ceil(PART_BYTES);
        let mut first = 0;
        while first < parts {
            match self.receive_some(number, first)? {
                0 => return Ok(false),
                bytes => first += bytes.div_ceil(DATAGRAM_BYTES),
            }
        }
        match is_message(&self.message, number) {
            true => Ok(true),
            false => Err(BenchError::Damaged { number }),
        }
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.socket.send(&[])?;
        Ok(())
    }
}
