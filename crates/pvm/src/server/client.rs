//! A connection of the server: what has come, what is to go.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::code::Code;
use crate::machine::{Outgoing, Request};
use crate::tid::Tid;
use crate::wire;

pub(super) const READ_BYTES: usize = 64 << 10;
/// In a row.
const READS_MAX: usize = 16;
/// What waits to be taken by one that does not; then it is let go.
const WAITING_MAX: usize = 512 << 20;
/// The longest name of a host.
const NAME_BYTES_MAX: usize = 255;
/// The longest that one on another host says before it is a task of the machine.
const FIRST_BYTES_MAX: usize = 64 << 10;
/// While so much waits to be taken, nothing more is answered: who asks waits for the answer, and
/// who does not could have the same long message sent again and again.
const ANSWERED_AHEAD: usize = 16 << 20;
/// Descriptors that came and were not asked about.
const DESCRIPTORS_MAX: usize = 4;

/// Where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum From {
    /// On the first host.
    Here,
    /// Elsewhere: the agent says first where that is.
    Unsaid,
    /// On the host of this name.
    Host(String),
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) task: Option<Tid>,
    pub(super) descriptors: VecDeque<OwnedFd>,
    /// Some of what it asked for may not be answered yet, since it was behind.
    pub(super) is_held: bool,
    from: From,
    stream: UnixStream,
    came: Vec<u8>,
    to_send: Vec<u8>,
    sent: usize,
    is_lost: bool,
}

impl Client {
    /// `is_far`: it comes over the agent of this host.
    pub(super) fn new(stream: UnixStream, is_far: bool) -> Self {
        Self {
            task: None,
            descriptors: VecDeque::new(),
            is_held: false,
            from: match is_far {
                true => From::Unsaid,
                false => From::Here,
            },
            stream,
            came: Vec::new(),
            to_send: Vec::new(),
            sent: 0,
            is_lost: false,
        }
    }

    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        let wanted = match self.waiting_bytes() {
            0 => PollFlags::IN,
            ANSWERED_AHEAD.. => PollFlags::OUT,
            _ => PollFlags::IN | PollFlags::OUT,
        };
        PollFd::from_borrowed_fd(self.stream.as_fd(), wanted)
    }

    /// Is it to take what it asked for before it is answered anything else?
    pub(super) fn is_behind(&self) -> bool {
        self.waiting_bytes() >= ANSWERED_AHEAD
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.to_send.len() - self.sent
    }

    /// Takes in what has come, through these bytes, but no more at a time than others can wait for.
    /// False: nothing more will.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> bool {
        for _ in 0..READS_MAX {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let mut slices = [IoSliceMut::new(bytes)];
            match recvmsg(&self.stream, &mut slices, &mut control, flags) {
                Ok(message) if message.bytes == 0 => return false,
                Ok(message) => {
                    let read = message.bytes;
                    for one in control.drain() {
                        if let RecvAncillaryMessage::ScmRights(descriptors) = one {
                            self.descriptors.extend(descriptors);
                        }
                    }
                    self.descriptors.truncate(DESCRIPTORS_MAX);
                    self.came.extend_from_slice(&bytes[..read]);
                    if read < bytes.len() {
                        return true;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    pub(super) fn next_request(&mut self) -> Result<Option<Request>, Code> {
        if self.from == From::Unsaid {
            let Some(end) = self.came.iter().position(|byte| *byte == b'\n') else {
                return match self.came.len() > NAME_BYTES_MAX {
                    true => Err(Code::BAD_MESSAGE),
                    false => Ok(None),
                };
            };
            let name = String::from_utf8(self.came.drain(..=end).collect());
            let name = name.map_err(|_| Code::BAD_MESSAGE)?;
            self.from = From::Host(name.trim_end().to_owned());
        }
        let taken = wire::take(&mut self.came)?;
        match taken.is_none() && !self.may_ask() && self.came.len() > FIRST_BYTES_MAX {
            true => Err(Code::BAD_MESSAGE),
            false => Ok(taken),
        }
    }

    /// May it ask for more than to be in the machine? On this host every process of its user may.
    pub(super) fn may_ask(&self) -> bool {
        self.task.is_some() || self.from == From::Here
    }

    /// Its host, if it is another one than the first.
    pub(super) fn far_host(&self) -> Option<&str> {
        match &self.from {
            From::Host(name) => Some(name),
            From::Here | From::Unsaid => None,
        }
    }

    /// Gives up its connection, over which it says only what it prints from now on; what was to be
    /// sent is short, and goes out first.
    pub(super) fn into_output(mut self) -> Option<OwnedFd> {
        self.flush().then(|| self.stream.into())
    }

    pub(super) fn send(&mut self, outgoing: &Outgoing) {
        if self.is_lost {
            return;
        }
        let appended = wire::append(&mut self.to_send, outgoing);
        self.is_lost |= appended.is_err() || self.waiting_bytes() > WAITING_MAX;
    }

    /// False: it takes nothing more.
    pub(super) fn flush(&mut self) -> bool {
        while self.waiting_bytes() > 0 && !self.is_lost {
            match self.stream.write(&self.to_send[self.sent..]) {
                Ok(0) => return false,
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.forget_what_was_sent();
                    return true;
                }
                Err(_) => return false,
            }
        }
        self.to_send.clear();
        self.sent = 0;
        !self.is_lost
    }

    /// Once it is more than what waits, so that each byte is moved once at most.
    fn forget_what_was_sent(&mut self) {
        if self.sent > self.waiting_bytes() {
            self.to_send.drain(..self.sent);
            self.sent = 0;
        }
    }
}
