//! How long a wait looks before it sleeps: at most a limit, not at all where nobody else could run
//! meanwhile, and less and less where looking has not paid.
//!
//! [`SpinGate`] is the node's: may its peers run while one of its threads spins? The watcher keeps
//! it current. What became of earlier spins is [`crate::spinner`]'s. Used by every wait. Never
//! sleeps itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hythe_memory::Mapped;
use hythe_pool::{Control, MemberIndex, MemberKind, MemberStatus};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

/// Longer than a wake-up across two processors takes, which is ten microseconds, and forty in a
/// virtual machine: with less, two that once missed each other sleep in turn for good, each looking
/// no longer than the other takes to wake.
const DEFAULT_LIMIT: Duration = Duration::from_micros(50);
/// Longer spins are not waits any more but a use of the CPU.
const LONGEST_LIMIT: Duration = Duration::from_millis(10);
/// Where a mask is not known.
const ANY_CPU: u64 = u64::MAX;

/// The limit that was asked for, else `HYTHE_SPIN_US`, else 50 microseconds. What the variable
/// holds beside a number counts as nothing.
pub(crate) fn limit(asked: Option<Duration>) -> Duration {
    let variable = || std::env::var("HYTHE_SPIN_US").ok()?.parse().ok();
    let chosen = asked.or_else(|| variable().map(Duration::from_micros));
    chosen.unwrap_or(DEFAULT_LIMIT).min(LONGEST_LIMIT)
}

/// Whether the threads of a node may spin.
#[derive(Debug)]
pub(crate) struct SpinGate {
    limit: Duration,
    /// CPUs of this machine that are online.
    online: u32,
    /// The thread that joined: its mask is looked at again and again, for it may be pinned later.
    joiner: Option<Pid>,
    /// Masks of the threads that opened ports.
    noted: AtomicU64,
    open: AtomicBool,
}

impl SpinGate {
    /// For the calling thread, which joins.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            online: online(),
            joiner: hythe_sys::identity::thread(),
            noted: AtomicU64::new(0),
            open: AtomicBool::new(false),
        }
    }

    /// The longest spin; zero: spinning makes no sense now.
    pub(crate) fn limit(&self) -> Duration {
        // Relaxed: an old answer is as good as a new one.
        if self.open.load(Ordering::Relaxed) {
            self.limit
        } else {
            Duration::ZERO
        }
    }

    /// The longest spin for a peer on another machine, which nobody here keeps from running.
    pub(crate) const fn limit_for_other_machines(&self) -> Duration {
        self.limit
    }

    /// The calling thread opens a port, and may wait on it.
    pub(crate) fn note_thread(&self, control: &Control<Mapped>, me: MemberIndex) {
        self.noted.fetch_or(cpus_of(None), Ordering::Relaxed);
        self.refresh(control, me);
    }

    /// Looks at the own CPUs, tells the others, and decides anew. Called by the watcher from time
    /// to time.
    pub(crate) fn refresh(&self, control: &Control<Mapped>, me: MemberIndex) {
        let own = cpus_of(self.joiner) | self.noted.load(Ordering::Relaxed);
        if control.tables().cpus(me) != own {
            control.tables().set_cpus(me, own);
        }
        let others = control
            .tables()
            .members()
            .filter(|member| member.index != me && matches!(member.status, MemberStatus::Alive));
        let peers = others.map(
            |peer| match (peer.kind, control.tables().cpus(peer.index)) {
                // Not known; and what runs on a core does not run on ours.
                (MemberKind::MessageStore, _) => 0,
                (MemberKind::CoreEndpoint, _) | (_, 0) => ANY_CPU,
                (MemberKind::Process | MemberKind::Host | MemberKind::HostAgent, cpus) => cpus,
            },
        );
        let peers = peers.fold(0, |all, cpus| all | cpus);
        let open = peers_can_run(own, peers, self.online);
        self.open.store(open, Ordering::Relaxed);
    }
}

/// Can a peer run while one of us spins? Not where there is one CPU for all of us.
const fn peers_can_run(own: u64, peers: u64, online: u32) -> bool {
    online > 1 && (own | peers).count_ones() > 1
}

/// The CPUs that a thread may run on, folded to 64 bits; any if it is gone.
fn cpus_of(thread: Option<Pid>) -> u64 {
    let Ok(set) = sched_getaffinity(thread) else {
        return ANY_CPU;
    };
    let allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
    allowed.fold(0, |bits, cpu| bits | 1 << (cpu % 64))
}

