//! Flows of publishers of this host.
//!
//! A process asks, opens a socket, and is offered to the other host; there a subscriber's process
//! opens another. The publisher leaves the agent's port then, and waits with the first message of
//! the flow until all that it sent before has arrived.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_flows::message::{Agreed, FramesUse, FromAgent, PublicKey, Role, Transport, Window};
use hythe_node::hop::HopPool as _;
use hythe_node::{PortIndex, PortKind};
use hythe_pool::PortInfo;

use super::alone::{self, Alone};
use super::carried::{Carriage, Carried};
use super::processes::{Ask, ProcessId, Processes};
use super::{FLOWS_MAX, FlowSession, Pause, Places, ReadySocket, SETTLING, next};
use crate::agent::random::random;
use crate::error::ClusterError;
use crate::frame::{CarriedType, Control, FlowOffer, FlowSide, FlowTaken};
use crate::status::Direction;

/// What came to nothing is tried again after so long.
const RETRY: Duration = Duration::from_secs(1);

/// All of them, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Sending {
    flows: BTreeMap<u32, Flow>,
    ending: BTreeMap<u32, Ending>,
    /// Why there is no flow of a session on a channel, where the host has its share of them.
    without_place: BTreeMap<(u64, String), String>,
}

/// A flow that is over, until both of its ends have said so: a publisher that sent by the agent's
/// port sooner would overtake what its subscriber has not taken from the flow.
#[derive(Debug)]
struct Ending {
    session: Arc<dyn FlowSession>,
    channel: String,
    process: ProcessId,
    ask: Ask,
    since: Instant,
    waits_for_process: bool,
    waits_for_there: bool,
}

/// One.
#[derive(Debug)]
pub(super) struct Flow {
    session: Arc<dyn FlowSession>,
    pub(super) channel: String,
    process: ProcessId,
    ask: Ask,
    step: Step,
    transport: Transport,
    /// Of its process, if it is sealed.
    key: Option<PublicKey>,
    /// It ends for another, by the transport that the link has now.
    is_replaced: bool,
    word: u64,
    /// What it waits for.
    reason: String,
    carried: Carried,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The process opens a socket.
    Opening,
    /// The other host has been offered it.
    Offered,
    /// The process sends by the agent's port until it finds the flow.
    Begun,
    /// It has left that port, and waits until what went there has arrived.
    Left(Instant),
    /// It sends.
    Going,
}

impl Step {
    const fn has_begun(self) -> bool {
        !matches!(self, Self::Opening | Self::Offered)
    }
}

impl Flow {
    /// Has it had a connection? Then no firewall is in the way: its peer has left, or the network
    /// has broken, and nothing speaks against another.
    fn has_connected(&self) -> bool {
        matches!(self.step, Step::Left(_) | Step::Going)
    }

    pub(super) fn is_of(&self, session: &dyn FlowSession) -> bool {
        self.session.number() == session.number()
    }
}

impl Sending {
    /// Begins what processes ask for and can be, and ends what may not be any more.
    pub(super) fn update(
        &mut self,
        processes: &mut Processes,
        session: &Arc<dyn FlowSession>,
        (alone, places): (&Alone, &mut Places),
        last: &mut u32,
    ) {
        let now = Instant::now();
        self.end_late(processes, &**session, now);
        let is_late = |ending: &Ending| now.saturating_duration_since(ending.since) > SETTLING;
        self.let_return(processes, |ending| {
            ending.is_of(&**session) && is_late(ending)
        });
        let is_refused =
            |flow: &Flow| flow.is_of(&**session) && session.may_send(&flow.channel).is_err();
        self.end_all(processes, "it is not permitted any more", is_refused);
        let link = session.link();
        for transport in [Transport::Tls, Transport::Tcp] {
            if let Err(why) = link.path_for(transport) {
                let has_no_way =
                    |flow: &Flow| flow.is_of(&**session) && flow.transport == transport;
                self.end_all(processes, &why, has_no_way);
            }
        }
        self.carry(processes, &**session);
        self.replace(processes, &**session);
        if session.why_no_flows().is_some() {
            return;
        }
        let number = session.number();
        self.without_place.retain(|(of, _), _| *of != number);
        for (process, ask) in processes.asks(now) {
            let is_known = |flow: &Flow| flow.process == process && flow.ask == ask;
            if self.of_session(&**session).count() >= FLOWS_MAX {
                return;
            }
            // Another flow would overtake what is left of that, as the agent's port would.
            let is_waiting = |ending: &Ending| {
                ending.waits_for_there && ending.process == process && ending.ask == ask
            };
            if !self.flows.values().any(is_known)
                && !self.ending.values().any(is_waiting)
                && !alone.has(process, ask, session.host())
                && let Some(publisher) = eligible(processes, &**session, process, ask)
            {
                if let Err(reason) = places.take() {
                    let channel = (number, publisher.channel);
                    self.without_place.insert(channel, reason);
                    continue;
                }
                self.begin(processes, session, (process, ask), &publisher, next(last));
            }
        }
    }

