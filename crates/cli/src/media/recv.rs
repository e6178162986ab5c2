//! `hythe media recv`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hythe::PublisherOptions;
use hythe::media::format::StreamFormat;
use hythe::media::payload;
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
use serde::Serialize;

use crate::args::Globals;
use crate::error::CliError;
use crate::output;
use crate::stop::Stop;
use crate::units;

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
    /// How long a missing packet is waited for, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    delay: u64,
    /// End so many seconds after the last packet, or after the start if none came; default: at the sender's goodbye only
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    idle: Option<Duration>,
    /// The interface on which a group is joined [default: where the way to it leads]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Never ask for packets again, even if the description allows it
    #[arg(long)]
    no_nack: bool,
}

#[derive(Serialize)]
struct Document {
    payload: &'static str,
    from: String,
    ended: &'static str,
    packets: u64,
    bytes: u64,
    lost: u64,
    recovered: u64,
    reordered: u64,
    late: u64,
    duplicates: u64,
    malformed: u64,
    foreign: u64,
    kernel_drops: u32,
    requested: u64,
    largest_gap: u64,
    jitter_ns: u64,
}

pub(crate) fn run(args: &RecvArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let offer = offer(args)?;
    let format = &offer.stream.format;
    let depacketizer = payload::depacketizer(format)?;
    let sink = sink(args, format, globals)?;
    let sockets = Sockets::open(&offer.binding)?;
    let mut settings = Settings {
        delay_ns: args.delay * 1_000_000,
        requests: (offer.stream.takes_nack && !args.no_nack).then(Limits::default),
        ..Settings::default()
    };
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
    let stream = Stream::new(
        settings,
        format,
        &Identity::random()?,
        depacketizer,
        sink,
        now_ns(),
    );
    let until = Until {
        goodbye: true,
        idle: args.idle,
    };
    let mut session = Session::new(sockets, stream, until);
    let ended = session.run(Some(stop.descriptor()));
    drop(playing);
    let (end, statistics) = ended?;
    let document = document(args, format, end, &statistics);
    output::print(globals.json, &document, text)
}

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
        return Ok(Offer {
            stream,
            binding: Binding::new(SocketAddr::new(any, 0)),
            client: Some(client),
        });
    }
    let stream = chosen(args, sdp::read(&args.description)?)?;
    let mut binding = Binding::new(stream.destination);
    binding.rtcp_port = stream.rtcp_port;
    binding.interface.clone_from(&args.interface);
    Ok(Offer {
        stream,
        binding,
        client: None,
    })
}

fn chosen(args: &RecvArgs, streams: Vec<StreamDescription>) -> Result<StreamDescription, CliError> {
    let (count, number) = (streams.len(), args.stream);
    let found = streams.into_iter().nth(usize::from(number) - 1);
    found.ok_or_else(|| {
        let shown = args.description.display();
        CliError::Failed(format!(
            "{shown} describes {count} streams that are understood; there is no stream {number}"
        ))
    })
}

fn sink(
    args: &RecvArgs,
    format: &StreamFormat,
    globals: &Globals,
) -> Result<Box<dyn Sink>, CliError> {
    match (&args.out, &args.channel) {
        (Some(path), _) => Ok(sink::open(path, format)?),
        (None, Some(channel)) => {
            let node = globals.join("hythe media recv")?;
            let publisher = node.publisher(channel, &PublisherOptions::default())?;
            Ok(Box::new(ChannelSink::new(&node, publisher, format)))
        }
        (None, None) => Err(CliError::WrongUse(
            "say --out FILE or --channel NAME".into(),
        )),
    }
}

fn document(args: &RecvArgs, format: &StreamFormat, end: End, statistics: &Statistics) -> Document {
    let hz = u64::from(format.clock_hz.max(1));
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
        lost: statistics.lost,
        recovered: statistics.recovered,
        reordered: statistics.reordered,
        late: statistics.late,
        duplicates: statistics.duplicates,
        malformed: statistics.malformed + statistics.malformed_payloads,
        foreign: statistics.foreign + statistics.other_payload_type,
        kernel_drops: statistics.kernel_drops,
        requested: statistics.requested,
        largest_gap: statistics.largest_gap,
        jitter_ns: u64::from(statistics.jitter_ticks) * 1_000_000_000 / hz,
    }
}

fn text(document: &Document) -> String {
    format!(
        "{} packets of {} with {} bytes; ended: {}\n\
         lost {}, repaired {}, overtaken {}, late {}, repeated {}, malformed {}, foreign {}\n\
         dropped by the kernel {}, largest gap {} packets, jitter {:.1} us\n",
        document.packets,
        document.payload,
        document.bytes,
        document.ended,
        document.lost,
        document.recovered,
        document.reordered,
        document.late,
        document.duplicates,
        document.malformed,
        document.foreign,
        document.kernel_drops,
        document.largest_gap,
        document.jitter_ns as f64 / 1e3,
    )
}
