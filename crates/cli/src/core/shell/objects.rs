//! `objects` of the shell: the named semaphores and message queues of the pool, and what was lost.

use hythe::Pool;
use hythe::sync;
use hythe_terminal::escaped;
use serde::Serialize;

use crate::error::CliError;
use crate::output;

/// A semaphore or a queue.
#[derive(Serialize)]
pub(super) struct ObjectDocument {
    name: String,
    kind: &'static str,
    unlinked: bool,
    mode: String,
    /// Of a semaphore.
    value: Option<u32>,
    held: Option<u32>,
    /// Of a queue.
    messages: Option<u32>,
    waiting: u32,
    accepted: u32,
    delivered: u32,
    abandoned: u32,
    owners_died: u32,
    recovered: u32,
    untracked: u32,
}

/// All of them.
pub(super) fn list(pool: &Pool) -> Result<Vec<ObjectDocument>, CliError> {
    let listed = sync::list(pool).map_err(|error| CliError::Failed(error.to_string()))?;
    let documents = listed.into_iter().map(|object| {
        let (counts, is_queue) = (object.counts, object.is_queue);
        let of_semaphore = |count: u32| (!is_queue).then_some(count);
        ObjectDocument {
            name: object.name,
            kind: if is_queue { "queue" } else { "semaphore" },
            unlinked: object.is_unlinked,
            mode: format!("{:04o}", object.mode),
            value: of_semaphore(counts.value),
            held: of_semaphore(counts.held),
            messages: is_queue.then_some(counts.messages),
            waiting: counts.waiting,
            accepted: counts.accepted,
            delivered: counts.delivered,
            abandoned: counts.abandoned,
            owners_died: counts.owners_died,
            recovered: counts.recovered,
            untracked: counts.untracked,
        }
    });
    Ok(documents.collect())
}

/// For people.
pub(super) fn text(objects: &[ObjectDocument]) -> String {
    if objects.is_empty() {
        return "there are no semaphores and no queues\n".to_owned();
    }
    let rows = objects.iter().map(|object| {
        let unlinked = if object.unlinked { " (unlinked)" } else { "" };
        vec![
            format!("{}{unlinked}", escaped(&object.name)),
            object.kind.to_owned(),
            object.value.or(object.messages).unwrap_or(0).to_string(),
            object.held.unwrap_or(0).to_string(),
            object.waiting.to_string(),
            object.abandoned.to_string(),
            object.recovered.to_string(),
            object.untracked.to_string(),
        ]
    });
    let columns = [
        "NAME",
        "KIND",
        ">VALUE OR MESSAGES",
        ">HELD",
        ">WAITING",
        ">ABANDONED",
        ">RECOVERED",
        ">UNTRACKED",
    ];
    output::table(&columns, &rows.collect::<Vec<_>>())
}
