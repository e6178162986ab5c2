//! The named semaphores and message queues of a pool, and what was lost: in `hythe list`, `who`,
//! `top`, `pool show` and the shell of a core.

use hythe::Pool;
use hythe::sync;
use serde::Serialize;

use crate::error::CliError;
use crate::output;

/// What is shown of each; the count is the value of a semaphore, or the messages of a queue.
pub const COLUMNS: [&str; 8] = [
    "NAME",
    "KIND",
    ">COUNT",
    ">HELD",
    ">WAITING",
    ">ABANDONED",
    ">RECOVERED",
    ">UNTRACKED",
];

/// A semaphore or a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectDocument {
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
pub fn list(pool: &Pool) -> Result<Vec<ObjectDocument>, CliError> {
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

/// What of it holds something: a semaphore that was not posted, a queue with messages.
pub fn holding(objects: Vec<ObjectDocument>) -> Vec<ObjectDocument> {
    let holds = |object: &ObjectDocument| {
        let counts = [object.held, object.messages, Some(object.abandoned)];
        counts.into_iter().flatten().any(|count| count > 0)
    };
    objects.into_iter().filter(holds).collect()
}

/// Behind other tables: nothing where there are none.
pub fn section(objects: &[ObjectDocument]) -> String {
    match objects.is_empty() {
        true => String::new(),
        false => format!("\n{}", text(objects)),
    }
}

/// For people.
pub fn text(objects: &[ObjectDocument]) -> String {
    if objects.is_empty() {
        return "there are no semaphores and no queues\n".to_owned();
    }
    let rows: Vec<_> = objects.iter().map(row).collect();
    output::table(&COLUMNS, &rows)
}

/// An object as a row of [`COLUMNS`].
pub fn row(object: &ObjectDocument) -> Vec<String> {
    let unlinked = if object.unlinked { " (unlinked)" } else { "" };
    vec![
        format!("{}{unlinked}", object.name),
        object.kind.to_owned(),
        object.value.or(object.messages).unwrap_or(0).to_string(),
        object.held.unwrap_or(0).to_string(),
        object.waiting.to_string(),
        object.abandoned.to_string(),
        object.recovered.to_string(),
        object.untracked.to_string(),
    ]
}
