//! Flows to subscribers of this host.
//!
//! The other host offers what a publisher there would send. It waits here until exactly one process
//! receives on the channel and offers a port for flows; that opens a socket, and the other host is
//! told. Where a second receiver comes, the flow is asked to finish: what is on its way arrives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_flows::message::{
    Agreed, FramesUse, FromAgent, Role, Transport, WINDOW_MESSAGES_MAX, Window,
};
use hythe_node::PortPolicy;
use hythe_node::hop::HopPool as _;
use hythe_pool::PortInfo;

use super::carried::{Carriage, Carried};
use super::processes::{ProcessId, Processes};
use super::{FLOWS_MAX, FlowSession, Places, ReadySocket, SETTLING, alone, next};
use crate::agent::local::{ChannelKey, LocalEnds};
use crate::error::ClusterError;
use crate::frame::{Control, EndKind, FlowOffer, FlowSide, FlowTaken};
use crate::status::Direction;

/// A process that could not open a socket is asked again after so long.
const RETRY: Duration = Duration::from_secs(1);

/// Session and number there.
type Key = (u64, u32);

/// All that are offered or taken.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    flows: BTreeMap<Key, Flow>,
    ending: BTreeMap<(ProcessId, u32), Ending>,
}

/// A flow that is over, until its process has said so: the other host hears of it then.
#[derive(Debug)]
struct Ending {
    session: Arc<dyn FlowSession>,
    /// Its number there.
    flow: u32,
    reason: String,
    since: Instant,
}

#[derive(Debug)]
struct Flow {
    session: Arc<dyn FlowSession>,
    offer: FlowOffer,
    taken: Option<Taken>,
    /// What it waits for; told the other side when it changes.
    reason: String,
    retry: Option<Instant>,
    carried: Carried,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Its number towards the process.
    number: u32,
    process: ProcessId,
    port: PortInfo,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The process opens a socket.
    Opening,
    /// The other host knows it.
    Begun,
    /// It is to end when all has arrived.
    Finishing(Instant),
}

/// Why a flow has no receiver.
enum NoReceiver {
    /// There may be one later.
    Yet(String),
    /// The host may not send to it.
    Refused(String),
}

impl Receiving {
    /// The other side offers one.
    pub(super) fn offered(
        &mut self,
        session: &Arc<dyn FlowSession>,
        offer: FlowOffer,
    ) -> Result<(), ClusterError> {
        let unexpected = |what: String| Err(ClusterError::Unexpected(what));
        let number = offer.flow;
        if (offer.transport == Transport::Tls) != offer.key.is_some() {
            return unexpected(format!(
                "flow {number}, sealed without a key or the reverse"
            ));
        }
        if let Err(why) = session.link().path_for(offer.transport) {
            if offer.transport == Transport::Tls || session.link().was_agreed() {
                say_ended(&**session, number, &why);
                return Ok(());
            }
            return unexpected(format!("flow {number} in clear text: {why}"));
        }
        if offer.port == 0 {
            return unexpected(format!("flow {number} at port 0"));
        }
        if offer.transport == Transport::Tls && offer.frame_port != 0 {
            return unexpected(format!("flow {number}, sealed and with frames"));
        }
        let key = (session.number(), number);
        if self.flows.contains_key(&key) {
            return unexpected(format!("flow {number} is offered twice"));
        }
        if self.of_session(&**session).count() >= FLOWS_MAX {
            let (what, most) = ("flows that it offers", FLOWS_MAX);
            return Err(ClusterError::TooMany { what, most });
        }
        let flow = Flow {
            session: Arc::clone(session),
            carried: Carried::of(offer.transport, session.link()),
            offer,
            taken: None,
            reason: String::new(),
            retry: None,
        };
        self.flows.insert(key, flow);
        Ok(())
    }

    /// Takes those that have a receiver now, and ends those that have another or none any more.
    pub(super) fn update(
        &mut self,
        processes: &Processes,
        session: &dyn FlowSession,
        local: &LocalEnds,
        (places, last): (&mut Places, &mut u32),
    ) {
        let now = Instant::now();
        self.tell_ended(|_, ending| {
            let waited = now.saturating_duration_since(ending.since);
            ending.session.number() == session.number() && waited > SETTLING
        });
        let flows = self.flows.iter_mut();
        let flows = flows.filter(|(_, flow)| flow.session.number() == session.number());
        let mut over = Vec::new();
        for (key, flow) in flows {
            flow.carry(processes);
            let usable = session.link().path_for(flow.offer.transport);
            let usable = usable.map_err(NoReceiver::Refused);
            let found = usable.and_then(|_| receiver(processes, session, local, &flow.offer));
            let looked = match found {
                Err(NoReceiver::Refused(reason)) => Err(reason),
                Err(NoReceiver::Yet(reason)) => flow.without(processes, reason, now),
                Ok(receiver) => flow.with(processes, receiver, now, (&mut *places, &mut *last)),
            };
            if let Err(reason) = looked {
                over.push((*key, reason));
            }
        }
        for (key, reason) in over {
            self.end(processes, key, &reason);
        }
    }

