//! `hythe media send`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use hythe::media::address::StreamAddress;
use hythe::media::identity;
use hythe::media::sdp;
use hythe::media::send::repair::Repair;
use hythe::media::send::session::{SendOptions, SendSession, Step};
use hythe::media::send::spacer::SpacedBy;
use hythe::media::wire::departure::Departures;
use hythe::media::wire::destinations::DestinationId;
use hythe::media::wire::health::{Event, State};
use hythe::media::wire::method::Method;
use hythe::rtp::MAX_PAYLOAD_BYTES;
use hythe::rtp::payload;
use hythe::{TrustPeers, monotonic_ns};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_command::stop::Stop;
use hythe_command::units;
use hythe_terminal::escaped;
use serde::Serialize;
use signal_hook::consts::SIGHUP;

use super::calls;
use super::inputs::InputArgs;
use super::limits::LimitArgs;
use super::own_pool;
use super::pace::{PaceArg, Plan};
use super::priority::PriorityArgs;
use super::repair::{self, ParityArgs, ResendArgs};
use super::targets::{TargetArgs, Targets};

/// Receivers read RTCP before RTP that came earlier (ffmpeg does, and ends at a BYE): the time they
/// have to empty their sockets.
const LINGER: Duration = Duration::from_millis(500);

/// What to send, where to, and how.
#[derive(Args, Debug)]
pub struct SendArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    targets: TargetArgs,
    /// Write a session description (SDP) to FILE, which players can open
    #[arg(long, value_name = "FILE")]
    sdp: Option<PathBuf>,
    /// When packets are sent: media (at playing speed), max (as fast as possible), a rate in bits
    /// per second such as 8M, or kernel (at playing speed, spaced by the qdisc of the interface: fq
    /// or etf by departure times, htb by the rate of --class; kernel:8M at a rate)
    #[arg(long, value_name = "PACE", default_value = "media")]
    pace: PaceArg,
    #[command(flatten)]
    limit: LimitArgs,
    /// Maximum bytes of a packet after its RTP header
    #[arg(long, value_name = "BYTES", default_value_t = MAX_PAYLOAD_BYTES as u16, value_parser = clap::value_parser!(u16).range(64..=65_000))]
    packet_bytes: u16,
    #[command(flatten)]
    resend: ResendArgs,
    #[command(flatten)]
    parity: ParityArgs,
    /// Send the input as this many telephone calls, repeated without end: streams of 20 ms G.711
    /// packets to consecutive even ports, beginning with the port of --to
    #[arg(long, value_name = "CALLS", value_parser = clap::value_parser!(u16).range(1..=10_000), conflicts_with_all = ["to_file", "sdp", "method", "class", "pace", "burst", "early", "catch_up", "packet_bytes", "plays", "repair_window", "resend", "parity"])]
    calls: Option<u16>,
    #[command(flatten)]
    priority: PriorityArgs,
    /// Stop after this many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = units::parse_seconds)]
    duration: Option<Duration>,
}

/// How long the kernel may keep us waiting for free capacity while it paces: what a thousandth of
/// its usual queue takes at a few kbit/s.
const KERNEL_SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// What is later than this is worth a line.
const LATE_NS: u64 = 500_000_000;

#[derive(Serialize)]
struct Document {
    input: String,
    payload: &'static str,
    seconds: f64,
    packets: u64,
    bytes: u64,
    delivered: u64,
    lost: u64,
    resent: u64,
    requests_refused: u64,
    parity: u64,
    malformed_feedback: u64,
    damaged: u64,
    /// Bytes in front of the first whole packet or frame: where the input was cut.
    skipped_at_start: u64,
    /// Parts of the input, such as entries of a playlist, that could not be sent.
    skipped: u64,
    /// Of a channel: what the ends of its messages cut in two.
    joined_bytes: u64,
    missed: u64,
    handovers: u64,
    /// The mean; 0 if nothing was handed over.
    packets_per_handover: f64,
    pace: String,
    /// Of the thread that sent, under `SCHED_FIFO`; 0: an ordinary one.
    priority: u8,
    spacing: SpacingDocument,
    destinations: Vec<DestinationDocument>,
}

