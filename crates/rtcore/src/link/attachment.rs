//! Being attached to one flow of a core: the handshake, and the two queues.
//!
//! An attachment clears first: whatever session an earlier user of the port left open is ended, and
//! once the core has echoed that, what it left is taken back (only then: under a new session the
//! core would write over it). Then it proposes a session, and when that is echoed both sides use
//! the queues. It is over when the core, its agent, or the binding of the channel is another. None
//! of the steps waits; [`attach`] is the loop around them. While an attachment exists, no row of
//! its core is recovered.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::Descriptor;
use hythe_abi::link::{Direction, Entry, Flow};
use hythe_pool::{ChannelInfo, CoreBinding, CoreCounter, LedgerSlot, MemberIndex, Taken};

use super::doorbell_line::DoorbellLine;
use super::map::{Life, LinkMap};
use super::right::Right;
use super::ring::{Inbox, Outbox};
use super::settle;
use super::violation::{ViolatedWord, Violation};
use crate::eventfds;
use crate::stopped::stopped_process;
use hythe_node::NodeError;
use hythe_node::hop::{
    self, Doorbell, HopPool as _, Participant, SleepWord, SleepWordGuard, WaitPlan,
};

/// How often an echo is looked for without being rung for.
pub(super) const ECHO_NAP: Duration = Duration::from_millis(2);

/// The empty slots that a port wants to give its core.
#[derive(Clone, Copy, Debug)]
pub(super) struct EmptySlots {
    pub(super) count: u32,
    /// For payloads of so many bytes; `None`: for the largest of the endpoint.
    pub(super) bytes: Option<u32>,
}

impl From<u32> for EmptySlots {
    fn from(count: u32) -> Self {
        let bytes = None;
        Self { count, bytes }
    }
}

/// The right to use one flow, under one session.
#[derive(Debug)]
pub(super) struct Attachment {
    /// Before the right: the flow's words are ours as long as that is.
    _sleep_word: SleepWordGuard,
    right: Right,
    pub(super) core: CoreBinding,
    doorbell: DoorbellLine,
    flow: Flow,
    /// Rows of this core that entries were found to name: they live as long as the core does.
    known_rows: Vec<MemberIndex>,
    /// References that go to the core with each slot: one for each port that could get it there.
    references: u32,
    /// Messages of the core that may wait.
    window: u32,
    pub(super) max_bytes: u32,
    /// Payload that fits the empty slots for the core.
    pub(super) slot_bytes: u32,
    pub(super) link: LinkMap,
    life: Life,
    epoch: u32,
    /// 0 while clearing.
    session: u32,
    /// The own tail at which the session starts.
    start: u32,
    queues: Option<Queues>,
    /// The loss of the session was counted.
    is_lost: bool,
    is_quarantined: bool,
}

#[derive(Debug)]
struct Queues {
    to_core: Outbox,
    from_core: Inbox,
}

/// The word that asks the core to ring after each push over a flow.
#[derive(Debug)]
struct FlowSleep(LinkMap, Flow);

impl SleepWord for FlowSleep {
    fn write(&self, sleeps: bool) {
        self.0.write_sleeps(self.1, sleeps);
    }
}

/// What an attachment has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// No echo yet: of the end of the last session, or of the new one.
    Waiting,
    /// Both sides use the queues.
    Met,
    /// The core is another one now, or none.
    Over,
}

/// Attaches, waiting for the echo.
pub(super) fn attach(
    shared: &Arc<Participant>,
    channel: &ChannelInfo,
    attachment: &mut Option<Attachment>,
    gives: impl Into<EmptySlots> + Copy,
    bound: Duration,
) -> Result<(), NodeError> {
    let plan = WaitPlan::for_processes().at_most(ECHO_NAP);
    let start = Instant::now();
    let met = shared.wait_for(plan, bound, || {
        if shared.is_interrupted() {
            return Ok(Some(false));
        }
        // The other half is for the core, if its agent is stopped.
        let agent_bound = bound.saturating_sub(start.elapsed()) / 2;
        Ok(step_within(shared, channel, attachment, gives.into(), agent_bound)?.then_some(true))
    })?;
    if met == Some(true) {
        return Ok(());
    }
    let why = why_silent(shared, channel, attachment.as_ref());
    *attachment = None;
    Err(why)
}

