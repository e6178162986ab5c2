//! Passes the bytes of a process on, both ways, until either end closes or the session is over.
//!
//! On the connection they are chunks: a length, 4 bytes, little endian, and as many bytes; a length
//! of 0 is the end of that direction. So a pipe ends and its connection does not: when both
//! directions have ended, the next pipe may have it. Never waits for a process or a host without a
//! bound.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::super::session::Session;
use crate::Connection;
use crate::carrier::{ConnectionReceiver, ConnectionSender, Received};

/// How often a thread looks whether it is over.
const NAP: Duration = Duration::from_millis(100);
/// What is passed on at once.
const BYTES: usize = 16 << 10;
/// The longest chunk that is taken.
const CHUNK_BYTES_MAX: u32 = 64 << 10;
/// The length of a chunk.
const LENGTH_BYTES: usize = 4;
/// The end of a direction.
const END: [u8; LENGTH_BYTES] = [0; LENGTH_BYTES];
/// How long the other host may take to end its direction when this one has ended, and this side to
/// send what is left.
const ENDING: Duration = Duration::from_secs(2);
/// An end that takes nothing holds the other up, and not the agent: only the session's end, or
/// theirs, ends the wait.
const WITHOUT_BOUND: Duration = Duration::from_secs(365 * 24 * 3600);

/// Passes on until it is over; a second thread has one of the directions. Returns the connection if
/// both have come to their ends, and it carries nothing any more.
pub(super) fn run(
    session: &Arc<Session>,
    connection: Connection,
    local: UnixStream,
) -> Option<Connection> {
    let is_over = Arc::new(AtomicBool::new(false));
    let Connection {
        peer,
        about,
        path,
        sender,
        mut receiver,
    } = connection;
    let out = local.try_clone().ok()?;
    local.set_read_timeout(Some(NAP)).ok()?;
    local.set_write_timeout(Some(NAP)).ok()?;
    let (give_back, given_back) = channel();
    let (over, of) = (Arc::clone(&is_over), Arc::clone(session));
    let sending = hythe_sys::wait::spawn("hythe-host-tasks", move || {
        to_host(sender, &out, &over, || of.is_over(), &give_back);
    });
    let sending = sending.ok()?;
    let has_ended = to_process(&mut *receiver, &local, &is_over, || session.is_over());
    is_over.store(true, Ordering::Release);
    // Wakes the other one: what it reads has come to its end.
    let _ = local.shutdown(Shutdown::Both);
    let sender = match has_ended {
        true => given_back.recv_timeout(ENDING).ok(),
        false => None,
    };
    let Some(sender) = sender else {
        // Closes the connection: what the other one sends goes nowhere.
        drop(receiver);
        hythe_sys::wait::for_end_of(sending);
        return None;
    };
    hythe_sys::wait::for_end_of(sending);
    Some(Connection {
        peer,
        about,
        path,
        sender,
        receiver,
    })
}

/// Gives the sender back if the end of this direction is sent.
fn to_host(
    mut sender: Box<dyn ConnectionSender>,
    mut from: &UnixStream,
    is_over: &AtomicBool,
    is_session_over: impl Fn() -> bool,
    give_back: &Sender<Box<dyn ConnectionSender>>,
) {
    let mut bytes = vec![0; BYTES];
    while !is_session_over() {
        match from.read(&mut bytes) {
            Ok(read) if read > 0 => {
                // Fits: a few KiB.
                let length = (read as u32).to_le_bytes();
                if sender
                    .send(&[&length, &bytes[..read]], WITHOUT_BOUND)
                    .is_err()
                {
                    break;
                }
            }
            Err(error) if is_pause(&error) && !is_over.load(Ordering::Acquire) => {}
            // It has closed, or is not heard any more.
            _ => {
                let is_sent = sender.send(&[&END], ENDING).is_ok();
                is_over.store(true, Ordering::Release);
                if is_sent {
                    // Nobody takes it where the other direction did not end.
                    let _ = give_back.send(sender);
                    return;
                }
                break;
            }
        }
    }
    is_over.store(true, Ordering::Release);
    sender.close();
}