#[derive(Serialize)]
struct SpacingDocument {
    count: u64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
    /// How late the last group left, and the latest.
    late_ns: u64,
    late_max_ns: u64,
    /// How often the plan was moved.
    moves: u64,
}

#[derive(Serialize)]
struct DestinationDocument {
    address: String,
    method: String,
    why: String,
    state: String,
    packets: u64,
    bytes: u64,
    lost: u64,
    refused: u64,
    unreachable: u64,
    overflows: u64,
    too_large: u64,
    calls: u64,
    missed: u64,
    departures: Option<String>,
    resent: u64,
    requests_refused: u64,
    /// What its last report said; none came if it is missing.
    reported: Option<ReportedDocument>,
}

#[derive(Serialize)]
struct ReportedDocument {
    reports: u64,
    lost: i32,
    round_trip_ns: Option<u64>,
}

pub(crate) fn run(args: &SendArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals_but_hangup()?;
    let hangup = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&hangup))
        .map_err(|error| CliError::Failed(format!("cannot listen for SIGHUP: {error}")))?;
    let wanted = args.targets.wanted()?;
    check(args, &wanted)?;
    let node = own_pool::join(args.input.is_channel(), globals)?;
    // By default the pool is the user's own; another's is chosen by name, which is the decision.
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    let source = args
        .input
        .open(args.packet_bytes.into(), &node, trust, &stop)?;
    if let (Some(count), Some(first)) = (args.calls, wanted.first()) {
        let pacing = calls::Pacing {
            priority: &args.priority,
            end: args.duration,
            stop: &stop,
        };
        let document = calls::run(source, first.resolve()?, count, &pacing)?;
        output::print(globals.json, &document, calls::text)?;
        return document.check(&args.input.name());
    }
    let packetizer = payload::packetizer(source.format())?;
    let encoding = source.format().encoding;
    let repair = repair::repair(&args.resend, &args.parity, encoding, args.packet_bytes)?;
    let parity = repair.parity;
    let plan = args.pace.plan(&wanted, args.targets.class)?;
    let options = options(args, &plan, &wanted, repair, trust)?;
    let mut session = SendSession::new(&node, source, packetizer, options)?;
    if let Some(why) = session.copies_because() {
        if args.targets.method == Some(Method::SendfileGso) {
            return Err(CliError::Failed(format!("--method sendfile-gso: {why}")));
        }
        output::note(format!("packets are copied when they are sent: {why}"));
    }
    let mut sending = Sending {
        args,
        targets: Targets::new(parity, plan.departures),
        plan,
        told_pace: None,
        told_late: false,
        skipped: 0,
        priority: 0,
        stop,
        hangup,
        began: Instant::now(),
    };
    let mut refused = Vec::new();
    let targets = &mut sending.targets;
    targets.follow(&args.targets, &wanted, &mut session, &mut |why| {
        refused.push(why)
    });
    if let Some(first) = refused.first() {
        return Err(CliError::Failed(first.clone()));
    }
    if let Some(path) = &args.sdp {
        sdp::write(path, &description(&session, &wanted)?)?;
    }
    sending.priority = args.priority.enter();
    let ended = sending.run(&mut session);
    let left = sending.say_goodbye(&mut session);
    let document = sending.document(&mut session);
    output::print(globals.json, &document, text)?;
    ended.and(left)?;
    document.check(args.input.begins_whole())
}

