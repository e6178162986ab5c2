//! One of the two hosts: a process with a network and a `/dev/shm` of its own. The bench orders,
//! line by line, and it answers. Ends when nobody orders any more.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};

use super::agents::{Agent, FarHost, Wire};
use super::args::HostEndArguments;
use super::carriage;
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
use crate::network::{
    Answer, Link, answer, begin, next_order, put_up, ready, show_own_interfaces, wait_until_up,
};
use crate::pool::{self, BenchPool};
use crate::starter::pvm::VirtualMachine;
use crate::starter::{Hosts, Neighbour};
use crate::{ipc, statistics};

/// How long agents may take to tell that a run has closed its ports.
const SETTLING: Duration = Duration::from_secs(30);

/// What it knows.
struct Host {
    folder: PathBuf,
    /// The first for whatever needs one only, and one for each carrier.
    links: Vec<Link>,
    neighbour: Option<Neighbour>,
    /// That agents serve.
    pools: BTreeMap<Carrier, BenchPool>,
    /// Those of them that run.
    agents: BTreeMap<Carrier, Agent>,
    wire: Option<Wire>,
    machine: Option<VirtualMachine>,
}

/// Takes orders.
pub(crate) fn run(arguments: &HostEndArguments) -> Result<(), BenchError> {
    begin(arguments.cpu)?;
    // What serves interfaces has its sockets there, and both hosts name theirs alike.
    mount("hythe-bench", "/run", "tmpfs", MountFlags::empty(), None)?;
    show_own_interfaces()?;
    let mut host = Host {
        folder: arguments.folder.clone(),
        links: Vec::new(),
        neighbour: None,
        pools: BTreeMap::new(),
        agents: BTreeMap::new(),
        wire: None,
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
                self.links.push(link);
            }
            Order::AwaitLinks => self.links.iter().try_for_each(wait_until_up)?,
            Order::Meet(neighbour) => self.neighbour = Some(neighbour),
            Order::Echo(run) => return self.echo_until_collected(&run),
            Order::Measure(run, port) => {
                return Ok(Answer::Result(self.measure(&run, port)?));
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
            Order::Halt(carrier) => self.agent(carrier, false)?.stop()?,
            Order::Start(carrier) => self.start_agent(carrier)?,
            Order::Await(carrier) => self.running(carrier)?.wait_for_other()?,
            Order::Part => self.part()?,
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
        let options = pool::options(&name).spin(Duration::ZERO);
        let pool = BenchPool::make_with(&options)?;
        Ok(self.pools.entry(carrier).or_insert(pool))
    }

    fn introduce(&mut self, carrier: Carrier, far_pool: &str) -> Result<(), BenchError> {
        self.make_pool(carrier)?;
        let link = self.link_of(carrier)?;
        let far = FarHost {
            pool: far_pool,
            address: link.other_ip()?,
            neighbour: self.neighbour()?,
        };
        self.agent(carrier, true)?.introduce(link.own_ip()?, &far)
    }

    fn start_agent(&mut self, carrier: Carrier) -> Result<(), BenchError> {
        let link = self.link_of(carrier)?.clone();
        if carrier == Carrier::Xdp {
            self.wire = Some(Wire::serve(&link.interface)?);
        }
        // Only the near end knows the other.
        let agent = self.agent(carrier, self.neighbour.is_some())?;
        agent.start(&link)?;
        self.agents.insert(carrier, agent);
        Ok(())
    }

    fn agent(&self, carrier: Carrier, is_near: bool) -> Result<Agent, BenchError> {
        Ok(Agent {
            folder: self.folder.clone(),
            carrier,
            is_near,
            pool: self.pool(carrier)?.name().to_owned(),
            variables: Vec::new(),
        })
    }

    fn part(&mut self) -> Result<(), BenchError> {
        self.machine = None;
        let agents = std::mem::take(&mut self.agents);
        let stopped = agents.values().map(Agent::stop).fold(Ok(()), Result::and);
        self.wire = None;
        stopped
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

    fn measure(&self, run: &Run, port: u16) -> Result<Outcome, BenchError> {
        let other = SocketAddr::new(self.other()?, port);
        let times = match run.case.system.sides() {
            Sides::Sockets => sockets::measure(run, self.own()?, other),
            Sides::Frames => sockets::measured(self.frames(run)?, run),
            Sides::Programs => Outside::measure(run, other, &self.folder),
            Sides::Pools(carrier) => {
                let end = self.hythe(carrier, Side::Near, run)?;
                return carriage::measure(end, run, self.running(carrier)?);
            }
            Sides::Memory | Sides::Starter => Err(not_here(run.case)),
        };
        times.map(Outcome::Measured)
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
        let measured = starter::measure(run, &hosts);
        if measured.is_err() && run.case.system == System::Pvm {
            // With its tasks, which may go on.
            self.machine = None;
        }
        measured
    }

    fn hythe(&self, carrier: Carrier, side: Side, run: &Run) -> Result<HytheEnd, BenchError> {
        let pool = self.pool(carrier)?;
        let (case, lookout) = (run.case.of_ipc(), Lookout::default());
        HytheEnd::join_across(pool.pool(), side, (case, run.size), lookout)
    }

    fn frames(&self, run: &Run) -> Result<FramesEnd, BenchError> {
        FramesEnd::open(self.link()?, (run.case, run.size), Lookout::default())
    }

    fn pool(&self, carrier: Carrier) -> Result<&BenchPool, BenchError> {
        let pool = self.pools.get(&carrier);
        pool.ok_or_else(|| BenchError::WrongUse("there is no pool yet".to_owned()))
    }

    fn running(&self, carrier: Carrier) -> Result<&Agent, BenchError> {
        let agent = self.agents.get(&carrier);
        agent.ok_or_else(|| BenchError::WrongUse("there is no agent yet".to_owned()))
    }

    fn link(&self) -> Result<&Link, BenchError> {
        self.link_of(Carrier::Tls)
    }

    fn link_of(&self, carrier: Carrier) -> Result<&Link, BenchError> {
        let link = self.links.get(carrier.link());
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
