//! The server's side of QEMU's ivshmem protocol (QEMU, `docs/specs/ivshmem-spec.txt`), for one
//! peer: the emulator whose core rings us.
//!
//! Called by the doorbell when the emulator has connected. A message is a number of eight bytes,
//! some with a file. The device's memory serves nothing here: a core shares its memory with Linux
//! as its board says. What rings either way is also handed to the processes that attach
//! (`eventfds`), so nobody reads the event that the core adds to: who reads takes the ring away
//! from all who wait. Never waits, and never reads: a peer has nothing to say.

use std::io::{Error, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::eventfds::Offer;
use crate::link::LinkMap;

/// Of the protocol.
const VERSION: i64 = 0;
/// We are a peer like any other, the first.
const AGENT: i64 = 0;
/// The emulator.
const CORE: i64 = 1;
/// Precedes the file of the device's memory.
const MEMORY: i64 = -1;
/// The device insists on some.
const MEMORY_BYTES: u64 = 4096;

/// What rings either way.
#[derive(Debug)]
pub(crate) struct Events {
    /// Interrupts the core.
    ring: OwnedFd,
    /// The core adds to it, and nobody reads it.
    rung: OwnedFd,
    /// Edge-triggered, so that each ring is told once: of `rung`, and of whoever asks for both.
    told: OwnedFd,
    /// Of `rung` nothing is told: the core wakes whoever waits for it.
    is_deaf: AtomicBool,
    /// Where processes ask for both, and the link that they ask about.
    offer: Option<(Offer, LinkMap)>,
}

const RINGS: EventFlags = EventFlags::IN.union(EventFlags::ET);
/// Names `rung` among what is told.
const RUNG: u64 = 0;
/// Names the offer.
const OFFER: u64 = 1;

impl Events {
    /// Greets the emulator at the other end of `socket`.
    pub(crate) fn greet(socket: &UnixStream) -> Result<Self, Error> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let (ring, rung) = (event()?, event()?);
        let told = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&told, &rung, EventData::new_u64(RUNG), RINGS)?;
        let memory = memfd_create("ivshmem", MemfdFlags::CLOEXEC)?;
        ftruncate(&memory, MEMORY_BYTES)?;
        for (number, file) in [
            (VERSION, None),
            (CORE, None),
            (MEMORY, Some(memory.as_fd())),
            (AGENT, Some(rung.as_fd())),
            (CORE, Some(ring.as_fd())),
        ] {
            send(socket, number, file)?;
        }
        Ok(Self {
            ring,
            rung,
            told,
            is_deaf: AtomicBool::new(false),
            offer: None,
        })
    }

    /// Hands both events to processes of this link that ask, from now on.
    pub(crate) fn offer(&mut self, offer: Offer, link: &LinkMap) -> Result<(), Error> {
        let name = EventData::new_u64(OFFER);
        // Edge-triggered: one that waits where the agent may open no more files is not told again
        // and again.
        epoll::add(&self.told, offer.as_fd(), name, RINGS)?;
        self.offer = Some((offer, link.clone()));
        Ok(())
    }

    /// Rings the core. An event whose counter is full holds rings enough.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.ring, &1_u64.to_ne_bytes());
    }

    /// Is told of the core's rings, or not: each costs the agent a wake-up. Told again, it takes
    /// rings that it has missed for a new one.
    pub(crate) fn hear(&self, wanted: bool) {
        if self.is_deaf.swap(!wanted, Ordering::Relaxed) != wanted {
            return;
        }
        let flags = if wanted { RINGS } else { EventFlags::ET };
        // Both are open, and one holds the other: this does not fail.
        let _ = epoll::modify(&self.told, &self.rung, EventData::new_u64(RUNG), flags);
    }

    /// Serves whoever asks for the events, and takes all rings of the core; has there been one?
    pub(crate) fn drain(&self) -> bool {
        let mut fetched = [MaybeUninit::uninit(); 2];
        let told = epoll::wait(&self.told, &mut fetched, Some(&Timespec::default()));
        let mut rung = false;
        // Interrupted: it is still ready.
        for event in told.map_or(&[][..], |(told, _)| told) {
            match &self.offer {
                Some((offer, link)) if event.data.u64() == OFFER => {
                    offer.serve(link.linux_session(), (&self.ring, &self.rung));
                }
                _ => rung = true,
            }
        }
        rung
    }

    /// Ready when the core has rung, or somebody asks for the events.
    pub(crate) fn ready(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }
}

fn send(socket: &UnixStream, number: i64, file: Option<BorrowedFd<'_>>) -> Result<(), Error> {
    let bytes = number.to_le_bytes();
    let files: &[BorrowedFd<'_>] = file.as_slice();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(ErrorKind::OutOfMemory.into());
    }
    let sent = sendmsg(
        socket,
        &[IoSlice::new(&bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    match sent == bytes.len() {
        true => Ok(()),
        false => Err(ErrorKind::WriteZero.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

    use super::*;

    /// As the emulator does.
    fn receive(socket: &UnixStream) -> (i64, Option<OwnedFd>) {
        let mut bytes = [0; 8];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut pieces = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(socket, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC);
        assert_eq!(received.expect("sent before").bytes, 8);
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        (i64::from_le_bytes(bytes), file)
    }

    #[test]
    fn peer_gets_what_it_needs_to_ring_and_to_be_rung() {
        let (server, peer) = UnixStream::pair().expect("sockets");
        let events = Events::greet(&server).expect("greeted");
        let (version, none) = receive(&peer);
        assert_eq!((version, none.is_none()), (0, true));
        let (own, none) = receive(&peer);
        assert_eq!((own, none.is_none()), (1, true));
        let (memory, file) = receive(&peer);
        let file = file.expect("memory");
        let status = rustix::fs::fstat(&file).expect("a file");
        assert_eq!((memory, status.st_size), (-1, 4096));
        let (agent, rings_agent) = receive(&peer);
        let (core, rings_core) = receive(&peer);
        assert_eq!((agent, core), (0, own));
        let (rings_agent, rings_core) = rings_agent.zip(rings_core).expect("two events");

        assert!(!events.drain());
        rustix::io::write(&rings_agent, &1_u64.to_ne_bytes()).expect("rung");
        assert_eq!((events.drain(), events.drain()), (true, false));
        events.ring();
        events.ring();
        let mut count = [0; 8];
        rustix::io::read(&rings_core, &mut count).expect("rung");
        assert_eq!(u64::from_ne_bytes(count), 2);
    }

    #[test]
    fn peer_that_is_gone_is_an_error() {
        let (server, peer) = UnixStream::pair().expect("sockets");
        drop(peer);
        assert!(Events::greet(&server).is_err());
    }
}