    fn of_session(&self, session: &dyn FlowSession) -> impl Iterator<Item = &Flow> {
        let number = session.number();
        let flows = self.flows.range((number, 0)..=(number, u32::MAX));
        flows.map(|(_, flow)| flow)
    }

    /// A process has opened its socket: the other host gets its port.
    pub(super) fn ready(
        &mut self,
        processes: &Processes,
        who: (ProcessId, u32),
        socket: ReadySocket,
    ) {
        let Some((key, flow)) = self.of_process(who) else {
            return;
        };
        let begun = flow.begin(processes, socket);
        if let Err(reason) = begun {
            self.end(processes, key, &reason);
        }
    }

    /// It is over in its process.
    pub(super) fn ended_here(&mut self, who: (ProcessId, u32), reason: &str) {
        self.tell_ended(|ending, _| *ending == who);
        let Some((key, flow)) = self.of_process(who) else {
            return;
        };
        if flow.taken.is_some_and(|taken| taken.step == Step::Opening) {
            flow.taken = None;
            flow.retry = Some(Instant::now() + RETRY);
            flow.wait(format!("its subscriber opens no socket: {reason}"));
        } else if let Some(flow) = self.flows.remove(&key) {
            flow.say_ended(reason);
        }
    }

    pub(super) fn process_gone(&mut self, process: ProcessId) {
        self.tell_ended(|(owner, _), _| *owner == process);
        self.flows.retain(|_, flow| match flow.taken {
            Some(taken) if taken.process == process && taken.step == Step::Opening => {
                flow.taken = None;
                true
            }
            Some(taken) if taken.process == process => {
                flow.say_ended("its subscriber's process is gone");
                false
            }
            _ => true,
        });
    }

    /// Ends it for that reason, and tells the other host as soon as nothing more is taken from it.
    pub(super) fn end(&mut self, processes: &Processes, key: Key, reason: &str) {
        let Some(flow) = self.flows.remove(&key) else {
            return;
        };
        let Some(taken) = flow.taken else {
            return flow.say_ended(reason);
        };
        let end = FromAgent::End {
            flow: taken.number,
            reason: reason.to_owned(),
        };
        processes.tell(taken.process, &end);
        if taken.step == Step::Opening {
            return flow.say_ended(reason);
        }
        let ending = Ending {
            session: flow.session,
            flow: flow.offer.flow,
            reason: reason.to_owned(),
            since: Instant::now(),
        };
        self.ending.insert((taken.process, taken.number), ending);
        let its = self
            .ending
            .keys()
            .filter(|(owner, _)| *owner == taken.process);
        if its.count() > FLOWS_MAX {
            processes.close(taken.process, "it does not say that its flows are over");
        }
    }

    /// Nothing more is taken from those.
    fn tell_ended(&mut self, which: impl Fn(&(ProcessId, u32), &Ending) -> bool) {
        for (_, ending) in self.ending.extract_if(.., |who, ending| which(who, ending)) {
            say_ended(&*ending.session, ending.flow, &ending.reason);
        }
    }

    /// As of [`Sending`](super::sending::Sending::take_going).
    pub(super) fn take_begun(
        &mut self,
        session: &dyn FlowSession,
        most: usize,
    ) -> Vec<((ProcessId, u32), alone::Flow)> {
        let number = session.number();
        let its = (number, 0)..=(number, u32::MAX);
        let begun = self.flows.extract_if(its, |_, flow| flow.has_begun());
        let begun = begun.take(most).filter_map(|(_, flow)| {
            let taken = flow.taken?;
            let one = alone::Flow {
                session: flow.session,
                channel: flow.offer.channel,
                transport: flow.offer.transport,
                ask: None,
            };
            Some(((taken.process, taken.number), one))
        });
        begun.collect()
    }

    /// All of a session that is over.
    pub(super) fn end_all(
        &mut self,
        processes: &Processes,
        session: &dyn FlowSession,
        reason: &str,
    ) {
        let number = session.number();
        let keys = self.flows.range((number, 0)..=(number, u32::MAX));
        let keys: Vec<Key> = keys.map(|(key, _)| *key).collect();
        for key in keys {
            self.end(processes, key, reason);
        }
        // Nobody hears of it.
        self.ending
            .retain(|_, ending| ending.session.number() != number);
    }

