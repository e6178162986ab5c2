//! Which Xen is booted, and what of it leaves a core alone that has a CPU of its own.

use std::path::Path;

use super::{Load, Partition};
use crate::LatencyError;

/// Whose build of Xen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hypervisor {
    /// Debian's package. It has neither the null scheduler nor pools of CPUs at boot nor static
    /// memory; it takes `sched=null` without a word, and goes on with credit2.
    Debian,
    /// The source of Debian's package, built with those (`scripts/xen-build.sh`).
    Built,
}

impl Hypervisor {
    /// Its file in [`super::Setup::tools`]; beside it, in a file with `.about` behind its name,
    /// stands what it is.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Debian => "xen",
            Self::Built => "xen-built",
        }
    }

    /// Does it have what the setting needs?
    #[must_use]
    pub const fn has(self, setting: Setting) -> bool {
        match self {
            Self::Built => true,
            Self::Debian => matches!(setting, Setting::NativeWfi),
        }
    }

    /// Package and version, and how it was built.
    ///
    /// # Errors
    /// [`LatencyError::Tools`]: it was not fetched.
    pub fn about(self, tools: &Path) -> Result<String, LatencyError> {
        let path = tools.join(format!("{}.about", self.file()));
        match std::fs::read_to_string(&path) {
            Ok(about) => Ok(about.trim().to_owned()),
            Err(_) => Err(LatencyError::Tools { path }),
        }
    }
}

/// One thing that may help a core with a CPU of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The core's CPU is a pool of its own from the start, with a scheduler of its own.
    Pool,
    /// Nothing is scheduled there: a CPU for the one virtual CPU. Without it credit2.
    NullScheduler,
    /// The core's memory is named beforehand.
    StaticMemory,
    /// Who sleeps does not leave for Xen. Holds for Linux, too.
    NativeWfi,
}

impl Setting {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Pool,
        Self::NullScheduler,
        Self::StaticMemory,
        Self::NativeWfi,
    ];

    /// As it is said in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::NullScheduler => "null",
            Self::StaticMemory => "static-memory",
            Self::NativeWfi => "native-wfi",
        }
    }
}

/// Words of Xen's command line. One virtual CPU of Linux: it shall not need the core's.
pub(super) fn words(partition: Partition, settings: &[Setting]) -> String {
    let has = |setting| settings.contains(&setting);
    // The first pool is Linux's where the core has one of its own.
    let scheduler = match has(Setting::NullScheduler) && !has(Setting::Pool) {
        true => "null",
        false => "credit2",
    };
    let mut words = format!("dom0_mem=512M dom0_max_vcpus=1 console=none sched={scheduler}");
    if partition == Partition::Partitioned {
        words += " dom0_vcpus_pin";
    }
    if has(Setting::NativeWfi) {
        words += " vwfi=native";
    }
    words
}

/// Of Linux's command line, which `rtos/xen/init.sh` reads. Beside a core on another CPU the
/// program that computes gives the emulator's turn on (`rtos/xen/hog.c`).
pub(super) fn linux_words(partition: Partition, load: Load) -> String {
    let load = match (partition, load) {
        (Partition::Partitioned, Load::Hog) => "hog-in-turns",
        _ => load.name(),
    };
    format!("console=hvc0 panic=-1 nokaslr load={load}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduler_of_the_whole_machine_is_null_only_without_a_pool() {
        let of = |settings: &[Setting]| words(Partition::Partitioned, settings);
        assert!(of(&[]).contains("sched=credit2 dom0_vcpus_pin"));
        assert!(of(&Setting::ALL).contains("sched=credit2 dom0_vcpus_pin vwfi=native"));
        assert!(of(&[Setting::NullScheduler]).ends_with("sched=null dom0_vcpus_pin"));
        assert!(words(Partition::Shared, &[]).ends_with("sched=credit2"));
    }

    #[test]
    fn linux_gives_turns_on_where_there_are_turns() {
        let of = |partition| linux_words(partition, Load::Hog);
        assert!(of(Partition::Shared).ends_with(" load=hog"));
        assert!(of(Partition::Partitioned).ends_with(" load=hog-in-turns"));
    }

    #[test]
    fn debian_has_what_needs_no_building() {
        let has = Setting::ALL.map(|setting| Hypervisor::Debian.has(setting));
        assert_eq!(has, [false, false, false, true]);
        assert!(
            Setting::ALL
                .iter()
                .all(|&setting| Hypervisor::Built.has(setting))
        );
    }
}
