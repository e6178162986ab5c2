//! The core: a private state, and words that it writes by it; or that it lies about.

use hythe_abi::link::{
    CORE_MAGIC, CoreState, Direction, ENTRY_BYTES, EndpointKind, Entry, Flow, LINUX_MAGIC,
    LinkLayout, NAME_BYTES, VERSION, bell_line, core_header, endpoint_record, flow_line,
    linux_header,
};
use hythe_abi::{Descriptor, HEADROOM_BYTES, LINE_BYTES};
use hythe_memory::{Mapped, Memory, Ordering, write_name};

use super::choices::Choices;
use super::words::lie;

/// What is offered: name, direction, kind.
pub const ENDPOINTS: [(&str, Direction, EndpointKind); 5] = [
    ("in", Direction::ToCore, EndpointKind::Messages),
    ("out", Direction::FromCore, EndpointKind::Messages),
    ("knock", Direction::ToCore, EndpointKind::Events),
    ("answer", Direction::FromCore, EndpointKind::Events),
    ("ask", Direction::ToCore, EndpointKind::Requests),
];
pub const PORTS: u32 = 3;
const CAPACITY: u32 = 4;
pub const SLOTS: u32 = 24;
pub const SLOT_BYTES: u32 = 4096;
pub const REGION_BYTES: u64 = (SLOTS * SLOT_BYTES) as u64;
pub const LINK_BYTES: u32 = 1 << 15;
/// The mark of a place in a window that comes back without a buffer.
const CREDIT: u32 = 0xFFFF_FFFF;
/// The mark of an empty slot that comes back.
const UNUSED: u32 = 0xFFFF_FFFE;
/// Word 0 of a request's slot: it is answered.
const REPLY: u32 = 2;

/// What the core may do beside what the page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreFault {
    /// Nothing.
    Honest,
    /// Words of its section that are not true, entries that it made up.
    Lying,
    /// As that, over all memory that it can reach: Linux's section and the slots, too.
    Scribbling,
    /// It gives back what it never had, again each time that Linux takes one.
    Endless,
}

/// More than any call of Linux stores.
const STORES_MAX: u32 = 20_000;

#[derive(Debug, Default)]
struct FlowState {
    echo: u32,
    /// Of a life before this one.
    void: u32,
    head: u32,
    tail: u32,
    held: Vec<Entry>,
}

/// A core that acts when Linux has stored a word, or between two of its calls.
#[derive(Debug)]
pub struct FakeCore {
    link: Mapped,
    slots: Mapped,
    region: u8,
    layout: LinkLayout,
    linux_session: u32,
    session: u32,
    flows: Vec<FlowState>,
    last: Option<Entry>,
    pub fault: CoreFault,
    /// It does nothing any more.
    pub is_silent: bool,
    pub lies: u32,
    /// Entries that it took from Linux and gave to it.
    pub entries: u32,
    plays_agent: bool,
    /// Its first endpoint has an impossible direction.
    has_bad_record: bool,
    /// Of Linux, in one call.
    pub stores: u32,
}

impl FakeCore {
    /// In a scene, where it plays the agent's part, too.
    pub fn new(link: Mapped, slots: Mapped, region: u8) -> Self {
        let mut core = Self::mapped(link, slots, region);
        core.plays_agent = true;
        core.begin_linux_session();
        core
    }

    /// Behind an agent, which has filled its section; answers it.
    pub fn answering(link: Mapped, slots: Mapped, has_bad_record: bool) -> Self {
        let mut core = Self::mapped(link, slots, 0);
        core.has_bad_record = has_bad_record;
        core.follow();
        core
    }

    fn mapped(link: Mapped, slots: Mapped, region: u8) -> Self {
        let section = LINK_BYTES as usize / 2;
        let layout = LinkLayout::new(ENDPOINTS.len() as u32, PORTS, CAPACITY, section);
        let layout = layout.expect("it fits");
        let mut flows = Vec::new();
        flows.resize_with(layout.flows(), FlowState::default);
        Self {
            link,
            slots,
            region,
            layout,
            linux_session: 0,
            session: 0,
            flows,
            last: None,
            fault: CoreFault::Honest,
            is_silent: false,
            lies: 0,
            entries: 0,
            plays_agent: false,
            has_bad_record: false,
            stores: 0,
        }
    }

    /// Answers another session of the agent's.
    pub fn follow(&mut self) {
        let session = self.load(linux_header::SESSION);
        if session != 0 && session != self.linux_session {
            self.linux_session = session;
            self.begin_life();
        }
    }

