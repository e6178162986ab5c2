//! What carries flows, as their processes say, for people.

use hythe_flows::message::{Carrier, Transport};

use crate::status::{Direction, FlowCopies};

/// What carries a flow at this host's end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) carrier: Carrier,
    pub(super) is_zero_copy: bool,
    /// Payload that lies in the pool's region for network cards leaves from there.
    pub(super) sends_from_slots: bool,
    /// Why it is not what was asked for; empty: it is.
    pub(super) reason: String,
}

impl Carried {
    /// A flow by this transport, before its process has said anything.
    pub(super) fn of(transport: Transport) -> Self {
        Self {
            carrier: match transport {
                Transport::Tcp => Carrier::Tcp,
                Transport::Tls => Carrier::Tls,
                Transport::Packets => Carrier::Udp,
            },
            ..Self::default()
        }
    }

    /// It was to be carried by something else.
    pub(super) fn has_failed(&self) -> bool {
        self.carrier == Carrier::Udp && !self.reason.is_empty()
    }

    /// How often the CPUs of this host copy each byte of payload.
    const fn copies(&self, direction: Direction) -> FlowCopies {
        // The kernel, where the card does not itself.
        let by_kernel = if self.is_zero_copy { 0 } else { 1 };
        let from_slot = if self.sends_from_slots { 0 } else { 1 };
        match (self.carrier, direction) {
            // From the slot into the socket.
            (Carrier::Udp | Carrier::Tcp, Direction::Sending) => FlowCopies::of(1, 0, 0),
            // Into the slot, where it is not short.
            (Carrier::Tcp, Direction::Receiving) => FlowCopies::of(1, 0, 1),
            // Sealed from the slot, and into the socket.
            (Carrier::Tls, Direction::Sending) => FlowCopies::of(1, 1, 1),
            // Out of it, into the TLS library, out of that, and into the slot.
            (Carrier::Tls, Direction::Receiving) => FlowCopies::of(1, 3, 3),
            // Out of it, and into the slot.
            (Carrier::Udp, Direction::Receiving) => FlowCopies::of(1, 1, 1),
            // Into a chunk, unless it leaves from its slot, and from there.
            (Carrier::Xdp, Direction::Sending) => FlowCopies::of(by_kernel, from_slot, 1),
            // Into a chunk; out of it, and into the slot.
            (Carrier::Xdp, Direction::Receiving) => FlowCopies::of(by_kernel, 2, 2),
        }
    }
}

/// What carries a channel, and why nothing better does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Carriage {
    pub(super) flows: u32,
    /// The most of its flows; none: there is none.
    pub(super) copies: FlowCopies,
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
        let names = [
            (Carrier::Tls, "tls"),
            (Carrier::Tcp, "tcp"),
            (Carrier::Xdp, "xdp"),
            (Carrier::Udp, "udp"),
        ];
        let has = |carrier| flows.iter().any(|flow| flow.carrier == carrier);
        let names = names.into_iter().filter(|(carrier, _)| has(*carrier));
        let carrier = names.map(|(_, name)| name).collect::<Vec<_>>().join(", ");
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
                .fold(FlowCopies::default(), FlowCopies::most),
            carrier,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_shows_all_that_carries_it_and_what_is_missing() {
        let one = |carrier, reason: &str| Carried {
            carrier,
            reason: reason.to_owned(),
            ..Carried::default()
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
    fn copies_are_those_of_the_carrier_and_its_mode() {
        let xdp = |is_zero_copy, sends_from_slots| Carried {
            carrier: Carrier::Xdp,
            is_zero_copy,
            sends_from_slots,
            reason: String::new(),
        };
        let copies = |flows: &[Carried]| {
            [Direction::Sending, Direction::Receiving].map(|direction| {
                let copies = Carriage::of(direction, flows, String::new).copies;
                let FlowCopies {
                    by_kernel,
                    by_program,
                    by_program_elsewhere,
                } = copies;
                (by_kernel, by_program, by_program_elsewhere)
            })
        };
        assert_eq!(copies(&[]), [(0, 0, 0); 2]);
        let udp = Carried::default();
        // By the kernel, by the program, and by that where payload is in no slot to send from.
        for (flow, expected) in [
            (udp.clone(), [(1, 0, 0), (1, 1, 1)]),
            (xdp(false, false), [(1, 1, 1), (1, 2, 2)]),
            (xdp(false, true), [(1, 0, 1), (1, 2, 2)]),
            (xdp(true, false), [(0, 1, 1), (0, 2, 2)]),
            (xdp(true, true), [(0, 0, 1), (0, 2, 2)]),
        ] {
            assert_eq!(copies(std::slice::from_ref(&flow)), expected, "{flow:?}");
        }
        // Of several flows the most.
        let all = [udp, xdp(true, true), xdp(true, false)];
        assert_eq!(copies(&all), [(1, 1, 1), (1, 2, 2)]);
    }
}
