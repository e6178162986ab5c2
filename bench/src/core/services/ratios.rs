//! What is compared: each service with its floor, and ours with the kernel's.

use clap::ValueEnum as _;

use super::super::case::word;
use super::case::{Case, Service, System, Wait};
use crate::document::Ratio;
use crate::statistics::paired_ratio;
use crate::times::Times;

/// All of them.
pub(super) fn all(cases: &[Case], times: &[Times]) -> Vec<Ratio> {
    let medians = |wanted: Case| {
        let found = cases.iter().position(|&case| case == wanted)?;
        Some(times[found].medians())
    };
    let ratio = |above: Case, below: Case| {
        let value = paired_ratio(&medians(above)?, &medians(below)?);
        Some(Ratio {
            name: format!("{}/{} p50", label(above), label(below)),
            size_bytes: above.size,
            value,
        })
    };
    let mut ratios = Vec::new();
    for &case in cases {
        ratios.extend(floor_of(case).and_then(|floor| ratio(case, floor)));
        for &peer in System::value_variants() {
            let is_kernels = matches!(peer, System::Futex | System::Mq | System::Shmget);
            if case.system == System::Hythe && is_kernels {
                ratios.extend(ratio(case, case.of(peer)));
            }
        }
    }
    ratios
}

/// What a service is built on, or stands beside.
fn floor_of(case: Case) -> Option<Case> {
    const SHORT: usize = 64;
    let ping = case.with(Service::Ping);
    match (case.system, case.service) {
        (_, Service::Ping) => None,
        (System::Hythe | System::Core, Service::Semaphore) => Some(Case {
            size: SHORT,
            ..ping
        }),
        // What it takes to ask the core for nothing.
        (System::Core, Service::Segment) => Some(Case {
            wait: Wait::Adaptive,
            ..case.with(Service::Call)
        }),
        (System::Hythe | System::Core, Service::Message | Service::Call) => Some(ping),
        _ => None,
    }
}

fn label(case: Case) -> String {
    match case.service {
        Service::Segment => format!("{} segment", word(case.system)),
        service => format!(
            "{} {} {}",
            word(case.system),
            word(case.wait),
            word(service)
        ),
    }
}
