//! `hythe pub`: publishes from standard input or a file.
//!
//! `input` cuts the input into messages, `pace` keeps the rate. A file's bytes are read straight
//! into the pool's buffers.

mod input;
pub(crate) mod losses;
mod pace;

use std::time::{Duration, Instant};

use hythe::{Publisher, PublisherOptions};
use hythe_terminal::escaped;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::args::{Globals, PublishArgs};
use crate::error::CliError;
use crate::publish::input::{Input, Message};
use crate::publish::losses::Losses;
pub(crate) use crate::publish::pace::CATCH_UP;
use crate::publish::pace::Pace;
use crate::stop::{LOOK, Stop};
use crate::{output, units};

/// How long a core may take to give back what it was sent.
pub(crate) const FLUSH_BOUND: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Document {
    pool: String,
    channel: String,
    messages: u64,
    payload_bytes: u64,
    delivered: u64,
    dropped: u64,
    evicted: u64,
    subscribers: usize,
    seconds: f64,
}

pub(crate) fn run(args: &PublishArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let node = globals.join("hythe pub")?;
    node.end_waits_when(stop.watch());
    let options = PublisherOptions::default()
        .history(args.history)
        .send_timeout(args.send_timeout);
    let mut publisher = node.publisher(&args.channel, &options)?;
    if let Some(time_limit) = args.wait {
        wait_for_subscriber(&mut publisher, time_limit, &stop)?;
    }
    let start = Instant::now();
    let mut document = Document {
        pool: node.pool().options().name().to_owned(),
        channel: args.channel.clone(),
        messages: 0,
        payload_bytes: 0,
        delivered: 0,
        dropped: 0,
        evicted: 0,
        subscribers: publisher.subscribers()?,
        seconds: 0.0,
    };
    let mut input = Input::open(args, largest_payload(node.pool()), &stop)?;
    let bar = output::progress(
        input
            .messages()
            .map(|messages| messages * args.repeat.max(1)),
    );
    let mut way = Way {
        publisher: &mut publisher,
        document: &mut document,
        losses: Losses::default(),
        bar: &bar,
    };
    let published = publish_all(args, &stop, &mut way, &mut input);
    bar.finish_and_clear();
    published?;
    if let Some(time_limit) = args.linger {
        linger(&mut publisher, time_limit, &stop)?;
    }
    publisher.flush(FLUSH_BOUND)?;
    document.seconds = start.elapsed().as_secs_f64();
    document.subscribers = document.subscribers.max(publisher.subscribers()?);
    if document.delivered == 0 && document.messages > 0 {
        output::note(format!(
            "nobody received it: channel `{}` has no subscriber (--wait 10 waits for one)",
            args.channel
        ));
    }
    output::print(globals.json, &document, text)
}

/// Where messages go, and where they are counted.
struct Way<'a> {
    publisher: &'a mut Publisher,
    document: &'a mut Document,
    losses: Losses,
    bar: &'a ProgressBar,
}

impl Way<'_> {
    /// The next message of the input, in a buffer. One that no buffer is free for is counted as
    /// lost, and passed over. `None`: that was all.
    fn next(&mut self, input: &mut Input<'_>, stop: &Stop) -> Result<Option<Message>, CliError> {
        while !stop.asked() {
            match input.next(self.publisher) {
                Err(CliError::Node(error)) if self.losses.is_full(&error) => {
                    self.document.dropped += self.publisher.subscribers()?.max(1) as u64;
                    if !input.skip()? {
                        break;
                    }
                }
                next => return next,
            }
        }
        Ok(None)
    }

    fn publish(&mut self, (lease, bytes): Message) -> Result<(), CliError> {
        let published = self.losses.publish(self.publisher, lease, bytes)?;
        self.document.messages += 1;
        self.document.payload_bytes += bytes as u64;
        self.document.delivered += u64::from(published.delivered);
        self.document.dropped += u64::from(published.dropped);
        self.document.evicted += u64::from(published.evicted);
        self.bar.inc(1);
        Ok(())
    }
}

fn publish_all(
    args: &PublishArgs,
    stop: &Stop,
    way: &mut Way<'_>,
    input: &mut Input<'_>,
) -> Result<(), CliError> {
    let mut pace = Pace::new(args.rate);
    let mut round = 0;
    while args.repeat == 0 || round < args.repeat {
        input.rewind()?;
        while !stop.asked() {
            // Taken before the wait: the end of the input is no message, and costs no wait.
            let Some(message) = way.next(input, stop)? else {
                break;
            };
            if !pace.wait(stop) {
                return Ok(());
            }
            way.publish(message)?;
        }
        if stop.asked() {
            break;
        }
        round += 1;
    }
    Ok(())
}

/// Serves late subscribers with what is kept.
fn linger(publisher: &mut Publisher, time_limit: Duration, stop: &Stop) -> Result<(), CliError> {
    let end = Instant::now() + time_limit;
    while !stop.asked() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        // Looks for new ones whenever one rings; as many as this there never are.
        publisher.wait_for_subscribers(usize::MAX, left.min(LOOK))?;
    }
    Ok(())
}

/// Waits for the first subscriber; none within `time_limit` is a failure.
pub(crate) fn wait_for_subscriber(
    publisher: &mut Publisher,
    time_limit: Duration,
    stop: &Stop,
) -> Result<(), CliError> {
    let end = Instant::now() + time_limit;
    while !stop.asked() {
        let left = end.saturating_duration_since(Instant::now());
        if publisher.wait_for_subscribers(1, left.min(LOOK))? {
            return Ok(());
        }
        if left.is_zero() {
            return Err(CliError::Failed(format!(
                "channel `{channel}` has no subscriber after {} s: `hythe sub {channel}` is one",
                time_limit.as_secs_f64(),
                channel = publisher.channel()
            )));
        }
    }
    Ok(())
}

/// The largest payload that any slot of the pool takes.
fn largest_payload(pool: &hythe::Pool) -> usize {
    let snapshot = pool.snapshot();
    let classes = snapshot.regions.iter().flat_map(|region| &region.classes);
    classes
        .map(hythe::inspect::SlotClass::payload_bytes)
        .max()
        .unwrap_or(0)
}

fn text(done: &Document) -> String {
    format!(
        "published {} of {} in all on {} to {} in {:.3} s: {} delivered, {} dropped{}",
        units::counted(done.messages, "message"),
        units::bytes(done.payload_bytes),
        escaped(&done.channel),
        units::counted(done.subscribers as u64, "subscriber"),
        done.seconds,
        done.delivered,
        done.dropped,
        match done.evicted {
            0 => String::new(),
            evicted => format!(", {evicted} older ones evicted"),
        }
    )
}
