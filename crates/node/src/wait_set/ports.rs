//! The ports of one wait set: which may have something, and which have.
//!
//! A port is *listed* when it was marked, and stays so while something is there to take: a look
//! goes over the listed ones only. All of them are listed when a connection of this participant has
//! changed, and once in a while, which bounds what an erased mark can delay. What holds between
//! calls: a port that is not listed had nothing when it was looked at behind its last mark.

use std::sync::Arc;
use std::time::Duration;

use hythe_memory::Mapped;
use hythe_pool::{ChannelIndex, ConnectionInfo, Control, EventCell, PortIndex, PortKind};

use super::{Event, Token};
use crate::clock;
use crate::participant::Participant;
use crate::port::{Opener, Port, Route};
use crate::routes::WaitSetId;
use crate::transport::{Transports, Watch};

/// How long a port may go without a look, whatever the marks say.
pub(super) const LOOK_AT_ALL: Duration = Duration::from_secs(1);

/// What a wait set sees of a port, from outside: whoever owns the port takes from it meanwhile.
#[derive(Debug)]
struct Source {
    port: PortIndex,
    kind: PortKind,
    channel: ChannelIndex,
    epoch: Option<u32>,
    /// The connections into it.
    ways: Vec<ConnectionInfo>,
    /// What tells of senders that make no marks.
    watches: Vec<Box<dyn Watch>>,
    /// If it is a listener.
    events: Option<EventCell>,
    /// The other side of a connection from it has left: a server that may owe replies.
    deserted: bool,
    listed: bool,
}

#[derive(Debug)]
pub(super) struct Ports {
    id: WaitSetId,
    sources: Vec<Option<Source>>,
    listed: Vec<usize>,
    changes: Option<u32>,
    looked_ms: u64,
    transports: Transports,
    /// Ports that had something, and no mark.
    pub(super) unmarked: u64,
}

impl Ports {
    pub(super) fn new(opener: &Opener) -> Self {
        Self {
            id: opener.shared.routes().enter(),
            transports: Arc::clone(&opener.transports),
            sources: Vec::new(),
            listed: Vec::new(),
            changes: None,
            looked_ms: 0,
            unmarked: 0,
        }
    }

    /// From now on the port's marks come here. `None`: they go to another wait set.
    pub(super) fn attach(
        &mut self,
        shared: &Arc<Participant>,
        port: &Port,
        events: Option<EventCell>,
    ) -> Option<(Token, Route)> {
        // Places of ports that closed meanwhile are free again.
        self.collect(shared);
        let free = self.sources.iter().position(Option::is_none);
        let place = free.unwrap_or(self.sources.len());
        let id = shared.routes().open(self.id, port.index, place)?;
        let route = Route {
            shared: Arc::clone(shared),
            port: port.index,
            id,
        };
        let source = Source {
            port: port.index,
            kind: port.kind(),
            channel: port.channel.index,
            epoch: None,
            ways: Vec::new(),
            watches: Vec::new(),
            events,
            deserted: false,
            listed: false,
        };
        if place == self.sources.len() {
            self.sources.push(None);
        }
        self.sources[place] = Some(source);
        self.listed.reserve(self.sources.len());
        let control = shared.pool().control();
        shared.act(|member| member.want_marks(control, port.index, true));
        // What came before is found by the next look, at all.
        self.changes = None;
        Some((Token::port(place), route))
    }

    /// Lets go of a port. False: it is not here.
    pub(super) fn detach(&mut self, shared: &Arc<Participant>, place: usize) -> bool {
        self.collect(shared);
        let Some(source) = self.sources.get_mut(place).and_then(Option::take) else {
            return false;
        };
        self.listed.retain(|&listed| listed != place);
        let silence = || want_no_marks(shared, source.port);
        shared.routes().close(self.id, source.port, silence);
        true
    }

    /// Lets go of all.
    pub(super) fn detach_all(&mut self, shared: &Arc<Participant>) {
        let silence = |port| want_no_marks(shared, port);
        shared.routes().exit(self.id, silence);
    }

    pub(super) fn len(&self) -> usize {
        self.sources.iter().flatten().count()
    }

    /// How long a sleep may last. Asked before each, and before the look in front of it: that
    /// then looks at all there is.
    pub(super) fn nap(&self) -> Duration {
        let watches = self.sources.iter().flatten().flat_map(|one| &one.watches);
        let naps = watches.map(|watch| watch.nap());
        naps.fold(LOOK_AT_ALL, Duration::min)
    }

