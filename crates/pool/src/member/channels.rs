//! Making, binding and retiring channels: names under which ports meet.
//!
//! A name is claimed by whoever uses it first. Of two claims of one name at the same moment at
//! least one sees the other, takes itself back, and tries again a little later
//! ([`PoolError::Busy`]).

use hythe_abi::pool::{CORE_PORTS_MAX, NAME_BYTES, NOBODY, channel};
use hythe_memory::{Memory, Ordering, write_name};

use super::{Member, check_name};
use crate::control::Control;
use crate::high_water::{Table, note_table};
use crate::tables::channels::{
    CLAIMED, CLOSING, ChannelIndex, ChannelInfo, ChannelKind, ChannelType, CoreBinding, FREE,
    LETTING_GO, READY, hash_of, state, status_of,
};
use crate::tables::members::MemberIndex;
use crate::{PoolError, incompatible_channel};

/// How often a channel is looked at that somebody else takes up whenever it is about to go. After
/// that it has a user.
const RETIRE_ATTEMPTS: usize = 64;

/// The bits of `attached` that name the endpoint's row.
const ATTACHED_ROW: u64 = 0xFF00;

fn row_bits(row: Option<MemberIndex>) -> u64 {
    row.map_or(0, |row| (u64::from(row.0) + 1) << 8)
}

impl Member {
    /// Finds the publish/subscribe channel of that name, or makes it.
    ///
    /// # Errors
    /// As [`Member::open_channel_of`].
    pub fn open_channel<M: Memory>(
        &mut self,
        control: &Control<M>,
        name: &str,
        carries: &ChannelType,
    ) -> Result<ChannelIndex, PoolError> {
        self.open_channel_of(control, ChannelKind::PublishSubscribe, name, Some(carries))
    }

    /// Finds the channel of that kind and name, or makes it. `None` as type takes whatever an
    /// existing channel carries, and makes one for raw bytes.
    ///
    /// # Errors
    /// [`PoolError::KindMismatch`], [`PoolError::TypeMismatch`], [`PoolError::TableFull`],
    /// [`PoolError::BadName`]; [`PoolError::Busy`] while another participant makes a channel that
    /// may be this one: try again.
    pub fn open_channel_of<M: Memory>(
        &mut self,
        control: &Control<M>,
        kind: ChannelKind,
        name: &str,
        carries: Option<&ChannelType>,
    ) -> Result<ChannelIndex, PoolError> {
        check_name(name)?;
        if let Some(found) = control.tables().find_channel(name) {
            return incompatible_channel::check(control, self.index(), &found, kind, carries)
                .map(|()| found.index);
        }
        let raw = ChannelType::default();
        let carries = carries.unwrap_or(&raw);
        if carries.name.len() > NAME_BYTES {
            return Err(PoolError::BadName {
                name: carries.name.clone(),
                reason: "the name of a type is longer than 64 bytes",
            });
        }
        let hash = hash_of(name);
        let mine = self.claim_channel(control, hash)?;
        note_table(control, Table::Channels, mine + 1);
        let tables = control.tables();
        tables.note_channel_hash(mine, hash);
        // Our claim is visible; now every other claim or channel of this hash is visible to us, or
        // its maker sees ours.
        hythe_memory::full_barrier();
        for index in tables.channels_by_hash(hash).filter(|&index| index != mine) {
            let rival = tables.channel_state(index);
            if status_of(rival) != FREE && (rival >> 32) as u32 == hash {
                let theirs = tables.channel(ChannelIndex(index));
                if theirs.is_some_and(|theirs| theirs.name != name) {
                    continue;
                }
                self.unclaim_channel(control, mine);
                return Err(PoolError::Busy("the table of channels"));
            }
        }
        let (memory, at) = (control.memory(), control.layout().channel(mine as usize));
        write_name(memory, at + channel::NAME, NAME_BYTES, name);
        write_name(memory, at + channel::TYPE_NAME, NAME_BYTES, &carries.name);
        memory.store(at + channel::TYPE_BYTES, carries.bytes, Ordering::Relaxed);
        memory.store(at + channel::TYPE_ALIGN, carries.align, Ordering::Relaxed);
        memory.store(
            at + channel::TYPE_VERSION,
            carries.version,
            Ordering::Relaxed,
        );
        memory.store(at + channel::KIND, kind.to_word(), Ordering::Relaxed);
        memory.store(at + channel::CORE_REGION, 0, Ordering::Relaxed);
        memory.store(at + channel::CORE_ROW, NOBODY.into(), Ordering::Relaxed);
        for port in 0..CORE_PORTS_MAX {
            memory.store_cell(at + channel::attached(port), 0, Ordering::Relaxed);
        }
        memory.store_cell(
            at + channel::STATE,
            state(READY, self.index().0, hash),
            Ordering::Release,
        );
        Ok(ChannelIndex(mine))
    }

