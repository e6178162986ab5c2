//! Standard error as a terminal that is drawn on, and never waited for.
//!
//! A terminal that nobody reads, or that was stopped (Ctrl-S), takes nothing after some kilobytes.
//! So the terminal is opened once more, for writing without waiting: the flag would else be shared
//! with every program that has the same terminal. What it has no space for is left out; the next
//! drawing makes the line anew. Used for progress, never for text that has to arrive.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, PoisonError};

use indicatif::TermLike;
use rustix::fs::OFlags;
use rustix::termios::tcgetwinsize;

/// Standard error of this process.
const STANDARD_ERROR: &str = "/proc/self/fd/2";
/// Where the terminal does not say.
const COLUMNS: u16 = 80;

/// A terminal that takes what it has space for.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: File,
    /// Drawn since the last flush.
    drawn: Mutex<String>,
}

impl Screen {
    /// `None`: standard error is no terminal, or cannot be opened again.
    pub(crate) fn open() -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
        let terminal = OpenOptions::new()
            .write(true)
            .custom_flags(flags.cast_signed())
            .open(STANDARD_ERROR);
        Some(Self {
            terminal: terminal.ok()?,
            drawn: Mutex::default(),
        })
    }

    fn draw(&self, parts: &[&str]) -> io::Result<()> {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        drawn.extend(parts.iter().copied());
        Ok(())
    }

    /// Moves the cursor (ECMA-48, 8.3.18 to 8.3.22).
    fn go(&self, cells: usize, direction: char) -> io::Result<()> {
        match cells {
            0 => Ok(()),
            _ => self.draw(&[&format!("\x1b[{cells}{direction}")]),
        }
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        match tcgetwinsize(&self.terminal) {
            Ok(size) if size.ws_col > 0 => size.ws_col,
            _ => COLUMNS,
        }
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.go(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.go(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.go(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.go(n, 'D')
    }

    fn write_line(&self, s: &str) -> io::Result<()> {
        self.draw(&[s, "\n"])
    }

    fn write_str(&self, s: &str) -> io::Result<()> {
        self.draw(&[s])
    }

    fn clear_line(&self) -> io::Result<()> {
        self.draw(&["\r\x1b[2K"])
    }

    fn flush(&self) -> io::Result<()> {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let text = std::mem::take(&mut *drawn);
        // What is not taken is drawn anew soon.
        (&self.terminal).write(text.as_bytes()).map(drop)
    }
}