/// Refuses options that mean nothing beside others.
fn check(args: &SendArgs, wanted: &[StreamAddress]) -> Result<(), CliError> {
    if args.calls.is_some() && wanted.len() > 1 {
        return Err(CliError::WrongUse(
            "--calls sends to consecutive ports from the one of --to on: say --to once".into(),
        ));
    }
    match args.limit.without_pace() {
        Some(option) if args.pace.is_unpaced() => Err(CliError::WrongUse(format!(
            "{option} is for packets that leave at a pace, and with --pace max there is none: \
             leave one of them out"
        ))),
        _ => Ok(()),
    }
}

/// Is it media that may leave in long bursts? Not what is made as it is sent, nor what goes to a
/// group, nor what the kernel is to keep apart.
fn is_stored(args: &SendArgs, plan: &Plan, wanted: &[StreamAddress]) -> Result<bool, CliError> {
    let mut is_stored = !args.input.is_live() && !plan.departures && plan.class.is_none();
    for address in wanted {
        is_stored &= !address.resolve()?.ip().is_multicast();
    }
    Ok(is_stored)
}

fn options(
    args: &SendArgs,
    plan: &Plan,
    wanted: &[StreamAddress],
    repair: Repair,
    trust: TrustPeers,
) -> Result<SendOptions, CliError> {
    let mut options = SendOptions::new(identity::random()?, trust);
    options.pace = plan.pace;
    options.departures = plan.departures;
    if plan.departures || plan.class.is_some() {
        options.send_timeout = KERNEL_SEND_TIMEOUT;
    }
    options.limit = args.limit.limit(is_stored(args, plan, wanted)?);
    options.catch_up = args.limit.catch_up();
    options.payload_bytes_max = args.packet_bytes.into();
    options.repair = repair;
    options.lend = args
        .targets
        .method
        .map(|method| method == Method::SendfileGso);
    Ok(options)
}

fn description(session: &SendSession, wanted: &[StreamAddress]) -> Result<String, CliError> {
    let Some(first) = wanted.first() else {
        return Err(CliError::WrongUse(
            "a description needs a destination (--to)".into(),
        ));
    };
    let mut stream = session.describe(first.resolve()?);
    stream.ttl = first.ttl.unwrap_or(stream.ttl);
    Ok(sdp::describe(&[stream], monotonic_ns()))
}

/// A stream under way.
struct Sending<'a> {
    args: &'a SendArgs,
    targets: Targets,
    plan: Plan,
    /// Who keeps packets apart, if that was said: by the kernel, or not although that was asked
    /// for.
    told_pace: Option<SpacedBy>,
    /// It was said that packets leave late, and not yet that they do no more.
    told_late: bool,
    /// Parts of the input that could not be sent.
    skipped: u64,
    /// Of this thread.
    priority: u8,
    stop: Stop,
    hangup: Arc<AtomicBool>,
    began: Instant,
}

