//! One of the two hosts: a process with a network and a `/dev/shm` of its own. The near one starts
//! all programs; the far one holds its network, which the near one's remote shells lead into, and
//! its agent.

use std::ffi::OsString;
use std::path::PathBuf;

use super::args::PvmEndArguments;
use super::case::{Subject, System};
use super::message::{Found, Order, Run};
use super::tasks::Surroundings;
use super::{netpipe, programs, tasks};
use crate::error::BenchError;
use crate::host::agents::{Agent, FarHost};
use crate::host::case::Carrier;
use crate::network::{
    Answer, Link, answer, begin, next_order, put_up, ready, show_own_interfaces, wait_until_up,
};
use crate::product;
use crate::starter::pvm::VirtualMachine;
use crate::starter::{Hosts, Neighbour};

/// What it knows.
struct Host {
    folder: PathBuf,
    library: Option<PathBuf>,
    link: Option<Link>,
    neighbour: Option<Neighbour>,
    machine: Option<VirtualMachine>,
    /// Once it runs.
    agent: Option<Agent>,
}

/// That the agents serve, each in its host's own `/dev/shm`.
const POOL: &str = "bench-pvm";

/// Takes orders.
pub(crate) fn run(arguments: &PvmEndArguments) -> Result<(), BenchError> {
    begin(arguments.cpu)?;
    show_own_interfaces()?;
    let mut host = Host {
        folder: arguments.folder.clone(),
        library: arguments.library.clone(),
        link: None,
        neighbour: None,
        machine: None,
        agent: None,
    };
    ready()?;
    while let Some(order) = next_order()? {
        let answered = host.obey(order);
        answer(&answered.unwrap_or_else(|error| Answer::Failed(error.to_string())))?;
    }
    Ok(())
}

impl Host {
    fn obey(&mut self, order: Order) -> Result<Answer<Vec<Found>>, BenchError> {
        match order {
            Order::Join(link) => {
                put_up(&link)?;
                self.link = Some(link);
            }
            Order::AwaitLink => wait_until_up(self.link()?)?,
            Order::Meet(neighbour) => self.neighbour = Some(neighbour),
            Order::Measure(run) => return Ok(Answer::Result(self.measure(&run)?)),
            Order::Introduce => self.introduce()?,
            Order::Halt => self.new_agent(false).stop()?,
            Order::Start => {
                // Only the near end knows the other.
                let agent = self.new_agent(self.neighbour.is_some());
                agent.start(self.link()?)?;
                let allowed = agent.let_other_spawn();
                self.agent = Some(agent);
                allowed?;
            }
            Order::Await => self.agent.as_ref().map_or(Ok(()), Agent::wait_for_other)?,
            Order::Part => {
                self.machine = None;
                self.agent.take().map_or(Ok(()), |agent| agent.stop())?;
            }
        }
        Ok(Answer::Ready)
    }

    fn measure(&mut self, run: &Run) -> Result<Vec<Found>, BenchError> {
        let link = self.link()?.clone();
        let folder = self.folder.clone();
        let hosts = Hosts {
            folder: &folder,
            interface: &link.interface,
            own: link.own_ip()?,
            other: link.other_ip()?,
            neighbour: self.neighbour()?,
        };
        if run.case.system == System::Pvm {
            if run.case.subject == Subject::Netpipe {
                // It counts the tasks of the machine, and a group server is one.
                self.machine = None;
            }
            if self.machine.is_none() {
                self.machine = Some(VirtualMachine::start(&hosts)?);
            }
        }
        let around = Surroundings {
            hosts: &hosts,
            library: self.library.as_deref(),
            agent: self.agent.as_ref(),
        };
        let measured = match run.case.subject {
            Subject::Program(program, placement) => {
                programs::measure(run, (program, placement), &around)
            }
            Subject::Netpipe => netpipe::measure(run, &around),
            _ => tasks::measure(run, &around),
        };
        if measured.is_err() && run.case.system == System::Pvm {
            // With its tasks, which may go on.
            self.machine = None;
        }
        measured
    }

    fn introduce(&self) -> Result<(), BenchError> {
        let link = self.link()?;
        let far = FarHost {
            pool: POOL,
            address: link.other_ip()?,
            neighbour: self.neighbour()?,
        };
        self.new_agent(true).introduce(link.own_ip()?, &far)
    }

    fn new_agent(&self, is_near: bool) -> Agent {
        Agent {
            folder: self.folder.clone(),
            carrier: Carrier::Tcp,
            is_near,
            pool: POOL.to_owned(),
            variables: self.variables(),
        }
    }

    /// By which tasks find the command, Hythe's libraries, and the programs that they spawn.
    fn variables(&self) -> Vec<(&'static str, OsString)> {
        let folders = product::hythe().and_then(|hythe| Some(hythe.parent()?.to_owned()));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = folders.into_iter().chain(std::env::split_paths(&path));
        let path = std::env::join_paths(folders).unwrap_or(path.clone());
        let mut variables = vec![("PATH", path), ("PVM_PATH", self.folder.clone().into())];
        if let Some(library) = &self.library {
            variables.push((tasks::LIBRARY_FOLDER, library.clone().into()));
        }
        variables
    }

    fn link(&self) -> Result<&Link, BenchError> {
        self.link.as_ref().ok_or_else(unknown)
    }

    fn neighbour(&self) -> Result<Neighbour, BenchError> {
        self.neighbour.ok_or_else(unknown)
    }
}

fn unknown() -> BenchError {
    BenchError::WrongUse("the other host is not known yet".to_owned())
}