/// CPUs that are online; two where the kernel does not say.
fn online() -> u32 {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    count_list(&list).unwrap_or(2)
}

/// How many numbers a list of the kernel names (`0-3,6`).
fn count_list(list: &str) -> Option<u32> {
    list.trim().split(',').try_fold(0_u32, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// Has the calling thread a real-time policy? Then it outranks whoever should answer. Field 41 of
/// its `stat` is the policy; 1 is SCHED_FIFO, 2 SCHED_RR, 6 SCHED_DEADLINE.
pub(crate) fn is_realtime() -> bool {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let policy = after_name.split_ascii_whitespace().nth(38);
    matches!(policy, Some("1" | "2" | "6"))
}

#[cfg(test)]
impl SpinGate {
    /// One that stays as it is.
    pub(crate) fn fixed(limit: Duration, open: bool) -> Self {
        let gate = Self::new(limit);
        gate.open.store(open, Ordering::Relaxed);
        gate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(16);

    #[test]
    fn where_one_cpu_is_all_there_is_nobody_spins() {
        for (own, peers, online, expected) in [
            (0b01, 0b01, 8, false),
            (0b01, 0b10, 8, true),
            (0b01, 0, 8, false),
            (0b11, 0, 8, true),
            (0b11, 0b01, 8, true),
            (0b01, ANY_CPU, 8, true),
            (0b01, ANY_CPU, 1, false),
            (ANY_CPU, ANY_CPU, 1, false),
        ] {
            let found = peers_can_run(own, peers, online);
            assert_eq!(found, expected, "{own:b} {peers:b} {online}");
        }
    }

    #[test]
    fn lists_of_cpus_are_counted() {
        assert_eq!(count_list("0\n"), Some(1));
        assert_eq!(count_list("0-3,6\n"), Some(5));
        for odd in ["", "3-1", "a", "0-4294967295"] {
            assert_eq!(count_list(odd), None, "{odd}");
        }
    }

    #[test]
    fn asked_limit_goes_before_the_default_and_has_an_end() {
        assert_eq!(limit(Some(Duration::ZERO)), Duration::ZERO);
        assert_eq!(limit(Some(Duration::from_secs(1))), LONGEST_LIMIT);
    }

    #[test]
    fn this_thread_has_a_mask() {
        assert_ne!(cpus_of(None), 0);
    }

    /// Runs on a thread that may use one CPU only.
    fn on_cpu<T: Send + 'static>(cpu: usize, body: impl FnOnce() -> T + Send + 'static) -> T {
        let pinned = std::thread::spawn(move || {
            let mut set = CpuSet::new();
            set.set(cpu);
            rustix::thread::sched_setaffinity(None, &set).expect("an allowed CPU");
            body()
        });
        pinned.join().expect("no panic")
    }

    #[test]
    fn pinned_participant_spins_for_peer_on_other_cpu_only() {
        let allowed = sched_getaffinity(None).expect("own mask");
        let mut cpus = (0..64).filter(|&cpu| allowed.is_set(cpu));
        let (Some(here), Some(there)) = (cpus.next(), cpus.next()) else {
            eprintln!("SKIPPED (needs two CPUs): spinning for a peer on another CPU");
            return;
        };
        let root = std::env::temp_dir().join(format!("hythe-spin-{}", std::process::id()));
        let options = crate::PoolOptions::new("spin").root(&root).bytes(16 << 20);
        let pool = crate::Pool::open_or_create(&options).expect("made");
        let limits = on_cpu(here, move || {
            let join = |pool: &crate::Pool, name| crate::Node::join(pool, name).expect("joins");
            let own = join(&pool, "own");
            let gate = SpinGate::new(LIMIT);
            let limit = |gate: &SpinGate| {
                gate.refresh(pool.control(), own.index());
                gate.limit()
            };
            let alone = limit(&gate);
            let _beside = join(&pool, "beside");
            let beside = limit(&gate);
            let (elsewhere, other) = (pool.clone(), there);
            let _elsewhere = on_cpu(other, move || join(&elsewhere, "elsewhere"));
            [alone, beside, limit(&gate)]
        });
        let _ = std::fs::remove_dir_all(&root);
        // Its thread is gone, and its mask stays what it was or becomes any: both name another CPU.
        assert_eq!(limits, [Duration::ZERO, Duration::ZERO, LIMIT]);
    }
}
