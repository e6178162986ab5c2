//! One stream in a thread of its own, for those who watch it.
//!
//! The server's thread asks for something and goes on: it leaves requests, at most one for each
//! session, and never waits for this thread, which may be held up by a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use hythe_rtp::rtsp::{SessionId, Started};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use super::log::Log;
use crate::MediaError;
use crate::instant::now_ns;
use crate::rtsp::Answer;
use crate::send::session::{SendSession, Step};
use crate::source::channel::Watch;
use crate::wire::destinations::DestinationId;
use crate::wire::endpoint::DestinationOptions;
use crate::wire::health::Event;

/// Without requests the thread looks at the clock so often.
const NAP_NS: u64 = 100_000_000;
/// And that of a channel so often, to see what arrives there.
const NAP_OF_CHANNEL_NS: u64 = 20_000_000;
/// Receivers read RTCP before RTP that came earlier: the time they have to empty their sockets
/// before the goodbye.
const LINGER: Duration = Duration::from_millis(500);

/// Who watches, and where.
#[derive(Debug)]
pub(super) struct Spectator {
    pub(super) session: SessionId,
    pub(super) destination: SocketAddr,
    pub(super) options: Box<DestinationOptions>,
}

#[derive(Debug)]
enum Request {
    Watch(Spectator, Answer),
    Leave,
    Pause,
}

/// What the server's thread leaves for the show's.
#[derive(Debug, Default)]
struct Inbox {
    /// The latest of each session: an earlier one means nothing any more.
    requests: BTreeMap<SessionId, Request>,
    /// Sessions whose spectators said something since the server's thread asked.
    alive: BTreeSet<SessionId>,
    /// Nobody wants the show any more.
    is_left: bool,
    /// Nobody looks here any more, and why.
    ended: Option<String>,
}

#[derive(Debug)]
struct Shared {
    inbox: Mutex<Inbox>,
    /// Written to with each request.
    wake: OwnedFd,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // Whole after every step: who panics here has changed nothing.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a request; gives it back, with the reason, if nobody would take it.
    fn leave(&self, session: SessionId, request: Request) -> Option<(Request, String)> {
        let mut inbox = self.lock();
        if let Some(why) = &inbox.ended {
            return Some((request, why.clone()));
        }
        let replaced = inbox.requests.insert(session, request);
        drop(inbox);
        drop(replaced); // one that was to begin has not
        self.wake();
        None
    }

    fn wake(&self) {
        // Full means that the thread is woken already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

/// A stream under way. Dropped, it ends within the time of one packet.
#[derive(Debug)]
pub(super) struct Show {
    shared: Arc<Shared>,
}

impl Show {
    /// Starts the thread, in which `open` opens the stream; it drops `keep` at its end. A film
    /// waits for its first spectator; a channel goes on with nobody watching, so that nobody sees
    /// the past, until another format begins on it.
    pub(super) fn start(
        watch: Option<Watch>,
        log: &Arc<Log>,
        keep: impl Send + 'static,
        open: impl FnOnce() -> Result<SendSession, MediaError> + Send + 'static,
    ) -> Result<Self, MediaError> {
        let wake = wake().map_err(|source| MediaError::System {
            what: "make an event to wake a thread with",
            source,
        })?;
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            wake,
        });
        let (there, log) = (Arc::clone(&shared), Arc::clone(log));
        let named = thread::Builder::new().name("show".into());
        let started = named.spawn(move || {
            let opened = open();
            let over = |why: &str| {
                end(&there, why);
                drop(keep);
            };
            match opened {
                Ok(session) => Stage {
                    session,
                    shared: Arc::clone(&there),
                    log,
                    spectators: BTreeMap::new(),
                    is_paused: watch.is_none(),
                    look_ns: 0,
                    watch,
                }
                .run(over),
                Err(error) => {
                    log.warn(format_args!("a show did not begin: {error}"));
                    over(&match error {
                        // Who holds what is for the log.
                        MediaError::Pool(_) => "there are no slots for one more".to_owned(),
                        other => other.to_string(),
                    });
                }
            }
        });
        started.map_err(|source| MediaError::System {
            what: "start a thread",
            source,
        })?;
        Ok(Self { shared })
    }

