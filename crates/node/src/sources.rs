//! The sources of a port, taken from in turn.
//!
//! Used by subscribers, and by both ends of request/reply. Nonsense is passed over, at most as much
//! of it as one source can hold: what waits behind it is found at once, and a liar that keeps
//! writing does not keep us here.
//!
//! The sender of a source that drains may go on by another source: while there is one, what it has
//! comes before what the others have.

use hythe_pool::{PortStatistics, Taken};

use crate::NodeError;
use crate::port::Port;
use crate::transport::{
    Origin, PendingServer, Polled, SenderHost, Source, SourceState, StoredSource,
};
use crate::wait::WaitPlan;

/// The sources of a port.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    list: Vec<StoredSource>,
    /// So many, the first of the list, drain.
    draining: usize,
    next: usize,
    /// One has changed since the last update.
    have_changed: bool,
}

/// The place of a source, until the list changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceIndex(usize);

impl Sources {
    /// Finds new sources, and leaves those that have ended. False: some have left, and are not
    /// empty yet.
    pub(crate) fn update(&mut self, port: &Port, is_opening: bool) -> Result<bool, NodeError> {
        self.have_changed = false;
        port.find_sources(&mut self.list, is_opening)?;
        self.draining = 0;
        let mut index = 0;
        while let Some(source) = self.list.get_mut(index) {
            match source.state() {
                SourceState::Ended => {
                    // Where it led there may be another by now, which it has hidden.
                    self.have_changed = true;
                    self.list.remove(index).disconnect()?;
                }
                SourceState::Draining => {
                    self.list[self.draining..=index].rotate_right(1);
                    self.draining += 1;
                    index += 1;
                }
                SourceState::Open => index += 1,
            }
        }
        Ok(self.draining == 0)
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Has one agreed to a session since the last update, or ended?
    pub(crate) const fn have_changed(&self) -> bool {
        self.have_changed
    }

    /// What a client waits for, if there is anything.
    pub(crate) fn pending(&self) -> Option<PendingServer> {
        self.iter().find_map(Source::pending)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Source> {
        self.list.iter().map(|source| &**source)
    }

    /// Messages that fit all of them together.
    pub(crate) fn capacity(&self) -> u64 {
        self.iter().map(|source| u64::from(source.capacity())).sum()
    }

    /// Is the sender of one of them on another machine?
    pub(crate) fn some_is_elsewhere(&self) -> bool {
        self.iter().any(Source::is_elsewhere)
    }

    /// A wait for all of them looks again this often.
    pub(crate) fn nap(&self) -> std::time::Duration {
        let naps = self.iter().map(Source::nap);
        naps.min().unwrap_or(WaitPlan::LONGEST_NAP)
    }

    /// Takes the next reference, if there is one, and says from which source. Counts what was
    /// passed over, and what did not arrive.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        counted: &mut PortStatistics,
    ) -> Result<Option<(SourceIndex, Taken)>, Box<NodeError>> {
        if self.draining > 0 {
            return self.take_in_order(counted);
        }
        let mut looks = self.list.len();
        let mut nonsense = 0;
        while looks > 0 && !self.list.is_empty() {
            let index = if self.next < self.list.len() {
                self.next
            } else {
                0
            };
            let source = &mut self.list[index];
            self.next = index + 1;
            match source.poll() {
                Polled::Nothing => looks -= 1,
                Polled::Taken(taken) => {
                    let taken = with_missed(source, taken, counted);
                    return Ok(Some((SourceIndex(index), taken)));
                }
                passed_over @ (Polled::Missed(_) | Polled::Nonsense) => {
                    match passed_over {
                        Polled::Missed(messages) => counted.dropped += u64::from(messages),
                        _ => counted.violations += 1,
                    }
                    nonsense += 1;
                    if nonsense > source.capacity() {
                        looks -= 1;
                    } else {
                        self.next = index;
                    }
                }
                Polled::Broken => {
                    counted.violations += 1;
                    self.next = index;
                    looks -= 1;
                    let broken = self.list.swap_remove(index);
                    broken.disconnect().map_err(Box::new)?;
                }
                Polled::Changed => {
                    self.have_changed = true;
                    looks -= 1;
                }
                Polled::Refused(why) if self.list.len() == 1 => return Err(why),
                Polled::Refused(_) => looks -= 1,
            }
        }
        Ok(None)
    }

    /// The same where some drain.
    #[cold]
    fn take_in_order(
        &mut self,
        counted: &mut PortStatistics,
    ) -> Result<Option<(SourceIndex, Taken)>, Box<NodeError>> {
        // Before the others are looked at: their sender goes on by this one no sooner than they
        // have all that it sent before, so what this has by now comes behind what they have then.
        let open = self.draining..self.list.len();
        let (before, behind) = (open.start..self.next.max(open.start), self.next..open.end);
        let mut in_turn = behind.chain(before).filter(|index| open.contains(index));
        let other = in_turn.find(|&index| self.list[index].is_something_waiting());
        for index in (0..self.draining).chain(other) {
            let source = &mut self.list[index];
            for _ in 0..=source.capacity() {
                match source.poll() {
                    Polled::Taken(taken) => {
                        self.next = index + 1;
                        let taken = with_missed(source, taken, counted);
                        return Ok(Some((SourceIndex(index), taken)));
                    }
                    Polled::Missed(messages) => counted.dropped += u64::from(messages),
                    Polled::Nonsense => counted.violations += 1,
                    Polled::Nothing => break,
                    Polled::Changed => {
                        self.have_changed = true;
                        break;
                    }
                    Polled::Refused(why) if self.list.len() == 1 => return Err(why),
                    Polled::Refused(_) => break,
                    Polled::Broken => {
                        counted.violations += 1;
                        self.draining -= usize::from(index < self.draining);
                        self.list.remove(index).disconnect().map_err(Box::new)?;
                        return self.take(counted);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Where the source leads to that something was last taken from, until the list changes.
    pub(crate) fn last_origin(&self) -> Option<Origin> {
        let last = self.list.get(self.next.checked_sub(1)?)?;
        Some(last.origin())
    }

    /// On which host the sender is from which something was last taken, until the list changes.
    pub(crate) fn last_host(&self) -> SenderHost {
        let last = self
            .next
            .checked_sub(1)
            .and_then(|last| self.list.get(last));
        last.map_or(SenderHost::Forgotten, |source| source.host())
    }

    /// The source that something was just taken from.
    pub(crate) fn get(&self, index: SourceIndex) -> &dyn Source {
        &*self.list[index.0]
    }

    /// Leaves all of them; what waits in them is released. The first damage is the result.
    pub(crate) fn disconnect_all(&mut self) -> Result<(), NodeError> {
        let list = std::mem::take(&mut self.list);
        let left = list.into_iter().map(|source| source.disconnect());
        left.fold(Ok(()), Result::and)
    }
}

/// What was taken, with the number of messages that are missing in front of it; counts those that
/// have not been counted yet.
#[inline(always)]
fn with_missed(source: &mut StoredSource, mut taken: Taken, counted: &mut PortStatistics) -> Taken {
    taken.missed = source.missed_before();
    counted.dropped += u64::from(source.take_newly_missed());
    taken
}
