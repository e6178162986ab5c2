//! The file descriptors of one wait set: an epoll instance that also holds the eventfd of the
//! bridge.
//!
//! The instance itself can be waited for by others ([`Files::descriptor`]): it is readable while
//! something may be ready. Each descriptor is a duplicate, so that no number can come to mean
//! another file. Never touches shared memory but through the bridge.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hythe_sys::own_file::OwnFile;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use super::{Event, Interest, Token};
use crate::NodeError;
use crate::bridge::{Bridge, hush, ring};
use crate::doorbell::Line;
use crate::participant::Participant;
use crate::sleep_word_guard::Asleep;

/// Names the eventfd of the bridge among the descriptors.
const RUNG: u64 = u64::MAX;
/// Names the line of the doorbells.
const DOORBELLS: u64 = RUNG - 1;
/// Events fetched by one call; what does not fit is fetched by the next.
const BATCH: usize = 64;

#[derive(Debug)]
pub(super) struct Files {
    epoll: OwnFile<OwnedFd>,
    rung: OwnFile<OwnedFd>,
    files: Vec<Option<OwnFile<OwnedFd>>>,
    bridge: Option<Bridge>,
    /// Peers outside of the pool's tables were told that this sleeps.
    asleep: Option<Asleep>,
    /// Readable when a doorbell of another hop rang.
    doorbells: Option<Line>,
    /// Somebody waits for the instance itself.
    exported: AtomicBool,
}

impl Files {
    pub(super) fn new() -> Result<Self, NodeError> {
        let epoll =
            epoll::create(CreateFlags::CLOEXEC).map_err(refused("make an epoll instance"))?;
        let rung = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(refused("make an eventfd"))?;
        epoll::add(&epoll, &rung, EventData::new_u64(RUNG), EventFlags::IN)
            .map_err(refused("watch its eventfd"))?;
        Ok(Self {
            epoll: OwnFile::new(epoll),
            rung: OwnFile::new(rung),
            files: Vec::new(),
            bridge: None,
            asleep: None,
            doorbells: None,
            exported: AtomicBool::new(false),
        })
    }

    pub(super) fn attach(
        &mut self,
        file: BorrowedFd<'_>,
        interest: Interest,
    ) -> Result<Token, NodeError> {
        let own = rustix::io::fcntl_dupfd_cloexec(file, 0)
            .map_err(refused("duplicate a file descriptor"))?;
        let free = self.files.iter().position(Option::is_none);
        let place = free.unwrap_or(self.files.len());
        let token = Token::file(place);
        epoll::add(
            &self.epoll,
            &own,
            EventData::new_u64(place as u64),
            interest.flags(),
        )
        .map_err(refused("watch this kind of file descriptor"))?;
        if place == self.files.len() {
            self.files.push(None);
        }
        self.files[place] = Some(OwnFile::new(own));
        Ok(token)
    }

    /// False: it is not here.
    pub(super) fn detach(&mut self, place: usize) -> bool {
        let Some(file) = self.files.get_mut(place).and_then(Option::take) else {
            return false;
        };
        // Explicitly: the original keeps the file open, and with it the entry.
        let _ = epoll::delete(&self.epoll, &file);
        true
    }

    /// Must a wait go over the instance?
    pub(super) fn are_used(&self) -> bool {
        self.exported.load(Ordering::Relaxed) || self.files.iter().any(Option::is_some)
    }

    pub(super) fn len(&self) -> usize {
        self.files.iter().flatten().count()
    }

