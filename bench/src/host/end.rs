//! One of the two hosts: a process with a network and a `/dev/shm` of its own. The bench orders,
//! line by line, and it answers. Ends when nobody orders any more.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::agents::{self, Agents};
use super::args::HostEndArguments;
use super::case::{Carrier, Case, Sides, System};
use super::frames::FramesEnd;
use super::message::{Order, Outcome, Run};
use super::outside::Outside;
use super::sockets;
use super::starter;
use crate::error::BenchError;
use crate::ipc::end;
use crate::ipc::hythe::HytheEnd;
use crate::ipc::side::Side;
use crate::lookout::Lookout;
use crate::network::{Answer, Link, answer, begin, next_order, put_up, ready};
use crate::pool::{self, BenchPool};
use crate::starter::pvm::VirtualMachine;
use crate::starter::{Hosts, Neighbour};
use crate::{ipc, statistics};

/// How long agents may take to tell that a run has closed its ports.
const SETTLING: Duration = Duration::from_secs(30);

/// What it knows.
struct Host {
    folder: PathBuf,
    link: Option<Link>,
    neighbour: Option<Neighbour>,
    /// That agents serve.
    pools: BTreeMap<Carrier, BenchPool>,
    machine: Option<VirtualMachine>,
}

/// Takes orders.
pub(crate) fn run(arguments: &HostEndArguments) -> Result<(), BenchError> {
    begin(arguments.cpu)?;
    let mut host = Host {
        folder: arguments.folder.clone(),
        link: None,
        neighbour: None,
        pools: BTreeMap::new(),
        machine: None,
    };
    ready()?;
    while let Some(order) = next_order()? {
        let answered = host.obey(order);
        answer(&answered.unwrap_or_else(|error| Answer::Failed(error.to_string())))?;
    }
    Ok(())
}

impl Host {
    fn obey(&mut self, order: Order) -> Result<Answer<Outcome>, BenchError> {
        match order {
            Order::Join(link) => {
                put_up(&link)?;
                self.link = Some(link);
            }
            Order::Meet(neighbour) => self.neighbour = Some(neighbour),
            Order::Echo(run) => return self.echo_until_collected(&run),
            Order::Measure(run, port) => {
                return done(self.measure(&run, port)?);
            }
            Order::MeasureAlone(run) => return done(self.measure_alone(&run)?),
            Order::Prepare(carrier) => {
                let pool = self.make_pool(carrier)?;
                return Ok(Answer::Result(Outcome::Pool(pool.name().to_owned())));
            }
            Order::Introduce(carrier, far_pool) => self.introduce(carrier, &far_pool)?,
            Order::Settle => {
                let mut pools = self.pools.values();
                pools.try_for_each(|pool| pool.wait_for_no_port(SETTLING))?;
            }
            Order::Part { is_near } => self.part(is_near)?,
            Order::Collect => return Err(BenchError::WrongUse("nobody was answered".to_owned())),
            Order::Audit => {
                let mut pools = self.pools.values();
                pools.try_for_each(|pool| pool.audit("all cases", 0))?;
            }
        }
        Ok(Answer::Ready)
    }

    fn make_pool(&mut self, carrier: Carrier) -> Result<&BenchPool, BenchError> {
        let name = format!("{}-{carrier:?}", pool::pool_name()).to_lowercase();
        let pool = BenchPool::make_with(&pool::options(&name))?;
        Ok(self.pools.entry(carrier).or_insert(pool))
    }

    fn introduce(&mut self, carrier: Carrier, far_pool: &str) -> Result<(), BenchError> {
        let pool = self.make_pool(carrier)?.name().to_owned();
        agents::introduce(&Agents {
            folder: &self.folder,
            carrier,
            pools: [&pool, far_pool],
            addresses: [self.own()?, self.other()?],
            neighbour: self.neighbour()?,
        })
    }

    fn part(&mut self, is_near: bool) -> Result<(), BenchError> {
        self.machine = None;
        let stop = |(&carrier, pool): (&Carrier, &BenchPool)| {
            agents::part(&self.folder, carrier, pool.name(), is_near)
        };
        self.pools.iter().map(stop).fold(Ok(()), Result::and)
    }

