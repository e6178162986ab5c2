//! PVM's task ids: a host's part and a part that the host gives out.
//!
//! Bit 31 marks a daemon, bit 30 a multicast; bits 18 to 29 are the host's number, from 1 on; bits
//! 0 to 17 the task's number on it, 0 for none.

/// Bits of a task's number on its host.
pub(crate) const LOCAL_BITS: u32 = 18;
pub(crate) const LOCAL_MASK: u32 = (1 << LOCAL_BITS) - 1;
const HOST_MASK: u32 = 0x3ffc_0000;
const DAEMON: u32 = 1 << 31;
const MULTICAST: u32 = 1 << 30;

/// What names a task, a host or a host's daemon.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Tid(i32);

/// What messages of the machine itself come from.
pub const MACHINE: Tid = Tid(DAEMON as i32);
/// The first host of a machine: that of its jobs, and the only one of many.
pub const FIRST_HOST: Tid = Tid(1 << LOCAL_BITS);

impl Tid {
    /// The task with this number on this host. `None`: out of range.
    #[must_use]
    pub const fn task(host: Self, local: u32) -> Option<Self> {
        match local > 0 && local <= LOCAL_MASK && host.is_host() {
            true => Some(Self(host.0 | local as i32)),
            false => None,
        }
    }

    /// The host with this number, from 1 on. `None`: out of range.
    #[must_use]
    pub const fn numbered_host(number: u32) -> Option<Self> {
        match number > 0 && number <= HOST_MASK >> LOCAL_BITS {
            true => Some(Self((number << LOCAL_BITS) as i32)),
            false => None,
        }
    }

    /// Its number, from 1 on; 0: it has none.
    #[must_use]
    pub const fn host_number(self) -> u32 {
        (self.0 as u32 & HOST_MASK) >> LOCAL_BITS
    }

    /// As it stands in messages and arguments, whatever it may name.
    #[must_use]
    pub const fn from_number(number: i32) -> Self {
        Self(number)
    }

    /// As PVM's functions take and return it.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Does it name a task?
    #[must_use]
    pub const fn is_task(self) -> bool {
        let bits = self.0 as u32;
        bits & (DAEMON | MULTICAST) == 0 && bits & HOST_MASK != 0 && bits & LOCAL_MASK != 0
    }

    /// Does it name a host?
    #[must_use]
    pub const fn is_host(self) -> bool {
        let bits = self.0 as u32;
        bits & HOST_MASK != 0 && bits & !HOST_MASK == 0
    }

    /// Its host, as `pvm_tidtohost` says; that of a daemon, too.
    #[must_use]
    pub const fn host(self) -> Self {
        Self((self.0 as u32 & HOST_MASK) as i32)
    }

    /// The daemon of its host.
    #[must_use]
    pub const fn daemon(self) -> Self {
        Self((self.0 as u32 & HOST_MASK | DAEMON) as i32)
    }

    /// The task's number on its host; 0: it names none.
    #[must_use]
    pub const fn local(self) -> u32 {
        self.0 as u32 & LOCAL_MASK
    }
}

/// `t40001`, as PVM's programs print it.
impl std::fmt::Display for Tid {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "t{:x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_hosts_and_daemons_are_told_apart() {
        let task = Tid::task(FIRST_HOST, 513).expect("in range");
        assert_eq!(task.number(), 0x40201);
        assert_eq!(task.to_string(), "t40201");
        assert!(task.is_task() && !task.is_host());
        assert_eq!(task.host(), FIRST_HOST);
        assert_eq!(task.local(), 513);
        assert!(FIRST_HOST.is_host() && !FIRST_HOST.is_task());
        let daemon = task.daemon();
        assert_eq!(daemon.number() as u32, 0x8004_0000);
        assert!(!daemon.is_task() && !daemon.is_host());
        assert_eq!(daemon.host(), FIRST_HOST);
    }

    #[test]
    fn numbers_out_of_range_name_no_task() {
        assert_eq!(Tid::task(FIRST_HOST, 0), None);
        assert_eq!(Tid::task(FIRST_HOST, 1 << 18), None);
        assert_eq!(Tid::task(Tid::from_number(3), 1), None);
        assert_eq!(Tid::numbered_host(1), Some(FIRST_HOST));
        let last = Tid::numbered_host(4095).expect("in range");
        assert!(last.is_host() && last.host_number() == 4095);
        assert_eq!(
            (Tid::numbered_host(0), Tid::numbered_host(4096)),
            (None, None)
        );
        for number in [0, -1, 5, 1 << 30, i32::MIN | 1 << 18 | 1] {
            assert!(!Tid::from_number(number).is_task(), "{number:x}");
        }
    }
}
