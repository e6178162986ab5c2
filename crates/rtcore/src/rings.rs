//! Which participants a ring of the core is for.
//!
//! The agent looks at what the core writes before it rings: the words of the flows that somebody
//! is attached to, and the header. Whoever finds one changed since the last look is woken. A ring
//! that announces nothing wakes nobody, and is counted. Never believes a word: it only compares.

use hythe_abi::link::Flow;
use hythe_abi::pool::CORE_PORTS_MAX;
use hythe_node::hop::{self, HopPool as _};
use hythe_node::{MemberIndex, Node};
use hythe_pool::CoreCounter;

use crate::boot::Endpoint;
use crate::link::{CoreWords, LinkMap, TakenWords};

/// What the core's words were when it was last looked.
#[derive(Debug)]
pub(crate) struct Rings<'a> {
    node: &'a Node,
    link: &'a LinkMap,
    endpoints: &'a [Endpoint],
    wakes_all: bool,
    /// Where what is ignored is counted.
    row: Option<MemberIndex>,
    header: [u32; 3],
    flows: Vec<[Option<(CoreWords, TakenWords)>; CORE_PORTS_MAX]>,
}

impl<'a> Rings<'a> {
    pub(crate) fn begin(
        node: &'a Node,
        link: &'a LinkMap,
        endpoints: &'a [Endpoint],
        row: Option<MemberIndex>,
        wakes_all: bool,
    ) -> Self {
        Self {
            node,
            link,
            endpoints,
            wakes_all,
            row,
            header: [0; 3],
            flows: vec![[None; CORE_PORTS_MAX]; endpoints.len()],
        }
    }

    /// The core has rung so many times. Whatever it pushed is visible here: it came before the
    /// ring. So the ordinary bell finds every sleeper. False: it was for nobody, or only for ports
    /// that have not taken what the last one was for.
    pub(crate) fn heard(&mut self, times: u64) -> bool {
        let header = self.link.core_life_words();
        let is_new_life = std::mem::replace(&mut self.header, header) != header;
        let (mut wakes, mut is_useful) = (0, is_new_life);
        for (endpoint, flows) in self.endpoints.iter().zip(&mut self.flows) {
            for (port, seen) in flows.iter_mut().enumerate().take(self.link.ports()) {
                // The words first: whoever attaches behind this look looks at them itself.
                let flow = Flow {
                    endpoint: endpoint.binding.endpoint as usize,
                    port,
                };
                let (words, taken) = (self.link.core_words(flow), self.link.taken_words(flow));
                let is_known = seen.is_some_and(|(seen, _)| seen == words);
                if is_known && !is_new_life && !self.wakes_all {
                    continue;
                }
                let before = seen.replace((words, taken));
                if self.link.has_doorbell(flow) {
                    // The core wakes it itself.
                    wakes += 1;
                    continue;
                }
                let tables = self.node.pool().control().tables();
                if let Some(member) = tables.attached(endpoint.channel, port) {
                    hop::wake(self.node.pool(), member);
                    wakes += 1;
                    is_useful |= before.is_none_or(|(_, before)| before != taken);
                }
            }
        }
        if wakes == 0
            && let Some(row) = self.row
        {
            let tables = self.node.pool().control().tables();
            tables.count_core(row, CoreCounter::RingsIgnored, times);
        }
        is_useful || self.wakes_all
    }
}
