//! The media behind an RTSP server: files that each client sees from its beginning, and channels
//! that all watch together.
//!
//! A [`Programme`] is given to [`rtsp::server::Server::run`](crate::rtsp::server::Server::run),
//! whose thread calls it. Each client's film, and each channel, is a show (`show.rs`): a thread
//! with a sending session, which opens the film's file, too. Nothing here waits.
//!
//! A film that begins has its slots already: who would get none is refused before PLAY is answered.

mod channel;
mod log;
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hythe_node::{Node, SubscriberOptions, TrustPeers};
use hythe_rtp::Identity;
use hythe_rtp::format::StreamFormat;
use hythe_rtp::rtsp::{Catalogue, Counters, Presentation, SessionId, Start, Stream};

use crate::MediaError;
use crate::pace::Limit;
use crate::rtsp::Answer;
use crate::rtsp::server::{Media, Sign};
use crate::send::repair::{Repair, Resend};
use crate::send::session::{SendOptions, SendSession};
use crate::send::share::SlotShare;
use crate::source::channel::{self as channel_source, Messages, Watch};
use crate::source::{self, OpenOptions, Source};
use crate::wire::endpoint::{DestinationOptions, PortPair};

pub use self::channel::ChannelNews;
use self::channel::{Channel, Known, State, Waker};
use self::log::Log;
use self::show::{Show, Spectator};

/// What an input that is a channel begins with, in errors.
const CHANNEL: &str = "channel:";
/// Messages of a channel that may wait: a key frame of 400 KB in messages of seven transport
/// packets.
const DEPTH: u32 = 256;
/// Slots that a film is given before it begins: one that is sent from, one that is filled; and one
/// of packets that may be asked for again.
const SLOTS: usize = 2;
const SLOTS_WITH_RESEND: usize = 3;
/// Films at once, those included whose file is still being opened: each has a thread.
const FILMS_MAX: usize = 256;

/// Something to watch.
#[derive(Debug)]
enum Item {
    /// Every client has a show of its own.
    Film { format: StreamFormat, file: PathBuf },
    /// All have the same.
    Channel(Channel),
}

/// Who watches what.
#[derive(Debug)]
enum Ticket {
    /// Alone.
    Alone(Show),
    /// Played together with other sessions.
    Together(Shared),
}

/// A session of a channel.
#[derive(Debug)]
struct Shared {
    path: String,
    /// The source that it is a session of.
    ssrc: u32,
    /// As it was described when the session was last told.
    format: StreamFormat,
}

/// The state of the presentation of a ticket.
enum Standing {
    UnderWay,
    Changed,
    Ended,
    /// Replaced by another presentation, for this reason.
    Replaced(String),
}

/// Why a channel is not described for a moment.
const LOOKED_AT: &str = "it carries something else, which is looked at: ask again";
/// Why a session of a channel ends before the channel does.
const OTHER: &str = "it carries something else by now: describe it again";

/// What shows need.
#[derive(Clone, Debug)]
struct Stage {
    node: Node,
    trust: TrustPeers,
    resend: Option<Resend>,
    share: Arc<SlotShare>,
    log: Arc<Log>,
}

/// Space for one film; given back when its thread has ended.
struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed); // guards nothing but itself
    }
}

/// What there is to watch, and who watches.
#[derive(Debug)]
pub struct Programme {
    stage: Stage,
    options: OpenOptions,
    ports: PortPair,
    items: BTreeMap<String, Item>,
    tickets: BTreeMap<(SessionId, usize), Ticket>,
    films: Arc<AtomicUsize>,
}

impl Programme {
    /// Nothing to watch yet. `options` say of inputs what they do not say themselves.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`] if there is no pair of ports left.
    pub fn new(node: &Node, trust: TrustPeers, options: OpenOptions) -> Result<Self, MediaError> {
        let ports = PortPair::hold().map_err(|source| MediaError::System {
            what: "hold a pair of UDP ports",
            source,
        })?;
        let stage = Stage {
            node: node.clone(),
            trust,
            resend: None,
            share: SlotShare::new(SLOTS),
            log: Arc::default(),
        };
        Ok(Self {
            stage,
            options,
            ports,
            items: BTreeMap::new(),
            tickets: BTreeMap::new(),
            films: Arc::default(),
        })
    }