    fn claim_channel<M: Memory>(&self, control: &Control<M>, hash: u32) -> Result<u32, PoolError> {
        let limit = control.layout().limits().channels;
        let claim = state(CLAIMED, self.index().0, hash);
        (0..limit)
            .find(|&index| {
                let at = control.layout().channel(index as usize) + channel::STATE;
                control.memory().load_cell(at, Ordering::Relaxed) == FREE
                    && control.memory().replace_cell(at, FREE, claim).is_ok()
            })
            .ok_or(PoolError::TableFull {
                what: "channel",
                limit,
            })
    }

    fn unclaim_channel<M: Memory>(&self, control: &Control<M>, index: u32) {
        let at = control.layout().channel(index as usize) + channel::STATE;
        control.memory().store_cell(at, FREE, Ordering::Release);
    }

    /// Frees a channel that has no port and no core behind it, and to whose core nobody is attached
    /// any more.
    pub fn retire_channel<M: Memory>(&mut self, control: &Control<M>, index: ChannelIndex) {
        if index.0 >= control.layout().limits().channels {
            return;
        }
        let (memory, at) = (
            control.memory(),
            control.layout().channel(index.0 as usize) + channel::STATE,
        );
        let is_used = || {
            control.tables().is_attached(index)
                || control.tables().ports_of_channel(index).next().is_some()
                || control.tables().core_binding(index).is_some()
        };
        for _ in 0..RETIRE_ATTEMPTS {
            // Of two who close their ports at once, one sees that no other is open; and whoever
            // puts the channel back below sees what we closed, or we see the channel back.
            hythe_memory::full_barrier();
            let ready = memory.load_cell(at, Ordering::Acquire);
            if status_of(ready) != READY || is_used() {
                return;
            }
            let hash = (ready >> 32) as u32;
            let closing = state(CLOSING, self.index().0, hash);
            if memory.replace_cell(at, ready, closing).is_err() {
                return;
            }
            // What came between the look and the claim keeps the channel. Whoever comes later looks
            // whether it still is one.
            hythe_memory::full_barrier();
            if !is_used() {
                memory.store_cell(at, FREE, Ordering::Release);
                return;
            }
            // It may have been closed again already, by one who found the channel being retired and
            // left it to us: so it is ours from here on, also if we die, and is looked at once
            // more.
            let back = state(READY, self.index().0, hash);
            memory.store_cell(at, back, Ordering::Release);
        }
    }

