//! Scenario `media`: the paper's experiment, many RTP packets sent as fast as they go, by every
//! method and by the product; thousands of paced calls (`calls`); a way that loses (`lossy`); a
//! stream as it plays, sent by the shipped command beside other programs (`plays`).
//!
//! Sender and receiver are two processes with a network each, on two CPUs, joined by a veth link
//! (`scene`). Every packet is counted and compared with its source at the receiver (`tally`).
//! Rounds go over all cases, so that what is compared was measured next to each other (`plan`,
//! `ratios`).

pub(crate) mod args;
mod bars;
mod calls;
mod case;
mod end;
mod hythe;
mod job;
mod lossy;
mod measured;
mod message;
mod one_by_one;
mod packets;
mod paper;
mod plan;
mod plays;
mod program;
mod ratios;
mod receiver;
mod report;
mod scene;
mod segmented;
mod sender;
mod series;
mod session;
mod source;
mod table;
mod tally;

use indicatif::ProgressBar;
use rustix::process::geteuid;
use rustix::time::{ClockId, Timespec, clock_gettime};

use self::args::MediaArguments;
use self::calls::CallSeries;
use self::case::{Case, Content};
use self::lossy::LossyOutcome;
use self::measured::Measured;
use self::message::Source;
use self::plan::Plan;
use self::plays::{Play, PlaysCase, PlaysSeries, Programs};
use self::report::{Circumstances, Report};
use self::scene::{LossyScene, Scene};
use self::series::{Round, Series};
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::{cpus, machine};

pub(crate) use self::end::run as run_end;
pub(crate) use self::table::render;

/// Of the first destination; each has two, as RTP and RTCP want it.
const FIRST_PORT: u16 = 5004;

/// How much is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// How many of them.
    pub(crate) packets: Vec<u32>,
    /// One stream to so many at once.
    pub(crate) destinations: u16,
    pub(crate) packet_bytes: u16,
    pub(crate) repeat: u32,
    /// Calls at once, and how long they last.
    pub(crate) calls: u16,
    pub(crate) call_seconds: u16,
    /// Over the way that loses.
    pub(crate) lossy_packets: u32,
    /// Decides what that way loses.
    pub(crate) seed: u64,
    /// Of a stream as it plays, and how long it lasts.
    pub(crate) play_destinations: Vec<u16>,
    pub(crate) play_seconds: u16,
    /// Parts of names; none: all cases.
    pub(crate) only: Vec<String>,
}

impl Scale {
    fn wants(&self, case: &impl std::fmt::Display) -> bool {
        let name = case.to_string();
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }
}

/// Calls last seconds: more repetitions say little more.
const CALL_REPEAT_MAX: u32 = 5;
/// As long as the media.
const PLAYS_REPEAT_MAX: u32 = 5;

/// Measures what the arguments ask for.
pub(crate) fn run(arguments: &MediaArguments) -> Result<Report, BenchError> {
    machine::look_at_sources();
    if !geteuid().is_root() {
        return Err(BenchError::Unable(
            "`bench media` makes two networks and a link between them: run it as root".to_owned(),
        ));
    }
    let lookout = Lookout::on_signals()?;
    let load_before = machine::load();
    let scale = arguments.scale();
    let mut plan = plan::make(&scale, program::is_installed, calls::try_priority);
    let wanted: Vec<PlaysCase> = plan::plays(&scale).collect();
    let programs = Programs::find(&wanted);
    plan.add_plays(&scale, &programs);
    if plan.is_empty() {
        return Err(BenchError::WrongUse(
            "nothing is left to measure".to_owned(),
        ));
    }
    let cpus = cpus::choose()?;
    let mut lossy = Vec::new();
    let played = play_all(&scale, &mut plan, &mut lossy, cpus, &lookout)
        .and_then(|()| play_streams(&scale, &mut plan.plays, &programs, cpus, &lookout));
    let ended = match played {
        Ok(()) => None,
        // It has not even begun.
        Err(error) if plan.has_nothing() && lossy.is_empty() => return Err(error),
        Err(error) => Some(error.to_string()),
    };
    let around = Circumstances {
        cpus,
        load_before,
        skipped: plan.skipped,
        ended,
    };
    let measured = Measured {
        series: &plan.series,
        calls: &plan.calls,
        lossy: &lossy,
        plays: &plan.plays,
    };
    Report::new(&scale, measured, around)
}

