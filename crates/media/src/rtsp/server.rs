//! The TCP side: one thread that accepts clients, waits for all of them at once, and has [`Service`] decide.
//!
//! `hythe media serve` binds a [`Server`] and calls [`Server::run`] with the owner of the media. What holds between waits: everything
//! that was whole is answered, or waits until its client reads; no client can make another wait, but for the time that
//! the owner takes for an action. The limits of [`Limits`] bound memory and descriptors.
//!
//! Never here: threads, blocking calls other than the one wait, packets of media.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use super::wire::Wire;
use super::{
    Action, Catalogue, ConnectionId, Counters, Limits, Service, SessionId, Start, Started,
};
use crate::MediaError;

/// How often overdue clients are looked for.
const TICK_NS: u64 = 1_000_000_000;
/// New clients per wait, so that old ones get their turn.
const ACCEPTS: usize = 64;
/// Read at once from one client, so that the others get their turn.
const READ_BYTES: usize = 8 << 10;

/// The owner of the media: knows what there is, and sends it. Called from the thread of [`Server::run`]; whatever takes long belongs
/// to another one.
pub trait Media: Catalogue {
    /// Begins to send, or goes on at another place. Several starts of one request come one behind the other.
    ///
    /// # Errors
    ///
    /// Why it cannot, in one line: the client is told so with 503. The stream then stands still.
    fn start(&mut self, start: &Start) -> Result<Started, String>;

    /// Stops sending and remembers the place.
    fn pause(&mut self, session: SessionId, stream: usize);

    /// Stops sending for good; also after a pause.
    fn stop(&mut self, session: SessionId, stream: usize);

    /// Called about once a second while there are clients: shows the counters, and asks for what the owner noticed of sessions.
    fn look(&mut self, counters: &Counters) -> Vec<Sign> {
        let _ = counters;
        Vec::new()
    }
}

/// What the owner of the media noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The session's client receives: it sent an RTCP report, say.
    Alive(SessionId),
    /// A stream came to its end by itself.
    Ended {
        /// Whose.
        session: SessionId,
        /// Which.
        stream: usize,
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

    /// Serves until `stop` can be read or is closed at its other end; then stops all media.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`] if the kernel refuses to wait; media is stopped in this case, too.
    pub fn run(self, media: &mut dyn Media, stop: BorrowedFd<'_>) -> Result<Counters, MediaError> {
        let mut room = Room {
            service: Service::new(self.limits, Box::new(random)),
            media,
            wires: BTreeMap::new(),
            stall_ns: self.limits.stall_ns,
            began: Instant::now(),
            is_accepting: true,
            next_tick_ns: 0,
        };
        let ended = loop {
            match room.wait(&self.listeners, stop) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(source) => {
                    let what = "wait for RTSP clients";
                    break Err(MediaError::System { what, source });
                }
            }
        };
        let actions = room.service.shut_down();
        room.act(&actions);
        ended.map(|()| *room.service.counters())
    }
}

fn random() -> Option<u64> {
    let mut bytes = [0; 8];
    let count = getrandom(&mut bytes, GetRandomFlags::empty()).ok()?;
    (count == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}

/// The clients, and who serves them.
struct Room<'m> {
    service: Service,
    media: &'m mut dyn Media,
    wires: BTreeMap<ConnectionId, Wire>,
    stall_ns: u64,
    began: Instant,
    /// False for a while after the kernel had no descriptor for a client.
    is_accepting: bool,
    next_tick_ns: u64,
}

impl Room<'_> {
    fn now_ns(&self) -> u64 {
        // 584 years
        self.began.elapsed().as_nanos() as u64
    }

    /// Waits once and serves whoever is ready; `false`: it is time to stop.
    fn wait(&mut self, listeners: &[TcpListener], stop: BorrowedFd<'_>) -> io::Result<bool> {
        let mut descriptors = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        let doors = if self.is_accepting { listeners } else { &[] };
        descriptors.extend(doors.iter().map(|door| PollFd::new(door, PollFlags::IN)));
        descriptors.extend(self.wires.iter().map(|(id, wire)| {
            let interest = wire.interest(self.service.room(*id) > 0);
            PollFd::from_borrowed_fd(wire.stream.as_fd(), interest)
        }));
        // Without clients nothing can become overdue.
        let is_waiting = self.is_accepting && self.wires.is_empty() && self.service.is_idle();
        let timeout_ns = self.next_tick_ns.saturating_sub(self.now_ns()).min(TICK_NS);
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
        let open = doors.iter().zip(ready.by_ref());
        let open: Vec<&TcpListener> = open
            .filter(|(_, events)| !events.is_empty())
            .map(|(door, _)| door)
            .collect();
        let wires = self.wires.keys().copied().zip(ready);
        let wires: Vec<_> = wires.filter(|(_, events)| !events.is_empty()).collect();
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
            match listener.accept() {
                Ok((stream, peer)) => self.welcome(stream, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    // No descriptor or memory: to try again at once would be to spin.
                    self.service.counters_mut().accept_failures += 1;
                    self.is_accepting = false;
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
            let room = match self.service.room(id) {
                0 => READ_BYTES, // what comes behind the last request is thrown away
                room => room.min(READ_BYTES),
            };
            let received = wire.read(&mut buffer[..room]);
            self.service.receive(id, received, now_ns);
        } else if !events.contains(PollFlags::OUT) {
            wire.close(); // nothing but an error, or both sides have ended it
        }
        self.answer(id, now_ns);
        if self.wires.get(&id).is_some_and(Wire::is_closed) {
            self.forget(id);
        }
    }

    /// Answers whole requests as long as their client takes the answers.
    fn answer(&mut self, id: ConnectionId, now_ns: u64) {
        loop {
            let mut count = 0;
            while self.wires.get(&id).is_some_and(Wire::may_answer) {
                let Some(outcome) = self.service.next(id, now_ns, &*self.media) else {
                    break;
                };
                let is_last = outcome.is_last;
                let started = self.act(&outcome.actions);
                let reply = self.service.reply(outcome, &started);
                self.act(&reply.actions);
                if let Some(wire) = self.wires.get_mut(&id) {
                    wire.answer(&reply.bytes, is_last, now_ns);
                }
                count += 1;
            }
            let Some(wire) = self.wires.get_mut(&id) else {
                return;
            };
            wire.flush(now_ns);
            if count == 0 {
                return wire.settle();
            }
        }
    }

    /// Has the owner do it; how each start went.
    fn act(&mut self, actions: &[Action]) -> Vec<Result<Started, String>> {
        let mut started = Vec::new();
        for action in actions {
            match action {
                Action::Start(start) => started.push(self.media.start(start)),
                Action::Pause { session, stream } => self.media.pause(*session, *stream),
                Action::Stop { session, stream } => self.media.stop(*session, *stream),
            }
        }
        started
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
        self.is_accepting = true;
        for sign in self.media.look(self.service.counters()) {
            match sign {
                Sign::Alive(session) => self.service.alive(session, now_ns),
                Sign::Ended { session, stream } => self.service.ended(session, stream),
            }
        }
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
