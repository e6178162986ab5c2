//! What each service costs beside its floor, a bare `ping`, and the kernel's own beside it: between
//! two processes, and with a core on the other side.
//!
//! `case` lists the rows, `end` is one end of a service between two processes (`ours`, `futex`,
//! `posix`) and `far` the other process; `core` has the core on the other side, `segment` what one
//! process does alone. Rounds go over all cases, so that what is compared was measured next to each
//! other.

mod case;
mod core;
mod end;
mod far;
mod futex;
mod open;
mod ours;
mod posix;
mod ratios;
mod segment;

use std::time::Duration;

use hdrhistogram::Histogram;
use indicatif::ProgressBar;

use self::case::{Case, Service, System};
use self::end::Side;
use super::args::CoreArguments;
use super::board::{self, Running};
use super::run::{Budget, sample};
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::others::Others;
use crate::times::{Labels, Place, RunConditions, Times, TimesReport, of_document};
use crate::{cpus, machine};

pub(crate) use self::far::{ServiceArguments, answer};

/// The program of the core, which serves methods and asks its agent.
const APP: &str = "p1";

/// Measures what the arguments ask for.
pub(crate) fn run(arguments: &CoreArguments) -> Result<TimesReport, BenchError> {
    machine::look_at_sources();
    let lookout = Lookout::on_signals()?;
    let load_before = machine::load();
    let Some(cpus) = cpus::choose()? else {
        return Err(BenchError::Unable(
            "the two sides of a service run on two CPUs, and this process may use one only"
                .to_owned(),
        ));
    };
    let board = board::find(&arguments.board, APP)?;
    let running = Running::start(&board, APP, Some(cpus[1]))?;
    cpus::pin(cpus[0])?;
    let scale = arguments.scale();
    let cases = case::all();
    let core = Place {
        pinned: cpus.to_vec(),
        board: Some(board.name().to_owned()),
        emulated: board.is_emulated(),
    };
    let mut times: Vec<Times> = cases.iter().map(|&case| row(case, cpus, &core)).collect();
    let runs = times.len() as u64 * u64::from(scale.rounds);
    let budget = Budget {
        count: scale.count,
        time: Duration::from_secs_f64(scale.seconds / runs as f64),
    };
    let others = Others::watch(&cpus, &[running.pid()])?;
    // Shown on a terminal only.
    let bar = ProgressBar::new(runs);
    running.watched(&lookout, |lookout| {
        for _ in 0..scale.rounds {
            for (case, times) in cases.iter().zip(&mut times) {
                lookout.check_stop()?;
                let measured = measure(*case, budget, cpus[1], (&running, lookout));
                let measured = measured.map_err(|error| error.of(case, case.size))?;
                times.rounds.push(measured);
                bar.inc(1);
            }
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let others = others.share()?;
    running.stop()?;
    let run = RunConditions {
        cpus,
        rounds: scale.rounds,
        load_before,
        others,
        skipped: Vec::new(),
        objection: None,
    };
    let ratios = ratios::all(&cases, &times);
    let labels = Labels {
        bench: "core",
        cases: "service, ns",
        bar_of: |_| None,
    };
    Ok(TimesReport::new(of_document(&times)?, ratios, run, labels))
}

fn row(case: Case, cpus: [usize; 2], core: &Place) -> Times {
    let place = match (case.system, case.service) {
        (System::Core, _) => core.clone(),
        (_, Service::Segment) => Place::on(&cpus[..1]),
        _ => Place::on(&cpus),
    };
    Times {
        case: case.to_string(),
        size: case.size,
        metric: match case.service {
            Service::Segment => "duration",
            _ => "round_trip",
        },
        rounds: Vec::new(),
        kernel_copies: None,
        steady: None,
        place,
    }
}

/// One round of a case.
fn measure(
    case: Case,
    budget: Budget,
    far_cpu: usize,
    (running, lookout): (&Running, &Lookout),
) -> Result<Histogram<u64>, BenchError> {
    let size = case.size;
    let measured = match (case.system, case.service) {
        (System::Hythe, Service::Segment) => {
            let segments = segment::ours(running.pool())?;
            sample(budget, lookout, |_| segment::make_ours(&segments, size))
        }
        (_, Service::Segment) if case.system == System::Shmget => {
            sample(budget, lookout, |_| segment::make_the_kernels(size))
        }
        (System::Core, _) => {
            let mut end = core::open(case, running)?;
            let measured = sample(budget, lookout, |number| {
                end.send(number)?;
                end.receive(number, lookout)
            })?;
            end.finish()?;
            Ok(measured)
        }
        _ => between_processes(case, budget, far_cpu, (running, lookout)),
    }?;
    running.check_sums(&case, size)?;
    Ok(measured)
}

fn between_processes(
    case: Case,
    budget: Budget,
    far_cpu: usize,
    (running, lookout): (&Running, &Lookout),
) -> Result<Histogram<u64>, BenchError> {
    let (_memory, place) = match case.system {
        System::Futex => {
            let (memory, place) = futex::make()?;
            (Some(memory), place)
        }
        System::Mq => (None, format!("/hythe-bench-{}", std::process::id())),
        _ => (None, running.pool().options().name().to_owned()),
    };
    let mut near = open::open(case, Side::Near, &place)?;
    let far = far::start(case, &place, far_cpu)?;
    let measured = sample(budget, lookout, |number| {
        near.send(number)?;
        near.receive(number, lookout)
    })?;
    far.end()?;
    Ok(measured)
}
