//! The control file of a pool: its header, checked, and where everything stands.
//!
//! What stands behind the header is read by views: [`Tables`](crate::Tables),
//! [`Ledger`](crate::Ledger) and [`Marks`](crate::Marks). Their methods take them by value: behind
//! a reference to a view the fields of `Control` would be read again after each atomic operation.

use hythe_abi::LINE_BYTES;
use hythe_abi::pool::{ControlLayout, Limits, MAGIC, VERSION, header};
#[cfg(not(loom))]
use hythe_memory::{Mapped, View};
use hythe_memory::{Memory, Ordering};

use crate::PoolError;
use crate::limits::limit_out_of_range;

/// A control file over some memory. What it holds is private and checked; the memory is not.
#[derive(Clone, Copy, Debug)]
pub struct Control<M> {
    memory: M,
    layout: ControlLayout,
}

/// What participants do with a pool's memory when they join, so that it costs nothing later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefaultOptions {
    /// Touch every page.
    pub prefault: bool,
    /// Lock every page into memory.
    pub lock: bool,
}

impl<M: Memory> Control<M> {
    /// Makes one of words that nobody has opened yet. For [`Control::create`] and models.
    pub(crate) const fn over(memory: M, layout: ControlLayout) -> Self {
        Self { memory, layout }
    }

    /// Opens an existing pool.
    ///
    /// # Errors
    /// [`PoolError::OtherVersion`]; [`PoolError::NotAPool`] saying what does not fit;
    /// [`PoolError::Busy`] while it is still being made.
    pub fn open(memory: M) -> Result<Self, PoolError> {
        let refuse = |why: String| Err(PoolError::NotAPool(why));
        if memory.bytes() < hythe_abi::PAGE_BYTES {
            return refuse(format!(
                "a file of {} bytes is too short for the header of a pool",
                memory.bytes()
            ));
        }
        if memory.load(header::READY, Ordering::Acquire) != 1 {
            return Err(PoolError::Busy("the pool"));
        }
        let magic = memory.load_cell(header::MAGIC, Ordering::Relaxed);
        if magic != MAGIC {
            return refuse(format!("magic {magic:#018x}, expected {MAGIC:#018x}"));
        }
        let word = |at| memory.load(at, Ordering::Relaxed);
        if word(header::VERSION) != VERSION {
            let (found, expected) = (word(header::VERSION), VERSION);
            return Err(PoolError::OtherVersion { found, expected });
        }
        if word(header::LINE_BYTES) as usize != LINE_BYTES {
            return refuse(format!(
                "lines of {} bytes, expected {LINE_BYTES}",
                word(header::LINE_BYTES)
            ));
        }
        let limits = Limits {
            participants: word(header::PARTICIPANTS),
            channels: word(header::CHANNELS),
            ports: word(header::PORTS),
            connections: word(header::CONNECTIONS),
            queue_segments: word(header::QUEUE_SEGMENTS),
            slots: word(header::SLOTS),
        };
        let Some(layout) = ControlLayout::new(limits) else {
            return refuse(match limit_out_of_range(&limits) {
                Some((name, value, max)) => format!(
                    "its header gives the limit of {name} as {value}, which is not from 1 to \
                     {max}; the file is damaged: remove the pool and make it again"
                ),
                None => format!(
                    "its control tables are too large for a {}-bit program",
                    usize::BITS
                ),
            });
        };
        if memory.bytes() < layout.bytes() {
            return refuse(format!(
                "it has {} bytes, but the limits in its header need {}: the file was cut; remove the \
                 pool and make it again",
                memory.bytes(),
                layout.bytes()
            ));
        }
        Ok(Self { memory, layout })
    }

    /// The shared words.
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    /// Where they stand.
    pub const fn layout(&self) -> &ControlLayout {
        &self.layout
    }

    /// The number chosen when the pool was made.
    pub fn pool_id(&self) -> u64 {
        self.memory.load_cell(header::POOL_ID, Ordering::Relaxed)
    }

    /// What the maker asks participants to do with the memory when they join.
    pub fn prefault_options(&self) -> PrefaultOptions {
        let asked = self.memory.load(header::PREFAULT, Ordering::Relaxed);
        PrefaultOptions {
            prefault: asked & 1 != 0,
            lock: asked & 2 != 0,
        }
    }

