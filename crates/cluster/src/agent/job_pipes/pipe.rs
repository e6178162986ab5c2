//! Passes the bytes of a connection on, both ways, until either end closes or the session is over.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::session::Session;
use crate::Connection;
use crate::carrier::{ConnectionReceiver, ConnectionSender, Received};

/// How often a thread looks whether it is over.
const NAP: Duration = Duration::from_millis(100);
/// What is passed on at once.
const BYTES: usize = 16 << 10;
/// An end that takes nothing holds the other up, and not the agent: only the session's end, or
/// theirs, ends the wait.
const WITHOUT_BOUND: Duration = Duration::from_secs(365 * 24 * 3600);

/// Passes on until it is over; a second thread has one of the directions.
pub(super) fn run(session: &Arc<Session>, connection: Connection, local: UnixStream) {
    let is_over = Arc::new(AtomicBool::new(false));
    let Connection {
        mut sender,
        mut receiver,
        ..
    } = connection;
    let cloned = local.try_clone();
    let limited = local
        .set_read_timeout(Some(NAP))
        .and_then(|()| local.set_write_timeout(Some(NAP)));
    let Some((out, ())) = cloned.ok().zip(limited.ok()) else {
        return;
    };
    let (over, of) = (Arc::clone(&is_over), Arc::clone(session));
    let sending = hythe_sys::wait::spawn("hythe-host-tasks", move || {
        to_host(&mut *sender, &out, || {
            over.load(Ordering::Acquire) || of.is_over()
        });
        over.store(true, Ordering::Release);
        sender.close();
    });
    let Ok(sending) = sending else { return };
    to_process(&mut *receiver, &local, || {
        is_over.load(Ordering::Acquire) || session.is_over()
    });
    is_over.store(true, Ordering::Release);
    // Wakes the other one: what it reads has come to its end, and what it sends goes nowhere.
    let _ = local.shutdown(Shutdown::Both);
    drop(receiver);
    hythe_sys::wait::for_end_of(sending);
}

fn to_host(sender: &mut dyn ConnectionSender, mut from: &UnixStream, is_over: impl Fn() -> bool) {
    let mut bytes = vec![0; BYTES];
    while !is_over() {
        match from.read(&mut bytes) {
            Ok(0) => return,
            Ok(read) => {
                if sender.send(&[&bytes[..read]], WITHOUT_BOUND).is_err() {
                    return;
                }
            }
            Err(error) if is_pause(&error) => {}
            Err(_) => return,
        }
    }
}

fn to_process(
    receiver: &mut dyn ConnectionReceiver,
    mut to: &UnixStream,
    is_over: impl Fn() -> bool,
) {
    while !is_over() {
        let written = match receiver.receive(NAP) {
            Ok(Received::Bytes(bytes)) => match to.write(bytes) {
                Ok(written) => written,
                Err(error) if is_pause(&error) => 0,
                Err(_) => return,
            },
            Ok(Received::Nothing) => 0,
            Ok(Received::Closed) | Err(_) => return,
        };
        if written > 0 {
            receiver.consume(written);
        }
    }
}

fn is_pause(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::TimedOut
    )
}
