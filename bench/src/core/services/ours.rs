//! Our services between two processes: one end of each.

use std::time::Duration;

use hythe_node::object::{
    Deadline, MessageQueue, MessageQueueOptions, Semaphore, SemaphoreOptions, SyncError,
};
use hythe_node::rpc::{Call, Caller};
use hythe_node::{
    Client, ClientOptions, Node, PendingReply, Pool, PoolOptions, Publisher, PublisherOptions,
    Sample, Server, ServerOptions, Subscriber, SubscriberOptions,
};

use super::case::{Case, Service, Wait};
use super::end::{End, Side, no_end};
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout, NAP};
use crate::payload::{fill, is_message};

/// The method of the far side: returns its argument.
const ECHO: u32 = 1;
/// Also names of channels.
pub(super) const NAMES: [&str; 2] = ["/there", "/back"];
const CALLS: &str = "calls";
/// Messages that a queue has places for.
const MESSAGES: u32 = 4;

/// Opens one end in the pool of that name.
pub(super) fn open(case: Case, side: Side, pool: &str) -> Result<Box<dyn End>, BenchError> {
    let node = join(case, side, pool)?;
    let buffer = vec![0; case.size];
    Ok(match (case.service, side) {
        (Service::Ping, _) => Box::new(Ping::open(node, side, buffer)?),
        (Service::Semaphore, _) => Box::new(Semaphores::open(node, side)?),
        (Service::Message, _) => Box::new(Queues::open(node, side, buffer)?),
        (Service::Call, Side::Near) => Box::new(Calling::open(&node, buffer)?),
        (Service::Call, Side::Far) => Box::new(Serving::open(&node, buffer)?),
        (Service::Segment, _) => return Err(no_end(case)),
    })
}

/// Takes part; as one that never spins where the case sleeps.
fn join(case: Case, side: Side, pool: &str) -> Result<Node, BenchError> {
    let options = PoolOptions::new(pool);
    let options = match case.wait {
        Wait::Adaptive => options,
        Wait::Block => options.spin(Duration::ZERO),
    };
    let name = match side {
        Side::Near => "near",
        Side::Far => "far",
    };
    Ok(Node::join(&Pool::open(&options)?, name)?)
}

/// Reads a message, into `buffer`.
pub(super) fn read(sample: &Sample, buffer: &mut [u8], number: u64) -> Result<(), BenchError> {
    read_as(sample, buffer, number, |_| ())
}

/// The same of one that `restore` makes what was sent.
fn read_as(
    sample: &Sample,
    buffer: &mut [u8],
    number: u64,
    restore: fn(&mut [u8]),
) -> Result<(), BenchError> {
    if sample.len() == buffer.len() {
        sample.read(0, buffer);
        restore(buffer);
        if is_message(buffer, number) {
            return Ok(());
        }
    }
    Err(BenchError::Damaged { number })
}

/// Waits for as long as it makes sense; `attempt` waits for a nap.
pub(super) fn until<T>(
    lookout: &Lookout,
    mut attempt: impl FnMut() -> Result<Option<T>, BenchError>,
) -> Result<T, BenchError> {
    let mut bounded_wait = BoundedWait::new(lookout);
    loop {
        match attempt()? {
            Some(got) => return Ok(got),
            None => bounded_wait.look_up()?,
        }
    }
}

fn refused(error: SyncError) -> BenchError {
    BenchError::Unable(error.to_string())
}

/// `None`: it has not come yet.
fn come<T>(waited: Result<T, SyncError>) -> Result<Option<T>, BenchError> {
    match waited {
        Ok(got) => Ok(Some(got)),
        Err(SyncError::TimedOut | SyncError::Interrupted) => Ok(None),
        Err(error) => Err(refused(error)),
    }
}

/// The floor: a channel each way.
#[derive(Debug)]
pub(super) struct Ping {
    publisher: Publisher,
    subscriber: Subscriber,
    buffer: Vec<u8>,
    _node: Node,
}

impl Ping {
    fn open(node: Node, side: Side, buffer: Vec<u8>) -> Result<Self, BenchError> {
        Self::over(node, side.order(["there", "back"]), buffer)
    }

    /// Over these channels, out and in.
    pub(super) fn over(
        node: Node,
        [outgoing, incoming]: [&str; 2],
        buffer: Vec<u8>,
    ) -> Result<Self, BenchError> {
        Ok(Self {
            publisher: node.publisher(outgoing, &PublisherOptions::default())?,
            subscriber: node.subscriber(incoming, &SubscriberOptions::default())?,
            buffer,
            _node: node,
        })
    }
}

impl End for Ping {
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        fill(&mut self.buffer, number);
        let bytes = self.buffer.len();
        let mut lease = self.publisher.lease(bytes)?;
        lease.write(0, &self.buffer);
        match self.publisher.publish(lease, bytes)?.delivered {
            1 => Ok(()),
            _ => Err(BenchError::Dropped { number }),
        }
    }

    fn receive(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        let sample = until(lookout, || Ok(self.subscriber.take(NAP)?))?;
        read(&sample, &mut self.buffer, number)
    }
}

