//! The server of a machine: a thread that holds [`State`] for the tasks of a pool.
//!
//! It listens at `pvm` in the pool's directory. `hythe run --pvm` starts it, unless there is one;
//! the machine ends with that job. A task's connection closes with its process: that is how it
//! leaves. Tasks on other hosts come over the agents. Never waits for one of them.

mod answers;
mod client;
mod ends;
mod hosts;
mod place;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, mem};

use hythe_node::Pool;
use hythe_sys::accept::{Accepted, Acceptor};
use rustix::event::{PollFd, PollFlags};

use crate::machine::{Outgoing, State};
use crate::tid::Tid;
use client::Client;
use ends::Ends;
use hosts::OtherHost;
use place::Place;
pub(crate) use place::socket_path;

/// It waits for what comes.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// At once; one more is closed again.
const CLIENTS_MAX: usize = 1024;
/// Output of tasks is read while less than this waits for who gets it: then they wait, as at a
/// pipe.
const OUTPUT_AHEAD: usize = 1 << 20;
const READ_BYTES: usize = 16 << 10;

/// The host of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstHost {
    /// Its name: that in the realm, if it is in one.
    pub name: String,
    /// Its number there; 0: it has none, and the machine no other hosts.
    pub realm_number: u32,
}

/// A machine that is served, until this is dropped.
#[derive(Debug)]
pub struct Server {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves the machine of a pool, on this host. `None`: somebody does.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(pool: &Pool, here: &FirstHost) -> io::Result<Option<Self>> {
        let Some(place) = Place::take(pool)? else {
            return Ok(None);
        };
        let (stop, stopped) = UnixStream::pair()?;
        let mut state = State::default();
        state.name_first_host(&here.name);
        let mut serving = Serving {
            pool: pool.clone(),
            realm_number: here.realm_number,
            place,
            ends: Ends::start(pool, here.realm_number)?,
            state,
            others: Vec::new(),
            clients: BTreeMap::new(),
            by_task: BTreeMap::new(),
            pipes: Vec::new(),
            accepted: 0,
            bytes: vec![0; client::READ_BYTES],
            acceptor: Acceptor::default(),
        };
        let thread = hythe_sys::wait::spawn("hythe-pvm", move || serving.run(&stopped))?;
        Ok(Some(Self {
            stop: Some(stop),
            thread: Some(thread),
        }))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            hythe_sys::wait::for_end_of(thread);
        }
    }
}

/// What a task prints.
#[derive(Debug)]
struct Pipe {
    task: Tid,
    to: Tid,
    from: OwnedFd,
}

#[derive(Debug)]
struct Serving {
    pool: Pool,
    realm_number: u32,
    place: Place,
    ends: Ends,
    state: State,
    others: Vec<OtherHost>,
    clients: BTreeMap<u64, Client>,
    by_task: BTreeMap<Tid, u64>,
    pipes: Vec<Pipe>,
    accepted: u64,
    /// What comes is read into them.
    bytes: Vec<u8>,
    acceptor: Acceptor,
}

impl Serving {
    fn run(&mut self, stopped: &UnixStream) {
        while !self.wait(stopped) {
            self.take_ends();
            self.look_at_hosts();
            self.accept();
            self.serve_clients();
            self.read_pipes();
            self.ends.watch(self.state.to_look_at());
            self.flush();
        }
    }

    /// True: it is to end.
    fn wait(&self, stopped: &UnixStream) -> bool {
        let mut waited_for = vec![PollFd::new(stopped, PollFlags::IN), self.ends.poll_fd()];
        let pause = self.acceptor.pause();
        if pause.is_none() {
            let listener = self.place.listener.as_fd();
            waited_for.push(PollFd::from_borrowed_fd(listener, PollFlags::IN));
            let listener = self.place.far_listener.as_fd();
            waited_for.push(PollFd::from_borrowed_fd(listener, PollFlags::IN));
        }
        waited_for.extend(self.others.iter().map(OtherHost::poll_fd));
        waited_for.extend(self.clients.values().map(Client::poll_fd));
        let pipes = self.pipes.iter().filter(|pipe| self.may_read(pipe));
        waited_for.extend(pipes.map(|pipe| PollFd::new(&pipe.from, PollFlags::IN)));
        // What these asked for has come before, so that no descriptor shows it.
        let mut clients = self.clients.values();
        let timeout = match clients.any(|client| client.is_held && !client.is_behind()) {
            true => Duration::ZERO,
            false => pause.unwrap_or(LONGEST_WAIT),
        };
        let ready = hythe_sys::wait::ready(&mut waited_for, timeout);
        ready.first().copied().unwrap_or(false)
    }

