//! Two hosts: processes with a network each, joined by a veth link, as far apart as the CPUs of the
//! machine allow.

use std::collections::BTreeSet;

use hdrhistogram::Histogram;

use super::case::{Carrier, Reach, Sides};
use super::message::{Order, Outcome, Run};
use crate::document::Steady;
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::network::{self, Answer, LinkPlan, connect};
use crate::starter::Neighbour;
use crate::statistics;

type Process = network::Process<Order>;

/// One for each carrier of agents, the first for all other systems, too: what a carrier does to its
/// interface is no matter of others.
const LINKS: [LinkPlan; 3] = [
    LinkPlan {
        interface: "hythe0",
        addresses: ["10.77.0.1/30", "10.77.0.2/30"],
        macs: ["02:00:00:00:00:01", "02:00:00:00:00:02"],
    },
    LinkPlan {
        interface: "hythe1",
        addresses: ["10.77.1.1/30", "10.77.1.2/30"],
        macs: ["02:00:00:00:01:01", "02:00:00:00:01:02"],
    },
    LinkPlan {
        interface: "hythe2",
        addresses: ["10.77.2.1/30", "10.77.2.2/30"],
        macs: ["02:00:00:00:02:01", "02:00:00:00:02:02"],
    },
];

/// The times of a run, and what was counted behind it.
pub(super) type Measured = (Histogram<u64>, Option<Steady>);

/// The hosts.
#[derive(Debug)]
pub(super) struct Scene {
    near: Process,
    far: Process,
}

impl Scene {
    /// Needs the right to make networks.
    pub(super) fn set(
        cpus: Option<[usize; 2]>,
        folder: &str,
        lookout: &Lookout,
    ) -> Result<Self, BenchError> {
        let [on_near, on_far] = cpus.map_or([None; 2], |cpus| cpus.map(Some));
        let words = ["host-end", "--folder", folder];
        let mut near = Process::start("near host", &words, on_near, lookout)?;
        let mut far = Process::start("far host", &words, on_far, lookout)?;
        for link in &LINKS {
            connect(link, [&mut near, &mut far])?;
        }
        near.order(&Order::AwaitLinks)?;
        far.order(&Order::AwaitLinks)?;
        let process = far.id();
        near.order(&Order::Meet(Neighbour { process, cpus }))?;
        Ok(Self { near, far })
    }

    /// Joins the two hosts by agents with these carriers.
    pub(super) fn join(&mut self, carriers: &BTreeSet<Carrier>) -> Result<(), BenchError> {
        for &carrier in carriers {
            let pool = match self.far.ask(&Order::Prepare(carrier))? {
                Answer::Result(Outcome::Pool(name)) => name,
                other => return Err(self.far.surprise(&other)),
            };
            self.near.order(&Order::Introduce(carrier, pool))?;
            // It was started at all addresses, where there is a place for one only.
            self.far.order(&Order::Halt(carrier))?;
        }
        for &carrier in carriers {
            self.far.order(&Order::Start(carrier))?;
            self.near.order(&Order::Start(carrier))?;
        }
        for &carrier in carriers {
            self.near.order(&Order::Await(carrier))?;
        }
        Ok(())
    }

    /// Ends what serves several runs.
    pub(super) fn part(&mut self) -> Result<(), BenchError> {
        let near = self.near.order_at_the_end(&Order::Part);
        let far = self.far.order_at_the_end(&Order::Part);
        near.and(far)
    }

    /// One run.
    pub(super) fn measure(&mut self, run: &Run) -> Result<Measured, BenchError> {
        let answer = match (run.case.reach, run.case.system.sides()) {
            (Reach::Local, _) | (_, Sides::Starter) => {
                self.near.ask(&Order::MeasureAlone(run.clone()))?
            }
            (Reach::Remote, _) => self.measure_remotely(run)?,
        };
        match answer {
            Answer::Result(Outcome::Measured(times)) => Ok((statistics::decode(&times)?, None)),
            Answer::Result(Outcome::Counted(times, steady)) => {
                Ok((statistics::decode(&times)?, Some(steady)))
            }
            other => Err(self.near.surprise(&other)),
        }
    }

    fn measure_remotely(&mut self, run: &Run) -> Result<Answer<Outcome>, BenchError> {
        if run.case.carrier().is_some() {
            // A port of the run before that stands for the other host would be sent the first
            // message of this one.
            self.near.order(&Order::Settle)?;
            self.far.order(&Order::Settle)?;
        }
        let port = match self.far.ask(&Order::Echo(run.clone()))? {
            Answer::Result(Outcome::Listening(port)) => port,
            other => return Err(self.far.surprise(&other)),
        };
        let measured = self.near.ask(&Order::Measure(run.clone(), port));
        // Where both failed, one of them may be the reason of the other.
        match (measured, self.far.order(&Order::Collect)) {
            (Ok(measured), Ok(())) => Ok(measured),
            (Err(error), Ok(())) | (Ok(_), Err(error)) => Err(error),
            (Err(BenchError::OrderFailed(near)), Err(BenchError::OrderFailed(far))) => {
                Err(BenchError::OrderFailed(format!("{near}; {far}")))
            }
            (Err(BenchError::Stopped), _) => Err(BenchError::Stopped),
            (Err(near), Err(far)) => Err(BenchError::Invalid(format!("{near}; {far}"))),
        }
    }

    /// Both ledgers add up.
    pub(super) fn audit(&mut self) -> Result<(), BenchError> {
        self.near.order(&Order::Audit)?;
        self.far.order(&Order::Audit)
    }
}
