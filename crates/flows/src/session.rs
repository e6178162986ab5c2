//! The connection of a process to the agent of its host, its flows, and the thread that looks after
//! them.
//!
//! The thread takes the agent's messages and helps flows whose ports are not there: one that
//! computes for a second still acknowledges what comes. When the agent is gone, flows that have
//! begun go on without it ([`crate::alone`]), and the thread ends with the last of them; the next
//! port that looks for other hosts makes another session. Holds no lock of a flow and the list's at
//! once.

mod carry;
mod connections;
mod opened;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hythe_node::hop::{self, Doorbell, HopPool as _, Participant};
use hythe_node::monotonic_ns;
use hythe_pool::{ChannelIndex, MemberIndex, PortIndex, PortInfo};
use hythe_sys::signals::SignalsBlocked;
use hythe_wire::WireStatistics;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use crate::alone::{look_after_receiving, look_after_sending};
use crate::flow::{FlowId, HostEnd, ReceivingFlow, SendingFlow};
use crate::held_up::HeldUp;
use crate::message::{Agreed, FromAgent, FromProcess, Role, VERSION, WirePlace};
use crate::tcp::{TcpReceiving, TcpSending};
use crate::unix::Connection;
use crate::watch::Watch;

/// The thread looks at least this often while there are flows.
const LOOK: Duration = Duration::from_millis(10);
/// And this often while there are none.
const IDLE: Duration = Duration::from_secs(10);
/// And where something may come by a wire that it cannot sleep on.
const UNWATCHED: Duration = Duration::from_millis(1);
/// What was sent by flows is waited for so long when the process leaves.
const LINGER: Duration = Duration::from_secs(5);
pub(crate) const LINGER_LOOK: Duration = Duration::from_millis(1);

