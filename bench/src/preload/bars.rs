//! What the project wants of the storage hop, so that a person sees at once which figures fall
//! short. The document for machines has the figures only.

use crate::bar::Bar;
use crate::document::Ratio;

/// From this size on what is read ahead must come close to the bound; below, starting programs
/// weighs too much.
const NEAR_BOUND_FROM: usize = 2 << 20;

/// Differences by the run-to-run spread: reading ahead gains more than that, and loses at most that
/// where it does not gain.
const GAINS: Bar = Bar::AtLeast(1.0);
const LOSES_NOTHING: Bar = Bar::AtLeast(-1.0);

/// The bound of a ratio, if it has one.
pub(super) fn of_ratio(ratio: &Ratio) -> Option<Bar> {
    let (name, _file_system) = ratio.name.rsplit_once(' ')?;
    match name {
        "plain-preload by spread" => Some(GAINS),
        "saved by saved at the size before" => Some(Bar::AtLeast(1.0)),
        "preload/bound" if ratio.size_bytes >= NEAR_BOUND_FROM => Some(Bar::AtMost(1.15)),
        "readahead-preload by spread" | "vmtouch-preload by spread" | "plain-budget by spread" => {
            Some(LOSES_NOTHING)
        }
        "application-plain/application-preload" => Some(Bar::AtLeast(1.5)),
        "extents in both of two recordings" => Some(Bar::AtLeast(1.0)),
        "pages kept until use, preload" | "pages kept until use, budget" => Some(Bar::AtLeast(1.0)),
        _ => None,
    }
}
