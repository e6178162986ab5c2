//! What a subscriber has not taken of a flow: its depth and policy.

use std::collections::VecDeque;

use hythe_node::{PortPolicy, Sample};

/// Messages that have arrived, until the subscriber takes them.
#[derive(Debug)]
pub(crate) struct Queue<T = Sample> {
    entries: VecDeque<Entry<T>>,
    depth: usize,
    /// Places beyond the depth, for a publisher that waits.
    spare: usize,
    policy: PortPolicy,
    samples: usize,
}

/// A message with its number, or how many are missing there.
#[derive(Debug)]
pub(crate) enum Entry<T = Sample> {
    Sample(u64, T),
    Missed(u32),
}

impl<T> Queue<T> {
    pub(crate) fn new(depth: u32, policy: PortPolicy) -> Self {
        let depth = depth as usize;
        Self {
            entries: VecDeque::with_capacity(depth),
            depth,
            spare: 0,
            policy,
            samples: 0,
        }
    }

    pub(crate) fn push(&mut self, number: u64, sample: T) {
        let spare = match self.policy {
            PortPolicy::Block { .. } => self.spare,
            PortPolicy::EvictOldest | PortPolicy::DropNewest => 0,
        };
        if self.samples < self.depth + spare {
            self.samples += 1;
            self.entries.push_back(Entry::Sample(number, sample));
            return;
        }
        match self.policy {
            PortPolicy::EvictOldest => {
                self.evict();
                self.samples += 1;
                self.entries.push_back(Entry::Sample(number, sample));
            }
            // A publisher that waits is not granted more than there are places.
            PortPolicy::DropNewest | PortPolicy::Block { .. } => self.miss_last(),
        }
    }

    fn miss_last(&mut self) {
        match self.entries.back_mut() {
            Some(Entry::Missed(missed)) => *missed += 1,
            _ => self.entries.push_back(Entry::Missed(1)),
        }
    }

    /// The oldest message becomes one that is missing.
    fn evict(&mut self) {
        let mut missed = 0;
        while let Some(entry) = self.entries.pop_front() {
            match entry {
                Entry::Missed(more) => missed += more,
                Entry::Sample(..) => {
                    self.samples -= 1;
                    missed += 1;
                    break;
                }
            }
        }
        self.entries.push_front(Entry::Missed(missed));
    }

    pub(crate) fn pop(&mut self) -> Option<Entry<T>> {
        let entry = self.entries.pop_front()?;
        self.samples -= usize::from(matches!(entry, Entry::Sample(..)));
        Some(entry)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Are there at most as many messages as the depth says?
    pub(crate) fn has_depth_free(&self) -> bool {
        self.samples <= self.depth
    }

    /// From now on there are more places than the depth, for a publisher that waits.
    pub(crate) fn add_places(&mut self, places: usize) {
        self.spare = places;
    }

    /// The first message that is not dealt with.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::Sample(number, _) => Some(*number),
            Entry::Missed(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of so many messages; `Err`: so many are missing.
    fn left(policy: PortPolicy, messages: u64) -> (Option<u64>, Vec<Result<u64, u32>>) {
        let mut queue = Queue::new(3, policy);
        (0..messages).for_each(|number| queue.push(number, ()));
        let oldest = queue.oldest();
        let entries = std::iter::from_fn(|| queue.pop()).map(|entry| match entry {
            Entry::Sample(number, ()) => Ok(number),
            Entry::Missed(missed) => Err(missed),
        });
        (oldest, entries.collect())
    }

    #[test]
    fn policy_keeps_first_or_last_and_counts_others() {
        let (newest, oldest) = (PortPolicy::DropNewest, PortPolicy::EvictOldest);
        for policy in [newest, oldest] {
            assert_eq!(left(policy, 0), (None, vec![]));
            assert_eq!(left(policy, 3), (Some(0), vec![Ok(0), Ok(1), Ok(2)]));
        }
        let kept = vec![Ok(0), Ok(1), Ok(2), Err(4)];
        assert_eq!(left(newest, 7), (Some(0), kept));
        let kept = vec![Err(4), Ok(4), Ok(5), Ok(6)];
        assert_eq!(left(oldest, 7), (Some(4), kept));
    }

    #[test]
    fn queue_takes_again_what_it_has_space_for() {
        let mut queue = Queue::new(2, PortPolicy::DropNewest);
        (0..4).for_each(|number| queue.push(number, ()));
        assert!(matches!(queue.pop(), Some(Entry::Sample(0, ()))));
        queue.push(4, ());
        assert!(matches!(queue.pop(), Some(Entry::Sample(1, ()))));
        assert!(matches!(queue.pop(), Some(Entry::Missed(2))));
        assert!(matches!(queue.pop(), Some(Entry::Sample(4, ()))));
        assert!(queue.pop().is_none());
    }
}
