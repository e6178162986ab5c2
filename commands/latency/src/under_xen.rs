//! A core beside Linux under Xen, and the same core alone in the same run, to compare with.

use std::path::Path;

use hythe::core::{Board, Repeatable};
use hythe_command::error::CliError;
use hythe_command::stop::Stop;
use hythe_command::workspace::{Purpose, temporary};
use hythe_latency::result::{Document, Measurement, Ratio};
use hythe_latency::xen::{self, Clock, Ended, Hypervisor, Partition, Setup};
use serde_json::json;

use super::alone::alone;
use super::board_args::{BoardArgs, ClockArg};
use super::board_output::{self, APP, BoardOutput};
use super::figures::{
    self, GUEST_CPU_INSTRUCTIONS, OUTSIDE, Recorded, UNSEEN, conditions, document,
};

/// What the paper found on a Jetson TK1 under QPlus, beside an idle Linux.
const PAPER: &str = "under a hypervisor beside Linux, task switch about 1100 x, interrupt latency about 50 x slower";
/// Raised by software: what it costs beyond the core alone is the hypervisor's.
const TRAPPED: &str = "interrupt_latency";
/// The raising alone: one exit, and nothing else.
const EXIT: &str = "interrupt_request";

pub(super) fn measure(
    board: &Board,
    partition: Partition,
    args: &BoardArgs,
    stop: &Stop,
) -> Result<Document, CliError> {
    let (Some(repeatable), Some(cpu)) = (board.repeatable(), board.argument("-cpu")) else {
        return Err(unable(
            board,
            "it is not emulated with counted instructions",
        ));
    };
    let image = board.guest_image(APP);
    if !image.is_file() {
        return Err(unable(board, "it has no image for a guest of Xen"));
    }
    let setup = Setup {
        tools: args.xen.tools(),
        hypervisor: args.xen.hypervisor(partition),
        image,
        cpu: cpu.to_owned(),
        partition,
        load: args.load.load(),
        settings: args.xen.settings(partition)?,
        options: args.xen.options(),
        guest_cpu_instruction_samples: args.xen.guest_cpu_instruction_samples(partition)?,
    };
    let clock = match args.clock {
        ClockArg::Instructions => Clock::Instructions {
            shift: repeatable.instruction_ns.ilog2(),
        },
        ClockArg::Host => Clock::Host,
    };
    refuse_hanging(cpu, &setup, args.clock)?;
    setup.check()?;
    let hypervisor = setup.hypervisor.about(&setup.tools)?;
    // Alone it is timed by counted instructions, which the host's time has nothing to do with.
    let mut results = match args.clock {
        ClockArg::Instructions => alone(board, args, stop)?.1,
        ClockArg::Host => Vec::new(),
    };
    let folder = temporary(Purpose::Latency)?;
    let ended = xen::run(&setup, clock, folder.path(), args.timeout, || stop.asked())?;
    let case = format!(
        "{}/{}/{}",
        board.name(),
        args.under.name(),
        setup.load.name()
    );
    let (output, found) = read(&case, &ended, repeatable)?;
    let ratios = ratios(&results, &found);
    results.extend(found);
    let mut conditions = conditions(board, &output, limits(partition, clock));
    for (key, value) in [
        ("configuration", args.under.name().to_owned()),
        ("load", setup.load.name().to_owned()),
        ("xen", setup.command_line()),
        ("hypervisor", hypervisor),
        ("settings", settings(&setup)),
        ("time", time(clock).to_owned()),
        ("paper", PAPER.to_owned()),
    ] {
        conditions.insert(key.to_owned(), json!(value));
    }
    conditions.extend(unseen(&ended).map(|why| (UNSEEN.to_owned(), json!(why))));
    Ok(Document {
        ratios,
        ..document(board, conditions, results)
    })
}

/// By name, those that were asked for and that this Xen has.
fn settings(setup: &Setup) -> String {
    let names: Vec<&str> = setup
        .settings
        .iter()
        .map(|setting| setting.name())
        .collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(" "),
    }
}

fn unable(board: &Board, why: &str) -> CliError {
    CliError::Failed(format!(
        "board {} cannot be run under Xen: {why}; virt-a53 and virt-a57 can",
        board.name()
    ))
}

/// On CPUs that Debian's Xen mends against speculation it stops all of them more than once while it
/// boots. Who waits for the others spins, and an emulator that counts instructions (QEMU 7.2) then
/// goes on with the same CPU for ever. The Xen that is built here yields there.
fn refuse_hanging(cpu: &str, setup: &Setup, clock: ClockArg) -> Result<(), CliError> {
    if setup.partition == Partition::Partitioned
        && setup.hypervisor == Hypervisor::Debian
        && clock == ClockArg::Instructions
        && cpu != "cortex-a53"
    {
        return Err(CliError::Failed(format!(
            "Debian's Xen does not boot on two emulated {cpu} whose instructions are counted; --xen built or --clock host does, or the board virt-a53"
        )));
    }
    Ok(())
}

