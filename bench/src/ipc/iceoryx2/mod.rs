//! iceoryx2 as its users use it: a publish/subscribe service each way, buffers as deep as the case
//! needs, and for sleeping an event service each way whose listener is attached to a `WaitSet`. Its
//! files are under a name of this run alone.
//!
//! A received sample cannot be forwarded there, so `untouched` sends a loaned buffer without
//! writing to it; that costs iceoryx2 nothing that forwarding would save.

mod place;

use std::fmt::Debug;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use iceoryx2::node::Node;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::{BackpressureAction, BackpressureInfo};
use iceoryx2::prelude::{
    CallbackProgression, LogLevel, NodeBuilder, PortFactory, ServiceName, SignalHandlingMode,
    WaitSet, WaitSetBuilder, WaitSetGuard, ZeroCopySend, ipc, set_log_level,
};
use iceoryx2::service::port_factory::{event, publish_subscribe};

use self::place::config;
use super::case::{Case, Pattern, Wait};
use super::end::{BURST, End};
use super::side::Side;
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout, NAP};
use crate::payload::{are_words, word_of};

pub(super) use self::place::Place;

const WORD_BYTES: usize = 8;
/// Messages under way in a one-way run, as many as hythe gets.
const RATE_DEPTH: usize = 256;
/// Between looks whether the other side has opened its ports.
const PAUSE: Duration = Duration::from_millis(1);
/// Then a service that cannot be made is no accident.
const MAKING_BOUND: Duration = Duration::from_secs(5);

/// What a message is made of.
pub(super) trait Word: Debug + ZeroCopySend + 'static {
    fn of(number: u64) -> Self;

    /// Reads all of it. Is it message `number`?
    fn is_message(payload: &[Self], number: u64) -> bool
    where
        Self: Sized;
}

impl Word for u64 {
    #[inline]
    fn of(number: u64) -> Self {
        word_of(number)
    }

    #[inline]
    fn is_message(payload: &[Self], number: u64) -> bool {
        are_words(payload, number)
    }
}

/// Nothing is written and nothing is read, whatever the size.
impl Word for MaybeUninit<u64> {
    #[inline]
    fn of(_number: u64) -> Self {
        Self::uninit()
    }

    #[inline]
    fn is_message(_payload: &[Self], _number: u64) -> bool {
        true
    }
}

type Channel<W> = publish_subscribe::PortFactory<ipc::Service, [W], ()>;
type Bell = event::PortFactory<ipc::Service>;

/// What one side opens. An [`Iceoryx2End`] borrows from it: the `WaitSet` does.
#[derive(Debug)]
pub(super) struct Ports<W: Word> {
    case: Case,
    side: Side,
    words: usize,
    publisher: Publisher<ipc::Service, [W], ()>,
    subscribers: Vec<Subscriber<ipc::Service, [W], ()>>,
    sleep: Option<Sleep>,
    lookout: Lookout,
    // Behind the ports: they go first.
    _channels: [Channel<W>; 2],
    _node: Node<ipc::Service>,
}

/// What it takes to sleep.
#[derive(Debug)]
struct Sleep {
    notifier: Notifier<ipc::Service>,
    listener: Listener<ipc::Service>,
    waitset: WaitSet<ipc::Service>,
    _bells: [Bell; 2],
}

impl<W: Word> Ports<W> {
    /// Opens them, and waits until the other side has.
    pub(super) fn open(
        place: &str,
        side: Side,
        case: Case,
        size: usize,
        lookout: Lookout,
    ) -> Result<Self, BenchError> {
        set_log_level(LogLevel::Fatal);
        let words = size / WORD_BYTES;
        let node = NodeBuilder::new()
            .config(&config(place)?)
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()
            .map_err(refused("a node"))?;
        let (outgoing, incoming, count) = match side {
            Side::Near => ("there", "back", 1),
            Side::Far => ("back", "there", case.subscribers as usize),
        };
        let outgoing_channel = channel::<W>(&node, outgoing, case, &lookout)?;
        let incoming_channel = channel::<W>(&node, incoming, case, &lookout)?;
        let subscribe = |_| incoming_channel.subscriber_builder().create();
        let subscribers: Result<Vec<_>, _> = (0..count).map(subscribe).collect();
        let ports = Self {
            case,
            side,
            words,
            publisher: publisher(&outgoing_channel, words, lookout.clone())?,
            subscribers: subscribers.map_err(refused("a subscriber"))?,
            sleep: match case.wait {
                Wait::Block => Some(Sleep::new(&node, [outgoing, incoming], &lookout)?),
                Wait::Poll | Wait::Adaptive => None,
            },
            lookout,
            _channels: [outgoing_channel, incoming_channel],
            _node: node,
        };
        ports.wait_for_the_other()?;
        Ok(ports)
    }

