//! The media behind an RTSP server: files that each client sees from its beginning, and channels that all watch together.
//!
//! A [`Programme`] is given to [`rtsp::server::Server::run`](crate::rtsp::server::Server::run), whose thread calls it. Each client's
//! film, and each channel, is a show (`show.rs`): a thread with a sending session. Nothing here waits longer than a thread takes to answer.

mod channel;
mod show;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hythe_node::{Node, SubscriberOptions, TrustPeers};

use crate::MediaError;
use crate::format::StreamFormat;
use crate::rtp::Identity;
use crate::rtsp::server::{Media, Sign};
use crate::rtsp::{Catalogue, Counters, Presentation, SessionId, Start, Started, Stream};
use crate::send::repair::{Repair, Resend};
use crate::send::session::{SendOptions, SendSession};
use crate::source::channel::{self as channel_source, Messages};
use crate::source::{self, OpenOptions, Source};
use crate::wire::endpoint::{DestinationOptions, PortPair};

use self::channel::{Channel, Known, State};
use self::show::Show;

/// What an input that is a channel begins with, in errors.
const CHANNEL: &str = "channel:";
/// Messages of a channel that may wait: a key frame of 400 KB in messages of seven transport packets.
const DEPTH: u32 = 256;

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
    /// With the others: the path.
    Together(String),
}

/// What shows need.
#[derive(Clone, Debug)]
struct Stage {
    node: Node,
    trust: TrustPeers,
    resend: Option<Resend>,
}

/// What there is to watch, and who watches.
#[derive(Debug)]
pub struct Programme {
    stage: Stage,
    options: OpenOptions,
    ports: PortPair,
    items: BTreeMap<String, Item>,
    tickets: BTreeMap<(SessionId, usize), Ticket>,
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
        };
        Ok(Self {
            stage,
            options,
            ports,
            items: BTreeMap::new(),
            tickets: BTreeMap::new(),
        })
    }

    /// Lets the clients of what is added from now on ask for packets again.
    #[must_use]
    pub fn with_resend(mut self, resend: Option<Resend>) -> Self {
        self.stage.resend = resend;
        self
    }

    /// Adds a file under a path. It is opened to see what it is. Returns what of it clients will not get: one stream of each file is
    /// served ([`Source::left_out`]).
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

    /// Adds a channel under a path. It is there for clients once its first messages have told what it carries; `tell` hears of that,
    /// in another thread, or of what is wrong with them, and then it never will be.
    ///
    /// # Errors
    ///
    /// It cannot be subscribed to.
    pub fn add_channel(
        &mut self,
        path: &str,
        channel: &str,
        tell: impl FnOnce(Result<&StreamFormat, &MediaError>) + Send + 'static,
    ) -> Result<(), MediaError> {
        let depth = SubscriberOptions::default().depth(DEPTH);
        let subscriber = self.stage.node.subscriber(channel, &depth)?;
        let name = format!("{CHANNEL}{channel}");
        let (stage, options) = (self.stage.clone(), self.options.clone());
        let open = move |is_left: Arc<AtomicBool>| {
            let is_wanted = move || !is_left.load(Ordering::Relaxed);
            let messages = Messages::new(&stage.node, subscriber, stage.trust, is_wanted);
            let source = channel_source::open(&name, messages, &options)?;
            let identity = Identity::random()?;
            Ok(Known {
                ssrc: identity.ssrc,
                format: source.format().clone(),
                show: stage.show(source, identity, true)?,
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

    fn film(&self, file: &Path, ssrc: u32) -> Result<Show, MediaError> {
        let source = source::open(file, &self.options)?;
        let identity = Identity {
            ssrc,
            ..Identity::random()?
        };
        self.stage.show(source, identity, false)
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
    fn show(
        &self,
        source: Box<dyn Source + Send>,
        identity: Identity,
        is_live: bool,
    ) -> Result<Show, MediaError> {
        let packetizer = crate::payload::packetizer(source.format())?;
        let repair = Repair {
            resend: self.resend.clone(),
            parity: None,
        };
        let options = SendOptions {
            repair,
            ..SendOptions::new(identity, self.trust)
        };
        let session = SendSession::new(&self.node, source, packetizer, options)?;
        Show::start(session, is_live)
    }
}

impl Catalogue for Programme {
    fn describe(&self, path: &str) -> Option<Presentation> {
        let (format, ssrc) = match self.items.get(path)? {
            Item::Film { format, .. } => (format.clone(), None),
            Item::Channel(channel) => match &*channel.state() {
                State::Known(known) => (known.format.clone(), Some(known.ssrc)),
                State::Awaited | State::Refused(_) => return None,
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
            State::Known(_) => None,
        }
    }
}

impl Media for Programme {
    fn start(&mut self, start: &Start) -> Result<Started, String> {
        const GONE: &str = "it is gone";
        let key = (start.session, start.stream);
        let options = self.destination(start);
        let watch = |show: &Show| show.watch(start.session, start.destination, options);
        let (sequence, timestamp) = match self.items.get(&start.path).ok_or(GONE)? {
            Item::Film { file, .. } => {
                if !self.tickets.contains_key(&key) {
                    let show = self.film(file, start.ssrc);
                    let show = show.map_err(|error| error.to_string())?;
                    self.tickets.insert(key, Ticket::Alone(show));
                }
                match self.tickets.get(&key) {
                    Some(Ticket::Alone(show)) => watch(show)?,
                    _ => return Err(GONE.to_owned()),
                }
            }
            Item::Channel(channel) => {
                let first = match &*channel.state() {
                    State::Known(known) => watch(&known.show)?,
                    State::Awaited | State::Refused(_) => return Err(GONE.to_owned()),
                };
                self.tickets
                    .insert(key, Ticket::Together(start.path.clone()));
                first
            }
        };
        Ok(Started {
            sequence,
            timestamp,
            from_ns: None,
        })
    }

    fn pause(&mut self, session: SessionId, stream: usize) {
        match self.tickets.get(&(session, stream)) {
            Some(Ticket::Alone(show)) => show.pause(),
            Some(Ticket::Together(_)) => self.stop(session, stream),
            None => {}
        }
    }

    fn stop(&mut self, session: SessionId, stream: usize) {
        // A film's show ends with its ticket.
        if let Some(Ticket::Together(path)) = self.tickets.remove(&(session, stream))
            && let Some(Item::Channel(channel)) = self.items.get(&path)
            && let State::Known(known) = &*channel.state()
        {
            known.show.leave(session);
        }
    }

    fn look(&mut self, _counters: &Counters) -> Vec<Sign> {
        let ended = self
            .tickets
            .iter()
            .filter_map(|(key, ticket)| match ticket {
                Ticket::Alone(show) if show.has_ended() => Some(*key),
                _ => None,
            });
        let ended: Vec<(SessionId, usize)> = ended.collect();
        let signs = ended.into_iter().map(|(session, stream)| {
            self.tickets.remove(&(session, stream));
            Sign::Ended { session, stream }
        });
        signs.collect()
    }
}
