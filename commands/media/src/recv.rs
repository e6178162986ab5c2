//! `hythe media recv`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use hythe::media::MediaError;
use hythe::media::address::StreamAddress;
use hythe::media::identity;
use hythe::media::receive::repairer::Repairer;
use hythe::media::receive::session::{Session, Until, now_ns};
use hythe::media::receive::socket::{Binding, Sockets};
use hythe::media::receive::stream::{Settings, Stream};
use hythe::media::rtsp::client::{Account, Client, Playing};
use hythe::media::sdp::{self, StreamDescription};
use hythe::media::sink::channel::ChannelSink;
use hythe::media::sink::{self, Sink};
use hythe::media::slots::{Slots, depacketizer_for_channel};
use hythe::rtp::format::StreamFormat;
use hythe::rtp::payload::{self, Depacketize};
use hythe::rtp::receive::requests::Limits;
use hythe::{PublisherOptions, TrustPeers};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_command::stop::Stop;
use hythe_command::units;
use hythe_terminal::escaped;

use super::choice::{Choice, Chosen, choose, file_of};
use super::payload::{EXAMPLES, Payload};
use super::published::Published;
use super::received::{AllDocument, Document};
use super::repair;
use super::rtsp_session::{self, IDLE, LOST, OTHER_TYPE, ServerDocument};

/// What to receive, and where to.
#[derive(Args, Debug)]
pub struct RecvArgs {
    /// The session description, rtsp://HOST[:PORT]/PATH, or rtp://HOST:PORT with --payload: an
    /// address of this host, or a group
    #[arg(value_name = "SDP|URL")]
    description: PathBuf,
    /// Format of the stream to rtp://HOST:PORT: ts, mpa, h264, h265, opus, pcmu, pcma or
    /// l16:48000:2; with @TYPE if its payload type is not the usual one, such as h264@99
    #[arg(long, value_name = "PAYLOAD")]
    payload: Option<Payload>,
    /// Stream to receive: its number, counted from 1, audio, video, or all, each to a file of its
    /// own [default: the only one]
    #[arg(long, value_name = "N|audio|video|all")]
    stream: Option<Choice>,
    /// File to write. Its format follows from the stream: TS, WAV, MP3, Ogg, H.264 or H.265 byte
    /// stream. With --stream all it is the beginning of the names: film becomes film-1.h264,
    /// film-2.opus
    #[arg(short, long, value_name = "FILE", required_unless_present = "channel")]
    out: Option<PathBuf>,
    /// Publish the stream on a Hythe channel, one message for each picture, frame or block
    #[arg(long, value_name = "CHANNEL", conflicts_with = "out")]
    channel: Option<String>,
    /// Milliseconds to wait for a missing packet [default: as the description says, else 200 with
    /// repair and 50 without]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=60_000))]
    delay: Option<u64>,
    /// End so many seconds after the last packet, or after the start if none came [default: end
    /// only at the sender's RTCP BYE]
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    idle: Option<Duration>,
    /// Interface on which to join a group, or to which a link-local address belongs [default: by
    /// the routing table]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Never request retransmissions, even if the description offers them; parity is still used
    #[arg(long, conflicts_with = "no_repair")]
    no_nack: bool,
    /// Repair nothing: neither request retransmissions nor use parity, even if the description
    /// offers them
    #[arg(long)]
    no_repair: bool,
}

pub(crate) fn run(args: &RecvArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let (mut chosen, mut client) = offer(args)?;
    if client.is_none() {
        check_interface(args, &chosen)?;
    }
    if args.stream == Some(Choice::All) {
        let Some(out) = &args.out else {
            return Err(CliError::WrongUse(
                "--stream all writes each stream to a file of its own: say --out FILE, or name one stream for --channel".into(),
            ));
        };
        let open = |one: Chosen| {
            let out = file_of(out, &one);
            let way = Way {
                depacketizer: payload::depacketizer(&one.stream.format)?,
                sink: sink::open(&out, &one.stream.format)?,
                slots: None,
            };
            Ok((Part::open(args, one, Some(out), client.as_mut())?, way))
        };
        let parts: Result<Vec<_>, CliError> = chosen.into_iter().map(open).collect();
        let parts = parts?;
        let playing = client.map(Client::play).transpose()?;
        let received = receive_all(args, parts, &stop, playing.as_ref());
        let document = AllDocument {
            server: ended(args, playing),
            streams: received?,
        };
        output::print(globals.json, &document, AllDocument::text)?;
        return check(document.streams.iter());
    }
    let Some(one) = chosen.pop() else {
        return Err(CliError::Failed("there is nothing to receive".into()));
    };
    let way = way(args, &one.stream.format, globals)?;
    let part = Part::open(args, one, args.out.clone(), client.as_mut())?;
    let playing = client.map(Client::play).transpose()?;
    let received = part.receive(way, args, &stop, playing.as_ref());
    let server = ended(args, playing);
    let mut document = received?;
    document.server = server;
    output::print(globals.json, &document, Document::text)?;
    check([&document])
}

