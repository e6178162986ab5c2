//! Participants: joining, leaving, being looked at.

use hythe_abi::pool::{NAME_BYTES, header, intent, participant};
use hythe_memory::{Memory, Ordering, read_name, write_name};
use hythe_queue::Bell;

use crate::control::Control;
use crate::high_water::{Table, note_table};
use crate::{PoolError, journal};

/// Number of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberIndex(pub u8);

/// What kind of participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// A process.
    Process,
    /// An endpoint of a core. Its hold records are written by Linux participants, by proxy.
    CoreEndpoint,
}

/// Where a participant is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberStatus {
    /// The record is free.
    Free,
    /// It is filling its record.
    Joining,
    /// It takes part.
    Alive,
    /// Somebody gives back what it held.
    Recovering,
}

impl MemberStatus {
    const fn from_bits(bits: u64) -> Self {
        match (bits >> 32) & 0xFF {
            1 => Self::Joining,
            2 => Self::Alive,
            3 => Self::Recovering,
            _ => Self::Free,
        }
    }

    const fn to_bits(self) -> u64 {
        let number: u64 = match self {
            Self::Free => 0,
            Self::Joining => 1,
            Self::Alive => 2,
            Self::Recovering => 3,
        };
        number << 32
    }
}

/// What the operating system knows a participant by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Process id, in the namespace below.
    pub pid: u32,
    /// Start of the process, in clock ticks since boot (`/proc/PID/stat`): tells a reused id apart. 0: not known yet.
    pub start_time: u64,
    /// Inode of the PID namespace. 0: not known yet.
    pub pid_namespace: u64,
    /// User id.
    pub uid: u32,
}

/// A participant as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Its number.
    pub index: MemberIndex,
    /// Its session.
    pub session: u32,
    /// Where it is in its life.
    pub status: MemberStatus,
    /// Process or core endpoint.
    pub kind: MemberKind,
    /// Its process.
    pub identity: Identity,
    /// Its name.
    pub name: String,
}

/// A participant as itself: the right to act under its number. One at a time; its methods take `&mut self` because the journal
/// has room for one step.
#[derive(Debug)]
pub struct Member {
    index: MemberIndex,
    session: u32,
    now: u32,
}

impl Member {
    /// Takes a free record.
    ///
    /// # Errors
    /// [`PoolError::TableFull`] if there is none, [`PoolError::BadName`].
    pub fn join<M: Memory>(
        control: &Control<M>,
        kind: MemberKind,
        identity: Identity,
        name: &str,
    ) -> Result<Self, PoolError> {
        Self::join_with_session(control, kind, identity, name, control.new_session())
    }

    /// As [`Member::join`], under a session number that the caller has got from [`Control::new_session`]: so that what proves its
    /// life can bear that number before anybody sees the record.
    ///
    /// # Errors
    /// As [`Member::join`].
    pub fn join_with_session<M: Memory>(
        control: &Control<M>,
        kind: MemberKind,
        identity: Identity,
        name: &str,
        session: u32,
    ) -> Result<Self, PoolError> {
        check_name(name)?;
        let limit = control.layout().limits().participants;
        let joining = state_bits(identity.pid, MemberStatus::Joining, session);
        let memory = control.memory();
        let index = (0..limit as usize).find(|&index| {
            let at = control.layout().participant(index) + participant::STATE;
            let found = memory.load_cell(at, Ordering::Acquire);
            MemberStatus::from_bits(found) == MemberStatus::Free
                && memory.replace_cell(at, found, joining).is_ok()
        });
        let index = index.ok_or(PoolError::TableFull {
            what: "participant",
            limit,
        })?;
        note_table(control, Table::Participants, index as u32 + 1);
        let at = control.layout().participant(index);
        memory.store_cell(
            at + participant::START_TIME,
            identity.start_time,
            Ordering::Relaxed,
        );
        memory.store_cell(
            at + participant::PID_NAMESPACE,
            identity.pid_namespace,
            Ordering::Relaxed,
        );
        let kind_word = u32::from(kind == MemberKind::CoreEndpoint);
        memory.store(at + participant::KIND, kind_word, Ordering::Relaxed);
        memory.store(at + participant::UID, identity.uid, Ordering::Relaxed);
        memory.store(at + participant::BELL_SLEEPERS, 0, Ordering::Relaxed);
        write_name(memory, at + participant::NAME, NAME_BYTES, name);
        // First the word: watchers look at a joining participant again and again, at one that is there only when the word moves.
        memory.add(header::MEMBERSHIP, 1, Ordering::Release);
        let alive = state_bits(identity.pid, MemberStatus::Alive, session);
        memory.store_cell(at + participant::STATE, alive, Ordering::Release);
        Ok(Self {
            index: MemberIndex(index as u8),
            session,
            now: 0,
        })
    }

    /// The right to act as a participant whose death is proven. For recovery only.
    pub(crate) const fn impersonate(index: MemberIndex, session: u32, now: u32) -> Self {
        Self {
            index,
            session,
            now,
        }
    }

    /// Its number.
    #[must_use]
    pub const fn index(&self) -> MemberIndex {
        self.index
    }

    /// Its session.
    #[must_use]
    pub const fn session(&self) -> u32 {
        self.session
    }

    /// Tells the time by which holds are dated, in milliseconds of the monotonic clock.
    pub const fn set_time(&mut self, monotonic_ms: u64) {
        self.now = since_units(monotonic_ms);
    }

    pub(crate) const fn now(&self) -> u32 {
        self.now
    }

    /// The bell of a participant.
    #[must_use]
    pub const fn bell<M: Memory>(control: &Control<M>, index: MemberIndex) -> Bell {
        let at = control.layout().participant(index.0 as usize);
        Bell {
            count: at + participant::BELL_COUNT,
            sleepers: at + participant::BELL_SLEEPERS,
        }
    }