    /// Lets the clients of what is added from now on ask for packets again.
    #[must_use]
    pub fn with_resend(mut self, resend: Option<Resend>) -> Self {
        if resend.is_some() {
            self.stage.share = SlotShare::new(SLOTS_WITH_RESEND);
        }
        self.stage.resend = resend;
        self
    }

    /// Adds a file under a path. It is opened to see what it is. Returns what of it clients will
    /// not get: one stream of each file is served ([`Source::left_out`]).
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn add_film(&mut self, path: &str, file: &Path) -> Result<Vec<String>, MediaError> {
        let source = source::open(file, &self.options)?;
        let (format, left_out) = (source.format().clone(), source.left_out().to_vec());
        let file = file.to_owned();
        self.items
            .insert(path.to_owned(), Item::Film { format, file });
        Ok(left_out)
    }

    /// Adds a channel under a path. It is there for clients once its first messages have told what
    /// it carries; `tell` hears of that, in another thread, or of what is wrong with them. Then it
    /// is looked at again, with growing pauses; so it is when it ended. Messages of another format
    /// end what clients watch, and the channel is served as that.
    ///
    /// # Errors
    ///
    /// It cannot be subscribed to.
    pub fn add_channel(
        &mut self,
        path: &str,
        channel: &str,
        tell: impl FnMut(ChannelNews<'_>) + Send + 'static,
    ) -> Result<(), MediaError> {
        let depth = SubscriberOptions::default().depth(DEPTH);
        // Here, so that a name that cannot be subscribed to is refused, and nothing is missed from
        // now on.
        let mut subscribed = Some(self.stage.node.subscriber(channel, &depth)?);
        let (channel, name) = (channel.to_owned(), format!("{CHANNEL}{channel}"));
        let (stage, options) = (self.stage.clone(), self.options.clone());
        let open = move |is_left: &Arc<AtomicBool>, waker: Waker, watched: Option<Watch>| {
            let watch = match (watched, subscribed.take()) {
                (Some(watch), _) => watch,
                (None, Some(subscriber)) => Watch::new(subscriber, stage.trust),
                (None, None) => Watch::new(stage.node.subscriber(&channel, &depth)?, stage.trust),
            };
            watch.begin(std::thread::current());
            let is_left = Arc::clone(is_left);
            let is_wanted = move || !is_left.load(Ordering::Relaxed);
            let messages = Messages::watched(&stage.node, &watch, stage.trust, is_wanted);
            let source = channel_source::open(&name, messages, &options)?;
            let identity = crate::identity::random()?;
            let (ssrc, format) = (identity.ssrc, source.format().clone());
            let session = stage.session(source, identity, Limit::LIVE)?;
            let watched = Some(watch.clone());
            let show = Show::start(watched, &stage.log, waker, move || Ok(session))?;
            Ok(Known {
                format,
                ssrc,
                show,
                watch,
            })
        };
        let channel = Channel::open(open, tell)?;
        self.items.insert(path.to_owned(), Item::Channel(channel));
        Ok(())
    }

    /// What there is, in the order of paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.items.keys().map(String::as_str)
    }

    /// A film for one client, whose file is opened by the thread that sends it.
    fn film(&self, file: &Path, format: &StreamFormat, ssrc: u32) -> Result<Show, String> {
        let permit = self.permit()?;
        let (stage, options) = (self.stage.clone(), self.options.clone());
        let (file, format) = (file.to_owned(), format.clone());
        let open = move || {
            let source = source::open(&file, &options)?;
            require_same(&file, source.format(), &format)?;
            let identity = Identity {
                ssrc,
                ..crate::identity::random()?
            };
            stage.session(source, identity, Limit::STORED)
        };
        let show = Show::start(None, &self.stage.log, permit, open);
        show.map_err(|error| error.to_string())
    }

