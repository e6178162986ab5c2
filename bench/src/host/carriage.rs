//! A run between two hosts over agents: what really carries its messages, by what both agents say
//! of the two channels. A row whose messages went another way than its name says is no row.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::agents::Agent;
use super::case::Carrier;
use super::message::{Outcome, Run};
use super::steady;
use crate::error::BenchError;
use crate::ipc::end::{self, End};
use crate::ipc::hythe::{BACK, HytheEnd, THERE};
use crate::statistics;

/// Until processes have sockets of their own and their messages go by those.
const SETTING_UP: Duration = Duration::from_secs(20);
/// Between two looks, so that agents are not kept from it by being asked.
const LOOK: Duration = Duration::from_millis(10);
/// Messages between two looks: a publisher changes its way when it sends.
const MESSAGES_PER_LOOK: u64 = 4;

/// How the messages of a channel cross at one host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Carriage {
    carrier: String,
    flows: u64,
    /// Those that the agent carried.
    by_agent: u64,
    /// Why not by something better.
    why: String,
}

/// There and back, by the carrier of these agents and by nothing else.
pub(super) fn measure(end: HytheEnd, run: &Run, agent: &Agent) -> Result<Outcome, BenchError> {
    let mut end = Continued {
        end,
        first: 0,
        next: 0,
    };
    let before = until_carried(&mut end, agent)?;
    end.continues();
    let segments = Segments::so_far()?;
    let times = end::round_trips(&mut end, run.budget())?;
    Segments::so_far()?.check(segments, (agent.carrier, run.size), times.len())?;
    end.continues();
    let steady = match run.counts_calls {
        true => Some(steady::count(&agent.folder, |count| {
            let exchanged = exchange(&mut end, count);
            end.continues();
            exchanged
        })?),
        false => None,
    };
    let after = carriages(agent)?;
    end.finish()?;
    if before != after {
        return Err(BenchError::Invalid(format!(
            "messages did not go by {:?} alone: {before:?} before the run, {after:?} after it",
            agent.carrier
        )));
    }
    let times = statistics::encode(&[times])?;
    Ok(match steady {
        None => Outcome::Measured(times),
        Some(steady) => Outcome::Counted(times, steady),
    })
}

/// So many there and back.
fn exchange(end: &mut Continued, count: u64) -> Result<(), BenchError> {
    for number in 0..count {
        end.send(number)?;
        if !end.receive(number)? {
            return Err(BenchError::PeerLost("it has finished".to_owned()));
        }
    }
    Ok(())
}

/// Sends until both channels are carried at both hosts as they shall be.
fn until_carried(end: &mut Continued, agent: &Agent) -> Result<Vec<Carriage>, BenchError> {
    let start = Instant::now();
    let mut last = None;
    loop {
        exchange(end, MESSAGES_PER_LOOK)?;
        end.continues();
        let found = carriages(agent)?;
        let is_so = found.len() == 4 && found.iter().all(|one| one.is_by(agent.carrier));
        // Twice the same: what was under way by the agent has been counted.
        if is_so && last.as_ref() == Some(&found) {
            return Ok(found);
        }
        if start.elapsed() > SETTING_UP {
            return Err(BenchError::Invalid(format!(
                "not carried by {:?} within {SETTING_UP:?}: {found:?}",
                agent.carrier
            )));
        }
        last = Some(found);
        std::thread::sleep(LOOK);
    }
}

/// Of both channels, here and at the other host.
fn carriages(agent: &Agent) -> Result<Vec<Carriage>, BenchError> {
    let mut found = Vec::new();
    for (status, [sends, receives]) in [
        (agent.status()?, [THERE, BACK]),
        (agent.other().status()?, [BACK, THERE]),
    ] {
        found.extend(Carriage::of(&status, sends, "sending"));
        found.extend(Carriage::of(&status, receives, "receiving"));
    }
    Ok(found)
}

impl Carriage {
    fn of(status: &Value, channel: &str, direction: &str) -> Option<Self> {
        let channels = status["hosts"][0]["session"]["channels"].as_array()?;
        let found = channels
            .iter()
            .find(|one| one["channel"] == channel && one["direction"] == direction)?;
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        Some(Self {
            carrier: text("carrier"),
            flows: found["flows"].as_u64()?,
            by_agent: found["messages"].as_u64()?,
            why: text("why_not_better") + &text("reason"),
        })
    }

    fn is_by(&self, carrier: Carrier) -> bool {
        self.flows == 1 && self.carrier == carrier.name()
    }
}

/// TCP segments that went in and out in the network of this process, in which nobody but the run
/// has more than a few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segments {
    received: u64,
    sent: u64,
}

