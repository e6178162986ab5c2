//! One stream in a thread of its own, for those who watch it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::MediaError;
use crate::instant::now_ns;
use crate::rtsp::SessionId;
use crate::send::session::{SendSession, Step};
use crate::wire::destinations::DestinationId;
use crate::wire::endpoint::DestinationOptions;

/// Requests that may wait for the thread, which looks after every packet.
const REQUESTS: usize = 64;
/// How long the thread has to answer; it sends, reads a file and answers, and is never longer away than a disk.
const PATIENCE: Duration = Duration::from_secs(2);
/// Without requests the thread looks at the clock so often.
const NAP: Duration = Duration::from_millis(100);
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
    has_ended: Arc<AtomicBool>,
}

impl Show {
    /// Starts the thread. A film waits for its first spectator; live media goes on with nobody watching, so that nobody sees the past.
    pub(super) fn start(session: SendSession, is_live: bool) -> Result<Self, MediaError> {
        let (requests, incoming) = sync_channel(REQUESTS);
        let has_ended = Arc::new(AtomicBool::new(false));
        let stage = Stage {
            session,
            incoming,
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
            has_ended,
        })
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
        answered.recv_timeout(PATIENCE).map_err(|_| busy())?
    }

    pub(super) fn leave(&self, session: SessionId) {
        // Who cannot be told because the thread is gone has been left already.
        let _ = self.requests.send(Request::Leave(session));
    }

    pub(super) fn pause(&self) {
        let _ = self.requests.send(Request::Pause);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

/// What the thread has.
struct Stage {
    session: SendSession,
    incoming: Receiver<Request>,
    spectators: BTreeMap<SessionId, DestinationId>,
    is_paused: bool,
}

impl Stage {
    fn run(mut self) {
        while let Some(wait) = self.act() {
            match self.incoming.recv_timeout(wait) {
                Ok(request) => self.take(request),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        // It is over: the last packets are played before the goodbye, unless nobody listens any more.
        let listened = self.incoming.recv_timeout(LINGER);
        if !matches!(listened, Err(RecvTimeoutError::Disconnected))
            && let Err(error) = self.session.say_goodbye()
        {
            tracing::warn!(%error, "a show ended without a goodbye");
        }
    }

    /// Sends what is due; how long there is to wait then. `None`: it has ended, or failed, which is the same to those who watch.
    fn act(&mut self) -> Option<Duration> {
        if self.is_paused {
            return Some(NAP);
        }
        match self.session.step(&mut |event| tracing::info!("{event}")) {
            Ok(Step::Again) => Some(Duration::ZERO),
            Ok(Step::Wait(until_ns)) => {
                Some(Duration::from_nanos(until_ns.saturating_sub(now_ns())).min(NAP))
            }
            Ok(Step::Ended) => None,
            Err(error) => {
                tracing::warn!(%error, "a show ended");
                None
            }
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
        }
        Ok(self.session.position())
    }
}
