//! The bytes that a source reads: a file, standard input or anything else that can be read, through
//! one window of bounded size.
//!
//! Sources ask for bytes with [`Input::fill`], look at them in place, and pass over them with
//! [`Input::consume`]. Nothing is ever read twice, so a pipe is as good as a file. The window grows
//! to twice what was asked for at most, never to what a file claims.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use hythe_sys::regular_file::open_regular;

use crate::MediaError;

/// Read at once, where there is free capacity: a pipe's default capacity.
const READ_BYTES: usize = 64 * 1024;

/// What a source reads from.
pub struct Input {
    reader: Box<dyn Read + Send>,
    name: PathBuf,
    buffer: Vec<u8>,
    /// Of the window, in `buffer`.
    start: usize,
    end: usize,
    /// Offset of the window's first byte in the stream.
    position: u64,
    is_ended: bool,
}

impl fmt::Debug for Input {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Input")
            .field("name", &self.name)
            .field("position", &self.position)
            .field("window", &(self.end - self.start))
            .finish_non_exhaustive()
    }
}

impl Input {
    /// What `reader` yields; errors call it `name`.
    #[must_use]
    pub fn new(name: impl Into<PathBuf>, reader: impl Read + Send + 'static) -> Self {
        Self {
            reader: Box::new(reader),
            name: name.into(),
            buffer: Vec::new(),
            start: 0,
            end: 0,
            position: 0,
            is_ended: false,
        }
    }

    /// The regular file at `path`, or standard input where that is `-`: what a pipe or a device
    /// brings is read from there.
    ///
    /// # Errors
    ///
    /// As [`open_regular`].
    pub fn open(path: &Path) -> Result<Self, MediaError> {
        if path == Path::new("-") {
            return Ok(Self::new("standard input", io::stdin()));
        }
        let file = open_regular(path).map_err(|source| MediaError::File {
            what: "read",
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::new(path, file))
    }

    /// Reads until the window has `wanted` bytes or the input ends, and returns the whole window,
    /// which may have more.
    ///
    /// # Errors
    ///
    /// [`MediaError::File`].
    pub fn fill(&mut self, wanted: usize) -> Result<&[u8], MediaError> {
        while self.end - self.start < wanted && !self.is_ended {
            self.make_capacity(wanted);
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_ended = true,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(MediaError::File {
                        what: "read",
                        path: self.name.clone(),
                        source,
                    });
                }
            }
        }
        Ok(self.window())
    }

    /// Moves the window to the front if `wanted` bytes do not fit behind its start.
    fn make_capacity(&mut self, wanted: usize) {
        if self.start + wanted <= self.buffer.len() && self.end < self.buffer.len() {
            return;
        }
        // Whoever looks far ahead has much in the window: moving it shall cost less than reading
        // did.
        let moved = self.end - self.start;
        let capacity = wanted.max(2 * moved).max(READ_BYTES);
        if self.buffer.len() < capacity {
            let mut larger = vec![0; capacity];
            larger[..self.end - self.start].copy_from_slice(self.window());
            self.buffer = larger;
        } else {
            self.buffer.copy_within(self.start..self.end, 0);
        }
        self.end -= self.start;
        self.start = 0;
    }

    /// What was read and not passed over yet.
    #[must_use]
    pub fn window(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Passes over the first `bytes` of the window (over all of it, if it has fewer).
    pub fn consume(&mut self, bytes: usize) {
        let bytes = bytes.min(self.end - self.start);
        self.start += bytes;
        self.position += bytes as u64;
    }

    /// Takes `bytes` out of the window, `at` bytes behind its beginning; as many as there are, if
    /// it has fewer. Positions are those of what follows then.
    pub(super) fn cut(&mut self, at: usize, bytes: usize) {
        let at = (self.start + at).min(self.end);
        let bytes = bytes.min(self.end - at);
        self.buffer.copy_within(at + bytes..self.end, at);
        self.end -= bytes;
        self.position += bytes as u64;
    }

    /// Passes over `bytes`, reading as far as it takes; returns over how many, fewer at the end.
    ///
    /// # Errors
    ///
    /// [`MediaError::File`].
    pub fn skip(&mut self, bytes: u64) -> Result<u64, MediaError> {
        let mut left = bytes;
        while left > 0 {
            let here = self.fill(1)?.len() as u64;
            if here == 0 {
                break;
            }
            let step = here.min(left);
            self.consume(step as usize);
            left -= step;
        }
        Ok(bytes - left)
    }

    /// Offset in the stream of the first byte of the window.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Has everything been read? The window may still hold the last of it.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// What errors call it.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.display().to_string()
    }

    /// An error about the first byte of the window.
    #[must_use]
    pub fn error(&self, reason: impl Into<String>) -> MediaError {
        self.error_at(self.position, reason)
    }

    /// An error about the byte at `position`.
    #[must_use]
    pub fn error_at(&self, position: u64, reason: impl Into<String>) -> MediaError {
        MediaError::Input {
            input: self.name(),
            position,
            reason: reason.into(),
        }
    }
}

/// The window first, then what is behind it.
impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let window = self.window();
        if window.is_empty() {
            let bytes = self.reader.read(into)?;
            self.position += bytes as u64;
            return Ok(bytes);
        }
        let bytes = window.len().min(into.len());
        into[..bytes].copy_from_slice(&window[..bytes]);
        self.consume(bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields its bytes three at a time.
    struct Trickle(Vec<u8>);

    impl Read for Trickle {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(3).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            Ok(count)
        }
    }

    #[test]
    fn window_moves_and_ends() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut input = Input::new("test", Trickle(bytes.clone()));
        assert!(input.fill(10).unwrap().starts_with(&bytes[..10]));
        input.consume(7);
        assert_eq!(input.position(), 7);
        assert!(input.fill(100).unwrap().starts_with(&bytes[7..107]));
        assert_eq!(input.skip(93).unwrap(), 93);
        assert_eq!(input.fill(1000).unwrap(), &bytes[100..]);
        assert!(input.is_ended());
        input.consume(1000);
        assert_eq!((input.position(), input.window().len()), (256, 0));
        assert_eq!(input.skip(5).unwrap(), 0);
    }

    #[test]
    fn what_is_cut_out_is_gone() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut input = Input::new("test", Trickle(bytes.clone()));
        input.fill(20).unwrap();
        input.cut(10, 5);
        let expected = [&bytes[..10], &bytes[15..35]].concat();
        assert!(input.fill(30).unwrap().starts_with(&expected));
        input.consume(10);
        assert_eq!(input.position(), 15);
        let (there, length) = (input.window().to_vec(), input.window().len());
        input.cut(length, 1);
        assert_eq!(input.window(), there);
        input.cut(3, 1000);
        assert_eq!(input.window(), &there[..3]);
    }

    #[test]
    fn who_looks_far_ahead_is_moved_seldom() {
        let mut input = Input::new("zeros", io::repeat(0));
        for ahead in 1..4 * READ_BYTES {
            input.fill(ahead).unwrap();
        }
        assert!(input.buffer.len() <= 2 * 4 * READ_BYTES);
    }

    #[test]
    fn large_skip_needs_no_memory() {
        let mut input = Input::new("zeros", io::repeat(0));
        assert_eq!(input.skip(10_000_000).unwrap(), 10_000_000);
        assert!(input.buffer.len() <= READ_BYTES);
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let error = Input::open(Path::new("/nonexistent/file")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/file"), "{error}");
        let error = Input::open(Path::new("/")).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("cannot read /: it is a directory"), "{said}");
    }
}
