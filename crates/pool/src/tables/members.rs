//! Records of participants.

use hythe_abi::pool::{NAME_BYTES, intent, participant};
use hythe_memory::{Memory, Ordering, read_name};
use hythe_queue::Bell;
use hythe_terminal::escaped;

use super::Tables;

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
    /// What holds the messages of queues. It is no process, and never ends.
    MessageStore,
    /// Another host, for which a process of this one acts: the agent, which joins once for each.
    /// Two of these make no connection with each other: what came from a host is not sent on to
    /// another.
    Host,
    /// The agent of all other hosts: it looks which ports open and close here, and says when it
    /// has.
    HostAgent,
}

impl MemberKind {
    pub(crate) const fn to_word(self) -> u32 {
        match self {
            Self::Process => 0,
            Self::CoreEndpoint => 1,
            Self::MessageStore => 2,
            Self::Host => 3,
            Self::HostAgent => 4,
        }
    }

    const fn from_word(word: u32) -> Self {
        match word {
            1 => Self::CoreEndpoint,
            2 => Self::MessageStore,
            3 => Self::Host,
            4 => Self::HostAgent,
            _ => Self::Process,
        }
    }

    /// Does a process act as it, which has a liveness socket and answers for its record?
    #[must_use]
    pub const fn is_process(self) -> bool {
        matches!(self, Self::Process | Self::Host | Self::HostAgent)
    }
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
    pub(crate) const fn from_bits(bits: u64) -> Self {
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
    /// Start of the process, in clock ticks since boot (`/proc/PID/stat`): tells a reused id apart.
    /// 0: not known yet.
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
    /// What it is.
    pub kind: MemberKind,
    /// Its process.
    pub identity: Identity,
    /// Its name.
    pub name: String,
}

/// A moment in the units of a hold record's `since`: 24 bits of 128 ms.
pub(crate) const fn since_units(monotonic_ms: u64) -> u32 {
    (monotonic_ms / hythe_abi::pool::SINCE_UNIT_MS) as u32 & 0x00FF_FFFF
}

pub(crate) const fn state_bits(pid: u32, status: MemberStatus, session: u32) -> u64 {
    pid as u64 | status.to_bits() | (session as u64) << 40
}

impl<'c, M: Memory> Tables<'c, M> {
    /// Is this number, which may be a peer's claim, inside the table?
    pub(crate) fn has_row(self, index: MemberIndex) -> bool {
        u32::from(index.0) < self.layout().limits().participants
    }

    /// A participant's record, if it is in use.
    pub fn member(self, index: MemberIndex) -> Option<MemberInfo> {
        if !self.has_row(index) {
            return None;
        }
        let (memory, at) = (self.memory(), self.layout().participant(index.0.into()));
        let state = memory.load_cell(at + participant::STATE, Ordering::Acquire);
        let status = MemberStatus::from_bits(state);
        if status == MemberStatus::Free {
            return None;
        }
        Some(MemberInfo {
            index,
            session: (state >> 40) as u32,
            status,
            kind: MemberKind::from_word(memory.load(at + participant::KIND, Ordering::Relaxed)),
            identity: self.identity(at, state as u32, status),
            name: read_name(memory, at + participant::NAME, NAME_BYTES),
        })
    }

    /// The name of a participant, also behind its end, as long as no other has its record.
    pub fn name_of(self, index: MemberIndex, session: u32) -> Option<String> {
        if !self.has_row(index) {
            return None;
        }
        let (memory, at) = (self.memory(), self.layout().participant(index.0.into()));
        let state = || memory.load_cell(at + participant::STATE, Ordering::Acquire);
        let is_its = || (state() >> 40) as u32 == session;
        if !is_its() {
            return None;
        }
        let name = read_name(memory, at + participant::NAME, NAME_BYTES);
        // A later one takes the record, with its session, before it writes its name.
        hythe_memory::full_barrier();
        is_its().then_some(name)
    }

    /// What kind of participant has, or last had, this record.
    pub fn member_kind(self, index: MemberIndex) -> Option<MemberKind> {
        if !self.has_row(index) {
            return None;
        }
        let at = self.layout().participant(index.0.into()) + participant::KIND;
        // Relaxed: whoever found a port of it saw what it wrote before it was alive.
        let word = self.memory().load(at, Ordering::Relaxed);
        Some(MemberKind::from_word(word))
    }

