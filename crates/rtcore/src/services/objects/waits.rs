//! Calls of a core that wait: in the order in which they came, no more than [`WAITS_MAX`].

use std::time::{Duration, Instant};

use hythe_abi::core_services::{WAITS_MAX, method};
use hythe_abi::services::CallHeader;

use super::handles::Handles;
use super::waker::Waker;
use crate::services::call::Call;

/// A call that waits.
#[derive(Debug)]
pub(super) struct Wait {
    call: Call,
    deadline: Instant,
}

impl Wait {
    pub(super) const fn handle(&self) -> u32 {
        self.call.header().arguments[0]
    }

    pub(super) const fn task(&self) -> u32 {
        self.call.header().task
    }

    /// While a receiver waits, nobody is notified of a message.
    fn note(&self, handles: &Handles, waits: bool) {
        if self.call.header().method != method::MQ_RECEIVE {
            return;
        }
        let noted = handles
            .queue(self.handle())
            .map(|(queue, _)| queue.note_waiting(waits));
        if let Ok(Err(error)) = noted {
            tracing::error!(%error, "a queue does not know of a receiver of a core");
        }
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Waits {
    list: Vec<Wait>,
    waker: Waker,
}

impl Waits {
    pub(super) fn new(waker: Waker) -> Self {
        Self {
            list: Vec::with_capacity(WAITS_MAX),
            waker,
        }
    }

    pub(super) const fn is_full(&self) -> bool {
        self.list.len() >= WAITS_MAX
    }

    pub(super) fn add(&mut self, mut call: Call, handles: &Handles) {
        // The core gets its slot back meanwhile.
        drop(call.take_payload());
        let timeout = Duration::from_millis(call.header().timeout_ms.into());
        let deadline = Instant::now() + timeout;
        let wait = Wait { call, deadline };
        wait.note(handles, true);
        self.list.push(wait);
    }

    pub(super) fn header(&self, place: usize) -> Option<CallHeader> {
        self.list.get(place).map(|wait| *wait.call.header())
    }

    /// How long it may wait still; a begun millisecond is a whole one.
    pub(super) fn left_ms(&self, place: usize) -> u32 {
        let wait = self.list.get(place);
        let left = wait.map(|wait| wait.deadline.saturating_duration_since(Instant::now()));
        let millis = left.unwrap_or_default().as_nanos().div_ceil(1_000_000);
        u32::try_from(millis).unwrap_or(u32::MAX)
    }

    pub(super) fn first_deadline(&self) -> Option<Instant> {
        self.list.iter().map(|wait| wait.deadline).min()
    }

    pub(super) fn remove(&mut self, place: usize, handles: &Handles) -> Call {
        let wait = self.list.remove(place);
        wait.note(handles, false);
        wait.call
    }

    /// Takes those out of the list. Before their handles go.
    pub(super) fn take(
        &mut self,
        handles: &Handles,
        is_asked: impl Fn(&Wait) -> bool,
    ) -> Vec<Call> {
        let taken = self.list.extract_if(.., |wait| is_asked(wait));
        taken
            .map(|wait| {
                wait.note(handles, false);
                wait.call
            })
            .collect()
    }

    /// Wakes this thread behind each change while there are any.
    pub(super) fn tell_waker(&mut self) {
        self.waker.set(!self.list.is_empty());
    }
}
