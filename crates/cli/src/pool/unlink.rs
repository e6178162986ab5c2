//! `hythe pool unlink`: takes the names of semaphores and message queues away.

use hythe::Node;
use hythe::sync::{self, MessageQueue, ObjectStatus, Semaphore};
use hythe_terminal::escaped;
use serde::Serialize;

use crate::args::{Globals, PoolUnlinkArgs};
use crate::error::CliError;
use crate::{output, units};

#[derive(Serialize)]
struct Document {
    unlinked: Vec<String>,
}

pub(crate) fn run(args: &PoolUnlinkArgs, globals: &Globals) -> Result<(), CliError> {
    let pool = globals.open()?;
    let failed = |error: sync::SyncError| CliError::Failed(error.to_string());
    let objects = sync::list(&pool).map_err(failed)?;
    let mut chosen = Vec::new();
    for name in &args.names {
        chosen.push(choose(&objects, name, args)?);
    }
    let node = Node::join(&pool, "hythe pool unlink")?;
    for object in &chosen {
        let unlinked = match object.is_queue {
            true => MessageQueue::unlink(&node, &object.name),
            false => Semaphore::unlink(&node, &object.name),
        };
        unlinked.map_err(failed)?;
    }
    let document = Document {
        unlinked: chosen.iter().map(|object| object.name.clone()).collect(),
    };
    output::print(globals.json, &document, |document| {
        format!(
            "unlinked {}",
            units::counted(document.unlinked.len() as u64, "object")
        )
    })
}

/// The one that a name means.
fn choose<'a>(
    objects: &'a [ObjectStatus],
    name: &str,
    args: &PoolUnlinkArgs,
) -> Result<&'a ObjectStatus, CliError> {
    let bare = name.trim_start_matches('/');
    let is_meant = |object: &&ObjectStatus| {
        let is_kind = match object.is_queue {
            true => !args.semaphore,
            false => !args.queue,
        };
        is_kind && !object.is_unlinked && object.name.trim_start_matches('/') == bare
    };
    let mut found = objects.iter().filter(is_meant);
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => Err(CliError::WrongUse(format!(
            "/{bare} is a semaphore and a message queue: say --semaphore or --queue",
            bare = escaped(&bare)
        ))),
        (None, _) => Err(CliError::Failed(format!(
            "there is no semaphore and no message queue /{} (`hythe list` shows those there are)",
            escaped(&bare)
        ))),
    }
}
