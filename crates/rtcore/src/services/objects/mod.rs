//! Semaphores and message queues for a core: sem_open(3), mq_open(3) and their families, as methods
//! of `core/services` and `core/messages`.
//!
//! The agent's participant has the objects open, and with the number of the core's task it is the
//! holder of what that task took: so it is a dead holder when the agent is dead, and the agent
//! makes it one when the task or the core is. A call that would wait is kept in a list, and looked
//! at when an object changes; no other call waits behind it. A message for the core stays in its
//! queue until the core has said that it has it ([`Deliveries`]).

mod deliveries;
mod handles;
mod names;
mod waits;
mod waker;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::core_services::method;
use hythe_abi::services::CallHeader;
use hythe_node::Node;
use hythe_node::hop::Participant;
use hythe_node::object::{Claimed, Deadline, MessageQueue, Semaphore, SyncError};
use rustix::io::Errno;

use super::call::{Answer, Call};
use super::{Kind, Serving};
use deliveries::{Deliveries, Delivery};
use handles::{Handles, Object};
use waits::{Wait, Waits};
pub(super) use waker::Waker;

/// The semaphores and queues of one life of a core.
#[derive(Debug)]
pub(super) struct CoreObjects {
    handles: Handles,
    waits: Waits,
    deliveries: Deliveries,
    participant: Arc<Participant>,
    /// Another process works on an object that a call waits for: when to look again.
    again: Option<Instant>,
}

/// How long a call of the core may stand still for a process that has an object and is stopped, or
/// lies; all other calls wait behind it.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same while the agent looks for a call that waits; then it looks again after so long.
const LOOK_PATIENCE: Duration = Duration::from_millis(1);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Why a call is refused.
#[derive(Debug)]
enum Refusal {
    /// It makes no sense.
    Call(Errno),
    Object(SyncError),
}

impl From<SyncError> for Refusal {
    fn from(error: SyncError) -> Self {
        Self::Object(error)
    }
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        Self::Call(error)
    }
}

impl Refusal {
    fn number(&self) -> Errno {
        match self {
            Self::Call(number) => *number,
            Self::Object(error) => Errno::from_raw_os_error(error.errno()),
        }
    }
}

/// What a look for a call that may wait gave.
enum Look {
    Done(Answer),
    Message(Claimed),
    NotYet,
}

impl CoreObjects {
    pub(super) fn begin(waker: Waker, participant: &Arc<Participant>) -> Self {
        participant.set_object_timeout(PATIENCE);
        Self {
            handles: Handles::default(),
            waits: Waits::new(waker),
            deliveries: Deliveries::default(),
            participant: Arc::clone(participant),
            again: None,
        }
    }

    /// Does what needs no wait.
    fn act(&mut self, call: &mut Call, node: &Node) -> Result<Answer, Refusal> {
        match call.header().method {
            method::SEM_UNLINK => Semaphore::unlink(node, &name_of(call)?)?,
            method::MQ_UNLINK => MessageQueue::unlink(node, &name_of(call)?)?,
            of_semaphores if of_semaphores < method::MQ_OPEN => {
                return self.act_on_semaphore(call, node);
            }
            _ => return self.act_on_queue(call, node),
        }
        Ok(Answer::DONE)
    }

    fn act_on_semaphore(&mut self, call: &mut Call, node: &Node) -> Result<Answer, Refusal> {
        let header = *call.header();
        let (handle, task) = (header.arguments[0], header.task);
        let value = match header.method {
            method::SEM_OPEN => {
                let opened = names::open_semaphore(node, &name_of(call)?, &header)?;
                self.handles.add(task, Object::Semaphore(opened))?
            }
            method::SEM_CLOSE => {
                self.handles.semaphore(handle)?.forget_holds_of(task)?;
                self.close(handle);
                0
            }
            method::SEM_POST => {
                self.handles.semaphore(handle)?.post_as(task)?;
                0
            }
            method::SEM_VALUE => self.handles.semaphore(handle)?.value()?,
            _ => self.handles.semaphore(handle)?.recover()?,
        };
        Ok(Answer::values([value, 0, 0, 0, 0]))
    }

    fn act_on_queue(&mut self, call: &mut Call, node: &Node) -> Result<Answer, Refusal> {
        let header = *call.header();
        let [handle, second, _] = header.arguments;
        match header.method {
            method::MQ_OPEN => {
                let opened = names::open_queue(node, &name_of(call)?, &header)?;
                let limits = [opened.messages_limit(), opened.message_bytes()];
                let number = self.handles.add(header.task, Object::queue(opened))?;
                Ok(Answer::values([number, limits[0], limits[1], 0, 0]))
            }
            method::MQ_CLOSE => {
                self.handles.queue(handle)?;
                self.close(handle);
                Ok(Answer::DONE)
            }
            method::MQ_NOTIFY => {
                self.handles.notify(handle, second != 0)?;
                Ok(Answer::DONE)
            }
            method::MQ_ATTRIBUTES => {
                let queued = self.handles.queue(handle)?.0.queued()?;
                self.answer_of(handle, queued)
            }
            _ => {
                let message = call.take_payload().ok_or(Errno::INVAL)?;
                self.handles.queue(handle)?.0.send_sample(message, second)?;
                self.answer_of(handle, 0)
            }
        }
    }