/// Is anything still sent that is received no more?
fn check<'d>(documents: impl IntoIterator<Item = &'d Document>) -> Result<(), CliError> {
    let failures = documents.into_iter().filter_map(|one| one.failure.clone());
    let failures: Vec<String> = failures.collect();
    match failures.is_empty() {
        true => Ok(()),
        false => Err(CliError::Failed(failures.join("; "))),
    }
}

/// The error of a stream that ended while its sender still sends.
fn failure(ended: &str, described: &StreamFormat, other_type: Option<u8>) -> Option<String> {
    let other = other_type.filter(|_| [OTHER_TYPE, IDLE].contains(&ended))?;
    Some(format!(
        "the sender changed to payload type {other}, and {} was described with {}: what came \
         before was received; start again with a description of what is sent now",
        described.encoding.name(),
        described.payload_type
    ))
}

/// Ends the session, if there is one, and says what was wrong with it.
fn ended(args: &RecvArgs, playing: Option<Playing>) -> Option<ServerDocument> {
    let account: Account = playing.as_ref()?.account();
    drop(playing);
    for trouble in rtsp_session::troubles(&args.description, &account) {
        output::note(trouble);
    }
    Some(ServerDocument::of(&account))
}

/// One stream that is going to be received.
struct Part {
    chosen: Chosen,
    settings: Settings,
    sockets: Sockets,
    out: Option<PathBuf>,
}

impl Part {
    /// Opens its ports, and has the server send to them, if there is one.
    fn open(
        args: &RecvArgs,
        chosen: Chosen,
        out: Option<PathBuf>,
        client: Option<&mut Client>,
    ) -> Result<Self, CliError> {
        let mut settings = settings(args, &chosen.stream);
        let sockets = open(&binding(args, &chosen.stream, client.as_deref())?)?;
        if let Some(client) = client {
            let delivery = client.set_up(&chosen.stream, sockets.address().port())?;
            settings.host = Some(delivery.host);
            settings.reports_to = delivery.rtcp;
            settings.ssrc = delivery.ssrc;
        }
        Ok(Self {
            chosen,
            settings,
            sockets,
            out,
        })
    }

    /// Receives it to its end.
    fn receive<S: Sink>(
        self,
        way: Way<S>,
        args: &RecvArgs,
        stop: &Stop,
        playing: Option<&Playing>,
    ) -> Result<Document, CliError> {
        let Chosen {
            number,
            stream: described,
        } = self.chosen;
        let Way {
            depacketizer,
            sink,
            slots,
        } = way;
        let (settings, format) = (self.settings, &described.format);
        let identity = identity::random()?;
        let mut stream = Stream::new(settings, format, &identity, depacketizer, sink, now_ns());
        if let Some(slots) = &slots
            && payload::is_whole_in_packets(format.encoding)
        {
            stream = stream.with_slots(slots);
        }
        if let Some(repairer) = Repairer::new(&described) {
            stream = stream.with_repair(Box::new(repairer));
        }
        let until = Until {
            goodbye: true,
            idle: args.idle,
        };
        let mut session = Session::new(self.sockets, stream, until);
        let (ended, statistics) = rtsp_session::receive(&mut session, stop, playing)?;
        if nothing(ended, statistics.packets) && args.stream != Some(Choice::All) {
            let (address, other) = (session.sockets().address(), session.stream().other_type());
            return Err(nothing_came(args, address, ended, other));
        }
        let stream = session.stream();
        let failure = match playing.and_then(|playing| playing.account().ended) {
            Some(why) => Some(format!(
                "{} was ended by its server: {why}; what came before was received",
                escaped(&args.description)
            )),
            None => failure(ended, format, stream.other_type()),
        };
        let mut document = Document::of(&args.description, format, ended, &statistics, stream);
        document.stream = number;
        document.failure = failure;
        document.out = self.out.map(|out| out.display().to_string());
        document.channel = slots.map(|slots| Published::new(slots.counts()));
        Ok(document)
    }
}

