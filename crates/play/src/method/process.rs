//! `linux`: a process of the program `host-player` for each of sound and picture, with the same
//! decoders as the core's. A message is its length in four bytes, little endian, and as many bytes;
//! what comes back begins with its words.
//!
//! Every wait is bounded. Whatever happens, no process is left.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hythe_sys::spawn;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};

use super::{Decoded, Flow, Message, Receiver, Sender, Spare};
use crate::error::PlayError;
use crate::ports::{Channels, MESSAGE_BYTES_MAX, SEND_TIMEOUT};
use crate::stage::{LOOK, locked};

/// The program, beside the folders of boards.
const PROGRAM: &str = "host/host-player";
/// The longest message that it takes.
const UNIT_BYTES_MAX: usize = 1 << 20;
const LENGTH_BYTES: usize = 4;
/// How much a pipe shall hold, so that both sides work at the same time.
const PIPE_BYTES: usize = 1 << 20;

/// A process that decodes. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct DecoderProcess {
    what: &'static str,
    child: Mutex<Option<Child>>,
    progress: Mutex<Progress>,
    /// For how long it may owe an answer.
    bound: Duration,
}

/// What it was asked, and has answered.
#[derive(Debug)]
struct Progress {
    /// It will be asked nothing more, and is to end.
    is_closed: bool,
    /// Messages that are not answered.
    owed: u32,
    /// When it last did something, or had nothing to do.
    since: Instant,
}

impl DecoderProcess {
    /// Starts a process, which dies with this thread.
    pub(crate) fn start(
        channels: &Channels,
        bound: Duration,
    ) -> Result<(Arc<Self>, Flow), PlayError> {
        let program = find()?;
        let mut command = Command::new(&program);
        // A terminal's Ctrl-C is for the player.
        command.arg(channels.to_core).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        spawn::die_with_parent(&mut command);
        let mut child = command.spawn().map_err(|source| PlayError::NotStarted {
            path: program.clone(),
            source,
        })?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let process = Arc::new(Self {
            what: channels.to_core,
            child: Mutex::new(Some(child)),
            progress: Mutex::new(Progress {
                is_closed: false,
                owed: 0,
                since: Instant::now(),
            }),
            bound,
        });
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(process.failed("talk to", ErrorKind::BrokenPipe.into()));
        };
        for pipe in [stdin.as_fd(), stdout.as_fd()] {
            rustix::io::ioctl_fionbio(pipe, true)
                .map_err(|errno| process.failed("talk to", errno.into()))?;
            // Above the limit of the system it stays as it is.
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
        }
        let to_decoder = ToProcess {
            process: Arc::clone(&process),
            stdin,
            spare: Spare::default(),
            is_broken: false,
        };
        let from_decoder = FromProcess {
            process: Arc::clone(&process),
            stdout,
            spare: Spare::default(),
            next: Next::default(),
            wakes: 0,
        };
        let flow = Flow {
            to_decoder: Box::new(to_decoder),
            from_decoder: Box::new(from_decoder),
        };
        Ok((process, flow))
    }

    /// Waits for its end, once both ends of its way are closed. Returns its CPU time.
    pub(crate) fn finish(&self) -> Result<Duration, PlayError> {
        self.end()?;
        let Some(child) = locked(&self.child).take() else {
            return Ok(Duration::ZERO);
        };
        let ended = spawn::wait_with_cpu_time(child);
        let (_, cpu) = ended.map_err(|source| self.failed("wait for", source))?;
        Ok(cpu)
    }

    /// Its pipe is closed, so it has ended, or is about to. An error unless it was to end.
    fn hung_up(&self) -> Result<(), PlayError> {
        self.end()?;
        let progress = locked(&self.progress);
        match progress.is_closed && progress.owed == 0 {
            true => Ok(()),
            false => Err(self.ended("exit status 0".to_owned())),
        }
    }

    /// Waits until it has ended, as it does when its input has; it stays to be waited for. An error
    /// if it ended otherwise, or did not end in time.
    fn end(&self) -> Result<(), PlayError> {
        let begun = Instant::now();
        let pid = locked(&self.child).as_ref().map(Child::id);
        let Some(pid) = pid.and_then(|pid| Pid::from_raw(pid.cast_signed())) else {
            return Ok(());
        };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(pid), look) {
                Ok(Some(status)) => return self.judge(&status),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(self.failed("wait for", errno.into())),
            }
            if begun.elapsed() >= self.bound {
                return Err(self.hung(self.bound));
            }
            std::thread::sleep(LOOK / 10);
        }
    }

    fn judge(&self, status: &WaitIdStatus) -> Result<(), PlayError> {
        let how = match (status.exit_status(), status.terminating_signal()) {
            (Some(0), _) => return Ok(()),
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "for an unknown reason".to_owned(),
        };
        Err(self.ended(how))
    }

    fn ended(&self, how: String) -> PlayError {
        PlayError::DecoderEnded {
            what: self.what,
            how,
        }
    }

    fn hung(&self, waited: Duration) -> PlayError {
        PlayError::DecoderHung {
            what: self.what,
            waited,
        }
    }

    fn failed(&self, action: &'static str, source: io::Error) -> PlayError {
        PlayError::Pipe {
            action,
            what: self.what,
            source,
        }
    }

    fn is_asked(&self) {
        let mut progress = locked(&self.progress);
        if progress.owed == 0 {
            progress.since = Instant::now();
        }
        progress.owed += 1;
    }

    /// Something came; `is_whole`: all of an answer.
    fn has_answered(&self, is_whole: bool) {
        let mut progress = locked(&self.progress);
        progress.since = Instant::now();
        // An access unit may be answered by several pictures.
        progress.owed = progress.owed.saturating_sub(u32::from(is_whole));
    }

    /// An error if it owes an answer for too long.
    fn check(&self) -> Result<(), PlayError> {
        let progress = locked(&self.progress);
        let silent = progress.since.elapsed();
        match progress.owed > 0 && silent > self.bound {
            true => Err(self.hung(silent)),
            false => Ok(()),
        }
    }
}

