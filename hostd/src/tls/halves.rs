//! The two halves of an established connection.
//!
//! Sending: the parts are copied once, into the records that are sealed there and given to the
//! kernel. Receiving: the kernel copies into one buffer, records are opened there, and the caller
//! copies from there. Two threads use them; they share the socket and, when keys change, a lock.
//! Never knows what the bytes mean.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_cluster::{ConnectionReceiver, ConnectionSender, Received};
use rustls::crypto::cipher::OutboundChunks;

use super::record::{Opened, Opener, PLAIN_BYTES_MAX, RECORD_BYTES_MAX, Sealer};
use super::socket::{Socket, deadline};

/// Records that are given to the kernel at once. Few: the other side opens them while the next are
/// sealed here, and what is sealed is still in the nearest cache when the kernel copies it. With
/// eight a megabyte took nearly twice as long; one alone costs more calls than it gains.
const RECORDS_PER_CALL: usize = 2;

/// What is received at once, at most.
const BUFFER_BYTES: usize = 16 * RECORD_BYTES_MAX;

/// Sends.
#[derive(Debug)]
pub(super) struct TlsSender {
    socket: Arc<Socket>,
    sealer: Sealer,
    records: Vec<Vec<u8>>,
    /// Part of a record may have been sent, or this half has closed: nothing may follow.
    is_over: bool,
}

/// Receives.
#[derive(Debug)]
pub(super) struct TlsReceiver {
    socket: Arc<Socket>,
    opener: Opener,
    buffer: Vec<u8>,
    /// Of `buffer`: received, and not opened.
    sealed: Range<usize>,
    /// Of `buffer`: opened, and not consumed.
    plain: Range<usize>,
    has_ended: bool,
}

impl TlsSender {
    pub(super) fn new(socket: Arc<Socket>, sealer: Sealer) -> Self {
        Self {
            socket,
            sealer,
            records: Vec::with_capacity(RECORDS_PER_CALL + 1),
            is_over: false,
        }
    }

    fn send_records(&mut self, parts: &[&[u8]], deadline: Instant) -> io::Result<()> {
        let mut left = OutboundChunks::new(parts);
        while !left.is_empty() {
            self.records.clear();
            while !left.is_empty() && self.records.len() < RECORDS_PER_CALL {
                let (record, rest) = left.split_at(PLAIN_BYTES_MAX);
                self.sealer
                    .seal(record, &mut self.records)
                    .map_err(io::Error::other)?;
                left = rest;
            }
            self.socket.send_all(&self.records, deadline)?;
        }
        Ok(())
    }
}

impl ConnectionSender for TlsSender {
    fn send(&mut self, parts: &[&[u8]], timeout: Duration) -> io::Result<()> {
        if self.is_over {
            return Err(ErrorKind::NotConnected.into());
        }
        let sent = self.send_records(parts, deadline(timeout));
        if sent.is_err() {
            self.is_over = true;
            self.socket.close();
        }
        sent
    }

    fn close(&mut self) {
        if !self.is_over
            && let Ok(record) = self.sealer.close_notify()
        {
            // Where the socket is full, the other side finds that the connection broke.
            let _ = self.socket.send_all(&[record], Instant::now());
        }
        self.is_over = true;
        self.socket.close();
    }
}

impl Drop for TlsSender {
    fn drop(&mut self) {
        self.close();
    }
}

impl TlsReceiver {
    /// `received` are bytes that came after the handshake.
    pub(super) fn new(socket: Arc<Socket>, opener: Opener, received: &[u8]) -> Self {
        let mut buffer = vec![0; BUFFER_BYTES.max(received.len())];
        buffer[..received.len()].copy_from_slice(received);
        Self {
            socket,
            opener,
            buffer,
            sealed: 0..received.len(),
            plain: 0..0,
            has_ended: false,
        }
    }

    /// Opens records until one carries data. Says whether one did before `deadline`, or before
    /// the end of the stream.
    fn open_next(&mut self, deadline: Instant) -> io::Result<bool> {
        while self.plain.is_empty() {
            let start = self.sealed.start;
            let opened = self.opener.open(&mut self.buffer[self.sealed.clone()]);
            match opened.map_err(tls_error)? {
                Opened::Data { plain, end } => {
                    self.plain = start + plain.start..start + plain.end;
                    self.sealed.start += end;
                }
                Opened::Nothing { end } => self.sealed.start += end,
                Opened::Closed => {
                    self.has_ended = true;
                    return Ok(false);
                }
                Opened::Incomplete(missing) => {
                    if !self.receive_more(missing, deadline)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Says whether any bytes came.
    fn receive_more(&mut self, missing: usize, deadline: Instant) -> io::Result<bool> {
        if self.sealed.end + missing > self.buffer.len() || self.sealed.is_empty() {
            self.buffer.copy_within(self.sealed.clone(), 0);
            self.sealed = 0..self.sealed.len();
        }
        let into = &mut self.buffer[self.sealed.end..];
        match self.socket.receive(into, deadline) {
            Ok(0) if self.socket.is_closed() => {
                self.has_ended = true;
                Ok(false)
            }
            // Whoever closes says so first: anything else may be somebody on the way.
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(received) => {
                self.sealed.end += received;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl ConnectionReceiver for TlsReceiver {
    fn receive(&mut self, timeout: Duration) -> io::Result<Received<'_>> {
        if self.has_ended {
            return Ok(Received::Closed);
        }
        match self.open_next(deadline(timeout))? {
            true => Ok(Received::Bytes(&self.buffer[self.plain.clone()])),
            false if self.has_ended => Ok(Received::Closed),
            false => Ok(Received::Nothing),
        }
    }

    fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.plain.len(), "more consumed than received");
        self.plain.start += bytes;
    }
}

impl Drop for TlsReceiver {
    fn drop(&mut self) {
        self.socket.close();
    }
}

fn tls_error(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
