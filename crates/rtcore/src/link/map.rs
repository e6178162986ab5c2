//! The two sections of a link, mapped.

use hythe_abi::link::{
    CoreState, Direction, EndpointKind, Entry, Flow, LINUX_MAGIC, LinkLayout, NAME_BYTES, VERSION,
    bell_line, core_header, endpoint_record, flow_line, linux_header,
};
use hythe_abi::{HEADROOM_BYTES, LINE_BYTES, RegionIndex};
use hythe_memory::{Ordering, full_barrier};
use hythe_pool::RegionGeometry;

use hythe_node::NodeError;
use hythe_node::Pool;
use hythe_node::hop::HopPool as _;

use super::ring::Places;
use super::words::Words;

/// A link, mapped, with its layout checked.
#[derive(Clone, Debug)]
pub(crate) struct LinkMap {
    words: Words,
    layout: LinkLayout,
    region: RegionIndex,
}

/// What a core writes of a flow before it rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoreWords([u32; 8]);

/// What Linux writes of a flow when it has taken what the core rang for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenWords([u32; 4]);

/// The two sessions that make one life of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(super) linux: u32,
    core: u32,
}

impl Life {
    /// Has the program of the core begun anew, although the agent has not?
    pub(crate) const fn is_restart_of(self, before: Self) -> bool {
        self.linux == before.linux && self.core != before.core
    }
}

/// An endpoint as the core announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRecord {
    /// Its number.
    pub index: usize,
    /// Name, and that of its channel.
    pub name: String,
    /// Which way payload travels.
    pub direction: Direction,
    /// The largest payload.
    pub max_bytes: u32,
    /// What it is for.
    pub kind: EndpointKind,
    /// Hash of what its payloads are; 0: bytes.
    pub type_hash: u32,
}

impl LinkMap {
    /// Maps the link of a core's region, as its agent has filled it.
    ///
    /// # Errors
    /// [`NodeError::BadLink`] if there is none, or its words make no sense.
    pub(crate) fn open(pool: &Pool, region: RegionIndex) -> Result<Self, NodeError> {
        let words = Words::new(pool.map_link(region)?);
        let word = |at| words.load(at, Ordering::Acquire);
        let bad = |reason: String| NodeError::BadLink { region, reason };
        let (magic, version) = (word(linux_header::MAGIC), word(linux_header::VERSION));
        if magic == 0 && version == 0 {
            return Err(bad("no agent has filled it".to_owned()));
        }
        if magic != LINUX_MAGIC || version != VERSION {
            return Err(bad(format!(
                "`magic` of its Linux section is {magic:#010x} and `version` {version}, in place \
                 of {LINUX_MAGIC:#010x} and {VERSION}: its agent is of another version, or its \
                 core wrote there"
            )));
        }
        let section = word(linux_header::SECTION_BYTES) as usize;
        let layout = LinkLayout::new(
            word(linux_header::ENDPOINTS),
            word(linux_header::PORTS),
            word(linux_header::CAPACITY),
            section,
        );
        let layout = layout.filter(|layout| layout.bytes() <= words.bytes());
        let layout = layout.ok_or_else(|| {
            bad(format!(
                "the sizes in its Linux section do not fit: {} endpoints, {} ports, capacity {}, \
                 sections of {section} bytes",
                word(linux_header::ENDPOINTS),
                word(linux_header::PORTS),
                word(linux_header::CAPACITY),
            ))
        })?;
        Ok(Self {
            words,
            layout,
            region,
        })
    }

    /// Maps the link of a core's region and fills the Linux section, all but the session. For the
    /// agent.
    ///
    /// # Errors
    /// [`NodeError::BadLink`] if the sizes do not fit.
    pub(crate) fn fill(
        pool: &Pool,
        region: RegionIndex,
        (endpoints, ports, capacity): (u32, u32, u32),
    ) -> Result<Self, NodeError> {
        let words = Words::new(pool.map_link(region)?);
        let section = words.bytes() / 2;
        let unknown = || NodeError::BadLink {
            region,
            reason: "unknown region".to_owned(),
        };
        let geometry = pool.region(region).ok_or_else(unknown)?;
        let layout = LinkLayout::new(endpoints, ports, capacity, section).ok_or_else(|| {
            let reason = format!(
                "{endpoints} endpoints with {ports} ports and queues of {capacity} do not fit {} bytes",
                words.bytes()
            );
            NodeError::BadLink { region, reason }
        })?;
        let link = Self {
            words,
            layout,
            region,
        };
        link.write_linux_header(&geometry);
        Ok(link)
    }