impl Drop for DecoderProcess {
    fn drop(&mut self) {
        if let Some(mut child) = locked(&self.child).take() {
            // It has ended already, or ends now.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Where boards are looked for.
fn find() -> Result<PathBuf, PlayError> {
    let places = hythe::core::search_path().into_iter();
    let mut places = places.map(|boards| boards.join(PROGRAM));
    let mut path = PathBuf::from(PROGRAM);
    let found = places.find(|place| {
        path.clone_from(place);
        place.exists()
    });
    found.ok_or(PlayError::NotBuilt { path })
}

/// Waits until it can be read or written; false: not within the time.
fn wait_for(pipe: impl AsFd, flags: PollFlags, bound: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(bound).map_err(|_| ErrorKind::InvalidInput)?;
    let mut polled = [PollFd::new(&pipe, flags)];
    match poll(&mut polled, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

struct ToProcess {
    process: Arc<DecoderProcess>,
    stdin: ChildStdin,
    spare: Spare,
    /// It has a part of a message whose rest came too late.
    is_broken: bool,
}

impl ToProcess {
    /// Writes what the pipe takes within the time; returns how much.
    fn write(&mut self, bytes: &[u8], bound: Duration) -> Result<usize, PlayError> {
        let process = &self.process;
        loop {
            match self.stdin.write(bytes) {
                Ok(written) => return Ok(written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    process.hung_up()?;
                    return Err(process.failed("write to", error));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let waited = wait_for(&self.stdin, PollFlags::OUT, bound);
                    if !waited.map_err(|source| process.failed("write to", source))? {
                        return Ok(0);
                    }
                }
                Err(error) => return Err(process.failed("write to", error)),
            }
        }
    }
}

impl Drop for ToProcess {
    fn drop(&mut self) {
        locked(&self.process.progress).is_closed = true;
    }
}

impl Sender for ToProcess {
    fn lease(&mut self, bytes: usize) -> Result<Option<Message>, PlayError> {
        if bytes > UNIT_BYTES_MAX {
            let limit = UNIT_BYTES_MAX;
            return Err(PlayError::TooLong { bytes, limit });
        }
        Ok(Some(self.spare.message(bytes)))
    }

    fn send(
        &mut self,
        message: Message,
        bytes: usize,
        is_worth: &dyn Fn() -> Result<bool, PlayError>,
    ) -> Result<bool, PlayError> {
        let own = message.into_own();
        // Fits: `lease` has a limit.
        let length = (bytes as u32).to_le_bytes();
        let total = LENGTH_BYTES + bytes;
        let mut at = 0;
        let mut goes_on = !self.is_broken;
        while goes_on && at < total {
            let rest = match at < LENGTH_BYTES {
                true => &length[at..],
                false => &own[at - LENGTH_BYTES..bytes],
            };
            let written = self.write(rest, SEND_TIMEOUT)?;
            if at == 0 && written > 0 {
                self.process.is_asked();
            }
            at += written;
            // Nothing of it is there yet: it may be sent another time.
            goes_on = written > 0 || at > 0 && is_worth()?;
        }
        if self.is_broken {
            std::thread::sleep(SEND_TIMEOUT);
        }
        self.is_broken |= 0 < at && at < total;
        self.spare.back(own);
        Ok(at == total)
    }
}

/// How much of an answer is there.
#[derive(Debug, Default)]
struct Next {
    length: [u8; LENGTH_BYTES],
    message: Vec<u8>,
    at: usize,
}

impl Next {
    /// Bytes with its length; `None`: that is not known.
    fn total(&self) -> Option<usize> {
        let length = u32::from_le_bytes(self.length) as usize;
        (self.at >= LENGTH_BYTES).then_some(LENGTH_BYTES + length)
    }

    /// What is read next, never empty.
    fn rest(&mut self) -> &mut [u8] {
        match self.at < LENGTH_BYTES {
            true => &mut self.length[self.at..],
            false => &mut self.message[self.at - LENGTH_BYTES..],
        }
    }
}

struct FromProcess {
    process: Arc<DecoderProcess>,
    stdout: ChildStdout,
    spare: Spare,
    next: Next,
    wakes: u64,
}

impl FromProcess {
    /// Reads what is there of an answer; `None`: nothing is.
    fn read(&mut self) -> Result<Option<usize>, PlayError> {
        loop {
            match self.stdout.read(self.next.rest()) {
                Ok(got) => return Ok(Some(got)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(self.process.failed("read from", error)),
            }
        }
    }

    /// Bytes came. The whole answer, once it is there.
    fn came(&mut self, bytes: usize) -> Result<Option<Decoded>, PlayError> {
        self.next.at += bytes;
        let Some(total) = self.next.total() else {
            return Ok(None);
        };
        if self.next.at == LENGTH_BYTES {
            let length = total - LENGTH_BYTES;
            if !(1..=MESSAGE_BYTES_MAX).contains(&length) {
                return Err(PlayError::Mismatch {
                    decoded: format!("a message of {length} bytes"),
                    expected: format!("1 to {MESSAGE_BYTES_MAX}"),
                });
            }
            self.next.message = self.spare.take();
            self.next.message.resize(length, 0);
        }
        let is_whole = self.next.at == total;
        self.process.has_answered(is_whole);
        if !is_whole {
            return Ok(None);
        }
        let message = std::mem::take(&mut self.next).message;
        Decoded::of_own(message, &self.spare).map(Some)
    }
}

impl Receiver for FromProcess {
    fn take(&mut self, bound: Duration) -> Result<Option<Decoded>, PlayError> {
        let begun = Instant::now();
        loop {
            match self.read()? {
                Some(0) => {
                    self.process.hung_up()?;
                    // It has answered all that it was sent, and will say no more.
                    std::thread::sleep(bound.saturating_sub(begun.elapsed()));
                    return Ok(None);
                }
                Some(got) => {
                    if let Some(decoded) = self.came(got)? {
                        return Ok(Some(decoded));
                    }
                }
                None => {
                    self.process.check()?;
                    let left = bound.saturating_sub(begun.elapsed());
                    let waited = wait_for(&self.stdout, PollFlags::IN, left);
                    if !waited.map_err(|source| self.process.failed("read from", source))? {
                        return Ok(None);
                    }
                    self.wakes += 1;
                }
            }
        }
    }

    fn wakes(&self) -> u64 {
        self.wakes
    }
}
