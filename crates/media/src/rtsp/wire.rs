//! The TCP socket of one client: what could not be sent yet, and how it comes to its end.
//!
//! The server owns it. It never blocks. Between calls it holds at most [`UNSENT_BYTES`] and one
//! answer more.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use rustix::event::PollFlags;

/// As long as so much is unsent, no further request is answered.
pub(super) const UNSENT_BYTES: usize = 16 << 10;
/// How long a client may go on talking after its last answer. Closing at once would make the kernel
/// throw the answer away.
const DRAIN_NS: u64 = 2_000_000_000;

#[derive(Debug)]
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    unsent: Vec<u8>,
    stage: Stage,
    /// When the stage began, or something was last sent.
    since_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Requests come and are answered.
    Open,
    /// The client sends nothing more; what it sent is still answered.
    HalfClosed,
    /// The last answer is on its way; what comes is thrown away.
    Ending,
    /// The last answer is sent.
    Draining,
    Closed,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, now_ns: u64) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            unsent: Vec::new(),
            stage: Stage::Open,
            since_ns: now_ns,
        })
    }

    /// What to wait for. `has_capacity`: more requests can be kept.
    pub(super) fn interest(&self, has_capacity: bool) -> PollFlags {
        let reads = match self.stage {
            Stage::Open => has_capacity && self.may_answer(),
            Stage::Ending | Stage::Draining => true,
            Stage::HalfClosed | Stage::Closed => false,
        };
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, reads);
        interest.set(PollFlags::OUT, !self.unsent.is_empty());
        interest
    }

    /// Is there free capacity for one more answer?
    pub(super) fn may_answer(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::HalfClosed) && self.unsent.len() < UNSENT_BYTES
    }

    /// Reads what there is, at most `buffer`; nothing once the client is heard out, or will not be
    /// heard any more.
    pub(super) fn read<'b>(&mut self, buffer: &'b mut [u8]) -> &'b [u8] {
        if buffer.is_empty() || matches!(self.stage, Stage::HalfClosed | Stage::Closed) {
            return &[];
        }
        match self.stream.read(buffer) {
            Ok(0) if self.stage == Stage::Open => self.stage = Stage::HalfClosed,
            Ok(0) => self.stage = Stage::Closed,
            Ok(count) if self.stage == Stage::Open => return &buffer[..count],
            Ok(_) => {}
            Err(error) if passes(&error) => {}
            Err(_) => self.stage = Stage::Closed,
        }
        &[]
    }

    /// Takes an answer to send.
    pub(super) fn answer(&mut self, bytes: &[u8], is_last: bool, now_ns: u64) {
        if self.unsent.is_empty() {
            self.since_ns = now_ns;
        }
        self.unsent.extend_from_slice(bytes);
        if is_last {
            self.stage = Stage::Ending;
        }
    }

    /// Sends what can be sent, and ends our side behind the last answer.
    pub(super) fn flush(&mut self, now_ns: u64) {
        while !self.unsent.is_empty() && self.stage != Stage::Closed {
            match self.stream.write(&self.unsent) {
                Ok(count) => {
                    self.unsent.drain(..count);
                    self.since_ns = now_ns;
                }
                Err(error) if passes(&error) => return,
                Err(_) => self.stage = Stage::Closed,
            }
        }
        if self.stage == Stage::Ending {
            let ended = self.stream.shutdown(Shutdown::Write);
            self.stage = ended.map_or(Stage::Closed, |()| Stage::Draining);
            self.since_ns = now_ns;
        }
    }

    /// All that came is answered: that is the end of a client which sends nothing more, once it has
    /// the answers.
    pub(super) fn settle(&mut self) {
        if self.stage == Stage::HalfClosed && self.unsent.is_empty() {
            self.stage = Stage::Closed;
        }
    }

    /// There is nothing more to expect of the socket.
    pub(super) fn close(&mut self) {
        self.stage = Stage::Closed;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// Has the client stopped reading for that long?
    pub(super) fn is_stalled(&self, stall_ns: u64, now_ns: u64) -> bool {
        !self.unsent.is_empty() && now_ns.saturating_sub(self.since_ns) >= stall_ns
    }

    /// Is the time up in which the client could have closed?
    pub(super) fn is_drained(&self, now_ns: u64) -> bool {
        self.stage == Stage::Draining && now_ns.saturating_sub(self.since_ns) >= DRAIN_NS
    }
}

/// Nothing to read or no free capacity to write just now.
fn passes(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}