    fn permit(&self) -> Result<Permit, String> {
        let permit = Permit(Arc::clone(&self.films));
        let others = self.films.fetch_add(1, Ordering::Relaxed); // guards nothing but itself
        if others >= FILMS_MAX {
            return Err(format!("there are {others} films under way already"));
        }
        Ok(permit)
    }

    /// Begins to send to a client, or goes on; what keeps it from that is given to `answer`.
    fn begin(&mut self, start: &Start, answer: Answer) {
        const GONE: &str = "it is gone";
        let key = (start.session, start.stream);
        let spectator = Spectator {
            session: start.session,
            destination: start.destination,
            options: Box::new(self.destination(start)),
        };
        match self.items.get(&start.path) {
            None => answer.give(Err(GONE.to_owned())),
            Some(Item::Film { file, format }) => {
                let is_under_way =
                    |ticket: &Ticket| matches!(ticket, Ticket::Alone(show) if !show.has_ended());
                if !self.tickets.get(&key).is_some_and(is_under_way) {
                    match self.film(file, format, start.ssrc) {
                        Ok(show) => drop(self.tickets.insert(key, Ticket::Alone(show))),
                        Err(why) => return answer.give(Err(why)),
                    }
                }
                if let Some(Ticket::Alone(show)) = self.tickets.get(&key) {
                    show.watch(spectator, answer);
                }
            }
            Some(Item::Channel(channel)) => match &*channel.state() {
                State::Known(known) if known.ssrc != start.ssrc => {
                    answer.give(Err(OTHER.to_owned()));
                }
                State::Known(known) => {
                    known.show.watch(spectator, answer);
                    let ticket = Shared {
                        path: start.path.clone(),
                        ssrc: known.ssrc,
                        format: known.format_now().unwrap_or_else(|| known.format.clone()),
                    };
                    self.tickets.insert(key, Ticket::Together(ticket));
                }
                State::Awaited | State::Refused(_) | State::Replaced => {
                    answer.give(Err(GONE.to_owned()))
                }
            },
        }
    }

    /// The state of the presentation of a ticket. Notes a format that has changed.
    fn standing(items: &BTreeMap<String, Item>, ticket: &mut Ticket) -> Standing {
        let shared = match ticket {
            Ticket::Alone(show) if show.has_ended() => return Standing::Ended,
            Ticket::Alone(_) => return Standing::UnderWay,
            Ticket::Together(shared) => shared,
        };
        let Some(Item::Channel(channel)) = items.get(&shared.path) else {
            return Standing::Ended;
        };
        let state = channel.state();
        let State::Known(known) = &*state else {
            return match &*state {
                // What it is becomes known at once.
                State::Replaced => Standing::UnderWay,
                State::Refused(why) => Standing::Replaced(why.clone()),
                _ => Standing::Ended,
            };
        };
        if known.ssrc != shared.ssrc {
            return Standing::Replaced(OTHER.to_owned());
        }
        match known.format_now() {
            Some(now) if now != shared.format => {
                shared.format = now;
                Standing::Changed
            }
            _ => Standing::UnderWay,
        }
    }

    /// The sessions whose clients said by RTCP that they are there.
    fn alive(&self) -> Vec<Sign> {
        let mut alive = BTreeSet::new();
        for ticket in self.tickets.values() {
            if let Ticket::Alone(show) = ticket {
                alive.extend(show.take_alive());
            }
        }
        for item in self.items.values() {
            if let Item::Channel(channel) = item
                && let State::Known(known) = &*channel.state()
            {
                alive.extend(known.show.take_alive());
            }
        }
        alive.into_iter().map(Sign::Alive).collect()
    }

    fn destination(&self, start: &Start) -> DestinationOptions {
        let mut options = DestinationOptions::default();
        options.rtcp = Some(start.rtcp_destination);
        options.local_port = Some(self.ports.port());
        options.multicast_hops = start.ttl.unwrap_or(options.multicast_hops);
        options
    }
}