/// True: the other host has ended its direction. What comes when the process is gone goes nowhere.
fn to_process(
    receiver: &mut dyn ConnectionReceiver,
    mut to: &UnixStream,
    is_over: &AtomicBool,
    is_session_over: impl Fn() -> bool,
) -> bool {
    let mut chunks = Chunks::default();
    let mut gone_since = None;
    while !is_session_over() {
        if is_over.load(Ordering::Acquire) {
            let since: Instant = *gone_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= ENDING {
                return false;
            }
        }
        let used = match receiver.receive(NAP) {
            Ok(Received::Bytes(bytes)) => match chunks.next(bytes) {
                Step::Length(used) => used,
                Step::Payload(payload) if gone_since.is_some() => chunks.used(payload.len()),
                Step::Payload(payload) => match to.write(payload) {
                    Ok(written) => chunks.used(written),
                    Err(error) if is_pause(&error) => 0,
                    Err(_) => {
                        is_over.store(true, Ordering::Release);
                        0
                    }
                },
                Step::End(used) => {
                    receiver.consume(used);
                    return true;
                }
                Step::TooLong => return false,
            },
            Ok(Received::Nothing) => 0,
            Ok(Received::Closed) | Err(_) => return false,
        };
        if used > 0 {
            receiver.consume(used);
        }
    }
    false
}

/// Where in the chunks a direction is.
#[derive(Debug, Default)]
struct Chunks {
    length: [u8; LENGTH_BYTES],
    /// Of `length`.
    filled: usize,
    /// Of the payload that follows.
    left: usize,
}

/// What bytes of a connection are.
#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    /// So many of them belong to a length.
    Length(usize),
    /// These are the process's; [`Chunks::used`] says how many it took.
    Payload(&'a [u8]),
    /// With so many of them the direction has ended.
    End(usize),
    /// A chunk that nobody may send.
    TooLong,
}

impl Chunks {
    fn next<'a>(&mut self, bytes: &'a [u8]) -> Step<'a> {
        if self.left > 0 {
            return Step::Payload(&bytes[..bytes.len().min(self.left)]);
        }
        let used = bytes.len().min(LENGTH_BYTES - self.filled);
        self.length[self.filled..self.filled + used].copy_from_slice(&bytes[..used]);
        self.filled += used;
        if self.filled < LENGTH_BYTES {
            return Step::Length(used);
        }
        self.filled = 0;
        match u32::from_le_bytes(self.length) {
            0 => Step::End(used),
            length if length > CHUNK_BYTES_MAX => Step::TooLong,
            length => {
                self.left = length as usize;
                Step::Length(used)
            }
        }
    }

    fn used(&mut self, bytes: usize) -> usize {
        self.left -= bytes;
        bytes
    }
}

fn is_pause(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::TimedOut
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_the_same_wherever_a_connection_cuts_them() {
        let stream = [
            &[3, 0, 0, 0][..],
            b"abc",
            &[1, 0, 0, 0],
            b"d",
            &END,
            b"next",
        ]
        .concat();
        for cut in 1..=stream.len() {
            let (mut chunks, mut payload) = (Chunks::default(), Vec::new());
            let mut left = &stream[..];
            loop {
                match chunks.next(&left[..cut.min(left.len())]) {
                    Step::Length(used) => left = &left[used..],
                    Step::Payload(part) => {
                        payload.extend_from_slice(part);
                        let used = chunks.used(part.len());
                        left = &left[used..];
                    }
                    Step::End(used) => {
                        left = &left[used..];
                        break;
                    }
                    Step::TooLong => panic!("none is"),
                }
            }
            assert_eq!((&payload[..], left), (&b"abcd"[..], &b"next"[..]), "{cut}");
        }
    }

    #[test]
    fn chunk_that_is_too_long_is_none() {
        let most = CHUNK_BYTES_MAX.to_le_bytes();
        assert_eq!(Chunks::default().next(&most), Step::Length(LENGTH_BYTES));
        for length in [CHUNK_BYTES_MAX + 1, u32::MAX] {
            let length = length.to_le_bytes();
            assert_eq!(Chunks::default().next(&length), Step::TooLong);
        }
    }
}
