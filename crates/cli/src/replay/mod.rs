//! `hythe replay`: publishes a recording again, at its original timing; `--list` only shows what is
//! in it.
//!
//! `timing` keeps the clock. A payload is read straight from the file into a leased buffer, and
//! checked there before it is published.

mod listing;
mod timing;

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use hythe::recording::{Header, Reader, Record, checksum};
use hythe::{ChannelType, Lease, Publisher, PublisherOptions};
use hythe_sys::regular_file::open_regular;
use hythe_terminal::escaped;
use indicatif::ProgressBar;
use serde::Serialize;

use self::timing::{Timing, TimingDocument};
use crate::args::Globals;
use crate::error::CliError;
use crate::publish::losses::Losses;
use crate::publish::{FLUSH_BOUND, wait_for_subscriber};
use crate::record::failed;
use crate::stop::Stop;
use crate::{output, units};

/// Bytes of a payload that are checked at a time.
const PIECE_BYTES: usize = 16 << 10;

/// What to replay, and how.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The recording
    file: PathBuf,
    /// Only show what is in it
    #[arg(long)]
    list: bool,
    /// Publish on this channel; default: the one that was recorded
    #[arg(long, value_name = "NAME", conflicts_with = "list")]
    channel: Option<String>,
    /// So many times as fast as it was
    #[arg(long, value_name = "FACTOR", value_parser = units::parse_factor, default_value = "1", conflicts_with_all = ["fast", "list"])]
    speed: f64,
    /// As fast as it goes
    #[arg(long, conflicts_with = "list")]
    fast: bool,
    /// Replay it so many times; 0: until interrupted
    #[arg(
        long = "loop",
        value_name = "TIMES",
        default_value_t = 1,
        conflicts_with = "list"
    )]
    rounds: u64,
    /// Begin so many seconds behind the start of the recording
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, conflicts_with = "list")]
    from: Option<Duration>,
    /// Wait so many seconds for a first subscriber, and fail if there is none
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, conflicts_with = "list")]
    wait: Option<Duration>,
    /// Let one message be held up for so many seconds, for all subscribers that ask to be waited
    /// for together
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = units::parse_seconds,
        default_value = "0.1",
        conflicts_with = "list"
    )]
    send_timeout: Duration,
}

#[derive(Serialize)]
struct Document<'a> {
    pool: &'a str,
    channel: &'a str,
    file: &'a PathBuf,
    rounds: u64,
    messages: u64,
    payload_bytes: u64,
    delivered: u64,
    dropped: u64,
    /// Messages that are missing from the recording, in front of what was replayed.
    missed: u64,
    /// Records left out because their payload is damaged.
    damaged: u64,
    /// Bytes left out because they are no records.
    skipped_bytes: u64,
    /// The recording was ended in order; else so many bytes behind its last whole record were left
    /// out.
    complete: bool,
    dropped_bytes: u64,
    /// Somebody ended the replay before its time.
    interrupted: bool,
    seconds: f64,
    /// How late messages were published; none with `--fast`.
    timing: Option<TimingDocument>,
}

pub(crate) fn run(args: &ReplayArgs, globals: &Globals) -> Result<(), CliError> {
    let file = open_regular(&args.file).map_err(CliError::file("open", &args.file))?;
    let mut reader = Reader::open(&file).map_err(failed("read", &args.file))?;
    let summary = reader.summary();
    if args.list {
        return listing::run(&args.file, &mut reader, globals);
    }
    let stop = Stop::on_signals()?;
    let node = globals.join("hythe replay")?;
    node.end_waits_when(stop.watch());
    let channel = args
        .channel
        .as_deref()
        .unwrap_or(&reader.header().channel)
        .to_owned();
    let options = PublisherOptions::default()
        .carries(carried(reader.header()))
        .send_timeout(args.send_timeout);
    let mut publisher = node.publisher(&channel, &options)?;
    if let Some(time_limit) = args.wait {
        wait_for_subscriber(&mut publisher, time_limit, &stop)?;
    }
    let bar =
        output::progress((args.rounds > 0).then(|| summary.records.saturating_mul(args.rounds)));
    let mut replay = Replay {
        args,
        file: &file,
        bar: &bar,
        stop: &stop,
        timing: (!args.fast).then(|| Timing::new(args.speed)).transpose()?,
        losses: Losses::default(),
        document: Document {
            pool: node.pool().options().name(),
            channel: &channel,
            file: &args.file,
            rounds: 0,
            messages: 0,
            payload_bytes: 0,
            delivered: 0,
            dropped: 0,
            missed: 0,
            damaged: 0,
            skipped_bytes: 0,
            complete: summary.is_complete,
            dropped_bytes: summary.dropped_bytes,
            interrupted: false,
            seconds: 0.0,
            timing: None,
        },
    };
    let start = Instant::now();
    let replayed = replay.run(&mut reader, &mut publisher);
    bar.finish_and_clear();
    replayed?;
    publisher.flush(FLUSH_BOUND)?;
    replay.document.seconds = start.elapsed().as_secs_f64();
    replay.document.timing = replay.timing.map(|timing| timing.document());
    output::print(globals.json, &replay.document, text)?;
    replay.document.check(args)
}

