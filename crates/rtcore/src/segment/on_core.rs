//! A segment that Linux wants made by a core: its program is asked over `core/control`, and asks
//! its agent, as for a segment of its own.
//!
//! So the agent, which serves the core meanwhile, waits for nobody; the caller waits for the core,
//! and has no lock. Never believes the core: the segment is looked for.

use std::time::{Duration, Instant};

use hythe_node::Pool;
use hythe_sys::system_v::{self, CREATE, EXCLUSIVE, NO_RESERVE};

use super::{SegmentError, Segments, Wish};
use crate::tasks::{TaskError, Tasks};

/// Of the whole call.
const BOUND: Duration = Duration::from_secs(5);
/// Flags that an agent takes from a core; the kernel ignores others, too.
const FLAGS: i32 = 0o777 | CREATE | EXCLUSIVE | NO_RESERVE;

/// Has the first core make one; its id.
pub(super) fn make(segments: &Segments, wish: Wish<'_>) -> Result<i32, SegmentError> {
    let Wish {
        key, bytes, flags, ..
    } = wish;
    // `open` has refused a pool without any.
    let board = &segments.boards[0];
    let asked = u32::try_from(bytes).ok().filter(|asked| *asked != 0);
    let asked = asked.filter(|asked| u64::from(*asked) <= board.place.bytes);
    let asked = asked.ok_or_else(|| SegmentError::BadSize {
        asked: bytes,
        area: board.place.bytes,
        board: board.name.clone(),
    })?;
    let pool = Pool::open(segments.files.options())?;
    let start = Instant::now();
    let made = Tasks::open_within(&pool, &board.name, "shmget", BOUND).and_then(|core| {
        let left = BOUND.saturating_sub(start.elapsed());
        core.with_bound(left)
            .make_segment(key, asked, flags & FLAGS)
    });
    let unasked = |source| SegmentError::CoreUnasked {
        board: board.name.clone(),
        source: Box::new(source),
    };
    let id = made.map_err(unasked)?.map_err(|number| {
        let board = board.name.clone();
        SegmentError::CoreRefused {
            board,
            number: number.raw_os_error(),
        }
    })?;
    if key != system_v::PRIVATE {
        // By its key: so the kernel says whether this process may use it.
        return segments.get(key, bytes, flags & !(CREATE | EXCLUSIVE));
    }
    match segments.knows(id)? {
        true => Ok(id),
        false => Err(unasked(TaskError::BadReply {
            board: board.name.clone(),
            what: format!("id {id}, which no segment has"),
        })),
    }
}
