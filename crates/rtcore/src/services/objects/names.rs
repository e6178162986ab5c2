//! Names from a core, and how it opens what they name.

use hythe_abi::core_services::{O_CREATE, O_EXCLUSIVE, SEM_RECOVER};
use hythe_abi::services::CallHeader;
use hythe_node::object::{MessageQueue, MessageQueueOptions, Semaphore, SemaphoreOptions};
use hythe_node::{Node, Sample};
use rustix::io::Errno;

use super::Refusal;

/// No name is longer.
const NAME_BYTES_MAX: usize = 255;
/// Bits of `flags` of mq_open(3) that say for which directions.
const DIRECTIONS: u32 = 3;

pub(super) fn read(payload: &Sample) -> Result<String, Refusal> {
    if payload.len() > NAME_BYTES_MAX {
        return Err(Errno::NAMETOOLONG.into());
    }
    let name = String::from_utf8(payload.to_vec());
    Ok(name.map_err(|_| Errno::INVAL)?)
}

pub(super) fn open_semaphore(
    node: &Node,
    name: &str,
    call: &CallHeader,
) -> Result<Semaphore, Refusal> {
    let [mode, value, _] = call.arguments;
    check_flags(call, O_CREATE | O_EXCLUSIVE | SEM_RECOVER)?;
    let mut options = SemaphoreOptions::default();
    if call.flags & O_CREATE != 0 {
        options = options
            .create(value)
            .mode(mode)
            .recover(call.flags & SEM_RECOVER != 0)
            .exclusive(call.flags & O_EXCLUSIVE != 0);
    }
    Ok(Semaphore::open(node, name, &options)?)
}

pub(super) fn open_queue(
    node: &Node,
    name: &str,
    call: &CallHeader,
) -> Result<MessageQueue, Refusal> {
    let [mode, messages, message_bytes] = call.arguments;
    check_flags(call, O_CREATE | O_EXCLUSIVE | DIRECTIONS)?;
    let (receives, sends) = match call.flags & DIRECTIONS {
        0 => (true, false),
        1 => (false, true),
        2 => (true, true),
        _ => return Err(Errno::INVAL.into()),
    };
    let mut options = MessageQueueOptions::default().directions(receives, sends);
    if call.flags & O_CREATE != 0 {
        let limits = match (messages, message_bytes) {
            (0, 0) => (
                MessageQueueOptions::MESSAGES,
                MessageQueueOptions::MESSAGE_BYTES,
            ),
            limits => limits,
        };
        options = options
            .create(limits.0, limits.1)
            .mode(mode)
            .exclusive(call.flags & O_EXCLUSIVE != 0);
    }
    Ok(MessageQueue::open(node, name, &options)?)
}

fn check_flags(call: &CallHeader, known: u32) -> Result<(), Refusal> {
    if call.flags & !known == 0 {
        return Ok(());
    }
    Err(Errno::INVAL.into())
}