impl Stage {
    fn session(
        &self,
        source: Box<dyn Source + Send>,
        identity: Identity,
        limit: Limit,
    ) -> Result<SendSession, MediaError> {
        let packetizer = hythe_rtp::payload::packetizer(source.format())?;
        let repair = Repair {
            resend: self.resend.clone(),
            parity: None,
        };
        let options = SendOptions {
            limit,
            repair,
            share: Some(Arc::clone(&self.share)),
            ..SendOptions::new(identity, self.trust)
        };
        SendSession::new(&self.node, source, packetizer, options)
    }
}

/// Clients were told what a file carries: one that was replaced meanwhile has to carry the same.
fn require_same(file: &Path, now: &StreamFormat, told: &StreamFormat) -> Result<(), MediaError> {
    if now == told {
        return Ok(());
    }
    let (now, told) = (now.encoding.name(), told.encoding.name());
    Err(MediaError::Input {
        input: file.display().to_string(),
        position: 0,
        reason: format!(
            "it is another file than when the server was started (now {now}, then {told}, or with \
             other parameters): start the server again"
        ),
    })
}

impl Catalogue for Programme {
    fn describe(&self, path: &str) -> Option<Presentation> {
        let (format, ssrc) = match self.items.get(path)? {
            Item::Film { format, .. } => (format.clone(), None),
            Item::Channel(channel) => match &*channel.state() {
                State::Known(known) => (known.format_now()?, Some(known.ssrc)),
                State::Awaited | State::Refused(_) | State::Replaced => return None,
            },
        };
        let resend = self.stage.resend.as_ref();
        let stream = Stream {
            format,
            server_port: self.ports.port(),
            ssrc,
            takes_nack: resend.is_some(),
            retransmission: resend.and_then(Resend::description),
            group: None,
        };
        Some(Presentation {
            streams: vec![stream],
            duration_ns: None,
            can_seek: false,
            can_pause: true,
        })
    }

    fn why_not_yet(&self, path: &str) -> Option<String> {
        let Item::Channel(channel) = self.items.get(path)? else {
            return None;
        };
        match &*channel.state() {
            State::Awaited => Some("nothing was published on this channel yet".to_owned()),
            State::Refused(why) => Some(format!("what is published there is not served: {why}")),
            State::Replaced => Some(LOOKED_AT.to_owned()),
            State::Known(known) => known.watch.has_other().then(|| LOOKED_AT.to_owned()),
        }
    }
}

impl Media for Programme {
    fn start(&mut self, start: &Start, answer: Answer) {
        self.begin(start, answer);
    }

    fn pause(&mut self, session: SessionId, stream: usize) {
        match self.tickets.get(&(session, stream)) {
            Some(Ticket::Alone(show)) => show.pause(session),
            Some(Ticket::Together(_)) => self.stop(session, stream),
            None => {}
        }
    }

    fn stop(&mut self, session: SessionId, stream: usize) {
        // A film's show ends with its ticket.
        if let Some(Ticket::Together(shared)) = self.tickets.remove(&(session, stream))
            && let Some(Item::Channel(channel)) = self.items.get(&shared.path)
            && let State::Known(known) = &*channel.state()
            && known.ssrc == shared.ssrc
        {
            known.show.leave(session);
        }
    }

    fn look(&mut self, _counters: &Counters) -> Vec<Sign> {
        let mut signs = self.alive();
        let items = &self.items;
        self.tickets.retain(|(session, stream), ticket| {
            let (session, stream) = (*session, *stream);
            let standing = Self::standing(items, ticket);
            let is_kept = matches!(standing, Standing::UnderWay | Standing::Changed);
            signs.extend(match standing {
                Standing::UnderWay => None,
                Standing::Changed => Some(Sign::Changed(session)),
                Standing::Ended => Some(Sign::Ended { session, stream }),
                Standing::Replaced(why) => Some(Sign::Replaced {
                    session,
                    stream,
                    why,
                }),
            });
            is_kept
        });
        signs
    }
}
