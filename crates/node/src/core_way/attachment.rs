//! Being attached to one endpoint of a core: the handshake, and the two queues.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::Descriptor;
use hythe_abi::link::{Direction, flow_line};
use hythe_memory::{Memory, Ordering};
use hythe_pool::{ChannelInfo, CoreBinding, LedgerSlot, MemberIndex, PoolError, RegionKind};
use hythe_queue::{Consumer, Producer, RingPlaces};

use super::link_map::LinkMap;
use crate::NodeError;
use crate::node::Shared;
use crate::wait::{WaitPlan, ring, wait_for};

/// How long a core may take to answer a new session: its tasks must first let go of what they hold.
const ECHO_BOUND: Duration = Duration::from_secs(5);
/// How long it may take to let go when we leave.
const DETACH_BOUND: Duration = Duration::from_millis(500);

/// The right to use one endpoint, under one session.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) shared: Arc<Shared>,
    pub(super) channel: ChannelInfo,
    pub(super) core: CoreBinding,
    pub(super) link: LinkMap,
    pub(super) to_core: Producer,
    pub(super) from_core: Consumer,
    pub(super) max_bytes: u32,
    session: u32,
}

impl Attachment {
    /// Attaches: the only one, with empty queues and an empty row.
    pub(super) fn new(
        shared: &Arc<Shared>,
        channel: &ChannelInfo,
        core: CoreBinding,
    ) -> Result<Self, NodeError> {
        let control = shared.pool().control();
        shared.act(|member| member.attach_core(control, channel))?;
        let attached = Self::meet(shared, channel, core);
        if attached.is_err() {
            shared.act(|member| member.detach_core(control, channel.index));
        }
        attached
    }

    fn meet(
        shared: &Arc<Shared>,
        channel: &ChannelInfo,
        core: CoreBinding,
    ) -> Result<Self, NodeError> {
        let silent = |reason: &str| NodeError::CoreSilent {
            channel: channel.name.clone(),
            reason: reason.to_owned(),
        };
        let link = LinkMap::open(shared.pool(), core.region)?;
        if !link.status().is_up() {
            return Err(silent("its link is down"));
        }
        let endpoint = core.endpoint as usize;
        let record = link.endpoint(endpoint).filter(|record| record.direction == core.direction);
        let record = record.ok_or_else(|| silent("it has no such endpoint any more"))?;
        let session = shared.pool().control().new_session();
        let (memory, layout) = (link.memory(), link.layout());
        let (ours, theirs) = (layout.linux_flow(endpoint), layout.core_flow(endpoint));
        let tail = memory.load(ours + flow_line::TAIL, Ordering::Relaxed);
        memory.store(ours + flow_line::START, tail, Ordering::Relaxed);
        memory.store(ours + flow_line::SESSION, session, Ordering::Release);
        ring_core(shared, &link, core);
        await_echo(shared, &link, endpoint, session, ECHO_BOUND)?
            .then_some(())
            .ok_or_else(|| silent("no echo of a new session; is a task on it holding a buffer?"))?;
        let start = memory.load(theirs + flow_line::START, Ordering::Relaxed);
        memory.store(ours + flow_line::HEAD, start, Ordering::Release);
        let capacity = layout.capacity() as u32;
        let to_core = RingPlaces {
            tail: ours + flow_line::TAIL,
            head: theirs + flow_line::HEAD,
            entries: layout.linux_entries(endpoint),
            capacity,
        };
        let from_core = RingPlaces {
            tail: theirs + flow_line::TAIL,
            head: ours + flow_line::HEAD,
            entries: layout.core_entries(endpoint),
            capacity,
        };
        // After the echo the core holds nothing of earlier sessions.
        empty_row(shared, core)?;
        Ok(Self {
            shared: Arc::clone(shared),
            channel: channel.clone(),
            core,
            to_core: Producer::resume(to_core, tail, tail),
            from_core: Consumer::resume(from_core, start),
            max_bytes: record.max_bytes,
            session,
            link,
        })
    }

    /// Is the session still the one both sides agreed on?
    pub(super) fn is_current(&self) -> bool {
        let (ours, theirs) = self.link.endpoint_sessions(self.core.endpoint as usize);
        ours == self.session && theirs == self.session
    }

    /// The core behind the channel as the pool knows it now.
    pub(super) fn binding(&self) -> Option<CoreBinding> {
        self.shared.pool().control().channel(self.channel.index)?.core
    }

    /// Attaches again after the core, or its agent, was started anew.
    pub(super) fn again(&self) -> Result<Self, NodeError> {
        let core = self.binding().ok_or_else(|| NodeError::CoreSilent {
            channel: self.channel.name.clone(),
            reason: "it is not running (`hythe core status`)".to_owned(),
        })?;
        Self::new(&self.shared, &self.channel, core)
    }