    /// The instance, for others to wait for.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        if !self.exported.swap(true, Ordering::Relaxed) {
            // The last wait has left nobody behind who would make it readable: whoever waits for it
            // begins with a look.
            ring(&self.rung);
        }
        self.epoll.as_fd()
    }

    /// In a forked child: the thread is not there, and the bell that it sleeps on is the parent's.
    pub(super) fn forget(&mut self) {
        std::mem::forget(self.bridge.take());
        std::mem::forget(self.doorbells.take());
    }

    /// The program has closed these, with others that it found open.
    pub(super) fn abandon(&mut self) {
        self.forget();
        let files = self.files.iter_mut().flatten();
        let own = [&mut self.epoll, &mut self.rung];
        own.into_iter().chain(files).for_each(OwnFile::abandon);
    }

    /// The bridge, started if there is none yet.
    fn bridge(&mut self, shared: &Arc<Participant>) -> Result<&Bridge, NodeError> {
        let bridge = match self.bridge.take() {
            Some(bridge) => bridge,
            None => {
                let rung = rustix::io::fcntl_dupfd_cloexec(&self.rung, 0)
                    .map_err(refused("duplicate its eventfd"))?;
                Bridge::start(shared.pool().clone(), shared.index(), rung)
                    .map_err(|source| wait_set_error("start its thread", source))?
            }
        };
        Ok(self.bridge.insert(bridge))
    }

    /// From now on a ring makes the instance readable. The caller looks for work behind this, for
    /// as long as this says.
    pub(super) fn lie_down(&mut self, shared: &Arc<Participant>) -> Result<Duration, NodeError> {
        hush(self.rung.as_fd());
        self.hear_doorbells(shared)?;
        let look_on = if self.asleep.is_none() {
            let (asleep, look_on) = Asleep::begin(shared);
            self.asleep = Some(asleep);
            look_on
        } else {
            Duration::ZERO
        };
        self.bridge(shared)?.arm();
        Ok(look_on)
    }

    /// Takes what the doorbells have rung, from the first time that there is one.
    fn hear_doorbells(&mut self, shared: &Arc<Participant>) -> Result<(), NodeError> {
        if let Some(line) = &self.doorbells {
            line.drain();
        } else if let Some(line) = shared.doorbells().line_without_bell() {
            let name = EventData::new_u64(DOORBELLS);
            epoll::add(&self.epoll, line.descriptor(), name, EventFlags::IN)
                .map_err(refused("watch the doorbells"))?;
            self.doorbells = Some(line);
        }
        Ok(())
    }

    /// The wait is over. With something found, whoever waits for the instance finds it readable;
    /// without, a ring makes it so.
    pub(super) fn rise(&mut self, found: bool) {
        let exported = self.exported.load(Ordering::Relaxed);
        if found || !exported {
            self.asleep = None;
        }
        if let Some(bridge) = self.bridge.as_ref().filter(|_| found || !exported) {
            bridge.disarm();
        }
        if found && exported {
            ring(&self.rung);
        }
    }

    /// Sleeps until a descriptor is ready or the bell was rung (true), for at most `timeout`, and
    /// appends the descriptors.
    pub(super) fn sleep(
        &self,
        timeout: Duration,
        events: &mut Vec<Event>,
    ) -> Result<bool, NodeError> {
        let mut fetched = [MaybeUninit::uninit(); BATCH];
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let (fetched, _) = match epoll::wait(&self.epoll, &mut fetched, Some(&timeout)) {
            Ok(fetched) => fetched,
            // An interrupted sleep is a short one.
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(refused("wait for file descriptors")(error)),
        };
        let mut rung = false;
        for event in fetched {
            let (place, flags) = (event.data.u64(), event.flags);
            if place == RUNG || place == DOORBELLS {
                rung = true;
            } else {
                events.push(Event {
                    token: Token::file(place as usize),
                    readable: flags.intersects(EventFlags::IN | EventFlags::PRI),
                    writable: flags.contains(EventFlags::OUT),
                    closed: flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP),
                });
            }
        }
        Ok(rung)
    }
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Readable => EventFlags::IN | EventFlags::RDHUP,
            Self::Writable => EventFlags::OUT,
            Self::Both => EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP,
        }
    }
}

fn refused(action: &'static str) -> impl FnOnce(rustix::io::Errno) -> NodeError {
    move |errno| wait_set_error(action, errno.into())
}

fn wait_set_error(action: &'static str, source: io::Error) -> NodeError {
    NodeError::WaitSet { action, source }
}
