//! What a task prints on one of its streams.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::lines::Lines;

/// One of the two streams of a task that are passed on.
#[derive(Debug, Default)]
pub(super) struct Printed {
    /// Closed: all has been read.
    pub(super) from: Option<OwnedFd>,
    lines: Lines,
    /// The last line has no end yet.
    is_inside_line: bool,
}

impl Printed {
    pub(super) fn new(from: OwnedFd) -> Self {
        Self {
            from: Some(from),
            ..Self::default()
        }
    }

    /// What there is to read: lines, or all of it, and how many bytes were read. `None`: nothing
    /// for now, or nothing any more.
    pub(super) fn read(&mut self, bytes: &mut [u8], in_lines: bool) -> Option<(Vec<u8>, usize)> {
        let (printed, read) = self.read_uncut(bytes, in_lines)?;
        match in_lines {
            true => Some((self.lines.push(&printed), read)),
            false => Some((printed, read)),
        }
    }

    /// The same as it comes. Where others print, too, a last line without end gets one.
    pub(super) fn read_uncut(
        &mut self,
        bytes: &mut [u8],
        ends_last_line: bool,
    ) -> Option<(Vec<u8>, usize)> {
        let from = self.from.as_ref()?;
        match rustix::io::read(from, &mut *bytes) {
            // A pseudoterminal that nobody holds open any more is an error, once all was read.
            Ok(0) | Err(Errno::IO) => {
                self.from = None;
                let is_cut = ends_last_line && self.is_inside_line;
                Some((if is_cut { b"\n".to_vec() } else { Vec::new() }, 0))
            }
            Ok(read) => {
                let printed = bytes[..read].to_vec();
                self.is_inside_line = !printed.ends_with(b"\n");
                Some((printed, read))
            }
            Err(_) => None,
        }
    }
}