/// The most bytes of a message that fits a frame: the link's MTU less the headers of IPv4 (20), UDP
/// (8) and the frame itself (32).
const FRAME_BYTES_MAX: usize = 1_500 - (20 + 8 + 32);

/// Segments of agents that say to each other that they live, in a run that is short.
const SLACK: u64 = 64;

impl Segments {
    fn so_far() -> Result<Self, BenchError> {
        let text = std::fs::read_to_string("/proc/self/net/snmp")?;
        let unknown = || BenchError::Unable("/proc/self/net/snmp says nothing of TCP".to_owned());
        Self::parse(&text).ok_or_else(unknown)
    }

    /// Two lines that begin with `Tcp: `, the first of which has the names (proc_net(5)).
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (names, counts) = (lines.next()?, lines.next()?);
        let count = |wanted: &str| {
            let mut both = names.split(' ').zip(counts.split(' '));
            both.find(|(name, _)| *name == wanted)?.1.parse().ok()
        };
        Some(Self {
            received: count("InSegs")?,
            sent: count("OutSegs")?,
        })
    }

    /// Are they what so many messages of this carrier, there and back, make since `before`?
    fn check(
        self,
        before: Self,
        (carrier, bytes): (Carrier, usize),
        messages: u64,
    ) -> Result<(), BenchError> {
        let received = self.received.saturating_sub(before.received);
        let sent = self.sent.saturating_sub(before.sent);
        let is_so = match carrier {
            // Else the median would be a round trip with one of them.
            Carrier::Xdp if bytes <= FRAME_BYTES_MAX => received + sent <= messages / 2 + SLACK,
            Carrier::Tls | Carrier::Tcp | Carrier::Xdp => true,
        };
        match is_so {
            true => Ok(()),
            false => Err(BenchError::Invalid(format!(
                "{messages} messages there and back by {carrier:?} made {sent} TCP segments out \
                 and {received} in"
            ))),
        }
    }
}

/// An end that several loops use, one after the other, each of which counts from 0.
struct Continued {
    end: HytheEnd,
    /// Of the present loop.
    first: u64,
    next: u64,
}

impl Continued {
    /// Another loop begins.
    const fn continues(&mut self) {
        self.first = self.next;
    }
}

impl End for Continued {
    #[inline]
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        self.next = self.first + number + 1;
        self.end.send(self.first + number)
    }

    #[inline]
    fn receive(&mut self, number: u64) -> Result<bool, BenchError> {
        self.end.receive(self.first + number)
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.end.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_segments_tell_frames_from_connections() {
        let text = |received, sent| {
            format!(
                "Ip: A B\nIp: 1 2\nTcp: MaxConn InSegs OutSegs RetransSegs\n\
                 Tcp: -1 {received} {sent} 0\nUdp: InDatagrams\nUdp: 0\n"
            )
        };
        let parsed = |received, sent| Segments::parse(&text(received, sent)).expect("parsed");
        let (before, after) = (parsed(5, 7), parsed(1_005, 1_007));
        assert_eq!((after.received, after.sent), (1_005, 1_007));
        let is_so = |after: Segments, carrier, bytes| {
            let checked = after.check(before, (carrier, bytes), 1_000);
            checked.is_ok()
        };
        assert!(is_so(after, Carrier::Tcp, 64));
        assert!(!is_so(after, Carrier::Xdp, 64));
        assert!(is_so(after, Carrier::Xdp, 65_536) && is_so(after, Carrier::Tls, 64));
        let most = 500 + SLACK;
        assert!(is_so(parsed(5 + most, 7), Carrier::Xdp, 64));
        assert!(!is_so(parsed(5 + most, 8), Carrier::Xdp, 64));
        assert_eq!(Segments::parse("Udp: A\nUdp: 1\n"), None);
    }

    #[test]
    fn only_the_carrier_of_the_row_counts() {
        let status = serde_json::json!({ "hosts": [{ "session": { "channels": [
            { "channel": THERE, "direction": "receiving", "carrier": "tls", "flows": 0,
              "messages": 9, "reason": "", "why_not_better": "it has 2 receivers" },
            { "channel": THERE, "direction": "sending", "carrier": "tcp, xdp", "flows": 1,
              "messages": 7, "reason": "", "why_not_better": "" },
        ] } }] });
        let there = Carriage::of(&status, THERE, "sending").expect("there");
        assert_eq!((there.flows, there.by_agent), (1, 7));
        assert!(there.is_by(Carrier::Xdp));
        assert!(!there.is_by(Carrier::Tcp) && !there.is_by(Carrier::Tls));
        let other = Carriage::of(&status, THERE, "receiving").expect("there");
        assert!(!other.is_by(Carrier::Tls), "by the agents, sealed as well");
        assert!(other.why.contains("receivers"));
        assert_eq!(Carriage::of(&status, BACK, "receiving"), None);
    }
}
