//! What is compared, and what the project wants of it.

use super::Series;
use super::case::{Case, Payload, Reach, Sides, System};
use crate::bar::Bar::{self, AtLeast, AtMost};
use crate::document::Ratio;
use crate::ipc::case::word;
use crate::statistics::paired_ratio;

/// Names of the ratios that have a bar.
const SEALED: &str = "hythe-tls/floor-tls remote block filled p50";
const ZENOH: &str = "zenoh/hythe-tls remote block filled p50";
const XDP: &str = "hythe-xdp/floor-xdp remote poll filled p50";
const XDP_BY_UDP: &str = "hythe-xdp/floor-udp remote poll filled p50";
const TCP: &str = "tcp/hythe-tcp remote poll filled p50";
const TCP_BLOCK: &str = "tcp/hythe-tcp remote block filled p50";
const BEST_BY_MPI: &str = "mpi or ucx/flow, fastest of each, remote filled p50";
const BEST_BY_PVM: &str = "pvm/flow, fastest of each, remote filled p50";
const BEST_BY_ZENOH: &str = "zenoh/flow, fastest of each, remote filled p50";
const BEST_BY_TCP: &str = "tcp/flow, fastest of each, remote filled p50";

/// What the names of counts end with.
const ALLOCATIONS: &str = "allocations";
const CALLS: &str = "system calls";

/// And an acknowledgement each 10 ms.
const ONE_CALL: Bar = AtMost(1.02);

const MIB: usize = 1 << 20;
/// Of a message that one packet carries.
const PACKET: usize = 1024;

/// Channels whose tasks send themselves.
const FLOWS: &[System] = &[System::HytheTls, System::HytheTcp, System::HytheXdp];
/// Whom the fastest of them is compared with.
const PEERS: [(&str, &[System]); 4] = [
    (BEST_BY_MPI, &[System::Openmpi, System::Mpich, System::Ucx]),
    (BEST_BY_PVM, &[System::Pvm]),
    (BEST_BY_ZENOH, &[System::Zenoh, System::ZenohTcp]),
    (BEST_BY_TCP, &[System::Tcp]),
];

/// All of them.
pub(super) fn all(series: &[Series]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for own in series.iter().filter(|own| is_ours(own.case)) {
        let others = series
            .iter()
            .filter(|other| other.size == own.size && other.case.system != own.case.system);
        for other in others.filter(|other| is_comparable(own.case, other.case)) {
            ratios.push(compared(own, other));
        }
    }
    let mut sizes: Vec<usize> = series.iter().map(|row| row.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        let of_peers = PEERS.iter();
        ratios.extend(of_peers.filter_map(|&peers| fastest_by_fastest(series, size, peers)));
    }
    ratios.extend(series.iter().flat_map(steady));
    ratios
}

/// What its messages take beside time.
fn steady(row: &Series) -> Vec<Ratio> {
    let named = |what: &str, value| Ratio {
        name: format!("{} {what}", row.case),
        size_bytes: row.size,
        value,
    };
    let counted = row.steady.map(|steady| {
        [
            named(ALLOCATIONS, steady.allocations),
            named(CALLS, steady.system_calls),
        ]
    });
    counted.into_iter().flatten().collect()
}

/// The bar of a ratio, if it has one.
pub(super) fn bar_of(ratio: &Ratio) -> Option<Bar> {
    match (ratio.name.as_str(), ratio.size_bytes) {
        (SEALED, MIB) => Some(AtMost(1.15)),
        (SEALED, _) => Some(AtMost(1.3)),
        (ZENOH, _) => Some(AtLeast(1.0)),
        (XDP, 64) => Some(AtMost(1.4)),
        (XDP_BY_UDP, 64) => Some(AtMost(1.0)),
        // At most 1.1 of TCP's time.
        (TCP | TCP_BLOCK, _) => Some(AtLeast(0.91)),
        (BEST_BY_MPI, 64) => Some(AtLeast(1.5)),
        (BEST_BY_PVM | BEST_BY_ZENOH, 64) => Some(AtLeast(5.0)),
        (BEST_BY_TCP, MIB) => Some(AtLeast(0.9)),
        (BEST_BY_PVM, MIB) => Some(AtLeast(2.0)),
        (name, _) if name.ends_with(ALLOCATIONS) => Some(AtMost(0.0)),
        (name, ..=PACKET) if name.ends_with(CALLS) && name.contains("/poll/") => Some(ONE_CALL),
        _ => None,
    }
}

fn is_ours(case: Case) -> bool {
    matches!(case.system.sides(), Sides::Pools(_))
}