/// Receives several streams, each in a thread of its own. One that fails ends none of the others;
/// that nothing comes of one is no failure as long as something comes of another.
fn receive_all<S: Sink + Send>(
    args: &RecvArgs,
    parts: Vec<(Part, Way<S>)>,
    stop: &Stop,
    playing: Option<&Playing>,
) -> Result<Vec<Document>, CliError> {
    let first = parts.first().map(|(part, _)| part.sockets.address());
    let received: Result<Vec<Document>, CliError> = std::thread::scope(|scope| {
        let threads: Vec<_> = parts
            .into_iter()
            .map(|(part, way)| scope.spawn(move || part.receive(way, args, stop, playing)))
            .collect();
        let ended = threads.into_iter().map(|thread| {
            let panicked = |_| Err(CliError::Failed("a stream's thread panicked".into()));
            thread.join().unwrap_or_else(panicked)
        });
        // All of them, before the first failure counts.
        ended.collect::<Vec<_>>().into_iter().collect()
    });
    let received = received?;
    let empty = |document: &Document| nothing(document.ended, document.packets);
    match (first, received.first()) {
        (Some(address), Some(one)) if received.iter().all(empty) => {
            Err(nothing_came(args, address, one.ended, None))
        }
        _ => Ok(received),
    }
}

/// Did a stream end by itself before it began?
fn nothing(ended: &str, packets: u64) -> bool {
    packets == 0 && [IDLE, LOST].contains(&ended)
}

fn settings(args: &RecvArgs, stream: &StreamDescription) -> Settings {
    let delay = args
        .delay
        .map_or_else(|| repair::waited_for(stream), Duration::from_millis);
    let limits = Limits {
        after_parity: stream.parity.is_some(),
        ..Limits::default()
    };
    Settings {
        delay_ns: u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX),
        requests: (stream.takes_nack && !args.no_nack).then_some(limits),
        resent_as_first: stream.retransmission.is_none(),
        ..Settings::default()
    }
}

fn open(binding: &Binding) -> Result<Sockets, CliError> {
    let first = binding.address.port();
    Sockets::open(binding).map_err(|error| match error {
        MediaError::PortTaken { port } if binding.parity && port > first + 1 => {
            CliError::Failed(format!("{error}, or do without parity: --no-repair"))
        }
        other => other.into(),
    })
}

fn nothing_came(
    args: &RecvArgs,
    address: SocketAddr,
    ended: &str,
    other_type: Option<u8>,
) -> CliError {
    let seconds = args.idle.unwrap_or_default().as_secs_f64();
    let shown = escaped(&args.description);
    if ended == LOST {
        return CliError::Failed(format!(
            "no packet of {shown} came to {address} before its session was lost: is the server still there?"
        ));
    }
    if let Some(other) = other_type {
        return CliError::Failed(format!(
            "no packet of {shown} came to {address} within {seconds} s (--idle), but packets of \
             payload type {other} did: is the description that of what is sent? Without one say \
             --payload PAYLOAD@{other}"
        ));
    }
    CliError::Failed(format!(
        "no packet of {shown} came to {address} within {seconds} s (--idle): does somebody send there, and does a firewall let it through?"
    ))
}

/// What is to be received, and the server that is to send it, if there is one.
fn offer(args: &RecvArgs) -> Result<(Vec<Chosen>, Option<Client>), CliError> {
    let url = args
        .description
        .to_str()
        .filter(|text| text.starts_with("rtsp://"));
    if let Some(address) = address_of(&args.description) {
        return Ok((vec![described(args, address)?], None));
    }
    if args.payload.is_some() {
        return Err(CliError::WrongUse(
            "--payload is for rtp://HOST:PORT: a description says it itself".into(),
        ));
    }
    let (listed, client) = match url {
        Some(url) => {
            let mut client = Client::connect_on(url, args.interface.as_deref())?;
            (client.describe()?, Some(client))
        }
        None => (sdp::read_all(&args.description)?, None),
    };
    let tell = &mut |what| output::note(what);
    let mut chosen = choose(args.stream, &args.description, listed, tell)?;
    if args.no_repair {
        for one in &mut chosen {
            repair::without(&mut one.stream);
        }
    }
    Ok((chosen, client))
}

