//! Being attached to one endpoint of a core: the handshake, and the two queues.
//!
//! An attachment clears first: whatever session an earlier port left open is ended, and once the
//! core has echoed that, what it left is taken back (only then: under a new session the core would
//! write over it). Then it proposes a session, and when that is echoed both sides use the queues.
//! It is over when the core, its agent, or the binding of the channel is another. None of the steps
//! waits; [`attach`] is the loop around them. While an attachment exists, no row of its core is
//! recovered.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::Descriptor;
use hythe_abi::link::flow_line;
use hythe_pool::{ChannelInfo, CoreBinding, LedgerSlot, MemberIndex, PoolError, Taken};
use hythe_queue::{Consumer, Producer, RingPlaces};

use super::map::{Life, LinkMap};
use super::settle;
use hythe_node::NodeError;
use hythe_node::hop::{self, HopPool as _, Participant, WaitPlan};

/// How long a core may take to answer a new session: its tasks must first let go of what they hold.
pub(super) const ECHO_BOUND: Duration = Duration::from_secs(5);
/// How often an echo is looked for without being rung for.
pub(super) const ECHO_NAP: Duration = Duration::from_millis(2);

/// The right to use one endpoint, under one session.
#[derive(Debug)]
pub(super) struct Attachment {
    right: Right,
    pub(super) core: CoreBinding,
    pub(super) max_bytes: u32,
    pub(super) link: LinkMap,
    life: Life,
    epoch: u32,
    /// 0 while clearing.
    session: u32,
    /// The own tail at which the session starts.
    start: u32,
    queues: Option<Queues>,
}

#[derive(Debug)]
struct Queues {
    to_core: Producer,
    from_core: Consumer,
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
    bound: Duration,
) -> Result<(), NodeError> {
    let plan = WaitPlan::for_processes().at_most(ECHO_NAP);
    let met = shared.wait_for(plan, bound, || {
        Ok(step(shared, channel, attachment)?.then_some(()))
    })?;
    if met.is_some() {
        return Ok(());
    }
    let reason = match attachment.take() {
        Some(_) => "no echo of a new session; is a task on it holding a buffer?",
        None => "its link is down",
    };
    Err(silent(channel, reason))
}

