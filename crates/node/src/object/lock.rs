//! Getting the right to change an object: bounded, whatever its owner does.
//!
//! Signals wait while this thread has it: a handler that posts would wait for its own thread.
//! Nothing here allocates or takes another lock, so a handler may post at any other moment. That an
//! owner is dead is known by its record, which some watcher has given back or is emptying; only
//! then are its steps on the ledger settled, too.

use std::time::{Duration, Instant};

use hythe_memory::Mapped;
use hythe_pool::{ObjectIndex, ObjectTable, Owner, Party, Section, SectionTaken};
use hythe_sys::signals::SignalsBlocked;

use super::SyncError;
use crate::participant::Participant;
use crate::pool::Pool;

/// Looks before the first nap: an operation is some fifty instructions.
const LOOKS: u32 = 200;
const SHORT_NAP: Duration = Duration::from_micros(50);
const LONG_NAP: Duration = Duration::from_millis(1);
/// Owners that may turn out to be dead, one behind the other, in an operation that may not wait.
const DEATHS: u32 = 4;
/// Short naps before the long ones.
const SHORT_NAPS: u32 = 20;

/// An object that nobody else changes.
#[derive(Debug)]
pub(super) struct Entered<'t> {
    /// First: the lock goes before signals come.
    pub(super) section: Section<'t, Mapped>,
    _signals: SignalsBlocked,
}

/// The table of names, which nobody else changes.
#[derive(Debug)]
pub(super) struct TableLocked<'t> {
    table: &'t ObjectTable<Mapped>,
    me: Owner,
    _signals: SignalsBlocked,
}

impl Drop for TableLocked<'_> {
    fn drop(&mut self) {
        self.table.unlock(self.me);
    }
}

/// This participant as others know it.
pub(super) fn party(shared: &Participant) -> Party {
    Party {
        member: shared.index(),
        session: shared.session(),
    }
}

/// Has that session ended, and was all that it held given back?
pub(super) fn is_over(pool: &Pool, party: Party) -> bool {
    let tables = pool.control().tables();
    tables.is_over(party.member, party.session)
}

/// Waits for an object.
pub(super) fn enter<'t>(
    shared: &Participant,
    table: &'t ObjectTable<Mapped>,
    index: ObjectIndex,
) -> Result<Entered<'t>, SyncError> {
    let me = Owner::from(party(shared));
    let (section, signals) = acquire(shared, |dead| table.enter(index, me, dead))?;
    let mut entered = Entered {
        section,
        _signals: signals,
    };
    // Of a file that was cut away, everything is zero, and every lock free.
    shared.pool().check_objects_whole()?;
    entered.section.settle()?;
    Ok(entered)
}

/// Waits for the table of names.
pub(super) fn lock_table<'t>(
    shared: &Participant,
    table: &'t ObjectTable<Mapped>,
) -> Result<TableLocked<'t>, SyncError> {
    let me = Owner::from(party(shared));
    let ((), signals) = acquire(shared, |dead| table.lock(me, dead))?;
    let locked = TableLocked {
        table,
        me,
        _signals: signals,
    };
    shared.pool().check_objects_whole()?;
    Ok(locked)
}

fn acquire<T>(
    shared: &Participant,
    mut attempt: impl FnMut(Option<Owner>) -> Result<T, SectionTaken>,
) -> Result<(T, SignalsBlocked), SyncError> {
    let mut begun = None;
    let mut dead = None;
    let mut deaths = 0;
    let mut naps = 0;
    loop {
        let signals = SignalsBlocked::new();
        let mut taken = attempt(dead.take());
        for _ in 0..LOOKS {
            if taken.is_ok() {
                break;
            }
            std::hint::spin_loop();
            taken = attempt(None);
        }
        let SectionTaken(owner) = match taken {
            Ok(done) => return Ok((done, signals)),
            Err(taken) => taken,
        };
        drop(signals);
        // A cell that no participant can have written stays until its object is unlinked.
        let party = owner.party();
        if party.is_some_and(|party| is_over(shared.pool(), party)) {
            dead = Some(owner);
            deaths += 1;
        }
        let waited = begun.get_or_insert_with(Instant::now).elapsed();
        // What a dead owner has is taken without waiting.
        if waited >= shared.object_timeout() && (dead.is_none() || deaths > DEATHS) {
            return Err(SyncError::Busy {
                member: party.map_or(u8::MAX, |party| party.member.0),
                waited_ms: waited.as_millis() as u64,
            });
        }
        if dead.is_none() {
            let nap = if naps < SHORT_NAPS {
                SHORT_NAP
            } else {
                LONG_NAP
            };
            naps += 1;
            hythe_sys::wait::sleep(nap);
        }
    }
}
