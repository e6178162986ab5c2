//! Which streams there are: from what both sides have, want and permit.
//!
//! The watching thread calls [`update`] when the ends of this host may have changed, the thread of
//! the control connection the rest. A stream runs on a thread of its own, and says here how it is.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::events::Events;
use super::receiving::ReceivingStream;
use super::sending::{self, SendingStream};
use super::{Session, lock};
use crate::agent::jobs::is_of_task;
use crate::agent::local::{ChannelKey, LocalEnds, LocalWant};
use crate::error::ClusterError;
use crate::frame::{CarriedType, Control, EndKind, NotTaken, Opening, Want};
use crate::open_files;
use crate::status::{ChannelState, ChannelStatus, Direction, FlowCopies};
use crate::stream::Violation;
use crate::{Refusal, Right};

/// The most channels that a host may want, that may be refused, and that it may have ends on.
pub(super) const CHANNELS_MAX: usize = 4096;
/// How soon a stream that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// A stream of requests outlives its last client by so long: one that comes next finds it, and none
/// meets a port that is just closing, which would cost its request. So does a stream to a task its
/// last sender: tasks that are spawned one after the other need one connection for their answers.
const LINGER: Duration = Duration::from_secs(5);

/// What is known of the channels of a session.
#[derive(Debug, Default)]
pub(super) struct Channels {
    /// What this side has told that it wants.
    told: BTreeMap<ChannelKey, LocalWant>,
    /// What the other side wants.
    theirs: BTreeMap<ChannelKey, Want>,
    /// Why the other side does not get it; told once.
    refused: BTreeMap<ChannelKey, String>,
    /// Why this side does not get what it wants.
    refused_there: BTreeMap<ChannelKey, String>,
    sending: BTreeMap<ChannelKey, Sending>,
    /// Wanted, and a stream has failed: no port is opened before the other side accepts another.
    failed: BTreeSet<ChannelKey>,
    receiving: BTreeMap<ChannelKey, Arc<ReceivingStream>>,
    /// Channels whose events go to the other side.
    events: BTreeSet<String>,
    last_stream: u32,
}

/// A stream to the other side.
#[derive(Debug)]
struct Sending {
    stream: Arc<SendingStream>,
    carries: CarriedType,
    /// When it is tried again, if it failed.
    retry: Option<Instant>,
    /// Since when nobody here sends.
    idle_since: Option<Instant>,
}

/// Tells the other side what is wanted here, and opens and closes what is sent.
pub(super) fn update(session: &Arc<Session>, local: &LocalEnds) -> Result<(), ClusterError> {
    let mut channels = lock(&session.channels);
    channels.bar_refused(session);
    channels.tell_wants(session, local)?;
    channels.close_unwanted(local);
    channels.forget_ended();
    channels.events.clear();
    let theirs: Vec<Want> = channels.theirs.values().cloned().collect();
    for want in theirs {
        channels.open(session, local, want)?;
    }
    let is_event = |key: &&ChannelKey| key.kind == EndKind::Event;
    let wanted = channels.told.keys().filter(is_event);
    let wanted = wanted.map(|key| key.channel.clone()).collect();
    Events::set(session, channels.events.clone(), wanted)
}

/// May the other side have what is sent here? What is asked is answered: that takes both rights.
pub(super) fn may_send(session: &Session, key: &ChannelKey) -> Result<(), Refusal> {
    let (context, host) = (&session.context, &session.record.name);
    context.judge(host, &key.channel, Right::Read)?;
    match key.kind {
        EndKind::Publish | EndKind::Event => Ok(()),
        EndKind::Request | EndKind::Reply => context.judge(host, &key.channel, Right::Write),
    }
}

/// May the other side send what is wanted here?
pub(super) fn may_receive(session: &Session, key: &ChannelKey) -> Result<(), Refusal> {
    let (context, host) = (&session.context, &session.record.name);
    context.judge(host, &key.channel, Right::Write)?;
    match key.kind {
        EndKind::Publish | EndKind::Event => Ok(()),
        EndKind::Request | EndKind::Reply => context.judge(host, &key.channel, Right::Read),
    }
}