    fn write_linux_header(&self, region: &RegionGeometry) {
        let word = |at, value: u32| self.words.store(at, value, Ordering::Relaxed);
        word(linux_header::SESSION, 0);
        for (at, value) in self.geometry_words(region) {
            word(at, value);
        }
    }

    /// The words of the Linux section that say what the link is, and where: they stay as they are.
    pub(super) fn geometry_words(&self, region: &RegionGeometry) -> Vec<(usize, u32)> {
        let mut words = vec![
            (linux_header::MAGIC, LINUX_MAGIC),
            (linux_header::VERSION, VERSION),
            (linux_header::LINE_BYTES, LINE_BYTES as u32),
            (
                linux_header::SECTION_BYTES,
                self.layout.section_bytes() as u32,
            ),
            (linux_header::ENDPOINTS, self.layout.endpoints() as u32),
            (linux_header::PORTS, self.layout.ports() as u32),
            (linux_header::CAPACITY, self.layout.capacity() as u32),
            (linux_header::REGION, region.index.0.into()),
            // A core's addresses have 32 bits; `add_core_region` was given a size that fits.
            (linux_header::REGION_BYTES, region.bytes as u32),
            (linux_header::CLASSES, region.classes.len() as u32),
            (linux_header::HEADROOM, HEADROOM_BYTES),
        ];
        for (index, class) in region.classes.iter().enumerate() {
            let at = self.layout.classes() + 16 * index;
            words.extend([
                (at, class.slot_bytes),
                (at + 4, class.count),
                (at + 8, class.first),
                (at + 12, class.offset as u32),
            ]);
        }
        words
    }

    /// The session of the agent, 0 if there is none.
    pub(crate) fn linux_session(&self) -> u32 {
        self.words.load(linux_header::SESSION, Ordering::Acquire)
    }

    /// Begins a session: everything filled before becomes visible to the core.
    pub(crate) fn begin_session(&self, session: u32) {
        self.words
            .store(linux_header::SESSION, session, Ordering::Release);
    }

    /// An endpoint's record; `None` if its number, direction or kind is impossible.
    pub(crate) fn endpoint(&self, index: usize) -> Option<EndpointRecord> {
        if index >= self.layout.endpoints() {
            return None;
        }
        let at = self.layout.endpoint_record(index);
        Some(EndpointRecord {
            index,
            name: self.words.name(at + endpoint_record::NAME, NAME_BYTES),
            direction: Direction::from_word(
                self.words
                    .load(at + endpoint_record::DIRECTION, Ordering::Relaxed),
            )?,
            max_bytes: self
                .words
                .load(at + endpoint_record::MAX_BYTES, Ordering::Relaxed),
            kind: EndpointKind::from_word(
                self.words
                    .load(at + endpoint_record::KIND, Ordering::Relaxed),
            )?,
            type_hash: self
                .words
                .load(at + endpoint_record::TYPE, Ordering::Relaxed),
        })
    }

    /// How often Linux has rung; the agent passes each change on to the core.
    pub(crate) fn linux_rings(&self) -> u32 {
        self.words.load(
            self.layout.linux_bell() + bell_line::COUNT,
            Ordering::Acquire,
        )
    }

    /// Notes a ring for the core. False: nobody sleeps there, and no doorbell is needed.
    pub(crate) fn note_ring(&self) -> bool {
        // Our tail before the core's "I sleep": its mirror image there is "I sleep" before our
        // tail.
        full_barrier();
        let wanted = self.layout.core_bell() + bell_line::WANTED;
        if self.words.load(wanted, Ordering::Acquire) == 0 {
            return false;
        }
        self.words
            .raise(self.layout.linux_bell() + bell_line::COUNT);
        true
    }

    /// Says whether the participant at a flow sleeps. The caller's full barrier follows.
    pub(super) fn write_sleeps(&self, flow: Flow, sleeps: bool) {
        let at = self.layout.linux_flow(flow) + flow_line::WANTED;
        self.words.store(at, sleeps.into(), Ordering::Relaxed);
    }