/// A connection to the agent, with its flows.
#[derive(Debug)]
pub(crate) struct Session {
    participant: Arc<Participant>,
    connection: Connection,
    woken: rustix::fd::OwnedFd,
    state: Mutex<State>,
    held_up: HeldUp,
    /// The agent has said something.
    has_heard: AtomicBool,
    /// The agent is gone.
    is_over: AtomicBool,
    /// The process leaves.
    is_closing: AtomicBool,
    /// No flow is left, and none comes any more.
    is_done: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct State {
    asked: BTreeSet<(u32, u32)>,
    offered: BTreeSet<u32>,
    /// Sockets of flows that have not begun.
    opened: BTreeMap<u32, opened::Opened>,
    sending: Vec<Arc<SendingFlow>>,
    /// TCP connections of flows in `sending`, and of those that begin with one.
    connections: BTreeMap<u32, connections::FlowConnection>,
    receiving: Vec<ReceivingEnd>,
    /// Flows of which the agent knows that they have a wire, and which.
    wired: BTreeMap<u32, WirePlace>,
    silent: Option<carry::Silent>,
    /// Flows that were refused a wire.
    refused: BTreeMap<u32, carry::Refused>,
}

/// A subscriber's flow, and what wakes its port: something has arrived by the connection or by a
/// frame.
#[derive(Debug)]
struct ReceivingEnd {
    flow: Arc<ReceivingFlow>,
    connection: Option<Arc<Doorbell>>,
    wire: Vec<Arc<Doorbell>>,
}

impl Session {
    /// Connects to the agent of the participant's pool.
    pub(crate) fn open(participant: &Arc<Participant>) -> io::Result<Arc<Self>> {
        let connection = Connection::open(&participant.pool().path())?;
        connection.send(&FromProcess::Hello {
            version: VERSION,
            member: participant.index().0,
            session: participant.session(),
        })?;
        let session = Arc::new(Self {
            participant: Arc::clone(participant),
            connection,
            woken: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            state: Mutex::default(),
            held_up: HeldUp::default(),
            has_heard: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            is_done: AtomicBool::new(false),
            thread: Mutex::default(),
        });
        let run = Arc::clone(&session);
        // It begins in a call of the process, whose signals are for the process's own threads.
        let blocked = SignalsBlocked::new();
        let thread = hythe_sys::wait::spawn("hythe-flows", move || run.run());
        drop(blocked);
        let thread = thread?;
        *session
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(session)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each statement leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn has_heard(&self) -> bool {
        self.has_heard.load(Ordering::Acquire)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Who owns a port, for messages.
    pub(crate) fn name_of(&self, port: PortIndex) -> String {
        let tables = self.participant.pool().control().tables();
        let owner = tables.port(port).map(|port| tables.named(port.member));
        owner.unwrap_or_else(|| "another host".to_owned())
    }

    /// A publisher would send by a flow what it sends to this port of a host. Once is enough.
    pub(crate) fn ask(&self, port: PortIndex, host_port: PortIndex) {
        if self.lock().asked.insert((port.0, host_port.0)) {
            self.tell(&FromProcess::Ask {
                port: port.0,
                host_port: host_port.0,
            });
        }
    }

    /// A subscriber would receive by flows.
    pub(crate) fn offer(&self, port: PortIndex) {
        if self.lock().offered.insert(port.0) {
            self.tell(&FromProcess::Offer { port: port.0 });
        }
    }

    /// The flows of a publisher.
    pub(crate) fn sending(&self, port: PortIndex) -> Vec<Arc<SendingFlow>> {
        let state = self.lock();
        let flows = state.sending.iter();
        flows
            .filter(|flow| self.is_of(flow.id, port))
            .cloned()
            .collect()
    }

    /// The flows of a subscriber.
    pub(crate) fn receiving(&self, port: PortIndex) -> Vec<Arc<ReceivingFlow>> {
        let state = self.lock();
        let flows = state.receiving.iter().map(|end| &end.flow);
        flows
            .filter(|flow| self.is_of(flow.id, port))
            .cloned()
            .collect()
    }

    /// Is it this port's, and not one's that had its number before?
    fn is_of(&self, id: FlowId, port: PortIndex) -> bool {
        id.port.index == port && self.is_still_open(&id.port)
    }

    fn is_still_open(&self, port: &PortInfo) -> bool {
        let tables = self.participant.pool().control().tables();
        tables.is_still_open(port)
    }

    /// All flows that come in on a channel.
    pub(crate) fn receiving_on(&self, channel: ChannelIndex) -> Vec<Arc<ReceivingFlow>> {
        let state = self.lock();
        let flows = state.receiving.iter().map(|end| &end.flow);
        flows
            .filter(|flow| flow.id.port.channel == channel)
            .cloned()
            .collect()
    }

    /// What all flows of publishers that there are have done past the kernel's protocols.
    pub(crate) fn wire_statistics(&self) -> WireStatistics {
        let flows = self.lock().sending.clone();
        let each = flows.iter().map(|flow| flow.wire_statistics());
        each.fold(WireStatistics::default(), WireStatistics::plus)
    }

    /// The publisher sends nothing more by the agent's port.
    pub(crate) fn left(&self, flow: &SendingFlow) {
        self.tell(&FromProcess::Left {
            flow: flow.id.number,
        });
    }

    /// A flow is held up from now on.
    pub(crate) fn note_held_up(&self) {
        self.held_up.note();
        self.wake();
    }

    /// Turns flows that are held up: for calls of the process that wait for something else.
    #[inline]
    pub(crate) fn help_held_up(&self) {
        if self.held_up.is_some() {
            self.turn_held_up();
        }
    }

    /// A call that has helped those that are held up is about to sleep: the thread does, from now
    /// on.
    pub(crate) fn leave_held_up(&self) {
        if self.held_up.leave() {
            self.wake();
        }
    }

    #[cold]
    fn turn_held_up(&self) {
        self.held_up.begin();
        let now_ns = monotonic_ns();
        let mut were_some = false;
        // Without a list of its own, which is memory for each look of who spins. One that goes
        // meanwhile may hide another until the next look.
        let nth = |index| self.lock().sending.get(index).cloned();
        let flows = (0..).map_while(nth);
        for flow in flows.filter(|flow| flow.is_held_up()) {
            were_some = true;
            flow.help(now_ns);
        }
        self.held_up.end(were_some);
    }

    /// Has the thread look.
    pub(crate) fn wake(&self) {
        let _ = rustix::io::write(&self.woken, &1_u64.to_ne_bytes());
    }

    fn tell(&self, message: &FromProcess) {
        if let Err(error) = self.connection.send(message) {
            tracing::debug!(%error, "lost the agent of this host");
            self.connection.close();
        }
    }

    /// May messages of publishers here arrive that have not yet?
    pub(crate) fn is_under_way(&self) -> bool {
        let (sending, now_ns) = (self.lock().sending.clone(), monotonic_ns());
        sending.iter().any(|flow| {
            flow.help(now_ns);
            flow.is_under_way()
        })
    }

    /// Waits, for a bounded time, until what flows have sent has arrived, and ends.
    pub(crate) fn close(&self) {
        if self.participant.is_a_copy() {
            // Socket and connection are the parent's, and its thread is not here.
            if let Ok(mut thread) = self.thread.try_lock() {
                std::mem::forget(thread.take());
            }
            return;
        }
        let start = std::time::Instant::now();
        let sending: Vec<_> = self.lock().sending.clone();
        sending.iter().for_each(|flow| flow.leave(monotonic_ns()));
        self.wake();
        let is_open = |flow: &Arc<SendingFlow>| !flow.is_over();
        while sending.iter().any(is_open) && start.elapsed() < LINGER && !self.is_done() {
            for flow in &sending {
                flow.help(monotonic_ns());
            }
            std::thread::sleep(LINGER_LOOK);
        }
        for flow in &sending {
            self.give_up(flow);
        }
        self.is_closing.store(true, Ordering::Release);
        self.connection.close();
        self.wake();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            hythe_sys::wait::for_end_of(thread);
        }
    }

    /// Reports what has not arrived of a flow whose process leaves.
    fn give_up(&self, flow: &SendingFlow) {
        flow.end(monotonic_ns(), "its process leaves");
        if let Some((reason, unconfirmed)) = flow.take_end() {
            if unconfirmed > 0 {
                let host = &flow.host.name;
                tracing::warn!(host, unconfirmed, "messages may not have arrived");
            }
            self.say_ended(flow.id.number, reason, unconfirmed);
        }
    }

    /// The thread.
    fn run(&self) {
        let mut timeout = IDLE;
        while !self.is_closing() {
            self.sleep(timeout);
            let _ = rustix::io::read(&self.woken, &mut [0; 8]);
            if let Err(error) = self.take_messages() {
                tracing::debug!(%error, "lost the agent of this host");
                break;
            }
            timeout = self.help();
            self.ask_again();
        }
        self.is_over.store(true, Ordering::Release);
        self.go_on_alone();
        let (sending, receiving) = {
            let mut state = self.lock();
            let state = std::mem::take(&mut *state);
            (state.sending, state.receiving)
        };
        for flow in sending {
            flow.end(monotonic_ns(), "its process leaves");
            flow.let_return();
            self.announce(flow.id);
        }
        for ReceivingEnd { flow, .. } in receiving {
            flow.cut("its process leaves");
            self.announce(flow.id);
        }
        self.is_done.store(true, Ordering::Release);
    }

    /// Without the agent, until no flow is left.
    fn go_on_alone(&self) {
        let (sending, receiving) = self.flows();
        let now_ns = monotonic_ns();
        sending.iter().for_each(|flow| flow.go_alone(now_ns));
        receiving.iter().for_each(|flow| flow.go_alone(now_ns));
        let mut is_told = self.is_closing();
        while !self.is_closing() {
            let timeout = self.help();
            let (sending, receiving) = self.flows();
            let flows = sending.len() + receiving.len();
            if flows == 0 {
                return;
            }
            if !std::mem::replace(&mut is_told, true) {
                tracing::warn!(
                    flows,
                    "the agent of this host is gone: flows go on without it"
                );
            }
            self.sleep(timeout);
            let _ = rustix::io::read(&self.woken, &mut [0; 8]);
        }
    }

    fn flows(&self) -> (Vec<Arc<SendingFlow>>, Vec<Arc<ReceivingFlow>>) {
        let state = self.lock();
        let receiving = state.receiving.iter().map(|end| Arc::clone(&end.flow));
        (state.sending.clone(), receiving.collect())
    }

    /// Sleeps until the agent says something, or a flow that is held up may go on.
    fn sleep(&self, timeout: Duration) {
        let flows = self.lock().sending.clone();
        let watched = self.held_up.watched(flows, monotonic_ns(), timeout);
        let (wires, timeout) = match watch_wires(&watched.flows) {
            Ok(wires) => (wires, watched.timeout),
            // It looks for itself, then.
            Err(_) => (None, watched.timeout.min(UNWATCHED)),
        };
        let awaited = self.awaited(&watched.flows);
        let mut files = vec![PollFd::new(&self.woken, PollFlags::IN)];
        if !self.is_over() {
            files.push(PollFd::new(&self.connection, PollFlags::IN));
        }
        files.extend(
            awaited
                .iter()
                .map(|(socket, flags)| PollFd::new(socket, *flags)),
        );
        files.extend(wires.iter().map(|file| PollFd::new(file, PollFlags::IN)));
        let _ = hythe_sys::wait::poll_or_sleep(&mut files, timeout);
    }

    fn take_messages(&self) -> io::Result<()> {
        while let Some(message) = self.connection.receive::<FromAgent>()? {
            self.has_heard.store(true, Ordering::Release);
            match message {
                FromAgent::Open {
                    flow,
                    role,
                    transport,
                    address,
                    interface,
                    has_frames,
                } => self.open_socket((flow, role, transport), (address, interface), has_frames),
                FromAgent::Begin {
                    flow,
                    peer,
                    frame_port,
                    key,
                    agreed,
                } => {
                    let begun = self.begin(flow, (peer, frame_port, key), &agreed);
                    if let Err(reason) = begun {
                        self.lock().refused.remove(&flow);
                        self.say_ended(flow, reason, 0);
                    }
                }
                FromAgent::Carry { flow, wire } => self.carry(flow, wire),
                FromAgent::Go { flow } => self.with_sending(flow, |flow| flow.go(monotonic_ns())),
                FromAgent::Finish { flow } => {
                    self.end_first_attempt(flow, "");
                    self.with_sending(flow, |flow| flow.finish(monotonic_ns()));
                    self.with_receiving(flow, ReceivingFlow::finish);
                }
                FromAgent::End { flow, reason } => {
                    self.with_sending(flow, |flow| flow.end(monotonic_ns(), &reason));
                    self.with_receiving(flow, |flow| flow.end(monotonic_ns(), &reason));
                    self.lock().opened.remove(&flow);
                    self.end_first_attempt(flow, &reason);
                }
                FromAgent::Alone { flow } => {
                    self.with_sending(flow, |flow| flow.go_alone(monotonic_ns()));
                    self.with_receiving(flow, |flow| flow.go_alone(monotonic_ns()));
                }
                FromAgent::Return { flow } => self.with_sending(flow, SendingFlow::let_return),
            }
        }
        Ok(())
    }

    /// A publisher's flow can send from now on.
    fn add_sending(
        &self,
        id: FlowId,
        host_port: u32,
        half: TcpSending,
        agreed: &Agreed,
    ) -> Result<(), String> {
        let tables = self.participant.pool().control().tables();
        let host = tables.port(PortIndex(host_port));
        let host = host.and_then(|port| HostEnd::of(&self.participant, port));
        let host = host.ok_or("the other host's port has closed")?;
        let limits = (agreed.block_ms, agreed.message_bytes_max);
        let flow = SendingFlow::new(id, host, limits, half);
        self.lock().sending.push(Arc::new(flow));
        self.announce(id);
        Ok(())
    }

    /// A subscriber's flow can receive from now on.
    fn add_receiving(&self, id: FlowId, role: Role, half: TcpReceiving) -> Result<(), String> {
        let Role::Receive { host, .. } = role else {
            return Err("a publisher's flow that receives".to_owned());
        };
        let tables = self.participant.pool().control().tables();
        let host = tables.member(MemberIndex(host));
        let host = host.ok_or("the other host has gone")?;
        let end = ReceivingEnd {
            flow: Arc::new(ReceivingFlow::new(id, host, half)),
            connection: None,
            wire: Vec::new(),
        };
        self.lock().receiving.push(end);
        self.announce(id);
        Ok(())
    }

    /// Has the port look for what has come or gone.
    fn announce(&self, id: FlowId) {
        let participant = &self.participant;
        hop::announce_change(participant.pool(), id.port.channel, participant.index());
    }

    fn with_sending(&self, number: u32, act: impl FnOnce(&SendingFlow)) {
        let flows = self.lock().sending.clone();
        if let Some(flow) = flows.iter().find(|flow| flow.id.number == number) {
            act(flow);
        }
    }

    fn with_receiving(&self, number: u32, act: impl FnOnce(&ReceivingFlow)) {
        let flow = {
            let state = self.lock();
            let mut flows = state.receiving.iter().map(|end| &end.flow);
            flows.find(|flow| flow.id.number == number).cloned()
        };
        if let Some(flow) = flow {
            act(&flow);
        }
    }

    /// Helps all flows, and lets go of those that are over. How long it is until the next look.
    fn help(&self) -> Duration {
        let now_ns = monotonic_ns();
        self.connect_flows(now_ns);
        let (sending, receiving) = self.flows();
        if sending.is_empty() && receiving.is_empty() && !self.has_connections() {
            return IDLE;
        }
        let mut wake_ns = now_ns + LOOK.as_nanos() as u64;
        for flow in &sending {
            if !self.is_still_open(&flow.id.port) {
                // Its publisher closed without having sent by it.
                flow.leave(now_ns);
            }
            look_after_sending(&self.participant, flow, now_ns);
            match flow.help(now_ns) {
                Some(next_ns) => wake_ns = wake_ns.min(next_ns),
                None => self.let_go_of_sending(flow, now_ns),
            }
            if !flow.has_wire() {
                self.note_end_of_wire(flow.id.number);
            }
            if flow.is_to_be_announced() {
                self.announce(flow.id);
            }
        }
        for flow in &receiving {
            if !self.is_still_open(&flow.id.port) {
                // Its subscriber closed without having found it: nobody would take what comes.
                flow.cut("its subscriber has left");
            }
            look_after_receiving(&self.participant, flow, now_ns);
            self.accept_connection(flow, now_ns);
            if flow.is_to_be_announced() {
                self.announce(flow.id);
            }
            match flow.help(now_ns) {
                Some(next_ns) => wake_ns = wake_ns.min(next_ns),
                None => self.let_go_of_receiving(flow),
            }
            if !flow.has_wire() {
                self.note_end_of_wire(flow.id.number);
            }
        }
        // A millisecond is what the protocol's timers know.
        Duration::from_nanos(wake_ns.saturating_sub(now_ns)).max(Duration::from_millis(1))
    }

    /// Tells that it is over, and lets go of it when its port may go back to the agent's, or is not
    /// there any more.
    fn let_go_of_sending(&self, flow: &Arc<SendingFlow>, now_ns: u64) {
        if let Some((reason, unconfirmed)) = flow.take_end() {
            // So that its port waits for that before it sends more.
            self.announce(flow.id);
            self.say_ended(flow.id.number, reason, unconfirmed);
        }
        if !flow.has_returned(now_ns) && self.is_still_open(&flow.id.port) {
            return;
        }
        let mut state = self.lock();
        state.sending.retain(|other| !Arc::ptr_eq(other, flow));
        // It may be asked for again.
        state
            .asked
            .remove(&(flow.id.port.index.0, flow.host.port.index.0));
        state.wired.remove(&flow.id.number);
        state.refused.remove(&flow.id.number);
        state.connections.remove(&flow.id.number);
        drop(state);
        self.announce(flow.id);
    }

    fn let_go_of_receiving(&self, flow: &Arc<ReceivingFlow>) {
        let mut state = self.lock();
        state.receiving.retain(|end| !Arc::ptr_eq(&end.flow, flow));
        state.wired.remove(&flow.id.number);
        state.refused.remove(&flow.id.number);
        drop(state);
        // First: what comes by the agent when it knows of the end finds a port that takes what is
        // left of the flow before.
        self.announce(flow.id);
        if let Some(reason) = flow.over() {
            self.say_ended(flow.id.number, reason, 0);
        }
    }

    fn say_ended(&self, flow: u32, reason: String, unconfirmed: u32) {
        let reason: String = reason.chars().take(200).collect();
        self.tell(&FromProcess::Ended {
            flow,
            reason,
            unconfirmed,
        });
    }
}

/// On the wires of these flows; `None`: they have none. An error: this process can open no more
/// files, say, and some wire is not watched.
fn watch_wires(flows: &[Arc<SendingFlow>]) -> io::Result<Option<Watch>> {
    if !flows.iter().any(|flow| flow.has_wire()) {
        return Ok(None);
    }
    let watch = Watch::new()?;
    flows.iter().try_for_each(|flow| flow.watch_wire(&watch))?;
    Ok(Some(watch))
}
