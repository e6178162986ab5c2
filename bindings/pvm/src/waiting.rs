//! How calls wait: for messages, or for a reply that comes only when others have done something.
//!
//! A signal handler that runs meanwhile may use the session, as programs expect that do their last
//! things when they are interrupted. So the session is taken for short times only, and no handler
//! runs within one of them: signals are blocked from before it is taken until it is let go.

use std::time::{Duration, Instant};

use hythe_pvm::SignalsBlocked;
use hythe_pvm::code::Code;
use hythe_pvm::machine::Reply;
use hythe_pvm::session::Event;

use crate::guard::{Handler, Held, Parked, Session, call_back};
use crate::output;

/// For how long the session is not given to other threads, nor to signal handlers.
pub(crate) const SLICE: Duration = Duration::from_millis(20);
/// A message that comes sooner costs no system calls for signals.
const BRIEF: Duration = Duration::from_micros(200);
/// Taken in by a call whose time is over, at most: those who go on sending do not keep it.
pub(crate) const TAKEN_MAX: u32 = 1024;

/// The wait of one call.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Nothing has come for a moment.
    waits: bool,
}

/// The session, while this thread uses it in a wait.
pub(crate) struct Turn {
    // Dropped first: a handler that waits for its signal runs when the session is nobody's.
    held: Held,
    _blocked: Option<SignalsBlocked>,
}

impl Turn {
    pub(crate) fn session(&mut self) -> Result<&mut Session, Code> {
        self.held.session()
    }

    fn existing(&mut self) -> Option<&mut Session> {
        self.held.existing()
    }
}

/// What has come.
type Pulled = Option<Event<Handler>>;

impl Waiting {
    /// For what takes a while in any case.
    pub(crate) const fn long() -> Self {
        Self { waits: true }
    }

    /// The session, for a look or a slice of the wait.
    pub(crate) fn take(&self) -> Result<Turn, Code> {
        let blocked = self.waits.then(SignalsBlocked::new);
        Ok(Turn {
            held: Held::take()?,
            _blocked: blocked,
        })
    }

    /// Takes in the next message, within the time that is left and a slice.
    pub(crate) fn pull(&mut self, session: &mut Session, left: Duration) -> Result<Pulled, Code> {
        let longest = match self.waits {
            true => SLICE,
            false => BRIEF,
        };
        let event = session.pull(left.min(longest))?;
        self.waits |= event.is_none();
        Ok(event)
    }
}

/// Takes in messages until `look` finds one. `None`: `timeout` is over.
pub(crate) fn wait<T>(
    timeout: Option<Duration>,
    look: impl FnMut(&mut Session) -> Option<T>,
) -> Result<Option<T>, Code> {
    wait_on(&mut Waiting::default(), timeout, look)
}

/// The same for a part of a longer wait.
pub(crate) fn wait_on<T>(
    waiting: &mut Waiting,
    timeout: Option<Duration>,
    mut look: impl FnMut(&mut Session) -> Option<T>,
) -> Result<Option<T>, Code> {
    let start = Instant::now();
    let mut taken = 0;
    loop {
        let mut turn = waiting.take()?;
        let session = turn.session()?;
        if timeout != Some(Duration::ZERO)
            && let Some(found) = look(session)
        {
            return Ok(Some(found));
        }
        let left = timeout.map_or(SLICE, |timeout| timeout.saturating_sub(start.elapsed()));
        let event = match waiting.pull(session, left) {
            // Among those that are kept it may be; what is behind them never comes.
            Err(Code::OUT_OF_RESOURCES) => {
                let found = look(session);
                return found.map(Some).ok_or(Code::OUT_OF_RESOURCES);
            }
            event => event?,
        };
        if event.is_none() {
            // What a look without waiting takes in comes before it.
            if let Some(found) = look(session) {
                return Ok(Some(found));
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
        drop(turn);
        if let Some(event) = event {
            react(event, waiting)?;
            taken += 1;
        }
        if left.is_zero() && taken >= TAKEN_MAX {
            return Ok(look(waiting.take()?.session()?));
        }
    }
}

/// Asks the machine for what it may reply to only when others have done something, and waits for
/// that. Meanwhile a signal handler may do all but ask the machine for something else.
pub(crate) fn ask_others<T>(
    begin: impl FnOnce(&mut Session) -> Result<(), Code>,
    end: impl FnOnce(&mut Session, Reply) -> Result<T, Code>,
) -> Result<T, Code> {
    let waiting = Waiting::long();
    let mut turn = waiting.take()?;
    begin(turn.session()?)?;
    let _parked = Parked::new();
    drop(turn);
    loop {
        let mut turn = waiting.take()?;
        // A handler may have left the machine.
        let session = turn.existing().ok_or(Code::SYSTEM)?;
        if let Some(reply) = session.reply(SLICE)? {
            return end(session, reply);
        }
    }
}

/// What an event asks for, while the session is nobody's.
pub(crate) fn react(event: Event<Handler>, waiting: &Waiting) -> Result<(), Code> {
    match event {
        Event::Message => Ok(()),
        Event::Print(text) => {
            output::print(&text);
            Ok(())
        }
        Event::Handle(handler, buffer) => {
            let before = waiting.take()?.session()?.begin_handler(buffer);
            call_back("pvm_addmhf", || handler(buffer));
            waiting.take()?.session()?.end_handler(buffer, before);
            Ok(())
        }
    }
}
