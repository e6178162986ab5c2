//! Flows that have something to send and wait for window or pace: who turns them.
//!
//! What comes back wakes nobody who waits for something else. A call of the process that looks for
//! messages turns them besides; when it is about to sleep it says so, and the session's thread
//! sleeps on their sockets in its place. Where no call is known to sleep, the thread gives the
//! process a moment first: one that spins is not to be disturbed by a thread for each
//! acknowledgement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::flow::SendingFlow;

/// A flow that is held up is left to the process's own calls for so long.
const GRACE: Duration = Duration::from_micros(200);
/// The thread does not look more often than this for a timer.
const LOOK_MIN: Duration = Duration::from_micros(20);

/// What calls of the process and the thread tell each other.
#[derive(Debug, Default)]
pub(crate) struct HeldUp {
    /// Some flow may be held up.
    is_some: AtomicBool,
    /// A call that turned them is asleep, or about to be.
    is_left: AtomicBool,
}

/// What the thread is to sleep on, and for how long at most.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) flows: Vec<Arc<SendingFlow>>,
    pub(crate) timeout: Duration,
}

impl HeldUp {
    /// One is held up from now on, in a call of its port.
    pub(crate) fn note(&self) {
        self.is_left.store(false, Ordering::Relaxed);
        // Behind the flow's own flag.
        self.is_some.store(true, Ordering::SeqCst);
    }

    /// Is a call to turn them? It does, then.
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.is_some.load(Ordering::Relaxed)
    }

    /// A call turns those that it finds, and says afterwards whether there were any.
    pub(crate) fn begin(&self) {
        self.is_left.store(false, Ordering::Relaxed);
        // In front of its look at the flows' own flags: what becomes held up meanwhile is noted
        // behind this.
        self.is_some.swap(false, Ordering::SeqCst);
    }

    /// As it says.
    pub(crate) fn end(&self, were_some: bool) {
        if were_some {
            self.is_some.store(true, Ordering::SeqCst);
        }
    }

    /// A call that turned them is about to sleep. True: the thread is to be woken.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        self.is_some() && !self.is_left.swap(true, Ordering::Relaxed)
    }

    /// Of these flows, what the thread is to sleep on; not longer than `timeout`.
    pub(crate) fn watched(
        &self,
        mut flows: Vec<Arc<SendingFlow>>,
        now_ns: u64,
        timeout: Duration,
    ) -> Watched {
        flows.retain(|flow| flow.is_held_up());
        if flows.is_empty() {
            return Watched { flows, timeout };
        }
        if !self.is_left.load(Ordering::Relaxed) {
            let grace_ns = GRACE.as_nanos() as u64;
            flows.retain(|flow| flow.neglected_ns(now_ns) >= grace_ns);
            let timeout = timeout.min(GRACE);
            return Watched { flows, timeout };
        }
        let wakes = flows.iter().filter_map(|flow| flow.next_wake());
        let until_ns = wakes.min().map(|wake_ns| wake_ns.saturating_sub(now_ns));
        let timeout = timeout.min(until_turn(until_ns));
        Watched { flows, timeout }
    }
}