/// Why the steps towards being attached have not come to their end.
pub(super) fn why_silent(
    shared: &Arc<Participant>,
    channel: &ChannelInfo,
    attachment: Option<&Attachment>,
) -> NodeError {
    let reason = match attachment {
        Some(attachment) => attachment.why_no_echo(),
        None => why_down(shared, channel),
    };
    silent(channel, &reason)
}

/// Why nobody can be attached to the core behind a channel.
fn why_down(shared: &Arc<Participant>, channel: &ChannelInfo) -> String {
    let now = shared.pool().control().tables().channel(channel.index);
    let Some(core) = now.and_then(|now| now.core) else {
        return "it is not running".to_owned();
    };
    match LinkMap::open(shared.pool(), core.region) {
        Ok(link) => link.why_down(),
        Err(error) => error.to_string(),
    }
}

/// One step towards being attached, without waiting. True: attached.
///
/// # Errors
/// [`NodeError::CoreSilent`] if no core is behind the channel; [`NodeError::EndpointTaken`].
pub(super) fn step(
    shared: &Arc<Participant>,
    channel: &ChannelInfo,
    attachment: &mut Option<Attachment>,
    gives: impl Into<EmptySlots>,
) -> Result<bool, NodeError> {
    step_within(shared, channel, attachment, gives.into(), eventfds::BOUND)
}

/// As [`step`]. An attachment that begins with it waits so long for the agent, at most.
fn step_within(
    shared: &Arc<Participant>,
    channel: &ChannelInfo,
    attachment: &mut Option<Attachment>,
    gives: EmptySlots,
    agent_bound: Duration,
) -> Result<bool, NodeError> {
    if attachment.is_none() {
        let agent_bound = agent_bound.min(eventfds::BOUND);
        *attachment = Attachment::begin(shared, channel, gives, agent_bound)?;
    }
    let meeting = attachment
        .as_mut()
        .map_or(Ok(Meeting::Waiting), Attachment::meet)?;
    if meeting == Meeting::Over {
        *attachment = None;
    }
    Ok(meeting == Meeting::Met)
}

/// The error that a core does not answer.
pub(super) fn silent(channel: &ChannelInfo, reason: &str) -> NodeError {
    NodeError::CoreSilent {
        channel: channel.name.clone(),
        reason: reason.to_owned(),
    }
}

impl Attachment {
    /// Takes a port of the endpoint and ends the session it finds. `None`: not at this moment.
    fn begin(
        shared: &Arc<Participant>,
        channel: &ChannelInfo,
        gives: EmptySlots,
        agent_bound: Duration,
    ) -> Result<Option<Self>, NodeError> {
        let control = shared.pool().control();
        // Before the look at the binding: a change behind it is noticed.
        let epoch = control.tables().channel_epoch(channel.index);
        let now = control
            .tables()
            .channel(channel.index)
            .and_then(|now| now.core.map(|core| (now, core)));
        let Some((now, core)) = now else {
            return Err(silent(channel, "it is not running"));
        };
        let link = LinkMap::open(shared.pool(), core.region)?;
        let Some(life) = link.life() else {
            return Ok(None);
        };
        let Some(right) = Right::take_any(shared, &now, link.layout().ports())? else {
            return Ok(None);
        };
        let endpoint = core.endpoint as usize;
        let record = link
            .endpoint(endpoint)
            .filter(|found| found.direction == core.direction);
        let record = record.ok_or_else(|| silent(channel, "it has no such endpoint any more"))?;
        let flow = Flow {
            endpoint,
            port: right.port,
        };
        withdraw_abandoned(shared, &link, core, flow)?;
        let doorbell = DoorbellLine::ask(shared, core.region, life, agent_bound);
        // The agent wakes us until it is known.
        link.set_doorbell(flow, false);
        link.withdraw(flow);
        let slot_bytes = gives
            .bytes
            .map_or(record.max_bytes, |bytes| bytes.min(record.max_bytes));
        let fitting = fitting_slots(shared, core, slot_bytes);
        let share = slots_for_one(&link, core, fitting.len() as u32);
        let window = gives
            .count
            .clamp(1, link.layout().capacity() as u32 / 2)
            .min(share);
        let sleep_word = Box::new(FlowSleep(link.clone(), flow));
        let begun = Self {
            _sleep_word: SleepWordGuard::register(shared, sleep_word),
            right,
            core,
            doorbell,
            flow,
            known_rows: Vec::new(),
            references: if link.gives_payload() {
                link.layout().ports() as u32
            } else {
                1
            },
            window,
            max_bytes: record.max_bytes,
            slot_bytes,
            link,
            life,
            // Taking the right does not change it, so this attachment need not look at the binding
            // before others do something.
            epoch,
            session: 0,
            start: 0,
            queues: None,
            is_lost: false,
            is_quarantined: false,
        };
        begun.ring_core();
        Ok(Some(begun))
    }