    /// Appends the ports that have something now.
    pub(super) fn look(&mut self, shared: &Arc<Participant>, events: &mut Vec<Event>) {
        let control = shared.pool().control();
        self.collect(shared);
        // Behind the marks: the connection of whoever marked is part of what the word says.
        let changes = control.tables().changes(shared.index());
        let now = clock::coarse_ms();
        let late = now.saturating_sub(self.looked_ms) >= LOOK_AT_ALL.as_millis() as u64;
        if self.changes != Some(changes) || late {
            self.list_all(shared, self.changes != Some(changes));
            self.changes = Some(changes);
            self.looked_ms = now;
        }
        let sources = &mut self.sources;
        self.listed.retain(|&place| {
            let Some(source) = &mut sources[place] else {
                return false;
            };
            let ready = source.is_ready(control);
            if ready {
                events.push(Event::readable(Token::port(place)));
            }
            // What makes no marks is looked at each time.
            source.listed = ready || !source.watches.is_empty();
            source.listed
        });
    }

    /// Takes the marks.
    fn collect(&mut self, shared: &Arc<Participant>) {
        let (sources, listed) = (&mut self.sources, &mut self.listed);
        let mut gone = Vec::new();
        let marked = |place: usize| {
            if let Some(source) = sources[place].as_mut().filter(|source| !source.listed) {
                source.listed = true;
                listed.push(place);
            }
        };
        let control = shared.pool().control();
        shared
            .routes()
            .collect(control, shared.index(), self.id, marked, |place| {
                gone.push(place)
            });
        for place in gone {
            self.sources[place] = None;
            self.listed.retain(|&listed| listed != place);
        }
    }

    /// Lists every port, and reads anew which connections lead to it if they may have changed.
    fn list_all(&mut self, shared: &Arc<Participant>, connections_changed: bool) {
        let control = shared.pool().control();
        if connections_changed {
            self.find_ways(shared);
        }
        self.listed.clear();
        for (place, source) in self.sources.iter_mut().enumerate() {
            if let Some(source) = source {
                source.find_watches(shared, &self.transports);
                let overlooked = !source.listed && source.has_messages(control);
                self.unmarked += u64::from(overlooked && !connections_changed);
                source.listed = true;
                self.listed.push(place);
            }
        }
    }

    fn find_ways(&mut self, shared: &Arc<Participant>) {
        let places = self.sources.iter_mut().flatten();
        let mut by_port: std::collections::HashMap<PortIndex, &mut Source> = places
            .map(|source| {
                source.ways.clear();
                source.deserted = false;
                (source.port, source)
            })
            .collect();
        let me = shared.index();
        for info in shared.pool().control().tables().connections() {
            if info.consumer == me
                && !info.consumer_left
                && let Some(source) = by_port.get_mut(&info.consumer_port)
            {
                source.ways.push(info);
            }
            if info.producer == me
                && info.consumer_left
                && !info.producer_left
                && let Some(source) = by_port.get_mut(&info.producer_port)
            {
                source.deserted = true;
            }
        }
    }
}

fn want_no_marks(shared: &Arc<Participant>, port: PortIndex) {
    let control = shared.pool().control();
    shared.act(|member| member.want_marks(control, port, false));
}

impl Source {
    /// Is something there: a message, an event, the end of a peer, or what a watch tells of?
    fn is_ready(&mut self, control: &Control<Mapped>) -> bool {
        self.has_messages(control)
            || self.deserted
            || self.ways.iter().any(|info| info.producer_left)
            || self.watches.iter_mut().any(|watch| watch.is_ready())
    }

    fn has_messages(&self, control: &Control<Mapped>) -> bool {
        self.ways
            .iter()
            .any(|info| control.tables().queue_waits(info))
            || self
                .events
                .is_some_and(|cell| cell.has_events(control.memory()))
    }

    /// Has what is behind the channel changed?
    fn find_watches(&mut self, shared: &Arc<Participant>, transports: &Transports) {
        let epoch = shared.pool().control().tables().channel_epoch(self.channel);
        if self.epoch == Some(epoch) {
            return;
        }
        self.epoch = Some(epoch);
        let found = transports.iter();
        self.watches = found
            .filter_map(|transport| transport.watch(shared, self.kind, self.channel))
            .collect();
    }
}
