//! The floor of datagrams: one there, one back, no acknowledgement, no retransmission.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use super::case::{Case, Wait};
use crate::error::BenchError;
use crate::ipc::end::End;
use crate::lookout::{BoundedWait, Lookout, NAP};
use crate::payload::{fill, is_message};

/// One end. An empty datagram says that nothing comes any more.
#[derive(Debug)]
pub(super) struct UdpEnd {
    socket: UdpSocket,
    /// Who asked last.
    other: Option<SocketAddr>,
    buffer: Vec<u8>,
    lookout: Lookout,
}

impl UdpEnd {
    /// Listens where the system finds a port.
    pub(super) fn open(
        own: IpAddr,
        other: Option<SocketAddr>,
        (case, size): (Case, usize),
        lookout: Lookout,
    ) -> Result<Self, BenchError> {
        let socket = UdpSocket::bind((own, 0))?;
        match case.wait {
            Wait::Poll => socket.set_nonblocking(true)?,
            Wait::Block => socket.set_read_timeout(Some(NAP))?,
        }
        Ok(Self {
            socket,
            other,
            buffer: vec![0; size],
            lookout,
        })
    }

    pub(super) fn port(&self) -> Result<u16, BenchError> {
        Ok(self.socket.local_addr()?.port())
    }

    fn put(&self, bytes: &[u8]) -> Result<(), BenchError> {
        let other = self
            .other
            .ok_or_else(|| BenchError::PeerLost("nobody has asked yet".to_owned()))?;
        self.socket.send_to(bytes, other)?;
        Ok(())
    }
}

impl End for UdpEnd {
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        fill(&mut self.buffer, number);
        self.put(&self.buffer)
    }

    fn receive(&mut self, number: u64) -> Result<bool, BenchError> {
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        loop {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((0, _)) => return Ok(false),
                Ok((bytes, from)) => {
                    self.other = Some(from);
                    return match bytes == self.buffer.len() && is_message(&self.buffer, number) {
                        true => Ok(true),
                        false => Err(BenchError::Damaged { number }),
                    };
                }
                // Of a socket with a time-out, too: its time is over.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    match self.socket.read_timeout()? {
                        None => bounded_wait.spin()?,
                        Some(_) => bounded_wait.look_up()?,
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.put(&[])
    }
}