    /// Ends those whose publishers wait too long for what they sent before.
    fn end_late(&mut self, processes: &mut Processes, session: &dyn FlowSession, now: Instant) {
        const LATE: &str = "what its publisher sent before has not arrived";
        let is_late = |flow: &Flow| {
            let since = match flow.step {
                Step::Left(since) => since,
                _ => return false,
            };
            flow.is_of(session) && now.saturating_duration_since(since) > SETTLING
        };
        if self.flows.values().any(is_late) {
            session.note_end_of_flow(&|pause| pause.failed(LATE));
            self.end_all(processes, LATE, is_late);
        }
    }

    /// Tells processes where another program serves the interface of their flows.
    fn carry(&mut self, processes: &Processes, session: &dyn FlowSession) {
        let flows = self.flows.iter_mut();
        for (&number, flow) in flows.filter(|(_, flow)| flow.is_of(session)) {
            if let Some(carry) = flow.carried.carry(number, session.link()) {
                processes.tell(flow.process, &carry);
            }
        }
    }

    /// Finishes flows by a transport that the link has no more: others begin then.
    fn replace(&mut self, processes: &Processes, session: &dyn FlowSession) {
        let transport = session.link().transport();
        let going = self.flows.iter_mut();
        let going = going.filter(|(_, flow)| flow.is_of(session) && flow.step == Step::Going);
        for (&number, flow) in going.filter(|(_, flow)| flow.transport != transport) {
            if !std::mem::replace(&mut flow.is_replaced, true) {
                processes.tell(flow.process, &FromAgent::Finish { flow: number });
            }
        }
    }

    fn of_session(&self, session: &dyn FlowSession) -> impl Iterator<Item = &Flow> {
        let number = session.number();
        let flows = self.flows.values();
        flows.filter(move |flow| flow.session.number() == number)
    }

    fn begin(
        &mut self,
        processes: &mut Processes,
        session: &Arc<dyn FlowSession>,
        (process, ask): (ProcessId, Ask),
        publisher: &Publisher,
        number: u32,
    ) {
        let link = session.link();
        let transport = link.transport();
        let prepared = link.path_for(transport).and_then(|path| {
            let word = random().map_err(|error| error.to_string())?;
            Ok((path, word))
        });
        let (path, word) = match prepared {
            Ok(prepared) => prepared,
            Err(reason) => {
                tracing::debug!(reason, "no flow");
                return processes.retry(process, ask, Instant::now() + RETRY);
            }
        };
        let mut flow = Flow {
            session: Arc::clone(session),
            channel: publisher.channel.clone(),
            process,
            ask,
            step: Step::Opening,
            transport,
            key: None,
            is_replaced: false,
            word,
            reason: "its publisher opens a socket".to_owned(),
            carried: Carried::of(transport, link),
        };
        let open = FromAgent::Open {
            flow: number,
            role: Role::Send {
                port: ask.port,
                host_port: ask.host_port,
            },
            transport,
            address: path.local,
            interface: link.interface_for(transport),
            has_frames: flow.carried.has_frames(),
        };
        processes.tell(process, &open);
        if let Some(carry) = flow.carried.carry(number, link) {
            processes.tell(process, &carry);
        }
        self.flows.insert(number, flow);
    }

    /// A process has opened its socket: the other host is offered the flow.
    pub(super) fn ready(
        &mut self,
        processes: &mut Processes,
        (process, number): (ProcessId, u32),
        socket: ReadySocket,
    ) {
        let Some(flow) = self.of_process(process, number) else {
            return;
        };
        if flow.step != Step::Opening {
            return;
        }
        let publisher = eligible(processes, &*flow.session, process, flow.ask);
        let Some(publisher) = publisher.filter(|found| found.channel == flow.channel) else {
            return self.end(processes, number, "its publisher has closed", false);
        };
        if (flow.transport == Transport::Tls) != socket.key.is_some() {
            return self.end(
                processes,
                number,
                "its publisher's process made no key",
                false,
            );
        }
        flow.step = Step::Offered;
        flow.key = socket.key;
        "the other host has not answered".clone_into(&mut flow.reason);
        flow.session.say(Control::FlowOffer(FlowOffer {
            flow: number,
            channel: publisher.channel,
            carries: publisher.carries,
            transport: flow.transport,
            port: socket.port,
            word: flow.word,
            key: socket.key,
            frame_port: flow.carried.frame_port(socket.frame_port),
        }));
    }

