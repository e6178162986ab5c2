//! What all threads of an agent share: its options, the rights, and the signal that something has
//! changed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hythe_node::PoolError;
use hythe_node::hop::HostAgent;

use super::addresses::Addresses;
use super::flows::Flows;
use super::jobs::Jobs;
pub(crate) use super::lock::lock;
use super::options::AgentOptions;
use super::random::random;
use crate::error::ClusterError;
use crate::frame::NotTaken;
use crate::{Carrier, HostName, Losses, Refusal, Right, Rights};

/// Channels of a host of which it is known that a stream was interrupted.
const INTERRUPTED_MAX: usize = 4096;

/// What all threads of an agent share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) options: AgentOptions,
    pub(crate) carrier: Arc<dyn Carrier>,
    rights: RwLock<Rights>,
    stops: AtomicBool,
    pub(crate) flows: Flows,
    pub(crate) jobs: Jobs,
    /// Connections about tasks that other hosts made.
    pub(crate) job_pipes: Arc<Group>,
    /// Processes of this pool that ask about tasks, and their connections.
    pub(crate) own_job_pipes: Arc<Group>,
    /// Of this agent: the upper half of its sessions' numbers.
    number: u32,
    /// Rung when ends of this pool change.
    pub(crate) pool_agent: HostAgent,
    /// Raised when a session has changed.
    changes: AtomicU32,
    /// All sessions have.
    all_changed: AtomicBool,
    /// Connections that were refused.
    pub(crate) refused: AtomicU64,
}

impl Context {
    pub(crate) fn new(
        options: AgentOptions,
        carrier: Arc<dyn Carrier>,
    ) -> Result<Self, ClusterError> {
        Ok(Self {
            // Half of a random number is as random.
            number: random()? as u32,
            pool_agent: HostAgent::join(&options.pool)?,
            rights: RwLock::new(options.rights.clone()),
            options,
            carrier,
            stops: AtomicBool::new(false),
            flows: Flows::default(),
            jobs: Jobs::default(),
            job_pipes: Arc::default(),
            own_job_pipes: Arc::default(),
            changes: AtomicU32::new(0),
            all_changed: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        })
    }

    /// May this host do that here?
    pub(crate) fn judge(
        &self,
        host: &HostName,
        channel: &str,
        right: Right,
    ) -> Result<(), Refusal> {
        let rights = self.rights.read().unwrap_or_else(PoisonError::into_inner);
        let judged = rights.judge(&self.options.host, host, channel, right);
        match judged {
            Err(_) if self.jobs.permit(host, channel, right) => Ok(()),
            judged => judged,
        }
    }

    /// A number for a session, which nobody guesses.
    pub(crate) fn new_session(&self) -> Result<u64, ClusterError> {
        Ok(u64::from(self.number) << 32 | random()? >> 32)
    }

    pub(crate) fn set_rights(&self, rights: Rights) {
        *self.rights.write().unwrap_or_else(PoisonError::into_inner) = rights;
        self.note_all_changed();
    }

    /// All sessions have changed.
    pub(crate) fn note_all_changed(&self) {
        self.all_changed.store(true, Ordering::Release);
        self.note_change();
    }

    /// A session has changed, or all have: wakes the thread that looks at the pool. Call behind the
    /// mark of what has.
    pub(crate) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.pool_agent.wake();
    }

    /// Moves with each change of a session.
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// Have all sessions changed since this was last asked?
    pub(crate) fn take_all_changed(&self) -> bool {
        self.all_changed.swap(false, Ordering::Acquire)
    }

    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
        self.pool_agent.wake();
    }

    /// Is the agent to stop?
    pub(crate) fn stops(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }
}

/// The agent that gave a session its number.
const fn agent_of(session: u64) -> u32 {
    (session >> 32) as u32
}
/// Channels of which it is remembered how many messages are missing: as many as a host may want. Of
/// more, they are counted as lost, and no subscriber is told.
const UNTOLD_MAX: usize = 4096;