fn play_all(
    scale: &Scale,
    plan: &mut Plan,
    lossy: &mut Vec<LossyOutcome>,
    cpus: Option<[usize; 2]>,
    lookout: &Lookout,
) -> Result<(), BenchError> {
    if !plan.series.is_empty() || !plan.calls.is_empty() {
        let files = source::make(plan.series.iter().map(|series| series.case))?;
        let sources: Vec<Source> = files.iter().map(source::MediaFile::source).collect();
        let mut scene = Scene::set(cpus, &sources, lookout)?;
        play(&mut scene, &mut plan.series, scale.repeat, lookout)?;
        let repeat = scale.repeat.min(CALL_REPEAT_MAX);
        play_calls(&mut scene, &mut plan.calls, repeat, lookout)?;
    }
    if plan.lossy.is_empty() {
        return Ok(());
    }
    let mut scene = LossyScene::set(cpus, lookout)?;
    let bar = ProgressBar::new(plan.lossy.len() as u64);
    for case in &plan.lossy {
        lookout.check_stop()?;
        lossy.push(scene.play(*case)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// The ends keep the CPUs that they have, and programs that are started get the sender's.
fn play_streams(
    scale: &Scale,
    streams: &mut [PlaysSeries],
    programs: &Programs,
    cpus: Option<[usize; 2]>,
    lookout: &Lookout,
) -> Result<(), BenchError> {
    if streams.is_empty() {
        return Ok(());
    }
    let files = plays::make(streams.iter().map(|series| series.case))?;
    let mut scene = Scene::set(cpus, &[], lookout)?;
    let repeat = scale.repeat.min(PLAYS_REPEAT_MAX);
    let bar = ProgressBar::new(streams.len() as u64 * u64::from(repeat));
    let count = streams.len();
    for place in (0..repeat).flat_map(|_| 0..count) {
        lookout.check_stop()?;
        let series = &mut streams[place];
        let case = series.case;
        let file = files.iter().find(|file| file.is_of(&case));
        let play = Play {
            case,
            program: programs.of(case.system).map_err(BenchError::Unable)?,
            path: file.map_or_else(String::new, plays::StreamFile::path),
        };
        let round = scene.watch(play);
        series.add(round.map_err(|error| error.of(&case, usize::from(plays::PACKET_BYTES)))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

fn play_calls(
    scene: &mut Scene,
    calls: &mut [CallSeries],
    repeat: u32,
    lookout: &Lookout,
) -> Result<(), BenchError> {
    let bar = ProgressBar::new(calls.len() as u64 * u64::from(repeat));
    for _ in 0..repeat {
        for series in &mut *calls {
            lookout.check_stop()?;
            let case = series.case;
            let round = scene
                .call(case)
                .map_err(|error| error.of(&case, usize::from(calls::PACKET_BYTES)))?;
            series.add(round);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn play(
    scene: &mut Scene,
    series: &mut [Series],
    repeat: u32,
    lookout: &Lookout,
) -> Result<(), BenchError> {
    let bar = ProgressBar::new(series.len() as u64 * u64::from(repeat));
    for _ in 0..repeat {
        for series in &mut *series {
            lookout.check_stop()?;
            let case = series.case;
            play_once(scene, series)
                .map_err(|error| error.of(&case, usize::from(case.packet_bytes)))?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn play_once(scene: &mut Scene, series: &mut Series) -> Result<(), BenchError> {
    let mut play = |case| {
        let (sent, tally) = scene.play(case)?;
        Ok::<_, BenchError>(Round::new(sent, tally))
    };
    if series.case.system.is_peer() {
        let content = Content::TransportStreamHead;
        series.add_head(play(Case {
            content,
            ..series.case
        })?);
    }
    series.add(play(series.case)?);
    Ok(())
}

/// Where a destination listens.
const fn port(destination: u16) -> u16 {
    FIRST_PORT + 2 * destination
}

fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
