//! Standard input for a first task on another host.

use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::Job;
use super::part_protocol::message::{BYTES_MAX, INPUT_BYTES_MAX, ToPart};
use super::remote::SharedPart;

/// Standard input for a first task on another host.
#[derive(Debug)]
pub(super) struct Input {
    part: SharedPart,
    /// Sent, and not taken.
    underway: usize,
    is_ended: bool,
}

impl Input {
    pub(super) fn new(part: &SharedPart) -> Self {
        Self {
            part: SharedPart::clone(part),
            underway: 0,
            is_ended: false,
        }
    }

    /// A part says that so much was written, and only the one that has it is believed.
    pub(super) fn note_taken(&mut self, part: &SharedPart, bytes: u32) {
        if Rc::ptr_eq(&self.part, part) {
            self.underway = self.underway.saturating_sub(bytes as usize);
        }
    }

    /// May more be read?
    pub(super) fn takes(&self) -> bool {
        !self.is_ended && self.underway + BYTES_MAX <= INPUT_BYTES_MAX
    }
}

impl Job {
    /// Sends on what comes in for a first task on another host.
    pub(super) fn feed_input(&mut self) {
        let Some(input) = self.input.as_mut().filter(|input| input.takes()) else {
            return;
        };
        let stdin = std::io::stdin();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        if !hythe_sys::wait::ready(&mut polled, Duration::ZERO)[0] {
            return;
        }
        let Some(bytes) = read_input(&stdin) else {
            return;
        };
        input.underway += bytes.len();
        input.is_ended = bytes.is_empty();
        input.part.borrow_mut().link.say(&ToPart::Input(bytes));
    }
}

/// What there is; empty at its end, and where it cannot be read: the task is told so. `None`:
/// nothing for now.
fn read_input(from: impl AsFd) -> Option<Vec<u8>> {
    let mut bytes = vec![0; BYTES_MAX];
    let read = match rustix::io::read(from, &mut bytes) {
        Ok(read) => read,
        Err(Errno::INTR | Errno::AGAIN) => return None,
        Err(_) => 0,
    };
    bytes.truncate(read);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::super::fixture;
    use super::super::output::Writer;
    use super::super::part_protocol::message::FromPart;
    use super::*;

    #[test]
    fn only_the_part_that_gets_the_input_says_what_was_taken() {
        let (_root, mut job) = fixture::job();
        let (part, mut there) = fixture::part("b");
        job.parts.push(SharedPart::clone(&part));
        let mut writer = Writer::start(Box::new(|_| Ok(()))).expect("a thread");
        let (other, mut liar) = fixture::part("c");
        job.parts.push(other);
        let mut input = Input::new(&part);
        input.underway = 10;
        job.input = Some(input);
        liar.say(&FromPart::InputTaken(5));
        there.say(&FromPart::InputTaken(3));
        assert!(job.hear_parts(&mut writer));
        assert_eq!(job.input.map(|input| input.underway), Some(7));
    }

    #[test]
    fn input_that_does_not_come_yet_has_not_ended() {
        let (input, mut to) = UnixStream::pair().expect("a pair");
        input.set_nonblocking(true).expect("set");
        assert_eq!(read_input(&input), None);
        std::io::Write::write_all(&mut to, b"x").expect("written");
        assert_eq!(read_input(&input), Some(b"x".to_vec()));
        drop(to);
        assert_eq!(read_input(&input), Some(Vec::new()));
    }
}
