//! The open requests of a client: sent and not yet answered, or answered and not yet taken. Their
//! number is bounded.
//!
//! Used by `Client`. Bookkeeping only: never touches shared memory but for the samples it keeps.

use crate::ServerLoss;
use crate::buffer::Sample;

/// How a request ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Replied(Sample),
    GivenUp { server: String },
    Lost { server: String, reason: ServerLoss },
}

#[derive(Debug)]
pub(super) struct Table {
    limit: u32,
    last: u64,
    /// `None`: not answered yet. Few: a search is faster than a map.
    open: Vec<(u64, Option<Outcome>)>,
}

impl Table {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            limit,
            last: 0,
            open: Vec::with_capacity(limit as usize),
        }
    }

    pub(super) const fn limit(&self) -> u32 {
        self.limit
    }

    pub(super) const fn len(&self) -> usize {
        self.open.len()
    }

    /// A number for another request, if there may be one. Never 0, never one that was used.
    pub(super) fn next_number(&mut self) -> Option<u64> {
        if self.open.len() >= self.limit as usize {
            return None;
        }
        self.last += 1;
        Some(self.last)
    }

    /// The request was sent.
    pub(super) fn open(&mut self, number: u64) {
        self.open.push((number, None));
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.open.iter().any(|open| open.0 == number)
    }

    /// Keeps what became of a request until it is taken; gives it back if nobody waits for it.
    pub(super) fn close(&mut self, number: u64, outcome: Outcome) -> Result<(), Outcome> {
        match self.open.iter_mut().find(|open| open.0 == number) {
            Some((_, kept)) => {
                *kept = Some(outcome);
                Ok(())
            }
            None => Err(outcome),
        }
    }

    /// What became of this request, if that is known.
    pub(super) fn take(&mut self, number: u64) -> Option<Outcome> {
        let done = |open: &(u64, Option<Outcome>)| open.0 == number && open.1.is_some();
        let index = self.open.iter().position(done)?;
        self.open.swap_remove(index).1
    }

    /// What became of the earliest request of which that is known.
    pub(super) fn take_any(&mut self) -> Option<(u64, Outcome)> {
        let done = self.open.iter().filter(|open| open.1.is_some());
        let number = done.map(|open| open.0).min()?;
        self.take(number).map(|outcome| (number, outcome))
    }

    pub(super) fn forget(&mut self, number: u64) {
        self.open.retain(|open| open.0 != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> Outcome {
        Outcome::Lost {
            server: "s".to_owned(),
            reason: ServerLoss::Went,
        }
    }

    #[test]
    fn table_takes_as_many_as_it_may_and_no_number_twice() {
        let mut table = Table::new(2);
        let numbers = [(); 2].map(|()| table.next_number().expect("room"));
        numbers.iter().for_each(|&number| table.open(number));
        assert_eq!(table.next_number(), None);
        table.forget(numbers[0]);
        let next = table.next_number().expect("room again");
        assert!(!numbers.contains(&next));
        assert!(table.has(numbers[1]) && !table.has(numbers[0]));
    }

    #[test]
    fn outcomes_are_taken_once_the_earliest_first() {
        let mut table = Table::new(3);
        (1..=3).for_each(|number| table.open(number));
        assert!(table.take_any().is_none());
        assert!(table.close(3, lost()).is_ok() && table.close(2, lost()).is_ok());
        assert!(table.take(1).is_none(), "it is not answered");
        assert_eq!(table.take_any().map(|taken| taken.0), Some(2));
        assert!(table.take(3).is_some() && table.take(3).is_none());
        assert!(table.close(3, lost()).is_err(), "nobody waits for it");
        assert_eq!(table.len(), 1);
    }
}