/// What outlives the sessions with a host.
#[derive(Debug)]
pub(crate) struct HostRecord {
    pub(crate) name: HostName,
    pub(crate) addresses: Mutex<Addresses>,
    pub(crate) losses: LossCounts,
    /// Connections about tasks that it made.
    pub(crate) job_pipes: Arc<Group>,
    /// Those of them that carry nothing at present.
    pub(crate) waiting_job_pipes: Arc<Group>,
    /// Processes of this pool that are connected with its tasks, or wait for the end of its
    /// session.
    pub(crate) own_job_pipes: Arc<Group>,
    /// Messages of channels that did not get across, or perhaps not, when a session ended: the next
    /// session tells their subscribers.
    untold: Mutex<BTreeMap<String, u32>>,
    /// Channels whose messages came from there when a session ended, and its number there.
    interrupted: Mutex<BTreeMap<String, u64>>,
}

impl HostRecord {
    pub(crate) fn new(name: HostName) -> Self {
        Self {
            name,
            addresses: Mutex::default(),
            losses: LossCounts::default(),
            job_pipes: Arc::default(),
            waiting_job_pipes: Arc::default(),
            own_job_pipes: Arc::default(),
            untold: Mutex::default(),
            interrupted: Mutex::default(),
        }
    }

    /// The session with this number there ends, and with it streams of these channels.
    pub(crate) fn note_interrupted(&self, channels: Vec<String>, session: u64) {
        let mut interrupted = lock(&self.interrupted);
        interrupted.extend(channels.into_iter().map(|channel| (channel, session)));
        while interrupted.len() > INTERRUPTED_MAX {
            interrupted.pop_first();
        }
    }

    /// A stream of this channel comes in the session with this number there. Was another
    /// interrupted, by the end of the agent that sent it? Then nobody knows what of it is missing.
    pub(crate) fn take_interrupted(&self, channel: &str, session: u64) -> bool {
        let before = lock(&self.interrupted).remove(channel);
        before.is_some_and(|before| agent_of(before) != agent_of(session))
    }

    /// Subscribers of a channel miss so many messages, which are counted already.
    pub(crate) fn note_untold(&self, channel: &str, messages: u32) {
        let mut untold = lock(&self.untold);
        let has_room = untold.len() < UNTOLD_MAX || untold.contains_key(channel);
        if messages > 0 && has_room {
            let count = untold.entry(channel.to_owned()).or_default();
            *count = count.saturating_add(messages);
        }
    }

    pub(crate) fn take_untold(&self, channel: &str) -> u32 {
        lock(&self.untold).remove(channel).unwrap_or(0)
    }
}

/// Counts that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// As [`Losses`].
#[derive(Debug, Default)]
pub(crate) struct LossCounts {
    pub(crate) not_sent: Count,
    pub(crate) unconfirmed: Count,
    pub(crate) no_slot: Count,
    pub(crate) beyond_share: Count,
    pub(crate) other_type: Count,
    pub(crate) too_long: Count,
    pub(crate) not_delivered: Count,
    pub(crate) reconnections: Count,
}

impl LossCounts {
    /// Counts what was refused because the host has its share of the pool.
    pub(crate) fn note_refusal(&self, error: &ClusterError) {
        if let ClusterError::Share { .. } = error {
            self.beyond_share.add(1);
        }
    }

    /// Counts a message that this pool does not take, and says why it does not.
    pub(crate) fn note_not_taken(&self, error: &ClusterError) -> NotTaken {
        let (why, count) = match error {
            ClusterError::Share { .. } => (NotTaken::NoPort, &self.beyond_share),
            ClusterError::Node(error) if error.is_pool_full() => (NotTaken::NoSlot, &self.no_slot),
            ClusterError::Node(error) => match error.refusal() {
                Some(PoolError::TooLarge { .. }) => (NotTaken::TooLong, &self.too_long),
                Some(PoolError::TypeMismatch(_) | PoolError::KindMismatch(_)) => {
                    (NotTaken::OtherType, &self.other_type)
                }
                Some(PoolError::TableFull { .. }) => (NotTaken::NoPort, &self.beyond_share),
                _ => (NotTaken::Other, &self.not_delivered),
            },
            _ => (NotTaken::Other, &self.not_delivered),
        };
        count.add(1);
        why
    }

