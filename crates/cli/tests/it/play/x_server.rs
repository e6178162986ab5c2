//! A display of the test's own (Xvfb), and the requests of the X11 protocol that look at a window
//! and use it. Of the protocol's own number; all little-endian.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::demo::world::signal;
use hythe_testing::eventually_or_show;

/// A display. It ends with this.
pub(crate) struct XServer {
    process: Child,
    number: u32,
}

impl XServer {
    /// Starts one on a number that it finds itself.
    pub(crate) fn start() -> Self {
        let mut process = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "640x480x24"])
            .args(["-nolisten", "tcp", "-noreset"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb runs: `make setup` installs it");
        let mut line = String::new();
        let output = process.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let number = line.trim().parse().expect("the number of a display");
        Self { process, number }
    }

    /// For `DISPLAY`.
    pub(crate) fn name(&self) -> String {
        format!(":{}", self.number)
    }

    pub(crate) fn signal(&self, number: Signal) {
        signal(self.process.id(), number);
    }

    /// A client of it.
    pub(crate) fn connect(&self) -> Client {
        let path = format!("/tmp/.X11-unix/X{}", self.number);
        let mut stream = UnixStream::connect(path).expect("the display");
        stream
            .write_all(b"l\0\x0b\0\0\0\0\0\0\0\0\0")
            .expect("sent");
        let mut start = [0; 8];
        stream.read_exact(&mut start).expect("an answer");
        assert_eq!(start[0], 1, "the display lets us in");
        let mut setup = vec![0; 4 * usize::from(u16_at(&start, 6))];
        stream.read_exact(&mut setup).expect("the rest");
        let vendor = usize::from(u16_at(&setup, 16)).next_multiple_of(4);
        let formats = 8 * usize::from(setup[21]);
        let root = u32_at(&setup, 32 + vendor + formats);
        Client {
            stream,
            root,
            time: 0,
        }
    }
}

impl Drop for XServer {
    fn drop(&mut self) {
        // In this order: one that was stopped does not end before it goes on.
        for number in [Signal::TERM, Signal::CONT] {
            if self.process.try_wait().is_ok_and(|status| status.is_none()) {
                self.signal(number);
            }
        }
        let _ = self.process.wait();
    }
}

/// A connection.
pub(crate) struct Client {
    stream: UnixStream,
    root: u32,
    /// Milliseconds of the events that are sent: what comes at once is a key that repeats.
    time: u32,
}

/// Keys of a keyboard as Xvfb has it.
pub(crate) const KEY_ESCAPE: u8 = 9;
pub(crate) const KEY_Q: u8 = 24;
pub(crate) const KEY_SPACE: u8 = 65;

impl Client {
    /// The window with this title, once there is one that is seen.
    pub(crate) fn window(&mut self, title: &str) -> u32 {
        let name = self.atom("WM_NAME");
        let mut found = None;
        let this = std::cell::RefCell::new((self, &mut found));
        eventually_or_show(
            "there is a window",
            || {
                let (client, found) = &mut *this.borrow_mut();
                let root = client.root;
                let tree = client.ask(&[&[15, 0, 2, 0], &root.to_le_bytes()[..]]);
                let children = tree[32..].chunks_exact(4).map(|id| u32_at(id, 0));
                let all: Vec<u32> = children.collect();
                **found = all.into_iter().find(|window| {
                    client.property(*window, name) == title.as_bytes() && client.is_seen(*window)
                });
                found.is_some()
            },
            || "none".to_owned(),
        );
        found.expect("just found")
    }

    fn is_seen(&mut self, window: u32) -> bool {
        let attributes = self.ask(&[&[3, 0, 2, 0], &window.to_le_bytes()[..]]);
        attributes[26] == 2
    }

    fn property(&mut self, window: u32, property: u32) -> Vec<u8> {
        let numbers = [window, property, 0, 0, 256];
        let reply = self.ask(&[&[20, 0, 6, 0], &words(&numbers)]);
        let bytes = u32_at(&reply, 16) as usize;
        reply[32..].iter().take(bytes).copied().collect()
    }

    fn atom(&mut self, name: &str) -> u32 {
        let padded = name.len().next_multiple_of(4);
        let mut text = name.as_bytes().to_vec();
        text.resize(padded, 0);
        let [low, high] = ((2 + padded / 4) as u16).to_le_bytes();
        let length = u32::try_from(name.len()).expect("short");
        let reply = self.ask(&[&[16, 0, low, high], &length.to_le_bytes()[..], &text]);
        u32_at(&reply, 8)
    }

    /// Width and height.
    pub(crate) fn size(&mut self, window: u32) -> (u16, u16) {
        let reply = self.ask(&[&[14, 0, 2, 0], &window.to_le_bytes()[..]]);
        (u16_at(&reply, 16), u16_at(&reply, 18))
    }

    pub(crate) fn resize(&mut self, window: u32, width: u32, height: u32) {
        let numbers = [window, 0b1100, width, height];
        self.send(&[&[12, 0, 5, 0], &words(&numbers)]);
    }

    /// Red, green and blue of a place in a window.
    pub(crate) fn colour(&mut self, window: u32, x: u16, y: u16) -> [u8; 3] {
        let place = [x.to_le_bytes(), y.to_le_bytes()].concat();
        let one = [1, 0, 1, 0];
        let reply = self.ask(&[
            &[73, 2, 5, 0],
            &window.to_le_bytes()[..],
            &place,
            &one,
            &[0xff; 4],
        ]);
        [reply[34], reply[33], reply[32]]
    }

    /// Presses a key in a window.
    pub(crate) fn press(&mut self, window: u32, key: u8) {
        let root = self.root;
        let mut event = [0; 32];
        event[..2].copy_from_slice(&[2, key]);
        self.time += 1000;
        event[4..20].copy_from_slice(&words(&[self.time, root, window, 0]));
        event[30] = 1;
        self.send_event(window, 1, event);
        event[0] = 3;
        self.send_event(window, 2, event);
    }

    /// What a window manager does when somebody closes a window.
    pub(crate) fn close(&mut self, window: u32) {
        let (protocols, delete) = (self.atom("WM_PROTOCOLS"), self.atom("WM_DELETE_WINDOW"));
        let mut event = [0; 32];
        event[..2].copy_from_slice(&[33, 32]);
        event[4..16].copy_from_slice(&words(&[window, protocols, delete]));
        self.send_event(window, 0, event);
    }

    fn send_event(&mut self, window: u32, mask: u32, event: [u8; 32]) {
        self.send(&[&[25, 0, 11, 0], &words(&[window, mask]), &event]);
    }

    fn send(&mut self, parts: &[&[u8]]) {
        self.stream.write_all(&parts.concat()).expect("sent");
    }

    /// Sends a request and waits for its reply, all of it. An error, such as that the window has
    /// just gone, is 64 zero bytes.
    fn ask(&mut self, parts: &[&[u8]]) -> Vec<u8> {
        self.send(parts);
        loop {
            let mut reply = vec![0; 32];
            self.stream.read_exact(&mut reply).expect("a reply");
            match reply[0] {
                0 => return vec![0; 64],
                1 => {
                    let more = 4 * u32_at(&reply, 4) as usize;
                    reply.resize(32 + more, 0);
                    self.stream.read_exact(&mut reply[32..]).expect("its rest");
                    return reply;
                }
                // An event.
                _ => {}
            }
        }
    }
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    u32::from_le_bytes(bytes)
}