    /// Looks for the echo, and does what comes behind it.
    fn meet(&mut self) -> Result<Meeting, NodeError> {
        if self.is_over() {
            return Ok(Meeting::Over);
        }
        let (ours, theirs) = self.link.sessions(self.flow);
        match &self.queues {
            _ if ours != self.session => Ok(Meeting::Over),
            None if theirs != self.session => Ok(Meeting::Waiting),
            // Which way rings go is part of what the session begins with.
            None if self.session == 0 && !self.doorbell.settle() => Ok(Meeting::Waiting),
            None if self.session == 0 => {
                settle::flow(
                    &self.right.shared,
                    &self.link,
                    self.core,
                    self.right.place(),
                )?;
                self.link
                    .set_doorbell(self.flow, self.doorbell.get().is_some());
                self.session = self.right.shared.pool().control().new_session();
                self.start = self.link.propose(self.flow, self.session, self.window);
                self.ring_core();
                Ok(Meeting::Waiting)
            }
            None => {
                self.queues = Some(self.open_queues());
                Ok(Meeting::Met)
            }
            Some(_) if theirs == self.session => Ok(Meeting::Met),
            Some(_) => Ok(Meeting::Over),
        }
    }

    fn open_queues(&self) -> Queues {
        let head = self.link.begin_at_start(self.flow);
        Queues {
            to_core: Outbox::begin(self.link.queue_to_core(self.flow), self.start),
            from_core: Inbox::begin(self.link.queue_from_core(self.flow), head),
        }
    }

    /// Is the session the one that both sides agreed on, and the core the one it was agreed on
    /// with?
    pub(super) fn is_current(&mut self) -> bool {
        if self.queues.is_none() {
            return false;
        }
        let (ours, theirs) = self.link.sessions(self.flow);
        let is_current = ours == self.session && theirs == self.session && !self.is_over();
        if !is_current && !std::mem::replace(&mut self.is_lost, true) {
            self.count(CoreCounter::Lost);
        }
        is_current
    }

    /// Counts at the port's row.
    pub(super) fn count(&self, counter: CoreCounter) {
        let tables = self.right.shared.pool().control().tables();
        tables.count_core(self.right.row, counter, 1);
    }

    /// Counts what the core should not have written.
    pub(super) fn note(&self, word: ViolatedWord, value: u32) {
        let tables = self.right.shared.pool().control().tables();
        tables.count_core_violations(self.right.row, 1, word.to_number(), value);
    }

    /// As [`note`](Self::note), of an entry.
    pub(super) fn note_entry(&self, entry: Entry) {
        let [place, ..] = entry.to_words();
        self.note(ViolatedWord::Entry, place);
    }

    /// A counter of the core is impossible: ends the session. What it has is taken back with the
    /// next, in which both sides begin with counters that fit.
    fn quarantine(&mut self, word: ViolatedWord, value: u32) {
        self.note(word, value);
        self.withdraw();
        self.is_quarantined = true;
    }

    /// Was the session ended because a counter of the core was impossible?
    pub(super) const fn is_quarantined(&self) -> bool {
        self.is_quarantined
    }

