//! The server's side of QEMU's ivshmem protocol (QEMU, `docs/specs/ivshmem-spec.txt`), for one
//! peer: the emulator whose core rings us.
//!
//! Called by the doorbell when the emulator has connected. A message is a number of eight bytes,
//! some with a file. The device's memory serves nothing here: a core shares its memory with Linux
//! as its board says. Never waits, and never reads: a peer has nothing to say.

use std::io::{Error, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

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
    /// The core adds to it.
    rung: OwnedFd,
}

impl Events {
    /// Greets the emulator at the other end of `socket`.
    pub(crate) fn greet(socket: &UnixStream) -> Result<Self, Error> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let (ring, rung) = (event()?, event()?);
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
        Ok(Self { ring, rung })
    }

    /// Rings the core. An event whose counter is full holds rings enough.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.ring, &1_u64.to_ne_bytes());
    }

    /// Takes all rings of the core; has there been one?
    pub(crate) fn drain(&self) -> bool {
        loop {
            match rustix::io::read(&self.rung, &mut [0_u8; 8]) {
                Err(Errno::INTR) => {}
                taken => return taken.is_ok(),
            }
        }
    }

    /// Ready when the core has rung.
    pub(crate) fn rung(&self) -> BorrowedFd<'_> {
        self.rung.as_fd()
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
    fn a_peer_gets_what_it_needs_to_ring_and_to_be_rung() {
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
        assert!(events.drain() && !events.drain());
        events.ring();
        events.ring();
        let mut count = [0; 8];
        rustix::io::read(&rings_core, &mut count).expect("rung");
        assert_eq!(u64::from_ne_bytes(count), 2);
    }

    #[test]
    fn a_peer_that_is_gone_is_an_error() {
        let (server, peer) = UnixStream::pair().expect("sockets");
        drop(peer);
        assert!(Events::greet(&server).is_err());
    }
}
