//! `hythe media recv`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hythe::media::MediaError;
use hythe::media::format::StreamFormat;
use hythe::media::payload::{self, Depacketize};
use hythe::media::receive::repairer::Repairer;
use hythe::media::receive::requests::Limits;
use hythe::media::receive::session::{End, Session, Until, now_ns};
use hythe::media::receive::socket::{Binding, Sockets};
use hythe::media::receive::statistics::Statistics;
use hythe::media::receive::stream::{Settings, Stream};
use hythe::media::rtp::Identity;
use hythe::media::rtsp::client::Client;
use hythe::media::sdp::{self, StreamDescription};
use hythe::media::sink::channel::ChannelSink;
use hythe::media::sink::{self, Sink};
use hythe::media::slots::Slots;
use hythe::{PublisherOptions, TrustPeers};
use serde::Serialize;

use crate::args::Globals;
use crate::error::CliError;
use crate::output;
use crate::stop::Stop;
use crate::units;

use super::published::Published;
use super::repair;

/// What to receive, and where to.
#[derive(Args, Debug)]
pub(crate) struct RecvArgs {
    /// The session description, or rtsp://HOST[:PORT]/PATH
    #[arg(value_name = "SDP|URL")]
    description: PathBuf,
    /// Which stream of it, counted from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    stream: u16,
    /// The file to write; what it is follows from the stream (TS, WAV, MP3, Ogg, H.264 or H.265 byte stream)
    #[arg(short, long, value_name = "FILE", required_unless_present = "channel")]
    out: Option<PathBuf>,
    /// Publish what comes on a Hythe channel, a message for each picture, frame or block
    #[arg(long, value_name = "CHANNEL", conflicts_with = "out")]
    channel: Option<String>,
    /// How long a missing packet is waited for, in milliseconds [default: as the description says; where it does not, 200 with repair and 50 without]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=60_000))]
    delay: Option<u64>,
    /// End so many seconds after the last packet, or after the start if none came; default: at the sender's goodbye only
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    idle: Option<Duration>,
    /// The interface on which a group is joined, or that a link-local address is of [default: where the way leads]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Never ask for packets again, even if the description allows it; parity is still used
    #[arg(long)]
    no_nack: bool,
    /// Repair nothing, whatever the description offers: neither ask for packets again nor use parity
    #[arg(long)]
    no_repair: bool,
}

#[derive(Serialize)]
struct Document {
    payload: &'static str,
    from: String,
    ended: &'static str,
    packets: u64,
    bytes: u64,
    delay_ns: u64,
    /// On the way: what was repaired, and what is missing.
    lost: u64,
    requested: u64,
    recovered: u64,
    recovered_by_resending: u64,
    recovered_by_parity: u64,
    missing: u64,
    missing_packets: Vec<MissingDocument>,
    late: u64,
    reordered: u64,
    duplicates: u64,
    malformed: u64,
    foreign: u64,
    kernel_drops: u32,
    largest_gap: u64,
    jitter_ns: u64,
    round_trip_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<Published>,
}

/// Packets that follow each other and are missing.
#[derive(Serialize)]
struct MissingDocument {
    /// Sequence number of the first, as in its RTP header.
    first: u16,
    packets: u64,
}

pub(crate) fn run(args: &RecvArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let offer = offer(args)?;
    let format = &offer.stream.format;
    let Way {
        depacketizer,
        sink,
        slots,
    } = way(args, format, globals)?;
    let sockets = open(&offer)?;
    let mut settings = settings(args, &offer.stream);
    let playing = match offer.client {
        Some(mut client) => {
            let delivery = client.set_up(&offer.stream, sockets.address().port())?;
            settings.host = Some(delivery.host);
            settings.reports_to = delivery.rtcp;
            settings.ssrc = delivery.ssrc;
            Some(client.play()?)
        }
        None => None,
    };
    let identity = Identity::random()?;
    let mut stream = Stream::new(settings, format, &identity, depacketizer, sink, now_ns());
    if let Some(slots) = &slots
        && payload::is_whole_in_packets(format.encoding)
    {
        stream = stream.with_slots(slots);
    }
    if let Some(repairer) = Repairer::new(&offer.stream) {
        stream = stream.with_repair(Box::new(repairer));
    }
    let until = Until {
        goodbye: true,
        idle: args.idle,
    };
    let mut session = Session::new(sockets, stream, until);
    let ended = session.run(Some(stop.descriptor()));
    drop(playing);
    let (end, statistics) = ended?;
    if end == End::Idle && statistics.packets == 0 {
        return Err(nothing_came(args, &session));
    }
    let mut document = document(args, format, end, &statistics, session.stream());
    document.channel = slots.map(|slots| Published::new(slots.counts()));
    output::print(globals.json, &document, text)
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

fn open(offer: &Offer) -> Result<Sockets, CliError> {
    let first = offer.binding.address.port();
    Sockets::open(&offer.binding).map_err(|error| match error {
        MediaError::PortTaken { port } if offer.binding.parity && port > first + 1 => {
            CliError::Failed(format!("{error}, or do without parity: --no-repair"))
        }
        other => other.into(),
    })
}

fn nothing_came(args: &RecvArgs, session: &Receiving) -> CliError {
    let address = session.sockets().address();
    let seconds = args.idle.unwrap_or_default().as_secs_f64();
    let shown = args.description.display();
    CliError::Failed(format!(
        "no packet of {shown} came to {address} within {seconds} s (--idle): does somebody send there, and does a firewall let it through?"
    ))
}

/// What `run` puts together.
type Receiving = Session<Box<dyn Depacketize + Send>, Box<dyn Sink>>;

/// What is to be received, and on which ports.
struct Offer {
    stream: StreamDescription,
    binding: Binding,
    /// The server that is to send it.
    client: Option<Client>,
}

fn offer(args: &RecvArgs) -> Result<Offer, CliError> {
    let url = args
        .description
        .to_str()
        .filter(|text| text.starts_with("rtsp://"));
    if let Some(url) = url {
        let mut client = Client::connect(url)?;
        let stream = chosen(args, client.describe()?)?;
        let any = match client.host()? {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let mut binding = Binding::new(SocketAddr::new(any, 0));
        binding.interface.clone_from(&args.interface);
        return Ok(Offer {
            stream,
            binding,
            client: Some(client),
        });
    }
    let stream = chosen(args, sdp::read(&args.description)?)?;
    let mut binding = Binding::new(stream.destination);
    binding.rtcp_port = stream.rtcp_port;
    binding.interface.clone_from(&args.interface);
    binding.parity = repair::has_parity_ports(&stream);
    Ok(Offer {
        stream,
        binding,
        client: None,
    })
}

fn chosen(args: &RecvArgs, streams: Vec<StreamDescription>) -> Result<StreamDescription, CliError> {
    let (count, number) = (streams.len(), args.stream);
    let found = streams.into_iter().nth(usize::from(number) - 1);
    let mut found = found.ok_or_else(|| {
        let shown = args.description.display();
        CliError::Failed(format!(
            "{shown} describes {count} streams that are understood; there is no stream {number}"
        ))
    })?;
    if args.no_repair {
        repair::without(&mut found);
    }
    Ok(found)
}

/// From payloads to where the media goes.
struct Way {
    depacketizer: Box<dyn Depacketize + Send>,
    sink: Box<dyn Sink>,
    /// Of a channel.
    slots: Option<Slots>,
}

fn way(args: &RecvArgs, format: &StreamFormat, globals: &Globals) -> Result<Way, CliError> {
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
                depacketizer: payload::depacketizer_for_channel(format, &slots)?,
                sink: Box::new(ChannelSink::new(publisher, &slots, format)),
                slots: Some(slots),
            })
        }
        (None, None) => Err(CliError::WrongUse(
            "say --out FILE or --channel NAME".into(),
        )),
    }
}