/// One step towards being attached, without waiting. True: attached.
///
/// # Errors
/// [`NodeError::CoreSilent`] if no core is behind the channel; [`NodeError::EndpointTaken`].
pub(super) fn step(
    shared: &Arc<Participant>,
    channel: &ChannelInfo,
    attachment: &mut Option<Attachment>,
) -> Result<bool, NodeError> {
    if attachment.is_none() {
        *attachment = Attachment::begin(shared, channel)?;
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
    /// Takes the endpoint and ends the session it finds. `None`: not at this moment.
    fn begin(shared: &Arc<Participant>, channel: &ChannelInfo) -> Result<Option<Self>, NodeError> {
        let control = shared.pool().control();
        // Before the look at the binding: a change behind it is noticed.
        let epoch = control.tables().channel_epoch(channel.index);
        let now = control
            .tables()
            .channel(channel.index)
            .and_then(|now| now.core.map(|core| (now, core)));
        let Some((now, core)) = now else {
            return Err(silent(channel, "it is not running (`hythe core status`)"));
        };
        let Some(right) = Right::take(shared, &now)? else {
            return Ok(None);
        };
        let link = LinkMap::open(shared.pool(), core.region)?;
        let Some(life) = link.life() else {
            return Ok(None);
        };
        let endpoint = core.endpoint as usize;
        let record = link
            .endpoint(endpoint)
            .filter(|found| found.direction == core.direction);
        let record = record.ok_or_else(|| silent(channel, "it has no such endpoint any more"))?;
        withdraw_abandoned(shared, &link, core)?;
        link.withdraw(endpoint);
        let begun = Self {
            right,
            core,
            max_bytes: record.max_bytes,
            link,
            life,
            // Taking the right does not change it, so this attachment need not look at the binding
            // before others do something.
            epoch,
            session: 0,
            start: 0,
            queues: None,
        };
        begun.ring_core();
        Ok(Some(begun))
    }

    /// Looks for the echo, and does what comes behind it.
    fn meet(&mut self) -> Result<Meeting, NodeError> {
        if self.is_over() {
            return Ok(Meeting::Over);
        }
        let endpoint = self.core.endpoint as usize;
        let (ours, theirs) = self.link.endpoint_sessions(endpoint);
        match &self.queues {
            _ if ours != self.session => Ok(Meeting::Over),
            None if theirs != self.session => Ok(Meeting::Waiting),
            None if self.session == 0 => {
                settle::endpoint(&self.right.shared, &self.link, self.core)?;
                self.session = self.right.shared.pool().control().new_session();
                self.start = self.link.propose(endpoint, self.session);
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
        let endpoint = self.core.endpoint as usize;
        let head = self.link.begin_at_start(endpoint);
        let layout = self.link.layout();
        let (ours, theirs) = (layout.linux_flow(endpoint), layout.core_flow(endpoint));
        let capacity = self.capacity();
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
        Queues {
            to_core: Producer::resume(to_core, self.start, self.start),
            from_core: Consumer::resume(from_core, head),
        }
    }

    /// Is the session the one that both sides agreed on, and the core the one it was agreed on
    /// with?
    pub(super) fn is_current(&mut self) -> bool {
        let (ours, theirs) = self.link.endpoint_sessions(self.core.endpoint as usize);
        self.queues.is_some() && ours == self.session && theirs == self.session && !self.is_over()
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

    /// Queue descriptors in each direction.
    pub(super) fn capacity(&self) -> u32 {
        self.link.layout().capacity() as u32
    }

    /// Moves an own reference to the core. On error it is still ours.
    pub(super) fn push(
        &mut self,
        slot: LedgerSlot,
        descriptor: Descriptor,
    ) -> Result<(), NodeError> {
        let (shared, row) = (&self.right.shared, self.core.row);
        let control = shared.pool().control();
        let Some(queues) = &mut self.queues else {
            return Err(silent(&self.right.channel, "its session is not agreed on"));
        };
        shared.act(|member| member.give(control, row, slot))?;
        if queues.to_core.push(self.link.memory(), descriptor).is_ok() {
            return Ok(());
        }
        shared.act(|member| member.reclaim(control, row, slot))?;
        let reason =
            "its queue counters make no sense; the endpoint is closed until the next session";
        Err(silent(&self.right.channel, reason))
    }

    /// What the core pushed next, unchecked; it stays in the queue until [`Attachment::advance`].
    /// `None`: nothing, or a session that is over.
    pub(super) fn peek(&mut self) -> Option<Descriptor> {
        let queues = self.queues.as_mut()?;
        let descriptor = queues.from_core.peek(self.link.memory()).ok().flatten()?;
        self.is_current().then_some(descriptor)
    }

    /// Removes what [`Attachment::peek`] showed. Call when the ledger knows where the reference is
    /// now: whoever finds the entry after our death then finds nothing to do for it.
    pub(super) fn advance(&mut self) {
        if let Some(queues) = &mut self.queues {
            queues.from_core.advance(self.link.memory());
        }
    }

    /// Moves a reference that came back out of a row of this core. `None`: the core did not hold
    /// it.
    pub(super) fn reclaim(
        &self,
        row: MemberIndex,
        descriptor: Descriptor,
    ) -> Result<Option<Taken>, NodeError> {
        settle::reclaim(&self.right.shared, self.core, row, descriptor)
    }

    pub(super) fn ring_core(&self) {
        ring_core(&self.right.shared, &self.link, self.core);
    }

    /// Ends the session, without waiting for the core to know.
    pub(super) fn withdraw(&mut self) {
        self.queues = None;
        self.link.withdraw(self.core.endpoint as usize);
        self.ring_core();
    }

    /// Ends the session and takes back what the core lets go of within the bound. What it does not
    /// is taken back at the next session, or by the agent.
    pub(super) fn end_session(&mut self, bound: Duration) -> Result<(), NodeError> {
        if !self.is_current() {
            return Ok(());
        }
        self.queues = None;
        end_session(&self.right.shared, &self.link, self.core, bound)?;
        Ok(())
    }
}

/// Writes session 0 and waits for its echo; then settles. True: all is settled.
pub(super) fn end_session(
    shared: &Arc<Participant>,
    link: &LinkMap,
    core: CoreBinding,
    bound: Duration,
) -> Result<bool, NodeError> {
    let endpoint = core.endpoint as usize;
    let life = link.life();
    if life.is_none() {
        return Ok(false);
    }
    link.withdraw(endpoint);
    ring_core(shared, link, core);
    let plan = WaitPlan::for_processes().at_most(ECHO_NAP);
    let echoed = shared.wait_for(plan, bound, || {
        let echoed = link.endpoint_sessions(endpoint).1 == 0;
        Ok((echoed || link.life() != life).then_some(echoed))
    })?;
    let let_go = echoed == Some(true) && link.life() == life;
    if let_go {
        settle::endpoint(shared, link, core)?;
    }
    Ok(let_go)
}

/// Ends the sessions that dead ports left open at other endpoints of the core, so that nothing of
/// theirs is forwarded to us: the core sees these ends before it sees our session.
fn withdraw_abandoned(
    shared: &Arc<Participant>,
    link: &LinkMap,
    core: CoreBinding,
) -> Result<(), NodeError> {
    let channels = shared.pool().control().tables().channels();
    let others = channels.filter(|other| {
        let bound = other
            .core
            .filter(|bound| bound.region == core.region && *bound != core);
        bound.is_some_and(|bound| link.endpoint_sessions(bound.endpoint as usize).0 != 0)
    });
    for other in others
        .filter(|other| other.attached.is_none())
        .collect::<Vec<_>>()
    {
        match Right::take(shared, &other) {
            Ok(Some(_right)) => link.withdraw(other.core.map_or(0, |core| core.endpoint as usize)),
            Ok(None) | Err(NodeError::EndpointTaken { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn ring_core(shared: &Arc<Participant>, link: &LinkMap, core: CoreBinding) {
    if link.note_ring() {
        hop::wake(shared.pool(), core.agent);
    }
}

/// Being the one participant at an endpoint, until dropped.
#[derive(Debug)]
pub(super) struct Right {
    pub(super) shared: Arc<Participant>,
    channel: ChannelInfo,
}

impl Right {
    /// `None`: the core behind the channel has just changed, or its agent is taking back what the
    /// last one left there: in a moment it will be free.
    pub(super) fn take(
        shared: &Arc<Participant>,
        channel: &ChannelInfo,
    ) -> Result<Option<Self>, NodeError> {
        let control = shared.pool().control();
        match shared.act(|member| member.attach_core(control, channel)) {
            Ok(()) => Ok(Some(Self {
                shared: Arc::clone(shared),
                channel: channel.clone(),
            })),
            Err(PoolError::Busy(_)) => Ok(None),
            Err(PoolError::EndpointTaken { holder, .. }) => {
                let agent = channel.core.map(|core| core.agent.0);
                if agent == Some(holder) && shared.index().0 != holder {
                    return Ok(None);
                }
                let holder = control.tables().member(MemberIndex(holder)).map_or_else(
                    || "a participant that has just left".to_owned(),
                    |member| format!("{} (pid {})", member.name, member.identity.pid),
                );
                let channel = channel.name.clone();
                Err(NodeError::EndpointTaken { channel, holder })
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        if self.shared.is_a_copy() {
            return;
        }
        let control = self.shared.pool().control();
        self.shared
            .act(|member| member.detach_core(control, self.channel.index));
    }
}
