//! What the rounds of pairs showed: rows, and how many times as long a message takes on one CPU.

use clap::ValueEnum as _;

use super::first_touch::{BYTES, Touched};
use super::ground::Kind;
use super::payload::Payload;
use super::{Case, Placement, Series, System};
use crate::bar::Bar;
use crate::document::Ratio;
use crate::statistics;
use crate::times::{Place, Times};

/// From what size on two CPUs are to be faster, and by how much.
const AIM: (usize, Bar) = (1 << 20, Bar::AtLeast(1.4));

/// The rows of the pairs.
pub(super) fn of_pairs(series: &[Series], cpus: [usize; 2], core: &Place) -> Vec<Times> {
    let row = |series: &Series| {
        let pinned = match series.case.placement {
            Placement::OneCpu => vec![cpus[0], cpus[0]],
            Placement::TwoCpus => cpus.to_vec(),
        };
        let place = match series.case.system {
            System::Processes(_) => Place::default(),
            System::Core(_) => core.clone(),
        };
        Times {
            case: series.case.to_string(),
            size: series.size,
            metric: "message",
            rounds: series.rounds.clone(),
            kernel_copies: None,
            steady: None,
            place: Place { pinned, ..place },
        }
    };
    series.iter().map(row).collect()
}

/// The rows of page faults and the TLB.
pub(super) fn of_pages(touched: Vec<Touched>, cpu: usize) -> impl Iterator<Item = Times> {
    touched.into_iter().map(move |touched| Times {
        case: touched.to_string(),
        size: BYTES,
        metric: "page",
        rounds: touched.rounds,
        kernel_copies: None,
        steady: None,
        place: Place {
            pinned: vec![cpu],
            ..Place::default()
        },
    })
}

/// How many times as long a message takes on one CPU.
pub(super) fn ratios(series: &[Series], rows: &[Times]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for (two, medians) in series.iter().zip(rows) {
        let case = Case {
            placement: Placement::OneCpu,
            ..two.case
        };
        let is_one = |one: &Series| one.case == case && one.size == two.size;
        let one = series.iter().position(is_one);
        let is_two = two.case.placement == Placement::TwoCpus;
        ratios.extend(one.filter(|_| is_two).map(|one| Ratio {
            name: name(two.case),
            size_bytes: two.size,
            value: statistics::paired_ratio(&rows[one].medians(), &medians.medians()),
        }));
    }
    ratios
}

fn name(case: Case) -> String {
    format!("{} {} one CPU/two CPUs p50", case.system, case.payload)
}

/// The bound of a ratio: for payloads that two processes compute.
pub(super) fn bar_of(ratio: &Ratio) -> Option<Bar> {
    let mut cases = Kind::value_variants().iter().map(|&kind| Case {
        system: System::Processes(kind),
        placement: Placement::TwoCpus,
        payload: Payload::Computed,
    });
    let is_computed = cases.any(|case| name(case) == ratio.name);
    (is_computed && ratio.size_bytes == AIM.0).then_some(AIM.1)
}
