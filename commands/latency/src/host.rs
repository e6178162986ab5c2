//! `hythe latency host`: the latency of this machine.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_command::remedy;
use hythe_command::stop::Stop;
use hythe_command::units;
use hythe_latency::host::{self, Ends, Load, Measure, Observer, Outcome, Permissions, Plan, Until};
use hythe_latency::result::{BENCH, Document, SCHEMA};
use hythe_latency::{machine, rtla};
use indicatif::{ProgressBar, ProgressStyle};

use super::channel::Channels;
use super::output::{OutputArgs, render};

/// What to measure, and how.
#[derive(Args, Debug)]
pub struct HostArgs {
    /// CPUs to measure, such as 0,2-3 [default: all that this process may use]
    #[arg(short = 'a', long, value_name = "LIST", visible_alias = "affinity", value_parser = parse_cpus)]
    cpus: Option<CpuList>,
    /// Real-time priority of the measuring threads, 1 to 99, under SCHED_FIFO; 0: an ordinary
    /// thread
    #[arg(short, long, default_value_t = 80, value_parser = clap::value_parser!(u8).range(0..=99))]
    priority: u8,
    /// Microseconds between two wake-ups, 20 to 1000000
    #[arg(short, long, value_name = "MICROSECONDS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(20..=1_000_000))]
    interval: u64,
    /// How long each measure takes
    #[arg(short = 'D', long = "for", value_name = "SECONDS", visible_alias = "duration", default_value = "10", value_parser = units::parse_seconds)]
    duration: Duration,
    /// How many wake-ups each measure takes on each CPU, instead of a time
    #[arg(short, long, value_name = "COUNT", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    loops: Option<u64>,
    /// What to measure, one after the other
    #[arg(long, value_name = "METRICS", value_delimiter = ',', default_values = ["timer", "futex_wake", "eventfd_wake", "channel_wake"])]
    measure: Vec<MeasureArg>,
    /// Load on the measured CPUs, at ordinary priority
    #[arg(long, value_name = "NAME", default_value = "idle")]
    load: LoadArg,
    /// Directory for the file of the load `io`, which has no name there [default: the directory for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    load_directory: Option<PathBuf>,
    /// Do not lock memory (mlockall)
    #[arg(long)]
    no_mlock: bool,
    /// Allow idle CPUs all sleep states
    #[arg(long)]
    no_dma_latency: bool,
    /// Fail if priority, memory locking or sleep states are not permitted, instead of measuring
    /// without them
    #[arg(long)]
    strict: bool,
    /// Name and print the timer's latency as `rtla timerlat hist --no-irq` does: `thread`, a
    /// histogram in microseconds
    #[arg(long)]
    rtla: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// A list that was read.
#[derive(Clone, Debug)]
struct CpuList(Vec<usize>);

fn parse_cpus(text: &str) -> Result<CpuList, String> {
    host::parse_cpus(text).map(CpuList)
}

/// One kind of latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MeasureArg {
    /// A sleeper's lateness against the time that it asked to be woken at
    #[value(name = "timer")]
    Timer,
    /// From before FUTEX_WAKE to the running of the thread that waited
    #[value(name = "futex_wake")]
    FutexWake,
    /// From before the write to an eventfd to the end of the read behind poll
    #[value(name = "eventfd_wake")]
    EventfdWake,
    /// From before sending on a channel of the pool to the message in the receiver's hands
    #[value(name = "channel_wake")]
    ChannelWake,
}

/// What the machine does meanwhile.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LoadArg {
    /// Nothing of ours
    Idle,
    /// A thread for each CPU that computes all the time
    Hog,
    /// One that writes all over 16 MiB, so that caches are foreign
    Memory,
    /// One that writes a file of 4 MiB, brings it to the device and reads it back
    Io,
    /// Two that wake each other over a socket without end
    Switch,
}

impl HostArgs {
    fn plan(&self) -> Result<Plan, CliError> {
        let cpus = match &self.cpus {
            Some(CpuList(cpus)) => cpus.clone(),
            None => host::allowed_cpus()?,
        };
        let mut measures = Vec::new();
        for measure in self.measure.iter().map(|measure| match measure {
            MeasureArg::Timer => Measure::Timer,
            MeasureArg::FutexWake => Measure::FutexWake,
            MeasureArg::EventfdWake => Measure::EventfdWake,
            MeasureArg::ChannelWake => Measure::ChannelWake,
        }) {
            // Named twice, it is measured once.
            if !measures.contains(&measure) {
                measures.push(measure);
            }
        }
        let plan = Plan {
            cpus,
            measures,
            priority: (self.priority > 0).then_some(self.priority),
            interval: Duration::from_micros(self.interval),
            until: self
                .loops
                .map_or(Until::Elapsed(self.duration), Until::Loops),
            load: match self.load {
                LoadArg::Idle => Load::Idle,
                LoadArg::Hog => Load::Hog,
                LoadArg::Memory => Load::Memory,
                LoadArg::Io => Load::Io,
                LoadArg::Switch => Load::Switch,
            },
            load_directory: self
                .load_directory
                .clone()
                .unwrap_or_else(std::env::temp_dir),
            lock_memory: !self.no_mlock,
            hold_dma_latency: !self.no_dma_latency,
            is_strict: self.strict,
        };
        plan.check().map_err(CliError::WrongUse)?;
        Ok(plan)
    }

