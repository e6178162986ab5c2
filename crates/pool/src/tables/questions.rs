//! Questions to the agent of other hosts: has it seen what has changed before I asked?
//!
//! Who asks raises one word of the agent's record behind its change, and rings; the agent notes
//! that word, looks, acts, and stores what it noted in the other, which is waited on.

use hythe_abi::pool::participant;
use hythe_memory::{Memory, Ordering};

use super::Tables;
use super::members::MemberIndex;

/// The two words, by their places in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Questions {
    asked: usize,
    /// What the futex of who waits for an answer is.
    pub answered: usize,
}

impl<M: Memory> Tables<'_, M> {
    /// Those to this agent.
    #[must_use]
    pub const fn questions(self, agent: MemberIndex) -> Questions {
        let at = self.layout().participant(agent.0 as usize);
        Questions {
            asked: at + participant::ASKED,
            answered: at + participant::ANSWERED,
        }
    }
}

impl Questions {
    /// One more; its number.
    pub fn ask<M: Memory>(self, memory: &M) -> u32 {
        // Release pairs with the acquire in `asked`: the agent looks behind it, and finds what has
        // changed before.
        memory.add(self.asked, 1, Ordering::Release).wrapping_add(1)
    }

    /// The number of the last one.
    pub fn asked<M: Memory>(self, memory: &M) -> u32 {
        memory.load(self.asked, Ordering::Acquire)
    }

    /// The number of the last one that is answered.
    pub fn answered<M: Memory>(self, memory: &M) -> u32 {
        // Acquire pairs with the release in `answer`: what the agent has opened is found.
        memory.load(self.answered, Ordering::Acquire)
    }

    /// All up to this one are answered. Only the agent says so, and wakes the futex then.
    pub fn answer<M: Memory>(self, memory: &M, number: u32) {
        memory.store(self.answered, number, Ordering::Release);
    }
}