    /// Finishes what a dead participant had begun with channels, and detaches it from cores.
    pub(crate) fn forget_channels<M: Memory>(&mut self, control: &Control<M>) {
        let (me, memory) = (self.index(), control.memory());
        for index in control.tables().channel_indices() {
            let at = control.layout().channel(index.0 as usize);
            for port in 0..CORE_PORTS_MAX {
                let attached = memory.load_cell(at + channel::attached(port), Ordering::Acquire);
                if attached as u8 == me.0 + 1 {
                    self.let_go_of_core(control, (index, port), attached);
                }
            }
            self.forget_core(control, index);
            let bits = control.tables().channel_state(index.0);
            if (bits >> 8) as u8 != me.0 {
                continue;
            }
            match status_of(bits) {
                CLAIMED => self.unclaim_channel(control, index.0),
                CLOSING => {
                    let ready = state(READY, me.0, (bits >> 32) as u32);
                    memory.store_cell(at + channel::STATE, ready, Ordering::Release);
                    self.retire_channel(control, index);
                }
                // Made, but perhaps never used: its maker may have gone before it opened a port.
                READY => self.retire_channel(control, index),
                _ => {}
            }
        }
    }

    /// If this is the row of a core's endpoint: takes it from behind a channel.
    fn forget_core<M: Memory>(&mut self, control: &Control<M>, index: ChannelIndex) {
        let me = self.index();
        if control
            .tables()
            .core_binding(index)
            .is_some_and(|core| core.row == me)
        {
            self.unbind_core(control, index);
            return;
        }
        let at = control.layout().channel(index.0 as usize) + channel::CORE_ROW;
        let was_mine = control.memory().load(at, Ordering::Acquire) == me.0.into();
        if was_mine && status_of(control.tables().channel_state(index.0)) != FREE {
            // Whoever unbound it may have died before it said so, or looked whether that was the
            // channel's last use.
            control.tables().note_ports_changed(index);
            self.retire_channel(control, index);
        }
    }

    /// Puts a core's endpoint behind a channel.
    pub fn bind_core<M: Memory>(
        &self,
        control: &Control<M>,
        index: ChannelIndex,
        core: CoreBinding,
    ) {
        let (memory, at) = (control.memory(), control.layout().channel(index.0 as usize));
        memory.store(
            at + channel::CORE_ENDPOINT,
            core.endpoint,
            Ordering::Relaxed,
        );
        memory.store(
            at + channel::CORE_DIRECTION,
            core.direction.to_word(),
            Ordering::Relaxed,
        );
        memory.store(at + channel::CORE_ROW, core.row.0.into(), Ordering::Relaxed);
        memory.store(
            at + channel::CORE_AGENT,
            core.agent.0.into(),
            Ordering::Relaxed,
        );
        // Pairs with the acquire loads in `core_binding`.
        memory.store(
            at + channel::CORE_REGION,
            u32::from(core.region.0) + 1,
            Ordering::Release,
        );
        control.tables().note_ports_changed(index);
    }

    /// Takes the core's endpoint away again. Its row stays named, and whoever recovers that looks
    /// at the channel again.
    pub fn unbind_core<M: Memory>(&mut self, control: &Control<M>, index: ChannelIndex) {
        let at = control.layout().channel(index.0 as usize) + channel::CORE_REGION;
        control.memory().store(at, 0, Ordering::Release);
        control.tables().note_ports_changed(index);
        self.retire_channel(control, index);
    }

    /// Attaches to a port of the core endpoint behind a channel: the only one to do so. `None`: its
    /// row is still to be made, and named by [`Member::name_core_row`]. Until
    /// [`Member::detach_core`] no row of that core is recovered, so what is given to one meanwhile
    /// is not lost, even if the core has died.
    ///
    /// # Errors
    /// [`PoolError::EndpointTaken`]; [`PoolError::Busy`] if `channel` does not say what is behind
    /// the channel now.
    pub fn attach_core<M: Memory>(
        &mut self,
        control: &Control<M>,
        channel: &ChannelInfo,
        port: usize,
    ) -> Result<Option<MemberIndex>, PoolError> {
        let at = control.layout().channel(channel.index.0 as usize) + channel::attached(port);
        let row = channel
            .core
            .and_then(|core| control.tables().row_of_core_port(core, port));
        let found = control.memory().load_cell(at, Ordering::Acquire);
        // Whoever is letting go sees that it is ours by then, and so does its recoverer.
        let before = if found & LETTING_GO == 0 { 0 } else { found };
        if let Err(found) =
            control
                .memory()
                .replace_cell(at, before, self.attached_bits() | row_bits(row))
        {
            let holder = (found as u8).checked_sub(1);
            return Err(
                holder.map_or(PoolError::Busy("the core behind the channel"), |holder| {
                    PoolError::EndpointTaken {
                        channel: channel.name.clone(),
                        holder,
                    }
                }),
            );
        }
        self.confirm_core(control, channel, port).map(|()| row)
    }