    /// A flow's session as Linux last wrote it, and the core's echo.
    pub(crate) fn sessions(&self, flow: Flow) -> (u32, u32) {
        let word = |at| self.words.load(at + flow_line::SESSION, Ordering::Acquire);
        (
            word(self.layout.linux_flow(flow)),
            word(self.layout.core_flow(flow)),
        )
    }

    /// The two sessions, if the core is up and has answered the agent.
    pub(crate) fn life(&self) -> Option<Life> {
        let core = self.layout.core_header();
        let word = |at| self.words.load(at, Ordering::Acquire);
        let linux = self.linux_session();
        let up = CoreState::from_word(word(core + core_header::STATE)) == CoreState::Up;
        let answered = linux != 0 && word(core + core_header::ECHO) == linux;
        (up && answered).then(|| Life {
            linux,
            core: word(core + core_header::SESSION),
        })
    }

    /// What the core wrote into its line of a flow.
    pub(crate) fn core_words(&self, flow: Flow) -> CoreWords {
        let line = self.layout.core_flow(flow);
        let words = [
            flow_line::SESSION,
            flow_line::TAIL,
            flow_line::HEAD,
            flow_line::DROPPED,
            flow_line::RAISED_LOW,
            flow_line::RAISED_HIGH,
            flow_line::SEEN_LOW,
            flow_line::SEEN_HIGH,
        ];
        CoreWords(words.map(|at| self.words.load(line + at, Ordering::Acquire)))
    }

    /// How far Linux has taken what the core wrote into a flow.
    pub(crate) fn taken_words(&self, flow: Flow) -> TakenWords {
        let line = self.layout.linux_flow(flow);
        let words = [
            flow_line::SESSION,
            flow_line::HEAD,
            flow_line::SEEN_LOW,
            flow_line::SEEN_HIGH,
        ];
        TakenWords(words.map(|at| self.words.load(line + at, Ordering::Acquire)))
    }

    /// A sum over what Linux writes before it rings: it changes when Linux has rung for something.
    pub(crate) fn linux_news(&self) -> u32 {
        let flows = (0..self.layout.endpoints()).flat_map(|endpoint| self.flows(endpoint));
        flows.fold(0, |sum: u32, flow| {
            let line = self.layout.linux_flow(flow);
            let word = |at| self.words.load(line + at, Ordering::Relaxed);
            let events = word(flow_line::RAISED_LOW) ^ word(flow_line::RAISED_HIGH);
            let queues = word(flow_line::TAIL) ^ word(flow_line::HEAD).rotate_left(8);
            let news = queues ^ word(flow_line::SESSION).rotate_left(16) ^ events;
            // So that the same change of two flows does not cancel out.
            sum.rotate_left(5) ^ news
        })
    }

    /// What the core wrote of its life.
    pub(crate) fn core_life_words(&self) -> [u32; 3] {
        let core = self.layout.core_header();
        let words = [core_header::STATE, core_header::SESSION, core_header::ECHO];
        words.map(|at| self.words.load(core + at, Ordering::Acquire))
    }

    /// Ports of each endpoint.
    pub(crate) const fn ports(&self) -> usize {
        self.layout.ports()
    }

    /// Writes a new session of a flow, in which at most `window` messages of the core wait, and
    /// returns the own tail at which it starts.
    pub(super) fn propose(&self, flow: Flow, session: u32, window: u32) -> u32 {
        let ours = self.layout.linux_flow(flow);
        // What was raised before is of another session; what the core raises from its echo on is of
        // this one.
        self.take_events(flow);
        let tail = self.words.load(ours + flow_line::TAIL, Ordering::Relaxed);
        self.words
            .store(ours + flow_line::WINDOW, window, Ordering::Relaxed);
        self.words
            .store(ours + flow_line::START, tail, Ordering::Relaxed);
        self.write_session(flow, session);
        tail
    }

    /// Says whether the flow's port has the eventfds of the core: else the agent passes on its
    /// rings, and wakes it when the core has rung.
    pub(super) fn set_doorbell(&self, flow: Flow, has: bool) {
        let at = self.layout.linux_flow(flow) + flow_line::DOORBELL;
        self.words.store(at, has.into(), Ordering::Release);
    }