    /// Queue descriptors in each direction.
    pub(super) fn capacity(&self) -> u32 {
        self.link.layout().capacity() as u32
    }

    /// Moves an own reference to the core. On error it is still ours.
    pub(super) fn push(&mut self, slot: LedgerSlot, descriptor: Descriptor) -> Result<(), NodeError> {
        let (shared, control) = (&self.shared, self.shared.pool().control());
        let row = self.core.row;
        shared.act(|member| member.give(control, row, slot))?;
        if self.to_core.push(self.link.memory(), descriptor).is_ok() {
            return Ok(());
        }
        shared.act(|member| member.reclaim(control, row, slot))?;
        Err(NodeError::CoreSilent {
            channel: self.channel.name.clone(),
            reason: "its queue counters make no sense; the endpoint is closed until the next session".to_owned(),
        })
    }

    /// Takes what the core pushed, unchecked. `None`: nothing, or a session that is over.
    pub(super) fn pull(&mut self) -> Option<Descriptor> {
        let descriptor = self.from_core.peek(self.link.memory()).ok().flatten()?;
        if !self.is_current() {
            return None;
        }
        self.from_core.advance(self.link.memory());
        Some(descriptor)
    }

    /// Moves a reference that came back out of a row of this core. `None`: the core did not hold it.
    pub(super) fn reclaim(
        &self,
        row: MemberIndex,
        descriptor: Descriptor,
    ) -> Result<Option<LedgerSlot>, NodeError> {
        let pool = self.shared.pool();
        let Ok(slot) = pool.control().check_descriptor(pool.regions(), descriptor) else {
            return Ok(None);
        };
        if descriptor.place.region != self.core.region {
            return Ok(None);
        }
        let ours = self.shared.act(|member| member.reclaim(pool.control(), row, slot))?;
        Ok(ours.then_some(slot))
    }

    pub(super) fn ring_core(&self) {
        ring_core(&self.shared, &self.link, self.core);
    }

    /// Rows of the same core's endpoints that take payload: what came in there may be handed on out of here.
    pub(super) fn rows_to_core(&self) -> Vec<MemberIndex> {
        let bindings = self.shared.pool().control().channels().filter_map(|channel| channel.core);
        bindings
            .filter(|core| core.region == self.core.region && core.direction == Direction::ToCore)
            .map(|core| core.row)
            .collect()
    }

    /// Ends the session and takes back what the core lets go of. What it does not is taken back at the next session.
    pub(super) fn end_session(&self) -> Result<(), NodeError> {
        let endpoint = self.core.endpoint as usize;
        let ours = self.link.layout().linux_flow(endpoint);
        self.link.memory().store(ours + flow_line::SESSION, 0, Ordering::Release);
        self.ring_core();
        if await_echo(&self.shared, &self.link, endpoint, 0, DETACH_BOUND)? {
            empty_row(&self.shared, self.core)?;
        }
        Ok(())
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let control = self.shared.pool().control();
        self.shared.act(|member| member.detach_core(control, self.channel.index));
    }
}

fn ring_core(shared: &Arc<Shared>, link: &LinkMap, core: CoreBinding) {
    if link.note_ring() {
        ring(shared.pool().control(), core.agent);
    }
}

fn await_echo(
    shared: &Arc<Shared>,
    link: &LinkMap,
    endpoint: usize,
    session: u32,
    bound: Duration,
) -> Result<bool, NodeError> {
    let plan = WaitPlan { nap: Duration::from_millis(2), ..WaitPlan::for_core() };
    let echoed = wait_for(shared.pool().control(), shared.index(), plan, bound, || {
        Ok((link.endpoint_sessions(endpoint).1 == session).then_some(()))
    })?;
    Ok(echoed.is_some())
}

/// Takes back everything that the row of an endpoint answers for.
fn empty_row(shared: &Arc<Shared>, core: CoreBinding) -> Result<(), NodeError> {
    let pool = shared.pool();
    let Some(region) = pool.regions().region(core.region) else { return Ok(()) };
    debug_assert!(region.kind == RegionKind::Core, "rows of endpoints hold slots of a core's region");
    let slots = region.ledger_base..region.ledger_base + region.slots;
    shared.act(|member| -> Result<(), PoolError> {
        for slot in slots.map(LedgerSlot) {
            while hythe_pool::Member::row_holds(pool.control(), core.row, slot) > 0 {
                if member.reclaim(pool.control(), core.row, slot)? {
                    member.release(pool.control(), slot, 1)?;
                }
            }
        }
        Ok(())
    })?;
    Ok(())
}