    /// The other host has no subscriber for it yet.
    pub(super) fn waits(&mut self, session: &dyn FlowSession, number: u32, reason: String) {
        let flow = self.flows.get_mut(&number);
        if let Some(flow) = flow.filter(|flow| flow.is_of(session)) {
            flow.reason = reason;
        }
    }

    /// The other host has one.
    pub(super) fn taken(
        &mut self,
        processes: &mut Processes,
        session: &dyn FlowSession,
        taken: &FlowTaken,
    ) -> Result<(), ClusterError> {
        let flow = self.flows.get_mut(&taken.flow);
        let Some(flow) = flow.filter(|flow| flow.is_of(session)) else {
            // It has ended here meanwhile.
            return Ok(());
        };
        let is_as_offered = taken.key.is_some() == flow.key.is_some()
            && (flow.transport == Transport::Tcp || taken.frame_port == 0);
        if flow.step != Step::Offered || !is_as_offered {
            let what = format!("flow {} is taken as it was not offered", taken.flow);
            return Err(ClusterError::Unexpected(what));
        }
        let Ok(path) = session.link().path_for(flow.transport) else {
            return Ok(());
        };
        flow.step = Step::Begun;
        flow.reason.clear();
        let window = session.own_window();
        let begin = FromAgent::Begin {
            flow: taken.flow,
            peer: (path.peer, taken.port).into(),
            frame_port: flow.carried.frame_port(taken.frame_port),
            key: taken.key,
            agreed: Agreed {
                word: flow.word,
                number: taken.flow,
                window: Window {
                    messages: taken.window_messages,
                    // No host holds more of this pool than it would grant, whatever is granted.
                    bytes: taken.window_bytes.min(window).max(taken.message_bytes_max),
                },
                message_bytes_max: taken.message_bytes_max,
                unreachable_ns: session.lease_ns(),
                block_ms: taken.block_ms,
            },
        };
        processes.tell(flow.process, &begin);
        Ok(())
    }

    /// What carries it from now on.
    pub(super) fn carried(
        &mut self,
        (process, number): (ProcessId, u32),
        frames: Option<FramesUse>,
        reason: &str,
    ) {
        if let Some(flow) = self.of_process(process, number) {
            flow.carried.use_frames(frames, reason);
        }
    }

    /// The publisher has left the agent's port.
    pub(super) fn left(&mut self, processes: &mut Processes, (process, number): (ProcessId, u32)) {
        let Some(flow) = self.of_process(process, number) else {
            return;
        };
        if flow.step != Step::Begun {
            return;
        }
        flow.step = Step::Left(Instant::now());
        let port = PortIndex(flow.ask.port);
        if !flow.session.has_left(&flow.channel, port, number) {
            self.end(processes, number, "its stream is over", true);
        }
    }

    /// What it sent by the agent's port has arrived.
    pub(super) fn arrived(&mut self, processes: &mut Processes, number: u32) {
        let flow = self.flows.get_mut(&number);
        if let Some(flow) = flow.filter(|flow| matches!(flow.step, Step::Left(_))) {
            flow.step = Step::Going;
            processes.tell(flow.process, &FromAgent::Go { flow: number });
        }
    }

    /// The other host has more receivers than the flow's.
    pub(super) fn finish(
        &mut self,
        processes: &mut Processes,
        session: &dyn FlowSession,
        number: u32,
    ) -> Result<(), ClusterError> {
        let flow = self.flows.get(&number);
        match flow.filter(|flow| flow.is_of(session)) {
            Some(flow) if flow.step.has_begun() => {
                processes.tell(flow.process, &FromAgent::Finish { flow: number });
                Ok(())
            }
            Some(_) => {
                let what = format!("flow {number} is to finish and was not taken");
                Err(ClusterError::Unexpected(what))
            }
            None => Ok(()),
        }
    }

    /// It is over at the other host.
    pub(super) fn ended_there(
        &mut self,
        processes: &mut Processes,
        session: &dyn FlowSession,
        number: u32,
        reason: &str,
    ) {
        let flow = self.flows.get(&number);
        if flow.is_some_and(|flow| flow.is_of(session)) {
            return self.end(processes, number, reason, false);
        }
        let is_it = self.ending.get(&number).is_some_and(|it| it.is_of(session));
        if is_it {
            self.return_one(processes, number);
        }
    }

