//! Processes with a network each (`network`), and veth links between them: two, or three with a way
//! that loses in the middle.

use super::calls::{CallCase, CallRound};
use super::case::Case;
use super::job::Sent;
use super::lossy::{LossyCase, LossyOutcome};
use super::message::{Order, Outcome, Source, Tally};
use super::plays::{Play, PlaysRound};
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::machine::CpuTimes;
use crate::network::{self, Answer, LinkPlan, connect};

type Process = network::Process<Order>;

const DIRECT: LinkPlan = LinkPlan {
    interface: "hythe0",
    addresses: ["10.77.0.1/30", "10.77.0.2/30"],
    macs: ["02:00:00:00:00:01", "02:00:00:00:00:02"],
};
/// From the sender to the relay.
const NEAR: LinkPlan = LinkPlan {
    interface: "hythe1",
    addresses: ["10.77.1.1/30", "10.77.1.2/30"],
    macs: ["02:00:00:00:01:01", "02:00:00:00:01:02"],
};
/// From the relay to the receiver.
const FAR: LinkPlan = LinkPlan {
    interface: "hythe2",
    addresses: ["10.77.2.1/30", "10.77.2.2/30"],
    macs: ["02:00:00:00:02:01", "02:00:00:00:02:02"],
};

/// Sender and receiver, connected.
#[derive(Debug)]
pub(super) struct Scene {
    sender: Process,
    receiver: Process,
}

impl Scene {
    /// Needs the right to make networks.
    pub(super) fn set(
        cpus: Option<[usize; 2]>,
        sources: &[Source],
        lookout: &Lookout,
    ) -> Result<Self, BenchError> {
        let [near, far] = cpus.map_or([None; 2], |cpus| cpus.map(Some));
        let mut sender = start("sender", near, sources, lookout)?;
        let mut receiver = start("receiver", far, sources, lookout)?;
        connect(&DIRECT, [&mut sender, &mut receiver])?;
        Ok(Self { sender, receiver })
    }

    /// Sends once, and says what that took and what arrived.
    pub(super) fn play(&mut self, case: Case) -> Result<(Sent, Tally), BenchError> {
        self.receiver.order(&Order::Expect(case))?;
        let sent = match self.sender.ask(&Order::Send(case))? {
            Answer::Result(Outcome::Sent(sent)) => sent,
            other => return Err(self.sender.surprise(&other)),
        };
        match self.receiver.ask(&Order::Collect)? {
            Answer::Result(Outcome::Received(tally)) => Ok((sent, tally)),
            other => Err(self.receiver.surprise(&other)),
        }
    }

    /// Holds all calls once.
    pub(super) fn call(&mut self, case: CallCase) -> Result<CallRound, BenchError> {
        self.receiver.order(&Order::Listen(case))?;
        let before = CpuTimes::now();
        let paced = match self.sender.ask(&Order::Call(case))? {
            Answer::Result(Outcome::Paced(paced)) => paced,
            other => return Err(self.sender.surprise(&other)),
        };
        let machine = CpuTimes::now().since(before);
        match self.receiver.ask(&Order::Collect)? {
            Answer::Result(Outcome::Arrivals(arrivals)) => CallRound::new(paced, arrivals, machine),
            other => Err(self.receiver.surprise(&other)),
        }
    }
}

impl Scene {
    /// Has a program play once.
    pub(super) fn watch(&mut self, play: Play) -> Result<PlaysRound, BenchError> {
        self.receiver.order(&Order::Watch(play.case))?;
        let before = CpuTimes::now();
        let played = match self.sender.ask(&Order::Play(play))? {
            Answer::Result(Outcome::Played(played)) => played,
            other => return Err(self.sender.surprise(&other)),
        };
        let machine = CpuTimes::now().since(before);
        match self.receiver.ask(&Order::Collect)? {
            Answer::Result(Outcome::Watched(watched)) => PlaysRound::new(played, watched, machine),
            other => Err(self.receiver.surprise(&other)),
        }
    }
}

/// Sender and receiver, and a relay in a network of its own between them.
#[derive(Debug)]
pub(super) struct LossyScene {
    sender: Process,
    relay: Process,
    receiver: Process,
}

impl LossyScene {
    /// Needs the right to make networks. The relay runs where a CPU is free.
    pub(super) fn set(cpus: Option<[usize; 2]>, lookout: &Lookout) -> Result<Self, BenchError> {
        let [near, far] = cpus.map_or([None; 2], |cpus| cpus.map(Some));
        let mut sender = start("sender", near, &[], lookout)?;
        let mut relay = start("relay", None, &[], lookout)?;
        let mut receiver = start("receiver", far, &[], lookout)?;
        connect(&NEAR, [&mut sender, &mut relay])?;
        connect(&FAR, [&mut relay, &mut receiver])?;
        Ok(Self {
            sender,
            relay,
            receiver,
        })
    }

    /// Sends once, and says what became of it.
    pub(super) fn play(&mut self, case: LossyCase) -> Result<LossyOutcome, BenchError> {
        self.receiver.order(&Order::Take(case))?;
        self.relay.order(&Order::Pass { seed: case.seed })?;
        let streamed = match self.sender.ask(&Order::Stream(case))? {
            Answer::Result(Outcome::Streamed(streamed)) => streamed,
            other => return Err(self.sender.surprise(&other)),
        };
        let taken = match self.receiver.ask(&Order::Collect)? {
            Answer::Result(Outcome::Taken(taken)) => taken,
            other => return Err(self.receiver.surprise(&other)),
        };
        match self.relay.ask(&Order::Collect)? {
            Answer::Result(Outcome::Passed(passed)) => Ok(LossyOutcome {
                case,
                streamed,
                passed,
                taken,
            }),
            other => Err(self.relay.surprise(&other)),
        }
    }
}

/// An end that knows these files.
fn start(
    name: &'static str,
    cpu: Option<usize>,
    sources: &[Source],
    lookout: &Lookout,
) -> Result<Process, BenchError> {
    let sources = serde_json::to_string(sources).map_err(std::io::Error::from)?;
    Process::start(name, &["media-end", "--sources", &sources], cpu, lookout)
}
