//! `hythe top`: on a terminal of the test's own, as text, as a document, and where there is no
//! terminal.

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use support::{Root, Running, eventually};

/// A terminal: the side that a person sits at, and the side that a program has.
struct Terminal {
    person: File,
    program: File,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn new() -> Self {
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

    fn start(&self, root: &Root, arguments: &[&str]) -> Running {
        let mut command = root.command(arguments);
        let end = || Stdio::from(self.program.try_clone().expect("own"));
        command.env("TERM", "xterm").stdin(end()).stdout(end());
        Running::new(command)
    }

    fn types(&mut self, keys: &str) {
        self.person.write_all(keys.as_bytes()).expect("own");
    }

    fn shows(&self, text: &str) -> bool {
        let seen = self.seen.lock().expect("whole");
        String::from_utf8_lossy(&seen).contains(text)
    }

    /// Does it show keys as they are typed, line by line? A program that draws takes that away.
    fn is_plain(&self) -> bool {
        let modes = tcgetattr(&self.program).expect("own").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }
}

#[test]
fn it_draws_takes_keys_and_gives_the_terminal_back() {
    let root = Root::new();
    let subscriber = root.start(&["sub", "frames"]);
    eventually("it subscribes", || root.subscribers("frames") == 1);
    let mut terminal = Terminal::new();
    // What is blank is not drawn: words, not lines, can be looked for.
    assert!(terminal.is_plain());
    let top = terminal.start(&root, &["top", "--interval", "0.05"]);
    eventually("the channel is drawn", || {
        terminal.shows("frames") && terminal.shows("sorted")
    });
    assert!(terminal.shows("\x1b[?1049h") && !terminal.is_plain());
    terminal.types("sp");
    eventually("it pauses", || terminal.shows("PAUSED"));
    terminal.types("q");
    let ended = top.end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    eventually("the screen before is back", || {
        terminal.shows("\x1b[?1049l")
    });
    assert!(terminal.is_plain(), "keys are shown again");
    subscriber.interrupt();
}

#[test]
fn signals_give_the_terminal_back_too() {
    let root = Root::new();
    root.ok(&["pool", "create"]);
    for signal in [Signal::TERM, Signal::INT] {
        let terminal = Terminal::new();
        let top = terminal.start(&root, &["top"]);
        eventually("it draws", || {
            terminal.shows("CHANNEL") && !terminal.is_plain()
        });
        top.signal(signal);
        top.end().succeeded();
        assert!(terminal.is_plain());
        eventually("the screen before is back", || {
            terminal.shows("\x1b[?1049l")
        });
    }
}

#[test]
fn without_a_terminal_it_prints_or_refuses() {
    let root = Root::new();
    root.run(&["top", "--once"])
        .failed(1, &["no pool", "default"]);
    let subscriber = root.start(&["sub", "frames"]);
    eventually("it subscribes", || root.subscribers("frames") == 1);
    root.run(&["top"])
        .failed(2, &["terminal", "hythe top --once", "hythe list --json"]);
    let text = root.ok(&["top", "--once", "--interval", "0.01"]);
    for word in ["frames", "hythe sub", "MSG/S", "QUEUED", "pool default"] {
        assert!(text.contains(word), "no {word} in {text}");
    }
    let document = root.json(&["top", "--interval", "0.01"]);
    assert_eq!(document["channels"][0]["name"], "frames");
    assert_eq!(document["channels"][0]["subscribers"], 1);
    assert_eq!(document["participants"][0]["name"], "hythe sub");
    assert_eq!(document["slots"]["free"], document["slots"]["total"]);
    subscriber.interrupt();
}
