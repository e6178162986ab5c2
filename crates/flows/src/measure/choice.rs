//! Which carrier a link has for short and for long messages, from what was measured on it.
//!
//! A carrier is chosen for what it saves, and left when it saves too little: the two bounds lie
//! apart, so that what measures a little differently each time changes nothing. The other traffic
//! of the interface is weighed first: nobody asked it.

use serde::{Deserialize, Serialize};

use crate::message::Carrier;

/// There and back by `xdp` takes at most so much of the time by UDP, in percent, to be chosen; and
/// to be kept.
const ROUND_TRIP_PERCENT: [u64; 2] = [85, 95];
/// Long messages go at least so much faster by `xdp`, in percent of UDP, to be chosen; to be kept.
const SPEED_PERCENT: [u64; 2] = [120, 105];
/// Other traffic takes at most so much longer, in percent, where the program is on the interface;
/// and where that is chosen already.
const OTHERS_PERCENT: [u64; 2] = [125, 140];

/// What was measured of one carrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// There and back of 64 bytes, the median; `None`: too few came back.
    pub round_trip_ns: Option<u64>,
    /// Bytes per second of bursts of 64 KiB there and back, the median; `None`: too few arrived.
    pub bytes_per_s: Option<u64>,
}

/// What the program on the interface costs other traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Others {
    /// How fast bursts by UDP and blocks by TCP were while it was there.
    Beside(Bulk),
    /// It was there before, for somebody else: nothing more is to be paid.
    PaidAlready,
}

/// How much traffic in bulk goes over an interface: bytes per second; `None`: too little arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bulk {
    /// Bursts by UDP, which the kernel cuts.
    pub udp_bytes_per_s: Option<u64>,
    /// Blocks by TCP there and back, which it cuts, and joins where they come.
    pub tcp_bytes_per_s: Option<u64>,
}

/// What was measured of `xdp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByXdp {
    /// Its own figures.
    pub figures: Figures,
    /// Those of others.
    pub others: Others,
}

/// What was measured on a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// By UDP, as it was found.
    pub udp: Figures,
    /// Blocks by TCP, as bursts by UDP; `None`: too few arrived, or there is nothing to compare.
    pub tcp_bytes_per_s: Option<u64>,
    /// By `xdp`, or why that is not to be had.
    pub xdp: Result<ByXdp, String>,
    /// What measuring sent, and had the other side send.
    pub bytes: u64,
    /// How long it took.
    pub took_ns: u64,
}

/// What carries messages of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Those of up to 8 packets at once.
    pub short: Carrier,
    /// Longer runs.
    pub long: Carrier,
    /// Why not the other carrier; empty: it is chosen for both.
    pub why: String,
}

impl Measured {
    /// Is everything known that a choice needs?
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let is_known = |figures: &Figures| figures.round_trip_ns.is_some();
        let xdp = self.xdp.as_ref().ok();
        is_known(&self.udp)
            && xdp.is_some_and(|xdp| is_known(&xdp.figures))
            && self.others_percent().is_some()
    }

    /// How much longer other traffic takes while the program is on the interface, in percent: by
    /// UDP or by TCP, the worse.
    #[must_use]
    pub fn others_percent(&self) -> Option<u64> {
        match self.xdp.as_ref().ok()?.others {
            Others::Beside(beside) => {
                let udp = percent(self.udp.bytes_per_s?, beside.udp_bytes_per_s?);
                let tcp = percent(self.tcp_bytes_per_s?, beside.tcp_bytes_per_s?);
                Some(udp.max(tcp))
            }
            Others::PaidAlready => Some(100),
        }
    }
}

/// The choice, where `before` carries until now.
#[must_use]
pub fn choose(before: &Choice, measured: &Measured) -> Choice {
    let by_udp = |why: String| Choice {
        why,
        ..Choice::default()
    };
    let xdp = match &measured.xdp {
        Ok(xdp) => xdp.figures,
        Err(reason) => return by_udp(reason.clone()),
    };
    let is_kept = |carrier| usize::from(carrier == Carrier::Xdp);
    let is_any_kept = is_kept(before.short).max(is_kept(before.long));
    match measured.others_percent() {
        None => {
            return by_udp("what xdp costs other traffic of the interface is not known".to_owned());
        }
        Some(cost) if cost > OTHERS_PERCENT[is_any_kept] => {
            return by_udp(format!(
                "with the program of xdp other traffic of the interface takes {} times as long",
                hundredths(cost)
            ));
        }
        Some(_) => {}
    }
    let mut why = Vec::new();
    let short = match (xdp.round_trip_ns, measured.udp.round_trip_ns) {
        (Some(xdp), Some(udp)) => {
            let taken = percent(xdp, udp);
            let is_better = taken <= ROUND_TRIP_PERCENT[is_kept(before.short)];
            if !is_better {
                let taken = hundredths(taken);
                why.push(format!(
                    "short messages take {taken} of the time of UDP by xdp"
                ));
            }
            is_better
        }
        _ => {
            why.push("short messages could not be measured".to_owned());
            false
        }
    };
    let long = match (xdp.bytes_per_s, measured.udp.bytes_per_s) {
        (Some(xdp), Some(udp)) => {
            let speed = percent(xdp, udp);
            let is_better = speed >= SPEED_PERCENT[is_kept(before.long)];
            if !is_better {
                let speed = hundredths(speed);
                why.push(format!("long ones have {speed} of UDP's speed by xdp"));
            }
            is_better
        }
        _ => {
            why.push("long ones could not be measured by xdp".to_owned());
            false
        }
    };
    let carrier = |is_better| match is_better {
        true => Carrier::Xdp,
        false => Carrier::Udp,
    };
    Choice {
        short: carrier(short),
        long: carrier(long),
        why: why.join("; "),
    }
}

