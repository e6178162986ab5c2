//! The TCP side: one thread that accepts clients, waits for all of them at once, and has
//! [`Service`] decide.
//!
//! `hythe media serve` binds a [`Server`] and calls [`Server::run`] with the owner of the media.
//! What holds between waits: everything that was whole is answered, or waits until its client
//! reads, or until its media was started; no client can make another wait. The limits of [`Limits`]
//! bound memory and descriptors.
//!
//! Never here: threads, blocking calls other than the one wait, packets of media.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::rand::{GetRandomFlags, getrandom};

use hythe_rtp::rtsp::{
    Action, Catalogue, ConnectionId, Counters, Limits, Notice, Outcome, Service, SessionId, Start,
    Started,
};
use hythe_sys::accept::{Accepted, Acceptor};

use super::Answer;
use super::starting::{Complete, Starting};
use super::wire::Wire;
use crate::MediaError;

/// How often overdue clients are looked for, and the owner of the media is asked what it noticed:
/// more than once within the time between another format of a channel and its goodbye.
const TICK_NS: u64 = 200_000_000;
/// New clients per wait, so that old ones get their turn.
const ACCEPTS: usize = 64;
/// Read at once from one client, so that the others get their turn.
const READ_BYTES: usize = 8 << 10;

/// The owner of the media: knows what there is, and sends it. Called from the thread of
/// [`Server::run`], which serves all clients: whatever may take long, the opening of a file too,
/// belongs to another thread.
pub trait Media: Catalogue {
    /// Begins to send, or goes on at another place, and gives `answer` how that went, at once or
    /// later. Several starts of one request come one behind the other. A stream whose start failed
    /// stands still.
    fn start(&mut self, start: &Start, answer: Answer);

    /// Stops sending and remembers the place.
    fn pause(&mut self, session: SessionId, stream: usize);

    /// Stops sending for good; also after a pause, and while a start is not answered yet.
    fn stop(&mut self, session: SessionId, stream: usize);

    /// Called a few times a second while there are clients: shows the counters, and asks for what
    /// the owner noticed of sessions.
    fn look(&mut self, counters: &Counters) -> Vec<Sign> {
        let _ = counters;
        Vec::new()
    }
}

/// What the owner of the media noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The session's client receives: it sent an RTCP report, say.
    Alive(SessionId),
    /// A stream came to its end by itself.
    Ended {
        /// The session.
        session: SessionId,
        /// Index of the stream in the description.
        stream: usize,
    },
    /// The session continues with a new description.
    Changed(SessionId),
    /// A stream has ended because its presentation is another one now.
    Replaced {
        /// Whose.
        session: SessionId,
        /// Which.
        stream: usize,
        /// The reason, one line for the client.
        why: String,
    },
}

/// Listens for clients.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    limits: Limits,
}

impl Server {
    /// Listens on each of `addresses`. `[::]` takes IPv4, too, where the system is set up as usual.
    ///
    /// # Errors
    ///
    /// [`MediaError::Socket`] with the address that is taken or not ours.
    pub fn bind(addresses: &[SocketAddr], limits: Limits) -> Result<Self, MediaError> {
        let listen = |address: &SocketAddr| {
            let listener = TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(listener)
            });
            listener.map_err(|source| MediaError::Socket {
                what: "listen",
                destination: *address,
                source,
            })
        };
        let listeners = addresses.iter().map(listen).collect::<Result<_, _>>()?;
        Ok(Self { listeners, limits })
    }

    /// Where clients find it: with the port that the kernel chose, if 0 was asked for.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.listeners.iter().map(TcpListener::local_addr);
        addresses.filter_map(Result::ok).collect()
    }

    /// Serves until `stop` can be read or is closed at its other end; then stops all media. There
    /// are never more clients than the process has descriptors for (`RLIMIT_NOFILE`), see
    /// [`Limits::fitting`].
    ///
    /// # Errors
    ///
    /// [`MediaError::System`] if the kernel refuses to wait; media is stopped in this case, too.
    pub fn run(self, media: &mut dyn Media, stop: BorrowedFd<'_>) -> Result<Counters, MediaError> {
        let starting = Starting::new().map_err(|source| MediaError::System {
            what: "make an event to wake the RTSP server with",
            source,
        })?;
        let limits = match free_descriptors() {
            Some(free) => self.limits.fitting(free),
            None => self.limits,
        };
        let mut server = ServerLoop {
            starting,
            service: Service::new(limits, Box::new(random)),
            media,
            wires: BTreeMap::new(),
            stall_ns: limits.stall_ns,
            began: Instant::now(),
            acceptor: Acceptor::default(),
            next_tick_ns: 0,
        };
        let ended = loop {
            match server.wait(&self.listeners, stop) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(source) => {
                    let what = "wait for RTSP clients";
                    break Err(MediaError::System { what, source });
                }
            }
        };
        let actions = server.service.shut_down();
        server.act(&actions);
        ended.map(|()| *server.service.counters())
    }
}

