//! One run: one case at one size, between this process and one other.

use std::io::{stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use hdrhistogram::Histogram;
use hythe_node::Pool;

use super::case::{Case, Pattern, System};
use super::end::{self, Budget, End};
use super::floor::{self, FloorEnd};
use super::hythe::{self, BenchPool, HytheEnd};
use super::peer::Peer;
use super::side::Side;
use super::stream::StreamEnd;
use crate::args::EchoArguments;
use crate::cpus;
use crate::error::BenchError;
use crate::lookout::Lookout;

/// One-way messages are so much cheaper than round trips.
const MESSAGES_PER_COUNT: u64 = 10;
const MESSAGES_MAX: u64 = 2_000_000;

/// What to run, where, for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    pub(super) case: Case,
    pub(super) size: usize,
    pub(super) budget: Budget,
    pub(super) cpus: Option<[usize; 2]>,
    pub(super) pool: &'a BenchPool,
    pub(super) lookout: &'a Lookout,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Outcome {
    RoundTrips(Histogram<u64>),
    Rate { messages: u64, per_second: f64 },
}

impl Setting<'_> {
    /// Of a one-way run.
    pub(super) fn messages(&self) -> u64 {
        let messages = self.budget.count.saturating_mul(MESSAGES_PER_COUNT);
        messages.min(MESSAGES_MAX)
    }

    /// The measuring side.
    pub(super) fn run(&self) -> Result<Outcome, BenchError> {
        let &Self { case, size, .. } = self;
        match case.system {
            System::Floor => {
                let memory = floor::make_memory(case, size)?;
                let (peer, lookout) = Peer::start(self, memory.try_clone()?.into(), Stdio::null())?;
                let end = FloorEnd::open(memory, Side::Near, case, size, lookout);
                self.measure(peer, end)
            }
            System::Hythe => {
                let (peer, lookout) = Peer::start(self, Stdio::null(), Stdio::null())?;
                let end = HytheEnd::join(self.pool.pool(), Side::Near, case, size, lookout);
                let outcome = self.measure(peer, end)?;
                self.pool.audit(case, size)?;
                Ok(outcome)
            }
            System::Unix => {
                let (near, far) = UnixStream::pair()?;
                let (peer, lookout) = Peer::start(self, OwnedFd::from(far).into(), Stdio::null())?;
                let output = near.try_clone()?.into();
                let end = StreamEnd::new(near.into(), output, case, size, lookout);
                self.measure(peer, end)
            }
            System::Pipe => {
                let (far_input, output) = std::io::pipe()?;
                let (input, far_output) = std::io::pipe()?;
                let (peer, lookout) = Peer::start(self, far_input.into(), far_output.into())?;
                let end = StreamEnd::new(input.into(), output.into(), case, size, lookout);
                self.measure(peer, end)
            }
        }
    }

    fn measure(
        &self,
        mut peer: Peer,
        end: Result<impl End, BenchError>,
    ) -> Result<Outcome, BenchError> {
        let measured = end.and_then(|mut end| {
            let outcome = self.exchange(&mut end)?;
            end.finish()?;
            // Our end stays until the other has gone: it may still look for the last message.
            peer.join()?;
            Ok(outcome)
        });
        measured.map_err(|error| peer.explain(error))
    }

    fn exchange(&self, end: &mut impl End) -> Result<Outcome, BenchError> {
        match self.case.pattern {
            Pattern::Untouched | Pattern::Filled => {
                end::round_trips(end, self.budget).map(Outcome::RoundTrips)
            }
            Pattern::Single => {
                let messages = self.messages();
                let per_second = end::rate(end, messages)?;
                Ok(Outcome::Rate {
                    messages,
                    per_second,
                })
            }
        }
    }
}

/// The other side, in a process of its own.
pub(crate) fn echo(arguments: &EchoArguments) -> Result<(), BenchError> {
    if let Some(cpu) = arguments.cpu {
        cpus::pin(cpu)?;
    }
    let &EchoArguments { case, size, .. } = arguments;
    let lookout = Lookout::default();
    let input = || stdin().as_fd().try_clone_to_owned();
    match case.system {
        System::Floor => {
            let end = FloorEnd::open(input()?, Side::Far, case, size, lookout)?;
            answer(arguments, end)
        }
        System::Hythe => {
            let pool = Pool::open(&hythe::options(&arguments.pool))?;
            answer(
                arguments,
                HytheEnd::join(&pool, Side::Far, case, size, lookout)?,
            )
        }
        System::Unix => {
            let end = StreamEnd::new(input()?, input()?, case, size, lookout)?;
            answer(arguments, end)
        }
        System::Pipe => {
            let output = stdout().as_fd().try_clone_to_owned()?;
            answer(
                arguments,
                StreamEnd::new(input()?, output, case, size, lookout)?,
            )
        }
    }
}

fn answer(arguments: &EchoArguments, mut end: impl End) -> Result<(), BenchError> {
    match arguments.case.pattern {
        Pattern::Untouched | Pattern::Filled => end::echo(&mut end),
        Pattern::Single => end::swallow(&mut end, arguments.messages),
    }
}