    /// While a participant joins, its record still holds start time and namespace of an earlier
    /// one: only the process id is its own.
    fn identity(self, at: usize, pid: u32, status: MemberStatus) -> Identity {
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
    pub fn members(self) -> impl Iterator<Item = MemberInfo> {
        (0..self.layout().limits().participants)
            .filter_map(move |index| self.member(MemberIndex(index as u8)))
    }

    /// Is every record free, or that of a participant that has joined and not begun to leave?
    /// Allocates nothing.
    pub fn all_are_alive(self) -> bool {
        let mut rows = 0..self.layout().limits().participants;
        rows.all(|row| {
            let at = self.layout().participant(row as usize) + participant::STATE;
            let state = self.memory().load_cell(at, Ordering::Acquire);
            matches!(
                MemberStatus::from_bits(state),
                MemberStatus::Free | MemberStatus::Alive
            )
        })
    }

    /// The participants that stand for other hosts, and their agent. Allocates nothing.
    pub fn hosts(self) -> impl Iterator<Item = (MemberIndex, MemberKind)> {
        let rows = (0..self.layout().limits().participants).map(|index| MemberIndex(index as u8));
        rows.filter_map(move |row| {
            let at = self.layout().participant(row.0.into()) + participant::STATE;
            let state = self.memory().load_cell(at, Ordering::Acquire);
            let is_alive = MemberStatus::from_bits(state) == MemberStatus::Alive;
            let kind = self.member_kind(row).filter(|_| is_alive)?;
            let is_one = matches!(kind, MemberKind::Host | MemberKind::HostAgent);
            is_one.then_some((row, kind))
        })
    }

    /// Does this participant still have this session?
    pub fn is_current(self, index: MemberIndex, session: u32) -> bool {
        if !self.has_row(index) {
            return false;
        }
        let at = self.layout().participant(index.0.into()) + participant::STATE;
        let state = self.memory().load_cell(at, Ordering::Acquire);
        (state >> 40) as u32 == session && MemberStatus::from_bits(state) == MemberStatus::Alive
    }

    /// Has this session ended, and is nothing of it left to be given back? Allocates nothing.
    pub fn is_over(self, index: MemberIndex, session: u32) -> bool {
        if !self.has_row(index) {
            return true;
        }
        let at = self.layout().participant(index.0.into()) + participant::STATE;
        let state = self.memory().load_cell(at, Ordering::Acquire);
        let status = MemberStatus::from_bits(state);
        (state >> 40) as u32 != session || status == MemberStatus::Free
    }

    /// A participant as a person knows it: name and process.
    pub fn named(self, index: MemberIndex) -> String {
        self.member(index).map_or_else(
            || format!("participant {}", index.0),
            |member| format!("{} (pid {})", escaped(&member.name), member.identity.pid),
        )
    }

    /// The bell of a participant.
    #[must_use]
    pub const fn bell(self, index: MemberIndex) -> Bell {
        let at = self.layout().participant(index.0 as usize);
        Bell {
            count: at + participant::BELL_COUNT,
            sleepers: at + participant::BELL_SLEEPERS,
        }
    }

    /// Changes when a connection to or from the participant changes.
    #[inline]
    pub fn changes(self, index: MemberIndex) -> u32 {
        let at = self.layout().participant(index.0.into()) + participant::CHANGES;
        self.memory().load(at, Ordering::Acquire)
    }

    pub(crate) fn note_change(self, index: u8) {
        if self.has_row(MemberIndex(index)) {
            let at = self.layout().participant(index.into()) + participant::CHANGES;
            self.memory().add(at, 1, Ordering::Release);
        }
    }

    /// The operation that a participant has begun and not finished; 0: none.
    pub fn pending_operation(self, index: MemberIndex) -> u32 {
        let at = self.layout().participant(index.0.into()) + participant::INTENT;
        self.memory()
            .load(at + intent::OPERATION, Ordering::Acquire)
    }

    /// The CPUs that a participant may run on, as bits (`cpu % 64`); 0: not known. A claim, good
    /// for nothing but choosing how to wait.
    pub fn cpus(self, index: MemberIndex) -> u64 {
        if !self.has_row(index) {
            return 0;
        }
        let at = self.layout().participant(index.0.into()) + participant::CPUS;
        self.memory().load_cell(at, Ordering::Relaxed)
    }

    /// Says on which CPUs this participant may run.
    pub fn set_cpus(self, own: MemberIndex, cpus: u64) {
        let at = self.layout().participant(own.0.into()) + participant::CPUS;
        self.memory().store_cell(at, cpus, Ordering::Relaxed);
    }

    /// Has a recoverer claimed this participant's record? It may have died since.
    pub fn is_claimed(self, index: MemberIndex) -> bool {
        if !self.has_row(index) {
            return false;
        }
        let at = self.layout().participant(index.0.into()) + participant::RECOVERER;
        self.memory().load_cell(at, Ordering::Acquire) as u8 != 0
    }

    /// Sessions under which somebody is recovering a participant: what proves the life of an
    /// outsider must stay for these.
    pub fn claiming_sessions(self) -> impl Iterator<Item = u32> {
        let rows = 0..self.layout().limits().participants as usize;
        rows.filter_map(move |index| {
            let at = self.layout().participant(index) + participant::RECOVERER;
            let found = self.memory().load_cell(at, Ordering::Acquire);
            (found as u8 != 0).then_some((found >> 40) as u32)
        })
    }
}
