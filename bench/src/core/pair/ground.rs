//! The two kinds of segments and semaphores that a pair shares: the kernel's own, and ours in the
//! area that a core sees.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use hythe_node::object::{Deadline, Semaphore, SemaphoreOptions, SyncError};
use hythe_node::{Node, Pool, PoolOptions};
use hythe_rtcore::segment::{Access, Attached, Segments};

use super::super::case::word;
use crate::error::BenchError;
use crate::system_v::{Segment, Semaphores};

/// Whose segment and semaphores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Ours: `hythe::segment`, `hythe::sync::Semaphore`.
    Hythe,
    /// The kernel's own: `shmget`, `semtimedop`.
    Sysv,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&word(*self))
    }
}

/// Which semaphore: how many places are empty, how many are full.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Empty = 0,
    Full = 1,
}

/// Bytes and counts that two processes share.
pub(super) trait Ground: fmt::Debug {
    /// How the other process finds it, in words that [`attach`] understands.
    fn place(&self) -> String;
    /// The segment's id.
    fn segment(&self) -> i32;
    fn copy_in(&self, at: usize, from: &[u8]);
    fn copy_out(&self, at: usize, to: &mut [u8]);
    fn post(&self, count: Count) -> Result<(), BenchError>;
    /// False: it was 0 for all of `bound`.
    fn take(&self, count: Count, bound: Duration) -> Result<bool, BenchError>;
}

/// Makes it, with both counts 0. Ours is in the area of the pool's only core.
pub(super) fn make(kind: Kind, pool: &Pool, bytes: usize) -> Result<Box<dyn Ground>, BenchError> {
    Ok(match kind {
        Kind::Sysv => Box::new(Kernel {
            segment: Segment::create(bytes)?,
            semaphores: Semaphores::create(2)?,
        }),
        Kind::Hythe => Box::new(Ours::make(pool, bytes)?),
    })
}

/// What another process has made.
pub(super) fn attach(place: &str) -> Result<Box<dyn Ground>, BenchError> {
    let wrong = || BenchError::WrongUse(format!("`{place}` is no place"));
    let words: Vec<&str> = place.split(':').collect();
    let number = |word: &str| word.parse().map_err(|_| wrong());
    Ok(match words[..] {
        ["sysv", segment, semaphores] => Box::new(Kernel {
            segment: Segment::attach(number(segment)?)?,
            semaphores: Semaphores::open(number(semaphores)?),
        }),
        ["hythe", pool, segment] => {
            let pool = Pool::open(&PoolOptions::new(pool))?;
            let node = Node::join(&pool, "writer")?;
            Box::new(Ours::open(
                &pool,
                node,
                number(segment)?,
                &SemaphoreOptions::default(),
            )?)
        }
        _ => return Err(wrong()),
    })
}

#[derive(Debug)]
struct Kernel {
    segment: Segment,
    semaphores: Semaphores,
}

impl Ground for Kernel {
    fn place(&self) -> String {
        format!("sysv:{}:{}", self.segment(), self.semaphores.id())
    }

    fn segment(&self) -> i32 {
        self.segment.id()
    }

    fn copy_in(&self, at: usize, from: &[u8]) {
        self.segment.copy_in(at, from);
    }

    fn copy_out(&self, at: usize, to: &mut [u8]) {
        self.segment.copy_out(at, to);
    }

    fn post(&self, count: Count) -> Result<(), BenchError> {
        Ok(self.semaphores.post(count as u16)?)
    }

    fn take(&self, count: Count, bound: Duration) -> Result<bool, BenchError> {
        Ok(self.semaphores.take(count as u16, bound)?)
    }
}

/// Of a pool that goes with the run, and its names with it.
#[derive(Debug)]
struct Ours {
    pool: String,
    segment: Attached,
    semaphores: [Semaphore; 2],
}

pub(super) const NAMES: [&str; 2] = ["/empty", "/full"];
/// `IPC_CREAT`.
pub(in super::super) const CREATE: i32 = 0o1000;

impl Ours {
    fn make(pool: &Pool, bytes: usize) -> Result<Self, BenchError> {
        let node = Node::join(pool, "reader")?;
        for name in NAMES {
            match Semaphore::unlink(&node, name) {
                // Of the round before.
                Ok(()) | Err(SyncError::NoSuch { .. }) => {}
                Err(error) => return Err(refused(error)),
            }
        }
        let segments = Segments::open(pool, None).map_err(refused)?;
        let made = segments.get(0, bytes, CREATE | 0o600).map_err(refused)?;
        let options = SemaphoreOptions::default().create(0);
        let ours = Self::open(pool, node, made, &options)?;
        // From now on it goes with the last who has it attached; Linux lets others attach until
        // then.
        segments.remove(made).map_err(refused)?;
        Ok(ours)
    }

    fn open(
        pool: &Pool,
        node: Node,
        id: i32,
        options: &SemaphoreOptions,
    ) -> Result<Self, BenchError> {
        let segments = Segments::open(pool, None).map_err(refused)?;
        let open = |name| Semaphore::open(&node, name, options).map_err(refused);
        let [empty, full] = NAMES;
        Ok(Self {
            pool: pool.options().name().to_owned(),
            segment: segments.attach(id, Access::Write, None).map_err(refused)?,
            semaphores: [open(empty)?, open(full)?],
        })
    }
}

impl Ground for Ours {
    fn place(&self) -> String {
        format!("hythe:{}:{}", self.pool, self.segment())
    }

    fn segment(&self) -> i32 {
        self.segment.id()
    }

    fn copy_in(&self, at: usize, from: &[u8]) {
        self.segment.write(at, from);
    }

    fn copy_out(&self, at: usize, to: &mut [u8]) {
        self.segment.read(at, to);
    }

    fn post(&self, count: Count) -> Result<(), BenchError> {
        self.semaphores[count as usize].post().map_err(refused)
    }

    fn take(&self, count: Count, bound: Duration) -> Result<bool, BenchError> {
        match self.semaphores[count as usize].wait(Deadline::after(bound)) {
            Ok(()) => Ok(true),
            Err(SyncError::TimedOut | SyncError::Interrupted) => Ok(false),
            Err(error) => Err(refused(error)),
        }
    }
}

fn refused(error: impl fmt::Display) -> BenchError {
    BenchError::Unable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_places_are_refused() {
        for place in [
            "",
            "sysv",
            "sysv:1",
            "sysv:a:b",
            "hythe:pool:x",
            "other:1:2",
        ] {
            assert!(attach(place).is_err(), "{place}");
        }
    }
}
