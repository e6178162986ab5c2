//! Which wait set of this node waits for which port.
//!
//! Marks say which ports have something new. They are per participant, and a participant may have
//! several wait sets, each on a thread of its own. The wait set that takes the marks forwards those
//! of other wait sets to their inboxes, under one lock. A wait set that takes the lock afterwards
//! finds its marks in its inbox; one that takes it before finds them in the shared words. So no
//! mark is lost. Ports that close are forwarded in the same way. No list is longer than its wait
//! set has ports. Never touches a queue, never sleeps. In a forked child it never takes the lock,
//! which a thread of the parent may have held.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hythe_memory::Mapped;
use hythe_pool::{Control, MemberIndex, PortIndex};

/// A wait set of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitSetId(u64);

/// Where each port's marks go.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    last_id: u64,
    by_port: HashMap<PortIndex, Entry>,
    inboxes: HashMap<WaitSetId, Inbox>,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    wait_set: WaitSetId,
    /// Its place in the wait set.
    place: usize,
    /// In the wait set's inbox already.
    listed: bool,
}

/// What others have found out for a wait set.
#[derive(Debug, Default)]
struct Inbox {
    marked: Vec<PortIndex>,
    /// Places whose port is closed.
    gone: Vec<usize>,
}

impl Routes {
    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing in here panics halfway.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new wait set.
    pub(crate) fn enter(&self) -> WaitSetId {
        let table = &mut *self.lock();
        table.last_id += 1;
        let wait_set = WaitSetId(table.last_id);
        table.inboxes.insert(wait_set, Inbox::default());
        wait_set
    }

    /// A wait set that goes; `silence` is called for each port that it had, under the lock: as long
    /// as that is held, the port is nobody else's.
    pub(crate) fn exit(&self, wait_set: WaitSetId, mut silence: impl FnMut(PortIndex)) {
        let table = &mut *self.lock();
        table.inboxes.remove(&wait_set);
        let gone = table
            .by_port
            .extract_if(|_, entry| entry.wait_set == wait_set);
        gone.for_each(|(port, _)| silence(port));
    }

    /// Sends a port's marks to a place of a wait set, until [`Routes::end`] is called with the
    /// number that this returns. `None`: they go elsewhere already.
    pub(crate) fn open(&self, wait_set: WaitSetId, port: PortIndex, place: usize) -> Option<u64> {
        let table = &mut *self.lock();
        if table.by_port.contains_key(&port) {
            return None;
        }
        table.last_id += 1;
        let id = table.last_id;
        let entry = Entry {
            id,
            wait_set,
            place,
            listed: false,
        };
        table.by_port.insert(port, entry);
        if let Some(inbox) = table.inboxes.get_mut(&wait_set) {
            // Here, so that nothing on the way of a message allocates.
            inbox.marked.reserve(place + 1);
            inbox.gone.reserve(place + 1);
        }
        Some(id)
    }

    /// Whoever owned the port has closed it.
    pub(crate) fn end(&self, port: PortIndex, id: u64) {
        let table = &mut *self.lock();
        // The number may be on another way by now: the wait set has let go of this one first.
        if table.by_port.get(&port).is_some_and(|entry| entry.id == id)
            && let Some(entry) = table.by_port.remove(&port)
            && let Some(inbox) = table.inboxes.get_mut(&entry.wait_set)
        {
            inbox.gone.push(entry.place);
        }
    }

    /// Ends a port's way to a wait set, if that is where it goes; `silence` as for
    /// [`Routes::exit`].
    pub(crate) fn close(&self, wait_set: WaitSetId, port: PortIndex, silence: impl FnOnce()) {
        let table = &mut *self.lock();
        let entry = table.by_port.get(&port);
        if entry.is_some_and(|entry| entry.wait_set == wait_set) {
            table.by_port.remove(&port);
            silence();
        }
    }

    /// Takes this participant's marks and hands them out. Says which places of this wait set were
    /// marked, and which are gone.
    pub(crate) fn collect(
        &self,
        control: &Control<Mapped>,
        me: MemberIndex,
        wait_set: WaitSetId,
        mut marked: impl FnMut(usize),
        mut gone: impl FnMut(usize),
    ) {
        let Table {
            by_port, inboxes, ..
        } = &mut *self.lock();
        control.marks().take_marks(me, |port| {
            let Some(entry) = by_port.get_mut(&port) else {
                return;
            };
            if entry.wait_set == wait_set {
                marked(entry.place);
            } else if !entry.listed
                && let Some(inbox) = inboxes.get_mut(&entry.wait_set)
            {
                entry.listed = true;
                inbox.marked.push(port);
            }
        });
        let Some(inbox) = inboxes.get_mut(&wait_set) else {
            return;
        };
        for port in inbox.marked.drain(..) {
            if let Some(entry) = by_port
                .get_mut(&port)
                .filter(|entry| entry.wait_set == wait_set)
            {
                entry.listed = false;
                marked(entry.place);
            }
        }
        inbox.gone.drain(..).for_each(&mut gone);
    }
}

#[cfg(test)]
impl Routes {
    /// Ports whose marks go to a wait set.
    pub(crate) fn count(&self) -> usize {
        self.lock().by_port.len()
    }
}
