//! `hythe sub`: prints what arrives.
//!
//! A document stays bounded whatever arrives: of a large message it has the first bytes and a
//! digest of all.

use std::time::{Duration, Instant};

use hythe::{Node, PortPolicy, Sample, Subscriber, SubscriberOptions};
use hythe_terminal::escaped;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::args::{Globals, SubscribeArgs, WhenFull};
use crate::error::CliError;
use crate::output::{self, Growing};
use crate::stop::{LOOK, Stop};
use crate::units;

/// How long publishers wait when nobody says.
const BLOCK: Duration = Duration::from_secs(5);
/// How long a channel may have no publisher before that is said.
const UNPUBLISHED: Duration = Duration::from_secs(2);
/// Bytes of a payload that a document has, unless --hex asks for all.
const DOCUMENT_BYTES: usize = 256;
/// Bytes of a payload that the one-line form shows.
const PREVIEW_BYTES: usize = 60;

#[derive(Serialize)]
struct Head<'a> {
    pool: &'a str,
    channel: &'a str,
}

#[derive(Serialize)]
struct MessageDocument {
    number: u64,
    bytes: usize,
    /// The payload, or its first bytes.
    hex: String,
    /// There are more bytes than `hex` has; left out if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    /// Of the whole payload, where `hex` is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// Messages that were missed before it; left out if none.
    #[serde(skip_serializing_if = "is_zero")]
    missed: u32,
}

#[derive(Serialize)]
struct Tail {
    count: u64,
    payload_bytes: u64,
    missed: u64,
    violations: u64,
}

/// How messages are shown.
enum Form {
    Lines,
    Hex,
    Raw,
    /// With all of each payload, if so.
    Json(Growing, bool),
}

pub(crate) fn run(args: &SubscribeArgs, globals: &Globals) -> Result<(), CliError> {
    // Before a pool is made for it.
    let options = options(args)?;
    let stop = Stop::on_signals()?;
    let node = globals.join("hythe sub")?;
    let mut subscriber = node.subscriber(&args.channel, &options)?;
    let head = Head {
        pool: node.pool().options().name(),
        channel: &args.channel,
    };
    let mut form = match (globals.json, args.raw, args.hex) {
        (true, ..) => Form::Json(Growing::begin(&head, "messages")?, args.hex),
        (_, true, _) => Form::Raw,
        (.., true) => Form::Hex,
        _ => Form::Lines,
    };
    let shown = show_all(args, &stop, &mut subscriber, &mut form);
    let (counted, missed) = (subscriber.statistics(), missed(&node));
    if missed > 0 {
        output::note(format!(
            "missed {} of channel `{}`: they came faster than they were taken, or were lost on \
             the way from another host (--depth, --block)",
            units::counted(missed, "message"),
            escaped(&args.channel)
        ));
    }
    if let Form::Json(document, _) = form {
        document.end(&Tail {
            count: counted.messages,
            payload_bytes: counted.payload_bytes,
            missed,
            violations: counted.violations,
        })?;
    }
    shown
}

/// What did not reach the only port of this node, also behind the last message that was taken.
pub(crate) fn missed(node: &Node) -> u64 {
    let ports = node.pool().ports().into_iter();
    let own = ports.filter(|port| port.member == node.index());
    own.map(|port| port.statistics.dropped).sum()
}

fn options(args: &SubscribeArgs) -> Result<SubscriberOptions, CliError> {
    let policy = policy(args.policy, args.block, BLOCK)?;
    let options = SubscriberOptions::default().depth(args.depth);
    Ok(options.policy(policy).history(args.history))
}

/// What `--policy` and `--block` say together; `unsaid` is how long publishers wait if nobody says.
pub(crate) fn policy(
    policy: Option<WhenFull>,
    block: Option<Duration>,
    unsaid: Duration,
) -> Result<PortPolicy, CliError> {
    let waiting = |bound: Duration| PortPolicy::Block {
        timeout_ms: u32::try_from(bound.as_millis()).unwrap_or(u32::MAX).max(1),
    };
    match (policy, block) {
        (None | Some(WhenFull::Block), Some(bound)) => Ok(waiting(bound)),
        (Some(WhenFull::Block), None) => Ok(waiting(unsaid)),
        (None | Some(WhenFull::DropNewest), None) => Ok(PortPolicy::DropNewest),
        (Some(WhenFull::EvictOldest), None) => Ok(PortPolicy::EvictOldest),
        (Some(WhenFull::DropNewest | WhenFull::EvictOldest), Some(_)) => Err(CliError::WrongUse(
            "--block is for publishers that wait: leave it out, or say --policy block".to_owned(),
        )),
    }
}

fn show_all(
    args: &SubscribeArgs,
    stop: &Stop,
    subscriber: &mut Subscriber,
    form: &mut Form,
) -> Result<(), CliError> {
    let mut number = 0;
    let mut unpublished = Unpublished::from_now();
    while !stop.asked() && args.count.is_none_or(|count| number < count) {
        let Some(sample) = take(args.timeout, stop, subscriber, &mut unpublished)? else {
            break;
        };
        form.show(number, &sample)?;
        number += 1;
    }
    match (args.count, args.timeout) {
        (Some(count), Some(time_limit)) if number < count && !stop.asked() => {
            Err(CliError::Failed(format!(
                "{number} of {} arrived on channel `{}`, then nothing for {} s: is somebody publishing (`hythe list`)?",
                units::counted(count, "message"),
                args.channel,
                time_limit.as_secs_f64()
            )))
        }
        _ => Ok(()),
    }
}