    fn accept(&mut self) {
        for is_far in [false, true] {
            loop {
                let listener = match is_far {
                    true => &self.place.far_listener,
                    false => &self.place.listener,
                };
                let accepted = listener.accept_by(&mut self.acceptor, |error| {
                    tracing::warn!(%error, "connections to the machine are refused");
                });
                match accepted {
                    Accepted::Connection(stream) => {
                        if self.clients.len() < CLIENTS_MAX {
                            self.accepted += 1;
                            let client = Client::new(stream.into(), is_far);
                            self.clients.insert(self.accepted, client);
                        }
                    }
                    // Its task finds its connection closed.
                    Accepted::Surplus(stream) => self.acceptor.take_back(stream),
                    Accepted::Nothing => break,
                }
            }
        }
    }

    fn serve_clients(&mut self) {
        let numbers: Vec<u64> = self.clients.keys().copied().collect();
        let mut bytes = mem::take(&mut self.bytes);
        for number in numbers {
            let Some(client) = self.clients.get_mut(&number) else {
                continue;
            };
            let is_open = client.is_behind() || client.read(&mut bytes);
            let mut is_sound = true;
            while let Some(client) = self.clients.get_mut(&number) {
                client.is_held = client.is_behind();
                if client.is_held {
                    break;
                }
                match client.next_request() {
                    Ok(Some(request)) => self.answer(number, request),
                    Ok(None) => break,
                    Err(_) => {
                        is_sound = false;
                        break;
                    }
                }
            }
            if !is_open || !is_sound {
                self.disconnect(number);
            }
        }
        self.bytes = bytes;
    }

    fn deliver(&mut self, sent: Vec<(Tid, Outgoing)>) {
        for (task, outgoing) in sent {
            let number = self.by_task.get(&task);
            let client = number.and_then(|number| self.clients.get_mut(number));
            if let Some(client) = client {
                client.send(&outgoing);
            }
        }
    }

    fn disconnect(&mut self, number: u64) {
        let Some(client) = self.clients.remove(&number) else {
            return;
        };
        if let Some(task) = client.task {
            self.by_task.remove(&task);
            let sent = self.state.leave(task);
            self.deliver(sent);
        }
    }

    /// Who gets it takes it, or is gone, and then it goes nowhere.
    fn may_read(&self, pipe: &Pipe) -> bool {
        let number = self.by_task.get(&pipe.to);
        let client = number.and_then(|number| self.clients.get(number));
        client.is_none_or(|client| client.waiting_bytes() < OUTPUT_AHEAD)
    }

    fn read_pipes(&mut self) {
        let mut bytes = [0; READ_BYTES];
        for pipe in mem::take(&mut self.pipes) {
            if !self.may_read(&pipe) {
                self.pipes.push(pipe);
                continue;
            }
            let read = match rustix::io::read(&pipe.from, &mut bytes) {
                Ok(read) => read,
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                    self.pipes.push(pipe);
                    continue;
                }
                // It gives nothing more.
                Err(_) => 0,
            };
            let sent = self.state.output(pipe.task, &bytes[..read]);
            self.deliver(sent);
            if read > 0 {
                self.pipes.push(pipe);
            }
        }
    }

    /// Connections tell of ends, but a process that a task forked may hold one open, and one that
    /// has not enrolled yet has none.
    fn take_ends(&mut self) {
        for task in self.ends.take() {
            if let Some(number) = self.by_task.get(&task).copied() {
                self.disconnect(number);
            }
            let sent = self.state.ended(task);
            self.deliver(sent);
        }
    }

    fn flush(&mut self) {
        let mut closed = Vec::new();
        for (number, client) in &mut self.clients {
            if !client.flush() {
                closed.push(*number);
            }
        }
        for number in closed {
            self.disconnect(number);
        }
    }
}
