//! The thread that hears what tasks of this host say about flows.

use std::os::fd::AsFd as _;
use std::time::Duration;

use hythe_flows::message::FromProcess;
use hythe_flows::{Connection, Listener};
use hythe_sys::accept::Acceptor;
use rustix::event::{PollFd, PollFlags};

use super::context::Context;

/// How often the thread looks whether it is to stop.
const NAP: Duration = Duration::from_millis(200);
/// Messages of one process that are taken at once.
const MESSAGES_AT_ONCE: usize = 64;

/// Takes what processes say, until the agent stops.
pub(super) fn run(context: &Context, listener: &Listener) {
    let (flows, mut acceptor) = (&context.flows, Acceptor::default());
    let report = |error: &std::io::Error| {
        tracing::warn!(%error, "processes that connect get no flows, and send over the agent");
    };
    while !context.stops() {
        let connections = flows.processes();
        let files = connections.iter().map(|(_, connection)| connection.as_fd());
        let pause = acceptor.pause();
        let listening = pause.is_none().then(|| listener.as_fd());
        let mut files: Vec<PollFd<'_>> = files
            .chain(listening)
            .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
            .collect();
        let timeout = pause.map_or(NAP, |pause| pause.min(NAP));
        let _ = hythe_sys::wait::poll_or_sleep(&mut files, timeout);
        let is_ready = files.iter().map(|file| !file.revents().is_empty());
        let is_ready: Vec<bool> = is_ready.collect();
        while let Some(connection) = listener.accept(&mut acceptor, report) {
            flows.process_came(connection);
        }
        let ready = connections.iter().zip(is_ready).filter(|(_, ready)| *ready);
        for ((id, connection), _) in ready {
            if let Err(reason) = take(context, *id, connection) {
                tracing::debug!(reason, "a process has no flows any more");
                connection.close();
                flows.process_gone(*id);
            }
            context.note_all_changed();
        }
        for (id, connection) in flows.dead_processes(&context.options.pool) {
            // What it said last counts; the end of the connection may never come.
            let _ = take(context, id, &connection);
            connection.close();
            flows.process_gone(id);
            context.note_all_changed();
        }
    }
    flows.end_alone();
}

/// Takes what one process says. An error: it is gone, or says what makes no sense.
fn take(context: &Context, id: u64, connection: &Connection) -> Result<(), String> {
    for _ in 0..MESSAGES_AT_ONCE {
        let message = connection.receive::<FromProcess>();
        match message.map_err(|error| error.to_string())? {
            Some(message) => {
                let pool = &context.options.pool;
                context.flows.process_said(pool, id, message)?;
            }
            None => break,
        }
    }
    Ok(())
}
