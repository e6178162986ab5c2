//! A channel's messages from the other host: read into slots of this pool, published, acknowledged.
//!
//! The thread that accepted the data connection carries it ([`carry`]). Never acknowledges what
//! this pool has not taken over, never believes a number of the other side.

mod carry;
mod publishers;
mod requests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hythe_node::monotonic_ns;

pub(super) use self::carry::run;
use self::publishers::Publishers;
use super::requests::RemoteClient;
use super::window::window_of;
use super::{Session, lock};
use crate::carrier::ConnectionSender;
use crate::error::ClusterError;
use crate::frame::{EndKind, Opening, Want};
use crate::status::{ChannelState, ChannelStatus, Direction, FlowCopies};
use crate::stream::Incoming;

/// Each payload byte is copied once: from what the carrier received into a slot.
pub(super) const COPIES: u32 = 1;

/// A publisher that goes over to a flow has done so after that, or does not.
const HASTE: Duration = Duration::from_secs(1);

/// A stream from the other host.
#[derive(Debug)]
pub(super) struct ReceivingStream {
    opening: Opening,
    /// Of whoever reads its connection, as long as it does.
    incoming: Mutex<Incoming>,
    publishers: Mutex<Publishers>,
    /// Of a stream of requests, once one has come.
    client: Mutex<Option<Arc<RemoteClient>>>,
    /// Dropped, it closes the connection.
    closer: Mutex<Option<Box<dyn ConnectionSender>>>,
    /// The one on this channel before it, if its reader has to finish first.
    earlier: Mutex<Option<Arc<ReceivingStream>>>,
    has_ended: AtomicBool,
    /// It ended when no publisher was left.
    ended_quietly: AtomicBool,
    /// Its last frame has come.
    is_complete: AtomicBool,
    /// Of a stream before it, of an agent that has ended, nobody knows what is missing: to be told
    /// with the first frame.
    follows_interrupted: AtomicBool,
    /// The other side may not send it any more.
    is_barred: AtomicBool,
    /// Someone waits for acknowledgements until then ([`monotonic_ns`]).
    hasty_until_ns: AtomicU64,
    /// The frame that subscribers held up last, and since when: also over several connections.
    held_up: Mutex<Option<(u64, Instant)>>,
    messages: AtomicU64,
    payload_bytes: AtomicU64,
}

impl ReceivingStream {
    pub(super) fn new(
        session: &Session,
        opening: &Opening,
        want: &Want,
        earlier: Option<Arc<Self>>,
    ) -> Result<Self, ClusterError> {
        let node = session.node()?;
        let follows_interrupted = opening.kind == EndKind::Publish
            && session
                .record
                .take_interrupted(&opening.channel, session.their_number);
        let (window, payload_bytes_max) = window_of(node.pool(), want.depth);
        Ok(Self {
            opening: opening.clone(),
            incoming: Mutex::new(Incoming::new(window, payload_bytes_max)),
            publishers: Mutex::new(Publishers::new(node, opening, want.history)),
            client: Mutex::default(),
            closer: Mutex::default(),
            earlier: Mutex::new(earlier),
            has_ended: AtomicBool::new(false),
            ended_quietly: AtomicBool::new(false),
            is_complete: AtomicBool::new(false),
            follows_interrupted: AtomicBool::new(follows_interrupted),
            is_barred: AtomicBool::new(false),
            hasty_until_ns: AtomicU64::new(0),
            held_up: Mutex::default(),
            messages: AtomicU64::new(0),
            payload_bytes: AtomicU64::new(0),
        })
    }

    pub(super) const fn number(&self) -> u32 {
        self.opening.stream
    }

    /// Since when subscribers hold the frame with this number up, which they do.
    fn held_up_since(&self, sequence: u64) -> Instant {
        let mut held_up = lock(&self.held_up);
        let known = held_up.filter(|(frame, _)| *frame == sequence);
        held_up
            .insert(known.unwrap_or((sequence, Instant::now())))
            .1
    }

    /// From now on, and for a while, each frame is acknowledged when it is taken.
    pub(super) fn acknowledge_at_once(&self) {
        let until_ns = monotonic_ns() + HASTE.as_nanos() as u64;
        self.hasty_until_ns.store(until_ns, Ordering::Relaxed);
    }

    fn is_hasty(&self) -> bool {
        let until_ns = self.hasty_until_ns.load(Ordering::Relaxed);
        until_ns > 0 && monotonic_ns() < until_ns
    }

    /// Closes its connection, from whatever thread.
    pub(super) fn close(&self) {
        drop(lock(&self.closer).take());
    }

    /// The right to send it is gone: takes nothing more, whatever the other side goes on with.
    pub(super) fn bar(&self) {
        self.is_barred.store(true, Ordering::Release);
        self.close();
        // Whoever reads a connection ends it; between two of them there is nobody.
        if let Ok(_reader) = self.incoming.try_lock() {
            self.end();
        }
    }

    pub(super) fn is_barred(&self) -> bool {
        self.is_barred.load(Ordering::Acquire)
    }

    /// Has its last frame come, so that nothing of it is missing?
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Waits until the one before it has finished: its messages come first.
    fn wait_for_earlier(&self) {
        let earlier = lock(&self.earlier).take();
        if let Some(earlier) = earlier {
            earlier.close();
            let reader = lock(&earlier.incoming);
            earlier.end();
            drop(reader);
        }
    }

    /// Has each publisher of it closed?
    pub(super) fn is_quiet(&self) -> bool {
        match self.has_ended() {
            true => self.ended_quietly.load(Ordering::Acquire),
            false => lock(&self.publishers).are_none(),
        }
    }

    fn end(&self) {
        let mut publishers = lock(&self.publishers);
        if !self.has_ended() {
            let were_none = publishers.are_none();
            self.ended_quietly.store(were_none, Ordering::Release);
        }
        publishers.close_all();
        drop(publishers);
        drop(lock(&self.client).take());
        self.has_ended.store(true, Ordering::Release);
    }

    /// There are other subscribers than before: they get the history. False: not at the moment.
    pub(super) fn show_new_subscribers(&self, history: u32) -> bool {
        // Who publishes connects to them as well, and may wait for others of them.
        let Ok(mut publishers) = self.publishers.try_lock() else {
            return false;
        };
        publishers.show_new_subscribers(history);
        true
    }

    pub(super) fn status(&self) -> ChannelStatus {
        ChannelStatus {
            channel: self.opening.channel.clone(),
            kind: self.opening.kind,
            direction: Direction::Receiving,
            state: ChannelState::Open,
            reason: String::new(),
            messages: self.messages.load(Ordering::Relaxed),
            payload_bytes: self.payload_bytes.load(Ordering::Relaxed),
            credit: None,
            carrier: String::new(),
            why_not_better: String::new(),
            flows: 0,
            not_taken: 0,
            flow_copies: FlowCopies::default(),
        }
    }
}
