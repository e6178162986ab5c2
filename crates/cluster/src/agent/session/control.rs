//! The control connection of a session: one thread reads it, one writes it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hythe_node::monotonic_ns;

use super::{Session, channels, ends};
use crate::Connection;
use crate::agent::flows::FlowSession;
use crate::agent::link::MessageReader;
use crate::carrier::ConnectionSender;
use crate::error::ClusterError;
use crate::frame::{Control, encode};

/// Reads the connection until the session is over, and says why it is.
pub(super) fn run(session: &Arc<Session>, connection: Connection) -> ClusterError {
    let writing = Arc::clone(session);
    let member = session.threads.enter();
    let sender = connection.sender;
    let written = hythe_sys::wait::spawn("hythe-host-control", move || {
        let error = write(&writing, sender);
        writing.end_by(&error);
        drop(member);
    });
    match written {
        Ok(_) => read(session, MessageReader::new(connection.receiver)),
        Err(error) => error.into(),
    }
}

fn read(session: &Arc<Session>, mut reader: MessageReader) -> ClusterError {
    let lease = session.context.options.lease;
    loop {
        let read = reader.message(lease);
        if session.is_over() {
            return ClusterError::Over;
        }
        if let Err(error) = read.and_then(|message| act(session, message)) {
            return error;
        }
    }
}

fn act(session: &Arc<Session>, message: Control) -> Result<(), ClusterError> {
    match message {
        Control::KeepAlive { number } => session.outbox.echo(number),
        Control::Echo { number } => {
            let round_trip = monotonic_ns().saturating_sub(number);
            session.round_trip_ns.store(round_trip, Ordering::Relaxed);
        }
        Control::Acknowledge { stream, through } => {
            channels::acknowledged(session, stream, through)?;
        }
        Control::NotTaken {
            stream,
            messages,
            why,
        } => channels::not_taken(session, stream, messages, why)?,
        Control::Want(want) => channels::wanted(session, want)?,
        Control::Unwant { kind, channel } => channels::unwanted(session, kind, channel),
        Control::Refused {
            kind,
            channel,
            reason,
        } => channels::refused(session, kind, channel, reason)?,
        Control::Raise { channel, events } => channels::raised(session, &channel, events)?,
        Control::Ends(told) => ends::came(session, told)?,
        Control::LinkTrust { address } => session.trusted_there(address),
        flow @ (Control::FlowOffer(_)
        | Control::FlowWaits { .. }
        | Control::FlowTaken(_)
        | Control::FlowFinish { .. }
        | Control::FlowEnded { .. }) => {
            let of: Arc<dyn FlowSession> = session.clone();
            session.context.flows.came(&of, flow)?;
            // What is offered may be taken.
            session.note_change();
        }
        Control::Bye { reason } => return Err(ClusterError::Bye(reason)),
    }
    Ok(())
}

fn write(session: &Session, mut sender: Box<dyn ConnectionSender>) -> ClusterError {
    let lease = session.context.options.lease;
    let (mut messages, mut bytes) = (Vec::new(), Vec::new());
    let mut next_keep_alive = std::time::Instant::now();
    loop {
        let now = std::time::Instant::now();
        if now >= next_keep_alive {
            let number = monotonic_ns();
            messages.push(Control::KeepAlive { number });
            next_keep_alive = now + session.context.options.keep_alive();
        }
        let timeout = match messages.is_empty() {
            true => next_keep_alive - now,
            false => Duration::ZERO,
        };
        let is_open = session.outbox.take(timeout, &mut messages);
        if !is_open {
            let reason = super::lock(&session.reason).clone();
            messages.push(Control::Bye { reason });
        }
        bytes.clear();
        for message in messages.drain(..) {
            if let Err(error) = encode(&message, &mut bytes) {
                return error.into();
            }
        }
        if !bytes.is_empty()
            && let Err(error) = sender.send(&[&bytes], lease)
        {
            return error.into();
        }
        if !is_open {
            sender.close();
            return ClusterError::Over;
        }
    }
}
