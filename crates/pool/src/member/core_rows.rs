//! Accounting by proxy: references that cross to a core and back.
//!
//! A core never touches the ledger. Before a descriptor is pushed over a link, the pusher moves its
//! reference into the row of the core's endpoint; when one comes back, the taker moves it into its
//! own row. Several may take from one row, and a core may lie about what it gives back: the row's
//! cell decides, and a taker that finds no reference there has caught a lie.

use hythe_memory::Memory;

use super::Member;
use super::leasing::not_held;
use crate::PoolError;
use crate::cell::{self, Unchanged};
use crate::control::Control;
use crate::counted::Counted;
use crate::journal::{self, Operation, Step};
use crate::ledger::{LedgerSlot, contended};
use crate::tables::members::{MemberIndex, MemberInfo, MemberKind};

/// References that move between the own row and that of a core's port.
struct Move {
    row: MemberIndex,
    slot: LedgerSlot,
    count: u32,
    /// The own record before.
    before: Counted,
}

impl Member {
    /// Moves `count` own references into the row of a port of a core's endpoint. Call before
    /// pushing the descriptor.
    ///
    /// # Errors
    /// [`PoolError::Damaged`] if this participant holds fewer.
    pub fn give<M: Memory>(
        &mut self,
        control: &Control<M>,
        row: MemberIndex,
        slot: LedgerSlot,
        count: u32,
    ) -> Result<(), PoolError> {
        let before = control.ledger().hold(self.index(), slot);
        if before.count < count {
            return Err(not_held(self.index(), before.count, slot, count));
        }
        let now = self.now();
        let gain = |cell: Counted| {
            let after = cell.gained(count, now)?;
            Some((after.count, after.upper))
        };
        let move_ = Move {
            row,
            slot,
            count,
            before,
        };
        match self.move_row(control, Operation::Give, move_, gain) {
            Ok(()) => Ok(()),
            Err(Unchanged::Contended) => Err(contended(slot)),
            Err(Unchanged::Declined) => Err(PoolError::Damaged(format!(
                "core endpoint {} cannot hold more of slot {}",
                row.0, slot.0
            ))),
        }
    }

    /// Moves `count` references from the row of a port of a core's endpoint into the own row.
    /// False: the row has fewer, and nothing was moved.
    ///
    /// # Errors
    /// [`PoolError::Damaged`] if the cell never stands still.
    pub fn reclaim<M: Memory>(
        &mut self,
        control: &Control<M>,
        row: MemberIndex,
        slot: LedgerSlot,
        count: u32,
    ) -> Result<bool, PoolError> {
        let before = control.ledger().hold(self.index(), slot);
        if before.gained(count, self.now()).is_none() {
            return Err(PoolError::TooManyReferences {
                limit: before.count,
            });
        }
        let lose = |cell: Counted| cell.count.checked_sub(count).map(|left| (left, cell.upper));
        let move_ = Move {
            row,
            slot,
            count,
            before,
        };
        match self.move_row(control, Operation::Reclaim, move_, lose) {
            Ok(()) => Ok(true),
            Err(Unchanged::Declined) => Ok(false),
            Err(Unchanged::Contended) => Err(contended(slot)),
        }
    }

    fn move_row<M: Memory>(
        &mut self,
        control: &Control<M>,
        operation: Operation,
        Move {
            row,
            slot,
            count,
            before,
        }: Move,
        change: impl Fn(Counted) -> Option<(u32, u32)>,
    ) -> Result<(), Unchanged> {
        let step = Step {
            slot: slot.0,
            count,
            row: row.0.into(),
            before: before.to_bits(),
            ..Step::default()
        };
        let mark = journal::begin(control, self.index(), operation, step);
        let at = control.layout().hold(row.0.into(), slot.0 as usize);
        let changed = cell::change(control.memory(), control.layout(), at, mark, change);
        let after = match operation {
            Operation::Give => before.lost(count),
            _ => before.gained(count, self.now()),
        };
        if let (Ok(_), Some(after)) = (changed, after) {
            control.ledger().set_hold(self.index(), slot, after);
        }
        journal::end(control, self.index());
        changed.map(|_| ())
    }
}

