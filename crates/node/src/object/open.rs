//! Opening and closing: an object is open for a participant, however many handles that has.

use std::sync::Arc;

use hythe_abi::objects::{OBJECTS_MAX, state};
use hythe_memory::Mapped;
use hythe_pool::{NewObject, ObjectIndex, ObjectInfo, ObjectKind, ObjectTable};

use super::lock::{self, TableLocked};
use super::{SyncError, messages, name};
use crate::participant::Participant;

/// How to open an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenPlan<'a> {
    pub(super) kind: ObjectKind,
    pub(super) name: &'a str,
    /// Made if there is none.
    pub(super) make: Option<NewObject<'a>>,
    /// Refused if there is one.
    pub(super) exclusive: bool,
    /// What it is opened for, as bits of a mode.
    pub(super) rights: u32,
}

/// An object that this participant has open. Closed with this value.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) shared: Arc<Participant>,
    pub(super) info: ObjectInfo,
}

impl Opened {
    pub(super) fn open(shared: &Arc<Participant>, plan: &OpenPlan<'_>) -> Result<Self, SyncError> {
        let opened = Self::find_or_make(shared, plan);
        shared.pool().check_objects_whole()?;
        opened
    }

    fn find_or_make(shared: &Arc<Participant>, plan: &OpenPlan<'_>) -> Result<Self, SyncError> {
        shared.check_original()?;
        let bare = name::checked(plan.name)?;
        let no_such = || SyncError::NoSuch {
            what: what(plan.kind),
            name: plan.name.to_owned(),
        };
        let found = shared.pool().objects(plan.make.is_some())?;
        let table = found.ok_or_else(no_such)?;
        // Before the table's lock, with which signals wait.
        let mut counts = shared.open_objects().lock();
        let locked = lock::lock_table(shared, table)?;
        sweep(shared, table, &locked);
        let info = match (table.find(plan.kind, bare)?, plan.make) {
            (Some(_), Some(_)) if plan.exclusive => {
                return Err(SyncError::Exists {
                    what: what(plan.kind),
                    name: plan.name.to_owned(),
                });
            }
            (Some(info), _) => {
                name::check_rights(&info, plan.name, plan.rights)?;
                info
            }
            (None, Some(new)) => {
                let made = table.make(&NewObject { name: bare, ..new })?;
                table.info(made)?
            }
            (None, None) => return Err(no_such()),
        };
        note_opening(shared, table, &info, &mut counts);
        drop(locked);
        drop(counts);
        Ok(Self {
            shared: Arc::clone(shared),
            info,
        })
    }

    /// The same object, opened by another participant.
    pub(super) fn reopen(&self, shared: &Arc<Participant>) -> Result<Self, SyncError> {
        let opened = self.find_again(shared);
        shared.pool().check_objects_whole()?;
        opened
    }

    fn find_again(&self, shared: &Arc<Participant>) -> Result<Self, SyncError> {
        shared.check_original()?;
        let table = shared.pool().objects(false)?;
        let table = table.ok_or(hythe_pool::ObjectError::Gone)?;
        let mut counts = shared.open_objects().lock();
        let _locked = lock::lock_table(shared, table)?;
        let info = table.info(self.info.index)?;
        if info.generation != self.info.generation {
            return Err(hythe_pool::ObjectError::Gone.into());
        }
        note_opening(shared, table, &info, &mut counts);
        Ok(Self {
            shared: Arc::clone(shared),
            info,
        })
    }

    /// What came of an act, if the files are whole behind it: else it has reached nobody, and what
    /// it found means nothing.
    pub(super) fn unless_lost<T>(&self, outcome: Result<T, SyncError>) -> Result<T, SyncError> {
        self.shared.pool().check_objects_whole()?;
        outcome
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let pools = (self.shared.pool().path(), other.shared.pool().path());
        let (one, two) = (&self.info, &other.info);
        pools.0 == pools.1 && (one.index, one.generation) == (two.index, two.generation)
    }