    /// Whom a message of this side goes to.
    fn receivers(&self) -> usize {
        match self.side {
            Side::Near => self.case.subscribers as usize,
            Side::Far => 1,
        }
    }

    fn wait_for_the_other(&self) -> Result<(), BenchError> {
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        let [outgoing, incoming] = &self._channels;
        let is_there = || {
            let (to, from) = (outgoing.dynamic_config(), incoming.dynamic_config());
            to.number_of_subscribers() >= self.receivers()
                && from.number_of_publishers() >= 1
                && self.sleep.as_ref().is_none_or(Sleep::is_heard)
        };
        while !is_there() {
            std::thread::sleep(PAUSE);
            bounded_wait.look_up()?;
        }
        Ok(())
    }
}

fn channel<W: Word>(
    node: &Node<ipc::Service>,
    name: &str,
    case: Case,
    lookout: &Lookout,
) -> Result<Channel<W>, BenchError> {
    let name = service_name(name)?;
    until_made(lookout, "a service", || {
        let builder = node
            .service_builder(&name)
            .publish_subscribe::<[W]>()
            .max_publishers(1)
            .max_subscribers(case.subscribers as usize);
        let builder = match case.pattern {
            Pattern::Untouched | Pattern::Filled | Pattern::Request => builder,
            // Nothing may be lost.
            Pattern::Single | Pattern::Batched | Pattern::Stream4 | Pattern::Stream32 => {
                let deep = builder.subscriber_max_buffer_size(RATE_DEPTH);
                deep.enable_safe_overflow(false)
            }
            Pattern::Fan => builder.subscriber_max_buffer_size(BURST as usize),
        };
        builder.open_or_create()
    })
}

/// Both sides come at once, and what one is making the other sometimes finds broken: then it looks
/// again.
fn until_made<T, E: Debug>(
    lookout: &Lookout,
    what: &'static str,
    make: impl Fn() -> Result<T, E>,
) -> Result<T, BenchError> {
    let start = Instant::now();
    loop {
        match make() {
            Ok(made) => return Ok(made),
            Err(why) if start.elapsed() > MAKING_BOUND => return Err(refused(what)(why)),
            Err(_) => lookout.check_for(start.elapsed())?,
        }
        std::thread::sleep(PAUSE);
    }
}

fn publisher<W: Word>(
    channel: &Channel<W>,
    words: usize,
    lookout: Lookout,
) -> Result<Publisher<ipc::Service, [W], ()>, BenchError> {
    // Its own way of waiting for free capacity does not end when the subscriber dies. How long it
    // has waited is not asked: its clock can be set, and a silent peer is ended by its watchdog.
    let retry = move |_: &BackpressureInfo| match lookout.check_for(Duration::ZERO) {
        Ok(()) => BackpressureAction::Retry,
        Err(_) => BackpressureAction::DiscardDataAndFail,
    };
    let builder = channel.publisher_builder();
    // One more than a message has: the last message is known by its length.
    let builder = builder.initial_max_slice_len(words + 1);
    let publisher = builder.set_backpressure_handler(retry).create();
    publisher.map_err(refused("a publisher"))
}

impl Sleep {
    fn new(
        node: &Node<ipc::Service>,
        [outgoing, incoming]: [&str; 2],
        lookout: &Lookout,
    ) -> Result<Self, BenchError> {
        let bell = |name: &str| {
            let name = service_name(name)?;
            let make = || node.service_builder(&name).event().open_or_create();
            until_made(lookout, "an event", make)
        };
        let (there, here) = (bell(outgoing)?, bell(incoming)?);
        let notifier = there.notifier_builder().create();
        let listener = here.listener_builder().create();
        let waitset = WaitSetBuilder::new()
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create();
        Ok(Self {
            notifier: notifier.map_err(refused("a notifier"))?,
            listener: listener.map_err(refused("a listener"))?,
            waitset: waitset.map_err(refused("a WaitSet"))?,
            _bells: [there, here],
        })
    }