impl Document<'_> {
    /// What was published is not all that was asked for: the reasons.
    fn check(&self, args: &ReplayArgs) -> Result<(), CliError> {
        let mut missing = Vec::new();
        if self.interrupted && args.rounds > 0 {
            missing.push("it was interrupted".to_owned());
        }
        if !self.complete {
            missing.push(match self.dropped_bytes {
                0 => "the recording was not ended in order: there may have been more".to_owned(),
                bytes => format!(
                    "the recording was not ended in order, and {} behind its last whole record \
                     are left out",
                    units::bytes(bytes)
                ),
            });
        }
        if self.damaged > 0 || self.skipped_bytes > 0 {
            missing.push(format!(
                "{} and {} that are no records are damaged",
                units::counted(self.damaged, "record"),
                units::bytes(self.skipped_bytes)
            ));
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(CliError::Failed(format!(
            "{} was not replayed whole: {}",
            escaped(&args.file),
            missing.join("; ")
        )))
    }
}

fn carried(header: &Header) -> ChannelType {
    ChannelType {
        name: header.type_name.clone(),
        bytes: header.type_bytes,
        align: header.type_align,
        version: header.type_version,
    }
}

/// A replay under way.
struct Replay<'a> {
    args: &'a ReplayArgs,
    file: &'a File,
    bar: &'a ProgressBar,
    stop: &'a Stop,
    timing: Option<Timing>,
    document: Document<'a>,
    losses: Losses,
}

impl Replay<'_> {
    fn run(
        &mut self,
        reader: &mut Reader<&File>,
        publisher: &mut Publisher,
    ) -> Result<(), CliError> {
        let from = self.args.from.unwrap_or_default();
        let from_ns = u64::try_from(from.as_nanos()).unwrap_or(u64::MAX);
        while self.args.rounds == 0 || self.document.rounds < self.args.rounds {
            let begun = reader.seek_time(from_ns);
            begun.map_err(failed("read", &self.args.file))?;
            if let Some(timing) = &mut self.timing {
                timing.begin(from_ns);
            }
            let before = self.document.messages;
            let is_whole = self.round(reader, publisher)?;
            self.document.skipped_bytes += reader.skipped_bytes();
            if !is_whole {
                self.document.interrupted = true;
                break;
            }
            self.document.rounds += 1;
            // Nothing to say again and again: an endless loop would spin.
            if self.document.messages == before {
                break;
            }
        }
        Ok(())
    }

    /// False: somebody asked to stop before its end.
    fn round(
        &mut self,
        reader: &mut Reader<&File>,
        publisher: &mut Publisher,
    ) -> Result<bool, CliError> {
        while !self.stop.asked() {
            let next = reader.next().map_err(failed("read", &self.args.file))?;
            let Some(record) = next else {
                return Ok(true);
            };
            self.document.missed += record.missed_before;
            let Some(lease) = self.fill(publisher, &record)? else {
                continue;
            };
            if let Some(timing) = &mut self.timing
                && !timing.wait_for(record.time_ns, self.stop)
            {
                break;
            }
            let published = self
                .losses
                .publish(publisher, lease, record.bytes as usize)?;
            self.document.messages += 1;
            self.document.payload_bytes += u64::from(record.bytes);
            self.document.delivered += u64::from(published.delivered);
            self.document.dropped += u64::from(published.dropped);
            self.bar.inc(1);
        }
        Ok(false)
    }

    /// A buffer with the record's payload; `None`: it is damaged, or no buffer is free.
    fn fill(
        &mut self,
        publisher: &mut Publisher,
        record: &Record,
    ) -> Result<Option<Lease>, CliError> {
        let bytes = record.bytes as usize;
        let mut lease = match publisher.lease(bytes) {
            Err(error) if self.losses.is_full(&error) => {
                self.document.dropped += publisher.subscribers()?.max(1) as u64;
                return Ok(None);
            }
            leased => leased?,
        };
        let mut filled = 0;
        while filled < bytes {
            let at = record.position + filled as u64;
            let read = lease.read_file(self.file, at, filled, bytes - filled);
            match read.map_err(CliError::file("read", &self.args.file))? {
                0 => break,
                some => filled += some,
            }
        }
        let checked = (filled == bytes).then(|| record.check(checksum_of(&lease, bytes)));
        match checked {
            Some(Ok(())) => Ok(Some(lease)),
            Some(Err(error)) => {
                tracing::warn!(file = %escaped(&self.args.file), %error, "left out");
                self.document.damaged += 1;
                Ok(None)
            }
            None => Err(CliError::Failed(format!(
                "{} became shorter while it was replayed: {} bytes of record {} are missing",
                escaped(&self.args.file),
                bytes - filled,
                record.number
            ))),
        }
    }
}

/// Of what is about to be published.
fn checksum_of(lease: &Lease, bytes: usize) -> u32 {
    let mut piece = [0; PIECE_BYTES];
    let mut sum = 0;
    for at in (0..bytes).step_by(PIECE_BYTES) {
        let piece = &mut piece[..PIECE_BYTES.min(bytes - at)];
        lease.read(at, piece);
        sum = checksum(sum, piece);
    }
    sum
}

fn text(done: &Document<'_>) -> String {
    let mut text = format!(
        "replayed {} of {} in all on {} in {:.3} s: {} delivered, {} dropped",
        units::counted(done.messages, "message"),
        units::bytes(done.payload_bytes),
        escaped(done.channel),
        done.seconds,
        done.delivered,
        done.dropped
    );
    if let Some(timing) = &done.timing {
        text += &format!("; {timing}");
    }
    if done.missed > 0 {
        text += &format!(
            "\nthe recorder had missed {} of what was between them",
            units::counted(done.missed, "message")
        );
    }
    if done.damaged > 0 || done.skipped_bytes > 0 {
        text += &format!(
            "\nleft out as damaged: {}, and {} that are no records",
            units::counted(done.damaged, "record"),
            units::bytes(done.skipped_bytes)
        );
    }
    text
}
