//! One run: one case at one size, between this process and one other.

use std::io::{stdin, stdout};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use hythe_node::Pool;

use super::args::EchoArguments;
use super::case::{Case, Pattern, System, word};
use super::end::{self, Budget, End};
use super::floor::{self, FloorEnd};
use super::hythe::HytheEnd;
use super::hythe_request::RequestEnd;
use super::iceoryx2::{Iceoryx2End, Place, Ports, Word};
use super::outside::{Exchange, Outside};
use super::peer::Peer;
use super::protocol::{self, ProtocolEnd};
use super::ring::Kind;
use super::setting::Setting;
use super::side::Side;
use super::stream::StreamEnd;
use super::sysv::{self, SysvEnd};
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::pool::BenchPool;
use crate::{cpus, pool, starter};

/// What came of it.
#[derive(Debug)]
pub(super) enum Outcome {
    Times(Histogram<u64>),
    Rate {
        messages: u64,
        per_second: f64,
        /// Slots that a stream was written to in turn.
        reuse_slots: Option<f64>,
    },
    Bytes(u64),
}

impl Outcome {
    /// Whose median is smaller, or whose rate is larger.
    fn better(self, other: Self) -> Self {
        let keeps = match (&self, &other) {
            (Self::Times(one), Self::Times(two)) => {
                one.value_at_quantile(0.5) <= two.value_at_quantile(0.5)
            }
            (
                Self::Rate {
                    per_second: one, ..
                },
                Self::Rate {
                    per_second: two, ..
                },
            ) => one >= two,
            // Of one case, both are of one kind.
            _ => true,
        };
        if keeps { self } else { other }
    }
}

impl Setting<'_> {
    /// The measuring side.
    pub(super) fn run(&self) -> Result<Outcome, BenchError> {
        match self.case.system {
            System::Floor => self.run_floor(),
            System::Protocol => self.run_protocol(),
            System::Hythe => self.run_hythe(),
            System::Iceoryx2 if self.case.pattern == Pattern::Untouched => {
                self.run_iceoryx2::<MaybeUninit<u64>>()
            }
            System::Iceoryx2 => self.run_iceoryx2::<u64>(),
            System::Unix => self.run_unix(),
            System::Pipe => self.run_pipe(),
            System::Sysv => self.run_sysv(),
            _ => self.run_outside(),
        }
    }

    /// By programs of their own.
    fn run_outside(&self) -> Result<Outcome, BenchError> {
        let is_single = self.case.pattern == Pattern::Single;
        let messages = self.messages();
        let printed = self.outside.run(&Exchange {
            system: self.case.system,
            pattern: self.case.pattern,
            size: self.size,
            count: if is_single {
                messages
            } else {
                self.budget.count
            },
            time: self.budget.time,
            cpus: self.cpus,
        })?;
        if !is_single {
            return starter::times(&printed).map(Outcome::Times);
        }
        let rate = printed.trim().parse();
        let no_rate = |_| BenchError::PeerLost(format!("it printed {printed:?}, which is no rate"));
        Ok(Outcome::Rate {
            messages,
            per_second: rate.map_err(no_rate)?,
            reuse_slots: None,
        })
    }

    /// The better of two rings, each in its half of the time.
    fn run_floor(&self) -> Result<Outcome, BenchError> {
        let mut half = *self;
        half.budget.time /= 2;
        let packed = half.run_ring(Kind::Packed)?;
        let sequenced = half.run_ring(Kind::Sequenced)?;
        Ok(packed.better(sequenced))
    }

    fn run_ring(&self, kind: Kind) -> Result<Outcome, BenchError> {
        let &Self { case, size, .. } = self;
        let memory = floor::make_memory(case, size)?;
        let input = memory.try_clone()?.into();
        let (peer, lookout) = Peer::start(self, &word(kind), input, Stdio::null())?;
        let end = FloorEnd::open(memory, (Side::Near, kind), case, size, lookout);
        self.measure(peer, end)
    }

    fn run_protocol(&self) -> Result<Outcome, BenchError> {
        let &Self { case, size, .. } = self;
        let memory = protocol::make_memory(size)?;
        let input = memory.try_clone()?.into();
        let (peer, lookout) = Peer::start(self, "", input, Stdio::null())?;
        let end = ProtocolEnd::open(memory, Side::Near, case, size, lookout);
        self.measure(peer, end)
    }

    fn run_hythe(&self) -> Result<Outcome, BenchError> {
        let &Self { case, size, .. } = self;
        let (peer, lookout) = Peer::start(self, self.pool.name(), Stdio::null(), Stdio::null())?;
        let (pool, side) = (self.pool.pool(), Side::Near);
        let outcome = if case.pattern == Pattern::Request {
            self.measure(peer, RequestEnd::join(pool, side, case, size, lookout))?
        } else {
            self.measure(peer, HytheEnd::join(pool, side, case, size, lookout))?
        };
        self.pool.audit(&case.to_string(), size)?;
        Ok(outcome)
    }

    fn run_iceoryx2<W: Word>(&self) -> Result<Outcome, BenchError> {
        let &Self { case, size, .. } = self;
        let place = self.iceoryx2.name();
        let (peer, lookout) = Peer::start(self, place, Stdio::null(), Stdio::null())?;
        match Ports::<W>::open(place, Side::Near, case, size, lookout) {
            Ok(ports) => self.measure(peer, Iceoryx2End::new(&ports)),
            Err(error) => Err(peer.explain(error)),
        }
    }

    fn run_unix(&self) -> Result<Outcome, BenchError> {
        let (near, far) = UnixStream::pair()?;
        let (peer, lookout) = Peer::start(self, "", OwnedFd::from(far).into(), Stdio::null())?;
        let output = near.try_clone()?.into();
        let end = StreamEnd::new(near.into(), output, self.case, self.size, lookout);
        self.measure(peer, end)
    }

    fn run_pipe(&self) -> Result<Outcome, BenchError> {
        let (far_input, output) = std::io::pipe()?;
        let (input, far_output) = std::io::pipe()?;
        let (peer, lookout) = Peer::start(self, "", far_input.into(), far_output.into())?;
        let end = StreamEnd::new(input.into(), output.into(), self.case, self.size, lookout);
        self.measure(peer, end)
    }

    fn run_sysv(&self) -> Result<Outcome, BenchError> {
        let &Self { case, size, .. } = self;
        let meeting = sysv::Meeting::make(size)?;
        let place = meeting.numbers().to_string();
        let (peer, lookout) = Peer::start(self, &place, Stdio::null(), Stdio::null())?;
        let end = SysvEnd::new(meeting, Side::Near, case, size, lookout);
        self.measure(peer, Ok(end))
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
        let messages = self.messages();
        let rate = |per_second| Outcome::Rate {
            messages,
            per_second,
            reuse_slots: None,
        };
        match self.case.pattern {
            Pattern::Untouched | Pattern::Filled | Pattern::Request => {
                end::round_trips(end, self.budget).map(Outcome::Times)
            }
            Pattern::Fan => end::bursts(end, self.budget).map(Outcome::Times),
            Pattern::Single => end::rate(end, messages).map(rate),
            Pattern::Batched => end::batched_rate(end, messages).map(rate),
            Pattern::Stream4 | Pattern::Stream32 => Ok(Outcome::Rate {
                messages,
                per_second: end::rate(end, messages)?,
                reuse_slots: end.reuse_slots(),
            }),
        }
    }
}

