//! One flow of this process, as its port and the thread of the session share it.
//!
//! Each has a lock of its own, which nobody holds over a wait: the port takes it for every message,
//! the thread only where the port has not been there for a while.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hythe_node::hop::Unconfirmed;
use hythe_node::{RegionIndex, Sample, monotonic_ns};
use hythe_pool::{MemberInfo, PortInfo};
use hythe_wire::WireStatistics;
use rustix::event::PollFlags;

use crate::frames::FrameSocket;
use crate::position::Position;
use crate::queue::Entry;
use crate::tcp::{Pipe, TcpReceiving, TcpSending, Until};
use crate::watch::Watch;

/// The thread acts in the place of a port that was not there for so long.
const NEGLECT_NS: u64 = 5_000_000;
/// Acknowledgements are looked for this often, where nothing else makes it.
const TURN_NS: u64 = 1_000_000;
/// The port of a flow that broke goes back to the agent's at the latest after so long: the agent
/// waits half of it for the other host.
const RETURN_BOUND_NS: u64 = 10_000_000_000;

/// What a publisher sent before its flow ended may be on its way for so long.
const GRACE_NS: u64 = 100_000_000;
/// And what has arrived may wait for a slot for so long.
const ENDING_NS: u64 = 4_000_000_000;

/// No region has this number.
const NO_CARD: u8 = u8::MAX;

/// Which flow, and of which port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowId {
    pub(crate) number: u32,
    /// As it was when the flow was asked for: numbers of ports are used again.
    pub(crate) port: PortInfo,
}

/// The other host, as the pool of a publisher has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostEnd {
    /// The agent's port that is not sent to any more, as it was when the flow began.
    pub(crate) port: PortInfo,
    /// The participant that stands for the host. A later one has the same name.
    pub(crate) name: String,
}

/// The end of a publisher.
#[derive(Debug)]
pub(crate) struct SendingFlow {
    pub(crate) id: FlowId,
    pub(crate) host: HostEnd,
    pub(crate) block_ms: u32,
    pub(crate) message_bytes_max: u32,
    /// The region from which messages are best sent; [`NO_CARD`]: there is none.
    card: AtomicU8,
    /// Something is to be sent when more has come back: the thread waits for that.
    is_held_up: AtomicBool,
    state: Mutex<Outbound>,
}

#[derive(Debug)]
struct Outbound {
    half: TcpSending,
    turned_ns: u64,
    /// When the port was last there.
    touched_ns: u64,
    /// What the publisher sent before by the agent's port has arrived.
    may_go: bool,
    /// It ends when nothing is under way and its port has left it: so what a port sends before it
    /// knows is sent, too.
    is_finishing: bool,
    has_left: bool,
    /// Its port was told to look, and the agent that it is over.
    is_announced: bool,
    is_told: bool,
    /// Why it is over; empty: it was finished.
    over: Option<String>,
    over_ns: u64,
    /// It is over, and what its port sends by the agent does not overtake what was sent here.
    may_return: bool,
    /// Since when no agent looks after it.
    alone_since_ns: Option<u64>,
    /// Messages that were under way then, for the agent; and what was lost, until the port asks.
    lost: u32,
    unconfirmed: Unconfirmed,
}

/// How a flow is behind a flush.
pub(crate) enum Flushed {
    Open,
    /// It has just begun to wait for what comes back: the thread is to look after it.
    HeldUp,
    Over,
}

/// What came of a message.
pub(crate) enum Pushed {
    Taken,
    Full(Sample),
    Over(Sample),
}

