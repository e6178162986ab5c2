//! Which Xen, and which of its settings: the options of `hythe latency board --under xen-…`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hythe_command::error::CliError;
use hythe_latency::xen::{Hypervisor, Partition, Setting};

/// Enough for p99.9, and half a minute.
const COUNTED_SAMPLES: u64 = 10_000;

/// Of the hypervisor.
#[derive(Args, Debug)]
pub(super) struct XenArgs {
    /// Which Xen: Debian's package, or one built from its source with the null scheduler, pools of
    /// CPUs at boot and static memory [default: built for xen-partitioned, else debian]
    #[arg(long, value_name = "XEN")]
    xen: Option<HypervisorArg>,
    /// Leave out one of the settings of xen-partitioned, to measure its effect; may be repeated
    #[arg(long, value_name = "SETTING")]
    without: Vec<SettingArg>,
    /// One more word for Xen's command line; may be repeated
    #[arg(long, value_name = "WORD")]
    xen_option: Vec<String>,
    /// How many samples of each measure to time by the count of instructions that the core's CPU
    /// executed, which excludes the time of the other CPU; only with xen-partitioned. 0 for none,
    /// 40000 for all after the first 1000, which takes minutes [default: 10000]
    #[arg(long, value_name = "SAMPLES")]
    guest_cpu_instructions: Option<u64>,
    /// Where `scripts/xen-tools.sh` has put Xen and Linux [default: $HYTHE_XEN, else target/xen
    /// beside this program]
    #[arg(long, value_name = "DIR")]
    xen_tools: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HypervisorArg {
    Debian,
    Built,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SettingArg {
    /// The core's CPU as a pool of its own
    Pool,
    /// The null scheduler there; credit2 without it
    Null,
    /// Memory of the core that is named beforehand
    StaticMemory,
    /// Sleeping without leaving for Xen
    NativeWfi,
}

impl SettingArg {
    const fn setting(self) -> Setting {
        match self {
            Self::Pool => Setting::Pool,
            Self::Null => Setting::NullScheduler,
            Self::StaticMemory => Setting::StaticMemory,
            Self::NativeWfi => Setting::NativeWfi,
        }
    }
}

impl XenArgs {
    /// Was one of them given?
    pub(super) fn is_given(&self) -> bool {
        self.xen.is_some()
            || !self.without.is_empty()
            || !self.xen_option.is_empty()
            || self.xen_tools.is_some()
            || self.guest_cpu_instructions.is_some()
    }

    pub(super) const fn hypervisor(&self, partition: Partition) -> Hypervisor {
        match (self.xen, partition) {
            (Some(HypervisorArg::Built), _) | (None, Partition::Partitioned) => Hypervisor::Built,
            (Some(HypervisorArg::Debian), _) | (None, Partition::Shared) => Hypervisor::Debian,
        }
    }

    /// What the hypervisor has of all of them, without those that are not wanted.
    pub(super) fn settings(&self, partition: Partition) -> Result<Vec<Setting>, CliError> {
        let hypervisor = self.hypervisor(partition);
        if partition == Partition::Shared {
            return match self.without.first() {
                None => Ok(Vec::new()),
                Some(_) => Err(CliError::WrongUse(
                    "--without is for --under xen-partitioned: nothing is set where both share a CPU".to_owned(),
                )),
            };
        }
        let unwanted = |setting| self.without.iter().any(|arg| arg.setting() == setting);
        let wanted = Setting::ALL
            .into_iter()
            .filter(|&setting| !unwanted(setting));
        Ok(wanted.filter(|&setting| hypervisor.has(setting)).collect())
    }

    /// With one CPU there are no turns, and all is seen from outside.
    pub(super) fn guest_cpu_instruction_samples(
        &self,
        partition: Partition,
    ) -> Result<u64, CliError> {
        match (partition, self.guest_cpu_instructions) {
            (Partition::Partitioned, samples) => Ok(samples.unwrap_or(COUNTED_SAMPLES)),
            (Partition::Shared, None) => Ok(0),
            (Partition::Shared, Some(_)) => Err(CliError::WrongUse(
                "--guest-cpu-instructions is for --under xen-partitioned: where both share a CPU everything on it counts".to_owned(),
            )),
        }
    }

    pub(super) fn options(&self) -> Vec<String> {
        self.xen_option.clone()
    }

    pub(super) fn tools(&self) -> PathBuf {
        let variable = || hythe_sys::environment::variable("HYTHE_XEN").map(PathBuf::from);
        self.xen_tools.clone().or_else(variable).unwrap_or_else(|| {
            let program = std::env::current_exe().unwrap_or_default();
            program.parent().unwrap_or("".as_ref()).join("../xen")
        })
    }
}
