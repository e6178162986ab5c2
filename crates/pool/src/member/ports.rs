//! Opening and closing ports.

use hythe_abi::pool::port;
use hythe_memory::{Memory, Ordering};
use hythe_queue::EventCell;

use super::Member;
use crate::PoolError;
use crate::control::Control;
use crate::high_water::{Table, note_table};
use crate::marks::{ask_for_marks, set_flag};
use crate::tables::channels::ChannelIndex;
use crate::tables::ports::{
    PortIndex, PortKind, PortPolicy, PortStatistics, STATUS_CLAIMED, STATUS_FREE, STATUS_OPEN,
    state_bits,
};

/// What the queues to a subscriber's port shall be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortWishes {
    /// Descriptors that wait at most, per publisher.
    pub depth: u32,
    /// When they do.
    pub policy: PortPolicy,
    /// Earlier messages wanted of each publisher.
    pub history: u32,
}

impl Member {
    /// Opens a port on a channel. A subscriber's wants no history.
    ///
    /// # Errors
    /// As [`Member::open_port_with`].
    pub fn open_port<M: Memory>(
        &mut self,
        control: &Control<M>,
        channel: ChannelIndex,
        kind: PortKind,
        depth: u32,
        policy: PortPolicy,
    ) -> Result<PortIndex, PoolError> {
        let wishes = PortWishes {
            depth,
            policy,
            history: 0,
        };
        self.open_port_with(control, channel, kind, wishes)
    }

    /// Opens a port on a channel.
    ///
    /// # Errors
    /// [`PoolError::TableFull`]; [`PoolError::Busy`] if the channel was retired since it was found:
    /// find or make it again.
    pub fn open_port_with<M: Memory>(
        &mut self,
        control: &Control<M>,
        channel: ChannelIndex,
        kind: PortKind,
        wishes: PortWishes,
    ) -> Result<PortIndex, PoolError> {
        let limit = control.layout().limits().ports;
        let (memory, me) = (control.memory(), self.index().0);
        let claim = state_bits(STATUS_CLAIMED, me, kind, self.session());
        let index = control.tables().claim_port(|index| {
            let at = control.layout().port(index as usize) + port::STATE;
            let is_claimed = memory.load_cell(at, Ordering::Relaxed) == STATUS_FREE
                && memory.replace_cell(at, STATUS_FREE, claim).is_ok();
            is_claimed.then_some(index)
        });
        let index = index.ok_or(PoolError::TableFull {
            what: "port",
            limit,
        })?;
        note_table(control, Table::Ports, index + 1);
        let at = control.layout().port(index as usize);
        memory.store(at + port::CHANNEL, channel.0, Ordering::Relaxed);
        let tables = control.tables();
        tables.note_port_channel(PortIndex(index), Some(channel));
        memory.store(at + port::DEPTH, wishes.depth, Ordering::Relaxed);
        let when_full = wishes.policy.to_word();
        memory.store(at + port::BLOCK_MS, when_full, Ordering::Relaxed);
        memory.store(at + port::HISTORY, wishes.history, Ordering::Relaxed);
        memory.store(at + port::FLAGS, 0, Ordering::Relaxed);
        EventCell::begin(memory, at + port::EVENTS);
        tables.set_statistics(PortIndex(index), PortStatistics::default());
        let open = state_bits(STATUS_OPEN, me, kind, self.session());
        memory.store_cell(at + port::STATE, open, Ordering::Release);
        // Whoever retires the channel sees this port, or its claim is seen here.
        hythe_memory::full_barrier();
        if !control.tables().channel_is_ready(channel) {
            self.close_port(control, PortIndex(index));
            self.let_go_of_port(control, index);
            return Err(PoolError::Busy("the channel"));
        }
        control.tables().note_ports_changed(channel);
        Ok(PortIndex(index))
    }