    fn is_heard(&self) -> bool {
        let [there, _] = &self._bells;
        there.dynamic_config().number_of_listeners() >= 1
    }
}

fn service_name(name: &str) -> Result<ServiceName, BenchError> {
    ServiceName::new(name).map_err(refused("a service's name"))
}

/// One end.
pub(super) struct Iceoryx2End<'a, W: Word> {
    ports: &'a Ports<W>,
    /// Keeps the listener attached.
    _guard: Option<WaitSetGuard<'a, 'a, ipc::Service>>,
}

impl<'a, W: Word> Iceoryx2End<'a, W> {
    /// Ready to receive, and so is the other end.
    pub(super) fn new(ports: &'a Ports<W>) -> Result<Self, BenchError> {
        let attach = |sleep: &'a Sleep| sleep.waitset.attach_notification(&sleep.listener);
        let guard = ports.sleep.as_ref().map(attach).transpose();
        let mut end = Self {
            ports,
            _guard: guard.map_err(refused("an attachment"))?,
        };
        end.greet()?;
        Ok(end)
    }

    /// A subscriber finds its publisher when it first looks; what does not fit its queue until then
    /// is lost to it.
    fn greet(&mut self) -> Result<(), BenchError> {
        match self.ports.side {
            Side::Near => {
                self.finish()?;
                self.await_greeting()
            }
            Side::Far => {
                self.await_greeting()?;
                self.finish()
            }
        }
    }

    fn await_greeting(&self) -> Result<(), BenchError> {
        let mut subscribers = self.ports.subscribers.iter();
        // It has the length of a last message, so it is none.
        subscribers.try_for_each(|from| self.take(from, 0).map(drop))
    }

    #[inline]
    fn publish(&self, words: usize, number: u64) -> Result<(), BenchError> {
        let ports = self.ports;
        let loaned = ports.publisher.loan_slice_uninit(words);
        let sample = loaned
            .map_err(refused("a loan"))?
            .write_from_fn(|_| W::of(number));
        let reached = match sample.send() {
            Ok(reached) => reached,
            Err(why) => {
                // Its reason may be that we gave up.
                ports.lookout.check_for(Duration::ZERO)?;
                return Err(refused("a sending")(why));
            }
        };
        if reached != ports.receivers() {
            return Err(BenchError::Dropped { number });
        }
        if let Some(sleep) = &ports.sleep {
            sleep.notifier.notify().map_err(refused("a notification"))?;
        }
        Ok(())
    }

    /// Takes message `number` from one of the subscribers.
    #[inline]
    fn take(
        &self,
        from: &Subscriber<ipc::Service, [W], ()>,
        number: u64,
    ) -> Result<bool, BenchError> {
        let ports = self.ports;
        let mut bounded_wait = BoundedWait::new(&ports.lookout);
        let sample = loop {
            if let Some(sample) = from.receive().map_err(refused("a receiving"))? {
                break sample;
            }
            match &ports.sleep {
                None => bounded_wait.spin()?,
                Some(sleep) if !sleep.until_notified()? => bounded_wait.look_up()?,
                Some(_) => {}
            }
        };
        if sample.payload().len() != ports.words {
            return Ok(false);
        }
        if W::is_message(sample.payload(), number) {
            return Ok(true);
        }
        Err(BenchError::Damaged { number })
    }
}

impl Sleep {
    /// False: nobody notified within a nap.
    fn until_notified(&self) -> Result<bool, BenchError> {
        let mut notified = false;
        let mut heard = Ok(0);
        let drain = |_| {
            heard = self.listener.try_wait(|_| notified = true);
            CallbackProgression::Continue
        };
        let waited = self.waitset.wait_and_process_once_with_timeout(drain, NAP);
        waited.map_err(refused("a wait"))?;
        heard.map_err(refused("an event"))?;
        Ok(notified)
    }
}

impl<W: Word> End for Iceoryx2End<'_, W> {
    #[inline]
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        self.publish(self.ports.words, number)
    }

    #[inline]
    fn receive(&mut self, number: u64) -> Result<bool, BenchError> {
        for subscriber in &self.ports.subscribers {
            if !self.take(subscriber, number)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.publish(self.ports.words + 1, u64::MAX)
    }
}

fn refused<E: Debug>(what: &'static str) -> impl FnOnce(E) -> BenchError {
    move |error| BenchError::Iceoryx2 {
        what,
        why: format!("{error:?}"),
    }
}