    /// Names the row of a port that this participant is attached to, which was made for it.
    ///
    /// # Errors
    /// [`PoolError::Busy`] if `channel` does not say what is behind the channel now.
    pub fn name_core_row<M: Memory>(
        &mut self,
        control: &Control<M>,
        channel: &ChannelInfo,
        port: usize,
        row: MemberIndex,
    ) -> Result<(), PoolError> {
        let at = control.layout().channel(channel.index.0 as usize) + channel::attached(port);
        let named = self.attached_bits() | row_bits(Some(row));
        if control
            .memory()
            .replace_cell(at, self.attached_bits(), named)
            .is_err()
        {
            return Err(PoolError::Busy("the core behind the channel"));
        }
        self.confirm_core(control, channel, port)
    }

    /// Detaches again if another core is behind the channel now.
    fn confirm_core<M: Memory>(
        &mut self,
        control: &Control<M>,
        channel: &ChannelInfo,
        port: usize,
    ) -> Result<(), PoolError> {
        // The attachment comes before this look, or the unbinding before the recoverer's look for
        // attachments.
        hythe_memory::full_barrier();
        let now = control
            .tables()
            .channel(channel.index)
            .and_then(|now| now.core);
        if now != channel.core {
            self.detach_core(control, channel.index, port);
            return Err(PoolError::Busy("the core behind the channel"));
        }
        Ok(())
    }

    /// Detaches from a port of the core endpoint behind a channel, if attached; a channel that this
    /// was the last to use goes with it.
    pub fn detach_core<M: Memory>(
        &mut self,
        control: &Control<M>,
        index: ChannelIndex,
        port: usize,
    ) {
        let at = control.layout().channel(index.0 as usize) + channel::attached(port);
        let found = control.memory().load_cell(at, Ordering::Acquire);
        if found & !ATTACHED_ROW == self.attached_bits() {
            self.let_go_of_core(control, (index, port), found);
        }
    }

    /// First the channel, then the word, as with a port: whoever recovers us finds by the word
    /// which channel may be left unused.
    fn let_go_of_core<M: Memory>(
        &mut self,
        control: &Control<M>,
        (index, port): (ChannelIndex, usize),
        attached: u64,
    ) {
        let at = control.layout().channel(index.0 as usize) + channel::attached(port);
        let letting_go = attached | LETTING_GO;
        if control
            .memory()
            .replace_cell(at, attached, letting_go)
            .is_err()
        {
            // It was recovery that detached us.
            return;
        }
        control.tables().note_ports_changed(index);
        self.retire_channel(control, index);
        // If it changed since, somebody else is attached, or the channel is another.
        let _ = control.memory().replace_cell(at, letting_go, 0);
    }

