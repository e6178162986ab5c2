//! What carries flows, as their processes say, for people.

use hythe_flows::message::Carrier;

/// What carries a flow at this host's end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) carrier: Carrier,
    /// Why it is not what was asked for; empty: it is.
    pub(super) reason: String,
}

/// What carries a channel, and why nothing better does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Carriage {
    pub(super) flows: u32,
    /// Empty: nothing but the stream.
    pub(super) carrier: String,
    pub(super) reason: String,
}

impl Carriage {
    /// That of flows that carry; `waiting` says why there is none.
    pub(super) fn of<'a>(
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
                let mut reasons = flows.iter().map(|flow| &flow.reason);
                reasons
                    .find(|it| !it.is_empty())
                    .cloned()
                    .unwrap_or_default()
            }
        };
        Self {
            // Fits: at most `FLOWS_MAX`.
            flows: flows.len() as u32,
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
            reason: reason.to_owned(),
        };
        let shown = |flows: &[Carried]| {
            let carriage = Carriage::of(flows, || "nobody asks".to_owned());
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
}