    /// What is answered about a queue, and whether its notification has come.
    fn answer_of(&mut self, handle: u32, value: u32) -> Result<Answer, Refusal> {
        let is_notified = self.handles.take_notified(handle)?;
        Ok(Answer::values([value, 0, 0, 0, u32::from(is_notified)]))
    }

    /// Looks once for a call that may wait, for so many milliseconds from now on.
    fn look_for(&mut self, call: &CallHeader, left_ms: u32) -> Result<Look, Refusal> {
        self.participant.set_object_timeout(LOOK_PATIENCE);
        let found = self.look_patiently(call, left_ms);
        self.participant.set_object_timeout(PATIENCE);
        if let Err(Refusal::Object(SyncError::Busy { .. })) = found {
            self.again = Some(Instant::now() + LOOK_AGAIN);
            return Ok(Look::NotYet);
        }
        found
    }

    fn look_patiently(&mut self, call: &CallHeader, left_ms: u32) -> Result<Look, Refusal> {
        let [handle, second, _] = call.arguments;
        match call.method {
            method::SEM_WAIT => {
                let semaphore = self.handles.semaphore(handle)?;
                match semaphore.wait_as(call.task, Deadline::Now) {
                    Ok(()) => Ok(Look::Done(Answer::default())),
                    Err(SyncError::TimedOut) => Ok(Look::NotYet),
                    Err(error) => Err(error.into()),
                }
            }
            method::MQ_RECEIVE => {
                let queue = &self.handles.queue(handle)?.0;
                let (bytes, limit) = (second as usize, queue.message_bytes() as usize);
                if bytes < limit {
                    return Err(SyncError::MessageSize { bytes, limit }.into());
                }
                Ok(queue.claim()?.map_or(Look::NotYet, Look::Message))
            }
            method::MQ_WAIT_SPACE => {
                if !self.handles.queue(handle)?.0.has_room()? {
                    return Ok(Look::NotYet);
                }
                self.answer_of(handle, left_ms).map(Look::Done)
            }
            _ => {
                let (_, registration) = self.handles.queue(handle)?;
                registration.ok_or(Errno::INVAL)?;
                let is_notified = self.handles.take_notified(handle)?;
                let notice = Look::Done(Answer::values([0, 0, 0, 0, 1]));
                Ok(if is_notified { notice } else { Look::NotYet })
            }
        }
    }

    /// A call that may wait: answered now, or put in the list.
    fn wait(&mut self, call: Call) {
        let header = *call.header();
        // The answer to the last one that this task waited for has not reached it: it died on the
        // way. Tasks that have no number are several.
        if header.method == method::MQ_RECEIVE && header.task != 0 {
            let is_its = |delivery: &Delivery| delivery.task == header.task;
            self.deliveries.give_up(&self.handles, is_its);
        }
        match self.look_for(&header, header.timeout_ms) {
            Ok(Look::NotYet) if header.timeout_ms == 0 => {
                call.answer(&Answer::refused(Errno::AGAIN));
            }
            Ok(Look::NotYet) if self.waits.is_full() => {
                call.answer(&Answer::refused(Errno::NOBUFS));
            }
            Ok(Look::NotYet) => self.waits.add(call, &self.handles),
            found => self.finish(call, found),
        }
    }

    fn finish(&mut self, call: Call, found: Result<Look, Refusal>) {
        match found {
            Ok(Look::Done(answer)) => call.answer(&answer),
            Ok(Look::Message(claimed)) => self.deliver(call, &claimed),
            Ok(Look::NotYet) => call.answer(&Answer::refused(Errno::TIMEDOUT)),
            Err(refusal) => call.answer(&Answer::refused(refusal.number())),
        }
    }

    /// Sends a message to the core.
    fn deliver(&mut self, call: Call, claimed: &Claimed) {
        let ([handle, ..], task) = (call.header().arguments, call.header().task);
        let is_notified = self.handles.take_notified(handle).unwrap_or_default();
        let Ok((queue, _)) = self.handles.queue(handle) else {
            return;
        };
        let (ticket, notified) = (claimed.ticket, u32::from(is_notified));
        // Handle and ticket stand where the core's confirmation has them.
        let values = [0, claimed.priority, handle, ticket, notified];
        let is_sent = call.answer_filled(values, claimed.len(), |lease, at| {
            queue.copy_claimed(claimed, lease, at)
        });
        if is_sent {
            self.deliveries.add(Delivery {
                handle,
                task,
                ticket,
            });
        } else if let Err(error) = queue.give_up(ticket) {
            tracing::error!(%error, "a message that the core does not get stays claimed");
        }
    }