    /// Two orders, since what comes between them must not wait for the second.
    fn echo_until_collected(&mut self, run: &Run) -> Result<Answer<Outcome>, BenchError> {
        let is_listening = Cell::new(false);
        let echoed = self.echo(run, |port| {
            is_listening.set(true);
            answer(&Answer::Result(Outcome::Listening(port)))
        });
        if is_listening.get() {
            // None: the bench has ended, and so will this process.
            let next = next_order()?.unwrap_or(Order::Collect);
            if !matches!(next, Order::Collect) {
                // The run was given up.
                return self.obey(next);
            }
        }
        echoed.map(|_outside| Answer::Ready)
    }

    /// A program that answers in place of this process does so until it is dropped.
    fn echo(
        &self,
        run: &Run,
        listening: impl FnOnce(u16) -> Result<(), BenchError>,
    ) -> Result<Option<Outside>, BenchError> {
        match run.case.system.sides() {
            Sides::Sockets => sockets::echo(run, self.own()?, listening)?,
            Sides::Frames => {
                let mut end = self.frames(run)?;
                listening(0)?;
                end::echo(&mut end)?;
            }
            Sides::Pools(carrier) => {
                listening(0)?;
                end::echo(&mut self.hythe(carrier, Side::Far, run)?)?;
            }
            Sides::Programs => {
                let system = run.case.system;
                let (outside, port) = Outside::echo(system, self.own()?, &self.folder)?;
                listening(port)?;
                return Ok(Some(outside));
            }
            Sides::Memory | Sides::Starter => return Err(not_here(run.case)),
        }
        Ok(None)
    }

    fn measure(&self, run: &Run, port: u16) -> Result<String, BenchError> {
        let other = SocketAddr::new(self.other()?, port);
        match run.case.system.sides() {
            Sides::Sockets => sockets::measure(run, self.own()?, other),
            Sides::Frames => sockets::measured(self.frames(run)?, run),
            Sides::Programs => Outside::measure(run, other, &self.folder),
            Sides::Pools(carrier) => sockets::measured(self.hythe(carrier, Side::Near, run)?, run),
            Sides::Memory | Sides::Starter => Err(not_here(run.case)),
        }
    }

    /// Without orders to the other host.
    fn measure_alone(&mut self, run: &Run) -> Result<String, BenchError> {
        let cpus = self.neighbour()?.cpus;
        match run.case.system.sides() {
            Sides::Starter => self.start_and_measure(run),
            Sides::Sockets => sockets::measure_beside_a_thread(run, cpus),
            _ => {
                let case = run.case.of_ipc();
                let measured = ipc::round_trips(case, run.size, run.budget(), cpus)?;
                statistics::encode(&[measured])
            }
        }
    }

    fn start_and_measure(&mut self, run: &Run) -> Result<String, BenchError> {
        let link = self.link()?.clone();
        let hosts = Hosts {
            folder: &self.folder.clone(),
            interface: &link.interface,
            own: self.own()?,
            other: self.other()?,
            neighbour: self.neighbour()?,
        };
        if run.case.system == System::Pvm && self.machine.is_none() {
            self.machine = Some(VirtualMachine::start(&hosts)?);
        }
        starter::measure(run, &hosts)
    }

    fn hythe(&self, carrier: Carrier, side: Side, run: &Run) -> Result<HytheEnd, BenchError> {
        let pool = self.pools.get(&carrier);
        let pool = pool.ok_or_else(|| BenchError::WrongUse("there is no pool yet".to_owned()))?;
        let (case, lookout) = (run.case.of_ipc(), Lookout::default());
        HytheEnd::join_across(pool.pool(), side, (case, run.size), lookout)
    }

    fn frames(&self, run: &Run) -> Result<FramesEnd, BenchError> {
        FramesEnd::open(self.link()?, (run.case, run.size), Lookout::default())
    }

    fn link(&self) -> Result<&Link, BenchError> {
        let link = self.link.as_ref();
        link.ok_or_else(|| BenchError::WrongUse("there is no link yet".to_owned()))
    }

    fn neighbour(&self) -> Result<Neighbour, BenchError> {
        let unknown = || BenchError::WrongUse("the other host is not known yet".to_owned());
        self.neighbour.ok_or_else(unknown)
    }

    fn own(&self) -> Result<IpAddr, BenchError> {
        self.link()?.own_ip()
    }

    fn other(&self) -> Result<IpAddr, BenchError> {
        self.link()?.other_ip()
    }
}

fn done(measured: String) -> Result<Answer<Outcome>, BenchError> {
    Ok(Answer::Result(Outcome::Measured(measured)))
}

fn not_here(case: Case) -> BenchError {
    BenchError::WrongUse(format!("{case} has no two hosts"))
}