    /// The publisher may send by the agent's port again.
    fn return_one(&mut self, processes: &Processes, number: u32) {
        let Some(ending) = self.ending.get_mut(&number) else {
            return;
        };
        if std::mem::take(&mut ending.waits_for_there) {
            processes.tell(ending.process, &FromAgent::Return { flow: number });
        }
        if !ending.waits_for_process {
            self.ending.remove(&number);
        }
    }

    /// As [`return_one`](Self::return_one), for all of those.
    fn let_return(&mut self, processes: &Processes, which: impl Fn(&Ending) -> bool) {
        let waiting = self.ending.iter().filter(|(_, it)| it.waits_for_there);
        let numbers: Vec<u32> = waiting
            .filter(|(_, ending)| which(ending))
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            self.return_one(processes, number);
        }
    }

    /// Flows of a session that is over that may go on without it, so many at most.
    pub(super) fn take_going(
        &mut self,
        session: &dyn FlowSession,
        most: usize,
    ) -> Vec<((ProcessId, u32), alone::Flow)> {
        let goes_on = |flow: &Flow| flow.is_of(session) && flow.step == Step::Going;
        let going = self.flows.extract_if(.., |_, flow| goes_on(flow));
        let going = going.take(most).map(|(number, flow)| {
            let taken = alone::Flow {
                session: flow.session,
                channel: flow.channel,
                transport: flow.transport,
                ask: Some(flow.ask),
            };
            ((flow.process, number), taken)
        });
        going.collect()
    }

    /// The session is over, and with it all that was on its way.
    pub(super) fn session_over(
        &mut self,
        processes: &mut Processes,
        session: &dyn FlowSession,
        reason: &str,
    ) {
        self.end_all(processes, reason, |flow| flow.is_of(session));
        self.let_return(processes, |ending| ending.is_of(session));
    }

    /// It is over in its process.
    pub(super) fn ended_here(
        &mut self,
        processes: &mut Processes,
        (process, number): (ProcessId, u32),
        (reason, unconfirmed): (&str, u32),
    ) {
        if let Some(ending) = self.ending.get_mut(&number) {
            if ending.process == process && std::mem::take(&mut ending.waits_for_process) {
                ending.note_unconfirmed(processes, unconfirmed);
                if !ending.waits_for_there {
                    self.ending.remove(&number);
                }
            }
            return;
        }
        if self.of_process(process, number).is_none() {
            return;
        }
        let Some(flow) = self.flows.remove(&number) else {
            return;
        };
        processes.retry(process, flow.ask, Instant::now() + RETRY);
        // A stronger port may be due.
        flow.session.wake();
        let went_well = reason.is_empty() || flow.has_connected();
        flow.session.note_end_of_flow(&|pause| match went_well {
            true => *pause = Pause::default(),
            false => pause.failed(reason),
        });
        if flow.step != Step::Opening {
            flow.say_ended(number, reason);
        }
        let ending = Ending::of(flow, false, unconfirmed > 0);
        ending.note_unconfirmed(processes, unconfirmed);
        self.begin_ending(processes, number, ending);
    }

    /// Waits for what is to be waited for, if there is anything.
    fn begin_ending(&mut self, processes: &Processes, number: u32, ending: Ending) {
        let process = ending.process;
        if !ending.waits_for_there {
            processes.tell(process, &FromAgent::Return { flow: number });
        }
        if ending.waits_for_there || ending.waits_for_process {
            self.ending.insert(number, ending);
        }
        let its = self.ending.values().filter(|it| it.process == process);
        if its.count() > FLOWS_MAX {
            processes.close(process, "it does not say that its flows are over");
        }
    }

    pub(super) fn process_gone(&mut self, process: ProcessId) {
        self.ending.retain(|_, ending| ending.process != process);
        self.flows.retain(|number, flow| {
            let is_gone = flow.process == process;
            if is_gone && flow.step != Step::Opening {
                flow.say_ended(*number, "its publisher's process is gone");
            }
            !is_gone
        });
    }

    /// Ends some of them, and tells the other host.
    pub(super) fn end_all(
        &mut self,
        processes: &mut Processes,
        reason: &str,
        which: impl Fn(&Flow) -> bool,
    ) {
        let numbers = self.flows.iter().filter(|(_, flow)| which(flow));
        let numbers: Vec<u32> = numbers.map(|(number, _)| *number).collect();
        for number in numbers {
            self.end(processes, number, reason, true);
        }
    }

    /// Ends one, for this host's reason or the other's.
    fn end(&mut self, processes: &mut Processes, number: u32, reason: &str, tells: bool) {
        let Some(flow) = self.flows.remove(&number) else {
            return;
        };
        let end = FromAgent::End {
            flow: number,
            reason: reason.to_owned(),
        };
        processes.tell(flow.process, &end);
        processes.retry(flow.process, flow.ask, Instant::now() + RETRY);
        if tells && flow.step != Step::Opening {
            flow.say_ended(number, reason);
        }
        if flow.step.has_begun() {
            let ending = Ending::of(flow, true, tells);
            self.begin_ending(processes, number, ending);
        }
    }

    fn of_process(&mut self, process: ProcessId, number: u32) -> Option<&mut Flow> {
        let flow = self.flows.get_mut(&number);
        flow.filter(|flow| flow.process == process)
    }

    /// Does one of the channel carry, in the session with this number?
    pub(super) fn are_on(&self, session: u64, channel: &str) -> bool {
        let mut flows = self.flows.values();
        flows.any(|flow| {
            let is_its = flow.session.number() == session && flow.channel == channel;
            is_its && flow.step.has_begun()
        })
    }

    /// Flows of a channel that carry, and why there is none.
    pub(super) fn status(&self, session: &dyn FlowSession, channel: &str) -> Carriage {
        let flows = self.of_session(session);
        let flows: Vec<&Flow> = flows.filter(|flow| flow.channel == channel).collect();
        let carrying = flows.iter().filter(|flow| flow.step.has_begun());
        Carriage::of(
            (Direction::Sending, session.link()),
            carrying.map(|flow| &flow.carried),
            || {
                let key = (session.number(), channel.to_owned());
                let waiting = flows.first().map(|flow| &flow.reason);
                let waiting = waiting.or_else(|| self.without_place.get(&key)).cloned();
                waiting.unwrap_or_else(|| "no publisher here asks for a flow".to_owned())
            },
        )
    }

    /// How many there are with such hosts.
    pub(super) fn count(&self, which: impl Fn(&str) -> bool) -> usize {
        let flows = self.flows.values();
        flows.filter(|flow| which(flow.session.host())).count()
    }

    /// Flows that carry, and others.
    pub(super) fn counts(&self, session: &dyn FlowSession) -> (u32, u32) {
        let all = self.of_session(session).count() as u32;
        let begun = self
            .of_session(session)
            .filter(|flow| flow.step.has_begun());
        let begun = begun.count() as u32;
        (begun, all - begun)
    }
}