/// What the run left, as results.
fn read(
    case: &str,
    ended: &Ended,
    repeatable: &Repeatable,
) -> Result<(BoardOutput, Vec<Measurement>), CliError> {
    let bytes = |path: &Path| std::fs::read(path).map_err(CliError::file("read", path));
    let (edges, console) = board_output::split(&bytes(&ended.serial)?);
    let output = board_output::from_console(&console)?;
    let mut results = figures::by_guest(case, &output)?;
    if let Some(record) = &ended.record {
        if let Some(log) = &record.log {
            let recorded = Recorded {
                log: bytes(log)?,
                edges,
                instruction_ns: repeatable.instruction_ns,
            };
            results.extend(figures::from_outside(case, &output, &recorded)?);
        }
        for (letter, name) in figures::letters(&output) {
            let result = results.iter_mut().find(|result| result.metric == name);
            if let (Some(result), Some(exits)) = (result, record.exits.get(&letter)) {
                result.exits = Some(exits.per_sample());
            }
        }
        let instruction_ns = repeatable.instruction_ns;
        results.extend(figures::guest_cpu_instructions(
            case,
            &output,
            &record.guest_cpu_instructions,
            instruction_ns,
        )?);
    }
    Ok((output, results))
}

/// Why nobody saw the core from outside.
fn unseen(ended: &Ended) -> Option<&'static str> {
    match &ended.record {
        None => Some(
            "by the host's clock no instructions are counted, so nothing tells when an edge is on the pin",
        ),
        Some(record) if record.log.is_none() => Some(
            "QEMU records the instructions of one CPU only, so nothing tells when an edge is on the pin",
        ),
        Some(_) => None,
    }
}

/// What these figures can and cannot show.
const fn limits(partition: Partition, clock: Clock) -> &'static str {
    match (partition, clock) {
        (_, Clock::Host) => {
            "emulated, by the host's clock: what the emulator and the host's other work take is in every figure; for orders of magnitude"
        }
        (Partition::Shared, Clock::Instructions { .. }) => {
            "emulated: instructions are counted, so caches, buses and second-stage translation take no time; for comparing configurations, no claim about hardware"
        }
        (Partition::Partitioned, Clock::Instructions { .. }) => {
            "emulated: instructions are counted, so caches, buses and second-stage translation take no time; the two CPUs run in turns, so by the core's clock a sample in which the other had a turn is late by the emulator's doing; `.guest_cpu_instructions` counts what the core's CPU executed, of each sample from first_sample on, and so has no turns in it, but a tick comes after fewer of its instructions the longer Linux's turns are: by_exits parts the samples by what they met with"
        }
    }
}

const fn time(clock: Clock) -> &'static str {
    match clock {
        Clock::Instructions { .. } => "counted instructions: every run is the same",
        Clock::Host => "the host's",
    }
}

/// Under Xen by alone; and whether exits account for the difference.
fn ratios(alone: &[Measurement], under: &[Measurement]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    // What is not by the core's clock is compared with what is counted outside of it, too.
    for result in under
        .iter()
        .filter(|result| !result.metric.ends_with(OUTSIDE))
    {
        let name = match result.metric.strip_suffix(GUEST_CPU_INSTRUCTIONS) {
            Some(name) => format!("{name}{OUTSIDE}"),
            None => result.metric.clone(),
        };
        let Some(before) = alone.iter().find(|before| before.metric == name) else {
            continue;
        };
        for (name, above, below) in [
            ("p50", result.p50, before.p50),
            ("p99.9", result.p999, before.p999),
            ("max", result.max, before.max),
        ] {
            ratios.push(Ratio {
                name: format!(
                    "{} {name}: {} by {}",
                    result.metric, result.case, before.case
                ),
                value: above as f64 / below.max(1) as f64,
            });
        }
    }
    ratios.extend(account(alone, under, ["", ""]));
    ratios.extend(account(alone, under, [OUTSIDE, GUEST_CPU_INSTRUCTIONS]));
    ratios
}

/// Alone, and for each exit what an exit costs: by what was measured. `clocks` stand behind the
/// measures' names, alone and under Xen.
fn account(alone: &[Measurement], under: &[Measurement], clocks: [&str; 2]) -> Option<Ratio> {
    let find = |all: &[Measurement], metric: &str, clock: &str| {
        let metric = format!("{metric}{clock}");
        all.iter().find(|result| result.metric == metric).cloned()
    };
    let both = |metric| {
        Some((
            find(alone, metric, clocks[0])?,
            find(under, metric, clocks[1])?,
        ))
    };
    let ((before, after), (exit_before, exit_after)) = (both(TRAPPED)?, both(EXIT)?);
    let cost = (exit_after.p50 as f64 - exit_before.p50 as f64) / exit_after.exits?;
    let explained = before.p50 as f64 + after.exits? * cost;
    Some(Ratio {
        name: format!(
            "{} p50: alone and exits x {cost:.0} ns by measured",
            after.metric
        ),
        value: explained / after.p50 as f64,
    })
}