    /// Writes whatever makes Linux look: events at every port, and both counts of rings.
    pub fn make_noise(&self) {
        for number in 0..self.flows.len() {
            let ours = self.layout.core_flow(Self::flow(number));
            let raised = self.load(ours + flow_line::RAISED_LOW);
            self.store(ours + flow_line::RAISED_LOW, !raised);
        }
        for bell in [self.layout.core_bell(), self.layout.linux_bell()] {
            let count = self.load(bell + bell_line::COUNT);
            self.store(bell + bell_line::COUNT, count.wrapping_add(1));
        }
    }

    fn load(&self, at: usize) -> u32 {
        self.link.load(at, Ordering::Acquire)
    }

    fn store(&self, at: usize, value: u32) {
        self.link.store(at, value, Ordering::Release);
    }

    const fn flow(number: usize) -> Flow {
        Flow {
            endpoint: number / PORTS as usize,
            port: number % PORTS as usize,
        }
    }

    /// What an agent does: writes the Linux section, and the core answers it.
    pub fn begin_linux_session(&mut self) {
        let words = [
            (linux_header::MAGIC, LINUX_MAGIC),
            (linux_header::VERSION, VERSION),
            (linux_header::LINE_BYTES, LINE_BYTES as u32),
            (linux_header::SECTION_BYTES, LINK_BYTES / 2),
            (linux_header::ENDPOINTS, ENDPOINTS.len() as u32),
            (linux_header::CAPACITY, CAPACITY),
            (linux_header::REGION, self.region.into()),
            (linux_header::REGION_BYTES, REGION_BYTES as u32),
            (linux_header::CLASSES, 1),
            (linux_header::HEADROOM, HEADROOM_BYTES),
            (linux_header::PORTS, PORTS),
        ];
        for (at, value) in words {
            self.store(at, value);
        }
        self.linux_session += 1;
        self.store(linux_header::SESSION, self.linux_session);
        self.begin_life();
    }

    /// A new life: what the old one held is gone.
    fn begin_life(&mut self) {
        let core = self.layout.core_header();
        self.store(core + core_header::STATE, 0);
        self.session += 1;
        self.store(core + core_header::SESSION, self.session);
        for number in 0..self.flows.len() {
            let flow = Self::flow(number);
            let (theirs, ours) = (self.layout.linux_flow(flow), self.layout.core_flow(flow));
            self.store(ours + flow_line::SESSION, 0);
            let tail = self.load(ours + flow_line::TAIL);
            let void = self.load(theirs + flow_line::SESSION);
            self.flows[number] = FlowState {
                tail,
                void,
                ..FlowState::default()
            };
        }
        for (index, (name, direction, kind)) in ENDPOINTS.into_iter().enumerate() {
            let at = self.layout.endpoint_record(index);
            write_name(&self.link, at, NAME_BYTES, name);
            let is_bad = self.has_bad_record && index == 0;
            let direction = if is_bad { 9 } else { direction.to_word() };
            self.store(at + endpoint_record::DIRECTION, direction);
            self.store(at + endpoint_record::KIND, kind as u32);
            self.store(at + endpoint_record::MAX_BYTES, SLOT_BYTES - HEADROOM_BYTES);
        }
        write_name(&self.link, core + core_header::NAME, NAME_BYTES, "words");
        self.store(self.layout.core_bell() + bell_line::WANTED, 0);
        self.write_header();
    }

    /// What it says of itself, put right.
    fn write_header(&self) {
        let core = self.layout.core_header();
        for (at, value) in [
            (core_header::SESSION, self.session),
            (core_header::VERSION, VERSION),
            (core_header::REASON, 0),
            (core_header::ENDPOINTS, ENDPOINTS.len() as u32),
            (core_header::LINE_BYTES, LINE_BYTES as u32),
            (core_header::MAGIC, CORE_MAGIC),
            (core_header::ECHO, self.linux_session),
            (core_header::STATE, CoreState::Up as u32),
        ] {
            self.store(core + at, value);
        }
        if self.plays_agent {
            self.store(linux_header::SESSION, self.linux_session);
        }
    }

    /// Some steps of its own choice.
    pub fn act(&mut self, choices: &mut Choices) {
        if self.is_silent {
            return;
        }
        if self.fault == CoreFault::Endless {
            return self.give_without_end();
        }
        for _ in 0..choices.below(3) {
            let number = choices.below(self.flows.len() as u32) as usize;
            match choices.below(16) {
                0 => self.write_header(),
                1..6 => self.serve(),
                6..9 => self.take(number),
                9..13 => self.give(number, choices),
                13 => self.raise(number, choices),
                _ if self.fault == CoreFault::Honest => self.serve(),
                14 => self.push_nonsense(number, choices),
                _ => self.lie(choices),
            }
        }
    }

