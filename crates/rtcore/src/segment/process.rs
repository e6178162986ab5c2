//! The calls of System V as a process makes them: by ids and addresses alone, on the pool and the
//! core that its environment names (`HYTHE_POOL`, else `default`; `HYTHE_CORE`, else all).
//!
//! For the C functions of the system's names, and for the library that takes the system's place in
//! programs that do not know of cores. What a call does with segments that no core sees is theirs.
//! Kept between calls: what is attached, which a forked child has, too; and which cores there are,
//! until a file of the pool is made or removed. No descriptor stays open. Only while a core is
//! asked to make a segment does the process take part in the pool, with a thread and descriptors.

use std::ptr::NonNull;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hythe_node::hop::{PoolFiles, PoolStamp};
use hythe_node::{NodeError, Pool, PoolOptions};
use hythe_sys::environment;
use hythe_sys::fork::ForkSafe;
use hythe_sys::system_v::{
    self, CREATE, EXCLUSIVE, EXECUTE, HUGE_PAGES, PRIVATE, READ_ONLY, REPLACE, ROUND_DOWN,
};
use rustix::io::Errno;
use rustix::param::page_size;

use super::{Access, Attached, SegmentError, Segments};

/// For the flags of [`get`]: bytes that a core sees, too. Free in Linux, which ignores it.
pub const DUAL: i32 = 0x10000;
/// The same, and a new one is made by the core. Free in Linux, too.
pub const ON_CORE: i32 = 0x20000;

/// Times of files stand still for some milliseconds. What was looked at so shortly after a change
/// is looked at again.
const RECENT: Duration = Duration::from_millis(100);

static STATE: ForkSafe<State> = ForkSafe::new(State {
    known: None,
    attached: Vec::new(),
});

struct State {
    known: Option<Known>,
    attached: Vec<Attached>,
}

/// The cores of a pool as they were found.
struct Known {
    pool: String,
    board: Option<String>,
    stamp: PoolStamp,
    segments: Segments,
}

/// As shmget(2), among the segments that a core sees, made by a core with [`ON_CORE`].
///
/// # Errors
/// [`SegmentError::errno`] has the number.
pub fn get(key: i32, bytes: usize, flags: i32) -> Result<i32, SegmentError> {
    let (segments, rest) = (segments()?, flags & !(DUAL | ON_CORE));
    if rest & HUGE_PAGES != 0 {
        return get_huge(&segments, key, bytes, rest);
    }
    match flags & ON_CORE {
        0 => segments.get(key, bytes, rest),
        _ => segments.get_on_core(key, bytes, rest),
    }
}

/// Memory that a core sees has no huge pages: as the kernel does where it has none, a new segment
/// is refused, and one that there is found.
fn get_huge(segments: &Segments, key: i32, bytes: usize, flags: i32) -> Result<i32, SegmentError> {
    let found = match key {
        PRIVATE => Err(SegmentError::NoSuchKey { key }),
        _ => segments.get(key, bytes, flags & !(HUGE_PAGES | CREATE | EXCLUSIVE)),
    };
    let is_new = flags & CREATE != 0;
    match found {
        Err(SegmentError::NoSuchKey { .. }) if is_new => Err(SegmentError::NoHugePages {
            source: system_v::refusal_of_huge_pages(bytes, flags),
        }),
        Ok(_) if is_new && flags & EXCLUSIVE != 0 => Err(SegmentError::Exists { key }),
        found => found,
    }
}

/// As shmat(2). `None`: no core sees the segment, or there is none.
///
/// # Errors
/// As shmat(2), and `EINVAL` with `SHM_REMAP`, `EACCES` with `SHM_EXEC`.
pub fn attach(id: i32, address: usize, flags: i32) -> Result<Option<NonNull<u8>>, SegmentError> {
    let Some(segments) = segments_with(id)? else {
        return Ok(None);
    };
    let at = place(address, flags)?;
    let access = match flags & READ_ONLY {
        0 => Access::Write,
        _ => Access::Read,
    };
    // Before the state is taken: no lock is taken inside another.
    let attached = segments.attach(id, access, at)?;
    let found = NonNull::new(attached.as_ptr());
    STATE.lock().attached.push(attached);
    Ok(found)
}

