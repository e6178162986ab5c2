//! TLS 1.3 over a socket that never blocks: one end of a sealed connection.
//!
//! The handshake happens within reads and sends; what is sent before its end goes behind it.
//! Payload is sealed from its slot into the records that are sent, and opened records are copied
//! to where they are wanted: one pass each way besides the kernel's.
//!
//! Used by [`super::pipe`]. Never sends payload in clear text.

use std::io::{self, BufRead as _, ErrorKind, IoSlice, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

/// Bytes of one read from the socket, and of records that wait for it: enough for a system call to
/// cost little beside the cipher, few enough for the processor's cache.
const BUFFER_BYTES: usize = 64 << 10;

/// One end.
#[derive(Debug)]
pub(super) struct Seal {
    tls: Connection,
    /// Bytes from the socket; those from `start` to `end` are not processed. Empty until the first
    /// read.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The last read took all that the socket had.
    is_drained: bool,
    /// Said by the next read, behind bytes that came before.
    failure: Option<io::Error>,
}

impl Seal {
    /// The publisher's end.
    pub(super) fn client(config: &Arc<ClientConfig>, peer: IpAddr) -> io::Result<Self> {
        // It is not told and not checked: the key is.
        let name = ServerName::IpAddress(peer.into());
        let tls = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        Ok(Self::new(tls.into()))
    }

    /// The subscriber's end.
    pub(super) fn server(config: &Arc<ServerConfig>) -> io::Result<Self> {
        let tls = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Ok(Self::new(tls.into()))
    }

    fn new(mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(BUFFER_BYTES));
        Self {
            tls,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            is_drained: false,
            failure: None,
        }
    }

    /// Are there records that the socket has not taken?
    pub(super) fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Sends records that were sealed before. False: the socket's buffer is full.
    pub(super) fn flush(&mut self, socket: &OwnedFd) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Sender(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Seals and sends the first bytes of the pieces. Returns how many: fewer than there are when
    /// the socket's buffer is full.
    pub(super) fn send(
        &mut self,
        socket: &OwnedFd,
        mut pieces: &mut [IoSlice<'_>],
    ) -> io::Result<usize> {
        let mut sealed = 0;
        while self.flush(socket)? {
            let bytes = self.tls.writer().write_vectored(pieces)?;
            if bytes == 0 {
                break;
            }
            sealed += bytes;
            IoSlice::advance_slices(&mut pieces, bytes);
        }
        Ok(sealed)
    }

    /// Gives the next bytes that have arrived to `take`, with their places, up to `most`. Returns
    /// how many; fewer than `most`: no more have arrived.
    pub(super) fn read(
        &mut self,
        socket: &OwnedFd,
        most: usize,
        mut take: impl FnMut(usize, &[u8]),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while taken < most {
            match self.tls.reader().fill_buf() {
                Ok([]) if taken > 0 => break,
                Ok([]) => return Err(closed()),
                Ok(bytes) => {
                    let count = bytes.len().min(most - taken);
                    take(taken, &bytes[..count]);
                    self.tls.reader().consume(count);
                    taken += count;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            match self.open_next(socket) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if taken > 0 => {
                    self.failure = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Processes what has arrived next. False: nothing has.
    fn open_next(&mut self, socket: &OwnedFd) -> io::Result<bool> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        if self.start == self.end {
            if std::mem::take(&mut self.is_drained) {
                return Ok(false);
            }
            self.buffer.resize(BUFFER_BYTES, 0);
            match recv(socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(closed()),
                Ok((bytes, _)) => {
                    (self.start, self.end) = (0, bytes);
                    self.is_drained = bytes < BUFFER_BYTES;
                }
                Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        let mut rest = &self.buffer[self.start..self.end];
        self.start += self.tls.read_tls(&mut rest)?;
        let processed = self.tls.process_new_packets();
        // Of the handshake, or why there is none. A socket that takes nothing more may still have
        // what the other end sent before it left.
        let _ = self.flush(socket);
        if let Err(error) = processed {
            self.failure = Some(io::Error::new(ErrorKind::InvalidData, error));
        }
        Ok(true)
    }
}

/// The socket, for records.
struct Sender<'a>(&'a OwnedFd);

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        send(self.0, pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends the first bytes of the pieces. Returns how many.
pub(super) fn send(socket: &OwnedFd, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let mut control = SendAncillaryBuffer::default();
    Ok(sendmsg(socket, pieces, &mut control, flags)?)
}

pub(super) fn closed() -> io::Error {
    io::Error::new(
        ErrorKind::UnexpectedEof,
        "the other end has closed the connection",
    )
}
