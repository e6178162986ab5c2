//! What carries flows, as their processes say, for people.

use hythe_flows::message::Carrier;

use crate::status::Direction;

/// What carries a flow at this host's end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) carrier: Carrier,
    pub(super) is_zero_copy: bool,
    /// Why it is not what was asked for; empty: it is.
    pub(super) reason: String,
}

impl Carried {
    /// It was to be carried by something else.
    pub(super) fn has_failed(&self) -> bool {
        self.carrier == Carrier::Udp && !self.reason.is_empty()
    }

    /// How often the CPUs of this host copy each byte of payload.
    const fn copies(&self, direction: Direction) -> u32 {
        // The kernel, where the card does not itself.
        let by_kernel = if self.is_zero_copy { 0 } else { 1 };
        match (self.carrier, direction) {
            // From the slot into the socket; out of it, and into the slot.
            (Carrier::Udp, Direction::Sending) => 1,
            (Carrier::Udp, Direction::Receiving) => 2,
            // Into a chunk, and from there; into a chunk, out of it, and into the slot.
            (Carrier::Xdp, Direction::Sending) => 1 + by_kernel,
            (Carrier::Xdp, Direction::Receiving) => by_kernel + 2,
        }
    }
}

/// What carries a channel, and why nothing better does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Carriage {
    pub(super) flows: u32,
    /// The most of its flows; 0: there is none.
    pub(super) copies: u32,
    /// Empty: nothing but the stream.
    pub(super) carrier: String,
    pub(super) reason: String,
}

impl Carriage {
    /// That of flows that carry; `waiting` says why there is none.
    pub(super) fn of<'a>(
        direction: Direction,
        flows: impl IntoIterator<Item = &'a Carried>,
        waiting: impl FnOnce() -> String,
    ) -> Self {
        let flows: Vec<&Carried> = flows.into_iter().collect();
        let has = |carrier| flows.iter().any(|flow| flow.carrier == carrier);
        let carrier = match (has(Carrier::Udp), has(Carrier::Xdp)) {
            (false, false) => "",
            (true, false) => "udp",
            (false, true) => "xdp",
            (true, true) => "xdp, udp",
        };
        let reason = match flows.is_empty() {
            true => waiting(),
            false => {
                // Of `AF_XDP` it says why payload is copied into what is sent.
                let matters = |flow: &&&Carried| {
                    direction == Direction::Sending || flow.carrier == Carrier::Udp
                };
                let mut reasons = flows.iter().filter(matters).map(|flow| &flow.reason);
                reasons
                    .find(|it| !it.is_empty())
                    .cloned()
                    .unwrap_or_default()
            }
        };
        Self {
            // Fits: at most `FLOWS_MAX`.
            flows: flows.len() as u32,
            copies: flows
                .iter()
                .map(|flow| flow.copies(direction))
                .max()
                .unwrap_or(0),
            carrier: carrier.to_owned(),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_shows_all_that_carries_it_and_what_is_missing() {
        let one = |carrier, reason: &str| Carried {
            carrier,
            is_zero_copy: false,
            reason: reason.to_owned(),
        };
        let shown = |flows: &[Carried]| {
            let carriage = Carriage::of(Direction::Sending, flows, || "nobody asks".to_owned());
            (carriage.flows, carriage.carrier, carriage.reason)
        };
        let expected =
            |flows, carrier: &str, reason: &str| (flows, carrier.to_owned(), reason.to_owned());
        assert_eq!(shown(&[]), expected(0, "", "nobody asks"));
        let (udp, xdp) = (one(Carrier::Udp, "no program"), one(Carrier::Xdp, ""));
        assert_eq!(shown(&[Carried::default()]), expected(1, "udp", ""));
        assert_eq!(shown(std::slice::from_ref(&xdp)), expected(1, "xdp", ""));
        assert_eq!(shown(&[xdp, udp]), expected(2, "xdp, udp", "no program"));
    }

    #[test]
    fn a_channel_shows_the_most_copies_of_its_flows() {
        let one = |carrier, is_zero_copy| Carried {
            carrier,
            is_zero_copy,
            reason: String::new(),
        };
        let copies = |flows: &[Carried]| {
            [Direction::Sending, Direction::Receiving]
                .map(|direction| Carriage::of(direction, flows, String::new).copies)
        };
        assert_eq!(copies(&[]), [0, 0]);
        let (udp, card) = (one(Carrier::Udp, false), one(Carrier::Xdp, true));
        assert_eq!(copies(std::slice::from_ref(&udp)), [1, 2]);
        assert_eq!(copies(std::slice::from_ref(&card)), [1, 2]);
        assert_eq!(copies(&[udp, one(Carrier::Xdp, false), card]), [2, 3]);
    }
}