    /// Why the core has not echoed a session.
    fn why_no_echo(&self) -> String {
        let (ours, echo) = self.link.sessions(self.flow);
        if (ours, echo) == (0, 0) {
            return "its agent has not said yet how to ring it; is the agent stopped?".to_owned();
        }
        let control = self.right.shared.pool().control();
        let core = control.tables().member(self.core.row);
        if let Some(pid) = core.and_then(|core| stopped_process(&core.identity)) {
            return format!("its process {pid} is stopped; SIGCONT lets it go on");
        }
        if control.was_session(echo) {
            return "no echo of a new session; is a task on it holding a buffer?".to_owned();
        }
        let violation = Violation {
            word: ViolatedWord::FlowEcho,
            value: echo,
        };
        format!("no echo of a new session: {violation}")
    }

    /// The process that keeps the core from going on: one that is stopped, and to which the core
    /// publishes or sends requests.
    pub(super) fn blocked_by(&self) -> Option<NodeError> {
        let shared = &self.right.shared;
        let tables = shared.pool().control().tables();
        let from_core = tables.channels().filter(|channel| {
            let bound = channel.core.filter(|core| core.region == self.core.region);
            bound.is_some_and(|core| core.direction == Direction::FromCore)
        });
        let peers = from_core.flat_map(|channel| {
            let attached = channel.attached.into_iter().flatten();
            attached.map(move |peer| (channel.name.clone(), peer))
        });
        peers
            .filter(|(_, peer)| *peer != shared.index())
            .find_map(|(peer_channel, peer)| {
                let peer = tables.member(peer)?;
                let pid = stopped_process(&peer.identity)?;
                Some(NodeError::CoreBlocked {
                    channel: self.right.channel.name.clone(),
                    peer: format!("{} (pid {pid})", peer.name),
                    peer_channel,
                })
            })
    }

    /// Another core, another agent, or another binding.
    fn is_over(&mut self) -> bool {
        let control = self.right.shared.pool().control();
        let index = self.right.channel.index;
        let epoch = control.tables().channel_epoch(index);
        if epoch != self.epoch {
            if control.tables().channel(index).and_then(|now| now.core) != Some(self.core) {
                return true;
            }
            self.epoch = epoch;
        }
        self.link.life() != Some(self.life)
    }

    /// Entries of each of the two queues.
    pub(super) fn capacity(&self) -> u32 {
        self.link.layout().capacity() as u32
    }

    /// Messages of the core that may wait for this port, and empty slots that it gives the core.
    pub(super) const fn window(&self) -> u32 {
        self.window
    }

    /// The slots that are large enough to be given to the core empty, in the ledger.
    pub(super) fn fitting_slots(&self) -> Range<u32> {
        fitting_slots(&self.right.shared, self.core, self.slot_bytes)
    }

    /// The rows of all ports of the endpoint, as far as they have any.
    pub(super) fn rows(&self) -> Vec<MemberIndex> {
        let tables = self.right.shared.pool().control().tables();
        let ports = 0..self.link.layout().ports();
        ports
            .filter_map(|port| tables.row_of_core_port(self.core, port))
            .collect()
    }

    /// The row of the ledger that answers for what this port has given to the core.
    pub(super) const fn row(&self) -> MemberIndex {
        self.right.row
    }

    /// The endpoint, and the number of the port.
    pub(super) const fn flow(&self) -> Flow {
        self.flow
    }

    /// Moves an own reference to the core, and as many more as there are ports of an endpoint
    /// that could get it from there. On error it is still ours, and the only one.
    pub(super) fn push(
        &mut self,
        slot: LedgerSlot,
        descriptor: Descriptor,
    ) -> Result<(), NodeError> {
        self.push_with(slot, descriptor, self.references, 0)
    }

    /// Moves an own reference, of which there is no other, to the core: its reply comes back in the
    /// same slot.
    pub(super) fn push_request(
        &mut self,
        slot: LedgerSlot,
        descriptor: Descriptor,
    ) -> Result<(), NodeError> {
        self.push_with(slot, descriptor, 1, 0)
    }

    /// Moves an own reference, of which there is no other, to the core that asked: the reply to the
    /// request with this number.
    pub(super) fn push_reply(
        &mut self,
        slot: LedgerSlot,
        descriptor: Descriptor,
        number: u64,
    ) -> Result<(), NodeError> {
        self.push_with(slot, descriptor, 1, number)
    }