    fn give_without_end(&mut self) {
        self.stores += 1;
        assert!(self.stores < STORES_MAX, "Linux is kept");
        self.serve();
        let credit = Entry {
            descriptor: Descriptor::from_words([0, 0, 0, CREDIT]),
            account: 0,
            references: 0,
            tag: 0,
        };
        for number in 0..self.flows.len() {
            if self.flows[number].echo != 0 && self.has_free(number, CAPACITY) {
                self.lies += 1;
                self.push(number, credit);
            }
        }
    }

    /// Restarts as a whole now and then, or gets an agent that writes everything anew.
    pub fn change_life(&mut self, choices: &mut Choices) {
        match choices.below(2) {
            0 => self.begin_life(),
            _ => self.begin_linux_session(),
        }
    }

    /// Answers all sessions.
    pub fn serve(&mut self) {
        for number in 0..self.flows.len() {
            let flow = Self::flow(number);
            let (theirs, ours) = (self.layout.linux_flow(flow), self.layout.core_flow(flow));
            let session = self.load(theirs + flow_line::SESSION);
            let state = &self.flows[number];
            if session == state.echo || session != 0 && session == state.void {
                continue;
            }
            let (head, tail) = (self.load(theirs + flow_line::START), state.tail);
            self.flows[number] = FlowState {
                echo: session,
                void: 0,
                head,
                tail,
                held: Vec::new(),
            };
            self.store(ours + flow_line::HEAD, head);
            self.store(ours + flow_line::START, tail);
            for (seen, raised) in [
                (flow_line::SEEN_LOW, flow_line::RAISED_LOW),
                (flow_line::SEEN_HIGH, flow_line::RAISED_HIGH),
            ] {
                self.store(ours + seen, self.load(theirs + raised));
            }
            self.store(ours + flow_line::SESSION, session);
        }
    }

    fn take(&mut self, number: usize) {
        let flow = Self::flow(number);
        let theirs = self.layout.linux_flow(flow);
        let (tail, state) = (self.load(theirs + flow_line::TAIL), &self.flows[number]);
        let waiting = tail.wrapping_sub(state.head);
        if state.echo == 0 || waiting == 0 || waiting > CAPACITY {
            return;
        }
        if self.load(theirs + flow_line::SESSION) != state.echo {
            return;
        }
        let at = self.layout.linux_entries(flow);
        let at = at + (state.head % CAPACITY) as usize * ENTRY_BYTES;
        let entry = self.entry(at);
        let state = &mut self.flows[number];
        state.head = state.head.wrapping_add(1);
        state.held.push(entry);
        self.entries += 1;
        let head = state.head;
        self.last = Some(entry);
        self.store(self.layout.core_flow(flow) + flow_line::HEAD, head);
    }

    fn entry(&self, at: usize) -> Entry {
        Entry::from_words(std::array::from_fn(|word| self.load(at + 4 * word)))
    }

    fn give(&mut self, number: usize, choices: &mut Choices) {
        let (_, direction, kind) = ENDPOINTS[Self::flow(number).endpoint];
        let held = self.flows[number].held.len() as u32;
        if held == 0 || !self.has_free(number, CAPACITY) {
            return;
        }
        let index = choices.below(held) as usize;
        let mut entry = self.flows[number].held.swap_remove(index);
        if kind == EndpointKind::Requests {
            let slot = entry.descriptor.place.slot % SLOTS * SLOT_BYTES;
            self.slots.store(slot as usize, REPLY, Ordering::Release);
        }
        if direction == Direction::ToCore {
            return self.push(number, entry);
        }
        entry.descriptor.length = choices.below(64);
        if choices.below(4) == 0 {
            entry.descriptor.length = UNUSED;
            return self.push(number, entry);
        }
        self.publish(number, entry);
    }

    /// To all ports of the endpoint that have free capacity, divided among them.
    fn publish(&mut self, number: usize, mut entry: Entry) {
        let first = number - number % PORTS as usize;
        let ready = (first..first + PORTS as usize).filter(|&flow| self.has_window(flow));
        let ready: Vec<usize> = ready.collect();
        let all = entry.references;
        for (index, &flow) in ready.iter().enumerate() {
            let is_last = index + 1 == ready.len();
            let left = all.saturating_sub(index as u32);
            entry.references = if is_last { left } else { left.min(1) };
            if entry.references > 0 {
                self.push(flow, entry);
            }
        }
        if ready.is_empty() {
            self.flows[number].held.push(entry);
        }
    }

