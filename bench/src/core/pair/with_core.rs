//! A task of the core in the place of one of the processes, with the same segment and semaphores:
//! a `worker` of `p1` (`rtos/apps/p1/README.md`).

use std::fmt;

use hdrhistogram::Histogram;
use hythe_rtcore::tasks::Tasks;

use super::super::board::Running;
use super::Run;
use super::ground::{Kind, NAMES};
use super::meeting::Meeting;
use crate::error::BenchError;
use crate::lookout::Lookout;

const WORKER: &str = "worker";

/// Which of the two the core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    CoreWrites,
    CoreReads,
}

impl fmt::Display for Direction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::CoreWrites => "core-writes",
            Self::CoreReads => "core-reads",
        })
    }
}

/// One round. A core that reads another message than was written posts no more: it is missed.
pub(super) fn measure(
    run: &Run,
    direction: Direction,
    (running, lookout): (&Running, &Lookout),
) -> Result<Histogram<u64>, BenchError> {
    let pool = running.pool();
    let mut meeting = Meeting::make(Kind::Hythe, pool, (run.size, run.payload))?;
    let mut tasks = Tasks::open(pool, running.board(), "tasks").map_err(refused)?;
    let [empty, full] = NAMES;
    let (what, from, to) = match direction {
        Direction::CoreWrites => ("write", empty, full),
        Direction::CoreReads => ("read", full, empty),
    };
    let (id, size, payload) = (meeting.segment(), run.size, run.payload);
    let argument = format!("{what} {id} {size} {payload} {from} {to}");
    tasks.start(WORKER, &argument).map_err(refused)?;
    let times = run.time(|number| match direction {
        Direction::CoreWrites => meeting.read(number, lookout),
        Direction::CoreReads => meeting.write(number, lookout),
    })?;
    tasks.stop(WORKER).map_err(refused)?;
    Ok(times)
}

fn refused(error: impl fmt::Display) -> BenchError {
    BenchError::Unable(error.to_string())
}
