//! The sending process: sends a case once, by the method that it names, and measures itself.
//!
//! A method is made before the time begins: sockets are open and memory has its pages, as in a
//! server that has run for a while.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use super::case::{Content, Mode, System};
use super::hythe::Hythe;
use super::job::{Job, Method, Sent, Spent};
use super::one_by_one::{Sendmmsg, Sendto};
use super::program;
use super::segmented::{Gso, SendfileGso};
use super::session::Session;
use super::{monotonic_ns, nanoseconds};
use crate::error::BenchError;

/// Sends once.
pub(super) fn run(job: &Job<'_>) -> Result<Sent, BenchError> {
    let mode = job.case.mode;
    let mut method: Box<dyn Method + '_> = match (job.case.system, mode) {
        (System::Ffmpeg | System::Gstreamer, _) => return program::run(job),
        (System::Sendto, Mode::Prepared | Mode::FirstSend) => Box::new(Sendto::new(job)?),
        (System::Sendmmsg, Mode::Prepared | Mode::FirstSend) => Box::new(Sendmmsg::new(job)?),
        (System::Hythe, Mode::FirstSend) if job.case.content == Content::TransportStream => {
            Box::new(Session::new(job)?)
        }
        (System::Hythe, _) => Box::new(Hythe::new(job)?),
        (System::Gso, _) => Box::new(Gso::new(job)?),
        (System::SendfileGso, Mode::Prepared | Mode::FirstSend) => Box::new(SendfileGso::new(job)?),
        _ => {
            let why = format!("there is no {}", job.case);
            return Err(BenchError::WrongUse(why));
        }
    };
    let mut layout = None;
    if mode != Mode::FirstSend {
        let spent = measure(|| method.prepare())?;
        // Without headers, they are not built.
        layout = (mode == Mode::Prepared).then_some(spent);
    }
    let began_ns = monotonic_ns();
    let spent = measure(|| match mode {
        Mode::FirstSend => method.send_first(),
        Mode::Prepared | Mode::Headers => method.send_prepared(),
    })?;
    Ok(Sent {
        began_ns,
        cpu_ns: spent.cpu_ns,
        layout,
        method: method.chosen(),
    })
}

fn measure(work: impl FnOnce() -> Result<(), BenchError>) -> Result<Spent, BenchError> {
    // Of all threads: a method may have some.
    let cpu_ns = || nanoseconds(clock_gettime(ClockId::ProcessCPUTime));
    let (began, cpu) = (Instant::now(), cpu_ns());
    work()?;
    Ok(Spent {
        cpu_ns: cpu_ns() - cpu,
        elapsed_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
    })
}