/// A semaphore each way.
#[derive(Debug)]
pub(super) struct Semaphores {
    outgoing: Semaphore,
    incoming: Semaphore,
    /// Takes the names away.
    near: Option<Node>,
}

impl Semaphores {
    pub(super) fn open(node: Node, side: Side) -> Result<Self, BenchError> {
        let options = SemaphoreOptions::default().create(0);
        let open = |name| Semaphore::open(&node, name, &options).map_err(refused);
        let [outgoing, incoming] = side.order(NAMES);
        Ok(Self {
            outgoing: open(outgoing)?,
            incoming: open(incoming)?,
            near: (side == Side::Near).then_some(node),
        })
    }
}

impl End for Semaphores {
    fn send(&mut self, _number: u64) -> Result<(), BenchError> {
        self.outgoing.post().map_err(refused)
    }

    fn receive(&mut self, _number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        until(lookout, || come(self.incoming.wait(Deadline::after(NAP))))
    }
}

impl Drop for Semaphores {
    fn drop(&mut self) {
        if let Some(node) = &self.near {
            // Without a name already, or damaged: the run has failed then.
            let _ = NAMES.map(|name| Semaphore::unlink(node, name));
        }
    }
}

/// A message queue each way.
#[derive(Debug)]
pub(super) struct Queues {
    outgoing: MessageQueue,
    incoming: MessageQueue,
    buffer: Vec<u8>,
    /// Takes the names away.
    near: Option<Node>,
}

impl Queues {
    pub(super) fn open(node: Node, side: Side, buffer: Vec<u8>) -> Result<Self, BenchError> {
        // Fits: a page at most.
        let options = MessageQueueOptions::default().create(MESSAGES, buffer.len() as u32);
        let open = |name| MessageQueue::open(&node, name, &options).map_err(refused);
        let [outgoing, incoming] = side.order(NAMES);
        Ok(Self {
            outgoing: open(outgoing)?,
            incoming: open(incoming)?,
            buffer,
            near: (side == Side::Near).then_some(node),
        })
    }
}

impl End for Queues {
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        fill(&mut self.buffer, number);
        let sent = self.outgoing.send_copy(&self.buffer, 0, Deadline::Now);
        sent.map_err(refused)
    }

    fn receive(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        let received = until(lookout, || {
            come(self.incoming.receive(Deadline::after(NAP)))
        })?;
        read(&received.sample, &mut self.buffer, number)
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        if let Some(node) = &self.near {
            // As above.
            let _ = NAMES.map(|name| MessageQueue::unlink(node, name));
        }
    }
}

/// Who calls a method.
#[derive(Debug)]
pub(super) struct Calling {
    client: Client,
    pending: Option<PendingReply>,
    method: u32,
    /// Makes an argument of its result.
    restore: fn(&mut [u8]),
    buffer: Vec<u8>,
}

impl Calling {
    fn open(node: &Node, buffer: Vec<u8>) -> Result<Self, BenchError> {
        Self::of(node, (CALLS, ECHO), |_| (), buffer)
    }

    /// Calls that method over that channel; `restore` makes an argument of its result.
    pub(super) fn of(
        node: &Node,
        (channel, method): (&str, u32),
        restore: fn(&mut [u8]),
        buffer: Vec<u8>,
    ) -> Result<Self, BenchError> {
        Ok(Self {
            client: node.client(channel, &ClientOptions::default())?,
            pending: None,
            method,
            restore,
            buffer,
        })
    }
}

impl End for Calling {
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        fill(&mut self.buffer, number);
        let mut caller = Caller::new(&mut self.client);
        self.pending = Some(caller.begin(self.method, &self.buffer, NAP)?);
        Ok(())
    }

    fn receive(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        let pending = self.pending.take().ok_or(BenchError::Dropped { number })?;
        let mut caller = Caller::new(&mut self.client);
        let result = until(lookout, || Ok(caller.wait(pending, NAP)?))?;
        read_as(&result, &mut self.buffer, number, self.restore)
    }
}

/// Who serves it.
#[derive(Debug)]
struct Serving {
    server: Server,
    call: Option<Call>,
    buffer: Vec<u8>,
}

impl Serving {
    fn open(node: &Node, buffer: Vec<u8>) -> Result<Self, BenchError> {
        Ok(Self {
            server: node.server(CALLS, &ServerOptions::default())?,
            call: None,
            buffer,
        })
    }
}

impl End for Serving {
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        let call = self.call.take().ok_or(BenchError::Dropped { number })?;
        call.reply(&self.buffer)?;
        Ok(())
    }

    fn receive(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        let call = until(lookout, || Ok(Call::take(&mut self.server, NAP)?))?;
        read(call.argument(), &mut self.buffer, number)?;
        self.call = Some(call);
        Ok(())
    }
}