impl SendingFlow {
    pub(crate) fn new(
        id: FlowId,
        host: HostEnd,
        (block_ms, message_bytes_max): (u32, u32),
        half: TcpSending,
    ) -> Self {
        Self {
            id,
            host,
            block_ms,
            message_bytes_max,
            card: AtomicU8::new(card_number(&half)),
            is_held_up: AtomicBool::new(false),
            state: Mutex::new(Outbound {
                half,
                turned_ns: 0,
                touched_ns: 0,
                may_go: false,
                is_finishing: false,
                has_left: false,
                is_announced: false,
                is_told: false,
                over: None,
                over_ns: 0,
                may_return: false,
                alone_since_ns: None,
                lost: 0,
                unconfirmed: Unconfirmed::default(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outbound> {
        // What is in there is whole after each call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message, which leaves with the next [`flush`](Self::flush).
    pub(crate) fn push(&self, now_ns: u64, sample: Sample) -> Pushed {
        let mut state = self.lock();
        state.touched_ns = now_ns;
        let sample = match state.push(sample) {
            Pushed::Full(sample) => sample,
            pushed => return pushed,
        };
        state.turn(now_ns);
        state.push(sample)
    }

    /// Sends what may leave.
    pub(crate) fn flush(&self, now_ns: u64) -> Flushed {
        let mut state = self.lock();
        // Relaxed: a hint for who leases the next message.
        let card = card_number(&state.half);
        self.card.store(card, Ordering::Relaxed);
        let is_due = now_ns.saturating_sub(state.turned_ns) >= TURN_NS;
        if !is_due && state.may_go && state.over.is_none() {
            state.half.flush(now_ns);
        }
        // What is held up goes on with what has come back, if that is there already.
        if is_due && state.may_go || state.is_held_up() {
            state.turn(now_ns);
        }
        if state.is_closed() {
            return Flushed::Over;
        }
        let is_held_up = state.is_held_up();
        match is_held_up && !self.is_held_up.swap(true, Ordering::SeqCst) {
            true => Flushed::HeldUp,
            false => Flushed::Open,
        }
    }

    /// Is it to be turned when something has come back?
    pub(crate) fn is_held_up(&self) -> bool {
        self.is_held_up.load(Ordering::SeqCst)
    }

    /// For so long the port was not there.
    pub(crate) fn neglected_ns(&self, now_ns: u64) -> u64 {
        let state = self.state.try_lock();
        state.map_or(0, |state| now_ns.saturating_sub(state.touched_ns))
    }

    /// When a turn is due at the latest.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        let state = self.state.try_lock();
        state.ok().and_then(|state| state.half.next_wake())
    }

    /// Takes what has come back. Says whether there is free capacity, or the flow is over.
    pub(crate) fn has_place(&self, now_ns: u64) -> bool {
        let mut state = self.lock();
        state.touched_ns = now_ns;
        state.turn(now_ns);
        state.over.is_some() || !state.half.is_full()
    }

    /// Does in the port's place what is due. When to ask again; `None`: it is over.
    pub(crate) fn help(&self, now_ns: u64) -> Option<u64> {
        let Ok(mut state) = self.state.try_lock() else {
            return Some(now_ns + NEGLECT_NS);
        };
        let alone_ns = state.touched_ns + NEGLECT_NS;
        if self.is_held_up() || state.is_finishing || now_ns >= alone_ns {
            state.turn(now_ns);
            let is_held_up = state.is_held_up();
            self.is_held_up.store(is_held_up, Ordering::SeqCst);
        }
        state.over.is_none().then_some(())?;
        let wake_ns = state.half.next_wake().unwrap_or(u64::MAX);
        Some(wake_ns.max(alone_ns))
    }

    pub(crate) fn go(&self, now_ns: u64) {
        let mut state = self.lock();
        state.may_go = true;
        state.turn(now_ns);
    }

    pub(crate) fn finish(&self, now_ns: u64) {
        let mut state = self.lock();
        state.is_finishing = true;
        state.turn(now_ns);
    }

    /// Its port sends nothing more.
    pub(crate) fn leave(&self, now_ns: u64) {
        let mut state = self.lock();
        (state.is_finishing, state.has_left) = (true, true);
        state.turn(now_ns);
    }

    /// No agent looks after it any more. One of which the first message waits for what went by the
    /// agent is over: nobody says when that has arrived.
    pub(crate) fn go_alone(&self, now_ns: u64) {
        let mut state = self.lock();
        match state.may_go && state.over.is_none() {
            true => {
                state.alone_since_ns.get_or_insert(now_ns);
            }
            false => {
                state.end(now_ns, "the agent of this host is gone");
                state.may_return = true;
            }
        }
    }

    /// For how long no agent has looked after it, if none does.
    pub(crate) fn alone_ns(&self, now_ns: u64) -> Option<u64> {
        let since_ns = self.lock().alone_since_ns;
        since_ns.map(|since_ns| now_ns.saturating_sub(since_ns))
    }

    pub(crate) fn is_finishing(&self) -> bool {
        let state = self.lock();
        state.is_finishing && state.over.is_none()
    }

    /// Is it over, and may its port not go back yet?
    pub(crate) fn is_breaking(&self) -> bool {
        let state = self.lock();
        state.over.is_some() && !state.may_return
    }

    /// It is over, and the other host takes nothing of it any more.
    pub(crate) fn let_return(&self) {
        let mut state = self.lock();
        state.may_return = state.over.is_some();
    }

    /// Is nothing left to wait for? An agent that does not say so is waited for in bounds.
    pub(crate) fn has_returned(&self, now_ns: u64) -> bool {
        let mut state = self.lock();
        if state.over.is_some() && now_ns.saturating_sub(state.over_ns) >= RETURN_BOUND_NS {
            state.may_return = true;
        }
        state.may_return
    }

    /// Is its port to leave it? It takes what that sends before it does.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed()
    }

    /// As [`is_closed`](Self::is_closed), with a look at what has come back.
    pub(crate) fn has_finished(&self, now_ns: u64) -> bool {
        let mut state = self.lock();
        state.turn(now_ns);
        state.is_closed()
    }

    /// Is its port to be told to look? Once.
    pub(crate) fn is_to_be_announced(&self) -> bool {
        let mut state = self.lock();
        let is_new = state.is_closed() && !state.is_announced;
        state.is_announced |= is_new;
        is_new
    }

    pub(crate) fn end(&self, now_ns: u64, reason: &str) {
        self.lock().end(now_ns, reason);
    }

    /// Why it is over, and how many messages are unconfirmed: once.
    pub(crate) fn take_end(&self) -> Option<(String, u32)> {
        let mut state = self.lock();
        let reason = state.over.clone()?;
        let is_new = !std::mem::replace(&mut state.is_told, true);
        is_new.then_some((reason, state.lost))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().over.is_some()
    }

    /// May messages arrive that have not yet?
    pub(crate) fn is_under_way(&self) -> bool {
        let state = self.lock();
        state.over.is_none() && state.half.unaccepted() > 0
    }

    /// Is there a socket past the kernel's protocols?
    pub(crate) fn has_wire(&self) -> bool {
        let state = self.lock();
        state.half.frames().is_some_and(FrameSocket::has_wire)
    }

    /// As of [`FrameSocket::watch`].
    pub(crate) fn watch_wire(&self, watch: &Watch) -> io::Result<()> {
        let state = self.lock();
        let frames = state.half.frames();
        frames.map_or(Ok(()), |frames| frames.watch(watch))
    }

    /// The region from which messages are best sent, as of the last flush.
    pub(crate) fn card(&self) -> Option<RegionIndex> {
        let number = self.card.load(Ordering::Relaxed);
        (number != NO_CARD).then_some(RegionIndex(number))
    }

    /// What it has done by that socket.
    pub(crate) fn wire_statistics(&self) -> WireStatistics {
        let state = self.lock();
        let frames = state.half.frames();
        frames.map_or(WireStatistics::default(), FrameSocket::statistics)
    }

    /// Does something with its sockets for frames, if it has any.
    pub(crate) fn with_frames(&self, work: impl FnOnce(&mut FrameSocket)) {
        if let Some(frames) = self.lock().half.frames_mut() {
            work(frames);
        }
    }

    /// The socket to poll while something is unsent, unless the port is in a call.
    pub(crate) fn awaited(&self) -> Option<(Arc<OwnedFd>, PollFlags)> {
        self.state.try_lock().ok()?.half.awaited()
    }

    /// Is it open, and has its TCP connection broken?
    pub(crate) fn needs_connection(&self) -> bool {
        let state = self.lock();
        state.over.is_none() && state.half.is_broken()
    }

    /// Continues by another TCP connection.
    pub(crate) fn resume(&self, now_ns: u64, pipe: Pipe, position: Position) {
        let mut state = self.lock();
        match state.half.resume(now_ns, pipe, position) {
            Ok(()) => state.turn(now_ns),
            Err(reason) => state.end(now_ns, &reason),
        }
        self.is_held_up.store(state.is_held_up(), Ordering::SeqCst);
    }

    pub(crate) fn take_unconfirmed(&self) -> Unconfirmed {
        std::mem::take(&mut self.lock().unconfirmed)
    }
}

fn card_number(half: &TcpSending) -> u8 {
    half.region().map_or(NO_CARD, |region| region.0)
}

impl Outbound {
    fn turn(&mut self, now_ns: u64) {
        if self.over.is_some() {
            self.half.free_returned();
            return;
        }
        self.turned_ns = now_ns;
        let turned = match self.may_go {
            true => self.half.turn(now_ns),
            false => Ok(()),
        };
        if let Err(reason) = turned {
            self.end(now_ns, &reason);
        } else if self.has_left && self.is_closed() {
            if self.alone_since_ns.is_some() {
                // No agent says so.
                self.half.say_end(now_ns);
            }
            self.end(now_ns, "");
        }
    }

    fn push(&mut self, sample: Sample) -> Pushed {
        if self.over.is_none() {
            return match self.half.push(sample) {
                Ok(()) => Pushed::Taken,
                Err(sample) => Pushed::Full(sample),
            };
        }
        // Whoever receives is told by its successor that it is missing.
        self.unconfirmed.dropped += 1;
        Pushed::Over(sample)
    }

    fn is_held_up(&self) -> bool {
        self.may_go && self.over.is_none() && self.half.has_unsent()
    }

    fn is_closed(&self) -> bool {
        match self.over {
            Some(_) => self.may_return,
            None if self.has_left => self.half.is_delivered(),
            None => self.is_finishing && self.half.unaccepted() == 0,
        }
    }

    fn end(&mut self, now_ns: u64, reason: &str) {
        if self.over.is_none() {
            self.over = Some(reason.to_owned());
            self.over_ns = now_ns;
            // One whose port has left ends well when everything is at the other host.
            // It fits: within the window, which has 32 bits.
            self.lost = match reason.is_empty() {
                true => 0,
                false => self.half.unaccepted() as u32,
            };
            self.unconfirmed.sent = self.lost;
            // Everything has been taken over: nothing can be overtaken.
            self.may_return = self.lost == 0;
            self.half.release();
        }
    }
}

/// The end of a subscriber.
#[derive(Debug)]
pub(crate) struct ReceivingFlow {
    pub(crate) id: FlowId,
    /// The participant that stands for the publisher's host, as it was when the flow began.
    pub(crate) host: MemberInfo,
    state: Mutex<Inbound>,
}

#[derive(Debug)]
struct Inbound {
    half: Box<TcpReceiving>,
    /// When the socket was last emptied: a port that takes what it has had does not do that.
    turned_ns: u64,
    over: Option<String>,
    /// Since when it is to end, and why.
    ending: Option<(u64, String)>,
    /// As of [`Outbound`].
    alone_since_ns: Option<u64>,
    is_finishing: bool,
    /// Its port was told to look for that.
    is_announced: bool,
}

impl ReceivingFlow {
    pub(crate) fn new(id: FlowId, host: MemberInfo, half: TcpReceiving) -> Self {
        Self {
            id,
            host,
            state: Mutex::new(Inbound {
                half: Box::new(half),
                turned_ns: 0,
                over: None,
                ending: None,
                alone_since_ns: None,
                is_finishing: false,
                is_announced: false,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inbound> {
        // As above.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message, or how many are missing before it.
    pub(crate) fn take(&self, now_ns: u64) -> Option<Entry> {
        let mut state = self.lock();
        if let Some(entry) = state.half.take(now_ns) {
            return Some(entry);
        }
        state.turn(now_ns, Until::Message);
        state.half.take(now_ns)
    }

    /// Is there something to take?
    pub(crate) fn is_ready(&self, now_ns: u64) -> bool {
        let mut state = self.lock();
        if state.half.is_empty() {
            state.turn(now_ns, Until::Message);
        }
        !state.half.is_empty() || state.over.is_some()
    }

    /// As of [`SendingFlow::help`].
    pub(crate) fn help(&self, now_ns: u64) -> Option<u64> {
        let Ok(mut state) = self.state.try_lock() else {
            return Some(now_ns + NEGLECT_NS);
        };
        let is_due = now_ns >= state.turned_ns + NEGLECT_NS;
        if is_due {
            state.turn(now_ns, Until::Empty);
        }
        // First: the turn that found its end may not have looked at all that had come.
        state.over.is_none().then_some(())?;
        if is_due && state.half.has_more() {
            return Some(now_ns);
        }
        let wake_ns = state.half.next_wake().unwrap_or(u64::MAX);
        Some(wake_ns.max(state.turned_ns + NEGLECT_NS))
    }

    /// When somebody who waits for it is to look again at the latest, if it is to be at all. That
    /// look finds what has come whichever way: behind it is a sleep.
    pub(crate) fn next_look(&self) -> Option<u64> {
        let mut state = self.lock();
        state.half.prepare_sleep(monotonic_ns());
        match state.half.has_more() && state.over.is_none() {
            true => Some(0),
            false => state.half.next_wake(),
        }
    }

    /// As of [`SendingFlow::has_wire`].
    pub(crate) fn has_wire(&self) -> bool {
        let state = self.lock();
        state.half.frames().is_some_and(FrameSocket::has_wire)
    }

    /// As of [`SendingFlow::with_frames`].
    pub(crate) fn with_frames(&self, work: impl FnOnce(&mut FrameSocket)) {
        if let Some(frames) = self.lock().half.frames_mut() {
            work(frames);
        }
    }

    /// Accepts a TCP connection of the publisher. True: there is a new one.
    pub(crate) fn accept(&self, now_ns: u64) -> bool {
        let mut state = self.lock();
        state.over.is_none() && state.half.accept(now_ns)
    }

    /// Sockets that become readable when [`accept`](Self::accept) has something to do.
    pub(crate) fn listening(&self) -> Vec<Arc<OwnedFd>> {
        let state = self.lock();
        match state.over {
            None => state.half.listening().collect(),
            Some(_) => Vec::new(),
        }
    }

    /// Is there no TCP connection, where there is to be one?
    pub(crate) fn is_disconnected(&self) -> bool {
        self.lock().half.is_disconnected()
    }

    /// Another descriptor of its TCP connection.
    pub(crate) fn descriptor(&self) -> Option<io::Result<OwnedFd>> {
        let state = self.lock();
        state.half.pipe().map(Pipe::descriptor)
    }

    /// Ends it: nobody would take what arrives.
    pub(crate) fn cut(&self, reason: &str) {
        self.lock().over.get_or_insert_with(|| reason.to_owned());
    }

    /// Ends it when what has arrived is received.
    pub(crate) fn end(&self, now_ns: u64, reason: &str) {
        let mut state = self.lock();
        state
            .ending
            .get_or_insert_with(|| (now_ns, reason.to_owned()));
        state.turn(now_ns, Until::Empty);
    }

    /// As of [`SendingFlow::go_alone`].
    pub(crate) fn go_alone(&self, now_ns: u64) {
        self.lock().alone_since_ns.get_or_insert(now_ns);
    }

    /// As of [`SendingFlow::alone_ns`].
    pub(crate) fn alone_ns(&self, now_ns: u64) -> Option<u64> {
        let since_ns = self.lock().alone_since_ns;
        since_ns.map(|since_ns| now_ns.saturating_sub(since_ns))
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.lock().alone_since_ns.is_some()
    }

    /// Its publisher is to go on by the agents.
    pub(crate) fn finish(&self) {
        self.lock().is_finishing = true;
    }

    pub(crate) fn is_finishing(&self) -> bool {
        self.lock().is_finishing
    }

    /// As of [`SendingFlow::is_to_be_announced`].
    pub(crate) fn is_to_be_announced(&self) -> bool {
        let mut state = self.lock();
        let is_new = state.is_finishing && !state.is_announced;
        state.is_announced |= is_new;
        is_new
    }

    /// As of [`TcpReceiving::drain`].
    pub(crate) fn drain(&self, now_ns: u64) {
        self.lock().half.drain(now_ns);
    }

    pub(crate) fn over(&self) -> Option<String> {
        self.lock().over.clone()
    }

    /// Nothing more comes; and is everything taken?
    pub(crate) fn has_ended(&self) -> (bool, bool) {
        let state = self.lock();
        (state.over.is_some(), state.half.is_empty())
    }
}

impl Inbound {
    fn turn(&mut self, now_ns: u64, until: Until) {
        if self.over.is_some() {
            return;
        }
        self.turned_ns = now_ns;
        if let Err(reason) = self.half.turn(now_ns, until) {
            self.over = Some(reason);
        } else if self.half.has_ended() {
            self.over = Some(String::new());
        }
        if let Some((since_ns, reason)) = &self.ending {
            let waited_ns = now_ns.saturating_sub(*since_ns);
            // What was sent just before may be on its way until the grace is over.
            let is_exhausted = self.half.is_disconnected()
                || waited_ns >= GRACE_NS && !self.half.has_more() && !self.half.lacks_slot();
            if is_exhausted || waited_ns >= ENDING_NS {
                self.over.get_or_insert_with(|| reason.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use hythe_node::hop::HopPool as _;
    use hythe_node::{PortPolicy, Subscriber, SubscriberOptions};

    use super::*;
    use crate::fixture::{self, Fixture, UNREACHABLE_NS, message};

    /// A subscriber's end, its port, and the publisher's end.
    fn receiving(fixture: &Fixture) -> (ReceivingFlow, Subscriber, TcpStream) {
        let limits = (64, PortPolicy::Block { timeout_ms: 1 });
        let (half, stream) = fixture::receiving(fixture, limits, 64);
        let options = SubscriberOptions::default();
        let subscriber = fixture.node.subscriber("channel", &options).expect("opens");
        let tables = fixture.participant().pool().control().tables();
        let port = tables.ports().next().expect("open");
        let id = FlowId { number: 1, port };
        let member = tables.member(port.member).expect("there");
        let flow = ReceivingFlow::new(id, member, half);
        (flow, subscriber, stream)
    }

    #[test]
    fn slow_port_acknowledges_in_bounded_time() {
        let fixture = Fixture::new();
        let (flow, _port, mut peer) = receiving(&fixture);
        let mut now_ns = 10 * NEGLECT_NS;
        let send = |peer: &mut TcpStream, numbers: std::ops::Range<u64>| {
            let bytes: Vec<u8> = numbers.flat_map(|number| message(number, &[1])).collect();
            peer.write_all(&bytes).expect("sent");
        };
        send(&mut peer, 0..10);
        // As if its thread had been there once: ten messages wait in the queue.
        hythe_testing::eventually("they arrive", || {
            now_ns += NEGLECT_NS;
            flow.help(now_ns);
            !flow.has_ended().1
        });
        send(&mut peer, 10..26);
        for _ in 0..4 {
            // More often than what counts as neglect.
            now_ns += NEGLECT_NS / 2;
            assert!(matches!(flow.take(now_ns), Some(Entry::Sample(..))));
            flow.help(now_ns);
        }
        let mut acknowledgement = [0; 16];
        peer.read_exact(&mut acknowledgement).expect("sent");
        assert_ne!(acknowledgement[..8], [0; 8]);
    }

    #[test]
    fn flow_that_is_over_is_let_go_of_though_message_is_incomplete() {
        let fixture = Fixture::new();
        let (flow, _port, mut peer) = receiving(&fixture);
        let mut now_ns = 10 * NEGLECT_NS;
        peer.write_all(&message(0, &[1; 2_000])[..1_000])
            .expect("sent");
        drop(peer);
        hythe_testing::eventually("its connection is broken", || {
            now_ns += NEGLECT_NS;
            flow.help(now_ns).expect("not over yet");
            flow.is_disconnected()
        });
        let late_ns = now_ns + UNREACHABLE_NS;
        assert_eq!(flow.help(late_ns), None, "{:?}", flow.over());
        assert_eq!(flow.help(late_ns + NEGLECT_NS), None);
        assert!(flow.over().is_some_and(|why| !why.is_empty()));
    }
}
