//! `hythe pub`: publishes from standard input or a file.
//!
//! `input` cuts the input into messages, `pace` keeps the rate. A file's bytes are read straight into the pool's buffers.

mod input;
mod pace;

use std::time::{Duration, Instant};

use hythe::{Pool, Publisher, PublisherOptions};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::args::{Globals, PublishArgs};
use crate::error::CliError;
use crate::open::name_holders;
use crate::publish::input::Input;
use crate::publish::pace::Pace;
use crate::stop::{LOOK, Stop};
use crate::{output, units};

/// How long a core may take to give back what it was sent.
const FLUSH_BOUND: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Document {
    pool: String,
    channel: String,
    messages: u64,
    payload_bytes: u64,
    delivered: u64,
    dropped: u64,
    subscribers: usize,
    seconds: f64,
}

pub(crate) fn run(args: &PublishArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let node = globals.join("hythe pub")?;
    let mut publisher = node.publisher(&args.channel, &PublisherOptions::default())?;
    if let Some(patience) = args.wait {
        wait_for_subscriber(&mut publisher, patience, &stop)?;
    }
    let pool = node.pool();
    let start = Instant::now();
    let mut document = Document {
        pool: pool.options().name().to_owned(),
        channel: args.channel.clone(),
        messages: 0,
        payload_bytes: 0,
        delivered: 0,
        dropped: 0,
        subscribers: publisher.subscribers()?,
        seconds: 0.0,
    };
    let mut input = Input::open(args, largest_payload(pool), &stop)?;
    let bar = output::progress(
        input
            .messages()
            .map(|messages| messages * args.repeat.max(1)),
    );
    let mut way = Way {
        publisher: &mut publisher,
        pool,
        document: &mut document,
        bar: &bar,
    };
    let published = publish_all(args, &stop, &mut way, &mut input);
    bar.finish_and_clear();
    published?;
    publisher.flush(FLUSH_BOUND)?;
    document.seconds = start.elapsed().as_secs_f64();
    document.subscribers = document.subscribers.max(publisher.subscribers()?);
    if document.delivered == 0 && document.messages > 0 {
        eprintln!(
            "hythe: nobody received it: channel `{}` has no subscriber (--wait 10 waits for one)",
            args.channel
        );
    }
    output::print(globals.json, &document, text)
}

/// Where messages go, and where they are counted.
struct Way<'a> {
    publisher: &'a mut Publisher,
    pool: &'a Pool,
    document: &'a mut Document,
    bar: &'a ProgressBar,
}

impl Way<'_> {
    /// Publishes the next message of the input. False: that was all.
    fn publish_next(&mut self, input: &mut Input<'_>) -> Result<bool, CliError> {
        let next = input.next(self.publisher).map_err(|error| match error {
            CliError::Node(error) => name_holders(self.pool, error),
            other => other,
        })?;
        let Some((lease, bytes)) = next else {
            return Ok(false);
        };
        let published = self.publisher.publish(lease, bytes)?;
        self.document.messages += 1;
        self.document.payload_bytes += bytes as u64;
        self.document.delivered += u64::from(published.delivered);
        self.document.dropped += u64::from(published.dropped);
        self.bar.inc(1);
        Ok(true)
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
        loop {
            pace.wait(stop);
            if stop.asked() {
                return Ok(());
            }
            if !way.publish_next(input)? {
                break;
            }
        }
        round += 1;
    }
    Ok(())
}

fn wait_for_subscriber(
    publisher: &mut Publisher,
    patience: Duration,
    stop: &Stop,
) -> Result<(), CliError> {
    let end = Instant::now() + patience;
    while !stop.asked() {
        let left = end.saturating_duration_since(Instant::now());
        if publisher.wait_for_subscribers(1, left.min(LOOK))? {
            return Ok(());
        }
        if left.is_zero() {
            return Err(CliError::Failed(format!(
                "channel `{channel}` has no subscriber after {} s: `hythe sub {channel}` is one",
                patience.as_secs_f64(),
                channel = publisher.channel()
            )));
        }
    }
    Ok(())
}

/// The largest payload that any slot of the pool takes.
fn largest_payload(pool: &Pool) -> usize {
    let snapshot = pool.snapshot();
    let classes = snapshot.regions.iter().flat_map(|region| &region.classes);
    classes
        .map(hythe::SlotClass::payload_bytes)
        .max()
        .unwrap_or(0)
}

fn text(done: &Document) -> String {
    format!(
        "published {} of {} in all on {} to {} in {:.3} s: {} delivered, {} dropped",
        units::counted(done.messages, "message"),
        units::bytes(done.payload_bytes),
        done.channel,
        units::counted(done.subscribers as u64, "subscriber"),
        done.seconds,
        done.delivered,
        done.dropped
    )
}
