//! Several Linux ports on one channel of a core, and two cores at once: what each costs the others.
//!
//! One message of the core reaches all ports in one slot; a round trip is over when every one of
//! them has taken it. A rate counts messages, however many ports read each.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hythe_node::{Node, Publisher, PublisherOptions, Sample, Subscriber, SubscriberOptions};

use super::board::Running;
use super::case::{Case, Payload, System, Wait};
use super::hythe::{FLUSH_BOUND, TRUST};
use super::order;
use super::run::Budget;
use super::wait::Waiting;
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::payload::fill;
use crate::statistics;

/// None of the sizes of the paper, whose rows are those of one port.
pub(super) const SIZE: usize = 4096;
const PORTS: [usize; 4] = [1, 2, 4, 8];
/// Messages under way while the rate is measured.
const BURST: u32 = 8;

/// Who shares what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sharing {
    pub(super) wait: Wait,
    /// Of each core's channel.
    pub(super) ports: usize,
    pub(super) cores: usize,
}

/// What came of it, by rounds.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) of: Sharing,
    pub(super) round_trips: Vec<Histogram<u64>>,
    /// Messages per second.
    pub(super) rates: Vec<f64>,
}

impl Sharing {
    pub(super) const fn case(self) -> Case {
        Case {
            system: System::Hythe,
            wait: self.wait,
            payload: Payload::Untouched,
        }
    }
}

/// What is measured: with two cores nobody polls, since three would spin on two CPUs.
pub(super) fn all(two_cpus: bool) -> Vec<Sharing> {
    let waits: &[Wait] = if two_cpus {
        &[Wait::Poll, Wait::Bell]
    } else {
        &[Wait::Bell]
    };
    let one_core = waits.iter().flat_map(|&wait| {
        PORTS.map(|ports| Sharing {
            wait,
            ports,
            cores: 1,
        })
    });
    let two_cores = Sharing {
        wait: Wait::Bell,
        ports: 1,
        cores: 2,
    };
    one_core.chain([two_cores]).collect()
}

/// All rounds of all of them. `second` is the name of the second core.
pub(super) fn measure(
    sharings: &[Sharing],
    (rounds, budget): (u32, Budget),
    running: &Running,
    second: &str,
    lookout: &Lookout,
) -> Result<Vec<Shared>, BenchError> {
    let empty = |&of: &Sharing| Shared {
        of,
        round_trips: Vec::new(),
        rates: Vec::new(),
    };
    let mut all: Vec<Shared> = sharings.iter().map(empty).collect();
    for _ in 0..rounds {
        for shared in &mut all {
            lookout.check_stop()?;
            let waiting = Waiting {
                wait: shared.of.wait,
                node: running.node(System::Hythe),
                lookout,
            };
            let measured = run(shared.of, budget, waiting, second);
            let case = shared.of.case();
            let (round_trips, rate) = measured.map_err(|error| error.of(&case, SIZE))?;
            shared.round_trips.push(round_trips);
            shared.rates.push(rate);
            running.audit(&case, SIZE)?;
        }
    }
    Ok(all)
}

fn run(
    of: Sharing,
    budget: Budget,
    waiting: Waiting<'_>,
    second: &str,
) -> Result<(Histogram<u64>, f64), BenchError> {
    let prefixes = [String::new(), format!("{second}/")];
    let open = |prefix: &String| End::open(waiting.node, prefix, of);
    let ends = prefixes.iter().take(of.cores).map(open);
    let mut ends = ends.collect::<Result<Vec<_>, _>>()?;
    let mut histogram = statistics::histogram();
    let start = Instant::now();
    while histogram.len() < budget.count && start.elapsed() < budget.time / 2 {
        let sent = Instant::now();
        exchange(&mut ends, 1, waiting)?;
        statistics::record(&mut histogram, sent.elapsed());
    }
    let (start, mut messages) = (Instant::now(), 0.0);
    while start.elapsed() < budget.time / 2 {
        exchange(&mut ends, BURST, waiting)?;
        messages += f64::from(BURST) * of.cores as f64;
    }
    let seconds = start.elapsed().max(Duration::from_micros(1)).as_secs_f64();
    for end in ends {
        end.finish()?;
    }
    Ok((histogram, messages / seconds))
}

/// So many messages to each core, and what comes of them to each port.
fn exchange(ends: &mut [End], count: u32, waiting: Waiting<'_>) -> Result<(), BenchError> {
    for end in &mut *ends {
        (0..count).try_for_each(|_| end.send())?;
    }
    for end in ends {
        end.take(count, waiting)?;
    }
    Ok(())
}

/// The Linux end of one core.
#[derive(Debug)]
struct End {
    ping: Publisher,
    pongs: Vec<Subscriber>,
    control: Publisher,
    /// What was received last, to be forwarded.
    held: Option<Sample>,
}

impl End {
    /// Opens the ports, and orders the exchange.
    fn open(node: &Node, prefix: &str, of: Sharing) -> Result<Self, BenchError> {
        let name = |endpoint: &str| format!("{prefix}{endpoint}");
        let options = SubscriberOptions::default().depth(BURST);
        let pong = |_| node.subscriber(&name("pong"), &options);
        let pongs = (0..of.ports).map(pong).collect::<Result<_, _>>()?;
        let ping = node.publisher(&name("ping"), &PublisherOptions::default())?;
        let mut control = node.publisher(&name("control"), &PublisherOptions::default())?;
        let mut order = control.lease(order::BYTES)?;
        order.write(0, &order::bytes(of.case()));
        control.publish(order, order::BYTES)?;
        Ok(Self {
            ping,
            pongs,
            control,
            held: None,
        })
    }

    fn send(&mut self) -> Result<(), BenchError> {
        let published = match self.held.take() {
            Some(sample) => self.ping.forward(sample)?,
            None => {
                let mut lease = self.ping.lease(SIZE)?;
                fill(&mut lease.as_mut_slice(TRUST)[..SIZE], 0);
                self.ping.publish(lease, SIZE)?
            }
        };
        match published.delivered {
            1 => Ok(()),
            _ => Err(BenchError::Dropped { number: 0 }),
        }
    }

    fn take(&mut self, count: u32, waiting: Waiting<'_>) -> Result<(), BenchError> {
        for _ in 0..count {
            for pong in &mut self.pongs {
                let sample = waiting.until(|| pong.try_take())?;
                if sample.len() != SIZE {
                    return Err(BenchError::Damaged { number: 0 });
                }
                // The other ports' samples are of the same slot.
                self.held = Some(sample);
            }
        }
        Ok(())
    }

    /// Ends the order, and waits until the core has given everything back.
    fn finish(mut self) -> Result<(), BenchError> {
        self.held = None;
        let empty = self.ping.lease(0)?;
        self.ping.publish(empty, 0)?;
        self.ping.flush(FLUSH_BOUND)?;
        Ok(self.control.flush(FLUSH_BOUND)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_polls_has_a_cpu() {
        let polls = |two_cpus| {
            all(two_cpus)
                .iter()
                .filter(|of| of.wait == Wait::Poll)
                .count()
        };
        assert_eq!((polls(true), polls(false)), (4, 0));
        assert_eq!(all(true).iter().filter(|of| of.cores == 2).count(), 1);
    }
}