    /// Sends to a spectator from the next packet on; `answer` is told which that is.
    pub(super) fn watch(&self, spectator: Spectator, answer: Answer) {
        let session = spectator.session;
        let left = self
            .shared
            .leave(session, Request::Watch(spectator, answer));
        if let Some((Request::Watch(_, answer), why)) = left {
            answer.give(Err(why));
        }
    }

    pub(super) fn leave(&self, session: SessionId) {
        // Who cannot be told because the thread is gone has been left already.
        let _ = self.shared.leave(session, Request::Leave);
    }

    pub(super) fn pause(&self, session: SessionId) {
        let _ = self.shared.leave(session, Request::Pause);
    }

    /// The sessions whose spectators sent RTCP since this was asked last.
    pub(super) fn take_alive(&self) -> BTreeSet<SessionId> {
        std::mem::take(&mut self.shared.lock().alive)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.shared.lock().ended.is_some()
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        self.shared.lock().is_left = true;
        self.shared.wake();
    }
}

/// Nothing more is taken; who still waits is told why.
fn end(shared: &Shared, why: &str) {
    let mut inbox = shared.lock();
    inbox.ended = Some(why.to_owned());
    let requests = std::mem::take(&mut inbox.requests);
    drop(inbox);
    for request in requests.into_values() {
        if let Request::Watch(_, answer) = request {
            answer.give(Err(why.to_owned()));
        }
    }
}

/// What the thread has.
struct Stage {
    session: SendSession,
    shared: Arc<Shared>,
    log: Arc<Log>,
    spectators: BTreeMap<SessionId, Watching>,
    is_paused: bool,
    /// When it is looked again which spectators are there.
    look_ns: u64,
    /// Of a channel.
    watch: Option<Watch>,
}

/// A spectator whose packets are sent.
struct Watching {
    id: DestinationId,
    destination: SocketAddr,
    /// Datagrams of RTCP that it had sent by the last look.
    heard: u64,
}

impl Stage {
    /// Sends until the end, and gives the reason to `over`.
    fn run(mut self, over: impl FnOnce(&str)) {
        let shared = Arc::clone(&self.shared);
        while let Some(until_ns) = self.act() {
            if self.has_other_format() {
                over("it carries something else by now: describe it again");
                return self.finish();
            }
            let mut inbox = shared.lock();
            if inbox.is_left {
                drop(inbox);
                return over("it is gone");
            }
            self.note_alive(&mut inbox);
            let requests = std::mem::take(&mut inbox.requests);
            drop(inbox);
            if requests.is_empty() {
                self.rest(until_ns);
            }
            for (session, request) in requests {
                self.take(session, request);
            }
        }
        self.finish();
        over("it has ended");
    }

    /// It is over: the last packets are played before the goodbye, unless somebody says otherwise.
    fn finish(&mut self) {
        let log = Arc::clone(&self.log);
        let tell = &mut |event: &Event| log.info(event);
        let woken = Some(self.shared.wake.as_fd());
        if let Err(error) = self.session.finish(LINGER, woken, tell) {
            log.warn(format_args!("a show ended without a goodbye: {error}"));
        }
    }

    fn nap_ns(&self) -> u64 {
        match self.watch {
            Some(_) => NAP_OF_CHANNEL_NS,
            None => NAP_NS,
        }
    }

    /// Looks now and then whether a channel carries something else.
    fn has_other_format(&mut self) -> bool {
        let Some(watch) = &self.watch else {
            return false;
        };
        if now_ns() >= self.look_ns {
            watch.look();
        }
        watch.has_other()
    }

