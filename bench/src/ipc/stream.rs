//! The copying baselines: bytes through a Unix stream socket or a pair of pipes.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::case::Case;
use super::end::End;
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout};
use crate::payload::{fill, is_message};

/// One end. A blocking call ends when the other process does, and that one is killed when its time
/// is over.
#[derive(Debug)]
pub(crate) struct StreamEnd {
    input: OwnedFd,
    output: Option<OwnedFd>,
    buffer: Vec<u8>,
    lookout: Lookout,
}

impl StreamEnd {
    pub(crate) fn new(
        input: OwnedFd,
        output: OwnedFd,
        case: Case,
        size: usize,
        lookout: Lookout,
    ) -> Result<Self, BenchError> {
        if case.spins() {
            for end in [&input, &output] {
                rustix::io::ioctl_fionbio(end, true)?;
            }
        }
        Ok(Self {
            input,
            output: Some(output),
            buffer: vec![0; size],
            lookout,
        })
    }
}

impl End for StreamEnd {
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        fill(&mut self.buffer, number);
        let Some(output) = &self.output else {
            return Err(BenchError::Dropped { number });
        };
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        let mut sent = 0;
        while sent < self.buffer.len() {
            match rustix::io::write(output, &self.buffer[sent..]) {
                Ok(bytes) => sent += bytes,
                Err(Errno::INTR) => bounded_wait.look_up()?,
                Err(Errno::AGAIN) => bounded_wait.spin()?,
                Err(error) => return Err(BenchError::PeerLost(error.to_string())),
            }
        }
        Ok(())
    }

    fn receive(&mut self, number: u64) -> Result<bool, BenchError> {
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        let mut received = 0;
        while received < self.buffer.len() {
            match rustix::io::read(&self.input, &mut self.buffer[received..]) {
                Ok(0) if received == 0 => return Ok(false),
                Ok(0) => return Err(BenchError::PeerLost("it stopped in a message".to_owned())),
                Ok(bytes) => received += bytes,
                Err(Errno::INTR) => bounded_wait.look_up()?,
                Err(Errno::AGAIN) => bounded_wait.spin()?,
                Err(error) => return Err(BenchError::PeerLost(error.to_string())),
            }
        }
        if is_message(&self.buffer, number) {
            return Ok(true);
        }
        Err(BenchError::Damaged { number })
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        let Some(output) = self.output.take() else {
            return Ok(());
        };
        // A pipe is closed by dropping it; a socket is open as our input, too.
        match rustix::net::shutdown(&output, rustix::net::Shutdown::Write) {
            Ok(()) | Err(Errno::NOTSOCK) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
