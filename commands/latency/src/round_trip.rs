//! The round trip of a channel between Linux and a core: Linux answers whatever the core asks, and
//! the core measures how long that took (`rtos/apps/rhealstone/round_trip.c`).
//!
//! Linux measures, too, in its own time: from handing an answer on to the core's next question. By
//! the ordinary calls, as any program would; neither side looks for a message before it sleeps, so
//! that every one needs its bell.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hythe::core::{Board, Core};
use hythe::{Node, Pool, PublisherOptions, Sample, Subscriber, SubscriberOptions};
use hythe_command::error::CliError;
use hythe_command::workspace::Workspace;
use hythe_latency::result::Measurement;
use serde_json::{Value, json};

use super::board_output::{APP, BoardOutput, TimeLimit};

/// What the core calls it, and so does the result.
pub(super) const ROUND_TRIP: &str = "round_trip";
/// The same, seen from the other side.
const FROM_LINUX: &str = "round_trip_from_linux";
/// On which the core asks, and takes answers.
const QUESTION: &str = "question";
const ANSWER: &str = "answer";
/// A question's number, and how many answers are still wanted.
const QUESTION_BYTES: usize = 8;
/// The core has one question at a time; this is space for those that it asks anew.
const DEPTH: u32 = 8;
/// Significant digits: finer than any core's.
const DIGITS: u8 = 4;

/// Answers all questions of the core, and returns what that looked like from here.
pub(super) fn answer(
    workspace: &Workspace,
    core: &Core,
    time_limit: TimeLimit<'_>,
) -> Result<Histogram<u64>, CliError> {
    let endpoints = core.status().endpoints;
    if let Some(missing) = [QUESTION, ANSWER]
        .iter()
        .find(|name| !endpoints.iter().any(|endpoint| endpoint == *name))
    {
        return Err(CliError::Failed(format!(
            "the core has no endpoint `{missing}`: its image is of another version; `cargo xtask boards` builds it"
        )));
    }
    let pool = Pool::open(&workspace.options.clone().spin(Duration::ZERO))?;
    let node = Node::join(&pool, "hythe latency answers")?;
    // The answer's way first: the core asks as soon as it can.
    let mut answers = node.publisher(ANSWER, &PublisherOptions::default())?;
    let options = SubscriberOptions::default().depth(DEPTH);
    let mut questions = node.subscriber(QUESTION, &options)?;
    let mut seen = Histogram::new(DIGITS).map_err(|error| CliError::Failed(error.to_string()))?;
    let mut answered: Option<Instant> = None;
    loop {
        let question = next(&mut questions, core, time_limit)?;
        if let Some(answered) = answered {
            let ns = u64::try_from(answered.elapsed().as_nanos()).unwrap_or(u64::MAX);
            // A histogram that resizes itself takes every value.
            let _ = seen.record(ns);
        }
        let left = left(&question)?;
        answered = Some(Instant::now());
        answers.forward(question)?;
        if left <= 1 {
            // What goes now waits until the core has given the last answer back.
            return Ok(seen);
        }
    }
}

fn next(
    questions: &mut Subscriber,
    core: &Core,
    time_limit: TimeLimit<'_>,
) -> Result<Sample, CliError> {
    loop {
        if let Some(question) = questions.take(TimeLimit::LOOK)? {
            return Ok(question);
        }
        time_limit.check(core, "before all its questions were answered")?;
    }
}

/// How many answers the core still wants, this one among them.
fn left(question: &Sample) -> Result<u32, CliError> {
    if question.len() != QUESTION_BYTES {
        return Err(CliError::Failed(format!(
            "the core asked with {} bytes, not {QUESTION_BYTES}: its image is of another version; `cargo xtask boards` builds it",
            question.len()
        )));
    }
    let mut word = [0; 4];
    question.read(4, &mut word);
    Ok(u32::from_le_bytes(word))
}

/// What the core reported of it, taken out of `output`, and what Linux saw.
pub(super) fn results(
    case: &str,
    board: &Board,
    output: &mut BoardOutput,
    from_linux: &Histogram<u64>,
) -> Result<Vec<Measurement>, CliError> {
    let place = output
        .histograms
        .iter()
        .position(|histogram| histogram.name == ROUND_TRIP);
    let Some(place) = place else {
        return Err(CliError::Failed(
            "the core gave its round trips up: several questions in a row got no answer within a second each"
                .to_owned(),
        ));
    };
    let from_core = output.histograms.remove(place).to_nanoseconds();
    let values = &output.conditions.values;
    let clock = format!("{}, {} Hz", values["clock"], values["clock_hz"]);
    let by_host = match board.is_emulated() {
        true => format!("{clock}, by the host's time: no instructions are counted in this run"),
        false => clock,
    };
    let conditions = |clock: &str| -> BTreeMap<String, Value> {
        BTreeMap::from([
            ("clock".to_owned(), json!(clock)),
            ("wait".to_owned(), json!("bell")),
            ("size_bytes".to_owned(), json!(QUESTION_BYTES)),
            (
                "linux".to_owned(),
                json!("an ordinary thread (SCHED_OTHER), on any CPU"),
            ),
        ])
    };
    Ok(vec![
        Measurement::of(case, ROUND_TRIP, &from_core, conditions(&by_host))?,
        Measurement::of(case, FROM_LINUX, from_linux, conditions("CLOCK_MONOTONIC"))?,
    ])
}

/// Of the run as a whole: what the round trip can and cannot show, or why there is none.
pub(super) fn conditions(board: &Board) -> (String, Value) {
    if board.runs_alone(APP) {
        let why = format!(
            "measured on board {} it shares no memory with Linux, so there is no channel between \
             the two",
            board.name()
        );
        return (format!("absent.{ROUND_TRIP}"), json!(why));
    }
    let limits = if board.is_emulated() {
        "a run of its own, by the host's time, since Linux does not wait for counted instructions: what the emulator, its threads and the host's other work take is in every figure; for orders of magnitude"
    } else {
        "both sides are processes of one Linux: shows that the program works, says nothing about the latency of a core"
    };
    (format!("limits.{ROUND_TRIP}"), json!(limits))
}
