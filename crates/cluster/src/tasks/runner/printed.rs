//! What a task prints on one of its streams.

use std::os::fd::OwnedFd;

use super::lines::Lines;

/// One of the two streams of a task that are passed on.
#[derive(Debug, Default)]
pub(super) struct Printed {
    /// Closed: all has been read.
    pub(super) from: Option<OwnedFd>,
    pub(super) lines: Lines,
}

impl Printed {
    pub(super) fn new(from: OwnedFd) -> Self {
        Self {
            from: Some(from),
            lines: Lines::default(),
        }
    }

    /// What there is to read: lines, or all of it, and how many bytes were read. `None`: nothing
    /// for now, or nothing any more.
    pub(super) fn read(&mut self, bytes: &mut [u8], in_lines: bool) -> Option<(Vec<u8>, usize)> {
        let from = self.from.as_ref()?;
        match rustix::io::read(from, &mut *bytes) {
            Ok(0) => {
                self.from = None;
                Some((self.lines.finish(in_lines), 0))
            }
            Ok(read) => Some(match in_lines {
                true => (self.lines.push(&bytes[..read]), read),
                false => (bytes[..read].to_vec(), read),
            }),
            Err(_) => None,
        }
    }
}