    /// Is somebody attached whom the core does not ring without the agent?
    pub(crate) fn needs_agent(&self) -> bool {
        let endpoints = 0..self.layout.endpoints();
        let mut flows = endpoints.flat_map(|endpoint| self.flows(endpoint));
        flows.any(|flow| self.sessions(flow).0 != 0 && !self.has_doorbell(flow))
    }

    /// Does the core ring the flow's port without the agent?
    pub(crate) fn has_doorbell(&self, flow: Flow) -> bool {
        let at = self.layout.linux_flow(flow) + flow_line::DOORBELL;
        self.words.load(at, Ordering::Acquire) != 0
    }

    /// Ends the session of a flow.
    pub(super) fn withdraw(&self, flow: Flow) {
        self.write_session(flow, 0);
    }

    fn write_session(&self, flow: Flow, session: u32) {
        let ours = self.layout.linux_flow(flow);
        self.words
            .store(ours + flow_line::SESSION, session, Ordering::Release);
        // The core looks at sessions only when this has changed.
        let changes = self.layout.linux_bell() + bell_line::CHANGES;
        self.words.raise(changes);
    }

    /// Begins to take where the core says that the session starts; returns that.
    pub(super) fn begin_at_start(&self, flow: Flow) -> u32 {
        let start = self.layout.core_flow(flow) + flow_line::START;
        let start = self.words.load(start, Ordering::Acquire);
        self.set_head(flow, start);
        start
    }

    /// Raises events at the core. False: all of them are still to be seen.
    pub(super) fn raise(&self, flow: Flow, events: u64) -> bool {
        let (ours, theirs) = (self.layout.linux_flow(flow), self.layout.core_flow(flow));
        // What the events announce before the core's `seen`: a core that took them earlier looks
        // after it.
        full_barrier();
        let mut flipped = 0;
        for (raised_at, seen_at, events) in [
            (flow_line::RAISED_LOW, flow_line::SEEN_LOW, events as u32),
            (
                flow_line::RAISED_HIGH,
                flow_line::SEEN_HIGH,
                (events >> 32) as u32,
            ),
        ] {
            let raised = self.words.load(ours + raised_at, Ordering::Relaxed);
            let pending = raised ^ self.words.load(theirs + seen_at, Ordering::Acquire);
            let new = events & !pending;
            if new != 0 {
                self.words
                    .store(ours + raised_at, raised ^ new, Ordering::Release);
            }
            flipped |= new;
        }
        flipped != 0
    }

    /// Takes the events that the core has raised.
    pub(super) fn take_events(&self, flow: Flow) -> u64 {
        let (ours, theirs) = (self.layout.linux_flow(flow), self.layout.core_flow(flow));
        let mut taken = 0;
        for (raised_at, seen_at, shift) in [
            (flow_line::RAISED_LOW, flow_line::SEEN_LOW, 0),
            (flow_line::RAISED_HIGH, flow_line::SEEN_HIGH, 32),
        ] {
            let raised = self.words.load(theirs + raised_at, Ordering::Acquire);
            let pending = raised ^ self.words.load(ours + seen_at, Ordering::Relaxed);
            if pending != 0 {
                self.words.store(ours + seen_at, raised, Ordering::Release);
            }
            taken |= u64::from(pending) << shift;
        }
        // `seen` before what the events announce: a raise from here on is a new one.
        full_barrier();
        taken
    }

    /// Has the core raised events that were not taken?
    pub(super) fn has_events(&self, flow: Flow) -> bool {
        let (ours, theirs) = (self.layout.linux_flow(flow), self.layout.core_flow(flow));
        let word = |at| self.words.load(at, Ordering::Acquire);
        word(theirs + flow_line::RAISED_LOW) != word(ours + flow_line::SEEN_LOW)
            || word(theirs + flow_line::RAISED_HIGH) != word(ours + flow_line::SEEN_HIGH)
    }

    /// How many messages the core has dropped for this flow, wrapping.
    pub(super) fn dropped(&self, flow: Flow) -> u32 {
        let at = self.layout.core_flow(flow) + flow_line::DROPPED;
        self.words.load(at, Ordering::Relaxed)
    }

    /// Is there anything in the queue core -> Linux?
    pub(super) fn has_waiting(&self, flow: Flow) -> bool {
        self.waiting_count(flow) != 0
    }

