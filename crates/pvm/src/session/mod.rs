//! A task in a machine: what PVM's functions do, but for pointers and what they call back.
//!
//! Of messages that come, those of output that is caught become text to print, those with a handler
//! are given to it, the others wait in the inbox. `F` is a handler.

mod groups;
mod mailboxes;
mod output;
mod receive;
mod reduce;
mod round;
mod send;
mod spawn;
mod tasks;

#[cfg(test)]
mod tests;

pub use output::OUTPUT_CONTEXT;
pub use receive::Active;
pub use reduce::{Operation, reduce};
pub use round::Round;
pub use spawn::SpawnPlace;
pub use tasks::Row;

use std::collections::{BTreeMap, VecDeque};

use crate::buffer::{Buffer, Buffers, Encoding};
use crate::code::Code;
use crate::handlers::Handlers;
use crate::inbox::Inbox;
use crate::machine::{Identity, Machine, Reply, Request};
use crate::options::{Opt, Options};
use crate::tid::Tid;
use output::Caught;
use round::Rounds;

/// Variables that tasks give to those that they spawn.
pub mod variables {
    /// The context in which a task begins.
    pub const CONTEXT: &str = "HYTHE_PVM_CONTEXT";
    /// Who gets what it prints: task, tag and context, with blanks between.
    pub const OUTPUT: &str = "HYTHE_PVM_OUTPUT";
    /// Its parent wants not to be known.
    pub const NO_PARENT: &str = "HYTHE_PVM_NO_PARENT";
    /// The hosts of those that were started together, by their ranks: numbers, with blanks between.
    pub const PLACES: &str = "HYTHE_PVM_PLACES";
    /// The number of its parent, with the host of that.
    pub const PARENT: &str = "HYTHE_PVM_PARENT";
    /// PVM's: names of variables that spawned tasks get, by colons.
    pub const EXPORT: &str = "PVM_EXPORT";
}

/// What has to be done before a call goes on.
#[derive(Debug)]
pub enum Event<F> {
    /// A message was taken in.
    Message,
    /// A handler is to be called with this buffer, between [`Session::begin_handler`] and
    /// [`Session::end_handler`].
    Handle(F, i32),
    /// Text of other tasks is to be printed where [`Session::catch_output`] said.
    Print(Vec<u8>),
}

/// A task in a machine.
#[derive(Debug)]
pub struct Session<F> {
    /// Its buffers.
    pub buffers: Buffers,
    /// Its options.
    pub options: Options,
    /// What is called for which messages.
    pub handlers: Handlers<F>,
    machine: Box<dyn Machine>,
    inbox: Inbox,
    /// Messages that were sent to itself.
    own: VecDeque<Vec<u8>>,
    own_bytes: usize,
    /// Messages of the inbox that were looked at, and their numbers as buffers.
    probed: BTreeMap<u64, i32>,
    context: i32,
    /// Where a task was spawned last.
    last_place: Option<Tid>,
    has_hidden_parent: bool,
    caught: Caught,
    /// Members, by their numbers, of groups that this task is in and nobody joins any more: what is
    /// kept here needs no question, as in PVM.
    frozen: BTreeMap<String, Vec<(i32, Tid)>>,
    /// Of those that all members froze at once.
    rounds: BTreeMap<String, Rounds>,
    /// What members of groups say at barriers.
    words: VecDeque<Buffer>,
    /// Messages that made no sense.
    violations: u64,
}

impl<F: Clone> Session<F> {
    /// The task that a machine says; `variable` gives what its parent set for it.
    pub fn new(machine: Box<dyn Machine>, variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |text: &str| text.parse::<i32>().ok();
        let context = variable(variables::CONTEXT).and_then(|text| number(&text));
        let mut options = Options::default();
        if let Some(output) = variable(variables::OUTPUT) {
            let words = output.split(' ').map(number);
            let places = [
                Opt::SELF_OUTPUT_TID,
                Opt::SELF_OUTPUT_CODE,
                Opt::SELF_OUTPUT_CONTEXT,
            ];
            for (option, word) in places.into_iter().zip(words) {
                options.assign(option, word.unwrap_or(0));
            }
        }
        Self {
            buffers: Buffers::default(),
            options,
            handlers: Handlers::default(),
            machine,
            inbox: Inbox::default(),
            own: VecDeque::new(),
            own_bytes: 0,
            probed: BTreeMap::new(),
            context: context.filter(|context| *context >= 0).unwrap_or(0),
            last_place: None,
            has_hidden_parent: variable(variables::NO_PARENT).is_some(),
            caught: Caught::default(),
            frozen: BTreeMap::new(),
            rounds: BTreeMap::new(),
            words: VecDeque::new(),
            violations: 0,
        }
    }

    /// Its own number.
    #[must_use]
    pub fn task(&self) -> Tid {
        self.identity().task
    }

    /// Who spawned it.
    ///
    /// # Errors
    /// [`Code::NO_PARENT`], [`Code::PARENT_NOT_SET`].
    pub fn parent(&self) -> Result<i32, Code> {
        match (self.identity().parent, self.has_hidden_parent) {
            (Some(_), true) => Err(Code::PARENT_NOT_SET),
            (Some(parent), false) => Ok(parent.number()),
            (None, _) => Err(Code::NO_PARENT),
        }
    }

    /// Who was started with it, itself included.
    #[must_use]
    pub fn siblings(&self) -> &[Tid] {
        &self.identity().siblings
    }

    /// A new buffer: its number.
    pub fn new_buffer(&mut self, encoding: Encoding) -> i32 {
        let mut buffer = Buffer::new(encoding);
        buffer.info.source = self.task().number();
        self.buffers.insert(buffer)
    }

    /// Begins a new message in place of the active one: its number.
    pub fn begin_send(&mut self, encoding: Encoding) -> i32 {
        let begun = self.buffers.begin_send(encoding);
        let own = self.task().number();
        if let Ok(buffer) = self.buffers.sending() {
            buffer.info.source = own;
        }
        begun
    }

    /// In which context it sends and receives.
    #[must_use]
    pub const fn context(&self) -> i32 {
        self.context
    }

    /// Sends and receives in another; what it was. Any will do.
    pub const fn set_context(&mut self, context: i32) -> i32 {
        std::mem::replace(&mut self.context, context)
    }

    /// A context that nobody has.
    ///
    /// # Errors
    /// [`Code::OUT_OF_RESOURCES`], [`Code::SYSTEM`].
    pub fn new_context(&mut self) -> Result<i32, Code> {
        self.ask_number(Request::NewContext)
    }

    /// Gives one up.
    ///
    /// # Errors
    /// [`Code::NOT_FOUND`]: it is nobody's.
    pub fn free_context(&mut self, context: i32) -> Result<i32, Code> {
        self.ask_number(Request::FreeContext { context })
    }

    /// Messages that came and made no sense.
    #[must_use]
    pub const fn violations(&self) -> u64 {
        self.violations
    }

    fn identity(&self) -> &Identity {
        self.machine.identity()
    }

    fn ask_number(&mut self, request: Request) -> Result<i32, Code> {
        number(self.machine.ask(request)?)
    }
}

fn number(reply: Reply) -> Result<i32, Code> {
    match reply {
        Reply::Number(number) => Ok(number),
        Reply::Refused(code) => Err(code),
        _ => Err(Code::BAD_MESSAGE),
    }
}
