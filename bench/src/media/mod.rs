//! Scenario `media`: the paper's experiment, many RTP packets sent as fast as they go, by every method and by the product.
//!
//! Sender and receiver are two processes with a network each, on two CPUs, joined by a veth link (`scene`). Every packet is counted
//! and compared with its source at the receiver (`tally`). Rounds go over all cases, so that what is compared was measured next to each
//! other (`plan`, `ratios`).

mod bars;
mod case;
mod end;
mod hythe;
mod message;
mod one_by_one;
mod packets;
mod paper;
mod plan;
mod process;
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

use self::case::{Case, Content};
use self::message::Source;
use self::plan::Plan;
use self::report::{Circumstances, Report};
use self::scene::Scene;
use self::series::{Round, Series};
use crate::args::MediaArguments;
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
    /// Parts of names; none: all cases.
    pub(crate) only: Vec<String>,
}

impl Scale {
    fn wants(&self, case: &Case) -> bool {
        let name = case.to_string();
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }
}

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
    let Plan {
        mut series,
        skipped,
    } = plan::make(&scale, program::is_installed);
    if series.is_empty() {
        return Err(BenchError::WrongUse(
            "nothing is left to measure".to_owned(),
        ));
    }
    let cpus = cpus::choose()?;
    let files = source::make(series.iter().map(|series| series.case))?;
    let sources: Vec<Source> = files.iter().map(source::MediaFile::source).collect();
    let mut scene = Scene::set(cpus, &sources, &lookout)?;
    let ended = match play(&mut scene, &mut series, scale.repeat, &lookout) {
        Ok(()) => None,
        Err(error) => Some(error.to_string()),
    };
    let around = Circumstances {
        cpus,
        load_before,
        skipped,
        ended,
    };
    Ok(Report::new(&scale, &series, around))
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