    fn push_with(
        &mut self,
        slot: LedgerSlot,
        descriptor: Descriptor,
        references: u32,
        tag: u64,
    ) -> Result<(), NodeError> {
        let (shared, row) = (&self.right.shared, self.right.row);
        let control = shared.pool().control();
        let Some(queues) = &mut self.queues else {
            return Err(silent(&self.right.channel, "its session is not agreed on"));
        };
        if references > 1 {
            shared.act(|member| member.duplicate(control, slot, references - 1))?;
        }
        shared.act(|member| member.give(control, row, slot, references))?;
        let entry = Entry {
            descriptor,
            account: row.0.into(),
            references,
            tag,
        };
        let pushed = queues.to_core.push(self.link.words(), entry);
        if pushed == Ok(true) {
            return Ok(());
        }
        shared.act(|member| member.reclaim(control, row, slot, references))?;
        if references > 1 {
            shared.act(|member| member.release(control, slot, references - 1))?;
        }
        if !self.is_current() {
            return Err(silent(&self.right.channel, "its session ended"));
        }
        let channel = self.right.channel.name.clone();
        let Err(value) = pushed else {
            // It gave buffers back that it had not taken.
            return Err(NodeError::CoreFull {
                channel,
                places: self.capacity(),
                waited_ms: 0,
            });
        };
        let word = ViolatedWord::Head;
        self.quarantine(word, value);
        let seen = Violation { word, value }.to_string();
        Err(NodeError::CoreViolation { channel, seen })
    }

    /// Raises events at the core, and rings it if there was any that it has not seen already.
    pub(super) fn raise(&self, events: u64) {
        if self.link.raise(self.flow, events) {
            self.ring_core();
        }
    }

    /// Takes the events that the core has raised.
    pub(super) fn take_events(&self) -> u64 {
        self.link.take_events(self.flow)
    }

    /// Has the session been agreed on? It may be over since.
    pub(super) const fn is_met(&self) -> bool {
        self.queues.is_some()
    }

    /// Entries that the core has not taken yet. `None`: no session, or none any more.
    pub(super) fn untaken(&mut self) -> Option<u32> {
        match self.queues.as_mut()?.to_core.untaken(self.link.words()) {
            Ok(untaken) => Some(untaken),
            Err(_) if !self.is_current() => None,
            Err(head) => {
                self.quarantine(ViolatedWord::Head, head);
                None
            }
        }
    }

    /// What the core pushed next, unchecked; it stays in the queue until [`Attachment::advance`].
    /// `None`: nothing, or a session that is over.
    pub(super) fn peek(&mut self) -> Option<Entry> {
        let queues = self.queues.as_ref()?;
        let found = queues.from_core.peek(self.link.words());
        // What was read under a session that is over proves nothing.
        match found {
            Ok(entry) => entry.filter(|_| self.is_current()),
            Err(_) if !self.is_current() => None,
            Err(tail) => {
                self.quarantine(ViolatedWord::Tail, tail);
                None
            }
        }
    }

    /// Removes what [`Attachment::peek`] showed. Call when the ledger knows where the reference is
    /// now: whoever finds the entry after our death then finds nothing to do for it.
    pub(super) fn advance(&mut self) {
        if let Some(queues) = &mut self.queues {
            queues.from_core.advance(self.link.words());
        }
    }

    /// Moves what an entry stands for out of the row of this core that it names, and keeps one
    /// reference. `None`: the core did not hold it.
    pub(super) fn reclaim(&mut self, entry: Entry) -> Result<Option<Taken>, NodeError> {
        let row = u8::try_from(entry.account).ok().map(MemberIndex);
        let Some(row) = row.filter(|row| self.is_row_of_core(*row)) else {
            return Ok(None);
        };
        settle::reclaim(&self.right.shared, self.core, row, entry)
    }

    fn is_row_of_core(&mut self, row: MemberIndex) -> bool {
        if row == self.right.row || self.known_rows.contains(&row) {
            return true;
        }
        let found = settle::is_row_of_core(&self.right.shared, self.core, row);
        if found {
            self.known_rows.push(row);
        }
        found
    }