/// The address that stands in the place of a description.
fn address_of(description: &Path) -> Option<&str> {
    description
        .to_str()
        .filter(|text| text.starts_with("rtp://"))
}

/// The stream that comes to an address.
fn described(args: &RecvArgs, address: &str) -> Result<Chosen, CliError> {
    let useless = [
        (args.stream.is_some(), "--stream", "one stream comes"),
        (
            args.no_nack,
            "--no-nack",
            "nothing offers repair of what comes",
        ),
        (
            args.no_repair,
            "--no-repair",
            "nothing offers repair of what comes",
        ),
    ];
    if let Some((_, option, why)) = useless.into_iter().find(|(is_said, ..)| *is_said) {
        return Err(CliError::WrongUse(format!(
            "{option} is for descriptions, and {why} to {address}: leave it out"
        )));
    }
    let destination = address.parse::<StreamAddress>()?.resolve()?;
    let Some(Payload(format)) = args.payload.clone() else {
        return Err(CliError::WrongUse(format!(
            "what comes to {address} is not known without a description: name its file, or say \
             --payload {EXAMPLES}"
        )));
    };
    Ok(Chosen {
        number: 1,
        stream: StreamDescription::new(format, destination),
    })
}

/// The interface of a group or a link-local address: as the option says, or the address.
fn interface(args: &RecvArgs) -> Option<String> {
    let address = address_of(&args.description);
    let of_address = || address?.parse::<StreamAddress>().ok()?.interface;
    args.interface.clone().or_else(of_address)
}

/// Where a stream comes to: where its description says, or any pair of ports for a server.
fn binding(
    args: &RecvArgs,
    stream: &StreamDescription,
    client: Option<&Client>,
) -> Result<Binding, CliError> {
    let mut binding = match client.map(Client::host) {
        Some(IpAddr::V4(_)) => Binding::new(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)),
        Some(IpAddr::V6(_)) => Binding::new(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0)),
        None => Binding {
            rtcp_port: stream.rtcp_port,
            parity: repair::has_parity_ports(stream),
            ..Binding::new(stream.destination)
        },
    };
    // A server's is that of the connection to it.
    if client.is_none() {
        binding.interface = interface(args);
    }
    Ok(binding)
}

/// Refuses an interface for streams to addresses that are the same on each.
fn check_interface(args: &RecvArgs, chosen: &[Chosen]) -> Result<(), CliError> {
    let mut addresses = chosen.iter().map(|one| one.stream.destination.ip());
    match addresses.find(|address| !takes_interface(*address)) {
        Some(address) if args.interface.is_some() => Err(CliError::WrongUse(format!(
            "--interface is for groups and link-local addresses, and the stream comes to \
             {address}: leave it out"
        ))),
        _ => Ok(()),
    }
}

/// Is it an address that means another thing on each interface?
fn takes_interface(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_multicast(),
        IpAddr::V6(address) => address.is_multicast() || address.is_unicast_link_local(),
    }
}

/// From payloads to where the media goes.
struct Way<S> {
    depacketizer: Box<dyn Depacketize + Send>,
    sink: S,
    /// Of a channel.
    slots: Option<Slots>,
}

fn way(
    args: &RecvArgs,
    format: &StreamFormat,
    globals: &Globals,
) -> Result<Way<Box<dyn Sink>>, CliError> {
    match (&args.out, &args.channel) {
        (Some(path), _) => Ok(Way {
            depacketizer: payload::depacketizer(format)?,
            sink: sink::open(path, format)?,
            slots: None,
        }),
        (None, Some(channel)) => {
            let node = globals.join("hythe media recv")?;
            let publisher = node.publisher(channel, &PublisherOptions::default())?;
            let trust = TrustPeers::i_trust_every_writer_of_this_pool();
            let slots = Slots::new(&node, &publisher, trust);
            Ok(Way {
                depacketizer: depacketizer_for_channel(format, &slots)?,
                sink: Box::new(ChannelSink::new(publisher, &slots, format)),
                slots: Some(slots),
            })
        }
        (None, None) => Err(CliError::WrongUse(
            "say --out FILE or --channel NAME".into(),
        )),
    }
}