/// How long the thread sleeps at most, where the first timer is due in so long.
fn until_turn(until_ns: Option<u64>) -> Duration {
    until_ns.map_or(GRACE, Duration::from_nanos).max(LOOK_MIN)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpStream;

    use hythe_node::PublisherOptions;
    use hythe_node::hop::HopPool as _;

    use super::*;
    use crate::fixture::{self, Fixture};
    use crate::flow::{FlowId, Flushed, HostEnd, Pushed};

    const LONG: Duration = Duration::from_secs(10);
    /// Less than any timer of the protocol knows.
    const MOMENT_NS: u64 = 1_000;

    fn pair(fixture: &Fixture) -> (Arc<SendingFlow>, TcpStream) {
        let (half, far) = fixture::sending(8);
        let options = PublisherOptions::default();
        let _publisher = fixture.node.publisher("channel", &options).expect("opens");
        let tables = fixture.participant().pool().control().tables();
        let port = tables.ports().next().expect("open");
        let id = FlowId { number: 1, port };
        let name = "host other".to_owned();
        let flow = SendingFlow::new(id, HostEnd { port, name }, (0, 1 << 20), half);
        flow.go(0);
        (Arc::new(flow), far)
    }

    /// Sends a message that is longer than both sockets take.
    fn send(fixture: &Fixture, flow: &SendingFlow, now_ns: u64) {
        let bytes = 1 << 20;
        let sample = fixture.node.lease(bytes).expect("a slot").freeze(bytes);
        assert!(matches!(flow.push(now_ns, sample), Pushed::Taken));
        assert!(matches!(flow.flush(now_ns), Flushed::HeldUp));
    }

    #[test]
    fn flow_is_held_up_until_kernel_takes_rest() {
        let fixture = Fixture::new();
        let (flow, mut far) = pair(&fixture);
        send(&fixture, &flow, MOMENT_NS);
        assert!(flow.is_under_way() && flow.is_held_up());
        far.set_nonblocking(true).expect("set");
        let (mut now_ns, mut arrived) = (MOMENT_NS, 0);
        let mut buffer = vec![0; 1 << 16];
        hythe_testing::eventually("all of it arrives", || {
            arrived += far.read(&mut buffer).unwrap_or(0);
            now_ns += MOMENT_NS;
            flow.help(now_ns).expect("open");
            arrived == (1 << 20) + 16
        });
        assert!(!flow.is_held_up());
        assert!(flow.is_under_way(), "nobody has acknowledged it");
    }

    #[test]
    fn port_goes_back_when_it_may_or_after_a_bounded_time() {
        let fixture = Fixture::new();
        for says_so in [true, false] {
            let (flow, _peer) = pair(&fixture);
            send(&fixture, &flow, MOMENT_NS);
            flow.end(2 * MOMENT_NS, "it broke");
            assert_eq!(flow.take_end(), Some(("it broke".to_owned(), 1)));
            assert_eq!(flow.take_end(), None, "that is told once");
            assert!(!flow.is_closed() && flow.is_breaking());
            assert!(!flow.is_under_way(), "nobody waits for what is lost");
            let mut now_ns = 5_000_000_000;
            assert!(!flow.has_returned(now_ns));
            match says_so {
                true => flow.let_return(),
                false => now_ns += 6_000_000_000,
            }
            assert!(flow.has_returned(now_ns) && flow.is_closed());
            let lost = flow.take_unconfirmed();
            assert_eq!((lost.sent, lost.dropped), (1, 0));
        }
    }

    #[test]
    fn thread_takes_over_flows_when_last_caller_sleeps() {
        let fixture = Fixture::new();
        let (flow, _peer) = pair(&fixture);
        let held_up = HeldUp::default();
        let watched = |now_ns| held_up.watched(vec![Arc::clone(&flow)], now_ns, LONG);
        let idle = watched(1);
        assert_eq!((idle.flows.len(), idle.timeout), (0, LONG));
        assert!(!held_up.leave(), "there is none");
        send(&fixture, &flow, MOMENT_NS);
        held_up.note();
        // The process is left a moment to do it.
        let left = watched(2 * MOMENT_NS);
        assert_eq!((left.flows.len(), left.timeout), (0, GRACE));
        assert_eq!(watched(MOMENT_NS + 200_000).flows.len(), 1);
        // It sleeps in a wait for another port: the thread is woken, once.
        assert!(held_up.leave() && !held_up.leave());
        let left = watched(2 * MOMENT_NS);
        assert_eq!(left.flows.len(), 1);
        assert!(left.timeout < LONG, "until a timer of the flow");
        // It is awake again.
        held_up.begin();
        assert!(!held_up.is_some());
        held_up.end(true);
        assert_eq!(watched(2 * MOMENT_NS).flows.len(), 0);
        assert!(held_up.leave());
    }

    #[test]
    fn thread_sleeps_until_the_first_timer_and_never_spins() {
        let (late, soon, past) = (Some(50_000_000), Some(90_000), Some(0));
        let sleeps = [late, soon, past, None].map(until_turn);
        let [timer, near] = [50_000, 90].map(Duration::from_micros);
        assert_eq!(sleeps, [timer, near, LOOK_MIN, GRACE]);
    }
}
