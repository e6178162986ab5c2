//! What there is none left of, and who has it.

use std::fmt;
use std::time::Duration;

use hythe_pool::PoolError;
use hythe_terminal::escaped;

/// A limit that was met, and who has what it limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// What is full, and how large it is.
    pub cause: PoolError,
    /// The participants that have most of it.
    pub holders: Vec<Share>,
    /// Participants that have some of it and are not in `holders`.
    pub others: usize,
    /// What to do about it, where the pool is too small for what is asked of it.
    pub remedy: Option<LargerPool>,
}

/// A pool has fewer slots of a size than a sender and its receivers need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargerPool {
    /// How many receivers there are.
    pub receivers: usize,
    /// Slots that suffice for them.
    pub slots: u32,
    /// The size of a pool that has so many, in bytes.
    pub pool_bytes: usize,
}

/// What one participant has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// How much it has.
    pub count: u32,
    /// References that wait in queues to it (slots only).
    pub waiting: u32,
    /// Since when it holds the oldest (slots only).
    pub oldest: Option<Duration>,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.cause)?;
        let mut between = ": ";
        for share in &self.holders {
            write!(out, "{between}{share}")?;
            between = "; ";
        }
        match self.others {
            0 => {}
            others => write!(out, "{between}{others} more have some")?,
        }
        match &self.remedy {
            None => Ok(()),
            Some(larger) => write!(out, "; {larger}"),
        }
    }
}

impl fmt::Display for LargerPool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            receivers,
            slots,
            pool_bytes,
        } = self;
        let mib = pool_bytes >> 20;
        write!(
            out,
            "{receivers} receivers need {slots}: a pool of {mib} MiB has them"
        )
    }
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = escaped(&self.name);
        let Self {
            pid,
            count,
            waiting,
            oldest,
            ..
        } = self;
        if *count == 0 {
            return write!(out, "{waiting} wait for {name} (pid {pid})");
        }
        write!(out, "{name} (pid {pid}) has {count}")?;
        if let Some(oldest) = oldest {
            write!(out, ", the oldest for {:.1} s", oldest.as_secs_f64())?;
        }
        match waiting {
            0 => Ok(()),
            waiting => write!(out, ", and {waiting} wait for it"),
        }
    }
}
