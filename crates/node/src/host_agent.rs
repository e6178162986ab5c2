//! The agent of all other hosts, as a participant of this pool: it is rung when a port opens or
//! closes, and says when it has acted on that.
//!
//! A publisher that opens waits for its answer (`host_question`). Never in the way of a message.

use std::time::Duration;

use hythe_pool::MemberKind;

use crate::NodeError;
use crate::node::Node;
use crate::pool::Pool;
use crate::wait::{WaitPlan, ring};

/// Its name.
const NAME: &str = "hosts";

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
        let participant = self.node.participant();
        participant.check_original()?;
        let attempt = || Ok(is_due().then_some(()));
        let waited = participant.wait_for(WaitPlan::sleeping(timeout), timeout, attempt);
        participant.pool().unless_lost(waited).map(drop)
    }
}
