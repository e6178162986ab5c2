//! Two processes with a network each, and a veth link between them.
//!
//! Nothing has a name that others see: a network is held by its process alone and goes with it, and the link with the networks. The
//! host's own network is not touched.

use super::case::Case;
use super::end::ip_command;
use super::message::{Answer, Link, Order, Sent, Source, Tally};
use super::process::Process;
use crate::error::BenchError;
use crate::lookout::Lookout;

const INTERFACE: &str = "hythe0";
const ADDRESSES: [&str; 2] = ["10.77.0.1/30", "10.77.0.2/30"];
const MACS: [&str; 2] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];

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
        let mut sender = Process::start("sender", near, sources, lookout)?;
        let mut receiver = Process::start("receiver", far, sources, lookout)?;
        let [one, other] = [&sender, &receiver].map(|end| end.id().to_string());
        ip_command(&[
            "link", "add", INTERFACE, "address", MACS[0], "netns", &one, "type", "veth", "peer",
            "name", INTERFACE, "address", MACS[1], "netns", &other,
        ])?;
        for (end, own) in [(&mut sender, 0), (&mut receiver, 1)] {
            end.order(&Order::Join(Link {
                interface: INTERFACE.to_owned(),
                address: ADDRESSES[own].to_owned(),
                other_address: ADDRESSES[1 - own].to_owned(),
                other_mac: MACS[1 - own].to_owned(),
            }))?;
        }
        Ok(Self { sender, receiver })
    }

    /// Sends once, and says what that took and what arrived.
    pub(super) fn play(&mut self, case: Case) -> Result<(Sent, Tally), BenchError> {
        self.receiver.order(&Order::Expect(case))?;
        let sent = match self.sender.ask(&Order::Send(case))? {
            Answer::Sent(sent) => sent,
            other => return Err(self.sender.surprise(&other)),
        };
        match self.receiver.ask(&Order::Collect)? {
            Answer::Received(tally) => Ok((sent, tally)),
            other => Err(self.receiver.surprise(&other)),
        }
    }
}