    /// Notes whose RTCP came, a few times a second: a session lives for seconds at least.
    fn note_alive(&mut self, inbox: &mut Inbox) {
        let now = now_ns();
        if now < self.look_ns {
            return;
        }
        self.look_ns = now + self.nap_ns();
        for (session, watching) in &mut self.spectators {
            let heard = self.session.heard(watching.id);
            if std::mem::replace(&mut watching.heard, heard) < heard {
                inbox.alive.insert(*session);
            }
        }
    }

    /// Sends what is due; until when there is nothing to do then. `None`: it has ended, or failed,
    /// which is the same to those who watch.
    fn act(&mut self) -> Option<u64> {
        let log = &self.log;
        if self.is_paused {
            self.session.listen(&mut |event| log.info(event));
            return Some(now_ns() + NAP_NS);
        }
        let step = self.session.step(&mut |event| log.info(event));
        while let Some(error) = self.session.skipped() {
            log.warn(format_args!("passed over: {error}"));
        }
        match step {
            Ok(Step::Again) => Some(0),
            Ok(Step::Wait(until_ns)) => Some(until_ns.min(now_ns() + self.nap_ns())),
            Ok(Step::Ended) => None,
            Err(error) => {
                log.warn(format_args!("a show ended: {error}"));
                None
            }
        }
    }

    /// Waits, at most until a request comes or a spectator says something.
    fn rest(&mut self, until_ns: u64) {
        let left_ns = until_ns.saturating_sub(now_ns());
        if left_ns == 0 {
            return;
        }
        let wake = self.shared.wake.as_fd();
        let is_woken = if self.is_paused {
            // What spectators say would end each wait.
            is_readable(&self.shared.wake, left_ns)
        } else {
            let waited = self.session.wait(until_ns, Some(wake));
            waited.unwrap_or_else(|error| {
                let log = &self.log;
                log.warn(format_args!("a show does not hear its spectators: {error}"));
                is_readable(&self.shared.wake, left_ns)
            })
        };
        if is_woken {
            let _ = rustix::io::read(wake, &mut [0; 8]); // nothing to read is as well
        }
    }

    fn take(&mut self, session: SessionId, request: Request) {
        match request {
            Request::Watch(spectator, answer) => answer.give(self.watch(&spectator)),
            Request::Leave => self.leave(session),
            Request::Pause => self.is_paused = true,
        }
    }

    fn leave(&mut self, session: SessionId) {
        if let Some(watching) = self.spectators.remove(&session) {
            self.session.destinations().remove(watching.id);
        }
    }

    /// Sequence number and timestamp of the first packet, or why there will be none.
    fn watch(&mut self, spectator: &Spectator) -> Result<Started, String> {
        let Spectator {
            session,
            destination,
            options,
        } = spectator;
        if std::mem::replace(&mut self.is_paused, false) {
            self.session.resume();
        }
        let known = self.spectators.get(session);
        if known.is_none_or(|known| known.destination != *destination) {
            self.leave(*session);
            let added = self.session.destinations().add(*destination, options);
            let id = added.map_err(|error| error.to_string())?;
            let watching = Watching {
                id,
                destination: *destination,
                heard: 0,
            };
            self.spectators.insert(*session, watching);
            // Before the answer, at which it begins to read what came: whoever reads packets first
            // is told the time too late.
            self.session.greet().map_err(|error| error.to_string())?;
        }
        let (sequence, timestamp) = self.session.position();
        Ok(Started {
            sequence,
            timestamp,
            from_ns: None,
        })
    }
}

/// An event that never blocks.
fn wake() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Waits until there is something to read, for so long at most.
fn is_readable(descriptor: &OwnedFd, left_ns: u64) -> bool {
    let nap = Duration::from_nanos(left_ns.min(NAP_NS));
    hythe_sys::wait::ready(&mut [PollFd::new(descriptor, PollFlags::IN)], nap)[0]
}
