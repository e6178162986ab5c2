//! What `preload-init` left in the kernel's log: one line, long before anybody could write a file.
//!
//! `preload-init: pack=PATH end=all pages=N wanted=N ... ns=N boottime_ns=N`, with blanks and
//! backslashes of the path as `\xNN`; `/dev/kmsg` escapes once more. The time is that of the end.
//! Never believes that a line is there: the log is a ring, and what stood in it first goes first.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// What the log says of one pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InitRun {
    /// Pages that were loaded or asked for, from the front of the pack.
    pub(super) pages: u64,
    /// Was it read? Else the pack was switched off.
    pub(super) read: bool,
    pub(super) reading_ns: u64,
    /// Nanoseconds since the machine started.
    pub(super) began_ns: u64,
}

/// The log of the kernel.
#[derive(Debug, Default)]
pub(super) struct KernelLog {
    messages: Vec<String>,
    /// Is its beginning gone?
    pub(super) cut: bool,
}

/// More than any kernel keeps.
const LOG_MAX_BYTES: usize = 64 << 20;
/// More than any record has.
const RECORD_BYTES: usize = 16 << 10;

impl KernelLog {
    /// Reads all of it, as far as there is something now.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file: File = open(path, flags, Mode::empty())?.into();
        let (mut text, mut record, mut cut) = (Vec::new(), vec![0; RECORD_BYTES], false);
        while text.len() < LOG_MAX_BYTES {
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(bytes) => text.extend(&record[..bytes]),
                // What was to be read next has been overwritten meanwhile.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => cut = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let mut log = Self::parse(&String::from_utf8_lossy(&text));
        log.cut |= cut;
        Ok(log)
    }

    /// Records are `priority,number,time,flags;message`; lines that begin with a blank belong to
    /// the one before.
    fn parse(text: &str) -> Self {
        let mut log = Self::default();
        let mut first = None;
        for line in text.lines().filter(|line| !line.starts_with(' ')) {
            let Some((head, message)) = line.split_once(';') else {
                continue;
            };
            let number = head
                .split(',')
                .nth(1)
                .and_then(|number| number.parse().ok());
            first = first.or(number);
            log.messages.push(unescaped(message));
        }
        log.cut = first.is_some_and(|number: u64| number > 0);
        log
    }

    /// The last line about `pack`.
    pub(super) fn find(&self, pack: &Path) -> Option<InitRun> {
        let runs = self.messages.iter().rev();
        let mut of_pack = runs
            .filter_map(|message| parse(message))
            .filter(|(path, _)| is_that(path, pack));
        of_pack.next().map(|(_, run)| run)
    }
}

/// Seen from an initramfs, the pack may have had a longer path; and a long one has lost its
/// beginning.
fn is_that(logged: &str, pack: &Path) -> bool {
    match logged.strip_prefix("...") {
        Some(end) => pack.to_string_lossy().ends_with(end),
        None => Path::new(logged).ends_with(pack.strip_prefix("/").unwrap_or(pack)),
    }
}

fn parse(message: &str) -> Option<(String, InitRun)> {
    let pairs = message.strip_prefix("preload-init: ")?.split(' ');
    let pairs: Vec<(&str, &str)> = pairs.filter_map(|pair| pair.split_once('=')).collect();
    let value = |wanted: &str| {
        let found = pairs.iter().find(|(key, _)| *key == wanted);
        found.map(|(_, value)| *value)
    };
    let number = |wanted: &str| value(wanted).and_then(|value| value.parse::<u64>().ok());
    let reading_ns = number("ns")?;
    let pages = number("pages")?;
    let run = InitRun {
        pages,
        read: match value("end") {
            // A budget of nothing is how one boot is left unread.
            Some("budget") => pages > 0,
            // Before there was a word for the end, there was no line but of what was read.
            None | Some("all" | "memory" | "time") => true,
            Some(_) => false,
        },
        reading_ns,
        began_ns: number("boottime_ns")?.checked_sub(reading_ns)?,
    };
    Some((unescaped(value("pack")?), run))
}

/// `\x20` is a blank. What is no escape stays as it is.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let escape = match rest {
            [b'\\', b'x', high, low, ..] => std::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 16).ok()),
            _ => None,
        };
        bytes.push(escape.unwrap_or(*first));
        rest = if escape.is_some() { &rest[4..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOG: &str = "6,0,0,-;Linux version 6.1\n\
        15,310,900,-;preload-init: 30 pages of 2 files in 3 ms\n\
        15,311,901,-;preload-init: pack=/root/etc/my\\x5cx20boot.pack end=budget pages=28 wanted=30 queued=0 bytes=114688 files=2 changed=0 ns=400 boottime_ns=1000\n \
        SUBSYSTEM=none\n\
        15,312,902,-;preload-init: pack=/etc/off.pack end=off pages=0 wanted=0 ns=5 boottime_ns=2000\n\
        15,312,902,-;preload-init: pack=/etc/none.pack end=budget pages=0 wanted=30 ns=5 boottime_ns=2000\n\
        15,313,903,-;preload-init: pack=/etc/odd.pack end=all pages=x ns=5 boottime_ns=2000\n";

    #[test]
    fn line_of_a_pack_is_found() {
        let log = KernelLog::parse(LOG);
        assert!(!log.cut);
        let run = log.find(Path::new("/etc/my boot.pack")).expect("there");
        let expected = InitRun {
            pages: 28,
            read: true,
            reading_ns: 400,
            began_ns: 600,
        };
        assert_eq!(run, expected);
        for unread in ["/etc/off.pack", "/etc/none.pack"] {
            assert!(!log.find(Path::new(unread)).expect("there").read);
        }
        for absent in ["/etc/odd.pack", "/etc/boot.pack", "/c/off.pack"] {
            assert_eq!(log.find(Path::new(absent)), None, "{absent}");
        }
    }

    #[test]
    fn long_path_is_known_by_its_end() {
        let line =
            "6,0,0,-;preload-init: pack=...ong/boot.pack end=all pages=1 ns=1 boottime_ns=2\n";
        let log = KernelLog::parse(line);
        assert!(log.find(Path::new("/very/long/boot.pack")).is_some());
        assert!(log.find(Path::new("/other/boot.pack")).is_none());
    }

    #[test]
    fn log_without_its_beginning_says_so() {
        assert!(KernelLog::parse("6,17,0,-;something").cut);
        assert!(!KernelLog::parse("").cut);
    }

    #[test]
    fn log_of_this_machine_is_read_to_its_end() {
        match KernelLog::read(Path::new("/dev/kmsg")) {
            Ok(log) => assert_eq!(log.find(Path::new("/no/such.pack")), None),
            Err(error) => println!("SKIPPED: /dev/kmsg cannot be read: {error}"),
        }
    }

    proptest! {
        #[test]
        fn no_log_makes_it_fail(text in "(?s).{0,300}") {
            let log = KernelLog::parse(&text);
            let _ = log.find(Path::new("/a"));
            let _ = parse(&format!("preload-init: {text}"));
        }
    }
}
