//! Giving back what a dead participant held.
//!
//! The recoverer first claims the dead participant's record, then acts *as* it: it settles the one
//! step that the journal may have left open, and then leaves, as the participant itself would have.
//! Every part can be done again from the start; if the recoverer dies too, the next one takes over
//! its claim and goes on. A participant that leaves in good order does the same to itself.

use hythe_abi::pool::{connection, header, participant};
use hythe_memory::{Memory, Ordering};

use super::{Member, adding_regions, core_rows};
use crate::PoolError;
use crate::cell;
use crate::control::Control;
use crate::counted::{Counted, Mark};
use crate::journal::{self, Operation, Step};
use crate::ledger::LedgerSlot;
use crate::regions::Regions;
use crate::tables::members::{
    Identity, MemberIndex, MemberInfo, MemberKind, MemberStatus, since_units, state_bits,
};

/// What a recovery gave back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// References given back from hold records.
    pub references: u32,
    /// Slots that became free by that.
    pub slots: u32,
    /// The step that the journal had left open, by its number in `spec/pool.md`; 0: none.
    pub settled: u32,
}

/// The right of a participant to recover others. Unlike the participant itself it uses no journal,
/// so a thread of its own can hold it.
#[derive(Clone, Copy, Debug)]
pub struct Recoverer {
    index: MemberIndex,
    session: u32,
}

/// The number that stands for a process without a record of its own: none has it.
const OUTSIDER: MemberIndex = MemberIndex(hythe_abi::pool::PARTICIPANTS_MAX as u8);

impl Recoverer {
    /// The right of a process that finds the pool full to recover the dead, under a session of its
    /// own. It must be able to prove its life by that number alone, as one that is joining does.
    #[must_use]
    pub const fn outsider(session: u32) -> Self {
        Self {
            index: OUTSIDER,
            session,
        }
    }

    /// Recovers a participant. `is_dead` answers whether the operating system has proven the death
    /// of a participant; it is asked about this one, and about an earlier recoverer. `None`: it is
    /// alive, or another recovers it, or it is gone already, or it is the row of a core that
    /// somebody is still attached to: try again later.
    ///
    /// # Errors
    /// [`PoolError::Damaged`]: the record stays marked as being recovered, for another try; a
    /// participant keeps its claim.
    pub fn recover<M: Memory>(
        &self,
        control: &Control<M>,
        regions: &Regions,
        dead: &MemberInfo,
        monotonic_ms: u64,
        is_dead: &mut dyn FnMut(&MemberInfo) -> bool,
    ) -> Result<Option<Recovered>, PoolError> {
        if dead.index == self.index || !is_dead(dead) {
            return Ok(None);
        }
        if !self.claim(control, dead, is_dead) {
            return Ok(None);
        }
        let now = since_units(monotonic_ms);
        let mut ghost = Member::impersonate(dead.index, dead.session, now);
        ghost.set_status(control, dead.identity.pid, MemberStatus::Recovering);
        if dead.kind == MemberKind::CoreEndpoint && core_rows::is_in_use(control, &mut ghost, dead)
        {
            self.drop_claim(control, dead.index);
            return Ok(None);
        }
        let recovered = match ghost.give_everything_back(control, regions) {
            Ok(recovered) => recovered,
            Err(error) => {
                // The end of a process without a record is not seen once its socket is gone.
                if self.index == OUTSIDER {
                    self.drop_claim(control, dead.index);
                }
                return Err(error);
            }
        };
        ghost.set_status(control, dead.identity.pid, MemberStatus::Free);
        self.drop_claim(control, dead.index);
        control
            .memory()
            .add(header::MEMBERSHIP, 1, Ordering::Release);
        Ok(Some(recovered))
    }

    fn claim<M: Memory>(
        &self,
        control: &Control<M>,
        dead: &MemberInfo,
        is_dead: &mut dyn FnMut(&MemberInfo) -> bool,
    ) -> bool {
        let at = control.layout().participant(dead.index.0.into()) + participant::RECOVERER;
        let found = control.memory().load_cell(at, Ordering::Acquire);
        if let Some(earlier) = (found as u8).checked_sub(1).map(MemberIndex) {
            let session = (found >> 40) as u32;
            let earlier = claimant(control, earlier, session);
            let other = |it: &MemberInfo| (it.index, it.session) != (self.index, self.session);
            if earlier.is_some_and(|earlier| other(&earlier) && !is_dead(&earlier)) {
                return false;
            }
        }
        if control
            .memory()
            .replace_cell(at, found, self.claim_bits())
            .is_err()
        {
            return false;
        }
        // The claim may have come after another recoverer's last step: then the record is free, or
        // somebody new's.
        let still = control
            .tables()
            .member(dead.index)
            .is_some_and(|now| now.session == dead.session);
        if !still {
            self.drop_claim(control, dead.index);
        }
        still
    }

    fn drop_claim<M: Memory>(&self, control: &Control<M>, dead: MemberIndex) {
        let at = control.layout().participant(dead.0.into()) + participant::RECOVERER;
        // If the claim is no longer ours, it is somebody's who will drop it.
        let _ = control.memory().replace_cell(at, self.claim_bits(), 0);
    }

    fn claim_bits(&self) -> u64 {
        (u64::from(self.index.0) + 1) | (u64::from(self.session) << 40)
    }
}

