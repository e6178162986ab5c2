//! `hythe media send --calls`: the same prompt to many telephones, each a stream of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hythe::media::identity;
use hythe::media::source::Source;
use hythe::media::voice::{CallId, Calls, Prompt, VoiceSender};
use hythe::rtp::format::StreamFormat;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_command::stop::Stop;
use hythe_command::units;
use hythe_terminal::escaped;
use serde::Serialize;

use super::priority::PriorityArgs;

/// The longest prompt: half an hour, which stays in memory.
const PROMPT_BYTES_MAX: usize = 8_000 * 60 * 30;

/// What is printed at the end.
#[derive(Serialize)]
pub(super) struct Document {
    /// Parts of the prompt, such as entries of a playlist, that could not be sent.
    skipped: u64,
    calls: usize,
    first: SocketAddr,
    /// Of the thread that sent, under `SCHED_FIFO`; 0: an ordinary one.
    priority: u8,
    seconds: f64,
    packets: u64,
    unsent: u64,
    reports: u64,
    stalls: u64,
    spacing_p50_ns: u64,
    spacing_p99_ns: u64,
    spacing_p999_ns: u64,
    spacing_max_ns: u64,
}

/// How long, and how, packets leave.
pub(super) struct Pacing<'a> {
    pub(super) priority: &'a PriorityArgs,
    pub(super) end: Option<Duration>,
    pub(super) stop: &'a Stop,
}

/// Sends to `count` telephones on consecutive even ports from `first` on, until the end or until
/// somebody asks to stop.
pub(super) fn run(
    mut source: Box<dyn Source + Send>,
    first: SocketAddr,
    count: u16,
    pacing: &Pacing<'_>,
) -> Result<Document, CliError> {
    let format = source.format().clone();
    let prompt = read_prompt(&mut *source, &format)?;
    let mut skipped = 0;
    while let Some(error) = source.skipped() {
        output::note(format!("passed over: {error}"));
        skipped += 1;
    }
    let mut calls = Calls::new(count.into());
    for number in 0..count {
        add(&mut calls, &prompt, first, number)?;
    }
    let mut sender = VoiceSender::new(calls)?;
    let priority = pacing.priority.enter();
    let began = Instant::now();
    while !pacing.stop.asked() && pacing.end.is_none_or(|end| began.elapsed() < end) {
        sender.turn();
    }
    let calls = sender.calls().len();
    let statistics = sender.statistics();
    let spacing = |quantile| statistics.spacing_errors.value_at_quantile(quantile);
    Ok(Document {
        skipped,
        calls,
        first,
        priority,
        seconds: began.elapsed().as_secs_f64(),
        packets: statistics.packets,
        unsent: statistics.unsent,
        reports: statistics.reports,
        stalls: statistics.stalls,
        spacing_p50_ns: spacing(0.5),
        spacing_p99_ns: spacing(0.99),
        spacing_p999_ns: spacing(0.999),
        spacing_max_ns: statistics.spacing_errors.max(),
    })
}

impl Document {
    /// It ran to its end, and something of the prompt `input` is missing.
    pub(super) fn check(&self, input: &str) -> Result<(), CliError> {
        passed_over(self.skipped, input).map_or(Ok(()), |why| Err(CliError::Failed(why)))
    }
}

/// What is wrong if parts of an input were passed over.
pub(super) fn passed_over(skipped: u64, input: &str) -> Option<String> {
    let parts = units::counted(skipped, "part");
    (skipped > 0).then(|| {
        format!(
            "{} could not be sent whole: {parts} passed over",
            escaped(input)
        )
    })
}

fn read_prompt(source: &mut dyn Source, format: &StreamFormat) -> Result<Prompt, CliError> {
    let mut samples = Vec::new();
    while let Some(unit) = source.next()? {
        samples.extend(unit.pieces.iter().flat_map(|piece| piece.iter().copied()));
        if samples.len() > PROMPT_BYTES_MAX {
            return Err(CliError::Failed(format!(
                "the prompt is longer than {PROMPT_BYTES_MAX} samples, which is half an hour"
            )));
        }
    }
    Prompt::new(format, samples).ok_or_else(|| {
        CliError::WrongUse(format!(
            "--calls sends G.711: at least 20 ms of 8000 Hz, one channel, --payload pcmu or pcma; this is {} at {} Hz with {} channels",
            format.encoding.name(),
            format.clock_hz,
            format.channels
        ))
    })
}

fn add(
    calls: &mut Calls,
    prompt: &Prompt,
    first: SocketAddr,
    number: u16,
) -> Result<Option<CallId>, CliError> {
    let mut address = first;
    let port = number
        .checked_mul(2)
        .and_then(|ahead| first.port().checked_add(ahead));
    let Some(port) = port else {
        return Err(CliError::WrongUse(format!(
            "--calls takes an even port for each call, from {} on; there are none left for call {}",
            first.port(),
            number + 1
        )));
    };
    address.set_port(port);
    let identity = identity::random()?;
    Ok(calls.add(address, prompt, &identity)?)
}

/// For people.
pub(super) fn text(document: &Document) -> String {
    let microseconds = |ns: u64| ns as f64 / 1e3;
    format!(
        "{} from {} on: {} in {:.1} s, {} not sent, {}\n\
         spacing off by {:.1} us (median), {:.1} us (p99), {:.1} us (p99.9), {:.1} us at most; {}\n",
        units::counted(document.calls as u64, "call"),
        document.first,
        units::counted(document.packets, "packet"),
        document.seconds,
        document.unsent,
        units::counted(document.reports, "report"),
        microseconds(document.spacing_p50_ns),
        microseconds(document.spacing_p99_ns),
        microseconds(document.spacing_p999_ns),
        microseconds(document.spacing_max_ns),
        units::counted(document.stalls, "stall"),
    )
}
