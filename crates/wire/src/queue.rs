//! A queue of the interface as the service has it: it alone fills and completes.
//!
//! Which chunks the kernel has nobody counts: what processes give back is filled again, and what
//! they give back wrongly spoils payload of flows of this interface, which checksums find, until
//! the service starts anew.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use hythe_xdp::{
    Address, CHUNK_BYTES, Frame, ImpossibleWord, Observer, Queue, QueueSocket, Region,
};

use rustix::io::Errno;

use crate::card::Card;
use crate::layout::{FIRST_REGION_CHUNKS, FlowPlace, OWN_RING, QUEUES_MAX, RECEIVE_CHUNKS, RINGS};

/// On a busy machine the kernel needs some time until it lets go of queues that were given up.
/// Processes wait a second for an answer.
const LETTING_GO: Duration = Duration::from_millis(600);

#[derive(Debug)]
pub(crate) struct ServedQueue {
    queue: Queue,
    region: Region,
    socket: QueueSocket,
}

impl ServedQueue {
    /// Takes a queue, and gives the kernel chunks to receive into. By the first queue frames may be
    /// sent from `card`, if there is one.
    ///
    /// # Errors
    /// Also: there is one, and this kernel or card sends no frame that lies in pieces.
    pub(crate) fn open(queue: Queue, card: Option<&Card>) -> io::Result<Self> {
        let card = card.filter(|_| queue.number == 0);
        let chunks = match queue.number {
            0 => FIRST_REGION_CHUNKS,
            _ => RECEIVE_CHUNKS,
        };
        let (region, mut socket);
        if let Some(card) = card {
            region = Region::create_with(chunks, card.range())?;
            socket = QueueSocket::bind_for_pieces(&region, queue, OWN_RING)?;
            if !socket.takes_pieces() {
                return Err(io::ErrorKind::Unsupported.into());
            }
        } else {
            region = Region::create(chunks)?;
            socket = QueueSocket::bind(&region, queue, OWN_RING)?;
        }
        for chunk in 0..RECEIVE_CHUNKS {
            socket.fill.push(address_of(chunk));
        }
        socket.fill.publish();
        socket.kick();
        Ok(Self {
            queue,
            region,
            socket,
        })
    }

    pub(crate) fn is_zero_copy(&self) -> bool {
        self.socket.is_zero_copy()
    }

    /// A socket for a process, and what it gives back.
    pub(crate) fn share(&self) -> io::Result<(OwnedFd, Observer)> {
        let socket = self.socket.share(self.queue, RINGS)?;
        let observer = hythe_xdp::observe(&socket, RINGS)?;
        Ok((socket, observer))
    }

    pub(crate) fn region(&self) -> BorrowedFd<'_> {
        self.region.as_fd()
    }

    /// Fills again what a process has given back, and says how much that was.
    pub(crate) fn take_back(&mut self, observer: &mut Observer) -> Result<u32, ImpossibleWord> {
        let (fill, mut count) = (&mut self.socket.fill, 0);
        let given_back = observer.given_back(|frame| {
            count += 1;
            if let Some(chunk) = chunk_of(frame) {
                fill.push(address_of(chunk));
            }
        });
        given_back.map(|()| count)
    }

    /// Fills again everything that a process has had, behind its end.
    pub(crate) fn take_over(&mut self, observer: &mut Observer) {
        let fill = &mut self.socket.fill;
        let left = observer.left_over(|frame| {
            if let Some(chunk) = chunk_of(frame) {
                fill.push(address_of(chunk));
            }
        });
        if let Err(ImpossibleWord(word)) = left {
            tracing::warn!(
                word,
                "a process has left its ring in disorder; its chunks are lost"
            );
        }
    }

    /// Shows the kernel what was filled, and gives `sent` each chunk that has been sent: which
    /// flow's, and which of its chunks. What a frame has besides, in slots, is given back with its
    /// first piece: the kernel shows the pieces of a frame at once, and a card completes it whole.
    pub(crate) fn turn(&mut self, mut sent: impl FnMut(FlowPlace, u32)) {
        self.socket.fill.publish();
        self.socket.kick();
        while let Some(Address(address)) = self.socket.completion.pop() {
            if let Some((place, chunk)) = FlowPlace::of_frame(address) {
                sent(place, chunk);
            }
        }
        self.socket.completion.release();
    }
}

fn address_of(chunk: u32) -> Address {
    Address(u64::from(chunk) * CHUNK_BYTES as u64)
}

/// The chunk of a frame, if it is one to receive into.
fn chunk_of(frame: Frame) -> Option<u32> {
    let chunk = u32::try_from(frame.address / CHUNK_BYTES as u64).ok()?;
    (chunk < RECEIVE_CHUNKS).then_some(chunk)
}

/// How many queues there are, of those that can be served, if the driver says so.
pub(crate) fn queue_count_of(probe: &OwnedFd, interface: &str) -> Option<u32> {
    let count = hythe_sys::interface::queue_count(probe, interface).ok()?;
    Some(count.min(QUEUES_MAX))
}

/// As [`take_queues`], when they were just given up.
pub(crate) fn take_queues_again(interface: u32, card: &Card) -> io::Result<Vec<ServedQueue>> {
    let start = Instant::now();
    loop {
        let taken = take_queues(interface, Some(card));
        let is_busy = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::BUSY);
        // Each try waits for a while.
        if !taken.as_ref().is_err_and(is_busy) || start.elapsed() >= LETTING_GO {
            return taken;
        }
    }
}

/// All queues of an interface, up to a limit.
pub(crate) fn take_queues(interface: u32, card: Option<&Card>) -> io::Result<Vec<ServedQueue>> {
    let mut queues = Vec::new();
    for number in 0..QUEUES_MAX {
        match ServedQueue::open(Queue { interface, number }, card) {
            Ok(queue) => queues.push(queue),
            // There are no more.
            Err(error) if number > 0 && Errno::from_io_error(&error) == Some(Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(queues)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chunks_to_receive_into_are_filled() {
        let frame = |address| Frame { address, bytes: 60 };
        assert_eq!(chunk_of(frame(256)), Some(0));
        assert_eq!(chunk_of(frame(5 * 4096 + 4095)), Some(5));
        let last = u64::from(RECEIVE_CHUNKS) * 4096;
        assert_eq!(chunk_of(frame(last - 1)), Some(RECEIVE_CHUNKS - 1));
        assert_eq!(chunk_of(frame(last)), None);
        assert_eq!(chunk_of(frame(u64::MAX)), None);
    }
}