/// Who claimed a record: a participant, if it still is that one, or an outsider, of whom no more is
/// known than the session.
fn claimant<M: Memory>(
    control: &Control<M>,
    index: MemberIndex,
    session: u32,
) -> Option<MemberInfo> {
    if index != OUTSIDER {
        return control
            .tables()
            .member(index)
            .filter(|found| found.session == session);
    }
    Some(MemberInfo {
        index,
        session,
        status: MemberStatus::Joining,
        kind: MemberKind::Process,
        identity: Identity {
            pid: 0,
            start_time: 0,
            pid_namespace: 0,
            uid: 0,
        },
        name: "a process that joins".to_owned(),
    })
}

impl Member {
    /// The right to recover others.
    #[must_use]
    pub const fn recoverer(&self) -> Recoverer {
        Recoverer {
            index: self.index(),
            session: self.session(),
        }
    }

    /// Leaves the pool in good order: everything held goes back.
    ///
    /// # Errors
    /// [`PoolError::Damaged`]: what could not be given back is left to the audit.
    pub fn depart<M: Memory>(
        mut self,
        control: &Control<M>,
        regions: &Regions,
    ) -> Result<Recovered, PoolError> {
        let recovered = self.give_everything_back(control, regions);
        self.set_status(control, 0, MemberStatus::Free);
        control
            .memory()
            .add(header::MEMBERSHIP, 1, Ordering::Release);
        recovered
    }

    fn set_status<M: Memory>(&self, control: &Control<M>, pid: u32, status: MemberStatus) {
        let at = control.layout().participant(self.index().0.into()) + participant::STATE;
        let bits = state_bits(pid, status, self.session());
        control.memory().store_cell(at, bits, Ordering::Release);
    }

    fn give_everything_back<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
    ) -> Result<Recovered, PoolError> {
        let mut recovered = Recovered {
            settled: self.settle(control),
            ..Recovered::default()
        };
        // First the ports, so that no publisher connects behind the look at the connections.
        self.close_all_ports(control);
        // Whoever sent before this is found by the emptying of the queues; whoever does later sees
        // the port closed, and leaves.
        hythe_memory::full_barrier();
        // Damage somewhere does not keep the rest from going back: the first is reported at the
        // end.
        let mut outcome = self.leave_all_connections(control, regions);
        for slot in (0..control.layout().limits().slots).map(LedgerSlot) {
            let count = control.ledger().hold(self.index(), slot).count;
            if count > 0 {
                recovered.references += count;
                match self.release(control, slot, count) {
                    Ok(last) => recovered.slots += u32::from(last),
                    Err(damage) => outcome = outcome.and(Err(damage)),
                }
            }
        }
        self.forget_channels(control);
        adding_regions::forget_claims(control, self.index().0);
        outcome.map(|()| recovered)
    }

    /// Finishes or undoes the step that the journal left open.
    fn settle<M: Memory>(&mut self, control: &Control<M>) -> u32 {
        let Some((operation, step, mark)) = journal::pending(control, self.index()) else {
            return 0;
        };
        if step.slot < control.layout().limits().slots {
            let slot = LedgerSlot(step.slot);
            let before = Counted::from_bits(step.before);
            let after = after_step(control, operation, step, mark, before, self.now());
            control
                .ledger()
                .set_hold(self.index(), slot, after.unwrap_or(before));
        }
        journal::end(control, self.index());
        operation as u32
    }
}

/// The own hold record as the finished step leaves it; `None` if the step did not happen.
fn after_step<M: Memory>(
    control: &Control<M>,
    operation: Operation,
    step: Step,
    mark: Mark,
    before: Counted,
    now: u32,
) -> Option<Counted> {
    if !happened(control, operation, step, mark) {
        return None;
    }
    match operation {
        Operation::Lease => Some(Counted {
            count: 1,
            upper: now,
            ..before
        }),
        Operation::Duplicate => before.gained(step.count, now),
        Operation::Release => before.lost(step.count),
        Operation::Send => before.lost(1),
        Operation::Take => before.gained(1, now),
        Operation::Give => before.lost(step.count),
        Operation::Reclaim => before.gained(step.count, now),
        Operation::TakeOldest => before.gained(step.count.min(1), now),
    }
}

/// Did the one change happen that others see of a step?
pub(crate) fn happened<M: Memory>(
    control: &Control<M>,
    operation: Operation,
    step: Step,
    mark: Mark,
) -> bool {
    let (memory, layout) = (control.memory(), control.layout());
    match journal::target(layout, operation, step.slot, step.row) {
        Some(cell) => {
            cell::happened(memory, layout, cell, mark)
                || operation == Operation::Release && was_leased_since(control, step)
        }
        None if operation == Operation::Send => moved(control, step, connection::TAIL),
        None if operation == Operation::Take => moved(control, step, connection::HEAD),
        None => false,
    }
}

/// Does the slot of a release have another generation than when the release began? The lease behind
/// the last release leaves no witness. Asked behind the cell: a lease that took the mark away in
/// between is seen here.
fn was_leased_since<M: Memory>(control: &Control<M>, step: Step) -> bool {
    control.ledger().slot(LedgerSlot(step.slot)).1.0 != step.position
}

/// Did the queue word go past the position that the step noted?
fn moved<M: Memory>(control: &Control<M>, step: Step, word: usize) -> bool {
    if step.connection >= control.layout().limits().connections {
        return false;
    }
    let at = control.layout().connection(step.connection as usize) + word;
    control.memory().load(at, Ordering::Acquire) == step.position.wrapping_add(1)
}