    pub(crate) fn now(&self) -> Losses {
        Losses {
            not_sent: self.not_sent.now(),
            unconfirmed: self.unconfirmed.now(),
            no_slot: self.no_slot.now(),
            beyond_share: self.beyond_share.now(),
            other_type: self.other_type.now(),
            too_long: self.too_long.now(),
            not_delivered: self.not_delivered.now(),
            reconnections: self.reconnections.now(),
        }
    }
}

/// Wakes a thread that waits for changes; what is raised while it does not wait is not lost.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    raised: Mutex<bool>,
    condition: Condvar,
}

impl Signal {
    pub(crate) fn raise(&self) {
        *lock(&self.raised) = true;
        self.condition.notify_all();
    }

    /// Waits until it is raised, or `timeout` has passed. True: it was raised.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let raised = lock(&self.raised);
        let waited = self
            .condition
            .wait_timeout_while(raised, timeout, |raised| !*raised);
        let (mut raised, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *raised)
    }
}

/// Counts threads that are still at work.
#[derive(Debug, Default)]
pub(crate) struct Group {
    count: Mutex<usize>,
    condition: Condvar,
}

/// One of a group, until it is dropped.
#[derive(Debug)]
pub(crate) struct Member(Arc<Group>);

impl Group {
    pub(crate) fn enter(self: &Arc<Self>) -> Member {
        *lock(&self.count) += 1;
        Member(Arc::clone(self))
    }

    pub(crate) fn count(&self) -> usize {
        *lock(&self.count)
    }

    /// Does something if nobody is in both, and lets nobody in before it is done. `None`: somebody
    /// is. Called with the same order of both always.
    pub(crate) fn while_both_empty<T>(&self, other: &Self, act: impl FnOnce() -> T) -> Option<T> {
        let (count, others) = (lock(&self.count), lock(&other.count));
        (*count == 0 && *others == 0).then(act)
    }

    /// Waits until nobody is in it.
    pub(crate) fn wait_until_empty(&self) {
        let count = lock(&self.count);
        let empty = self.condition.wait_while(count, |count| *count > 0);
        drop(empty);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        *lock(&self.0.count) -= 1;
        self.0.condition.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_testing::watched;

    #[test]
    fn group_admits_no_member_during_empty_section() {
        let groups: [Arc<Group>; 2] = Default::default();
        let act = |act: &dyn Fn()| groups[0].while_both_empty(&groups[1], act).is_some();
        for group in &groups {
            let member = group.enter();
            assert!(!act(&|| panic!("somebody is there")));
            drop(member);
        }
        let entered = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let is_done = act(&|| {
                let (thread, enter) = watched(|| {
                    let member = groups[1].enter();
                    entered.store(true, Ordering::Release);
                    drop(member);
                });
                scope.spawn(enter);
                thread.until_asleep();
                assert!(!entered.load(Ordering::Acquire));
            });
            assert!(is_done);
        });
        assert!(entered.load(Ordering::Acquire));
    }

    #[test]
    fn agent_remembers_bounded_number_of_closed_channels() {
        let record = HostRecord::new("b".parse().expect("a name"));
        for number in 0..UNTOLD_MAX as u32 + 10 {
            record.note_untold(&number.to_string(), 1);
        }
        record.note_untold("0", 2);
        assert_eq!(lock(&record.untold).len(), UNTOLD_MAX);
        assert_eq!(record.take_untold("0"), 3);
        assert_eq!(record.take_untold("0"), 0);
    }
}
