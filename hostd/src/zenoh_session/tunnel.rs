//! A stream of bytes over Zenoh, for two hosts between which there is no TCP way.
//!
//! A message goes to `hythe/tunnel/TO/FROM/NUMBER`: a kind, a position, bytes. The receiver grants
//! credit, so neither Zenoh's queues nor the buffers here ever hold more than a window of a tunnel.
//! What Zenoh loses is sent again. No lock is held while a message is given to Zenoh. Never proves
//! who is at the other end, nor hides anything: that is done by the TLS above it.

use std::io::{self, ErrorKind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use zenoh::qos::{CongestionControl, Priority};
use zenoh::{Session, Wait};

use super::flow::{End, Flow};
use super::message::Message;

/// One end of a tunnel, used by a thread that sends and one that receives.
#[derive(Debug)]
pub(crate) struct Tunnel {
    session: Session,
    /// Where messages to the other end go.
    key: String,
    flow: Mutex<Flow>,
    changed: Condvar,
}

impl Tunnel {
    pub(super) fn new(session: Session, key: String) -> Self {
        Self {
            session,
            key,
            flow: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// The other end is told that there is a tunnel.
    pub(super) fn open(&self) -> io::Result<()> {
        self.put(Message::Open)
    }

    /// Sends all bytes before `deadline`. By one thread.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if the other end does not consume, or the end of the tunnel.
    pub(crate) fn send_all(&self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            let (position, chunk) = self.take_credit(left, deadline)?;
            self.put(Message::Bytes(position, chunk))?;
            left = &left[chunk.len()..];
        }
        Ok(())
    }

    /// Takes what has come, waiting for it until `deadline`; 0 is the end.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if nothing came, or what broke the tunnel.
    pub(crate) fn receive(&self, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
        let mut flow = lock(&self.flow);
        while flow.is_empty() {
            match flow.end {
                Some(End::Here | End::There) => return Ok(0),
                Some(End::Broken) => return Err(ErrorKind::ConnectionReset.into()),
                None => flow = self.wait(flow, deadline)?,
            }
        }
        let (taken, grant) = flow.consume(into);
        drop(flow);
        if let Some(grant) = grant {
            self.put(Message::Taken(grant))?;
        }
        Ok(taken)
    }

    /// Ends both directions; whoever waits wakes.
    pub(crate) fn close(&self) {
        if self.end(End::Here) {
            // Where it does not arrive, what is announced there is answered with it again.
            let _ = self.put(Message::Close);
        }
    }

    /// Says what the callback could not, and sends again what was lost.
    pub(super) fn mend(&self) {
        loop {
            let mut flow = lock(&self.flow);
            let message = match flow.end {
                Some(End::Broken) => {
                    flow.end = Some(End::Here);
                    None
                }
                Some(_) => return,
                None => match (flow.owed(), flow.send_again()) {
                    (None, None) => break,
                    both => Some(both),
                },
            };
            drop(flow);
            let said = match message {
                None => self.put(Message::Close),
                Some((owed, again)) => owed
                    .map_or(Ok(()), |owed| self.put(Message::Taken(owed)))
                    .and_then(|()| {
                        again.map_or(Ok(()), |(position, chunk)| {
                            self.put(Message::Bytes(position, &chunk))
                        })
                    }),
            };
            if said.is_err() {
                return;
            }
        }
        self.changed.notify_all();
    }

    /// Says how far this end has sent, if the other has not said anything: it answers, and what
    /// was lost is missed, or granted again.
    pub(super) fn announce(&self) {
        let mut flow = lock(&self.flow);
        let sent = flow.end.is_none().then(|| flow.probe()).flatten();
        drop(flow);
        if let Some(sent) = sent {
            // It breaks the tunnel if it fails.
            let _ = self.put(Message::Bytes(sent, &[]));
        }
        self.mend();
    }

    /// Takes a message, and says whether [`mend`](Self::mend) has something to do. Called on a
    /// thread of Zenoh's: never waits.
    pub(super) fn take(&self, message: Message<'_>) -> bool {
        let mut flow = lock(&self.flow);
        if flow.end.is_some() {
            return false;
        }
        let is_sound = match message {
            Message::Open => true,
            Message::Bytes(position, bytes) => flow.take(position, bytes),
            Message::Taken(there) => flow.taken(there),
            Message::Close => {
                flow.end = Some(End::There);
                true
            }
        };
        if !is_sound {
            flow.end = Some(End::Broken);
        }
        let wants_mending = flow.wants_mending();
        drop(flow);
        self.changed.notify_all();
        wants_mending
    }

    /// Says whether it was not over before.
    fn end(&self, end: End) -> bool {
        let mut flow = lock(&self.flow);
        let is_first = flow.end.is_none();
        flow.end.get_or_insert(end);
        drop(flow);
        self.changed.notify_all();
        is_first
    }

    fn take_credit<'a>(&self, bytes: &'a [u8], deadline: Instant) -> io::Result<(u64, &'a [u8])> {
        let mut flow = lock(&self.flow);
        loop {
            if flow.end.is_some() {
                return Err(ErrorKind::BrokenPipe.into());
            }
            if let Some(chunk) = flow.send(bytes) {
                return Ok(chunk);
            }
            flow = self.wait(flow, deadline)?;
        }
    }

    fn wait<'a>(
        &'a self,
        flow: MutexGuard<'a, Flow>,
        deadline: Instant,
    ) -> io::Result<MutexGuard<'a, Flow>> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let waited = self.changed.wait_timeout(flow, left);
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    fn put(&self, message: Message<'_>) -> io::Result<()> {
        put(&self.session, &self.key, message).inspect_err(|_| {
            self.end(End::Broken);
        })
    }
}

/// Gives a message to Zenoh; never waits.
pub(super) fn put(session: &Session, key: &str, message: Message<'_>) -> io::Result<()> {
    let put = session.put(key, message.encode());
    // Where a queue is full, here or at a router, nobody may wait (`runtime`): what is dropped is
    // sent again.
    let put = put.congestion_control(CongestionControl::Drop);
    let put = put.priority(match message {
        Message::Bytes(..) | Message::Close => Priority::Data,
        // Bytes do not crowd out what makes place for them.
        Message::Open | Message::Taken(_) => Priority::InteractiveHigh,
    });
    put.express(true)
        .wait()
        .map_err(|error| io::Error::new(ErrorKind::ConnectionReset, error.to_string()))
}

/// A panic elsewhere leaves counts that are whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
