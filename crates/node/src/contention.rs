//! Going on where somebody else is at the same thing.

use std::time::{Duration, Instant};

use hythe_pool::PoolError;

use crate::NodeError;

/// How long somebody else may take to make a channel or region of the same name.
const BUSY_BOUND: Duration = Duration::from_secs(2);

/// Tries again while somebody else is at it, a little later each time, not in step with the other.
pub(crate) fn retry_on_contention<T>(
    mut attempt: impl FnMut() -> Result<T, NodeError>,
) -> Result<T, NodeError> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(NodeError::Pool(PoolError::Busy(_))) if start.elapsed() < BUSY_BOUND => {
                let jitter = u64::from(std::process::id() ^ start.elapsed().subsec_nanos()) % 400;
                hythe_sys::wait::sleep(Duration::from_micros(100 + jitter));
            }
            done => return done,
        }
    }
}