    const fn attached_bits(&self) -> u64 {
        (self.index().0 as u64 + 1) | ((self.session() as u64) << 40)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scene;
    use crate::{PortKind, PortPolicy};

    fn frames() -> ChannelType {
        ChannelType {
            name: "frame".to_owned(),
            bytes: 12,
            align: 4,
            version: 2,
        }
    }

    #[test]
    fn another_type_is_refused_with_both() {
        let control = scene::control();
        let mut member = scene::join(&control);
        let made = member.open_channel(&control, "c", &frames()).expect("made");
        assert_eq!(member.open_channel(&control, "c", &frames()), Ok(made));
        let refused = member.open_channel(&control, "c", &ChannelType::default());
        let refused = refused.expect_err("another type").to_string();
        assert_eq!(
            refused,
            "channel `c` carries frame version 2 (12 bytes, aligned to 4), as its maker, who has no port on it now, opened it; \
             tester (pid 1) wants raw bytes"
        );
    }

    #[test]
    fn full_tables_and_bad_names_are_refused() {
        let control = scene::control();
        let mut member = scene::join(&control);
        let raw = ChannelType::default();
        let bad = member.open_channel(&control, "", &raw);
        assert!(matches!(bad, Err(PoolError::BadName { .. })), "{bad:?}");
        let limit = scene::LIMITS.channels;
        let opened = (0..limit).map(|n| member.open_channel(&control, &n.to_string(), &raw));
        let last = opened.last().expect("some").expect("a free record");
        let full = member.open_channel(&control, "more", &raw);
        assert_eq!(
            full,
            Err(PoolError::TableFull {
                what: "channel",
                limit
            })
        );

        let limit = scene::LIMITS.ports;
        let mut open = || {
            member.open_port(
                &control,
                last,
                PortKind::Subscriber,
                2,
                PortPolicy::DropNewest,
            )
        };
        (0..limit).for_each(|_| assert!(open().is_ok()));
        assert_eq!(
            open(),
            Err(PoolError::TableFull {
                what: "port",
                limit
            })
        );
    }

    #[test]
    fn port_does_not_open_on_a_channel_that_went() {
        let control = scene::control();
        let mut member = scene::join(&control);
        let raw = ChannelType::default();
        let channel = member.open_channel(&control, "c", &raw).expect("made");
        member.retire_channel(&control, channel);
        assert_eq!(control.tables().find_channel("c"), None);
        let late = member.open_port(
            &control,
            channel,
            PortKind::Publisher,
            2,
            PortPolicy::DropNewest,
        );
        assert_eq!(late, Err(PoolError::Busy("the channel")));
        assert_eq!(control.tables().ports().count(), 0);
    }

    #[test]
    fn ports_of_a_channel_follow_openings_and_closings() {
        let control = scene::control();
        let mut member = scene::join(&control);
        let raw = ChannelType::default();
        let open = |member: &mut Member, name: &str| {
            let channel = member.open_channel(&control, name, &raw).expect("made");
            let policy = PortPolicy::DropNewest;
            let port = member.open_port(&control, channel, PortKind::Subscriber, 2, policy);
            (channel, port.expect("port"))
        };
        let ports = |channel| {
            let ports = control.tables().ports_of_channel(channel);
            ports.map(|port| port.index).collect::<Vec<_>>()
        };
        let ((first, one), (second, two)) = (open(&mut member, "a"), open(&mut member, "b"));
        assert_eq!((ports(first), ports(second)), (vec![one], vec![two]));
        // Its record names the first channel on, until it is another's.
        member.close_port(&control, one);
        assert_eq!(ports(first), []);
        member.free_port(&control, one);
        assert_eq!(open(&mut member, "b"), (second, one));
        assert_eq!((ports(first), ports(second)), (vec![], vec![one, two]));
    }

    #[test]
    fn channel_with_a_port_stays() {
        let control = scene::control();
        let mut member = scene::join(&control);
        let channel = member.open_channel(&control, "c", &frames()).expect("made");
        let policy = PortPolicy::Block { timeout_ms: 3 };
        let port = member
            .open_port(&control, channel, PortKind::Publisher, 2, policy)
            .expect("port");
        member.retire_channel(&control, channel);
        assert_eq!(
            control
                .tables()
                .find_channel("c")
                .map(|found| found.carries),
            Some(frames())
        );
        assert_eq!(
            control.tables().port(port).map(|found| found.policy),
            Some(policy)
        );
    }
}