/// As shmdt(2). False: nothing that a core sees was attached there by [`attach`].
#[must_use]
pub fn detach(address: usize) -> bool {
    let mut state = STATE.lock();
    let mut attached = state.attached.iter();
    let found = attached.position(|attached| attached.address() == address);
    let found = found.map(|index| state.attached.swap_remove(index));
    // It is detached behind this, where no lock is held.
    drop(state);
    found.is_some()
}

/// As `IPC_RMID` of shmctl(2). False: no core sees the segment, or there is none. What other
/// commands say and change is the kernel's own segment.
///
/// # Errors
/// As shmctl(2).
pub fn remove(id: i32) -> Result<bool, SegmentError> {
    match segments_with(id)? {
        Some(segments) => segments.remove(id).map(|()| true),
        None => Ok(false),
    }
}

/// Does a core see the segment's bytes?
///
/// # Errors
/// [`SegmentError::NoSuchId`]: nor has the kernel one of that id; a table that cannot be read.
pub fn is_dual(id: i32) -> Result<bool, SegmentError> {
    if segments_with(id)?.is_some() {
        return Ok(true);
    }
    match system_v::status(id) {
        Ok(_) => Ok(false),
        // One that may not be read is there all the same.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ACCESS) => Ok(false),
        Err(_) => Err(SegmentError::NoSuchId { id }),
    }
}

/// Do all of these bytes lie in one segment that [`attach`] attached?
///
/// # Errors
/// [`SegmentError::NotAttached`].
pub fn check(address: usize, bytes: usize) -> Result<(), SegmentError> {
    let has = |attached: &Attached| {
        let offset = address.checked_sub(attached.address());
        let end = offset.and_then(|offset| offset.checked_add(bytes));
        end.is_some_and(|end| end <= attached.len())
    };
    match STATE.lock().attached.iter().any(has) {
        true => Ok(()),
        false => Err(SegmentError::NotAttached { address, bytes }),
    }
}

/// Where shmat(2) attaches, if the caller says where.
fn place(address: usize, flags: i32) -> Result<Option<usize>, SegmentError> {
    if flags & REPLACE != 0 {
        let reason = "what is mapped there is never replaced (SHM_REMAP)";
        return Err(SegmentError::BadAddress { address, reason });
    }
    if flags & EXECUTE != 0 {
        return Err(SegmentError::NotExecutable);
    }
    Ok(match (address, flags & ROUND_DOWN) {
        (0, _) => None,
        (_, 0) => Some(address),
        // SHMLBA is the page size on all that we run on.
        (_, _) => Some(address - address % page_size()),
    })
}

/// Those of the environment's pool.
fn segments() -> Result<Segments, SegmentError> {
    let pool = environment::text("HYTHE_POOL").unwrap_or_else(|| "default".to_owned());
    let board = environment::text("HYTHE_CORE");
    let options = PoolOptions::new(&pool);
    let stamp = PoolFiles::stamp(&options);
    let is_it =
        |known: &&Known| Some(known.stamp) == stamp && known.pool == pool && known.board == board;
    if let Some(known) = STATE.lock().known.as_ref().filter(is_it) {
        return Ok(known.segments.clone());
    }
    let segments = Segments::open(&Pool::open(&options)?, board.as_deref())?;
    if let Some(stamp) = stamp.filter(is_settled) {
        let known = Known {
            pool,
            board,
            stamp,
            segments: segments.clone(),
        };
        STATE.lock().known = Some(known);
    }
    Ok(segments)
}

/// A change from now on would show.
fn is_settled(stamp: &PoolStamp) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.is_ok_and(|now| stamp.changed().abs_diff(now) > RECENT)
}

/// The same, if the id is of one of them. Without a pool there are none.
fn segments_with(id: i32) -> Result<Option<Segments>, SegmentError> {
    match segments() {
        Ok(segments) => Ok(segments.knows(id)?.then_some(segments)),
        Err(SegmentError::NoArea { .. } | SegmentError::Pool(NodeError::NoSuchPool { .. })) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
