//! The media behind an RTSP server: files that each client sees from its beginning, and channels that all watch together.
//!
//! A [`Programme`] is given to [`rtsp::server::Server::run`](crate::rtsp::server::Server::run), whose thread calls it. Each client's
//! film, and each channel, is a show (`show.rs`): a thread with a sending session. Nothing here waits longer than a thread takes to answer.

mod show;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hythe_node::{Node, Subscriber, SubscriberOptions, TrustPeers};

use crate::MediaError;
use crate::format::StreamFormat;
use crate::rtp::Identity;
use crate::rtsp::server::{Media, Sign};
use crate::rtsp::{Catalogue, Counters, Presentation, SessionId, Start, Started, Stream};
use crate::send::session::{SendOptions, SendSession};
use crate::source::channel::{self, Messages};
use crate::source::{self, OpenOptions, Source};
use crate::wire::endpoint::{DestinationOptions, PortPair};

use show::Show;

/// Messages of a channel that may wait: a key frame of 400 KB in messages of seven transport packets.
const DEPTH: u32 = 256;

/// Something to watch.
#[derive(Debug)]
struct Item {
    format: StreamFormat,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Every client has a show of its own.
    Film(PathBuf),
    /// All have the same.
    Channel { show: Show, ssrc: u32 },
}

/// Who watches what.
#[derive(Debug)]
enum Ticket {
    /// Alone.
    Alone(Show),
    /// With the others: the path.
    Together(String),
}

/// What there is to watch, and who watches.
#[derive(Debug)]
pub struct Programme {
    node: Node,
    trust: TrustPeers,
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
        Ok(Self {
            node: node.clone(),
            trust,
            options,
            ports,
            items: BTreeMap::new(),
            tickets: BTreeMap::new(),
        })
    }

    /// Adds a file under a path. It is opened to see what it is.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn add_film(&mut self, path: &str, file: &Path) -> Result<&StreamFormat, MediaError> {
        let format = source::open(file, &self.options)?.format().clone();
        Ok(self.add(path, format, Kind::Film(file.to_owned())))
    }

    /// Adds a channel under a path. Waits for its first messages, which tell what it carries, until `is_wanted` says no.
    ///
    /// # Errors
    ///
    /// What is wrong with it; nothing came.
    pub fn add_channel(
        &mut self,
        path: &str,
        channel: &str,
        is_wanted: impl Fn() -> bool + Send + 'static,
    ) -> Result<&StreamFormat, MediaError> {
        let depth = SubscriberOptions::default().depth(DEPTH);
        let subscriber: Subscriber = self.node.subscriber(channel, &depth)?;
        let messages = Messages::new(&self.node, subscriber, self.trust, is_wanted);
        let source = channel::open(&format!("channel:{channel}"), messages, &self.options)?;
        let identity = Identity::random()?;
        let ssrc = identity.ssrc;
        let format = source.format().clone();
        let show = self.show(source, identity, true)?;
        Ok(self.add(path, format, Kind::Channel { show, ssrc }))
    }

    /// What there is, in the order of paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.items.keys().map(String::as_str)
    }

    fn add(&mut self, path: &str, format: StreamFormat, kind: Kind) -> &StreamFormat {
        let item = Item { format, kind };
        let entry = self.items.entry(path.to_owned());
        &entry.insert_entry(item).into_mut().format
    }

    fn show(
        &self,
        source: Box<dyn Source + Send>,
        identity: Identity,
        is_live: bool,
    ) -> Result<Show, MediaError> {
        let packetizer = crate::payload::packetizer(source.format())?;
        let options = SendOptions::new(identity, self.trust);
        let session = SendSession::new(&self.node, source, packetizer, options)?;
        Show::start(session, is_live)
    }

    fn film(&self, file: &Path, ssrc: u32) -> Result<Show, MediaError> {
        let source = source::open(file, &self.options)?;
        let identity = Identity {
            ssrc,
            ..Identity::random()?
        };
        self.show(source, identity, false)
    }

    fn destination(&self, start: &Start) -> DestinationOptions {
        let mut options = DestinationOptions::default();
        options.rtcp = Some(start.rtcp_destination);
        options.local_port = Some(self.ports.port());
        options.multicast_hops = start.ttl.unwrap_or(options.multicast_hops);
        options
    }
}

impl Catalogue for Programme {
    fn describe(&self, path: &str) -> Option<Presentation> {
        let item = self.items.get(path)?;
        let stream = Stream {
            format: item.format.clone(),
            server_port: self.ports.port(),
            ssrc: match item.kind {
                Kind::Film(_) => None,
                Kind::Channel { ssrc, .. } => Some(ssrc),
            },
            group: None,
        };
        Some(Presentation {
            streams: vec![stream],
            duration_ns: None,
            can_seek: false,
            can_pause: true,
        })
    }
}

impl Media for Programme {
    fn start(&mut self, start: &Start) -> Result<Started, String> {
        let key = (start.session, start.stream);
        let item = self.items.get(&start.path).ok_or("it is gone")?;
        let is_film = matches!(item.kind, Kind::Film(_));
        if let Kind::Film(file) = &item.kind
            && !self.tickets.contains_key(&key)
        {
            let show = self.film(file, start.ssrc);
            let ticket = Ticket::Alone(show.map_err(|error| error.to_string())?);
            self.tickets.insert(key, ticket);
        }
        let options = self.destination(start);
        let show = match (
            self.tickets.get(&key),
            &self.items.get(&start.path).map(|item| &item.kind),
        ) {
            (Some(Ticket::Alone(show)), _) | (_, Some(Kind::Channel { show, .. })) => show,
            _ => return Err("it is gone".to_owned()),
        };
        let (sequence, timestamp) = show.watch(start.session, start.destination, options)?;
        if !is_film {
            self.tickets
                .insert(key, Ticket::Together(start.path.clone()));
        }
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
            && let Some(Item {
                kind: Kind::Channel { show, .. },
                ..
            }) = self.items.get(&path)
        {
            show.leave(session);
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
