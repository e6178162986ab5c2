//! One stream in a thread of its own, for those who watch it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::MediaError;
use crate::instant::now_ns;
use crate::rtsp::SessionId;
use crate::send::session::{SendSession, Step};
use crate::wire::destinations::DestinationId;
use crate::wire::endpoint::DestinationOptions;
use crate::wire::health::Event;

/// Requests that may wait for the thread, which looks after every packet.
const REQUESTS: usize = 64;
/// How long the thread has to answer; it sends, reads a file and answers, and is never longer away than a disk.
const PATIENCE: Duration = Duration::from_secs(2);
/// Without requests the thread looks at the clock so often.
const NAP_NS: u64 = 100_000_000;
/// Receivers read RTCP before RTP that came earlier: the time they have to empty their sockets before the goodbye.
const LINGER: Duration = Duration::from_millis(500);

/// Sequence number and timestamp of the first packet, or why there will be none.
type Answer = Result<(u16, u32), String>;

enum Request {
    Watch {
        session: SessionId,
        destination: SocketAddr,
        options: Box<DestinationOptions>,
        answer: SyncSender<Answer>,
    },
    Leave(SessionId),
    Pause,
}

/// A stream under way. Dropped, it ends within the time of one packet.
#[derive(Debug)]
pub(super) struct Show {
    requests: SyncSender<Request>,
    /// Written to with each request; hung up with the last.
    wake: UnixStream,
    has_ended: Arc<AtomicBool>,
}

impl Show {
    /// Starts the thread. A film waits for its first spectator; live media goes on with nobody watching, so that nobody sees the past.
    pub(super) fn start(session: SendSession, is_live: bool) -> Result<Self, MediaError> {
        let (requests, incoming) = sync_channel(REQUESTS);
        let (wake, woken) = pair().map_err(|source| MediaError::System {
            what: "make a pair of sockets to wake a thread with",
            source,
        })?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let stage = Stage {
            session,
            incoming,
            woken,
            spectators: BTreeMap::new(),
            is_paused: !is_live,
        };
        let ended = Arc::clone(&has_ended);
        let named = thread::Builder::new().name("show".into());
        let started = named.spawn(move || {
            stage.run();
            ended.store(true, Ordering::Relaxed);
        });
        started.map_err(|source| MediaError::System {
            what: "start a thread",
            source,
        })?;
        Ok(Self {
            requests,
            wake,
            has_ended,
        })
    }

    /// Something lies among the requests.
    fn wake(&self) {
        // Full means that the thread is woken already, closed that it has ended.
        let _ = (&self.wake).write(&[1]);
    }

    /// Sends to a spectator from the next packet on; says which that is.
    pub(super) fn watch(
        &self,
        session: SessionId,
        destination: SocketAddr,
        options: DestinationOptions,
    ) -> Answer {
        let (answer, answered) = sync_channel(1);
        let request = Request::Watch {
            session,
            destination,
            options: Box::new(options),
            answer,
        };
        let busy = || "the show does not answer".to_owned();
        self.requests.try_send(request).map_err(|_| busy())?;
        self.wake();
        answered.recv_timeout(PATIENCE).map_err(|_| busy())?
    }

    pub(super) fn leave(&self, session: SessionId) {
        // Who cannot be told because the thread is gone has been left already.
        let _ = self.requests.send(Request::Leave(session));
        self.wake();
    }

    pub(super) fn pause(&self) {
        let _ = self.requests.send(Request::Pause);
        self.wake();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

/// What the thread has.
struct Stage {
    session: SendSession,
    incoming: Receiver<Request>,
    woken: UnixStream,
    spectators: BTreeMap<SessionId, DestinationId>,
    is_paused: bool,
}

impl Stage {
    fn run(mut self) {
        while let Some(until_ns) = self.act() {
            match self.incoming.try_recv() {
                Ok(request) => self.take(request),
                Err(TryRecvError::Empty) => self.rest(until_ns),
                Err(TryRecvError::Disconnected) => return,
            }
        }
        // It is over: the last packets are played before the goodbye, unless somebody says otherwise.
        let tell = &mut |event: &Event| tracing::info!("{event}");
        let woken = Some(self.woken.as_fd());
        if let Err(error) = self.session.finish(LINGER, woken, tell) {
            tracing::warn!(%error, "a show ended without a goodbye");
        }
    }

    /// Sends what is due; until when there is nothing to do then. `None`: it has ended, or failed, which is the same to those who
    /// watch.
    fn act(&mut self) -> Option<u64> {
        if self.is_paused {
            return Some(now_ns() + NAP_NS);
        }
        match self.session.step(&mut |event| tracing::info!("{event}")) {
            Ok(Step::Again) => Some(0),
            Ok(Step::Wait(until_ns)) => Some(until_ns.min(now_ns() + NAP_NS)),
            Ok(Step::Ended) => None,
            Err(error) => {
                tracing::warn!(%error, "a show ended");
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
        let is_woken = if self.is_paused {
            // Nobody is heard then: what spectators say would end each wait.
            is_readable(&self.woken, left_ns)
        } else {
            let woken = Some(self.woken.as_fd());
            self.session.wait(until_ns, woken).unwrap_or_else(|error| {
                tracing::warn!(%error, "a show does not hear its spectators");
                is_readable(&self.woken, left_ns)
            })
        };
        if is_woken {
            // What is left wakes once more, for nothing.
            let _ = self.woken.read(&mut [0; REQUESTS]);
        }
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Watch {
                session,
                destination,
                options,
                answer,
            } => {
                let answered = self.watch(session, destination, &options);
                let _ = answer.try_send(answered); // who asked may have given up
            }
            Request::Leave(session) => {
                if let Some(id) = self.spectators.remove(&session) {
                    self.session.destinations().remove(id);
                }
            }
            Request::Pause => self.is_paused = true,
        }
    }

    fn watch(
        &mut self,
        session: SessionId,
        destination: SocketAddr,
        options: &DestinationOptions,
    ) -> Answer {
        self.is_paused = false;
        if !self.spectators.contains_key(&session) {
            let added = self.session.destinations().add(destination, options);
            let id = added.map_err(|error| error.to_string())?;
            self.spectators.insert(session, id);
            // Before the answer, at which it begins to read what came: whoever reads packets first is told the time too late.
            self.session.greet().map_err(|error| error.to_string())?;
        }
        Ok(self.session.position())
    }
}

/// Two ends that never block.
fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (one, other) = UnixStream::pair()?;
    one.set_nonblocking(true)?;
    other.set_nonblocking(true)?;
    Ok((one, other))
}

/// Waits until there is something to read, or a hang-up, for so long at most.
fn is_readable(stream: &UnixStream, left_ns: u64) -> bool {
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: left_ns.min(NAP_NS).cast_signed(),
    };
    let mut waited = [PollFd::new(stream, PollFlags::IN)];
    matches!(poll(&mut waited, Some(&timeout)), Ok(1..))
}