    pub(super) fn ring_core(&self) {
        ring_core(&self.right, &self.link, self.core, self.doorbell.get());
    }

    /// Ends the session, without waiting for the core to know.
    pub(super) fn withdraw(&mut self) {
        self.queues = None;
        self.link.withdraw(self.flow);
        self.ring_core();
    }

    /// Ends the session and takes back what the core lets go of within the bound. What it does not
    /// is taken back at the next session, or by the agent.
    pub(super) fn end_session(&mut self, bound: Duration) -> Result<(), NodeError> {
        if !self.is_current() {
            return Ok(());
        }
        self.queues = None;
        let doorbell = self.doorbell.get();
        end_session(&self.link, self.core, (&self.right, doorbell), bound)?;
        Ok(())
    }
}

/// Writes session 0 and waits for its echo; then settles. True: all is settled.
pub(super) fn end_session(
    link: &LinkMap,
    core: CoreBinding,
    (right, doorbell): (&Right, Option<&Doorbell>),
    bound: Duration,
) -> Result<bool, NodeError> {
    let (shared, flow) = (&right.shared, right.flow(core));
    let life = link.life();
    if life.is_none() {
        return Ok(false);
    }
    link.withdraw(flow);
    ring_core(right, link, core, doorbell);
    let plan = WaitPlan::for_processes().at_most(ECHO_NAP);
    let echoed = shared.wait_for(plan, bound, || {
        let echoed = link.sessions(flow).1 == 0;
        Ok((echoed || link.life() != life).then_some(echoed))
    })?;
    let let_go = echoed == Some(true) && link.life() == life;
    if let_go {
        settle::flow(shared, link, core, right.place())?;
    }
    Ok(let_go)
}

/// The slots of a core's region that take a payload of so many bytes. Classes stand in the order of
/// their sizes, so these follow each other.
fn fitting_slots(shared: &Arc<Participant>, core: CoreBinding, bytes: u32) -> Range<u32> {
    let Some(region) = shared.pool().region(core.region) else {
        return 0..0;
    };
    let classes = region.classes.iter();
    let mut fitting = classes.filter(|class| class.payload_bytes() >= bytes as usize);
    let first = fitting.next().map_or(region.slots, |class| class.first);
    region.ledger_base + first..region.ledger_base + region.slots
}

/// Slots that one port of an endpoint may have at the core: half of those that are large enough
/// stay with Linux, since without them nobody could send to the core; the rest is for all ports.
fn slots_for_one(link: &LinkMap, core: CoreBinding, fitting: u32) -> u32 {
    let open = link.flows(core.endpoint as usize);
    let ports = open.filter(|flow| link.sessions(*flow).0 != 0).count() as u32 + 1;
    (fitting / 2 / ports).max(1)
}

/// Ends the sessions that dead ports left open at other flows of the core, so that nothing of
/// theirs is forwarded to us: the core sees these ends before it sees our session.
fn withdraw_abandoned(
    shared: &Arc<Participant>,
    link: &LinkMap,
    core: CoreBinding,
    own: Flow,
) -> Result<(), NodeError> {
    let channels = shared.pool().control().tables().channels();
    let of_core = channels.filter_map(|channel| {
        let bound = channel.core.filter(|bound| bound.region == core.region)?;
        Some((channel, bound.endpoint as usize))
    });
    for (channel, endpoint) in of_core.collect::<Vec<_>>() {
        for flow in link.flows(endpoint) {
            let is_open = flow != own && link.sessions(flow).0 != 0;
            if !is_open || channel.attached[flow.port].is_some() {
                continue;
            }
            match Right::take_port(shared, &channel, flow.port) {
                Ok(Some(_right)) => link.withdraw(flow),
                Ok(None) | Err(NodeError::EndpointTaken { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn ring_core(right: &Right, link: &LinkMap, core: CoreBinding, doorbell: Option<&Doorbell>) {
    match (link.note_ring(), doorbell) {
        (false, _) => {}
        (true, Some(doorbell)) => doorbell.ring(),
        (true, None) => hop::wake(right.shared.pool(), core.agent),
    }
}
