//! All that was measured, for the report and its ratios.

use super::calls::CallSeries;
use super::lossy::LossyOutcome;
use super::plays::PlaysSeries;
use super::series::Series;

/// All that was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured<'m> {
    pub(super) series: &'m [Series],
    pub(super) calls: &'m [CallSeries],
    pub(super) lossy: &'m [LossyOutcome],
    pub(super) plays: &'m [PlaysSeries],
}
