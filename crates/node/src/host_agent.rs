//! The agent of all other hosts, as a participant of this pool: it is rung when a port opens or
//! closes, and says when it has acted on that.
//!
//! A publisher that opens waits for its answer: then there are ports for the hosts that the agent
//! knows as subscribers, and the first message reaches them. Never in the way of a message.

use std::time::{Duration, Instant};

use hythe_memory::Mapped;
use hythe_pool::{Control, MemberIndex, MemberKind};

use crate::hop::HopNode as _;
use crate::node::Node;
use crate::participant::Participant;
use crate::pool::Pool;
use crate::wait::ring;
use crate::{NodeError, ends};

/// Its name.
const NAME: &str = "hosts";
/// How long a port that opens waits for all agents together. They take less than a millisecond
/// unless the machine is busy: only one that stands still takes so long.
const ANSWERING: Duration = Duration::from_secs(1);
/// How soon it is found that the agent asked has left.
const LOOK: Duration = Duration::from_millis(10);

/// The agent of all other hosts, as a participant.
#[derive(Debug)]
pub struct HostAgent {
    node: Node,
}

impl HostAgent {
    /// Joins a pool.
    ///
    /// # Errors
    /// As [`Node::join`].
    pub fn join(pool: &Pool) -> Result<Self, NodeError> {
        let node = Node::join_with(pool, MemberKind::HostAgent, NAME, &[])?;
        let agent = Self { node };
        // The words are those of whoever had the record before.
        agent.answer(agent.asked());
        Ok(agent)
    }

    /// Ends a [`wait`](Self::wait), from whatever thread. Call behind what is to be seen then.
    pub fn wake(&self) {
        ring(self.node.pool().control(), self.node.index());
    }

    /// The number of the last question whether all that has opened is known. Read it, look at the
    /// [ends](crate::hop::ends), act, and [answer](Self::answer) with it.
    #[must_use]
    pub fn asked(&self) -> u32 {
        let control = self.node.pool().control();
        let questions = control.tables().questions(self.node.index());
        questions.asked(control.memory())
    }

    /// All questions up to this one are answered.
    pub fn answer(&self, number: u32) {
        let control = self.node.pool().control();
        let questions = control.tables().questions(self.node.index());
        questions.answer(control.memory(), number);
        control.memory().wake(questions.answered);
    }

    /// Answers all that is asked from now on: nothing is looked at any more.
    pub fn answer_always(&self) {
        self.answer(self.asked().wrapping_add(1 << 30));
    }

    /// Waits until `is_due`, at most for `timeout`. It is asked when somebody asks, when a port
    /// opens or closes, and when [`wake`](Self::wake) is called.
    ///
    /// # Errors
    /// The pool is lost, or this is a forked copy.
    pub fn wait(
        &self,
        timeout: Duration,
        mut is_due: impl FnMut() -> bool,
    ) -> Result<(), NodeError> {
        let attempt = || Ok(is_due().then_some(()));
        self.node.wait_until(timeout, timeout, attempt).map(drop)
    }
}

/// Waits until the agents of hosts have seen the port that this participant has just opened. What
/// came from a host goes to no host: those who stand for one ask nothing.
pub(crate) fn wait_for_answer(shared: &Participant) {
    if shared.is_for_hosts() {
        return;
    }
    let control = shared.pool().control();
    let start = Instant::now();
    for agent in ends::host_agents(control) {
        wait_for(control, agent, start);
    }
}

fn wait_for(control: &Control<Mapped>, agent: MemberIndex, start: Instant) {
    let (memory, questions) = (control.memory(), control.tables().questions(agent));
    let number = questions.ask(memory);
    ring(control, agent);
    loop {
        let answered = questions.answered(memory);
        let left = ANSWERING.saturating_sub(start.elapsed());
        // Numbers wrap: less than half of them lie between the two.
        let is_answered = answered.wrapping_sub(number) < 1 << 31;
        let is_there = || ends::host_agents(control).any(|there| there == agent);
        if is_answered || left.is_zero() || !is_there() {
            return;
        }
        memory.wait(questions.answered, answered, left.min(LOOK));
    }
}