/// The next sample; `None`: none came within `time_limit`, or somebody asked to stop.
fn take(
    time_limit: Option<Duration>,
    stop: &Stop,
    subscriber: &mut Subscriber,
    unpublished: &mut Unpublished,
) -> Result<Option<Sample>, CliError> {
    let start = Instant::now();
    loop {
        let left = time_limit.map_or(LOOK, |time_limit| {
            time_limit.saturating_sub(start.elapsed())
        });
        if let Some(sample) = subscriber.take(left.min(LOOK))? {
            return Ok(Some(sample));
        }
        if left.is_zero() || stop.asked() {
            return Ok(None);
        }
        unpublished.look(subscriber)?;
    }
}

/// Whoever waits on a channel that nobody publishes, by a slip in its name say, is told so, once.
/// The wait goes on.
#[derive(Debug)]
pub(crate) struct Unpublished {
    since: Instant,
    is_settled: bool,
}

impl Unpublished {
    pub(crate) fn from_now() -> Self {
        Self {
            since: Instant::now(),
            is_settled: false,
        }
    }

    /// Called when a wait has brought nothing.
    pub(crate) fn look(&mut self, subscriber: &mut Subscriber) -> Result<(), CliError> {
        if self.is_settled {
            return Ok(());
        }
        if subscriber.publishers()? > 0 {
            self.is_settled = true;
        } else if self.since.elapsed() >= UNPUBLISHED {
            self.is_settled = true;
            output::note(format!(
                "nobody publishes on channel `{}` yet; still waiting \
                 (`hythe list` shows the channels there are)",
                subscriber.channel()
            ));
        }
        Ok(())
    }
}

impl Form {
    fn show(&mut self, number: u64, sample: &Sample) -> Result<(), CliError> {
        let (bytes, missed) = (sample.to_vec(), sample.missed_before());
        let head = || format!("#{number}{}", missed_before(missed));
        match self {
            Self::Raw => output::write(&bytes),
            Self::Hex => output::write(hex_dump(&head(), &bytes).as_bytes()),
            Self::Lines => output::write(line(&head(), &bytes).as_bytes()),
            Self::Json(document, all) => document.push(&MessageDocument {
                missed,
                ..MessageDocument::of(number, &bytes, *all)
            }),
        }
    }
}

impl MessageDocument {
    fn of(number: u64, bytes: &[u8], all: bool) -> Self {
        let truncated = !all && bytes.len() > DOCUMENT_BYTES;
        let shown = if truncated {
            &bytes[..DOCUMENT_BYTES]
        } else {
            bytes
        };
        Self {
            number,
            bytes: bytes.len(),
            hex: units::hex(shown),
            truncated,
            sha256: truncated.then(|| units::hex(&Sha256::digest(bytes))),
            missed: 0,
        }
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn missed_before(messages: u32) -> String {
    match messages {
        0 => String::new(),
        missed => format!(" ({missed} missed before)"),
    }
}

fn line(head: &str, bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(PREVIEW_BYTES)];
    let more = if shown.len() < bytes.len() {
        " …"
    } else {
        ""
    };
    format!(
        "{head} {} \"{}\"{more}\n",
        units::bytes(bytes.len() as u64),
        shown.escape_ascii()
    )
}

/// Sixteen bytes to the line, with their offset and what they read as.
fn hex_dump(head: &str, bytes: &[u8]) -> String {
    let mut text = format!("{head} {}\n", units::bytes(bytes.len() as u64));
    for (row, sixteen) in bytes.chunks(16).enumerate() {
        let codes: Vec<String> = sixteen.iter().map(|byte| format!("{byte:02x}")).collect();
        let printable = |byte: &u8| {
            if (0x20..0x7f).contains(byte) {
                char::from(*byte)
            } else {
                '.'
            }
        };
        let letters: String = sixteen.iter().map(printable).collect();
        text += &format!("{:08x}  {:<47}  {letters}\n", row * 16, codes.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_shows_the_start_and_escapes_the_rest() {
        assert_eq!(line("#3", b"good\nmorning"), "#3 12 B \"good\\nmorning\"\n");
        assert!(line("#0", &[b'a'; 61]).ends_with("aaa\" …\n"));
    }

    #[test]
    fn dump_has_offset_codes_and_letters() {
        let dump = hex_dump("#0", b"0123456789abcdefgh\x01");
        let lines: Vec<&str> = dump.lines().collect();
        assert_eq!(
            lines[1],
            "00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef"
        );
        assert!(
            lines[2].starts_with("00000010  67 68 01 ") && lines[2].ends_with("  gh."),
            "{dump}"
        );
        assert_eq!(units::hex(&[0, 255]), "00ff");
    }

    #[test]
    fn document_truncates_large_messages_only() {
        let bytes: Vec<u8> = (0..=255).cycle().take(DOCUMENT_BYTES + 1).collect();
        let small = MessageDocument::of(0, &bytes[1..], false);
        assert_eq!((small.hex.len(), small.truncated), (512, false));
        assert_eq!(small.sha256, None);
        let large = MessageDocument::of(0, &bytes, false);
        assert_eq!(large.hex, units::hex(&bytes[..DOCUMENT_BYTES]));
        assert_eq!((large.bytes, large.truncated), (257, true));
        assert_eq!(large.sha256.map(|digest| digest.len()), Some(64));
        let all = MessageDocument::of(0, &bytes, true);
        assert_eq!(
            (all.hex, all.truncated, all.sha256),
            (units::hex(&bytes), false, None)
        );
    }
}