fn document<D: Depacketize, S: Sink>(
    args: &RecvArgs,
    format: &StreamFormat,
    end: End,
    statistics: &Statistics,
    stream: &Stream<D, S>,
) -> Document {
    let hz = u64::from(format.clock_hz.max(1));
    let gaps = stream.gaps().iter().map(|gap| MissingDocument {
        first: gap.first as u16, // an extended number: these are the bits of the header
        packets: gap.packets,
    });
    Document {
        payload: format.encoding.name(),
        from: args.description.display().to_string(),
        ended: match end {
            End::Goodbye => "goodbye",
            End::Idle => "idle",
            End::Stopped => "stopped",
        },
        packets: statistics.packets,
        bytes: statistics.bytes,
        delay_ns: stream.settings().delay_ns,
        lost: statistics.lost + statistics.recovered,
        requested: statistics.requested,
        recovered: statistics.recovered,
        recovered_by_resending: statistics.recovered - statistics.recovered_by_parity,
        recovered_by_parity: statistics.recovered_by_parity,
        missing: statistics.lost,
        missing_packets: gaps.collect(),
        late: statistics.late,
        reordered: statistics.reordered,
        duplicates: statistics.duplicates,
        malformed: statistics.malformed + statistics.malformed_payloads,
        foreign: statistics.foreign + statistics.other_payload_type,
        kernel_drops: statistics.kernel_drops,
        largest_gap: statistics.largest_gap,
        jitter_ns: u64::from(statistics.jitter_ticks) * 1_000_000_000 / hz,
        round_trip_ns: stream.round_trip_ns(),
        channel: None,
    }
}

fn text(document: &Document) -> String {
    let account = format!(
        "{} packets of {} with {} bytes; ended: {}\n\
         lost {}: {} sent again ({} asked for), {} repaired by parity, {} missing, {} of them too late\n",
        document.packets,
        document.payload,
        document.bytes,
        document.ended,
        document.lost,
        document.recovered_by_resending,
        document.requested,
        document.recovered_by_parity,
        document.missing,
        document.late,
    );
    let others = format!(
        "overtaken {}, repeated {}, malformed {}, foreign {}\n\
         dropped by the kernel {}, largest gap {} packets, jitter {:.1} us\n",
        document.reordered,
        document.duplicates,
        document.malformed,
        document.foreign,
        document.kernel_drops,
        document.largest_gap,
        document.jitter_ns as f64 / 1e3,
    );
    let channel = document
        .channel
        .as_ref()
        .map_or_else(String::new, Published::text);
    account + &missing(document) + &others + &channel
}

/// What is missing, by number: the last gaps.
fn missing(document: &Document) -> String {
    if document.missing == 0 {
        return String::new();
    }
    let named: u64 = document.missing_packets.iter().map(|gap| gap.packets).sum();
    let earlier = if named < document.missing {
        "the last are "
    } else {
        ""
    };
    let gaps = document
        .missing_packets
        .iter()
        .map(|gap| match gap.packets {
            1 => gap.first.to_string(),
            // Numbers wrap (RFC 3550, section 5.1).
            more => format!("{}-{}", gap.first, gap.first.wrapping_add(more as u16 - 1)),
        });
    let gaps: Vec<String> = gaps.collect();
    format!("missing: {earlier}{}\n", gaps.join(", "))
}