impl Sending<'_> {
    fn run(&mut self, session: &mut SendSession) -> Result<(), CliError> {
        while !self.stop.asked() && !self.is_over() {
            if self.hangup.swap(false, Ordering::Relaxed) {
                self.read_again(session);
            }
            let step = session.step(&mut |event| output::note(event));
            while let Some(error) = session.skipped() {
                output::note(format!("passed over: {error}"));
                self.skipped += 1;
            }
            let step = step?;
            self.tell_pace(session);
            self.tell_lateness(session);
            match step {
                Step::Again => {}
                Step::Wait(until_ns) => {
                    session.wait(until_ns.min(self.end_ns()), Some(self.stop.descriptor()))?;
                }
                Step::Ended => break,
            }
        }
        Ok(())
    }

    /// When it is over, whatever the source says.
    fn end_ns(&self) -> u64 {
        let left = self
            .args
            .duration
            .map(|duration| duration.saturating_sub(self.began.elapsed()));
        left.map_or(u64::MAX, |left| monotonic_ns() + nanoseconds(left))
    }

    /// Says who keeps packets apart, once and when it changes.
    fn tell_pace(&mut self, session: &SendSession) {
        let is_news = self.plan.departures && self.told_pace.as_ref() != Some(session.spaced_by());
        // Before the first packet nobody has been looked at.
        if is_news && session.statistics().packets > 0 {
            output::note(format!("pace: {}", session.spaced_by()));
            self.told_pace = Some(session.spaced_by().clone());
        }
    }

    /// Says when packets begin to leave late, and when they are on time again.
    fn tell_lateness(&mut self, session: &SendSession) {
        let late_ns = session.late_ns();
        if !self.told_late && late_ns > LATE_NS {
            self.told_late = true;
            output::note(format!(
                "packets leave {:.1} s late, and faster until they are on time: the machine is \
                 busy, or the process was stopped",
                late_ns as f64 / 1e9
            ));
        } else if self.told_late && late_ns < LATE_NS / 10 {
            self.told_late = false;
            output::note("packets leave on time again");
        }
    }

    /// The same for the document.
    fn pace(&self, session: &SendSession) -> String {
        match &self.plan.class {
            Some(scheduler) => format!("kernel ({scheduler})"),
            None => session.spaced_by().to_string(),
        }
    }

    fn is_over(&self) -> bool {
        let passed = self.began.elapsed();
        self.args
            .duration
            .is_some_and(|duration| passed >= duration)
    }

    /// What cannot be read leaves the destinations as they are.
    fn read_again(&mut self, session: &mut SendSession) {
        match self.args.targets.wanted() {
            Ok(wanted) => {
                let tell = &mut |what| output::note(what);
                self.targets
                    .follow(&self.args.targets, &wanted, session, tell);
                let count = self.targets.len() as u64;
                output::note(units::counted(count, "destination"));
            }
            Err(error) => output::note(format!("the destinations stay as they are: {error}")),
        }
    }

    /// Who was interrupted does not linger.
    fn say_goodbye(&self, session: &mut SendSession) -> Result<(), CliError> {
        let tell = &mut |event: &Event| output::note(event);
        Ok(session.finish(LINGER, Some(self.stop.descriptor()), tell)?)
    }

    fn document(&self, session: &mut SendSession) -> Document {
        let (statistics, spacing) = (session.statistics(), session.spacing());
        let pace = self.pace(session);
        let payload = session.format().encoding.name();
        let ids: Vec<DestinationId> = session.destinations().iter().map(|(id, _)| id).collect();
        let destinations = ids.into_iter().filter_map(|id| {
            let resends = session.resends(id).unwrap_or_default();
            let reported = session.received(id).map(|received| ReportedDocument {
                reports: received.reports,
                lost: received.last.cumulative_lost,
                round_trip_ns: received.round_trip_ns,
            });
            let destination = session.destinations().by_id(id)?;
            let counts = destination.statistics();
            Some(DestinationDocument {
                address: destination.address().to_string(),
                method: counts.method.to_string(),
                why: counts.method_reason.to_string(),
                state: counts.state.to_string(),
                packets: counts.packets,
                bytes: counts.bytes,
                lost: counts.lost,
                refused: counts.refused,
                unreachable: counts.unreachable,
                overflows: counts.overflows,
                too_large: counts.too_large,
                calls: counts.calls,
                missed: counts.missed,
                departures: match destination.departures() {
                    Departures::Unused => None,
                    departures => Some(departures.to_string()),
                },
                resent: resends.packets,
                requests_refused: resends.refused.total(),
                reported,
            })
        });
        let destinations = destinations.collect();
        Document {
            input: self.args.input.name(),
            payload,
            seconds: self.began.elapsed().as_secs_f64(),
            packets: statistics.packets,
            bytes: statistics.bytes,
            delivered: statistics.delivered,
            lost: statistics.lost,
            resent: statistics.resent,
            requests_refused: statistics.requests_refused,
            parity: statistics.parity,
            malformed_feedback: statistics.malformed_feedback,
            damaged: statistics.damaged,
            skipped_at_start: statistics.skipped_at_start,
            skipped: self.skipped,
            joined_bytes: statistics.joined_bytes,
            missed: statistics.missed,
            handovers: statistics.handovers,
            packets_per_handover: statistics.packets_per_handover(),
            pace,
            priority: self.priority,
            spacing: SpacingDocument {
                count: spacing.count,
                p50_ns: spacing.p50_ns,
                p99_ns: spacing.p99_ns,
                p999_ns: spacing.p999_ns,
                max_ns: spacing.max_ns,
                late_ns: spacing.late_ns,
                late_max_ns: spacing.late_max_ns,
                moves: spacing.moves,
            },
            destinations,
        }
    }
}