fn percent(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// `1.25` for 125.
fn hundredths(percent: u64) -> String {
    format!("{}.{:02}", percent / 100, percent % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: Figures = Figures {
        round_trip_ns: Some(10_000),
        bytes_per_s: Some(1_000_000_000),
    };

    fn measured(round_trip_ns: u64, bytes_per_s: u64, others: Others) -> Measured {
        let figures = Figures {
            round_trip_ns: Some(round_trip_ns),
            bytes_per_s: Some(bytes_per_s),
        };
        Measured {
            udp: UDP,
            tcp_bytes_per_s: Some(1_000_000_000),
            xdp: Ok(ByXdp { figures, others }),
            bytes: 0,
            took_ns: 0,
        }
    }

    /// Carriers of short and long messages, behind some that were chosen before.
    fn chosen(before: [Carrier; 2], measured: &Measured) -> ([Carrier; 2], String) {
        let before = Choice {
            short: before[0],
            long: before[1],
            why: String::new(),
        };
        let choice = choose(&before, measured);
        ([choice.short, choice.long], choice.why)
    }

    const U: Carrier = Carrier::Udp;
    const X: Carrier = Carrier::Xdp;
    const FREE: Others = beside(1_000_000_000, 1_000_000_000);
    const UNKNOWN: Others = Others::Beside(Bulk {
        udp_bytes_per_s: Some(1_000_000_000),
        tcp_bytes_per_s: None,
    });

    const fn beside(udp: u64, tcp: u64) -> Others {
        Others::Beside(Bulk {
            udp_bytes_per_s: Some(udp),
            tcp_bytes_per_s: Some(tcp),
        })
    }

    #[test]
    fn each_class_chooses_better_carrier_with_hysteresis() {
        let cases = [
            // There and back by xdp, its speed: chosen from UDP, and kept.
            (7_000, 500, [U, U], [X, U]),
            (9_000, 500, [U, U], [U, U]),
            (9_000, 500, [X, U], [X, U]),
            (9_600, 500, [X, U], [U, U]),
            (20_000, 1_300, [U, U], [U, X]),
            (20_000, 1_100, [U, U], [U, U]),
            (20_000, 1_100, [U, X], [U, X]),
            (20_000, 1_000, [U, X], [U, U]),
            (7_000, 1_300, [U, U], [X, X]),
        ];
        for (round_trip_ns, speed, before, expected) in cases {
            let found = measured(round_trip_ns, speed * 1_000_000, FREE);
            let (carriers, why) = chosen(before, &found);
            assert_eq!(carriers, expected, "{round_trip_ns} {speed} {before:?}");
            assert_eq!(why.is_empty(), expected == [X, X], "{why}");
        }
    }

    #[test]
    fn what_other_traffic_pays_is_weighed_before_all() {
        let with = |others| measured(5_000, 2_000_000_000, others);
        // As found on veth: 2.6 times as long.
        let dear = with(beside(1_000_000_000, 384_000_000));
        let (carriers, why) = chosen([U, U], &dear);
        assert_eq!(carriers, [U, U]);
        assert!(why.contains("2.60 times as long"), "{why}");
        assert_eq!(
            chosen([X, X], &dear).0,
            [U, U],
            "also where it was chosen before"
        );
        // The worse of both counts.
        let dear_for_udp = with(beside(384_000_000, 1_000_000_000));
        assert_eq!(dear_for_udp.others_percent(), dear.others_percent());
        let a_little = with(beside(1_000_000_000, 760_000_000));
        assert_eq!(chosen([U, U], &a_little).0, [U, U]);
        assert_eq!(chosen([X, U], &a_little).0, [X, X]);
        assert!(a_little.is_whole() && !with(UNKNOWN).is_whole());
        let cheap = with(beside(850_000_000, 900_000_000));
        assert_eq!(chosen([U, U], &cheap).0, [X, X]);
        assert_eq!(chosen([U, U], &with(Others::PaidAlready)).0, [X, X]);
        let (carriers, why) = chosen([X, X], &with(UNKNOWN));
        assert_eq!((carriers, why.contains("not known")), ([U, U], true));
        // Nothing to divide by, and nothing that overflows.
        chosen([U, U], &with(beside(0, 0)));
        chosen([U, U], &measured(u64::MAX, u64::MAX, beside(1, 1)));
    }

    #[test]
    fn what_was_not_measured_is_not_chosen_and_says_why() {
        let none = Measured {
            xdp: Err("nobody serves eth1".to_owned()),
            ..measured(1, 1, FREE)
        };
        let (carriers, why) = chosen([X, X], &none);
        assert_eq!((carriers, why.as_str()), ([U, U], "nobody serves eth1"));
        let silent = Measured {
            xdp: Ok(ByXdp {
                figures: Figures::default(),
                others: FREE,
            }),
            ..none
        };
        let (carriers, why) = chosen([X, X], &silent);
        assert_eq!(carriers, [U, U]);
        assert!(why.contains("short") && why.contains("long"), "{why}");
    }
}
