//! A session that is played: kept alive from a thread of its own, and torn down at its end.
//!
//! Keep-alives go on whatever is answered: a refusal is one to the method, a connection that
//! fails is made again for the next sign, and what came of them all is an [`Account`]. A server
//! that gives no sign itself for as long as it keeps a session is lost: whoever receives decides
//! what that means. Every wait has a bound. Never here: media.

use std::io::{PipeReader, PipeWriter, pipe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hythe_rtp::rtsp::client::PassedOver;
use hythe_sys::wait::ready;
use rustix::event::{PollFd, PollFlags};

use super::Client;
use crate::MediaError;

/// "Session Not Found" (RFC 2326, section 11.3.5): no keep-alive brings it back.
const SESSION_NOT_FOUND: u16 = 454;

/// What came of keeping a session alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// Keep-alives that the server answered well.
    pub kept_alive: u64,
    /// Those that it refused.
    pub refused: u64,
    /// Those without a whole answer: the connection was given up, and the next one makes another.
    pub failed: u64,
    /// What the last one that was refused, or failed, came to.
    pub last_trouble: Option<String>,
    /// The session is gone: the server says so, or was silent for as long as it keeps one.
    pub is_lost: bool,
    /// Why the server has ended the session by itself, or cannot go on with it.
    pub ended: Option<String>,
    /// What the server sent that answers nothing.
    pub passed_over: PassedOver,
}

/// A session that is played. Dropped, it is torn down: that takes a second at most, and up to five
/// where a keep-alive is being waited for.
#[derive(Debug)]
pub struct Playing {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    account: Arc<Mutex<Account>>,
}

impl Playing {
    pub(super) fn begin(client: Client) -> Result<Self, MediaError> {
        let failed = |source| MediaError::System {
            what: "make a pipe to end a thread with",
            source,
        };
        let (stopped, stop) = pipe().map_err(failed)?;
        let account = Arc::new(Mutex::new(Account::default()));
        let shared = Arc::clone(&account);
        let named = thread::Builder::new().name("rtsp session".into());
        let thread = named.spawn(move || keep_alive(client, &stopped, &shared));
        let thread = thread.map_err(|source| MediaError::System {
            what: "start a thread",
            source,
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
            account,
        })
    }

    /// What came of keeping it alive so far.
    #[must_use]
    pub fn account(&self) -> Account {
        lock(&self.account).clone()
    }

    /// Has the server ended the session by itself, or said that it cannot go on?
    #[must_use]
    pub fn has_ended(&self) -> bool {
        lock(&self.account).ended.is_some()
    }

    /// Is the session gone, as far as is known? Asked often, it costs little.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        lock(&self.account).is_lost
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It panics as little as anything here, and there would be nobody to tell.
            let _ = thread.join();
        }
    }
}

/// Every change of an account is whole.
fn lock(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep_alive(mut client: Client, stopped: &PipeReader, account: &Mutex<Account>) {
    let lasts = client.dialogue.session_time();
    // Two in the time of a session, so that one may be lost.
    let apart = lasts / 2;
    let mut heard = Instant::now();
    while wait(&mut client, stopped, apart, account) {
        let status = send_keep_alive(&mut client, apart, account);
        if status.is_some() {
            heard = Instant::now();
        }
        note_requests(&mut client, account);
        let mut account = lock(account);
        account.passed_over = client.passed_over();
        account.is_lost = match status {
            Some(status) => status == SESSION_NOT_FOUND,
            None => account.is_lost || heard.elapsed() >= lasts,
        };
    }
}

/// Waits until the next keep-alive is due, and answers what the server asks for meanwhile;
/// `false`: the session is to end, or has.
fn wait(
    client: &mut Client,
    stopped: &PipeReader,
    apart: Duration,
    account: &Mutex<Account>,
) -> bool {
    let due = Instant::now() + apart;
    // Some may have come with the last answer.
    let mut is_heard = client.dialogue.take(&[]).is_ok();
    loop {
        note_requests(client, account);
        if !client.dialogue.has_session() {
            return false; // nothing is left to keep alive
        }
        let left = due.saturating_duration_since(Instant::now());
        let mut descriptors = vec![PollFd::new(stopped, PollFlags::IN)];
        let stream = client.stream.as_ref().filter(|_| is_heard);
        descriptors.extend(stream.map(|stream| PollFd::new(stream, PollFlags::IN)));
        let ready = ready(&mut descriptors, left);
        if ready[0] {
            return false;
        }
        if ready.get(1) == Some(&true) {
            is_heard = client.hear();
        } else if left.is_zero() {
            return true;
        }
    }
}

/// Answers what the server asked for, and keeps why the session is over.
fn note_requests(client: &mut Client, account: &Mutex<Account>) {
    let over = client.answer_requests();
    let mut account = lock(account);
    account.passed_over = client.passed_over();
    account.ended = account.ended.take().or(over);
}

/// The status of the answer, if there was one.
fn send_keep_alive(client: &mut Client, apart: Duration, account: &Mutex<Account>) -> Option<u16> {
    let time_limit = client.time_limit.min(apart);
    loop {
        let (method, request) = client.dialogue.keep_alive();
        let answer = client.exchange(&request, time_limit);
        let mut account = lock(account);
        let (status, trouble) = match answer {
            Ok(answer) if answer.is_ok() => {
                account.kept_alive += 1;
                return Some(answer.status);
            }
            Ok(answer) => {
                account.refused += 1;
                (Some(answer.status), answer.refusal())
            }
            Err(reason) => {
                account.failed += 1;
                (None, reason)
            }
        };
        account.last_trouble = Some(format!("{method}: {trouble}"));
        let may_know_another = status.is_some_and(|status| status != SESSION_NOT_FOUND);
        if !may_know_another || !client.dialogue.knows_no_parameters() {
            return status;
        }
    }
}