    fn of_process(&mut self, (process, number): (ProcessId, u32)) -> Option<(Key, &mut Flow)> {
        let mut flows = self.flows.iter_mut();
        let found = flows.find(|(_, flow)| {
            let taken = flow.taken.as_ref();
            taken.is_some_and(|taken| taken.process == process && taken.number == number)
        });
        found.map(|(key, flow)| (*key, flow))
    }

    /// What carries it from now on.
    pub(super) fn carried(
        &mut self,
        who: (ProcessId, u32),
        frames: Option<FramesUse>,
        reason: &str,
    ) {
        if let Some((_, flow)) = self.of_process(who) {
            flow.carried.use_frames(frames, reason);
        }
    }

    /// Flows of a channel that carry, and why there is none.
    pub(super) fn status(&self, session: &dyn FlowSession, channel: &str) -> Carriage {
        let flows = self.of_session(session);
        let flows: Vec<&Flow> = flows.filter(|flow| flow.offer.channel == channel).collect();
        let carrying = flows.iter().filter(|flow| flow.has_begun());
        Carriage::of(
            (Direction::Receiving, session.link()),
            carrying.map(|flow| &flow.carried),
            || {
                let waiting = flows.first().map(|flow| flow.reason.clone());
                waiting.unwrap_or_else(|| "no publisher there asks for a flow".to_owned())
            },
        )
    }

    /// How many there are with such hosts, but for those that wait.
    pub(super) fn count(&self, which: impl Fn(&str) -> bool) -> usize {
        let flows = self.flows.values().filter(|flow| flow.taken.is_some());
        flows.filter(|flow| which(flow.session.host())).count()
    }

    /// Flows that carry, and others.
    pub(super) fn counts(&self, session: &dyn FlowSession) -> (u32, u32) {
        let all = self.of_session(session).count() as u32;
        let begun = self.of_session(session).filter(|flow| flow.has_begun());
        let begun = begun.count() as u32;
        (begun, all - begun)
    }
}

impl Flow {
    fn has_begun(&self) -> bool {
        let taken = self.taken.as_ref();
        taken.is_some_and(|taken| taken.step != Step::Opening)
    }

    /// Tells its process where another program serves its interface.
    fn carry(&mut self, processes: &Processes) {
        if let Some(taken) = &self.taken
            && let Some(carry) = self.carried.carry(taken.number, self.session.link())
        {
            processes.tell(taken.process, &carry);
        }
    }

    /// Nobody can receive it now. An error: it is over for that.
    fn without(
        &mut self,
        processes: &Processes,
        reason: String,
        now: Instant,
    ) -> Result<(), String> {
        let Some(taken) = &mut self.taken else {
            self.wait(reason);
            return Ok(());
        };
        match taken.step {
            Step::Opening => {
                let end = FromAgent::End {
                    flow: taken.number,
                    reason: reason.clone(),
                };
                processes.tell(taken.process, &end);
                self.taken = None;
                self.wait(reason);
                Ok(())
            }
            Step::Begun if is_open(&*self.session, &taken.port) => {
                taken.step = Step::Finishing(now);
                let flow = taken.number;
                processes.tell(taken.process, &FromAgent::Finish { flow });
                let flow = self.offer.flow;
                self.session.say(Control::FlowFinish { flow });
                Ok(())
            }
            Step::Begun => Err("its subscriber has closed".to_owned()),
            Step::Finishing(since) if now.saturating_duration_since(since) <= SETTLING => Ok(()),
            Step::Finishing(_) => Err(format!("{reason}, and what was sent does not arrive")),
        }
    }

    /// This process can receive it now.
    fn with(
        &mut self,
        processes: &Processes,
        (process, port): (ProcessId, PortInfo),
        now: Instant,
        (places, last): (&mut Places, &mut u32),
    ) -> Result<(), String> {
        match &self.taken {
            Some(taken) if taken.process == process && taken.port.index == port.index => {
                match taken.step {
                    Step::Finishing(_) => self.without(processes, String::new(), now),
                    _ => Ok(()),
                }
            }
            Some(_) => self.without(processes, "its subscriber is another".to_owned(), now),
            None if self.retry.is_some_and(|retry| now < retry) => Ok(()),
            None => {
                let transport = self.offer.transport;
                let path = self.session.link().path_for(transport)?;
                if let Err(reason) = places.take() {
                    self.wait(reason);
                    return Ok(());
                }
                let number = next(last);
                self.carried = Carried::of(transport, self.session.link());
                self.taken = Some(Taken {
                    number,
                    process,
                    port,
                    step: Step::Opening,
                });
                let open = FromAgent::Open {
                    flow: number,
                    role: Role::Receive {
                        port: port.index.0,
                        host: self.session.member().0,
                    },
                    transport,
                    address: path.local,
                    interface: self.session.link().interface_for(transport),
                    has_frames: self.carried.has_frames(),
                };
                processes.tell(process, &open);
                self.carry(processes);
                Ok(())
            }
        }
    }