impl Channels {
    fn tell_wants(
        &mut self,
        session: &Arc<Session>,
        local: &LocalEnds,
    ) -> Result<(), ClusterError> {
        let permitted = |key: &ChannelKey| may_receive(session, key).is_ok();
        let wants: BTreeMap<_, _> = local
            .wants
            .iter()
            .filter(|(key, _)| permitted(key))
            .take(CHANNELS_MAX)
            .collect();
        let gone: Vec<ChannelKey> = self.told.keys().cloned().collect();
        for key in gone.into_iter().filter(|key| !wants.contains_key(key)) {
            self.told.remove(&key);
            self.refused_there.remove(&key);
            let ChannelKey { kind, channel } = key;
            session.outbox.put(Control::Unwant { kind, channel })?;
        }
        for (key, wanted) in wants {
            let told = self.told.get(key);
            if told.map(|told| &told.want) != Some(&wanted.want) {
                session.outbox.put(Control::Want(wanted.want.clone()))?;
                self.refused_there.remove(key);
            }
            if told == Some(wanted) {
                continue;
            }
            // Others than before: somebody may want the history.
            let shown = self
                .receiving
                .get(key)
                .is_none_or(|stream| stream.show_new_subscribers(wanted.want.history));
            if shown {
                self.told.insert(key.clone(), wanted.clone());
            }
        }
        Ok(())
    }

    /// Ends the streams that the other side may not send any more. It is told so, too, but need not
    /// go by it.
    fn bar_refused(&self, session: &Session) {
        for (key, stream) in &self.receiving {
            if may_receive(session, key).is_err() {
                stream.bar();
            }
        }
    }

    /// Ends the streams that nobody there wants, or nobody here sends on.
    fn close_unwanted(&mut self, local: &LocalEnds) {
        for (key, sending) in &mut self.sending {
            match (self.theirs.get(key), local.sends.get(key)) {
                (None, _) => sending.stream.stop(sending::Stop::Now),
                (Some(_), None) => {
                    let idle_since = *sending.idle_since.get_or_insert_with(Instant::now);
                    if !lingers(key) || idle_since.elapsed() >= LINGER {
                        sending.stream.stop(sending::Stop::WhenEmpty);
                    }
                }
                (Some(_), Some(_)) => {
                    sending.idle_since = None;
                    sending.stream.go_on();
                }
            }
        }
    }

    fn forget_ended(&mut self) {
        self.sending.retain(|key, sending| {
            let failed = sending.stream.failure().is_some();
            if failed && sending.retry.is_none() {
                sending.retry = Some(Instant::now() + RETRY);
                if !sending.stream.is_without_port() {
                    self.failed.insert(key.clone());
                }
            }
            let is_due = sending.retry.is_none_or(|retry| Instant::now() >= retry);
            !(sending.stream.has_ended() && is_due)
        });
        self.receiving.retain(|_, stream| !stream.has_ended());
    }

    /// Opens a stream for what the other side wants, if somebody here sends, and it is permitted.
    fn open(
        &mut self,
        session: &Arc<Session>,
        local: &LocalEnds,
        want: Want,
    ) -> Result<(), ClusterError> {
        let key = want.key();
        let judged = may_send(session, &key).map_err(|refusal| refusal.to_string());
        // A server that answered and left is owed the way of its answers.
        let owed = key.kind == EndKind::Reply && session.requests.owes(&key.channel);
        let carries = local
            .sends
            .get(&key)
            .or_else(|| owed.then_some(&want.carries));
        let fits = judged.and_then(|()| match carries {
            Some(carries) if *carries != want.carries => Err(format!(
                "channel {} carries {} on host {}, and {} on host {}",
                key.channel,
                hythe_node::ChannelType::from(carries.clone()),
                session.context.options.host,
                hythe_node::ChannelType::from(want.carries.clone()),
                session.record.name,
            )),
            _ => Ok(()),
        });
        if let Err(reason) = fits {
            if let Some(sending) = self.sending.get(&key) {
                sending.stream.stop(sending::Stop::Now);
            }
            return self.refuse(session, key, reason);
        }
        self.refused.remove(&key);
        let Some(carries) = carries else {
            return Ok(());
        };
        if key.kind == EndKind::Event {
            // Over the control connection.
            self.events.insert(key.channel);
            return Ok(());
        }
        if let Entry::Vacant(vacant) = self.sending.entry(key) {
            self.last_stream += 1;
            let opening = Opening {
                stream: self.last_stream,
                kind: want.kind,
                channel: want.channel.clone(),
                carries: carries.clone(),
            };
            let is_early = want.kind == EndKind::Publish && !self.failed.contains(vacant.key());
            let stream = SendingStream::start(session, opening, &want, is_early)?;
            vacant.insert(Sending {
                stream,
                carries: want.carries,
                retry: None,
                idle_since: None,
            });
        }
        Ok(())
    }

    fn refuse(
        &mut self,
        session: &Session,
        key: ChannelKey,
        reason: String,
    ) -> Result<(), ClusterError> {
        if self.refused.get(&key) == Some(&reason) {
            return Ok(());
        }
        self.refused.insert(key.clone(), reason.clone());
        let ChannelKey { kind, channel } = key;
        session.outbox.put(Control::Refused {
            kind,
            channel,
            reason,
        })
    }

    pub(super) fn sending_stream(&self, key: &ChannelKey) -> Option<Arc<SendingStream>> {
        let sending = self.sending.get(key);
        sending.map(|sending| Arc::clone(&sending.stream))
    }

