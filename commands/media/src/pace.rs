//! `hythe media send --pace`: who decides when packets leave.

use hythe::media::address::StreamAddress;
use hythe::media::pace::Pace;
use hythe::media::wire::scheduler::{Scheduler, Timing};
use hythe_command::error::CliError;
use hythe_command::units;

/// As it stands on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PaceArg {
    /// This program does.
    Own(Pace),
    /// The kernel, at the pace of the media or at a rate.
    Kernel(Option<u64>),
}

impl std::str::FromStr for PaceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate_of = |text: &str| {
            units::parse_bits(text)
                .map_err(|why| format!("{why}, nor media, max, kernel or kernel:RATE"))
        };
        Ok(match text {
            "media" => Self::Own(Pace::Media),
            "max" => Self::Own(Pace::Unpaced),
            "kernel" => Self::Kernel(None),
            other => match other.strip_prefix("kernel:") {
                Some(rate) => Self::Kernel(Some(rate_of(rate)?)),
                None => Self::Own(Pace::BitsPerSecond(rate_of(other)?)),
            },
        })
    }
}

/// What comes of it with these destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// What decides the instants of packets.
    pub(super) pace: Pace,
    /// Packets are to have departure times, if they are heeded.
    pub(super) departures: bool,
    /// A class of this scheduler holds them to its rate.
    pub(super) class: Option<Scheduler>,
}

impl PaceArg {
    /// Are packets sent as fast as possible?
    pub(super) fn is_unpaced(self) -> bool {
        self == Self::Own(Pace::Unpaced)
    }

    /// Asks what schedules packets to `wanted`, of `class` if there is one.
    pub(super) fn plan(
        self,
        wanted: &[StreamAddress],
        class: Option<i32>,
    ) -> Result<Plan, CliError> {
        let rate = match self {
            Self::Own(pace) => {
                return Ok(Plan {
                    pace,
                    departures: false,
                    class: None,
                });
            }
            Self::Kernel(rate) => rate,
        };
        let mut found = Vec::new();
        for address in wanted {
            let to = address.resolve()?;
            let interface = address.interface.as_deref();
            // What cannot be asked, or not now, is said when the destination is opened.
            found.extend(Scheduler::towards(to, interface, class));
        }
        Ok(decide(rate, wanted.len(), found))
    }
}

/// `found`: of those of `count` destinations that could be asked.
fn decide(rate: Option<u64>, count: usize, found: Vec<Scheduler>) -> Plan {
    let is_class = |scheduler: &Scheduler| matches!(scheduler.timing, Timing::Class(_));
    let paced_by_class = found.len() == count && found.iter().all(is_class);
    let class = found.into_iter().next().filter(|_| paced_by_class);
    let own = match class {
        // As fast as the class takes them.
        Some(_) => Pace::Unpaced,
        None => Pace::Media,
    };
    Plan {
        pace: rate.map_or(own, Pace::BitsPerSecond),
        departures: class.is_none(),
        class,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduler(timing: Timing) -> Scheduler {
        Scheduler {
            interface: "eth0".into(),
            kind: "htb".into(),
            timing,
        }
    }

    #[test]
    fn paces_are_read() {
        let read = |text: &str| text.parse::<PaceArg>();
        assert_eq!(read("media"), Ok(PaceArg::Own(Pace::Media)));
        assert_eq!(read("kernel"), Ok(PaceArg::Kernel(None)));
        assert_eq!(read("kernel:8M"), Ok(PaceArg::Kernel(Some(8_000_000))));
        assert_eq!(read("8M"), Ok(PaceArg::Own(Pace::BitsPerSecond(8_000_000))));
        for text in ["", "kernel:", "kernel:media", "kernl"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pacing_class_paces_and_others_use_departure_times() {
        let class = scheduler(Timing::Class(0x1_0010));
        let plan = decide(None, 2, vec![class.clone(), class.clone()]);
        assert_eq!((plan.pace, plan.departures), (Pace::Unpaced, false));
        assert_eq!(plan.class, Some(class.clone()));
        let with_rate = decide(Some(5), 1, vec![class.clone()]);
        assert_eq!(with_rate.pace, Pace::BitsPerSecond(5));
        // One way has another scheduler, one could not be asked.
        let fq = scheduler(Timing::Fq);
        for (count, found) in [
            (2, vec![class.clone(), fq.clone()]),
            (2, vec![class]),
            (1, vec![fq]),
            (1, vec![]),
        ] {
            let plan = decide(None, count, found);
            assert_eq!(
                (plan.pace, plan.departures, plan.class),
                (Pace::Media, true, None)
            );
        }
    }
}