/// Unbinds the channels of a dead core. True: somebody is still attached to one of its endpoints,
/// and may be giving to a row, or taking from it, at this moment: then no row of that core may be
/// recovered yet.
pub(super) fn is_in_use<M: Memory>(
    control: &Control<M>,
    ghost: &mut Member,
    dead: &MemberInfo,
) -> bool {
    let of_that_core = |row: MemberIndex| {
        let found = control.tables().member(row);
        found.is_some_and(|row| {
            row.kind == MemberKind::CoreEndpoint && row.identity == dead.identity
        })
    };
    // Whatever the state of a channel: one that somebody is about to retire may stay after all.
    for index in control.tables().channel_indices() {
        if control
            .tables()
            .core_binding(index)
            .is_some_and(|core| of_that_core(core.row))
        {
            ghost.unbind_core(control, index);
        }
    }
    // Its partner is in `attach_core`.
    hythe_memory::full_barrier();
    control
        .tables()
        .channel_indices()
        .flat_map(|index| control.tables().attached_rows(index))
        .any(of_that_core)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{
        ChannelInfo, ChannelType, ClassPlan, CoreBinding, Geometry, Identity, MemberStatus, Regions,
    };
    use hythe_abi::RegionIndex;
    use hythe_abi::link::Direction;
    use hythe_abi::pool::channel;
    use hythe_memory::{Mapped, Ordering};

    const SLOT: LedgerSlot = LedgerSlot(0);

    /// A process and a core's endpoint behind a channel.
    struct World {
        control: Control<Mapped>,
        regions: Regions,
        process: Member,
        row: MemberIndex,
        channel: ChannelInfo,
    }

    fn identity(pid: u32) -> Identity {
        Identity {
            pid,
            start_time: 1,
            pid_namespace: 1,
            uid: 0,
        }
    }

    fn binding(row: MemberIndex, agent: MemberIndex) -> CoreBinding {
        let (region, endpoint, direction) = (RegionIndex(0), 0, Direction::ToCore);
        CoreBinding {
            region,
            endpoint,
            direction,
            row,
            agent,
        }
    }

    fn world() -> World {
        let class = ClassPlan {
            payload_bytes: 768,
            count: 4,
        };
        let geometry =
            Geometry::with_classes(Geometry::default_limits(), &[class]).expect("geometry");
        let bytes = geometry.layout().expect("layout").bytes();
        let memory = Mapped::anonymous(bytes).expect("memory");
        let control = Control::create(memory, &geometry, 1).expect("control");
        let regions = Regions::read(&control).expect("regions");
        let join = |kind, pid, name| Member::join(&control, kind, identity(pid), name);
        let mut process = join(MemberKind::Process, 10, "process").expect("process");
        let row = join(MemberKind::CoreEndpoint, 20, "core")
            .expect("core")
            .index();
        let raw = ChannelType::default();
        let index = process.open_channel(&control, "c", &raw).expect("channel");
        process.bind_core(&control, index, binding(row, process.index()));
        let channel = control.tables().channel(index).expect("channel");
        World {
            control,
            regions,
            process,
            row,
            channel,
        }
    }

    impl World {
        /// The core is dead, and everybody knows it.
        fn recover(&self) -> bool {
            let dead = self.control.tables().member(self.row).expect("the row");
            let mut is_dead = |member: &MemberInfo| member.identity.pid == 20;
            let recoverer = self.process.recoverer();
            let recovered = recoverer.recover(&self.control, &self.regions, &dead, 0, &mut is_dead);
            recovered.expect("no damage").is_some()
        }
    }

    #[test]
    fn row_is_not_recovered_under_the_hands_of_a_port() {
        let mut world = world();
        let control = &world.control;
        let process = &mut world.process;
        process
            .attach_core(control, &world.channel, 0)
            .expect("alone");
        assert!(process.lease(control, SLOT).expect("leased").is_some());
        assert!(!world.recover(), "somebody is attached");
        let status = |row| control.tables().member(row).map(|member| member.status);
        assert_eq!(status(world.row), Some(MemberStatus::Recovering));
        // It does not know yet that the core is dead, and gives: nothing is lost by that.
        let process = &mut world.process;
        process.give(control, world.row, SLOT, 1).expect("given");
        process.detach_core(control, world.channel.index, 0);
        assert!(world.recover(), "nobody is attached any more");
        assert_eq!(status(world.row), None);
        assert_eq!(control.ledger().slot(SLOT).0, 0, "the slot is free");
    }

    #[test]
    fn port_does_not_attach_to_a_core_that_has_gone() {
        let mut world = world();
        assert!(world.recover());
        let attached = world.process.attach_core(&world.control, &world.channel, 0);
        assert!(matches!(attached, Err(PoolError::Busy(_))), "{attached:?}");
        let raw = ChannelType::default();
        let process = &mut world.process;
        let index = process
            .open_channel(&world.control, "c", &raw)
            .expect("channel");
        assert_eq!(
            world.control.tables().attached(index, 0),
            None,
            "and leaves nothing behind"
        );
    }

    #[test]
    fn one_port_at_a_time_also_of_one_participant() {
        let mut world = world();
        let attach =
            |world: &mut World| world.process.attach_core(&world.control, &world.channel, 0);
        attach(&mut world).expect("alone");
        let holder = world.process.index().0;
        let taken = attach(&mut world).expect_err("taken");
        assert!(matches!(taken, PoolError::EndpointTaken { holder: h, .. } if h == holder));
        world
            .process
            .detach_core(&world.control, world.channel.index, 0);
        attach(&mut world).expect("alone again");
    }

    #[test]
    fn second_port_has_a_row_of_its_own() {
        let mut world = world();
        let control = &world.control;
        let process = &mut world.process;
        process
            .attach_core(control, &world.channel, 0)
            .expect("free");
        let unnamed = process.attach_core(control, &world.channel, 1);
        assert_eq!(unnamed, Ok(None), "its row is still to be made");
        let name = crate::core_port_name("core", 1);
        let made = Member::join(control, MemberKind::CoreEndpoint, identity(20), &name);
        let row = made.expect("a row").index();
        process
            .name_core_row(control, &world.channel, 1, row)
            .expect("named");
        assert!(process.lease(control, SLOT).expect("leased").is_some());
        process.duplicate(control, SLOT, 7).expect("eight");
        process.give(control, row, SLOT, 8).expect("given");
        assert_eq!(
            process.reclaim(control, row, SLOT, 9),
            Ok(false),
            "too many"
        );
        assert_eq!(process.reclaim(control, row, SLOT, 3), Ok(true));
        assert_eq!(process.holds(control, SLOT), 3);
        process.detach_core(control, world.channel.index, 0);
        assert!(!world.recover(), "somebody is attached to the other port");
        let process = &mut world.process;
        process.detach_core(control, world.channel.index, 1);
        let channel = control.tables().channel(world.channel.index);
        let again = channel.map(|now| process.attach_core(control, &now, 1));
        assert!(
            matches!(again, None | Some(Err(PoolError::Busy(_)))),
            "the core is gone: {again:?}"
        );
        assert!(world.recover(), "nobody is attached any more");
    }

    /// Somebody has found the channel unused a moment ago, and will see that it is not.
    #[test]
    fn channel_about_to_be_retired_counts() {
        let mut world = world();
        let control = &world.control;
        world
            .process
            .attach_core(control, &world.channel, 0)
            .expect("alone");
        let at = control.layout().channel(world.channel.index.0 as usize) + channel::STATE;
        let ready = control.memory().load_cell(at, Ordering::Relaxed);
        let closing = ready & !0xFF | 3;
        control.memory().store_cell(at, closing, Ordering::Relaxed);
        assert!(!world.recover(), "somebody is attached");
        let control = &world.control;
        control.memory().store_cell(at, ready, Ordering::Relaxed);
        let core = control
            .tables()
            .channel(world.channel.index)
            .and_then(|now| now.core);
        assert_eq!(core, None, "and the dead core is not behind it any more");
    }
}