    pub(super) fn receiving_stream(&self, key: &ChannelKey) -> Option<Arc<ReceivingStream>> {
        self.receiving.get(key).cloned()
    }

    /// The stream with that number, of which the other side says something about frames up to
    /// `through`; `None`: it has ended.
    fn stream(
        &self,
        number: u32,
        through: u64,
    ) -> Result<Option<Arc<SendingStream>>, ClusterError> {
        let mut streams = self.sending.values().map(|sending| &sending.stream);
        let stream = streams.find(|stream| stream.number() == number).cloned();
        match number <= self.last_stream {
            true => Ok(stream),
            false => Err(Violation::NotSent {
                through,
                sent: 0,
                acknowledged: 0,
            }
            .into()),
        }
    }

    /// Would a message that is published now wait for the other side to accept a stream?
    pub(super) fn are_early(&self) -> bool {
        let mut streams = self.sending.values();
        streams.any(|sending| sending.stream.is_early())
    }

    /// Closes all connections: the session is over.
    pub(super) fn close_all(&self) {
        for sending in self.sending.values() {
            sending.stream.close();
        }
        for stream in self.receiving.values() {
            stream.close();
        }
    }

    /// Channels of messages that came to the end of the session, and no end of the stream. Where
    /// all publishers have left the stream for flows that go on (`by_flows`), nothing is missing.
    pub(super) fn interrupted(&self, by_flows: &BTreeSet<String>) -> Vec<String> {
        let streams = self.receiving.iter();
        let messages = streams.filter(|(key, _)| key.kind == EndKind::Publish);
        let interrupted = messages.filter(|(key, stream)| {
            let may_be_quiet = lingers(key) || by_flows.contains(&key.channel);
            let is_quiet = may_be_quiet && stream.is_quiet();
            !stream.is_complete() && !is_quiet
        });
        interrupted.map(|(key, _)| key.channel.clone()).collect()
    }

    pub(super) fn status(&self, events: &Events) -> Vec<ChannelStatus> {
        let mut shown: Vec<ChannelStatus> = Vec::new();
        shown.extend(self.sending.values().map(|sending| sending.stream.status()));
        shown.extend(self.receiving.values().map(|stream| stream.status()));
        let theirs = self.theirs.keys();
        for key in theirs.filter(|key| !self.sending.contains_key(key)) {
            let (state, reason) = match self.refused.get(key) {
                Some(reason) => (ChannelState::Refused, reason.as_str()),
                None if key.kind == EndKind::Event && self.events.contains(&key.channel) => {
                    (ChannelState::Open, "")
                }
                None => (ChannelState::Waiting, "nobody sends here"),
            };
            let messages = events.counts(&key.channel).sent;
            shown.push(without_stream(key, Direction::Sending, state, reason).counted(messages));
        }
        let nothing_comes = match open_files::shortage() {
            Some(_) => "this agent has no open files left for it (`ulimit -n`, `LimitNOFILE=`)",
            // What keeps the agent there from sending is not told.
            None => "nobody sends there, or the status of that host says why it does not come",
        };
        let told = self.told.keys();
        for key in told.filter(|key| !self.receiving.contains_key(key)) {
            let messages = events.counts(&key.channel).raised;
            let (state, reason) = match self.refused_there.get(key) {
                Some(reason) => (ChannelState::Refused, reason.as_str()),
                // Whether anybody there notifies is not told.
                None if key.kind == EndKind::Event => (ChannelState::Open, ""),
                None => (ChannelState::Waiting, nothing_comes),
            };
            shown.push(without_stream(key, Direction::Receiving, state, reason).counted(messages));
        }
        shown
    }
}

/// Does a stream go on for a while when nobody sends on it any more?
fn lingers(key: &ChannelKey) -> bool {
    match key.kind {
        EndKind::Request => true,
        EndKind::Publish => is_of_task(&key.channel),
        EndKind::Reply | EndKind::Event => false,
    }
}

fn without_stream(
    key: &ChannelKey,
    direction: Direction,
    state: ChannelState,
    reason: &str,
) -> ChannelStatus {
    ChannelStatus {
        channel: key.channel.clone(),
        kind: key.kind,
        direction,
        state,
        reason: reason.to_owned(),
        messages: 0,
        payload_bytes: 0,
        credit: None,
        carrier: String::new(),
        why_not_better: String::new(),
        flows: 0,
        not_taken: 0,
        flow_copies: FlowCopies::default(),
    }
}

impl ChannelStatus {
    const fn counted(mut self, messages: u64) -> Self {
        self.messages = messages;
        self
    }
}