    /// Head and tail of the queue core -> Linux.
    pub(super) fn waiting_ends(&self, flow: Flow) -> (u32, u32) {
        let places = self.queue_from_core(flow);
        let read = |at| self.words.load(at, Ordering::Acquire);
        (read(places.head), read(places.tail))
    }

    /// What waits in the queue core -> Linux. A claim that is out of range counts as none.
    pub(super) fn waiting(&self, flow: Flow) -> Vec<Entry> {
        let count = self.waiting_count(flow);
        let places = self.queue_from_core(flow);
        let head = self.words.load(places.head, Ordering::Acquire);
        (0..count)
            .map(|step| places.read(&self.words, head.wrapping_add(step)))
            .collect()
    }

    fn waiting_count(&self, flow: Flow) -> u32 {
        let places = self.queue_from_core(flow);
        let tail = self.words.load(places.tail, Ordering::Acquire);
        let head = self.words.load(places.head, Ordering::Acquire);
        let count = tail.wrapping_sub(head);
        if count > places.capacity { 0 } else { count }
    }

    /// The queue core -> Linux of a flow.
    pub(super) const fn queue_from_core(&self, flow: Flow) -> Places {
        Places {
            tail: self.layout.core_flow(flow) + flow_line::TAIL,
            head: self.layout.linux_flow(flow) + flow_line::HEAD,
            entries: self.layout.core_entries(flow),
            capacity: self.layout.capacity() as u32,
        }
    }

    /// The queue Linux -> core of a flow.
    pub(super) const fn queue_to_core(&self, flow: Flow) -> Places {
        Places {
            tail: self.layout.linux_flow(flow) + flow_line::TAIL,
            head: self.layout.core_flow(flow) + flow_line::HEAD,
            entries: self.layout.linux_entries(flow),
            capacity: self.layout.capacity() as u32,
        }
    }

    fn set_head(&self, flow: Flow, head: u32) {
        let ours = self.layout.linux_flow(flow) + flow_line::HEAD;
        self.words.store(ours, head, Ordering::Release);
    }

    /// Forgets what a dead core left in its queues, whose slots are in its rows, and that it rang
    /// somebody directly. For the agent,
    /// between two lives.
    pub(crate) fn forget_queues(&self) {
        for endpoint in 0..self.layout.endpoints() {
            self.flows(endpoint).for_each(|flow| self.forget_flow(flow));
        }
    }

    fn forget_flow(&self, flow: Flow) {
        self.forget_queue(flow);
        self.set_doorbell(flow, false);
    }

    pub(super) fn forget_queue(&self, flow: Flow) {
        let tail = self.layout.core_flow(flow) + flow_line::TAIL;
        self.set_head(flow, self.words.load(tail, Ordering::Acquire));
    }

    /// The flows of an endpoint.
    pub(crate) fn flows(&self, endpoint: usize) -> impl Iterator<Item = Flow> + use<> {
        (0..self.layout.ports()).map(move |port| Flow { endpoint, port })
    }

    /// Has any endpoint of the core payload for Linux?
    pub(super) fn gives_payload(&self) -> bool {
        (0..self.layout.endpoints()).any(|endpoint| self.is_from_core(endpoint))
    }

    /// Are requests what the endpoint carries?
    pub(super) fn asks(&self, endpoint: usize) -> bool {
        self.endpoint(endpoint)
            .is_some_and(|record| record.kind == EndpointKind::Requests)
    }

    /// Has the endpoint messages for Linux?
    pub(super) fn is_from_core(&self, endpoint: usize) -> bool {
        // Without its name, which costs an allocation.
        let record = self.layout.endpoint_record(endpoint);
        let word = |at| self.words.load(record + at, Ordering::Relaxed);
        Direction::from_word(word(endpoint_record::DIRECTION)) == Some(Direction::FromCore)
            && EndpointKind::from_word(word(endpoint_record::KIND)) == Some(EndpointKind::Messages)
    }

    /// The region whose slots the link's descriptors name.
    pub(crate) const fn region(&self) -> RegionIndex {
        self.region
    }

    pub(super) const fn words(&self) -> &Words {
        &self.words
    }

    pub(super) const fn layout(&self) -> &LinkLayout {
        &self.layout
    }
}