/// Floors stand below, peers above.
fn compared(own: &Series, other: &Series) -> Ratio {
    let is_floor = matches!(
        other.case.system,
        System::FloorTls | System::FloorUdp | System::FloorXdp
    );
    let (above, below) = if is_floor { (own, other) } else { (other, own) };
    let systems = format!("{}/{}", word(above.case.system), word(below.case.system));
    let (reach, wait) = (word(own.case.reach), word(own.case.wait));
    Ratio {
        name: format!("{systems} {reach} {wait} filled p50"),
        size_bytes: own.size,
        value: paired_ratio(&above.medians(), &below.medians()),
    }
}

fn is_comparable(own: Case, other: Case) -> bool {
    !is_ours(other)
        && other.reach == own.reach
        && other.wait == own.wait
        && other.payload == own.payload
        && own.payload == Payload::Filled
}

/// Each as it is fastest, by whichever of these systems and however it waits.
fn fastest_by_fastest(
    series: &[Series],
    size: usize,
    (name, peers): (&str, &[System]),
) -> Option<Ratio> {
    let fastest = |systems: &[System]| {
        let rows = series.iter().filter(|row| {
            let Case {
                system,
                reach,
                payload,
                ..
            } = row.case;
            row.size == size
                && systems.contains(&system)
                && (reach, payload) == (Reach::Remote, Payload::Filled)
        });
        let medians = rows.map(Series::medians);
        medians.reduce(|one, other| one.into_iter().zip(other).map(|(a, b)| a.min(b)).collect())
    };
    Some(Ratio {
        name: name.to_owned(),
        size_bytes: size,
        value: paired_ratio(&fastest(peers)?, &fastest(FLOWS)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::case;
    use crate::statistics::{histogram, record};
    use std::time::Duration;

    /// One round of each case, with these medians.
    fn measured(medians: &[(&str, u64)]) -> Vec<Series> {
        let row = |&(name, micros): &(&str, u64)| {
            let mut cases = case::all().into_iter();
            let case = cases.find(|case| case.to_string() == name).expect(name);
            let mut round = histogram();
            record(&mut round, Duration::from_micros(micros));
            Series {
                case,
                size: 64,
                rounds: vec![round],
                steady: None,
                has_failed: false,
            }
        };
        medians.iter().map(row).collect()
    }

    #[test]
    fn every_aim_has_its_ratio() {
        let ratios = all(&measured(&[
            ("floor-udp/remote/poll/filled", 100),
            ("floor-udp/remote/block/filled", 400),
            ("floor-xdp/remote/poll/filled", 60),
            ("floor-tls/remote/block/filled", 500),
            ("tcp/remote/poll/filled", 200),
            ("hythe-tls/remote/block/filled", 600),
            ("tcp/remote/block/filled", 450),
            ("hythe-tcp/remote/poll/filled", 120),
            ("hythe-tcp/remote/block/filled", 500),
            ("hythe-xdp/remote/poll/filled", 80),
            ("zenoh/remote/block/filled", 900),
            ("zenoh-tcp/remote/block/filled", 800),
            ("openmpi/remote/poll/filled", 320),
            ("ucx/remote/poll/filled", 160),
            ("pvm/remote/block/filled", 720),
        ]));
        let expected = [
            (SEALED, 1.2),
            (ZENOH, 1.5),
            (XDP, 4.0 / 3.0),
            (XDP_BY_UDP, 0.8),
            (TCP, 5.0 / 3.0),
            (TCP_BLOCK, 0.9),
            (BEST_BY_MPI, 2.0),
            (BEST_BY_PVM, 9.0),
            (BEST_BY_ZENOH, 10.0),
            (BEST_BY_TCP, 2.5),
        ];
        for (name, value) in expected {
            let found = ratios.iter().find(|ratio| ratio.name == name).expect(name);
            // A histogram rounds to three digits.
            assert!((found.value - value).abs() < 0.01, "{found:?}");
            let has_bar = [64, MIB].map(|size_bytes| {
                bar_of(&Ratio {
                    name: name.to_owned(),
                    size_bytes,
                    value,
                })
            });
            assert!(has_bar.iter().any(Option::is_some), "{name}");
        }
    }

    #[test]
    fn who_was_not_measured_is_not_compared() {
        let ratios = all(&measured(&[
            ("hythe-tcp/remote/poll/filled", 120),
            ("openmpi/local/poll/filled", 320),
        ]));
        assert!(ratios.is_empty(), "{ratios:?}");
    }
}