    /// Has nobody connect to an own port any more, while those who are connected stay: whoever
    /// connects meanwhile sees that, or the connection is seen behind this.
    pub fn refuse_connections<M: Memory>(&mut self, control: &Control<M>, index: PortIndex) {
        set_flag(control, index, port::NOBODY_NEW, true);
        hythe_memory::full_barrier();
    }

    /// Has others connect to an own port again.
    pub fn admit_connections<M: Memory>(&mut self, control: &Control<M>, index: PortIndex) {
        set_flag(control, index, port::NOBODY_NEW, false);
        if let Some(info) = control.tables().port(index) {
            control.tables().note_ports_changed(info.channel);
        }
    }

    /// Closes an own port: nobody connects to it any more. Its number stays taken until
    /// [`Member::free_port`], so that whoever gets it next does not meet connections that are still
    /// being left.
    pub fn close_port<M: Memory>(&mut self, control: &Control<M>, index: PortIndex) {
        let Some(info) = control
            .tables()
            .port(index)
            .filter(|info| info.member == self.index())
        else {
            return;
        };
        let at = control.layout().port(index.0 as usize) + port::STATE;
        let closed = state_bits(STATUS_CLAIMED, info.member.0, info.kind, info.session);
        control.memory().store_cell(at, closed, Ordering::Release);
        control.tables().note_ports_changed(info.channel);
    }

    /// Closes an own port, if that has not been done, and gives its number back; a channel that it
    /// was the last to use goes with it. Call when its connections are left.
    pub fn free_port<M: Memory>(&mut self, control: &Control<M>, index: PortIndex) {
        self.close_port(control, index);
        let at = control.layout().port(index.0 as usize) + port::STATE;
        let state = control.memory().load_cell(at, Ordering::Acquire);
        if state & 0xFF == STATUS_CLAIMED && (state >> 8) as u8 == self.index().0 {
            self.let_go_of_port(control, index.0);
        }
    }

    /// First the channel, then the number: whoever recovers us finds by the closed port which
    /// channel may be left without one. One that is only half open may name a channel of before,
    /// which is then looked at for nothing.
    fn let_go_of_port<M: Memory>(&mut self, control: &Control<M>, index: u32) {
        let (memory, at) = (control.memory(), control.layout().port(index as usize));
        let channel = memory.load(at + port::CHANNEL, Ordering::Relaxed);
        self.retire_channel(control, ChannelIndex(channel));
        control.tables().note_port_channel(PortIndex(index), None);
        memory.store_cell(at + port::STATE, STATUS_FREE, Ordering::Release);
    }

    /// Closes all ports of this participant, half-opened ones included.
    pub(crate) fn close_all_ports<M: Memory>(&mut self, control: &Control<M>) {
        for index in 0..control.layout().limits().ports {
            let at = control.layout().port(index as usize) + port::STATE;
            let state = control.memory().load_cell(at, Ordering::Acquire);
            if state & 0xFF == STATUS_FREE || (state >> 8) as u8 != self.index().0 {
                continue;
            }
            self.close_port(control, PortIndex(index));
            if state & 0xFF == STATUS_CLAIMED {
                // Whoever closed it may have died before it said so. Saying it twice does no harm,
                // nor about a channel of before.
                let at = control.layout().port(index as usize) + port::CHANNEL;
                let channel = ChannelIndex(control.memory().load(at, Ordering::Relaxed));
                if channel.0 < control.layout().limits().channels {
                    control.tables().note_ports_changed(channel);
                }
            }
            self.let_go_of_port(control, index);
        }
    }

    /// Says whether an own port wants a mark for each message. What was sent before is found by
    /// looking at its queues now.
    pub fn want_marks<M: Memory>(&self, control: &Control<M>, index: PortIndex, wanted: bool) {
        let found = control.tables().port(index);
        if found.is_none_or(|info| info.member != self.index()) {
            return;
        }
        ask_for_marks(control, index, wanted);
    }
}