    fn metric(&self, measure: Measure) -> &'static str {
        match measure {
            Measure::Timer if self.rtla => rtla::THREAD,
            other => other.metric(),
        }
    }
}

pub(super) fn run(args: &HostArgs, globals: &Globals) -> Result<(), CliError> {
    let plan = args.plan()?;
    let metrics: Vec<&str> = plan
        .measures
        .iter()
        .map(|&measure| args.metric(measure))
        .collect();
    args.output.check(&metrics)?;
    args.output.check_files()?;
    let permissions = Permissions::ask(&plan);
    let told = permissions.refusals.len();
    tell(&permissions.refusals, args.strict)?;
    let channels = Channels::new(globals);
    if args.strict && plan.measures.contains(&Measure::ChannelWake) {
        // Its turn may come late: whether it can be measured shall be known before anything is.
        drop(channels.ends(plan.cpus[0]).map_err(|why| {
            CliError::Failed(format!(
                "not as asked for, and --strict: channel_wake: {why}"
            ))
        })?);
    }
    let around = Around {
        stop: Stop::on_signals()?,
        channels,
        progress: progress(&plan),
        began: Instant::now(),
        measures: Cell::new(0),
        planned_ms: planned_ms(&plan),
    };
    let mut outcome = host::run(&plan, permissions, &around)?;
    around.progress.finish_and_clear();
    // What was granted at first may have been refused since: what was measured before is not lost
    // for it.
    let refused = tell(
        outcome.refusals.get(told..).unwrap_or_default(),
        args.strict,
    );
    if outcome.measurements.is_empty() {
        refused?;
        let why = if outcome.is_complete {
            "nothing of what was asked for can be measured here"
        } else {
            "it was ended before the first sample"
        };
        return Err(CliError::Failed(why.to_owned()));
    }
    if !outcome.is_complete {
        output::note("ended early; these are the results so far");
    }
    if args.rtla {
        rtla::rename(&mut outcome.measurements);
    }
    let document = document(outcome);
    let histogram = if args.rtla {
        rtla::render(&document, around.began.elapsed())? + "\n"
    } else {
        String::new()
    };
    let finished = args
        .output
        .finish(&document, globals, |document| histogram + &render(document));
    match (refused, finished) {
        // One is the command's error; both shall be known.
        (Err(refused), Err(finished)) => {
            output::note(refused);
            Err(finished)
        }
        (refused, finished) => refused.and(finished),
    }
}

/// Says what is not as it was asked for, or fails with it.
fn tell(refusals: &[host::Refusal], is_strict: bool) -> Result<(), CliError> {
    let said: Vec<String> = refusals
        .iter()
        .map(|refusal| format!("{refusal}{}", remedy::of_refusal(refusal)))
        .collect();
    if is_strict && !said.is_empty() {
        return Err(CliError::Failed(format!(
            "not as asked for, and --strict: {}",
            said.join("; ")
        )));
    }
    for refusal in said {
        output::note(refusal);
    }
    Ok(())
}

fn document(outcome: Outcome) -> Document {
    Document {
        schema: SCHEMA.to_owned(),
        bench: BENCH.to_owned(),
        command: machine::command(),
        commit: machine::commit(),
        machine: machine::describe(machine::is_emulated()),
        results: outcome.measurements,
        ratios: Vec::new(),
        conditions: outcome.conditions,
    }
}

/// What a run needs of the command.
struct Around {
    stop: Stop,
    channels: Channels,
    progress: ProgressBar,
    began: Instant,
    /// That have begun.
    measures: Cell<u64>,
    /// Of one of them.
    planned_ms: u64,
}

impl Observer for Around {
    fn stop(&self) -> bool {
        let elapsed_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        // No further than the measures that have begun are planned to take.
        let most = self.planned_ms.saturating_mul(self.measures.get());
        self.progress.set_position(elapsed_ms.min(most));
        self.stop.asked()
    }

    fn begins(&self, measure: Measure) {
        self.measures.set(self.measures.get() + 1);
        self.progress.set_message(measure.metric());
        tracing::info!("measuring {}", measure.metric());
    }

    fn channel(&self, cpu: usize) -> Result<Ends, String> {
        self.channels.ends(cpu)
    }
}

fn planned_ms(plan: &Plan) -> u64 {
    let planned = match plan.until {
        Until::Elapsed(time) => time.as_millis(),
        Until::Loops(loops) => u128::from(loops) * plan.interval.as_micros() / 1000,
    };
    u64::try_from(planned).unwrap_or(u64::MAX)
}

fn progress(plan: &Plan) -> ProgressBar {
    let bar = ProgressBar::new(planned_ms(plan).saturating_mul(plan.measures.len() as u64));
    match ProgressStyle::with_template("{bar:40} {msg}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