/// The other side wants something.
pub(super) fn wanted(session: &Session, want: Want) -> Result<(), ClusterError> {
    let mut channels = lock(&session.channels);
    let key = want.key();
    check_count(&channels.theirs, &key, "channels that it wants")?;
    if let Some(sending) = channels.sending.get(&key) {
        match (sending.carries == want.carries, want.kind) {
            (false, _) => sending.stream.stop(sending::Stop::Reopen),
            (true, EndKind::Publish) => sending.stream.strengthen(session, &want),
            // The queue of a server stays as it is: requests may be open.
            (true, _) => {}
        }
    }
    channels.failed.remove(&key);
    channels.theirs.insert(key, want);
    session.note_change();
    Ok(())
}

/// Notifiers of the other side raised events.
pub(super) fn raised(
    session: &Arc<Session>,
    channel: &str,
    events: u64,
) -> Result<(), ClusterError> {
    let key = ChannelKey {
        kind: EndKind::Event,
        channel: channel.to_owned(),
    };
    // Where the right went, so does the want; the word of that crosses with events.
    if may_receive(session, &key).is_ok() {
        // They may answer a want that is being told: it is known here once that is done.
        let channels = lock(&session.channels);
        Events::came(session, channel, events);
        drop(channels);
    }
    Ok(())
}

/// The other side wants it no more.
pub(super) fn unwanted(session: &Session, kind: EndKind, channel: String) {
    let key = ChannelKey { kind, channel };
    let mut channels = lock(&session.channels);
    channels.theirs.remove(&key);
    channels.failed.remove(&key);
    drop(channels);
    session.note_change();
}

/// This side does not get what it wants.
pub(super) fn refused(
    session: &Session,
    kind: EndKind,
    channel: String,
    reason: String,
) -> Result<(), ClusterError> {
    let key = ChannelKey { kind, channel };
    let mut channels = lock(&session.channels);
    check_count(&channels.refused_there, &key, "channels that it refuses")?;
    channels.refused_there.insert(key, reason);
    Ok(())
}

/// Is there room for what is said of one more channel?
pub(super) fn check_count<T>(
    known: &BTreeMap<ChannelKey, T>,
    key: &ChannelKey,
    what: &'static str,
) -> Result<(), ClusterError> {
    let most = CHANNELS_MAX;
    match known.len() < most || known.contains_key(key) {
        true => Ok(()),
        false => Err(ClusterError::TooMany { what, most }),
    }
}

/// The other side has taken frames of a stream.
pub(super) fn acknowledged(
    session: &Session,
    number: u32,
    through: u64,
) -> Result<(), ClusterError> {
    // The lock ends here: flows that hear of it may wait for it with their own.
    let stream = lock(&session.channels).stream(number, through)?;
    match stream {
        Some(stream) => stream.acknowledged(session, through),
        // It has ended meanwhile.
        None => Ok(()),
    }
}

/// Messages of a stream are not taken by the other side, which counts them.
pub(super) fn not_taken(
    session: &Session,
    number: u32,
    messages: u32,
    why: NotTaken,
) -> Result<(), ClusterError> {
    let stream = lock(&session.channels).stream(number, 0)?;
    if let Some(stream) = stream {
        stream.not_taken(messages, why);
    }
    Ok(())
}

/// The stream that a data connection of the other side opens, or carries on.
pub(super) fn opened(
    session: &Session,
    opening: &Opening,
) -> Result<Arc<ReceivingStream>, ClusterError> {
    let key = ChannelKey {
        kind: opening.kind,
        channel: opening.channel.clone(),
    };
    may_receive(session, &key)?;
    let mut channels = lock(&session.channels);
    if session.is_over() {
        return Err(ClusterError::Over);
    }
    let told = channels.told.get(&key);
    let Some(told) = told.filter(|_| key.kind != EndKind::Event) else {
        let here = &session.context.options.host;
        let what = format!("nobody on host {here} wants channel {}", opening.channel);
        return Err(ClusterError::Unexpected(what));
    };
    let want = told.want.clone();
    let known = channels.receiving.get(&key).cloned();
    if let Some(known) = &known
        && known.number() == opening.stream
    {
        if known.is_barred() {
            // What came over it meanwhile is lost: its sender begins another.
            let what = format!("channel {} was not permitted meanwhile", opening.channel);
            return Err(ClusterError::Unexpected(what));
        }
        return Ok(Arc::clone(known));
    }
    if known
        .as_ref()
        .is_some_and(|it| it.number() > opening.stream)
    {
        // Its connection was made before that of the next, and is looked at behind it.
        let what = format!("channel {} has another stream by now", opening.channel);
        return Err(ClusterError::Unexpected(what));
    }
    let stream = Arc::new(ReceivingStream::new(session, opening, &want, known)?);
    channels.receiving.insert(key, Arc::clone(&stream));
    Ok(stream)
}
