//! Marks (`spec/pool.md`): which ports of a participant something may wait for, so that waiting for
//! a thousand ports looks at those few, and not at a thousand queues.
//!
//! Senders call [`Marks::announce`] behind each message, the owner of the ports calls
//! [`Marks::take_marks`] before it looks at queues. One of the two always sees the other: the
//! sender puts a full barrier between message and mark, the owner between taking a mark and looking
//! at the queue. Whoever dies in between is recovered, which raises the owner's `changes`: then it
//! looks at all queues.
//!
//! A mark is a hint. A peer that sets marks of its own invention causes looks in vain; one that
//! erases marks delays a message until the owner's next look at everything. Never waits, never
//! allocates.

use hythe_abi::pool::port;
use hythe_memory::{Memory, Ordering, full_barrier};

use crate::control::Control;
use crate::tables::members::MemberIndex;
use crate::tables::ports::PortIndex;

/// Ports in one cell, and cells' groups in a summary.
const BITS: usize = 64;
/// Honest peers change a cell at most so often while one of them tries; beyond, somebody only wants
/// to keep us here.
const TRIES_MAX: u32 = 4096;

/// The marks of a control file, and the bells that are rung behind them.
#[derive(Debug)]
pub struct Marks<'c, M> {
    control: &'c Control<M>,
}

impl<M> Clone for Marks<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Marks<'_, M> {}

impl<M> Control<M> {
    /// Its marks.
    #[inline(always)]
    pub const fn marks(&self) -> Marks<'_, M> {
        Marks { control: self }
    }
}

impl<M: Memory> Marks<'_, M> {
    /// Tells the owner of a port, behind a message for it, that there is one: by a mark if it wants
    /// marks, and by its bell. True: it sleeps, and the caller must wake the futex of its bell.
    ///
    /// Where no marks are wanted this reads one word more than the bell alone, and writes nothing
    /// more.
    #[must_use]
    #[inline]
    pub fn announce(self, owner: MemberIndex, index: PortIndex) -> bool {
        // Between the message and the looks at flag, marks and sleepers. Partners: `want_marks`,
        // `take_marks`, `lie_down`.
        full_barrier();
        self.announce_behind_barrier(owner, index)
    }

    /// As [`announce`](Self::announce), for a caller that has put one full barrier behind all its
    /// messages itself.
    #[must_use]
    #[inline]
    pub fn announce_behind_barrier(self, owner: MemberIndex, index: PortIndex) -> bool {
        if !self.needs_announcing(owner, index) {
            return false;
        }
        if self.wants_marks(index) && self.mark(owner, index) {
            // Between the mark and the look for sleepers; its partner is the barrier in `lie_down`.
            full_barrier();
        }
        self.control
            .tables()
            .bell(owner)
            .ring_behind_barrier(self.control.memory())
    }

    /// Is there anything to be done by [`announce_behind_barrier`](Self::announce_behind_barrier)?
    /// Nearly always not: two looks, and no change.
    #[must_use]
    #[inline(always)]
    pub fn needs_announcing(self, owner: MemberIndex, index: PortIndex) -> bool {
        let bell = self.control.tables().bell(owner);
        self.wants_marks(index) || bell.has_sleepers(self.control.memory())
    }

    /// Does the owner of a port want marks?
    #[inline(always)]
    pub fn wants_marks(self, index: PortIndex) -> bool {
        if index.0 >= self.control.layout().limits().ports {
            return false;
        }
        let at = self.control.layout().port(index.0 as usize) + port::FLAGS;
        self.control.memory().load(at, Ordering::Relaxed) & port::MARKS_WANTED != 0
    }

    /// Marks a port of a participant; the caller has put a full barrier behind its message. False:
    /// all was marked already.
    fn mark(self, owner: MemberIndex, index: PortIndex) -> bool {
        if !self.control.tables().has_row(owner) {
            return false;
        }
        let (layout, row) = (self.control.layout(), owner.0.into());
        let (cell, bit) = (index.0 as usize / BITS, index.0 as usize % BITS);
        let set = set_bit(self.control.memory(), layout.mark_cell(row, cell), bit);
        // Whatever became of the first: whoever set that may have stopped before this.
        let summary = cell / layout.mark_span();
        let summed = set_bit(self.control.memory(), layout.mark_summary(row), summary);
        set || summed
    }

    /// Takes all marks of the own row, and says which ports they stand for. True: there were some,
    /// and a full barrier stands behind them, so that looking at the queues of these ports finds
    /// all that was marked.
    pub fn take_marks(self, own: MemberIndex, mut found: impl FnMut(PortIndex)) -> bool {
        let (layout, memory, row) = (self.control.layout(), self.control.memory(), own.0.into());
        let mut summary = take_cell(memory, layout.mark_summary(row));
        if summary == 0 {
            return false;
        }
        let ports = layout.limits().ports;
        while summary != 0 {
            let first = summary.trailing_zeros() as usize * layout.mark_span();
            summary &= summary - 1;
            let end = (first + layout.mark_span()).min(layout.mark_cells());
            for cell in first..end {
                let mut marks = take_cell(memory, layout.mark_cell(row, cell));
                while marks != 0 {
                    // Fits: ports are numbered by 32 bits.
                    let number = (cell * BITS) as u32 + marks.trailing_zeros();
                    marks &= marks - 1;
                    if number < ports {
                        found(PortIndex(number));
                    }
                }
            }
        }
        // Between the marks and the look at the queues; its partner is the first barrier in
        // `announce`.
        full_barrier();
        true
    }
}

