//! Standard input of the task of rank 0, which comes from the runner.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write as _};
use std::process::ChildStdin;

use super::super::part_protocol::link::PartLink;
use super::super::part_protocol::message::{FromPart, INPUT_BYTES_MAX};

/// What comes from the runner for the task of rank 0.
#[derive(Debug, Default)]
pub(super) struct Input {
    pub(super) to: Option<ChildStdin>,
    pub(super) pending: VecDeque<u8>,
    is_ended: bool,
}

impl Input {
    /// Takes in what the runner sends; nothing: its end. False: that is more than it may send.
    pub(super) fn take_in(&mut self, bytes: Vec<u8>) -> bool {
        let fits = self.pending.len() + bytes.len() <= INPUT_BYTES_MAX;
        if fits {
            self.is_ended |= bytes.is_empty();
            self.pending.extend(bytes);
        }
        fits
    }

    /// Writes what the task takes, and tells the runner how much that was.
    pub(super) fn feed(&mut self, link: &mut PartLink) -> io::Result<()> {
        let mut taken = 0;
        let mut result = Ok(());
        while !self.pending.is_empty() {
            let written = match &mut self.to {
                Some(to) => to.write(self.pending.as_slices().0),
                // It reads no more, or never did.
                None => Ok(self.pending.len()),
            };
            match written {
                Ok(written) => {
                    self.pending.drain(..written);
                    taken += written;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if self.pending.is_empty() && self.is_ended {
            self.to = None;
        }
        if taken > 0 {
            // Fits: at most what the runner sends ahead.
            link.say(&FromPart::InputTaken(taken as u32));
        }
        result
    }
}
