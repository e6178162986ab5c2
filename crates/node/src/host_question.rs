//! What a publisher that opens asks the agent of all other hosts (`host_agent`): whether it has
//! seen the new port.
//!
//! With the answer there are ports for the hosts that the agent knows as subscribers, and the first
//! message reaches them. Waits for a bounded time, and only while an agent is there.

use std::time::{Duration, Instant};

use hythe_memory::Mapped;
use hythe_pool::{Control, MemberIndex};

use crate::ends;
use crate::participant::Participant;
use crate::wait::ring;

/// How long a port that opens waits for all agents together. They take less than a millisecond
/// unless the machine is busy: only one that stands still takes so long.
const ANSWERING: Duration = Duration::from_secs(1);
/// How soon it is found that the agent asked has left.
const LOOK: Duration = Duration::from_millis(10);

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
