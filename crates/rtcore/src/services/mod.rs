//! What an agent does for its core: the methods of `core/services` and `core/messages`
//! (`spec/services.md`).
//!
//! A program of a core that has these endpoints gets a thread of its agent, which joins the pool as
//! a server of them for one life of the core. Each kind of service has a file of its own and says
//! by a number of a method whether that is its own; what the core has of it (attached segments,
//! semaphores) stays until the core is dead, which is later than the end of the thread.
//!
//! Never waits for the core, but for its first answer, and for the end of the session where the
//! core is about to be ended. Never believes a number of the core: what is no call is counted as a
//! violation and given up, anything else that is wrong is refused with an error number.

mod call;
mod events;
mod notes;
mod objects;
mod segments;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use hythe_abi::core_services::{REQUEST_BYTES, TYPE_NAME, TYPE_VERSION, method};
use hythe_abi::services::BYTES;
use hythe_node::hop::{HopNode as _, HopPool as _, WaitPlan};
use hythe_node::{
    ChannelType, MemberIndex, Node, NodeError, Pool, PoolError, Request, Server, ServerOptions,
};
use hythe_pool::Identity;
use rustix::io::Errno;

use crate::link::{Life, LinkMap, NAP, ViolatedWord};
use crate::segment::CoreUser;
use crate::{LinkTimeouts, join_with};
use call::{Answer, Call};
use events::TaskEvents;
use notes::Notes;
use objects::{CoreObjects, Waker};
use segments::CoreSegments;

/// Requests of a core that may be unanswered: those of a task of its own each, and no more.
const DEPTH: u32 = 24;
/// Messages that it may send at once, in slots of the largest size.
const MESSAGES_DEPTH: u32 = 4;
/// How long a wait for the next request lasts, unless it is woken.
const SLICE: Duration = Duration::from_secs(1);
/// Between two tries to open the server.
const PAUSE: Duration = Duration::from_millis(250);
/// A core that is about to be ended is waited for no longer.
const LEAVING: Duration = Duration::from_millis(200);

/// One kind of service.
trait Kind: Send {
    /// Is the method one of its own?
    fn has(&self, method: u32) -> bool;

    /// Does what is asked, and answers, now or later.
    fn serve(&mut self, call: Call, at: &mut Serving<'_>);

    /// Looks whether calls that wait can be answered: an object has changed, or the time of
    /// [`next_look`](Self::next_look) has come.
    fn look(&mut self) {}

    /// When a call that waits has waited long enough.
    fn next_look(&self) -> Option<Instant> {
        None
    }

    /// A task of the core has ended: it has nothing any more. Returns what it had, in words; empty:
    /// nothing.
    fn task_ended(&mut self, task: u32) -> String;

    /// The core has begun anew, or is dead: it has nothing any more.
    fn forget(&mut self) -> Result<(), String>;
}

/// What the kinds of services need.
struct Serving<'a> {
    node: &'a Node,
    notes: &'a mut Notes,
}

/// Whom the services are for.
#[derive(Clone, Copy)]
pub(crate) struct Customer<'a> {
    /// The core's name in the pool.
    pub(crate) name: &'a str,
    /// Its process.
    pub(crate) identity: Identity,
    /// The channel of its endpoint for calls.
    pub(crate) channel: &'a str,
    /// The channel of its endpoint for messages, if it has one.
    pub(crate) messages: Option<&'a str>,
    /// Its row as a whole, where violations are counted.
    pub(crate) row: Option<MemberIndex>,
}

/// The services for one life of a core.
pub(crate) struct Services {
    /// Stays until the core is dead: what the core has is this participant's.
    node: Arc<Node>,
    pool: Pool,
    channel: String,
    messages: Option<String>,
    row: Option<MemberIndex>,
    kinds: Vec<Box<dyn Kind>>,
    notes: Notes,
    /// Raised when calls that wait are to be looked at.
    wakes: Arc<AtomicU32>,
}

/// What the thread finds to do.
enum Found {
    Request(Request),
    Wake,
}

/// What the endpoint carries, as its channel says.
pub(crate) fn carried() -> ChannelType {
    ChannelType {
        name: TYPE_NAME.to_owned(),
        bytes: BYTES as u32,
        align: 1,
        version: TYPE_VERSION,
    }
}

/// No core has this one's segments attached: its last life is over, and the next has not begun.
///
/// # Errors
/// Why what it had could not be taken from it.
pub(crate) fn begin_without_core(pool: &Pool, name: &str) -> Result<(), String> {
    segments::forget_earlier(pool, name)
}

impl Services {
    /// Joins the pool for a core. What there is to be told comes out of the receiver: lines for its
    /// log.
    pub(crate) fn begin(
        pool: &Pool,
        customer: Customer<'_>,
    ) -> Result<(Self, Receiver<String>), NodeError> {
        let timeouts = LinkTimeouts::default().flush(LEAVING).detach(LEAVING);
        let node = join_with(pool, &format!("services-{}", customer.name), timeouts)?;
        let user = CoreUser::new(customer.name, customer.identity);
        let (notes, lines) = Notes::begin();
        let wakes = Arc::new(AtomicU32::new(0));
        let waker = Waker::new(pool, node.index(), Arc::clone(&wakes));
        let services = Self {
            pool: pool.clone(),
            channel: customer.channel.to_owned(),
            messages: customer.messages.map(str::to_owned),
            row: customer.row,
            kinds: vec![
                Box::new(CoreSegments::begin(pool, user)),
                Box::new(CoreObjects::begin(waker, node.participant())),
                Box::new(TaskEvents::begin(customer.channel)),
            ],
            node: Arc::new(node),
            notes,
            wakes,
        };
        Ok((services, lines))
    }

