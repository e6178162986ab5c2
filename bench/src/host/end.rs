//! One of the two hosts: a process with a network and a `/dev/shm` of its own. The bench orders,
//! line by line, and it answers. Ends when nobody orders any more.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use super::agents;
use super::args::HostEndArguments;
use super::case::{Case, Payload, System};
use super::message::{Order, Outcome, Run};
use super::outside::Outside;
use super::udp::UdpEnd;
use crate::error::BenchError;
use crate::ipc;
use crate::ipc::end::{self, End};
use crate::ipc::hythe::HytheEnd;
use crate::ipc::side::Side;
use crate::ipc::stream::StreamEnd;
use crate::lookout::Lookout;
use crate::network::{Answer, Link, answer, begin, next_order, put_up, ready};
use crate::pool::BenchPool;
use crate::statistics;

/// How long agents may take to tell that a run has closed its ports.
const SETTLING: Duration = Duration::from_secs(30);

/// What it knows.
struct Host {
    folder: PathBuf,
    link: Option<Link>,
    /// That the agent serves.
    pool: BenchPool,
}

/// Takes orders.
pub(crate) fn run(arguments: &HostEndArguments) -> Result<(), BenchError> {
    begin(arguments.cpu)?;
    let mut host = Host {
        folder: arguments.folder.clone(),
        link: None,
        pool: BenchPool::make()?,
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
                Ok(Answer::Ready)
            }
            Order::Echo(run) => self.echo(&run),
            Order::Measure(run, port) => self.measure(&run, port),
            Order::MeasureLocally(run, cpus) => {
                let case = run.case.of_ipc();
                let measured = ipc::round_trips(case, run.size, run.budget(), cpus)?;
                Ok(Answer::Result(Outcome::Measured(statistics::encode(&[
                    measured,
                ])?)))
            }
            Order::Prepare => Ok(Answer::Result(Outcome::Pool(self.pool.name().to_owned()))),
            Order::Introduce { far, far_pool } => {
                let far = agents::Far {
                    process: far,
                    pool: far_pool,
                    address: self.other()?,
                };
                agents::introduce(&self.folder, (self.pool.name(), self.own()?), &far)?;
                Ok(Answer::Ready)
            }
            Order::Settle => {
                self.pool.wait_for_no_port(SETTLING)?;
                Ok(Answer::Ready)
            }
            Order::Part { is_near } => {
                agents::part(&self.folder, self.pool.name(), is_near)?;
                Ok(Answer::Ready)
            }
            Order::Collect => Err(BenchError::WrongUse("nobody was answered".to_owned())),
            Order::Audit => {
                self.pool.audit("all cases", 0)?;
                Ok(Answer::Ready)
            }
        }
    }

    /// Two orders, since what comes between them must not wait for the second.
    fn echo(&self, run: &Run) -> Result<Answer<Outcome>, BenchError> {
        let lookout = Lookout::default();
        match run.case.system {
            System::Tcp => {
                let listener = TcpListener::bind((self.own()?, 0))?;
                answer(&Answer::Result(Outcome::Listening(
                    listener.local_addr()?.port(),
                )))?;
                let (stream, _) = listener.accept()?;
                end::echo(&mut tcp(stream, run, lookout)?)?;
            }
            System::FloorUdp => {
                let mut udp = UdpEnd::open(self.own()?, None, (run.case, run.size), lookout)?;
                answer(&Answer::Result(Outcome::Listening(udp.port()?)))?;
                end::echo(&mut udp)?;
            }
            System::HytheTls => {
                answer(&Answer::Result(Outcome::Listening(0)))?;
                end::echo(&mut self.hythe(Side::Far, run, lookout)?)?;
            }
            system @ (System::FloorTls | System::Zenoh) => {
                let (outside, port) = Outside::echo(system, self.own()?, &self.folder)?;
                answer(&Answer::Result(Outcome::Listening(port)))?;
                next_order::<Order>()?;
                drop(outside);
                return Ok(Answer::Ready);
            }
            System::Sysv => return Err(not_here(run.case)),
        }
        // None: the bench has ended, and so will this process.
        next_order::<Order>()?;
        Ok(Answer::Ready)
    }

    fn measure(&self, run: &Run, port: u16) -> Result<Answer<Outcome>, BenchError> {
        let lookout = Lookout::default();
        let other = SocketAddr::new(self.other()?, port);
        let measured = match run.case.system {
            System::Tcp => measured(tcp(TcpStream::connect(other)?, run, lookout)?, run)?,
            System::FloorUdp => {
                let place = (run.case, run.size);
                measured(UdpEnd::open(self.own()?, Some(other), place, lookout)?, run)?
            }
            System::HytheTls => measured(self.hythe(Side::Near, run, lookout)?, run)?,
            System::FloorTls | System::Zenoh => Outside::measure(run, other, &self.folder)?,
            System::Sysv => return Err(not_here(run.case)),
        };
        Ok(Answer::Result(Outcome::Measured(measured)))
    }

    fn hythe(&self, side: Side, run: &Run, lookout: Lookout) -> Result<HytheEnd, BenchError> {
        let case = run.case.of_ipc();
        HytheEnd::join(self.pool.pool(), side, case, run.size, lookout)
    }

    fn link(&self) -> Result<&Link, BenchError> {
        let link = self.link.as_ref();
        link.ok_or_else(|| BenchError::WrongUse("there is no link yet".to_owned()))
    }

    fn own(&self) -> Result<IpAddr, BenchError> {
        self.link()?.own_ip()
    }

    fn other(&self) -> Result<IpAddr, BenchError> {
        self.link()?.other_ip()
    }
}

fn measured(mut end: impl End, run: &Run) -> Result<String, BenchError> {
    let times = end::round_trips(&mut end, run.budget())?;
    end.finish()?;
    statistics::encode(&[times])
}

/// What people set who care for the time of small messages.
fn tcp(stream: TcpStream, run: &Run, lookout: Lookout) -> Result<StreamEnd, BenchError> {
    debug_assert_eq!(run.case.payload, Payload::Filled);
    stream.set_nodelay(true)?;
    let output = stream.try_clone()?.into();
    StreamEnd::new(stream.into(), output, run.case.of_ipc(), run.size, lookout)
}

fn not_here(case: Case) -> BenchError {
    BenchError::WrongUse(format!("{case} has no two hosts"))
}