    fn begin(&mut self, processes: &Processes, socket: ReadySocket) -> Result<(), String> {
        let session = Arc::clone(&self.session);
        let Some(taken) = self.taken.as_mut().filter(|it| it.step == Step::Opening) else {
            return Ok(());
        };
        let transport = self.offer.transport;
        if (transport == Transport::Tls) != socket.key.is_some() {
            return Err("its subscriber's process made no key".to_owned());
        }
        let path = session.link().path_for(transport)?;
        let message_bytes_max = session.payload_bytes_max();
        let depth = taken.port.depth;
        let (window_messages, block_ms) = match taken.port.policy {
            PortPolicy::Block { timeout_ms } => (depth, timeout_ms),
            PortPolicy::DropNewest | PortPolicy::EvictOldest => (depth.saturating_mul(2), 0),
        };
        let told = FlowTaken {
            flow: self.offer.flow,
            port: socket.port,
            frame_port: self.carried.frame_port(socket.frame_port),
            key: socket.key,
            window_messages: window_messages.clamp(1, WINDOW_MESSAGES_MAX),
            window_bytes: session.own_window().max(message_bytes_max),
            message_bytes_max,
            block_ms,
        };
        let begin = FromAgent::Begin {
            flow: taken.number,
            peer: (path.peer, self.offer.port).into(),
            frame_port: self.carried.frame_port(self.offer.frame_port),
            key: self.offer.key,
            agreed: Agreed {
                word: self.offer.word,
                number: told.flow,
                window: Window {
                    messages: told.window_messages,
                    bytes: told.window_bytes,
                },
                message_bytes_max,
                unreachable_ns: session.lease_ns(),
                block_ms,
            },
        };
        taken.step = Step::Begun;
        self.reason.clear();
        processes.tell(taken.process, &begin);
        session.acknowledge_at_once(&self.offer.channel);
        session.say(Control::FlowTaken(told));
        Ok(())
    }

    /// Says what it waits for, where that is new.
    fn wait(&mut self, reason: String) {
        if self.reason != reason {
            self.session.say(Control::FlowWaits {
                flow: self.offer.flow,
                reason: reason.clone(),
            });
            self.reason = reason;
        }
    }

    fn say_ended(&self, reason: &str) {
        say_ended(&*self.session, self.offer.flow, reason);
    }
}

fn say_ended(session: &dyn FlowSession, flow: u32, reason: &str) {
    session.say(Control::FlowEnded {
        flow,
        side: FlowSide::Receiving,
        reason: reason.to_owned(),
    });
}

fn is_open(session: &dyn FlowSession, port: &PortInfo) -> bool {
    let tables = session.pool().control().tables();
    tables.is_still_open(port)
}

/// The only receiver of a channel, if it is a subscriber whose process offers it.
fn receiver(
    processes: &Processes,
    session: &dyn FlowSession,
    local: &LocalEnds,
    offer: &FlowOffer,
) -> Result<(ProcessId, PortInfo), NoReceiver> {
    session
        .may_receive(&offer.channel)
        .map_err(NoReceiver::Refused)?;
    let yet = |reason: &str| NoReceiver::Yet(reason.to_owned());
    let key = ChannelKey {
        kind: EndKind::Publish,
        channel: offer.channel.clone(),
    };
    let wanted = local.wants.get(&key);
    let wanted = wanted.ok_or_else(|| yet("nobody subscribes on the other host"))?;
    if wanted.want.carries != offer.carries {
        return Err(yet("the channel carries another type on the other host"));
    }
    let [end] = wanted.ends() else {
        let count = wanted.ends().len();
        return Err(NoReceiver::Yet(format!("it has {count} receivers")));
    };
    if end.is_core {
        return Err(yet("its receiver is a core"));
    }
    if end.history > 0 {
        return Err(yet("its subscriber wants earlier messages, too"));
    }
    let pool = session.pool();
    let channel = pool.control().tables().find_channel(&offer.channel);
    let found = channel.and_then(|found| processes.subscriber(end.member, found.index, pool));
    found.ok_or_else(|| yet("its subscriber's program has not offered to receive itself"))
}