    /// The table, which is there while an object of it is open.
    pub(super) fn table(&self) -> Result<&ObjectTable<Mapped>, SyncError> {
        self.shared.check_original()?;
        let table = self.shared.pool().objects(false)?;
        Ok(table.ok_or(hythe_pool::ObjectError::Gone)?)
    }

    /// Nobody else changes the object.
    pub(super) fn enter(&self) -> Result<lock::Entered<'_>, SyncError> {
        lock::enter(&self.shared, self.table()?, self.info.index).or_else(|error| {
            // What is no object any more may be cut.
            self.unless_lost(Err(error))
        })
    }

    fn close(&self) -> Result<(), SyncError> {
        let table = self.table()?;
        let index = self.info.index;
        let mut counts = self.shared.open_objects().lock();
        let left = counts[index.number()].saturating_sub(1);
        if left == 0 {
            let party = lock::party(&self.shared);
            if self.info.kind == ObjectKind::Semaphore {
                self.enter()?.section.forget_holds(party)?;
            }
            let locked = lock::lock_table(&self.shared, table)?;
            table.set_open(index, party, false);
            sweep(&self.shared, table, &locked);
        }
        counts[index.number()] = left;
        Ok(())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.shared.is_a_copy() {
            return;
        }
        if let Err(error) = self.close() {
            tracing::error!(%error, "could not close a semaphore or message queue");
        }
    }
}

/// One more handle. With the lock of the table.
fn note_opening(
    shared: &Participant,
    table: &ObjectTable<Mapped>,
    info: &ObjectInfo,
    counts: &mut [u32; OBJECTS_MAX],
) {
    let number = info.index.number();
    if counts[number] == 0 {
        table.set_open(info.index, lock::party(shared), true);
    }
    counts[number] += 1;
}

/// Frees objects without a name that nobody has open any more.
fn sweep(shared: &Arc<Participant>, table: &ObjectTable<Mapped>, _locked: &TableLocked<'_>) {
    let mut is_over = |party| lock::is_over(shared.pool(), party);
    for index in ObjectTable::<Mapped>::indices() {
        if table.state(index) == state::UNLINKED && !table.is_open(index, &mut is_over) {
            free(shared, table, index);
        }
    }
}

/// Where what it holds cannot be given back now, it stays for the next time.
fn free(shared: &Arc<Participant>, table: &ObjectTable<Mapped>, index: ObjectIndex) {
    let is_queue = table
        .info(index)
        .is_ok_and(|info| info.kind == ObjectKind::MessageQueue);
    if is_queue {
        let cleared = lock::enter(shared, table, index)
            .and_then(|mut entered| messages::clear(shared, &mut entered.section));
        if let Err(error) = cleared {
            tracing::error!(%error, "could not give the messages of a queue back");
            return;
        }
    }
    table.free(index);
}

/// Takes an object's name away; it goes when nobody has it open.
pub(super) fn unlink(
    shared: &Arc<Participant>,
    kind: ObjectKind,
    asked: &str,
) -> Result<(), SyncError> {
    let unlinked = unlink_within(shared, kind, asked);
    shared.pool().check_objects_whole()?;
    unlinked
}

fn unlink_within(
    shared: &Arc<Participant>,
    kind: ObjectKind,
    asked: &str,
) -> Result<(), SyncError> {
    shared.check_original()?;
    let no_such = || SyncError::NoSuch {
        what: what(kind),
        name: asked.to_owned(),
    };
    let bare = match name::checked(asked) {
        // There is no object of what is no name.
        Err(SyncError::BadName { .. }) => return Err(no_such()),
        checked => checked?,
    };
    let table = shared.pool().objects(false)?.ok_or_else(no_such)?;
    let locked = lock::lock_table(shared, table)?;
    let info = table.find(kind, bare)?.ok_or_else(no_such)?;
    name::check_owner(&info, asked)?;
    table.unlink(info.index);
    sweep(shared, table, &locked);
    Ok(())
}

const fn what(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Semaphore => "semaphore",
        ObjectKind::MessageQueue => "message queue",
    }
}