    /// The participant to wake, so that [`Services::run`] sees that it is over.
    pub(crate) fn index(&self) -> MemberIndex {
        self.node.index()
    }

    /// Serves until `over`.
    pub(crate) fn run(&mut self, link: &LinkMap, over: &AtomicBool) {
        let node = Arc::clone(&self.node);
        let mut has_told = false;
        while !over.load(Ordering::Acquire) {
            let Err(error) = self.serve(&node, link, over) else {
                return;
            };
            if !std::mem::replace(&mut has_told, true) {
                self.notes.add(&format!("its services do not run: {error}"));
            }
            if is_final(&error) {
                return;
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    fn serve(&mut self, node: &Node, link: &LinkMap, over: &AtomicBool) -> Result<(), NodeError> {
        let options = ServerOptions::default().carries(carried());
        let calls = options.depth(DEPTH).request_bytes(REQUEST_BYTES);
        let mut servers = vec![node.server(&self.channel, &calls)?];
        if let Some(messages) = &self.messages {
            let options = ServerOptions::default().carries(carried());
            servers.push(node.server(messages, &options.depth(MESSAGES_DEPTH))?);
        }
        let mut life = None;
        let mut seen = self.wakes.load(Ordering::Acquire);
        // Once: it asks the kernel how this thread is scheduled.
        let plan = WaitPlan::for_processes().at_most(NAP);
        while !over.load(Ordering::Acquire) {
            match self.next((node, plan), &mut servers, &mut seen)? {
                Some(Found::Request(request)) => {
                    self.follow(&mut life, link.life());
                    match Call::of(request)? {
                        Some(call) => self.dispatch(call, node),
                        None => self.count_violation(),
                    }
                }
                // Woken, or the time of one that waits has come.
                Some(Found::Wake) | None => self.kinds.iter_mut().for_each(|kind| kind.look()),
            }
        }
        Ok(())
    }

    /// The next request. `None`: the time has come to look at calls that wait.
    fn next(
        &self,
        (node, plan): (&Node, WaitPlan),
        servers: &mut [Server],
        seen: &mut u32,
    ) -> Result<Option<Found>, NodeError> {
        let deadline = self.kinds.iter().filter_map(|kind| kind.next_look()).min();
        let bound = deadline.map_or(SLICE, |at| {
            SLICE.min(at.saturating_duration_since(Instant::now()))
        });
        node.participant().wait_for(plan, bound, || {
            // Requests first: a post does not wait until nothing changes any more.
            for server in &mut *servers {
                if let Some(request) = server.try_take()? {
                    return Ok(Some(Found::Request(request)));
                }
            }
            let wakes = self.wakes.load(Ordering::Acquire);
            let is_woken = std::mem::replace(seen, wakes) != wakes;
            Ok(is_woken.then_some(Found::Wake))
        })
    }

    /// A program that began anew in the same process has nothing of what it had before. A new
    /// session of the link alone takes nothing from it.
    fn follow(&mut self, seen: &mut Option<Life>, now: Option<Life>) {
        let Some(now) = now else { return };
        let before = seen.replace(now);
        if before.is_some_and(|before| now.is_restart_of(before)) {
            self.forget();
        }
    }

    fn dispatch(&mut self, call: Call, node: &Node) {
        let header = *call.header();
        if header.method == method::TASK_ENDED {
            self.task_ended(header.arguments[0]);
            return call.end_silently();
        }
        let notes = &mut self.notes;
        match self.kinds.iter_mut().find(|kind| kind.has(header.method)) {
            Some(kind) => kind.serve(call, &mut Serving { node, notes }),
            None => call.answer(&Answer::refused(Errno::NOSYS)),
        }
    }

    /// Tasks without a number are several, and none of them ends.
    fn task_ended(&mut self, task: u32) {
        if task == 0 {
            return;
        }
        let had = self.kinds.iter_mut().map(|kind| kind.task_ended(task));
        let had: Vec<String> = had.filter(|had| !had.is_empty()).collect();
        if !had.is_empty() {
            let line = format!("task {task} has ended: {} came back", had.join(", "));
            self.notes.add(&line);
        }
    }

    fn count_violation(&self) {
        if let Some(row) = self.row {
            let tables = self.pool.control().tables();
            tables.count_core_violations(row, 1, ViolatedWord::Call.to_number(), 0);
        }
    }

    fn forget(&mut self) {
        for kind in &mut self.kinds {
            if let Err(why) = kind.forget() {
                self.notes.add(&why);
            }
        }
    }

    /// The core is dead.
    pub(crate) fn end(mut self) {
        self.forget();
    }
}

/// Another version, or another kind of channel: it does not change while the core lives.
fn is_final(error: &NodeError) -> bool {
    matches!(
        error.refusal(),
        Some(PoolError::TypeMismatch(_) | PoolError::KindMismatch(_))
    )
}
