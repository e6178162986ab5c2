//! Thousands of telephone calls at once: G.711, a packet of each every 20 ms, from one thread on
//! one CPU.
//!
//! The product (`hythe_media::voice`) beside one thread that sleeps and calls `sendto`, both by the
//! same schedule: a timer wheel with a slot every 0.25 ms, each call in one. How far packets of
//! a call are off from 20 ms is noted by the sender, and by the kernel where they arrive
//! (`SO_TIMESTAMPNS`).

mod receiver;
mod row;
mod sender;
mod series;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::case::System;

pub(super) use receiver::Receiver;
pub(super) use row::{CallRow, Metric};
pub(super) use sender::{run as send, try_priority};
pub(super) use series::{CallRound, CallSeries};

/// Header and 20 ms at 8 kHz, a byte each.
pub(super) const PACKET_BYTES: u16 = 172;
const PACKET_SAMPLES: usize = 160;
const INTERVAL_NS: u64 = 20_000_000;
/// As the product has it, which nothing outside needs to know but who does the same.
const TEETH: u64 = 80;
const TOOTH_NS: u64 = INTERVAL_NS / TEETH;
/// As `--priority` of the product's command: the lowest that there is, above all ordinary threads.
pub(super) const PRIORITY: u8 = 1;
/// PCMU (RFC 3551, table 4).
const PAYLOAD_TYPE: u8 = 0;
/// Of the first call; the port above each is for RTCP.
const FIRST_PORT: u16 = 20_000;
/// A second, said again and again; no two packets of it are the same.
const PROMPT_PACKETS: usize = 50;

/// Calls of so many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallCase {
    /// `hythe` or `sendto`.
    pub(super) system: System,
    pub(super) calls: u16,
    pub(super) seconds: u16,
    /// Of the thread that sends, under `SCHED_FIFO`; none: an ordinary thread.
    pub(super) priority: Option<u8>,
}

impl fmt::Display for CallCase {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheduled = self.priority.map_or("", |_| "_realtime");
        write!(to, "{}/calls{scheduled}", self.system)
    }
}

impl CallCase {
    /// Of all calls, if none is late.
    const fn packets(&self) -> u64 {
        self.calls as u64 * self.seconds as u64 * 1_000_000_000 / INTERVAL_NS
    }

    /// Of the wheel, until the calls end.
    const fn turns(&self) -> u64 {
        self.seconds as u64 * 1_000_000_000 / TOOTH_NS
    }
}

/// What sending did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Paced {
    pub(super) elapsed_ns: u64,
    /// Time of a CPU.
    pub(super) cpu_ns: u64,
    pub(super) packets: u64,
    /// Packets that the kernel refused.
    pub(super) unsent: u64,
    /// Of RTCP.
    pub(super) reports: u64,
    /// How often the machine stood still for longer than a packet lasts.
    pub(super) stalls: u64,
    /// A histogram, encoded.
    pub(super) spacing: String,
}

/// What arrived.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Arrivals {
    /// Packets that were right.
    pub(super) delivered: u64,
    /// Packets that came twice, in another order, with another content than was sent, or without
    /// the time of their arrival.
    pub(super) wrong: u64,
    /// A histogram, encoded.
    pub(super) spacing: String,
}

/// Where a call's RTP goes.
const fn port(call: u16) -> u16 {
    FIRST_PORT + 2 * call
}

/// What is said.
fn prompt() -> Vec<u8> {
    let bytes = PROMPT_PACKETS * PACKET_SAMPLES;
    // A number that is coprime to 256 and to the packet's length: packets differ.
    (0..bytes).map(|at| (at * 7 + at / 256) as u8).collect()
}

/// What packet `number` of a call says.
fn said(prompt: &[u8], number: u64) -> &[u8] {
    let place = (number % PROMPT_PACKETS as u64) as usize * PACKET_SAMPLES;
    &prompt[place..place + PACKET_SAMPLES]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_packets_of_the_prompt_are_the_same() {
        let prompt = prompt();
        let packets: BTreeSet<&[u8]> = (0..60).map(|number| said(&prompt, number)).collect();
        assert_eq!(packets.len(), PROMPT_PACKETS);
    }

    #[test]
    fn second_has_fifty_turns_of_the_wheel() {
        let case = CallCase {
            system: System::Hythe,
            calls: 1,
            seconds: 2,
            priority: None,
        };
        assert_eq!(case.turns(), 100 * TEETH);
        assert_eq!(case.to_string(), "hythe/calls");
        let priority = Some(PRIORITY);
        let case = CallCase { priority, ..case };
        assert_eq!(case.to_string(), "hythe/calls_realtime");
    }
}