    fn has_window(&self, number: usize) -> bool {
        let theirs = self.layout.linux_flow(Self::flow(number));
        let window = self.load(theirs + flow_line::WINDOW);
        self.flows[number].echo != 0 && self.has_free(number, window.clamp(1, CAPACITY))
    }

    fn has_free(&self, number: usize, most: u32) -> bool {
        let theirs = self.layout.linux_flow(Self::flow(number));
        let waiting = self.flows[number]
            .tail
            .wrapping_sub(self.load(theirs + flow_line::HEAD));
        waiting < most && self.load(theirs + flow_line::SESSION) == self.flows[number].echo
    }

    fn push(&mut self, number: usize, entry: Entry) {
        let flow = Self::flow(number);
        let state = &mut self.flows[number];
        let at = (state.tail % CAPACITY) as usize * ENTRY_BYTES;
        state.tail = state.tail.wrapping_add(1);
        let tail = state.tail;
        let at = self.layout.core_entries(flow) + at;
        for (word, value) in entry.to_words().into_iter().enumerate() {
            self.store(at + 4 * word, value);
        }
        self.store(self.layout.core_flow(flow) + flow_line::TAIL, tail);
    }

    fn raise(&self, number: usize, choices: &mut Choices) {
        let flow = Self::flow(number);
        let (theirs, ours) = (self.layout.linux_flow(flow), self.layout.core_flow(flow));
        self.store(
            ours + flow_line::SEEN_LOW,
            self.load(theirs + flow_line::RAISED_LOW),
        );
        let raised = self.load(ours + flow_line::RAISED_LOW);
        self.store(
            ours + flow_line::RAISED_LOW,
            raised ^ 1 << choices.below(32),
        );
    }

    /// Something that was there once, with words that were not.
    fn push_nonsense(&mut self, number: usize, choices: &mut Choices) {
        let nothing = Entry {
            descriptor: Descriptor::from_words([0; 4]),
            account: 0,
            references: 1,
            tag: 0,
        };
        let mut words = self.last.unwrap_or(nothing).to_words();
        for _ in 0..choices.below(3) {
            let word = choices.below(Entry::WORDS as u32) as usize;
            words[word] = lie(words[word], choices);
        }
        self.lies += 1;
        self.push(number, Entry::from_words(words));
    }

    fn lie(&mut self, choices: &mut Choices) {
        self.lies += 1;
        let section = self.layout.section_bytes();
        // The lines of flows and headers as often as all the rest.
        let bytes = [section, self.layout.core_entries(Self::flow(0)) - section];
        let bytes = bytes[choices.below(2) as usize] as u32;
        let within = choices.below(bytes / 4) as usize * 4;
        match (self.fault, choices.below(4)) {
            (CoreFault::Scribbling, 0) => {
                let found = self.load(within);
                self.store(within, lie(found, choices));
            }
            (CoreFault::Scribbling, 1) => {
                let at = choices.below(REGION_BYTES as u32 / 4) as usize * 4;
                self.slots.store(at, lie(0, choices), Ordering::Release);
            }
            _ => {
                let at = section + within;
                let found = self.load(at);
                self.store(at, lie(found, choices));
            }
        }
    }

    /// What it has of each slot, by references: held, in its queues, and on the way to it, as far
    /// as sessions are agreed on.
    pub fn references(&self) -> Vec<u32> {
        let mut sum = vec![0; SLOTS as usize];
        let mut add = |entry: &Entry| {
            sum[entry.descriptor.place.slot as usize % SLOTS as usize] += entry.references;
        };
        for (number, state) in self.flows.iter().enumerate() {
            let flow = Self::flow(number);
            let theirs = self.layout.linux_flow(flow);
            let session = self.load(theirs + flow_line::SESSION);
            if state.echo == 0 || session != state.echo {
                continue;
            }
            state.held.iter().for_each(&mut add);
            let (tail, head) = (
                self.load(theirs + flow_line::TAIL),
                self.load(theirs + flow_line::HEAD),
            );
            let (inbox, outbox) = (
                self.layout.linux_entries(flow),
                self.layout.core_entries(flow),
            );
            for (at, from, to) in [(inbox, state.head, tail), (outbox, head, state.tail)] {
                let count = to.wrapping_sub(from);
                for step in 0..if count > CAPACITY { 0 } else { count } {
                    let index = (from.wrapping_add(step) % CAPACITY) as usize;
                    add(&self.entry(at + index * ENTRY_BYTES));
                }
            }
        }
        sum
    }
}
