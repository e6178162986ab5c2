//! `hythe record`: writes what arrives on a channel into a file, as `spec/recording.md` says.
//!
//! It subscribes like anybody else. Where the disk is slower than the publishers, its queues fill,
//! and what happens then is the subscriber's policy: nobody waits for the disk unless told to.
//! What the recorder missed stands in the file, at its place. What was written is whole whatever
//! ends it: the end block only spares the next reader a walk through the file.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use hythe::recording::{Header, RecordingError, Totals, Writer};
use hythe::{ChannelType, Node, Sample, Subscriber, SubscriberOptions, monotonic_ns};
use hythe_sys::regular_file::create_output;
use hythe_terminal::escaped;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::args::{Globals, WhenFull};
use crate::error::CliError;
use crate::stop::{LOOK, Stop};
use crate::subscribe::{Unpublished, missed, policy};
use crate::{output, units};

/// Bytes that are gathered before they are handed to the system.
const BUFFER_BYTES: usize = 256 << 10;

/// What to record, and for how long.
#[derive(Args, Debug)]
pub(crate) struct RecordArgs {
    /// The channel; made if there is none
    channel: String,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if there is one
    #[arg(long)]
    force: bool,
    /// End after this many seconds [default: run until interrupted]
    #[arg(long = "for", value_name = "SECONDS", value_parser = units::parse_seconds)]
    duration: Option<Duration>,
    /// End after this many messages
    #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Messages that may wait, per publisher
    #[arg(long, value_name = "MESSAGES", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=32768))]
    depth: u32,
    /// What publishers do when as many wait, because the disk is slow [default: drop-newest, or
    /// block if --block says for how long]
    #[arg(long, value_name = "POLICY")]
    policy: Option<WhenFull>,
    /// Let publishers wait so many seconds for free capacity, instead of dropping a message
    /// [default with
    /// --policy block: 1]
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    block: Option<Duration>,
}

/// How long publishers wait when nobody says: a recorder watches, and shall not hold up those who
/// work.
const BLOCK: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct Document<'a> {
    pool: &'a str,
    channel: &'a str,
    #[serde(rename = "type")]
    carries: String,
    file: &'a Path,
    records: u64,
    payload_bytes: u64,
    file_bytes: u64,
    seconds: f64,
    /// Messages that the recorder missed.
    dropped: u64,
    violations: u64,
}

pub(crate) fn run(args: &RecordArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let node = globals.join("hythe record")?;
    let mut subscriber = node.subscriber(&args.channel, &options(args)?)?;
    let carries = carried(&node, &args.channel);
    let file = create(args)?;
    let bar = output::progress(args.count);
    let mut recording = Recording {
        args,
        carries: &carries,
        file: Some(file),
        writer: None,
        started: Instant::now(),
        first_ns: 0,
        marked: 0,
        payload: Vec::new(),
        bar: &bar,
    };
    let start = recording.started;
    let ended = recording.run(&mut subscriber, &stop);
    bar.finish_and_clear();
    // Also what is missing behind the last message that was taken.
    let missed = missed(&node);
    // Also behind an error: what was recorded stays as it is.
    let totals = recording.finish(missed)?;
    ended?;
    let document = Document {
        pool: node.pool().options().name(),
        channel: &args.channel,
        carries: carries.to_string(),
        file: &args.output,
        records: totals.records,
        payload_bytes: totals.payload_bytes,
        file_bytes: totals.file_bytes,
        seconds: start.elapsed().as_secs_f64(),
        dropped: missed,
        violations: subscriber.statistics().violations,
    };
    output::print(globals.json, &document, text)?;
    if document.records == 0 {
        return Err(CliError::Failed(format!(
            "nothing was recorded: no message came on channel `{}` in {:.1} s; \
             {} has a header and no record",
            escaped(&args.channel),
            document.seconds,
            escaped(&args.output)
        )));
    }
    Ok(())
}

/// Names file and action of a recording's error.
pub(crate) fn failed(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(RecordingError) -> CliError + use<> {
    let path = path.to_owned();
    move |error| CliError::Failed(format!("cannot {action} {}: {error}", escaped(&path)))
}

fn options(args: &RecordArgs) -> Result<SubscriberOptions, CliError> {
    let policy = policy(args.policy, args.block, BLOCK)?;
    Ok(SubscriberOptions::default()
        .depth(args.depth)
        .policy(policy))
}

/// What the channel carries: our port keeps it, so it does not change.
fn carried(node: &Node, channel: &str) -> ChannelType {
    let found = node.pool().channel(channel);
    found.map_or_else(ChannelType::default, |found| found.carries)
}

fn create(args: &RecordArgs) -> Result<File, CliError> {
    if args.force {
        return create_output(&args.output).map_err(CliError::file("make", &args.output));
    }
    File::create_new(&args.output).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => CliError::Failed(format!(
            "{} exists: --force replaces it",
            escaped(&args.output)
        )),
        _ => CliError::file("make", &args.output)(error),
    })
}

