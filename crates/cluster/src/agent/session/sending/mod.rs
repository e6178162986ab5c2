//! A channel's messages to the other host: taken from a subscriber's queue, sent from their slots,
//! held until they are acknowledged.
//!
//! One thread for each stream ([`carry`]); `acknowledged` is called by that of the control
//! connection. Never copies payload, never holds more than the window.

mod carry;
mod leaving;
mod messages;
mod publishers;
mod requests;
mod source;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hythe_node::Sample;

use self::leaving::{CountedByFlows, LeavingPublishers};
pub(crate) use self::leaving::{FlowPublisher, Leaving};
use self::messages::Messages;
use self::publishers::PublisherNumbers;
use super::{Session, lock, share};
use crate::agent::context::Context;
use crate::carrier::{ConnectionReceiver, Received};
use crate::error::ClusterError;
use crate::frame::{Header, NotTaken, Opening, Want, Window};
use crate::status::{ChannelState, ChannelStatus, Credit, Direction, FlowCopies};
use crate::stream::Outgoing;

/// What is granted before the other side has said anything.
const NOTHING: Window = Window {
    frames: 0,
    bytes: 0,
};

/// How a stream is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    /// Not at all.
    No = 0,
    /// Nobody sends any more: when all is sent.
    WhenEmpty = 1,
    /// The channel carries something else: at once, and it is opened anew.
    Reopen = 2,
    /// Nobody wants it: at once.
    Now = 3,
}

/// A stream to the other host.
#[derive(Debug)]
pub(super) struct SendingStream {
    context: Arc<Context>,
    /// Number of its session.
    session: u64,
    opening: Opening,
    /// Of its port; a stronger one is wanted where the second says so.
    want: Mutex<Want>,
    has_stronger: AtomicBool,
    outgoing: Mutex<Outgoing<Held>>,
    stop: AtomicU8,
    /// Its port was opened beforehand, and the other side has not said yet whether it accepts it.
    is_early: AtomicBool,
    /// Its thread waits until something is acknowledged.
    waits_for_credit: AtomicBool,
    /// Dropped, it closes the connection.
    closer: Mutex<Option<Box<dyn ConnectionReceiver>>>,
    publishers: Mutex<PublisherNumbers>,
    leaving: LeavingPublishers,
    counted: CountedByFlows,
    state: Mutex<State>,
    /// Messages that the other side has not taken, and why not the last.
    not_taken: Mutex<(u64, Option<NotTaken>)>,
    messages: AtomicU64,
    payload_bytes: AtomicU64,
}

/// What is held for a frame until it is acknowledged.
#[derive(Debug)]
struct Held {
    header: Header,
    /// `None` for frames without payload.
    sample: Option<Sample>,
}

#[derive(Debug)]
struct State {
    how: ChannelState,
    reason: String,
    has_ended: bool,
    /// No port could be opened for it beforehand.
    is_without_port: bool,
}

impl SendingStream {
    /// Starts the thread of a stream. With `is_early` its port is open when this returns: what is
    /// published from then on waits until the other side has accepted the stream.
    pub(super) fn start(
        session: &Arc<Session>,
        opening: Opening,
        want: &Want,
        is_early: bool,
    ) -> Result<Arc<Self>, ClusterError> {
        let stream = Arc::new(Self {
            context: Arc::clone(&session.context),
            session: session.number,
            opening,
            want: Mutex::new(want.clone()),
            has_stronger: AtomicBool::new(false),
            outgoing: Mutex::new(Outgoing::new(NOTHING)),
            stop: AtomicU8::new(Stop::No as u8),
            is_early: AtomicBool::new(is_early),
            waits_for_credit: AtomicBool::new(false),
            closer: Mutex::default(),
            publishers: Mutex::default(),
            leaving: LeavingPublishers::default(),
            counted: CountedByFlows::default(),
            state: Mutex::new(State {
                how: ChannelState::Connecting,
                reason: String::new(),
                has_ended: false,
                is_without_port: false,
            }),
            not_taken: Mutex::default(),
            messages: AtomicU64::new(0),
            payload_bytes: AtomicU64::new(0),
        });
        let early = is_early.then(|| Messages::new(session, &stream));
        let early = early.transpose();
        lock(&stream.state).is_without_port = early.is_err();
        let (carried, session) = (Arc::clone(&stream), Arc::clone(session));
        let member = session.threads.enter();
        hythe_sys::wait::spawn("hythe-host-send", move || {
            carry::run(&session, &carried, early);
            session.note_change();
            drop(member);
        })?;
        Ok(stream)
    }

    pub(super) const fn number(&self) -> u32 {
        self.opening.stream
    }

    /// Would a message that is published now wait for the other side to accept the stream?
    pub(super) fn is_early(&self) -> bool {
        self.is_early.load(Ordering::Acquire)
    }

    /// It has been accepted, or nothing waits for that any more.
    fn end_early(&self, session: &Session) {
        if self.is_early.swap(false, Ordering::AcqRel) {
            session.note_change();
        }
    }

    /// What its port is for, or the one that it is to have.
    fn want(&self) -> Want {
        lock(&self.want).clone()
    }

    /// The other side wants this, too: a stronger port is opened beside the one that there is, if
    /// that does not do for both.
    pub(super) fn strengthen(&self, session: &Session, wanted: &Want) {
        let mut want = lock(&self.want);
        if want.include(wanted) {
            self.has_stronger.store(true, Ordering::Release);
            drop(want);
            session.wake();
        }
    }

