//! One of the two hosts: a process with a network and a `/dev/shm` of its own. The near one starts
//! all programs, the far one only holds its network, which the near one's remote shells lead into.

use std::path::PathBuf;

use super::args::PvmEndArguments;
use super::case::{Subject, System};
use super::message::{Found, Order, Run};
use super::{netpipe, programs, tasks};
use crate::error::BenchError;
use crate::network::{Answer, Link, answer, begin, next_order, put_up, ready};
use crate::starter::pvm::VirtualMachine;
use crate::starter::{Hosts, Neighbour};

/// What it knows.
struct Host {
    folder: PathBuf,
    library: Option<PathBuf>,
    link: Option<Link>,
    neighbour: Option<Neighbour>,
    machine: Option<VirtualMachine>,
}

/// Takes orders.
pub(crate) fn run(arguments: &PvmEndArguments) -> Result<(), BenchError> {
    begin(arguments.cpu)?;
    let mut host = Host {
        folder: arguments.folder.clone(),
        library: arguments.library.clone(),
        link: None,
        neighbour: None,
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
    fn obey(&mut self, order: Order) -> Result<Answer<Vec<Found>>, BenchError> {
        match order {
            Order::Join(link) => {
                put_up(&link)?;
                self.link = Some(link);
            }
            Order::Meet(neighbour) => self.neighbour = Some(neighbour),
            Order::Measure(run) => return Ok(Answer::Result(self.measure(&run)?)),
            Order::Part => self.machine = None,
        }
        Ok(Answer::Ready)
    }

    fn measure(&mut self, run: &Run) -> Result<Vec<Found>, BenchError> {
        let unknown = || BenchError::WrongUse("the other host is not known yet".to_owned());
        let link = self.link.clone().ok_or_else(unknown)?;
        let folder = self.folder.clone();
        let hosts = Hosts {
            folder: &folder,
            interface: &link.interface,
            own: link.own_ip()?,
            other: link.other_ip()?,
            neighbour: self.neighbour.ok_or_else(unknown)?,
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
        let library = self.library.as_deref();
        match run.case.subject {
            Subject::Program(program, placement) => {
                programs::measure(run, (program, placement), &hosts, library)
            }
            Subject::Netpipe => netpipe::measure(run, &hosts, library),
            _ => tasks::measure(run, &hosts, library),
        }
    }
}
