//! Who keeps the packets of a stream apart: this program, which sends each group at its instant, or
//! the kernel, to which groups are handed over ahead of time, each with its departure.
//!
//! The kernel does only if the ways to all destinations heed departure times; with one that does
//! not, packets leave in timed groups to all. What holds between calls: schedulers were asked when
//! a destination came, and are asked again when the kernel says that something about them changed.

use std::fmt;

use crate::pace::Lead;
use crate::wire::departure::Departures;
use crate::wire::destinations::{CommonDepartures, Destinations};
use crate::wire::scheduler::Watch;

/// Instants of one call: as many as may be ahead, and a group of the largest size.
const DEPARTURES_MAX: usize = 128;

/// Who keeps packets apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpacedBy {
    /// This program: nothing else was asked for.
    Own,
    /// The kernel, by departure times: who, on the way of the first destination.
    Kernel(Departures),
    /// This program, because the way of a destination does not heed departure times: the first
    /// such, and why.
    Fallback(std::net::SocketAddr, Departures),
    /// Nothing is sent to anybody.
    Nobody,
}

impl fmt::Display for SpacedBy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => formatter.write_str("timed groups"),
            Self::Kernel(departures) => write!(formatter, "kernel ({departures})"),
            Self::Fallback(address, departures) => {
                write!(formatter, "timed groups ({address}: {departures})")
            }
            Self::Nobody => formatter.write_str("nobody is sent to"),
        }
    }
}

/// How the next packets are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// At their instant.
    AtOnce,
    /// At their instant, with a departure so much later, because a scheduler drops those that have
    /// none.
    Stamped { margin_ns: u64 },
    /// Ahead of their departure.
    Ahead { lead_ns: u64 },
}

/// Decides for one stream.
#[derive(Debug)]
pub(super) struct Spacer {
    /// None: the kernel is not asked for it.
    asked: Option<Asked>,
    spacing: SpacedBy,
    way: Way,
    /// Most packets ahead.
    packets_max: usize,
    pub(super) lead: Lead,
    /// Of the packets at hand.
    pub(super) departures_ns: Vec<u64>,
}

#[derive(Debug)]
struct Asked {
    /// Without it, changes are not noticed.
    watch: Option<Watch>,
    /// Of the destinations, when they were last looked at.
    revision: Option<u64>,
}

impl Spacer {
    /// With departure times, if the ways heed them; or not. At most so many packets of the stream
    /// are ahead.
    pub(super) fn new(with_departures: bool, packets_max: usize) -> Self {
        let asked = with_departures.then(|| Asked {
            watch: Watch::begin().ok(),
            revision: None,
        });
        Self {
            spacing: asked.as_ref().map_or(SpacedBy::Own, |_| SpacedBy::Nobody),
            asked,
            way: Way::AtOnce,
            packets_max,
            lead: Lead::new(0),
            departures_ns: Vec::with_capacity(DEPARTURES_MAX),
        }
    }

    /// Who keeps packets apart, as last looked at.
    pub(super) fn spacing(&self) -> &SpacedBy {
        &self.spacing
    }

    /// How the next packets are handed over.
    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// Looks whether destinations or their ways changed.
    pub(super) fn look(&mut self, destinations: &mut Destinations) {
        let Some(asked) = &mut self.asked else {
            return;
        };
        if asked.watch.as_ref().is_some_and(Watch::has_changed) {
            destinations.find_schedulers();
        }
        if asked.revision.replace(destinations.revision()) == Some(destinations.revision()) {
            return;
        }
        let common = destinations.departures();
        let way = match common {
            CommonDepartures::Kept { margin_ns } => Way::Ahead {
                lead_ns: Lead::new(margin_ns).lead_ns(),
            },
            CommonDepartures::Ignored {
                needed_margin_ns: Some(margin_ns),
            } => Way::Stamped { margin_ns },
            CommonDepartures::Ignored { .. } => Way::AtOnce,
        };
        if let (CommonDepartures::Kept { margin_ns }, true) = (common, way != self.way) {
            self.lead = Lead::new(margin_ns).with_packets(self.packets_max);
        }
        self.way = way;
        self.spacing = named(destinations);
    }
}

/// The destination that decides, and what is on its way.
fn named(destinations: &Destinations) -> SpacedBy {
    let is_kept = |departures: &Departures| matches!(departures, Departures::Kept(_));
    let mut first = None;
    for (_, destination) in destinations.iter() {
        let departures = destination.departures();
        if !is_kept(departures) {
            return SpacedBy::Fallback(destination.address(), departures.clone());
        }
        first.get_or_insert(departures);
    }
    first.map_or(SpacedBy::Nobody, |departures| {
        SpacedBy::Kernel(departures.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::endpoint::DestinationOptions;
    use crate::wire::scheduler::Scheduler;

    #[test]
    fn what_is_not_asked_for_is_not_looked_for() {
        let mut destinations = Destinations::new();
        let mut spacer = Spacer::new(false, 64);
        let to = "127.0.0.1:5004".parse().unwrap();
        destinations
            .add(to, &DestinationOptions::default())
            .unwrap();
        spacer.look(&mut destinations);
        assert_eq!(
            (spacer.spacing(), spacer.way()),
            (&SpacedBy::Own, Way::AtOnce)
        );
    }

    #[test]
    fn way_without_fq_or_etf_falls_back_and_names_what_is_there() {
        let to = "127.0.0.1:5004".parse().unwrap();
        let here = Scheduler::towards(to, None, None).unwrap();
        let options = DestinationOptions {
            departures: true,
            ..DestinationOptions::default()
        };
        let mut destinations = Destinations::new();
        let mut spacer = Spacer::new(true, 64);
        spacer.look(&mut destinations);
        assert_eq!(spacer.spacing(), &SpacedBy::Nobody);
        let id = destinations.add(to, &options).unwrap();
        spacer.look(&mut destinations);
        let told = spacer.spacing().to_string();
        if here.timing.heeds_departures() {
            // On a machine whose loopback interface has fq.
            assert!(told.starts_with("kernel (SO_TXTIME, "), "{told}");
            assert!(matches!(spacer.way(), Way::Ahead { .. }));
        } else {
            let expected = format!(
                "timed groups (127.0.0.1:5004: {here}, and only fq and etf heed departure times)"
            );
            assert_eq!((told, spacer.way()), (expected, Way::AtOnce));
        }
        destinations.remove(id);
        spacer.look(&mut destinations);
        assert_eq!(spacer.spacing(), &SpacedBy::Nobody);
    }
}