    /// Asks for it. For the maker, before anybody opens the pool.
    pub fn set_prefault_options(&self, wanted: PrefaultOptions) {
        let bits = u32::from(wanted.prefault) | u32::from(wanted.lock) << 1;
        self.memory.store(header::PREFAULT, bits, Ordering::Relaxed);
    }

    /// Changes each time a participant joins or leaves.
    pub fn membership(&self) -> u32 {
        self.memory.load(header::MEMBERSHIP, Ordering::Acquire)
    }

    /// A session number that nobody had before: 1 to 2^24 - 1.
    pub fn new_session(&self) -> u32 {
        for _ in 0..2 {
            let number = self.memory.add(header::NEXT_SESSION, 1, Ordering::Relaxed);
            let session = number.wrapping_add(1) & 0x00FF_FFFF;
            if session != 0 {
                return session;
            }
        }
        // Zero twice in a row: somebody sets the word back each time. No number is new then, and
        // this one does not keep us here.
        1
    }

    /// May this number have been handed out by [`Control::new_session`]? 0 says that there is none.
    pub fn was_session(&self, number: u32) -> bool {
        let last = self.memory.load(header::NEXT_SESSION, Ordering::Relaxed);
        // Once all numbers were used, each may have been.
        number <= last && number <= 0x00FF_FFFF
    }
}

#[cfg(not(loom))]
impl Control<Mapped> {
    /// The same, for one step: in registers what a step needs of it ([`View`]). Hand its address to
    /// nothing that is not compiled into the same function.
    #[must_use]
    #[inline(always)]
    pub const fn view(&self) -> Control<View<'_>> {
        Control {
            memory: self.memory.view(),
            layout: self.layout,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scene;
    use hythe_memory::Mapped;

    /// Opens a good pool whose word at `at` was overwritten.
    fn open_damaged(at: usize, word: u32) -> PoolError {
        let (_, memory) = scene::pool();
        // Not as a word: Miri (May 2026) crashes on atomics of two widths in one place.
        memory.write(at, &word.to_le_bytes());
        Control::open(memory).expect_err("damaged")
    }

    #[test]
    fn made_pool_opens_with_what_it_was_made_with() {
        let (made, memory) = scene::pool();
        let opened = Control::open(memory).expect("opens");
        assert_eq!(opened.layout(), made.layout());
        assert_eq!(opened.pool_id(), 7);
        assert_eq!(opened.prefault_options(), PrefaultOptions::default());
        let wanted = PrefaultOptions {
            prefault: false,
            lock: true,
        };
        made.set_prefault_options(wanted);
        assert_eq!(opened.prefault_options(), wanted);
    }

    #[test]
    fn every_damaged_field_of_the_header_is_named() {
        let page = hythe_abi::PAGE_BYTES as u32;
        for (at, word, named) in [
            (header::MAGIC, 0, "magic"),
            (header::MAGIC + 4, 0, "magic"),
            (header::VERSION, VERSION + 1, "layout version 5"),
            (header::LINE_BYTES, 32, "lines of 32"),
            (header::PARTICIPANTS, 0, "participants as 0, which"),
            (
                header::PARTICIPANTS,
                255,
                "participants as 255, which is not from 1 to 254",
            ),
            (header::CHANNELS, 0, "channels as 0, which"),
            (header::PORTS, u32::MAX, "ports as 4294967295, which"),
            (header::CONNECTIONS, 0, "connections as 0, which"),
            (header::QUEUE_SEGMENTS, 0, "queue-segments as 0, which"),
            (header::SLOTS, 1 << 24, "slots as 16777216, which"),
            (header::SLOTS, page, "the file was cut"),
            (header::CONNECTIONS, page, "the file was cut"),
        ] {
            let refused = open_damaged(at, word);
            let is_typed = match at {
                header::VERSION => matches!(refused, PoolError::OtherVersion { .. }),
                _ => matches!(refused, PoolError::NotAPool(_)),
            };
            assert!(is_typed, "{at}: {refused:?}");
            assert!(refused.to_string().contains(named), "{at}: {refused}");
        }
    }

    #[test]
    fn pool_that_is_being_made_is_busy() {
        assert_eq!(open_damaged(header::READY, 0), PoolError::Busy("the pool"));
    }

    #[test]
    fn short_file_is_refused() {
        let memory = Mapped::anonymous(512).expect("memory");
        let refused = Control::open(memory).expect_err("short");
        assert!(
            refused
                .to_string()
                .contains("512 bytes is too short for the header"),
            "{refused}"
        );
    }
}