    /// What the next port is for, if one is to be opened. While publishers send by flows in the
    /// place of the port that there is, none is: they would send to both.
    fn take_stronger(&self) -> Option<Want> {
        let has_flows = || {
            self.context
                .flows
                .are_on(self.session, &self.opening.channel)
        };
        if !self.has_stronger.load(Ordering::Acquire) || has_flows() {
            return None;
        }
        let is_to_be = self.has_stronger.swap(false, Ordering::Acquire);
        is_to_be.then(|| self.want())
    }

    /// A publisher has left its port, and sends by a flow as soon as what it sent has arrived.
    /// False: the stream is over.
    pub(super) fn leave(&self, leaving: Leaving) -> bool {
        self.leaving.add(leaving);
        !self.has_ended()
    }

    /// A publisher that goes back to its port tells so many messages that are counted already.
    pub(super) fn expect_missing(&self, publisher: FlowPublisher, messages: u32) {
        self.counted.add(publisher, messages);
    }

    /// Has the flows begin for which everything has arrived.
    fn tell_arrived(&self) {
        if self.leaving.is_some() {
            let acknowledged = lock(&self.outgoing).acknowledged();
            for flow in self.leaving.take_arrived(acknowledged) {
                self.context.flows.arrived(flow);
            }
        }
    }

    /// The other side has taken all frames up to this one.
    pub(super) fn acknowledged(&self, session: &Session, through: u64) -> Result<(), ClusterError> {
        lock(&self.outgoing).acknowledge(through, drop)?;
        self.tell_arrived();
        // Relaxed suffices: its thread sets the flag before it looks under the same lock.
        if self.waits_for_credit.load(Ordering::Relaxed) {
            session.wake();
        }
        Ok(())
    }

    /// The other side has not taken so many messages, and has counted them.
    pub(super) fn not_taken(&self, messages: u32, why: NotTaken) {
        let mut not_taken = lock(&self.not_taken);
        // Whatever it says: no more than were sent.
        let sent = self.messages.load(Ordering::Relaxed);
        let all = not_taken.0.saturating_add(messages.into()).min(sent);
        *not_taken = (all, Some(why));
    }

    /// Ends it so; a stronger reason than one before counts.
    pub(super) fn stop(&self, stop: Stop) {
        self.stop.fetch_max(stop as u8, Ordering::AcqRel);
    }

    fn stopping(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::No,
            1 => Stop::WhenEmpty,
            2 => Stop::Reopen,
            _ => Stop::Now,
        }
    }

    /// Somebody sends on the channel: a stream that was to end when all is sent goes on.
    pub(super) fn go_on(&self) {
        let (when_empty, no) = (Stop::WhenEmpty as u8, Stop::No as u8);
        // Whoever ends it otherwise meanwhile wins.
        let (new, seen) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.stop.compare_exchange(when_empty, no, new, seen);
    }

    /// Closes its connection, from whatever thread.
    pub(super) fn close(&self) {
        drop(lock(&self.closer).take());
    }

    /// Is the connection open at the other end? What was sent into one that is not is not
    /// acknowledged, and where nothing more is sent nothing else would say so.
    pub(super) fn check_connection(&self) -> Result<(), ClusterError> {
        match lock(&self.closer).as_mut() {
            Some(receiver) => match receiver.receive(Duration::ZERO)? {
                Received::Nothing => Ok(()),
                Received::Closed => Err(ClusterError::Closed),
                Received::Bytes(_) => {
                    let what = "bytes behind the answer to a stream".to_owned();
                    Err(ClusterError::Unexpected(what))
                }
            },
            None => Err(ClusterError::Closed),
        }
    }

    fn say(&self, how: ChannelState, reason: &str) {
        let mut state = lock(&self.state);
        state.how = how;
        reason.clone_into(&mut state.reason);
    }

    pub(super) fn has_ended(&self) -> bool {
        lock(&self.state).has_ended
    }

    /// Why it ended before it was to.
    pub(super) fn failure(&self) -> Option<String> {
        let state = lock(&self.state);
        let failed = state.has_ended && !state.reason.is_empty();
        failed.then(|| state.reason.clone())
    }

    /// Did it end because no port could be opened for it?
    pub(super) fn is_without_port(&self) -> bool {
        lock(&self.state).is_without_port
    }

    pub(super) fn status(&self) -> ChannelStatus {
        let (how, mut reason) = {
            let state = lock(&self.state);
            (state.how, state.reason.clone())
        };
        let (not_taken, why) = *lock(&self.not_taken);
        if let Some(why) = why.filter(|_| reason.is_empty()) {
            reason = format!("{not_taken} not taken there, the last: {why}");
        }
        let credit = {
            let outgoing = lock(&self.outgoing);
            Credit {
                window: outgoing.window(),
                used: outgoing.in_use(),
            }
        };
        ChannelStatus {
            channel: self.opening.channel.clone(),
            kind: self.opening.kind,
            direction: Direction::Sending,
            state: how,
            reason,
            messages: self.messages.load(Ordering::Relaxed),
            payload_bytes: self.payload_bytes.load(Ordering::Relaxed),
            credit: Some(credit),
            carrier: String::new(),
            why_not_better: String::new(),
            flows: 0,
            not_taken,
            flow_copies: FlowCopies::default(),
        }
    }
}
