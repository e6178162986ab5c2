//! What is compared, and what the project wants of it.

use super::Series;
use super::case::{Case, Payload, Reach, Sides, System, Wait};
use crate::bar::Bar::{self, AtLeast, AtMost};
use crate::document::Ratio;
use crate::ipc::case::word;
use crate::statistics::{median, paired_ratio};

/// Names of the ratios that have a bar, the sizes for which it holds, and the bar.
const WAY: &str = "hythe-tls/(floor-tls + 2 local) block filled p50";
const BULK: &str = "hythe-tls/floor-tls remote block filled p50";
const ZENOH: &str = "zenoh/hythe-tls remote block filled p50";
const MIB: usize = 1 << 20;

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
        ratios.extend(beside_its_parts(own, series));
    }
    ratios
}

/// The bar of a ratio, if it has one.
pub(super) fn bar_of(ratio: &Ratio) -> Option<Bar> {
    match (ratio.name.as_str(), ratio.size_bytes) {
        (WAY, 64) => Some(AtMost(1.3)),
        (BULK, MIB) => Some(AtMost(1.25)),
        (ZENOH, _) => Some(AtLeast(1.0)),
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

/// What the way consists of: TLS there and back, and two round trips of the process hop, between
/// application and agent on each host.
fn beside_its_parts(own: &Series, series: &[Series]) -> Option<Ratio> {
    let find = |system, reach| {
        series.iter().find(|other| {
            other.size == own.size
                && other.case.payload == own.case.payload
                && other.case.wait == Wait::Block
                && (other.case.system, other.case.reach) == (system, reach)
        })
    };
    if own.case.payload != Payload::Filled || own.case.reach != Reach::Remote {
        return None;
    }
    let tls = find(System::FloorTls, Reach::Remote)?.medians();
    let local = find(System::HytheTls, Reach::Local)?.medians();
    let parts = tls.iter().zip(&local).map(|(tls, local)| tls + 2.0 * local);
    let quotients = own
        .medians()
        .into_iter()
        .zip(parts)
        .map(|(own, parts)| own / parts);
    Some(Ratio {
        name: format!(
            "{}/(floor-tls + 2 local) block filled p50",
            word(own.case.system)
        ),
        size_bytes: own.size,
        value: median(quotients.collect()),
    })
}
