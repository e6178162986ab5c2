//! POSIX message queues of the kernel, for the system `mq`: the calls themselves.
//!
//! No crate of the workspace has them behind safe functions, and the product does not call them, so
//! they stand here: one of the files that the rule on `unsafe` lists (`cargo xtask tidy`).
#![allow(
    unsafe_code,
    reason = "mq_* calls, which rustix does not have and the product does not need"
)]

use std::ffi::CString;
use std::io;
use std::time::Duration;

/// What only the own user may do.
const MODE: libc::mode_t = 0o600;
/// No more than any system allows without more rights.
const MESSAGES: libc::c_long = 4;

/// A queue. Its maker takes its name away with this value.
#[derive(Debug)]
pub(crate) struct PosixQueue {
    queue: libc::mqd_t,
    made: Option<CString>,
}

impl PosixQueue {
    /// Makes a queue for messages of `bytes`; its name begins with a slash.
    ///
    /// # Errors
    /// What `mq_open` returns: there is one already, or the system's limits (`/proc/sys/fs/mqueue`)
    /// are smaller.
    pub(crate) fn create(name: &str, bytes: usize) -> io::Result<Self> {
        let name = CString::new(name)?;
        // SAFETY: a structure of integers, for which all zeros is a value.
        let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
        attributes.mq_maxmsg = MESSAGES;
        attributes.mq_msgsize = libc::c_long::try_from(bytes).unwrap_or(libc::c_long::MAX);
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: the name ends with a zero, the attributes live until the call is over.
        let queue = unsafe { libc::mq_open(name.as_ptr(), flags, MODE, &raw mut attributes) };
        let queue = checked(queue)?;
        let made = Some(name);
        Ok(Self { queue, made })
    }

    /// One that another process has made.
    ///
    /// # Errors
    /// What `mq_open` returns: there is none.
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        let name = CString::new(name)?;
        // SAFETY: the name ends with a zero; nothing is made, so nothing more is passed.
        let queue = unsafe { libc::mq_open(name.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        let queue = checked(queue)?;
        let made = None;
        Ok(Self { queue, made })
    }

    /// Sends a message, sleeping while the queue is full.
    ///
    /// # Errors
    /// What `mq_send` returns: the message is longer than the queue's.
    pub(crate) fn send(&self, message: &[u8]) -> io::Result<()> {
        let at = message.as_ptr().cast();
        // SAFETY: reads so many bytes of the slice, which lives until the call is over.
        let sent = unsafe { libc::mq_send(self.queue, at, message.len(), 0) };
        checked(sent).map(drop)
    }

    /// Receives a message into the whole of `to`. False: none came for all of `timeout`, or a
    /// signal did.
    ///
    /// # Errors
    /// What `mq_timedreceive` returns: `to` is shorter than the queue's messages. A message of
    /// another length is one, too.
    pub(crate) fn receive(&self, to: &mut [u8], timeout: Duration) -> io::Result<bool> {
        let until = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let nanoseconds = until.tv_nsec + i64::from(timeout.subsec_nanos());
        let deadline = libc::timespec {
            tv_sec: until.tv_sec + timeout.as_secs() as i64 + nanoseconds / 1_000_000_000,
            tv_nsec: nanoseconds % 1_000_000_000,
        };
        let (at, room, priority) = (to.as_mut_ptr().cast(), to.len(), std::ptr::null_mut());
        // SAFETY: writes at most so many bytes to the slice, which is ours alone; the deadline
        // lives until the call is over, and no priority is asked for.
        let got =
            unsafe { libc::mq_timedreceive(self.queue, at, room, priority, &raw const deadline) };
        if usize::try_from(got).is_ok_and(|got| got == room) {
            return Ok(true);
        }
        if got >= 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::ETIMEDOUT | libc::EINTR)) => {
                Ok(false)
            }
            error => Err(error),
        }
    }
}

impl Drop for PosixQueue {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed here only.
        unsafe { libc::mq_close(self.queue) };
        if let Some(name) = &self.made {
            // SAFETY: the name ends with a zero.
            unsafe { libc::mq_unlink(name.as_ptr()) };
        }
    }
}

fn checked(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(returned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_sends_the_other_receives() {
        let name = format!("/hythe-bench-test-{}", std::process::id());
        let made = PosixQueue::create(&name, 8).expect("made");
        assert!(PosixQueue::create(&name, 8).is_err(), "there is one");
        let opened = PosixQueue::open(&name).expect("there");
        let mut to = [0; 8];
        assert!(!made.receive(&mut to, Duration::ZERO).expect("none yet"));
        opened.send(b"eight by").expect("sent");
        assert!(
            made.receive(&mut to, Duration::from_secs(60))
                .expect("received")
        );
        assert_eq!(&to, b"eight by");
        assert!(opened.send(b"nine byte").is_err(), "too long");
        opened.send(b"short").expect("sent");
        assert!(made.receive(&mut to, Duration::ZERO).is_err(), "not whole");
        drop(made);
        assert!(PosixQueue::open(&name).is_err(), "it stayed behind");
    }
}
