//! What a participant does, under its number, from joining to leaving.
//!
//! [`Member`] is the right to act; what it does with slots, queues, channels, ports, connections,
//! cores, regions and the dead has a file each. Other participants are looked at through
//! [`Tables`](crate::Tables).

pub(crate) mod adding_regions;
pub(crate) mod channels;
pub(crate) mod connections;
pub(crate) mod core_rows;
pub(crate) mod leasing;
mod oldest;
pub(crate) mod ports;
pub(crate) mod recovery;
pub(crate) mod transfer;

use hythe_abi::pool::{NAME_BYTES, header, participant};
use hythe_memory::{Memory, Ordering, write_name};

use crate::PoolError;
use crate::control::Control;
use crate::high_water::{Table, note_table};
use crate::tables::members::{
    Identity, MemberIndex, MemberKind, MemberStatus, since_units, state_bits,
};

/// A participant as itself: the right to act under its number. One at a time; its methods take
/// `&mut self` because the journal holds one step.
#[derive(Debug)]
pub struct Member {
    index: MemberIndex,
    session: u32,
    /// What it makes a connection for says so.
    stands_for_host: bool,
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

    /// As [`Member::join`], under a session number that the caller has got from
    /// [`Control::new_session`]: so that what proves its life can bear that number before anybody
    /// sees the record.
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
        memory.store(at + participant::KIND, kind.to_word(), Ordering::Relaxed);
        memory.store(at + participant::UID, identity.uid, Ordering::Relaxed);
        memory.store(at + participant::BELL_SLEEPERS, 0, Ordering::Relaxed);
        if kind == MemberKind::CoreEndpoint {
            control
                .tables()
                .clear_core_counters(MemberIndex(index as u8));
        }
        write_name(memory, at + participant::NAME, NAME_BYTES, name);
        // First the word: watchers look at a joining participant again and again, at one that is
        // there only when the word moves.
        memory.add(header::MEMBERSHIP, 1, Ordering::Release);
        let alive = state_bits(identity.pid, MemberStatus::Alive, session);
        memory.store_cell(at + participant::STATE, alive, Ordering::Release);
        Ok(Self {
            index: MemberIndex(index as u8),
            session,
            stands_for_host: kind == MemberKind::Host,
            now: 0,
        })
    }

    /// The right to act as a participant whose death is proven. For recovery only.
    pub(crate) const fn impersonate(index: MemberIndex, session: u32, now: u32) -> Self {
        Self {
            index,
            session,
            // It connects to nobody.
            stands_for_host: false,
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
            control.tables().members().count(),
            0,
            "a refused name takes no place"
        );
        scene::try_join(&control, &"x".repeat(64)).expect("just fits");
    }

    #[test]
    fn full_table_names_its_limit() {
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
    fn session_is_never_given_twice() {
        let control = scene::control();
        let first = scene::join(&control);
        let (index, session) = (first.index(), first.session());
        assert!(control.tables().is_current(index, session));
        scene::with_region(&control, |regions, _| {
            first.depart(&control, regions).expect("goes")
        });
        assert!(!control.tables().is_current(index, session));
        let second = scene::join(&control);
        assert_eq!(second.index(), index);
        assert_ne!(second.session(), session);
    }
}