fn header(args: &RecordArgs, carries: &ChannelType) -> Header {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Header {
        channel: args.channel.clone(),
        type_name: carries.name.clone(),
        type_bytes: carries.bytes,
        type_align: carries.align,
        type_version: carries.version,
        // A clock before 1970 was never set. 64 bits last until 2554.
        started_unix_ns: since_1970.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(0)),
    }
}

/// A recording under way.
struct Recording<'a> {
    args: &'a RecordArgs,
    carries: &'a ChannelType,
    /// Until the first message: the recording begins with it.
    file: Option<File>,
    writer: Option<Writer<BufWriter<File>>>,
    started: Instant,
    first_ns: u64,
    /// Missed, and marked in the file.
    marked: u64,
    payload: Vec<u8>,
    bar: &'a ProgressBar,
}

impl Recording<'_> {
    fn run(&mut self, subscriber: &mut Subscriber, stop: &Stop) -> Result<(), CliError> {
        let mut unpublished = Unpublished::from_now();
        while !stop.asked() && !self.has_all() {
            let left = self.left();
            if left.is_zero() {
                break;
            }
            let sample = match subscriber.try_take()? {
                Some(sample) => Some(sample),
                None => {
                    self.flush()?;
                    subscriber.take(left.min(LOOK))?
                }
            };
            match sample {
                Some(sample) => self.append(&sample)?,
                None => unpublished.look(subscriber)?,
            }
        }
        self.take_what_waits(subscriber)
    }

    /// What was published before the end is recorded, too; not what comes meanwhile.
    fn take_what_waits(&mut self, subscriber: &mut Subscriber) -> Result<(), CliError> {
        let most = subscriber.connected_publishers()? as u64
            * u64::from(self.args.depth.next_power_of_two());
        for _ in 0..most {
            if self.has_all() {
                break;
            }
            let Some(sample) = subscriber.try_take()? else {
                break;
            };
            self.append(&sample)?;
        }
        Ok(())
    }

    fn append(&mut self, sample: &Sample) -> Result<(), CliError> {
        let now_ns = monotonic_ns();
        if self.writer.is_none() {
            self.first_ns = now_ns;
        }
        let (time_ns, missed) = (now_ns - self.first_ns, sample.missed_before());
        // Copied once and then checked: the publisher may still write the buffer.
        self.payload.resize(sample.len(), 0);
        sample.read(0, &mut self.payload);
        self.begin()?;
        self.mark(missed.into())?;
        if let Some(writer) = &mut self.writer {
            let appended = writer.append(time_ns, &self.payload);
            appended.map_err(failed("write", &self.args.output))?;
        }
        self.bar.inc(1);
        Ok(())
    }

    /// Writes the header, if that has not been done: the recording begins now.
    fn begin(&mut self) -> Result<(), CliError> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let into = BufWriter::with_capacity(BUFFER_BYTES, file);
        let begun = Writer::new(into, &header(self.args, self.carries));
        self.writer = Some(begun.map_err(failed("write", &self.args.output))?);
        Ok(())
    }

    /// Marks so many messages as missing here.
    fn mark(&mut self, missed: u64) -> Result<(), CliError> {
        let Some(writer) = self.writer.as_mut().filter(|_| missed > 0) else {
            return Ok(());
        };
        self.marked += missed;
        let marked = writer.append_missed(missed);
        marked.map_err(failed("write", &self.args.output))
    }

    fn flush(&mut self) -> Result<(), CliError> {
        match &mut self.writer {
            Some(writer) => writer.flush().map_err(failed("write", &self.args.output)),
            None => Ok(()),
        }
    }

    /// Writes the end; `missed` in all, of which the last may not be marked yet.
    fn finish(mut self, missed: u64) -> Result<Totals, CliError> {
        self.begin()?;
        self.mark(missed.saturating_sub(self.marked))?;
        match self.writer {
            Some(writer) => writer
                .finish(missed)
                .map_err(failed("write", &self.args.output)),
            None => Ok(Totals::default()),
        }
    }

    fn has_all(&self) -> bool {
        let totals = self.writer.as_ref().map(Writer::totals);
        let records = totals.unwrap_or_default().records;
        self.args.count.is_some_and(|count| records >= count)
    }

    fn left(&self) -> Duration {
        let passed = self.started.elapsed();
        self.args
            .duration
            .map_or(Duration::MAX, |whole| whole.saturating_sub(passed))
    }
}

fn text(done: &Document<'_>) -> String {
    format!(
        "recorded {} of {} in all from {} in {:.3} s: {} missed; {} has {}",
        units::counted(done.records, "message"),
        units::bytes(done.payload_bytes),
        escaped(done.channel),
        done.seconds,
        done.dropped,
        escaped(&done.file),
        units::bytes(done.file_bytes)
    )
}
