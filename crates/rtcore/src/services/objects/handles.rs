//! What a core has open, by the numbers that it was told.

use hythe_node::object::{MessageQueue, Semaphore};
use rustix::io::Errno;

use super::Refusal;

/// Open at once, as files of a process; the next is refused with `EMFILE`.
const HANDLES_MAX: usize = 128;

/// One that is open.
#[derive(Debug)]
pub(super) struct Handle {
    number: u32,
    /// Who opened it; 0: a task that has no number, so it stays as long as the core.
    task: u32,
    object: Object,
}

/// What is open.
#[derive(Debug)]
pub(super) enum Object {
    Semaphore(Semaphore),
    /// With the number of the core's registration to be notified.
    Queue(MessageQueue, Option<u32>),
}

impl Object {
    pub(super) const fn queue(queue: MessageQueue) -> Self {
        Self::Queue(queue, None)
    }
}

/// All that are open.
#[derive(Debug, Default)]
pub(super) struct Handles {
    open: Vec<Handle>,
    last: u32,
}

impl Handles {
    /// A number for it, which no other had, until four thousand million were opened.
    pub(super) fn add(&mut self, task: u32, object: Object) -> Result<u32, Refusal> {
        if self.open.len() == HANDLES_MAX {
            return Err(Errno::MFILE.into());
        }
        self.last = self.last.wrapping_add(1).max(1);
        self.open.push(Handle {
            number: self.last,
            task,
            object,
        });
        Ok(self.last)
    }

    fn object(&self, number: u32) -> Result<&Object, Refusal> {
        let found = self.open.iter().find(|handle| handle.number == number);
        Ok(found.map(|handle| &handle.object).ok_or(Errno::BADF)?)
    }

    pub(super) fn semaphore(&self, number: u32) -> Result<&Semaphore, Refusal> {
        match self.object(number)? {
            Object::Semaphore(semaphore) => Ok(semaphore),
            Object::Queue(..) => Err(Errno::BADF.into()),
        }
    }

    pub(super) fn queue(&self, number: u32) -> Result<(&MessageQueue, Option<u32>), Refusal> {
        match self.object(number)? {
            Object::Queue(queue, registration) => Ok((queue, *registration)),
            Object::Semaphore(_) => Err(Errno::BADF.into()),
        }
    }

    pub(super) fn semaphores(&self) -> impl Iterator<Item = &Semaphore> {
        self.open.iter().filter_map(|handle| match &handle.object {
            Object::Semaphore(semaphore) => Some(semaphore),
            Object::Queue(..) => None,
        })
    }

    /// Those that a task has opened.
    pub(super) fn of_task(&self, task: u32) -> Vec<u32> {
        let own = self.open.iter().filter(|handle| handle.task == task);
        own.map(|handle| handle.number).collect()
    }

    /// Is it a semaphore that the core has open by no other number?
    pub(super) fn is_last_of_semaphore(&self, number: u32) -> bool {
        self.semaphore(number).is_ok_and(|one| {
            let same = self.semaphores().filter(|other| other.is_same(one));
            same.count() == 1
        })
    }

    /// Registers the core to be notified, or takes that back.
    pub(super) fn notify(&mut self, number: u32, wanted: bool) -> Result<(), Refusal> {
        let found = self.open.iter_mut().find(|handle| handle.number == number);
        let Some(Object::Queue(queue, registration)) = found.map(|handle| &mut handle.object)
        else {
            return Err(Errno::BADF.into());
        };
        if wanted {
            *registration = Some(queue.register_notification()?);
        } else if registration.take().is_some() {
            queue.forget_notification()?;
        }
        Ok(())
    }

    /// Has a message come that the core is to be notified of by this handle? Said once.
    pub(super) fn take_notified(&mut self, number: u32) -> Result<bool, Refusal> {
        let found = self.open.iter_mut().find(|handle| handle.number == number);
        let Some(Object::Queue(queue, place)) = found.map(|handle| &mut handle.object) else {
            return Err(Errno::BADF.into());
        };
        let is_notified = match *place {
            Some(registration) => queue.is_notified(registration)?,
            None => false,
        };
        if is_notified {
            *place = None;
        }
        Ok(is_notified)
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.open.retain_mut(|handle| {
            if handle.number == number {
                handle.object.forget_notification();
            }
            handle.number != number
        });
    }

    pub(super) fn clear(&mut self) {
        for handle in &mut self.open {
            handle.object.forget_notification();
        }
        self.open.clear();
    }
}

impl Object {
    fn forget_notification(&mut self) {
        if let Self::Queue(queue, registration) = self
            && registration.take().is_some()
            && let Err(error) = queue.forget_notification()
        {
            tracing::error!(%error, "a core stays registered to be notified");
        }
    }
}
