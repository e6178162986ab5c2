//! Two hosts: processes with a network each, joined by a veth link, as far apart as the CPUs of the
//! machine allow.

use std::path::Path;

use super::message::{Found, Order, Run};
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::network::{self, Answer, LinkPlan, connect};
use crate::starter::Neighbour;

type Process = network::Process<Order>;

const LINK: LinkPlan = LinkPlan {
    interface: "hythe0",
    addresses: ["10.77.0.1/30", "10.77.0.2/30"],
    macs: ["02:00:00:00:00:01", "02:00:00:00:00:02"],
};

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
        (folder, library): (&Path, Option<&Path>),
        lookout: &Lookout,
    ) -> Result<Self, BenchError> {
        let [on_near, on_far] = cpus.map_or([None; 2], |cpus| cpus.map(Some));
        let text = |path: &Path| path.display().to_string();
        let mut words = vec!["pvm-end".to_owned(), "--folder".to_owned(), text(folder)];
        if let Some(library) = library {
            words.extend(["--library".to_owned(), text(library)]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut near = Process::start("near host", &words, on_near, lookout)?;
        let mut far = Process::start("far host", &words, on_far, lookout)?;
        connect(&LINK, [&mut near, &mut far])?;
        near.order(&Order::AwaitLink)?;
        far.order(&Order::AwaitLink)?;
        let process = far.id();
        near.order(&Order::Meet(Neighbour { process, cpus }))?;
        Ok(Self { near, far })
    }

    /// Joins the two hosts by agents.
    pub(super) fn join(&mut self) -> Result<(), BenchError> {
        self.near.order(&Order::Introduce)?;
        self.far.order(&Order::Halt)?;
        self.far.order(&Order::Start)?;
        self.near.order(&Order::Start)?;
        self.near.order(&Order::Await)
    }

    /// One run.
    pub(super) fn measure(&mut self, run: &Run) -> Result<Vec<Found>, BenchError> {
        match self.near.ask(&Order::Measure(run.clone()))? {
            Answer::Result(found) => Ok(found),
            other => Err(self.near.surprise(&other)),
        }
    }

    /// Ends what serves several runs.
    pub(super) fn part(&mut self) -> Result<(), BenchError> {
        let near = self.near.order_at_the_end(&Order::Part);
        let far = self.far.order_at_the_end(&Order::Part);
        near.and(far)
    }
}
