//! The memory of a transfer: two rings and their buffers in one slot. Places are those of
//! `rtos/transports/vring/transfer.h`.

use hythe_abi::Descriptor;
use hythe_memory::{Access, Mapped, Memory as _, Ordering};
use hythe_node::{Pool, Publisher, Sample};

use crate::error::VringError;
use crate::ring::{BUFFERS_BYTES, Places, RING_BYTES, Receiver, Sender};

/// Not 0 once nothing comes any more.
const OVER: usize = 64;
const TO_CORE: Places = Places {
    ring: 256,
    buffers: 8192,
};
const TO_LINUX: Places = Places {
    ring: TO_CORE.ring + RING_BYTES,
    buffers: TO_CORE.buffers + BUFFERS_BYTES,
};
/// Bytes of the memory of a transfer.
pub const BYTES: usize = TO_LINUX.buffers + BUFFERS_BYTES;

/// A slot that the core has as a message, and this side as words.
#[derive(Debug)]
pub struct Memory {
    map: Mapped,
    /// Where the slot's payload begins in it.
    payload: usize,
    /// Whatever the core does, the slot is nobody else's while this side writes to it.
    _held: Sample,
}

impl Memory {
    /// Leases a slot of the core, prepares it, and gives it to the core. It begins with `words`,
    /// at most 16, for the program there.
    ///
    /// # Errors
    /// What [`Publisher::lease`] and [`Publisher::forward`] say; [`VringError::NotTaken`].
    pub fn lend(
        pool: &Pool,
        publisher: &mut Publisher,
        channel: &str,
        words: &[u32],
    ) -> Result<Self, VringError> {
        let slot = publisher.lease(BYTES)?.freeze(BYTES);
        let memory = Self::map(pool, slot.descriptor(), slot.part(0, BYTES)?)?;
        memory.clear(words);
        let published = publisher.forward(slot)?;
        match published.delivered {
            1 => Ok(memory),
            _ => Err(VringError::NotTaken {
                channel: channel.to_owned(),
            }),
        }
    }

    /// Both ends of this side. Once.
    #[must_use]
    pub const fn ends(&self) -> (Sender, Receiver) {
        let to_core = Sender::open(self.places(TO_CORE));
        (to_core, Receiver::open(self.places(TO_LINUX)))
    }

    /// What the ends work on.
    #[must_use]
    pub const fn words(&self) -> &Mapped {
        &self.map
    }

    /// Says that nothing comes any more. The core has to be rung.
    pub fn end(&self) {
        self.map.store(self.payload + OVER, 1, Ordering::Release);
    }

    /// Maps a slot once more, as words.
    fn map(pool: &Pool, slot: Descriptor, held: Sample) -> Result<Self, VringError> {
        let place = slot.place;
        let unknown = || VringError::Map(std::io::ErrorKind::NotFound.into());
        let region = pool.region(place.region).ok_or_else(unknown)?;
        let start = region.slot_offset(place.slot).ok_or_else(unknown)?;
        let path = pool.path().join(format!("region.{}", place.region.0));
        let opened = std::fs::File::options().read(true).write(true).open(path);
        let payload = slot.offset as usize;
        let map = opened
            .and_then(|file| Mapped::file(&file, start as u64, payload + BYTES, Access::Write))
            .map_err(VringError::Map)?;
        let _ = map.prefault();
        Ok(Self {
            map,
            payload,
            _held: held,
        })
    }

    /// Places are counted from the payload on.
    const fn places(&self, places: Places) -> Places {
        Places {
            ring: self.payload + places.ring,
            buffers: self.payload + places.buffers,
        }
    }

    fn clear(&self, words: &[u32]) {
        for (index, word) in words.iter().enumerate() {
            let at = self.payload + 4 * index;
            self.map.store(at, *word, Ordering::Relaxed);
        }
        self.map.store(self.payload + OVER, 0, Ordering::Relaxed);
        self.places(TO_CORE).clear(&self.map);
        self.places(TO_LINUX).clear(&self.map);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_core() {
        assert_eq!(TO_LINUX.ring, 3456);
        assert_eq!((TO_LINUX.buffers, BYTES), (139_264, 270_336));
        const { assert!(TO_LINUX.ring + RING_BYTES <= TO_CORE.buffers) };
    }
}