/// Writes the flag of a port of one's own.
pub(crate) fn ask_for_marks<M: Memory>(control: &Control<M>, index: PortIndex, wanted: bool) {
    set_flag(control, index, port::MARKS_WANTED, wanted);
    // Between the flag and the look at the queues; its partner is the first barrier in `announce`.
    full_barrier();
}

/// Sets or clears a flag of a port of one's own.
pub(crate) fn set_flag<M: Memory>(control: &Control<M>, index: PortIndex, flag: u32, is_set: bool) {
    let at = control.layout().port(index.0 as usize) + port::FLAGS;
    let others = control.memory().load(at, Ordering::Relaxed) & !flag;
    let flags = others | if is_set { flag } else { 0 };
    control.memory().store(at, flags, Ordering::Relaxed);
}

/// Sets one bit of a cell that many write. False: it was set, or somebody keeps changing the cell
/// to keep us here.
fn set_bit<M: Memory>(memory: &M, at: usize, bit: usize) -> bool {
    // Pairs with the release half of the owner's swap: whoever sees a cell that was emptied sees
    // the summary emptied.
    let mut found = memory.load_cell(at, Ordering::Acquire);
    for _ in 0..TRIES_MAX {
        if found >> bit & 1 == 1 {
            return false;
        }
        match memory.replace_cell(at, found, found | 1 << bit) {
            Ok(()) => return true,
            Err(now) => found = now,
        }
    }
    false
}

/// Empties a cell that many write, and says what was in it.
fn take_cell<M: Memory>(memory: &M, at: usize) -> u64 {
    // Relaxed: a value other than 0 is confirmed by the swap.
    let mut found = memory.load_cell(at, Ordering::Relaxed);
    for _ in 0..TRIES_MAX {
        if found == 0 {
            break;
        }
        match memory.replace_cell(at, found, 0) {
            Ok(()) => break,
            Err(now) => found = now,
        }
    }
    found
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scene;
    use crate::{ChannelType, PortKind, PortPolicy};

    fn marked(control: &Control<hythe_memory::Mapped>, own: MemberIndex) -> Vec<u32> {
        let mut ports = Vec::new();
        control.marks().take_marks(own, |port| ports.push(port.0));
        ports
    }

    #[test]
    fn only_ports_that_want_marks_get_them() {
        let control = scene::control();
        let mut member = scene::join(&control);
        let me = member.index();
        let raw = ChannelType::default();
        let channel = member.open_channel(&control, "c", &raw).expect("made");
        let policy = PortPolicy::DropNewest;
        let port = member.open_port(&control, channel, PortKind::Subscriber, 2, policy);
        let port = port.expect("port");
        assert!(!control.marks().announce(me, port), "nobody sleeps");
        assert!(!control.marks().needs_announcing(me, port));
        assert!(marked(&control, me).is_empty());
        member.want_marks(&control, port, true);
        assert!(control.marks().needs_announcing(me, port));
        assert!(!control.marks().announce(me, port));
        assert!(!control.marks().announce(me, port));
        assert_eq!(marked(&control, me), [port.0]);
        assert!(marked(&control, me).is_empty(), "a mark is taken once");
        member.free_port(&control, port);
        // It was the only port, so the channel went with it.
        let channel = member.open_channel(&control, "c", &raw).expect("made");
        let again = member.open_port(&control, channel, PortKind::Subscriber, 2, policy);
        assert_eq!(again, Ok(port));
        assert!(!control.marks().wants_marks(port), "of an earlier port");
    }

    #[test]
    fn mark_whose_maker_stopped_halfway_is_finished_by_the_next() {
        let control = scene::control();
        let me = scene::join(&control).index();
        let cell = control.layout().mark_cell(me.0.into(), 0);
        control.memory().store_cell(cell, 1, Ordering::Relaxed);
        assert!(marked(&control, me).is_empty(), "the summary is not set");
        assert!(control.marks().mark(me, PortIndex(0)));
        assert_eq!(marked(&control, me), [0]);
    }

    #[test]
    fn nonsense_in_marks_and_numbers_is_passed_over() {
        let control = scene::control();
        let me = scene::join(&control).index();
        let (layout, row) = (control.layout(), me.0.into());
        for at in [layout.mark_summary(row), layout.mark_cell(row, 0)] {
            control.memory().store_cell(at, u64::MAX, Ordering::Relaxed);
        }
        assert_eq!(marked(&control, me), [0, 1], "there are two ports");
        assert!(!control.marks().wants_marks(PortIndex(u32::MAX)));
        assert!(!control.marks().mark(MemberIndex(250), PortIndex(0)));
        assert_eq!(control.tables().cpus(MemberIndex(250)), 0);
    }
}
