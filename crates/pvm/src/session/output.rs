//! `pvm_catchout`: what spawned tasks print becomes text of this one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Session;
use crate::buffer::{Buffer, Info, Kind};
use crate::code::Code;
use crate::machine::{Reply, Request};
use crate::options::Opt;
use crate::tid::Tid;

/// The context of output that is caught: one of those that PVM reserves.
pub const OUTPUT_CONTEXT: i32 = 0x0007_ffff - 1;
/// `TO_SPAWN` of `pvmproto.h`.
const SPAWNED: i32 = -1;
/// Its tag.
const OUTPUT_TAG: i32 = 1;
/// The longest line that is kept until its end comes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What has come of the output of other tasks.
#[derive(Debug, Default)]
pub(super) struct Caught {
    is_on: bool,
    /// Spawned, and not heard of yet.
    expected: BTreeSet<Tid>,
    /// What a task has printed of a line; those that still may print.
    lines: BTreeMap<Tid, Vec<u8>>,
    text: Vec<u8>,
    shows_tids: bool,
}

impl Caught {
    pub(super) fn is_output(&self, info: &Info) -> bool {
        (info.context, info.tag) == (OUTPUT_CONTEXT, OUTPUT_TAG)
            && !Tid::from_number(info.source).is_task()
    }

    /// Text that is to be printed, once.
    pub(super) fn take_text(&mut self) -> Option<Vec<u8>> {
        match self.text.is_empty() {
            true => None,
            false => Some(std::mem::take(&mut self.text)),
        }
    }

    /// False: the message makes no sense.
    pub(super) fn take_in(&mut self, mut message: Buffer) -> bool {
        let numbers = (message.unpack_int(), message.unpack_int());
        let (Ok(task), Ok(what)) = numbers else {
            return false;
        };
        let task = Tid::from_number(task);
        match usize::try_from(what) {
            // It is about to be spawned, and then it is.
            Err(_) => {
                self.expected.remove(&task);
                self.lines.entry(task).or_default();
                if what == SPAWNED {
                    self.mark(task, "BEGIN");
                }
                true
            }
            Ok(0) => {
                self.end_line(task);
                self.lines.remove(&task);
                self.mark(task, "EOF");
                true
            }
            Ok(bytes) if bytes <= message.len() => {
                let mut printed = vec![0; bytes];
                let unpacked = message.unpack(Kind::Byte, &mut printed, bytes, 1);
                self.print(task, &printed);
                unpacked.is_ok()
            }
            Ok(_) => false,
        }
    }

    fn print(&mut self, task: Tid, printed: &[u8]) {
        if !self.shows_tids {
            self.text.extend_from_slice(printed);
            return;
        }
        for part in printed.split_inclusive(|byte| *byte == b'\n') {
            let line = self.lines.entry(task).or_default();
            line.extend_from_slice(part);
            if part.ends_with(b"\n") || line.len() > LINE_BYTES_MAX {
                self.end_line(task);
            }
        }
    }

    fn end_line(&mut self, task: Tid) {
        let line = self.lines.get_mut(&task).map(std::mem::take);
        let line = line.unwrap_or_default();
        if line.is_empty() {
            return;
        }
        self.begin(task);
        self.text.extend_from_slice(&line);
        if !line.ends_with(b"\n") {
            self.text.push(b'\n');
        }
    }

    fn mark(&mut self, task: Tid, word: &str) {
        if self.shows_tids {
            self.begin(task);
            self.text.extend_from_slice(word.as_bytes());
            self.text.push(b'\n');
        }
    }

    fn begin(&mut self, task: Tid) {
        let mut tag = String::new();
        // Writing into memory does not fail.
        let _ = write!(tag, "[{task}] ");
        self.text.extend_from_slice(tag.as_bytes());
    }
}

impl<F: Clone> Session<F> {
    /// From now on what tasks print that are spawned comes as [`Event::Print`](super::Event), or
    /// no more.
    pub fn catch_output(&mut self, is_on: bool) {
        self.caught.is_on = is_on;
        self.caught.shows_tids = self.options.value(Opt::SHOW_TIDS) != 0;
        let (to, tag, context) = match is_on {
            true => (self.task().number(), OUTPUT_TAG, OUTPUT_CONTEXT),
            false => (0, 0, 0),
        };
        self.options.assign(Opt::OUTPUT_TID, to);
        self.options.assign(Opt::OUTPUT_CODE, tag);
        self.options.assign(Opt::OUTPUT_CONTEXT, context);
    }

    /// Who catches what this task spawns and prints, if anybody does.
    pub(super) fn spawned_for_output(&mut self, tasks: impl Iterator<Item = Tid>) {
        if self.caught.is_on {
            self.caught.expected.extend(tasks);
        }
    }

    /// Before the task leaves: is output of others still to come? What has come is to be pulled
    /// all the same.
    ///
    /// # Errors
    /// [`Code::SYSTEM`].
    pub fn is_output_open(&mut self) -> Result<bool, Code> {
        if !self.caught.is_on {
            return Ok(false);
        }
        for task in self.caught.expected.clone() {
            // A program that is none of PVM's has no output that is sent here. What one of PVM's
            // has sent before has come with the reply at the latest.
            if self.machine.has_ended(task)? {
                let reply = self.machine.ask(Request::IsCollected { task })?;
                if reply == Reply::Number(0) {
                    self.caught.expected.remove(&task);
                }
            }
        }
        Ok(!self.caught.expected.is_empty() || !self.caught.lines.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Encoding;

    fn message(task: i32, what: i32, bytes: &[u8]) -> Buffer {
        let mut message = Buffer::new(Encoding::Xdr);
        message.pack_int(task).expect("packed");
        message.pack_int(what).expect("packed");
        message
            .pack(Kind::Byte, bytes, bytes.len(), 1)
            .expect("packed");
        message
    }

    fn printed(caught: &mut Caught) -> String {
        String::from_utf8(caught.take_text().unwrap_or_default()).expect("text")
    }

    #[test]
    fn lines_have_their_task_in_front() {
        let mut caught = Caught {
            shows_tids: true,
            ..Caught::default()
        };
        assert!(caught.take_in(message(0x40002, -1, b"")));
        assert!(caught.take_in(message(0x40002, 6, b"one\ntw")));
        assert!(caught.take_in(message(0x40003, 4, b"hey\n")));
        assert!(caught.take_in(message(0x40002, 1, b"o")));
        assert!(caught.take_in(message(0x40002, 0, b"")));
        let text = printed(&mut caught);
        assert_eq!(
            text,
            "[t40002] BEGIN\n[t40002] one\n[t40003] hey\n[t40002] two\n[t40002] EOF\n"
        );
    }

    #[test]
    fn lengths_are_not_believed() {
        let mut caught = Caught::default();
        assert!(!caught.take_in(message(0x40002, 100, b"short")));
        assert!(!caught.take_in(Buffer::new(Encoding::Xdr)));
        assert!(caught.take_in(message(0x40002, 4, b"raw\n")));
        assert_eq!(printed(&mut caught), "raw\n");
    }
}
