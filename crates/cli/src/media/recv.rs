//! `hythe media recv`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use hythe::PublisherOptions;
use hythe::media::payload;
use hythe::media::receive::requests::Limits;
use hythe::media::receive::session::{End, Session, Until, now_ns};
use hythe::media::receive::socket::{Binding, Sockets};
use hythe::media::receive::statistics::Statistics;
use hythe::media::receive::stream::{Settings, Stream};
use hythe::media::rtp::Identity;
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
    /// The session description
    #[arg(value_name = "SDP")]
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
    /// End so many seconds after the last packet; default: at the sender's goodbye only
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
    let described = chosen(&args.description, args.stream)?;
    let format = &described.format;
    let depacketizer = payload::depacketizer(format)?;
    let sink: Box<dyn Sink> = match (&args.out, &args.channel) {
        (Some(path), _) => sink::open(path, format)?,
        (None, Some(channel)) => {
            let node = globals.join("hythe media recv")?;
            let publisher = node.publisher(channel, &PublisherOptions::default())?;
            Box::new(ChannelSink::new(&node, publisher, format))
        }
        (None, None) => {
            return Err(CliError::WrongUse(
                "say --out FILE or --channel NAME".into(),
            ));
        }
    };
    let sockets = Sockets::open(&binding(args, &described))?;
    let settings = settings(args, &described);
    let identity = Identity::random()?;
    let stream = Stream::new(settings, format, &identity, depacketizer, sink, now_ns());
    let until = Until {
        goodbye: true,
        idle: args.idle,
    };
    let mut session = Session::new(sockets, stream, until);
    let (end, statistics) = session.run(Some(stop.descriptor()))?;
    let document = document(&described, end, &statistics);
    output::print(globals.json, &document, text)
}

fn chosen(path: &Path, number: u16) -> Result<StreamDescription, CliError> {
    let streams = sdp::read(path)?;
    let count = streams.len();
    streams
        .into_iter()
        .nth(usize::from(number) - 1)
        .ok_or_else(|| {
            CliError::Failed(format!(
                "{} describes {count} streams that are understood; there is no stream {number}",
                path.display()
            ))
        })
}

fn binding(args: &RecvArgs, described: &StreamDescription) -> Binding {
    let mut binding = Binding::new(described.destination);
    binding.rtcp_port = described.rtcp_port;
    binding.interface.clone_from(&args.interface);
    binding
}

fn settings(args: &RecvArgs, described: &StreamDescription) -> Settings {
    let may_ask = described.takes_nack && !args.no_nack;
    Settings {
        delay_ns: args.delay * 1_000_000,
        requests: may_ask.then(Limits::default),
        ..Settings::default()
    }
}

fn document(described: &StreamDescription, end: End, statistics: &Statistics) -> Document {
    let hz = u64::from(described.format.clock_hz.max(1));
    Document {
        payload: described.format.encoding.name(),
        from: described.destination.to_string(),
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
