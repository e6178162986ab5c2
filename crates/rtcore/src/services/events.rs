//! What happens to tasks of a core, told to Linux: a line in the core's log, and an event for those
//! who listen on the channel `core/events`.
//!
//! The channel is that of `core/services` with another end, and is opened with the first event: a
//! core that has none needs no port. Whoever wants more than the event asks for the core's tasks.

use hythe_abi::control::NAME_BYTES;
use hythe_abi::core_services::{ENDPOINT, EVENT_TASK_FAULTED, EVENTS, method};
use hythe_abi::services::CallHeader;
use hythe_node::{EventId, Node, NodeError, Notifier, Sample};

use super::call::Call;
use super::{Kind, Serving};
use crate::tasks::TaskFault;

/// The events of one life of a core.
#[derive(Debug)]
pub(super) struct TaskEvents {
    channel: String,
    notifier: Option<Notifier>,
}

impl TaskEvents {
    /// Of a core whose services have that channel.
    pub(super) fn begin(services: &str) -> Self {
        let prefix = services.strip_suffix(ENDPOINT).unwrap_or_default();
        Self {
            channel: format!("{prefix}{EVENTS}"),
            notifier: None,
        }
    }

    fn raise(&mut self, node: &Node, event: EventId) -> Result<(), NodeError> {
        let notifier = match &mut self.notifier {
            Some(notifier) => notifier,
            none => none.insert(node.notifier(&self.channel)?),
        };
        notifier.notify(event).map(drop)
    }
}

impl Kind for TaskEvents {
    fn has(&self, method: u32) -> bool {
        method == method::TASK_EVENT
    }

    fn serve(&mut self, mut call: Call, at: &mut Serving<'_>) {
        let name = call.take_payload().as_ref().and_then(name_of);
        let told = name.and_then(|name| line(call.header(), &name));
        call.end_silently();
        let (Some(line), Some(event)) = (told, EventId::new(EVENT_TASK_FAULTED)) else {
            return at.notes.add("what it told of a task makes no sense");
        };
        at.notes.add(&line);
        if let Err(error) = self.raise(at.node, event) {
            at.notes
                .add(&format!("no event on {}: {error}", self.channel));
        }
    }

    fn task_ended(&mut self, _: u32) -> String {
        String::new()
    }

    fn forget(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// The name behind a call, from a copy. `None`: too long for one.
fn name_of(payload: &Sample) -> Option<String> {
    (payload.len() <= NAME_BYTES).then(|| {
        let bytes = payload.to_vec();
        String::from_utf8_lossy(&bytes).escape_debug().to_string()
    })
}

/// What the log says. `None`: it tells of no fault.
fn line(header: &CallHeader, name: &str) -> Option<String> {
    let [address, pc, _] = header.arguments;
    let fault = TaskFault::of(header.flags, address, pc)?;
    let number = header.task;
    Some(format!("task {name} ({number}) was stopped: {fault}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_has_the_core_s_own_name_in_front() {
        let channel = |services| TaskEvents::begin(services).channel;
        assert_eq!(channel("core/services"), "core/events");
        assert_eq!(channel("left/core/services"), "left/core/events");
    }

    #[test]
    fn line_says_what_a_task_did_and_where() {
        let header = CallHeader {
            task: 8,
            flags: 2,
            arguments: [0x21A0_0000, 0x152F4, 0],
            ..CallHeader::default()
        };
        let said = line(&header, "guest").expect("a fault");
        assert_eq!(
            said,
            "task guest (8) was stopped: write at 0x21a00000, instruction at 0x000152f4"
        );
        let without = CallHeader {
            flags: 4,
            arguments: [0x2000_0000, 0, 0],
            ..header
        };
        let said = line(&without, "guest").expect("a fault");
        assert_eq!(said, "task guest (8) was stopped: stack at 0x20000000");
        let none = CallHeader { flags: 0, ..header };
        assert_eq!(line(&none, "guest"), None);
    }
}
