//! What a link says at one moment, for people: nothing here decides anything.

use hythe_abi::link::{
    CORE_MAGIC, CoreState, ENDPOINTS_MAX, Flow, NAME_BYTES, VERSION, bell_line, core_header,
    endpoint_record, flow_line,
};
use hythe_memory::Ordering;

use super::map::{EndpointRecord, LinkMap};
use super::violation::Violation;

/// What a link says at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// The Linux agent's session; 0: none.
    pub linux_session: u32,
    /// The core's session.
    pub core_session: u32,
    /// The core's state.
    pub state: CoreState,
    /// Why it refused, by number (`spec/link.md`).
    pub reason: u32,
    /// The Linux session that the state answers to.
    pub echo: u32,
    /// Name of the program on the core.
    pub name: String,
    /// Its endpoints.
    pub endpoints: Vec<EndpointRecord>,
    /// How often each side has rung, wrapping, and whether it wants to be rung.
    pub linux_bell: BellStatus,
    /// That of the core.
    pub core_bell: BellStatus,
    /// The flows that somebody uses, or that are not empty.
    pub flows: Vec<FlowStatus>,
    /// What the core has counted at its endpoints, by their numbers.
    pub counts: Vec<CoreCounts>,
    /// What of the core's header is impossible at this moment, if something is.
    pub violation: Option<Violation>,
}

/// What a core counts at one of its endpoints, over all ports and since it started. Wrapping, and
/// claims of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreCounts {
    /// The endpoint.
    pub endpoint: usize,
    /// Entries and words that Linux should not have written.
    pub violations: u32,
    /// Messages for which no port had free capacity in time.
    pub full: u32,
    /// Times that no empty slot came in time.
    pub no_slot: u32,
    /// Buffers whose session was lost.
    pub dropped: u32,
}

/// A bell at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BellStatus {
    /// How often it was rung, wrapping.
    pub rings: u32,
    /// Its owner sleeps, and wants to be rung.
    pub wanted: bool,
}

/// One port of one endpoint at one moment. Counters wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStatus {
    /// The endpoint, by its number.
    pub endpoint: usize,
    /// The port.
    pub port: usize,
    /// Linux's session; 0: nobody is attached.
    pub session: u32,
    /// The session that the core has agreed to.
    pub echo: u32,
    /// The queue Linux -> core: for an endpoint that gives payload, the fill ring.
    pub to_core: QueueStatus,
    /// The queue core -> Linux.
    pub from_core: QueueStatus,
    /// Does the port have the eventfds of the core? Else its rings pass through the agent.
    pub has_doorbell: bool,
    /// Messages of the core that may wait for this port.
    pub window: u32,
    /// Messages that the core has dropped for this port.
    pub dropped: u32,
}

/// The counters of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Entries ever pushed.
    pub tail: u32,
    /// Entries ever taken.
    pub head: u32,
}

impl QueueStatus {
    /// Entries that wait, if the counters are sound.
    #[must_use]
    pub const fn waiting(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }
}

impl FlowStatus {
    const fn is_in_use(&self) -> bool {
        self.session != 0
            || self.echo != 0
            || self.to_core.waiting() != 0
            || self.from_core.waiting() != 0
    }
}

impl LinkStatus {
    /// Has the core answered the present Linux session?
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.linux_session != 0 && self.state == CoreState::Up && self.echo == self.linux_session
    }
}

impl LinkMap {
    /// What the link says now. Claims of the core, cut to what is possible.
    pub(crate) fn status(&self) -> LinkStatus {
        let core = self.layout().core_header();
        let word = |at| self.words().load(at, Ordering::Acquire);
        // First the state: what the core wrote before it is visible then.
        let state = CoreState::from_word(word(core + core_header::STATE));
        let is_core = word(core + core_header::MAGIC) == CORE_MAGIC
            && word(core + core_header::VERSION) == VERSION;
        let count = word(core + core_header::ENDPOINTS).min(ENDPOINTS_MAX) as usize;
        let count = if is_core {
            count.min(self.layout().endpoints())
        } else {
            0
        };
        LinkStatus {
            linux_session: self.linux_session(),
            core_session: word(core + core_header::SESSION),
            state: if is_core { state } else { CoreState::Down },
            reason: word(core + core_header::REASON),
            echo: word(core + core_header::ECHO),
            name: self.words().name(core + core_header::NAME, NAME_BYTES),
            endpoints: (0..count)
                .filter_map(|index| self.endpoint(index))
                .collect(),
            linux_bell: BellStatus {
                rings: self.linux_rings(),
                wanted: self.does_linux_sleep(count),
            },
            core_bell: BellStatus {
                rings: word(self.layout().core_bell() + bell_line::COUNT),
                wanted: word(self.layout().core_bell() + bell_line::WANTED) != 0,
            },
            flows: (0..count)
                .flat_map(|endpoint| self.flows(endpoint))
                .map(|flow| self.flow_status(flow))
                .filter(FlowStatus::is_in_use)
                .collect(),
            counts: (0..count).map(|endpoint| self.counts(endpoint)).collect(),
            violation: self.header_violation(),
        }
    }

    fn counts(&self, endpoint: usize) -> CoreCounts {
        let record = self.layout().endpoint_record(endpoint);
        let word = |at| self.words().load(record + at, Ordering::Relaxed);
        CoreCounts {
            endpoint,
            violations: word(endpoint_record::VIOLATIONS),
            full: word(endpoint_record::FULL),
            no_slot: word(endpoint_record::NO_SLOT),
            dropped: word(endpoint_record::DROPPED),
        }
    }

    /// Does any participant ask the core to ring, at so many endpoints?
    fn does_linux_sleep(&self, endpoints: usize) -> bool {
        let mut flows = (0..endpoints).flat_map(|endpoint| self.flows(endpoint));
        flows.any(|flow| {
            let at = self.layout().linux_flow(flow) + flow_line::WANTED;
            self.words().load(at, Ordering::Relaxed) != 0
        })
    }

    fn flow_status(&self, flow: Flow) -> FlowStatus {
        let (linux, core) = (
            self.layout().linux_flow(flow),
            self.layout().core_flow(flow),
        );
        let word = |at| self.words().load(at, Ordering::Acquire);
        let (session, echo) = self.sessions(flow);
        FlowStatus {
            endpoint: flow.endpoint,
            port: flow.port,
            session,
            echo,
            to_core: QueueStatus {
                tail: word(linux + flow_line::TAIL),
                head: word(core + flow_line::HEAD),
            },
            from_core: QueueStatus {
                tail: word(core + flow_line::TAIL),
                head: word(linux + flow_line::HEAD),
            },
            has_doorbell: self.has_doorbell(flow),
            window: word(linux + flow_line::WINDOW),
            dropped: self.dropped(flow),
        }
    }
}
