//! A terminal of a test's own, for what a person types and sees.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::{Root, Running};

/// A terminal: the side that a person sits at, and the side that a program has.
#[derive(Debug)]
pub(crate) struct Terminal {
    person: File,
    program: File,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&person).expect("own");
        unlockpt(&person).expect("own");
        let name = ptsname(&person, Vec::new()).expect("own");
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let program = rustix::fs::open(name, flags, Mode::empty()).expect("own");
        let size = Winsize {
            ws_row: 30,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&program, size).expect("own");
        let person = File::from(person);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, kept) = (person.try_clone().expect("own"), Arc::clone(&seen));
        // Ends when the terminal goes.
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(some @ 1..) = screen.read(&mut piece) {
                kept.lock().expect("whole").extend(&piece[..some]);
            }
        });
        Self {
            person,
            program: program.into(),
            seen,
        }
    }

    pub(crate) fn start(&self, root: &Root, arguments: &[&str]) -> Running {
        let mut command = root.command(arguments);
        let end = || Stdio::from(self.program.try_clone().expect("own"));
        command.env("TERM", "xterm").stdin(end()).stdout(end());
        Running::new(command)
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.person.write_all(keys.as_bytes()).expect("own");
    }

    pub(crate) fn shows(&self, text: &str) -> bool {
        let seen = self.seen.lock().expect("whole");
        String::from_utf8_lossy(&seen).contains(text)
    }

    /// Does it show keys as they are typed, line by line? A program that draws takes that away.
    pub(crate) fn is_plain(&self) -> bool {
        let modes = tcgetattr(&self.program).expect("own").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }
}