impl Document {
    /// It ran to its end, and something of it is not as it should be: the reasons. A stream that is
    /// joined while it runs begins in the middle, which is no damage.
    fn check(&self, is_stored: bool) -> Result<(), CliError> {
        let mut wrong = Vec::from_iter(calls::passed_over(self.skipped, &self.input));
        if is_stored && self.damaged > 0 {
            wrong.push(format!(
                "{} could not be read whole: {} passed over",
                escaped(&self.input),
                units::counted(self.damaged, "damaged place")
            ));
        }
        if self.packets > 0
            && self
                .destinations
                .iter()
                .all(DestinationDocument::has_nobody)
        {
            wrong
                .push("nobody received it: all destinations refused it or are out of reach".into());
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(CliError::Failed(wrong.join("; "))),
        }
    }
}

impl DestinationDocument {
    /// Its host, or a router on the way, said so, and no receiver has reported. That nothing is
    /// heard is no such sign: many receivers send no reports, and a firewall may answer nothing.
    fn has_nobody(&self) -> bool {
        let troubles = self.refused + self.unreachable;
        self.reported.is_none() && troubles > 0 && self.state != State::Reachable.to_string()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}

fn text(document: &Document) -> String {
    let spacing = &document.spacing;
    let microseconds = |ns: u64| format!("{:.1} us", ns as f64 / 1e3);
    let head = format!(
        "{} of {} in {:.1} s, {} passed over\n\
         {} sent again, {} not followed, {} of parity\n\
         pace: {}\n\
         spacing off by {} (median), {} (p99), {} (p99.9)\n\
         late by {} in the end, {} at worst; the plan was moved {}\n\
         {:.1} packets in each of {}\n\n",
        units::counted(document.packets, "packet"),
        document.payload,
        document.seconds,
        units::counted(document.damaged, "damaged place"),
        document.resent,
        units::counted(document.requests_refused, "request"),
        units::counted(document.parity, "packet"),
        document.pace,
        microseconds(spacing.p50_ns),
        microseconds(spacing.p99_ns),
        microseconds(spacing.p999_ns),
        microseconds(spacing.late_ns),
        microseconds(spacing.late_max_ns),
        units::counted(spacing.moves, "time"),
        document.packets_per_handover,
        units::counted(document.handovers, "handover"),
    );
    let head = match document.skipped_at_start {
        0 => head,
        bytes => format!(
            "{} skipped at the start, in front of the first whole packet or frame\n{head}",
            units::counted(bytes, "byte"),
        ),
    };
    let is_heard = document.destinations.iter().any(|to| to.reported.is_some());
    let head = match is_heard {
        true => head,
        false => head + "no receiver sent a report: whether it arrived is not known\n\n",
    };
    let rows: Vec<Vec<String>> = document
        .destinations
        .iter()
        .map(|destination| {
            vec![
                destination.address.clone(),
                destination.packets.to_string(),
                destination.lost.to_string(),
                destination.refused.to_string(),
                destination.method.clone(),
                destination.state.clone(),
            ]
        })
        .collect();
    head + &output::table(
        &[
            "DESTINATION",
            ">PACKETS",
            ">LOST",
            ">REFUSED",
            "METHOD",
            "STATE",
        ],
        &rows,
    )
}