    fn close(&mut self, handle: u32) {
        let is_its = |delivery: &Delivery| delivery.handle == handle;
        self.deliveries.give_up(&self.handles, is_its);
        for call in self
            .waits
            .take(&self.handles, |wait| wait.handle() == handle)
        {
            call.answer(&Answer::refused(Errno::BADF));
        }
        self.handles.remove(handle);
    }

    /// What a task of that number held is a dead holder's, or with `None` what all held.
    fn abandon_holds(&self, task: Option<u32>) -> u32 {
        let semaphores = self.handles.semaphores();
        let counts = semaphores.map(|semaphore| match semaphore.abandon_holds_of(task) {
            Ok(counts) => counts,
            Err(error) => {
                tracing::error!(%error, "holds of a core stay");
                0
            }
        });
        counts.sum()
    }

    fn is_waiting(method: u32) -> bool {
        matches!(
            method,
            method::SEM_WAIT | method::MQ_RECEIVE | method::MQ_WAIT_SPACE | method::MQ_NOTICE
        )
    }
}

impl Kind for CoreObjects {
    fn has(&self, method: u32) -> bool {
        (method::SEM_OPEN..=method::SEM_RECOVER).contains(&method)
            || (method::MQ_OPEN..=method::MQ_TAKEN).contains(&method)
    }

    fn serve(&mut self, mut call: Call, at: &mut Serving<'_>) {
        let header = *call.header();
        match header.method {
            method::MQ_TAKEN => {
                let [handle, ticket, _] = header.arguments;
                self.deliveries.confirm(&self.handles, handle, ticket);
                call.end_silently();
            }
            waiting if Self::is_waiting(waiting) => self.wait(call),
            _ => {
                let answer = self.act(&mut call, at.node).unwrap_or_else(|refusal| {
                    let number = refusal.number();
                    if let Refusal::Object(error) = refusal
                        && is_worth_a_line(number)
                    {
                        at.notes.add(&format!("refused to the core: {error}"));
                    }
                    Answer::refused(number)
                });
                call.answer(&answer);
            }
        }
        // What this call has changed, another task of the core may wait for.
        self.look();
    }

    fn look(&mut self) {
        let mut place = 0;
        self.again = None;
        while let Some(header) = self.waits.header(place) {
            let left_ms = self.waits.left_ms(place);
            let found = self.look_for(&header, left_ms);
            if matches!(found, Ok(Look::NotYet)) && left_ms != 0 {
                place += 1;
                continue;
            }
            let call = self.waits.remove(place, &self.handles);
            self.finish(call, found);
        }
        self.waits.tell_waker();
    }

    fn next_look(&self) -> Option<Instant> {
        let deadline = self.waits.first_deadline();
        deadline.into_iter().chain(self.again).min()
    }

    fn task_ended(&mut self, task: u32) -> String {
        drop(
            self.waits
                .take(&self.handles, |wait: &Wait| wait.task() == task),
        );
        let messages = self
            .deliveries
            .give_up(&self.handles, |delivery| delivery.task == task);
        let mut counts = self.abandon_holds(Some(task));
        let of_task = self.handles.of_task(task);
        for &handle in &of_task {
            // Nobody can post any more what other tasks have taken by it.
            if self.handles.is_last_of_semaphore(handle)
                && let Ok(semaphore) = self.handles.semaphore(handle)
            {
                counts += semaphore.abandon_holds_of(None).unwrap_or_default();
            }
            self.close(handle);
        }
        self.look();
        match (counts, messages, of_task.len()) {
            (0, 0, 0) => String::new(),
            (counts, messages, handles) => format!(
                "{counts} semaphore counts, {messages} messages and {handles} open semaphores and \
                 queues"
            ),
        }
    }

    fn forget(&mut self) -> Result<(), String> {
        self.waits.take(&self.handles, |_| true).clear();
        self.deliveries.give_up(&self.handles, |_| true);
        self.abandon_holds(None);
        self.handles.clear();
        self.waits.tell_waker();
        Ok(())
    }
}

fn name_of(call: &mut Call) -> Result<String, Refusal> {
    let payload = call.take_payload().ok_or(Errno::INVAL)?;
    names::read(&payload)
}

/// What the number does not tell.
fn is_worth_a_line(number: Errno) -> bool {
    matches!(
        number,
        Errno::NOSPC | Errno::NFILE | Errno::IO | Errno::TIMEDOUT
    )
}