/// Descriptors that this process may still open; `None`: there is no limit, or it is not known.
fn free_descriptors() -> Option<usize> {
    let limit = usize::try_from(getrlimit(Resource::Nofile).current?).ok()?;
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    Some(limit.saturating_sub(open))
}

fn random() -> Option<u64> {
    let mut bytes = [0; 8];
    let count = getrandom(&mut bytes, GetRandomFlags::empty()).ok()?;
    (count == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}

/// The clients, and who serves them.
struct ServerLoop<'m> {
    service: Service,
    starting: Starting,
    media: &'m mut dyn Media,
    wires: BTreeMap<ConnectionId, Wire>,
    stall_ns: u64,
    began: Instant,
    acceptor: Acceptor,
    next_tick_ns: u64,
}

impl ServerLoop<'_> {
    fn now_ns(&self) -> u64 {
        // 584 years
        self.began.elapsed().as_nanos() as u64
    }

    /// Waits once and serves whoever is ready; `false`: it is time to stop.
    fn wait(&mut self, listeners: &[TcpListener], stop: BorrowedFd<'_>) -> io::Result<bool> {
        let mut descriptors = vec![
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
            PollFd::from_borrowed_fd(self.starting.wake(), PollFlags::IN),
        ];
        let pause = self.acceptor.pause();
        let doors = if pause.is_none() { listeners } else { &[] };
        descriptors.extend(doors.iter().map(|door| PollFd::new(door, PollFlags::IN)));
        descriptors.extend(self.wires.iter().map(|(id, wire)| {
            let interest = wire.interest(self.service.free_capacity(*id) > 0);
            PollFd::from_borrowed_fd(wire.stream.as_fd(), interest)
        }));
        // Without clients nothing can become overdue.
        let is_waiting = pause.is_none()
            && self.wires.is_empty()
            && self.service.is_idle()
            && self.starting.is_empty();
        let timeout_ns = self.next_tick_ns.saturating_sub(self.now_ns()).min(TICK_NS);
        let pause_ns = pause.map_or(u64::MAX, |pause| pause.as_nanos() as u64); // 100 ms
        let timeout_ns = timeout_ns.min(pause_ns);
        let timeout = Timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as i64,
            tv_nsec: (timeout_ns % 1_000_000_000) as i64,
        };
        match poll(&mut descriptors, (!is_waiting).then_some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = descriptors.iter().map(PollFd::revents);
        if ready.next().is_some_and(|events| !events.is_empty()) {
            return Ok(false);
        }
        let has_answers = ready.next().is_some_and(|events| !events.is_empty());
        let open = doors.iter().zip(ready.by_ref());
        let open: Vec<&TcpListener> = open
            .filter(|(_, events)| !events.is_empty())
            .map(|(door, _)| door)
            .collect();
        let wires = self.wires.keys().copied().zip(ready);
        let wires: Vec<_> = wires.filter(|(_, events)| !events.is_empty()).collect();
        if has_answers {
            self.complete();
        }
        for (id, events) in wires {
            self.serve(id, events);
        }
        for door in open {
            self.accept(door);
        }
        self.tick();
        Ok(true)
    }

    fn accept(&mut self, listener: &TcpListener) {
        for _ in 0..ACCEPTS {
            // What fails is counted.
            match self.acceptor.accept(listener, |_| ()) {
                Accepted::Connection(stream) => {
                    let stream = TcpStream::from(stream);
                    // One that is gone already has no peer.
                    if let Ok(peer) = stream.peer_addr() {
                        self.welcome(stream, peer);
                    }
                }
                Accepted::Surplus(stream) => {
                    self.acceptor.take_back(stream);
                    self.service.counters_mut().accept_failures += 1;
                }
                Accepted::Nothing => {
                    let is_failed = self.acceptor.pause().is_some();
                    self.service.counters_mut().accept_failures += u64::from(is_failed);
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, mut stream: TcpStream, peer: SocketAddr) {
        let now_ns = self.now_ns();
        let Ok(local) = stream.local_addr() else {
            return; // gone already
        };
        match self.service.open(peer, local, now_ns) {
            Ok(id) => match Wire::new(stream, now_ns) {
                Ok(wire) => drop(self.wires.insert(id, wire)),
                Err(_) => self.service.close(id),
            },
            Err(full) => {
                // A new socket takes that much; if not, the client sees a closed one.
                let _ = stream.set_nonblocking(true);
                let _ = stream.write(&full.reply());
            }
        }
    }

    fn serve(&mut self, id: ConnectionId, events: PollFlags) {
        let now_ns = self.now_ns();
        let Some(wire) = self.wires.get_mut(&id) else {
            return;
        };
        if events.contains(PollFlags::IN) {
            let mut buffer = [0; READ_BYTES];
            let limit = match self.service.free_capacity(id) {
                0 => READ_BYTES, // what comes behind the last request is thrown away
                limit => limit.min(READ_BYTES),
            };
            let received = wire.read(&mut buffer[..limit]);
            self.service.receive(id, received, now_ns);
        } else if !events.contains(PollFlags::OUT) {
            wire.close(); // nothing but an error, or both sides have ended it
        }
        self.go_on(id, now_ns);
    }

    /// Answers what can be answered, and forgets a connection that is over.
    fn go_on(&mut self, id: ConnectionId, now_ns: u64) {
        self.answer(id, now_ns);
        if self.wires.get(&id).is_some_and(Wire::is_closed) {
            self.forget(id);
        }
    }

    /// Answers whole requests as long as their client takes the answers, up to one whose media has
    /// to be started first.
    fn answer(&mut self, id: ConnectionId, now_ns: u64) {
        loop {
            let mut count = 0;
            while self.may_answer(id) {
                let Some(outcome) = self.service.next(id, now_ns, &*self.media) else {
                    break;
                };
                self.follow(id, outcome, now_ns);
                count += 1;
            }
            let is_starting = self.starting.has(id);
            let Some(wire) = self.wires.get_mut(&id) else {
                return;
            };
            wire.flush(now_ns);
            if is_starting {
                return;
            }
            if count == 0 {
                return wire.settle();
            }
        }
    }

    fn may_answer(&self, id: ConnectionId) -> bool {
        self.wires.get(&id).is_some_and(Wire::may_answer) && !self.starting.has(id)
    }

    /// Has the owner of the media do what a request comes to, and answers it as soon as it is known
    /// how that went.
    fn follow(&mut self, id: ConnectionId, outcome: Outcome, now_ns: u64) {
        self.act(&outcome.actions);
        let is_start = |action: &Action| matches!(action, Action::Start(_));
        if !outcome.actions.iter().any(is_start) {
            return self.reply(id, outcome, &[]);
        }
        for (start, answer) in self.starting.keep(id, outcome, now_ns) {
            self.media.start(&start, answer);
        }
        self.answer_complete(now_ns);
    }

    /// Answers the requests whose media was started; their connections, which go on.
    fn answer_complete(&mut self, now_ns: u64) -> Vec<ConnectionId> {
        let complete = self.starting.take_complete(now_ns).into_iter();
        let answered = complete.map(|complete| {
            let Complete {
                connection,
                outcome,
                started,
                given_up,
            } = complete;
            for (session, stream) in given_up {
                self.media.stop(session, stream);
            }
            self.reply(connection, outcome, &started);
            connection
        });
        answered.collect()
    }

    fn complete(&mut self) {
        let now_ns = self.now_ns();
        for id in self.answer_complete(now_ns) {
            self.go_on(id, now_ns);
        }
    }

    fn reply(&mut self, id: ConnectionId, outcome: Outcome, started: &[Result<Started, String>]) {
        let now_ns = self.now_ns();
        let is_last = outcome.is_last;
        let reply = self.service.reply(outcome, started);
        self.act(&reply.actions);
        if let Some(wire) = self.wires.get_mut(&id) {
            wire.answer(&reply.bytes, is_last, now_ns);
        }
    }

    /// Has the owner do what is done at once.
    fn act(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Start(_) => {} // is answered for itself
                Action::Pause { session, stream } => self.media.pause(*session, *stream),
                Action::Stop { session, stream } => self.media.stop(*session, *stream),
            }
        }
    }

    /// Sends a client what it did not ask for, unless it reads nothing.
    fn notify(&mut self, notice: Option<Notice>, now_ns: u64) {
        let Some(notice) = notice else {
            return;
        };
        self.act(&notice.actions);
        let wire = self.wires.get_mut(&notice.connection);
        if let Some(wire) = wire.filter(|wire| wire.may_answer()) {
            wire.answer(&notice.bytes, false, now_ns);
            wire.flush(now_ns);
        }
    }

    fn forget(&mut self, id: ConnectionId) {
        self.wires.remove(&id);
        self.service.close(id);
    }

    fn tick(&mut self) {
        let now_ns = self.now_ns();
        if now_ns < self.next_tick_ns {
            return;
        }
        self.next_tick_ns = now_ns + TICK_NS;
        for sign in self.media.look(self.service.counters()) {
            match sign {
                Sign::Alive(session) => self.service.alive(session, now_ns),
                Sign::Ended { session, stream } => self.service.ended(session, stream),
                Sign::Changed(session) => {
                    let notice = self.service.announce(session, &*self.media);
                    self.notify(notice, now_ns);
                }
                Sign::Replaced {
                    session,
                    stream,
                    why,
                } => {
                    self.service.ended(session, stream);
                    let notice = self.service.replaced(session, &why, &*self.media);
                    self.notify(notice, now_ns);
                }
            }
        }
        self.complete();
        let expired = self.service.tick(now_ns);
        self.act(&expired.actions);
        let mut overdue = expired.connections;
        for (id, wire) in &self.wires {
            let is_stalled = wire.is_stalled(self.stall_ns, now_ns);
            self.service.counters_mut().stalled_connections += u64::from(is_stalled);
            if is_stalled || wire.is_drained(now_ns) {
                overdue.push(*id);
            }
        }
        for id in overdue {
            self.forget(id);
        }
    }
}