    /// Changes when a connection to or from the participant changes.
    #[inline]
    pub fn changes<M: Memory>(control: &Control<M>, index: MemberIndex) -> u32 {
        let at = control.layout().participant(index.0.into()) + participant::CHANGES;
        control.memory().load(at, Ordering::Acquire)
    }
}

pub(crate) fn note_change<M: Memory>(control: &Control<M>, index: u8) {
    if control.has_row(MemberIndex(index)) {
        let at = control.layout().participant(index.into()) + participant::CHANGES;
        control.memory().add(at, 1, Ordering::Release);
    }
}

/// A moment in the units of a hold record's `since`: 24 bits of 128 ms.
pub(crate) const fn since_units(monotonic_ms: u64) -> u32 {
    (monotonic_ms / hythe_abi::pool::SINCE_UNIT_MS) as u32 & 0x00FF_FFFF
}

pub(crate) const fn state_bits(pid: u32, status: MemberStatus, session: u32) -> u64 {
    pid as u64 | status.to_bits() | (session as u64) << 40
}

pub(crate) fn check_name(name: &str) -> Result<(), PoolError> {
    let refuse = |reason| {
        Err(PoolError::BadName {
            name: name.to_owned(),
            reason,
        })
    };
    if name.is_empty() {
        return refuse("it is empty");
    }
    if name.len() > NAME_BYTES {
        return refuse("it is longer than 64 bytes");
    }
    if name.chars().any(char::is_control) {
        return refuse("it has control characters");
    }
    Ok(())
}

impl<M: Memory> Control<M> {
    /// Is this number, which may be a peer's claim, inside the table?
    pub(crate) fn has_row(&self, index: MemberIndex) -> bool {
        u32::from(index.0) < self.layout().limits().participants
    }

    /// A participant's record, if it is in use.
    pub fn member(&self, index: MemberIndex) -> Option<MemberInfo> {
        if !self.has_row(index) {
            return None;
        }
        let (memory, at) = (self.memory(), self.layout().participant(index.0.into()));
        let state = memory.load_cell(at + participant::STATE, Ordering::Acquire);
        let status = MemberStatus::from_bits(state);
        if status == MemberStatus::Free {
            return None;
        }
        let core = memory.load(at + participant::KIND, Ordering::Relaxed) == 1;
        Some(MemberInfo {
            index,
            session: (state >> 40) as u32,
            status,
            kind: if core {
                MemberKind::CoreEndpoint
            } else {
                MemberKind::Process
            },
            identity: self.identity(at, state as u32, status),
            name: read_name(memory, at + participant::NAME, NAME_BYTES),
        })
    }

    /// While a participant joins, its record still holds start time and namespace of an earlier one: only the process id is its own.
    fn identity(&self, at: usize, pid: u32, status: MemberStatus) -> Identity {
        let joining = status == MemberStatus::Joining;
        let cell = |offset| self.memory().load_cell(at + offset, Ordering::Relaxed);
        Identity {
            pid,
            start_time: if joining {
                0
            } else {
                cell(participant::START_TIME)
            },
            pid_namespace: if joining {
                0
            } else {
                cell(participant::PID_NAMESPACE)
            },
            uid: self.memory().load(at + participant::UID, Ordering::Relaxed),
        }
    }

    /// Every participant's record that is in use.
    pub fn members(&self) -> impl Iterator<Item = MemberInfo> {
        (0..self.layout().limits().participants)
            .filter_map(|index| self.member(MemberIndex(index as u8)))
    }

    /// Does this participant still have this session?
    pub fn is_current(&self, index: MemberIndex, session: u32) -> bool {
        if !self.has_row(index) {
            return false;
        }
        let at = self.layout().participant(index.0.into()) + participant::STATE;
        let state = self.memory().load_cell(at, Ordering::Acquire);
        (state >> 40) as u32 == session && MemberStatus::from_bits(state) == MemberStatus::Alive
    }

    /// The operation that a participant has begun and not finished; 0: none.
    pub fn pending_operation(&self, index: MemberIndex) -> u32 {
        self.memory().load(
            journal::at(self, index.0) + intent::OPERATION,
            Ordering::Acquire,
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scene;

    #[test]
    fn names_are_checked() {
        let control = scene::control();
        for (name, why) in [
            ("", "empty"),
            ("a\nb", "control"),
            (&"x".repeat(65), "longer than 64"),
        ] {
            let refused = scene::try_join(&control, name).expect_err("a bad name");
            assert!(matches!(refused, PoolError::BadName { .. }), "{refused:?}");
            assert!(refused.to_string().contains(why), "{refused}");
        }
        assert_eq!(
            control.members().count(),
            0,
            "a refused name takes no place"
        );
        scene::try_join(&control, &"x".repeat(64)).expect("just fits");
    }

    #[test]
    fn a_full_table_names_its_limit() {
        let control = scene::control();
        let limit = scene::LIMITS.participants;
        let members: Vec<Member> = (0..limit).map(|_| scene::join(&control)).collect();
        assert_eq!(members.len(), 2);
        let refused = scene::try_join(&control, "late").expect_err("full");
        assert_eq!(
            refused,
            PoolError::TableFull {
                what: "participant",
                limit
            }
        );
    }

    #[test]
    fn a_session_is_never_given_twice() {
        let control = scene::control();
        let first = scene::join(&control);
        let (index, session) = (first.index(), first.session());
        assert!(control.is_current(index, session));
        scene::with_region(&control, |regions, _| {
            first.depart(&control, regions).expect("goes")
        });
        assert!(!control.is_current(index, session));
        let second = scene::join(&control);
        assert_eq!(second.index(), index);
        assert_ne!(second.session(), session);
    }
}
