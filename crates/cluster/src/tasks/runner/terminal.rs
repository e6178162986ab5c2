//! Pseudoterminals as standard output of tasks: a C program then passes on each line when it is
//! whole, and what it printed is not lost with it when it aborts.
//!
//! They are raw: each byte that a task writes is read as it is. None becomes the terminal that
//! controls a task, which has the one of `hythe run`, if any. Never reads or writes one.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Result;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use serde::{Deserialize, Serialize};

/// Rows and columns of a terminal; 0: not known, and programs take what they like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WindowSize {
    rows: u16,
    columns: u16,
}

impl WindowSize {
    /// That of what may be a terminal.
    pub(super) fn of(terminal: impl AsFd) -> Self {
        tcgetwinsize(terminal).map_or_else(
            |_| Self::default(),
            |size| Self {
                rows: size.ws_row,
                columns: size.ws_col,
            },
        )
    }

    /// Makes it that of a pseudoterminal; anything else stays as it is.
    pub(super) fn set(self, terminal: impl AsFd) {
        let size = Winsize {
            ws_row: self.rows,
            ws_col: self.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // Programs that ask for it do without.
        let _ = tcsetwinsize(terminal, size);
    }
}

/// One of that size: the end that is read, and the end of the task.
pub(super) fn open(size: WindowSize) -> Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let read_end = openpt(flags)?;
    unlockpt(&read_end)?;
    let task_end = ioctl_tiocgptpeer(&read_end, flags)?;
    let mut attributes = tcgetattr(&task_end)?;
    attributes.make_raw();
    tcsetattr(&task_end, OptionalActions::Now, &attributes)?;
    size.set(&read_end);
    Ok((read_end, task_end))
}
