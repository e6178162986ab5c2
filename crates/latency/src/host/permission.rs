//! What this machine and its administrator allow, asked for before anything is measured, and held
//! while it is.
//!
//! What is refused is told, with what would enable it. Never decides that a refusal does not
//! matter.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::thread;

use hythe_sys::scheduling::enter_fifo;
use rustix::mm::{MlockAllFlags, mlockall, munlockall};

use super::cpus;
use super::plan::Plan;

const DMA_LATENCY: &str = "/dev/cpu_dma_latency";

/// Something that was asked for and is not to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `sched_fifo`, `mlockall`, `cpu_dma_latency`, `cpu3`, or the metric that is missing.
    pub what: String,
    /// What the system said, and what follows from it.
    pub why: String,
    /// What would enable it.
    pub remedy: &'static str,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}: {}; {}", self.what, self.why, self.remedy)
    }
}

/// What was granted. Dropping it gives all of it back.
#[derive(Debug)]
pub struct Permissions {
    /// How memory is locked.
    lock: fn() -> Result<(), Refusal>,
    /// Of the chosen ones.
    pub cpus: Vec<usize>,
    /// Of `SCHED_FIFO`.
    pub priority: Option<u8>,
    /// What was not granted.
    pub refusals: Vec<Refusal>,
    /// Open for as long as the CPUs shall stay awake.
    dma_latency: Option<File>,
    locks_memory: bool,
}

impl Permissions {
    /// Asks for all that `plan` wants.
    #[must_use]
    pub fn ask(plan: &Plan) -> Self {
        Self::ask_with(plan, lock)
    }

    pub(super) fn ask_with(plan: &Plan, lock: fn() -> Result<(), Refusal>) -> Self {
        let mut refusals = Vec::new();
        let mut granted = |asked: Result<(), Refusal>| match asked {
            Ok(()) => true,
            Err(refusal) => {
                refusals.push(refusal);
                false
            }
        };
        let priority = plan
            .priority
            .filter(|&priority| granted(try_fifo(priority)));
        let usable = |cpu: &&usize| granted(try_cpu(**cpu));
        let cpus = plan.cpus.iter().filter(usable).copied().collect();
        let locks_memory = plan.lock_memory && granted(lock());
        let mut permissions = Self {
            lock,
            cpus,
            priority,
            refusals,
            dma_latency: None,
            locks_memory,
        };
        if plan.hold_dma_latency {
            match hold_dma_latency() {
                Ok(file) => permissions.dma_latency = Some(file),
                Err(refusal) => permissions.refusals.push(refusal),
            }
        }
        permissions
    }

    /// Are the CPUs kept from deep idle states?
    #[must_use]
    pub fn holds_dma_latency(&self) -> bool {
        self.dma_latency.is_some()
    }

    /// Is memory locked?
    #[must_use]
    pub fn locks_memory(&self) -> bool {
        self.locks_memory
    }

    /// Locks what has been mapped since, too. False: it is not, for the reason that is now the last
    /// of the refusals.
    pub(super) fn lock_again(&mut self) -> bool {
        if self.locks_memory
            && let Err(refusal) = (self.lock)()
        {
            self.locks_memory = false;
            self.refusals.push(refusal);
        }
        self.locks_memory
    }
}

impl Drop for Permissions {
    fn drop(&mut self) {
        if self.locks_memory {
            // Nothing depends on it: what stays locked is the process's own.
            let _ = munlockall();
        }
    }
}

/// On a thread of its own, which ends with what it got.
fn on_a_thread(try_it: impl FnOnce() -> std::io::Result<()> + Send) -> std::io::Result<()> {
    thread::scope(|scope| {
        let tried = thread::Builder::new().spawn_scoped(scope, try_it)?.join();
        tried.unwrap_or_else(|_| Err(std::io::Error::other("the thread that tried it panicked")))
    })
}

fn try_fifo(priority: u8) -> Result<(), Refusal> {
    on_a_thread(|| enter_fifo(priority.into())).map_err(|error| Refusal {
        what: "sched_fifo".to_owned(),
        why: format!("priority {priority} is not permitted ({error}), so the threads are scheduled as ordinary ones"),
        remedy: "run as root, or have \"USER - rtprio 99\" in /etc/security/limits.conf",
    })
}

fn try_cpu(cpu: usize) -> Result<(), Refusal> {
    on_a_thread(|| Ok(cpus::bind(cpu)?)).map_err(|error| Refusal {
        what: format!("cpu{cpu}"),
        why: format!("no thread of this process may run there ({error}), so it is not measured"),
        remedy: "leave the control group (cpuset) that excludes it, or choose other CPUs",
    })
}

/// Only what is mapped now: with what will be, a thread that starts later would fail where the
/// limit is reached.
fn lock() -> Result<(), Refusal> {
    mlockall(MlockAllFlags::CURRENT).map_err(|error| Refusal {
        what: "mlockall".to_owned(),
        why: format!("memory is not locked ({error}), so a page may be missing at any moment"),
        remedy: "run as root, or have \"USER - memlock unlimited\" in /etc/security/limits.conf",
    })
}

fn hold_dma_latency() -> Result<File, Refusal> {
    let open = || {
        let mut file = OpenOptions::new().write(true).open(DMA_LATENCY)?;
        // A signed number of microseconds, in the machine's order.
        file.write_all(&0_i32.to_ne_bytes())?;
        Ok(file)
    };
    open().map_err(|error: std::io::Error| Refusal {
        what: "cpu_dma_latency".to_owned(),
        why: format!("{DMA_LATENCY} cannot be held at 0 ({error}), so an idle CPU may sleep deeply and wake late"),
        remedy: "run as root, or let the user write to that device",
    })
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::plan;
    use super::*;

    #[test]
    fn refusal_names_what_why_and_a_remedy() {
        // No thread has it, not even root's.
        let refusal = try_fifo(100).expect_err("there is no such priority");
        let said = refusal.to_string();
        assert!(said.starts_with("sched_fifo: priority 100"), "{said}");
        assert!(said.contains("limits.conf"), "{said}");
        let refusal = try_cpu(1023).expect_err("no machine of ours has it");
        assert_eq!(refusal.what, "cpu1023");
    }

    #[test]
    fn what_is_refused_is_left_out_and_told() {
        let mut asked = plan();
        asked.cpus.push(1023);
        asked.priority = Some(100);
        let permissions = Permissions::ask(&asked);
        assert_eq!(permissions.cpus, plan().cpus);
        assert_eq!(permissions.priority, None);
        let what: Vec<&str> = permissions
            .refusals
            .iter()
            .map(|refusal| refusal.what.as_str())
            .collect();
        assert_eq!(what, ["sched_fifo", "cpu1023"]);
        assert!(!permissions.holds_dma_latency() && !permissions.locks_memory());
    }
}