impl Ending {
    fn of(flow: Flow, waits_for_process: bool, waits_for_there: bool) -> Self {
        Self {
            session: flow.session,
            channel: flow.channel,
            process: flow.process,
            ask: flow.ask,
            since: Instant::now(),
            waits_for_process,
            waits_for_there,
        }
    }

    fn is_of(&self, session: &dyn FlowSession) -> bool {
        self.session.number() == session.number()
    }

    /// So many of its messages may or may not have arrived. A publisher that is there still tells
    /// as many by the port that it goes back to.
    fn note_unconfirmed(&self, processes: &Processes, messages: u32) {
        let pool = self.session.pool();
        let publisher = processes.publisher(self.process, self.ask.port, pool);
        let told = publisher.as_ref();
        let told = told.map(|publisher| (self.channel.as_str(), publisher));
        self.session.note_unconfirmed(messages, told);
    }
}

impl Flow {
    fn say_ended(&self, number: u32, reason: &str) {
        self.session.say(Control::FlowEnded {
            flow: number,
            side: FlowSide::Sending,
            reason: reason.to_owned(),
        });
    }
}

/// A publisher that a flow could be for.
struct Publisher {
    channel: String,
    carries: CarriedType,
}

/// The publisher of the process, if the other port is the one by which the session takes its
/// messages.
fn eligible(
    processes: &Processes,
    session: &dyn FlowSession,
    process: ProcessId,
    ask: Ask,
) -> Option<Publisher> {
    let pool = session.pool();
    let tables = pool.control().tables();
    let publisher = processes.publisher(process, ask.port, pool)?;
    let is_its =
        |port: &PortInfo| port.kind == PortKind::Subscriber && port.member == session.member();
    // While there are two, publishers go over from one to the other.
    let mut ports = tables.ports_of_channel(publisher.channel).filter(is_its);
    let host_port = ports.next().filter(|port| port.index.0 == ask.host_port)?;
    if ports.next().is_some() || host_port.history > 0 {
        return None;
    }
    let channel = tables.channel(publisher.channel)?;
    let carries = channel.carries.clone().into();
    let is_open = session.may_send(&channel.name).is_ok() && session.has_stream(&channel.name);
    is_open.then_some(Publisher {
        channel: channel.name,
        carries,
    })
}