/// There and back once, in a pool of its own, for a scenario that compares with it.
pub(crate) fn round_trips(
    case: Case,
    size: usize,
    budget: Budget,
    cpus: Option<[usize; 2]>,
) -> Result<Histogram<u64>, BenchError> {
    let name = format!("{}-{case}", pool::pool_name()).replace('/', "-");
    let pool = BenchPool::make_with(&pool::options(&name))?;
    let (iceoryx2, outside, lookout) = (Place::new(), Outside::default(), Lookout::default());
    let setting = Setting {
        case,
        size,
        budget,
        cpus,
        pool: &pool,
        iceoryx2: &iceoryx2,
        outside: &outside,
        lookout: &lookout,
    };
    match setting.run()? {
        Outcome::Times(times) => Ok(times),
        Outcome::Rate { .. } | Outcome::Bytes(_) => {
            Err(BenchError::WrongUse(format!("{case} is one way")))
        }
    }
}

/// The other side, in a process of its own.
pub(crate) fn echo(arguments: &EchoArguments) -> Result<(), BenchError> {
    if let Some(cpu) = arguments.cpu {
        cpus::pin(cpu)?;
    }
    let (side, lookout) = (Side::Far, Lookout::default());
    let &EchoArguments { case, size, .. } = arguments;
    let input = || stdin().as_fd().try_clone_to_owned();
    match case.system {
        System::Floor => {
            let kind = Kind::from_str(&arguments.place, false).map_err(BenchError::WrongUse)?;
            let end = FloorEnd::open(input()?, (side, kind), case, size, lookout)?;
            answer(arguments, end)
        }
        System::Protocol => {
            let end = ProtocolEnd::open(input()?, side, case, size, lookout)?;
            answer(arguments, end)
        }
        System::Hythe => {
            let pool = Pool::open(&pool::options(&arguments.place))?;
            if case.pattern == Pattern::Request {
                let end = RequestEnd::join(&pool, side, case, size, lookout)?;
                return answer(arguments, end);
            }
            let end = HytheEnd::join(&pool, side, case, size, lookout)?;
            answer(arguments, end)
        }
        System::Iceoryx2 if case.pattern == Pattern::Untouched => {
            echo_by_iceoryx2::<MaybeUninit<u64>>(arguments, lookout)
        }
        System::Iceoryx2 => echo_by_iceoryx2::<u64>(arguments, lookout),
        System::Unix => {
            let end = StreamEnd::new(input()?, input()?, case, size, lookout)?;
            answer(arguments, end)
        }
        System::Pipe => {
            let output = stdout().as_fd().try_clone_to_owned()?;
            let end = StreamEnd::new(input()?, output, case, size, lookout)?;
            answer(arguments, end)
        }
        System::Sysv => {
            let meeting = sysv::Meeting::attach(arguments.place.parse()?)?;
            answer(arguments, SysvEnd::new(meeting, side, case, size, lookout))
        }
        _ => Err(BenchError::WrongUse(format!(
            "{case} has programs of its own"
        ))),
    }
}

fn echo_by_iceoryx2<W: Word>(
    arguments: &EchoArguments,
    lookout: Lookout,
) -> Result<(), BenchError> {
    let &EchoArguments { case, size, .. } = arguments;
    let ports = Ports::<W>::open(&arguments.place, Side::Far, case, size, lookout)?;
    answer(arguments, Iceoryx2End::new(&ports)?)
}

fn answer(arguments: &EchoArguments, mut end: impl End) -> Result<(), BenchError> {
    match arguments.case.pattern {
        Pattern::Untouched | Pattern::Filled | Pattern::Request => end::echo(&mut end),
        Pattern::Single | Pattern::Stream4 | Pattern::Stream32 => {
            end::swallow(&mut end, arguments.messages)
        }
        Pattern::Batched => end::swallow_batches(&mut end, arguments.messages),
        Pattern::Fan => end::acknowledge(&mut end),
    }
}
