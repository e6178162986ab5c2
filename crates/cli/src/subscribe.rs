//! `hythe sub`: prints what arrives.

use std::time::{Duration, Instant};

use hythe::{PortPolicy, Sample, Subscriber, SubscriberOptions};
use serde::Serialize;

use crate::args::{Globals, SubscribeArgs, WhenFull};
use crate::error::CliError;
use crate::output::{self, Growing};
use crate::stop::{LOOK, Stop};
use crate::units;

/// How long publishers wait when nobody says.
const BLOCK: Duration = Duration::from_secs(5);
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
    hex: String,
}

#[derive(Serialize)]
struct Tail {
    count: u64,
    payload_bytes: u64,
    violations: u64,
}

/// How messages are shown.
enum Form {
    Lines,
    Hex,
    Raw,
    Json(Growing),
}

pub(crate) fn run(args: &SubscribeArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let node = globals.join("hythe sub")?;
    let mut subscriber = node.subscriber(&args.channel, &options(args)?)?;
    let head = Head {
        pool: node.pool().options().name(),
        channel: &args.channel,
    };
    let mut form = match (globals.json, args.raw, args.hex) {
        (true, ..) => Form::Json(Growing::begin(&head, "messages")?),
        (_, true, _) => Form::Raw,
        (.., true) => Form::Hex,
        _ => Form::Lines,
    };
    let shown = show_all(args, &stop, &mut subscriber, &mut form);
    if let Form::Json(document) = form {
        let counted = subscriber.statistics();
        document.end(&Tail {
            count: counted.messages,
            payload_bytes: counted.payload_bytes,
            violations: counted.violations,
        })?;
    }
    shown
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
        (Some(WhenFull::DropOldest), None) => Ok(PortPolicy::DropOldest),
        (Some(WhenFull::DropNewest | WhenFull::DropOldest), Some(_)) => Err(CliError::WrongUse(
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
    while !stop.asked() && args.count.is_none_or(|count| number < count) {
        let Some(sample) = take(args.timeout, stop, subscriber)? else {
            break;
        };
        form.show(number, &sample)?;
        number += 1;
    }
    match (args.count, args.timeout) {
        (Some(count), Some(patience)) if number < count && !stop.asked() => {
            Err(CliError::Failed(format!(
                "{number} of {} arrived on channel `{}`, then nothing for {} s: is somebody publishing (`hythe list`)?",
                units::counted(count, "message"),
                args.channel,
                patience.as_secs_f64()
            )))
        }
        _ => Ok(()),
    }
}

/// The next sample; `None`: none came within `patience`, or somebody asked to stop.
fn take(
    patience: Option<Duration>,
    stop: &Stop,
    subscriber: &mut Subscriber,
) -> Result<Option<Sample>, CliError> {
    let start = Instant::now();
    loop {
        let left = patience.map_or(LOOK, |patience| patience.saturating_sub(start.elapsed()));
        if let Some(sample) = subscriber.take(left.min(LOOK))? {
            return Ok(Some(sample));
        }
        if left.is_zero() || stop.asked() {
            return Ok(None);
        }
    }
}

impl Form {
    fn show(&mut self, number: u64, sample: &Sample) -> Result<(), CliError> {
        let bytes = sample.to_vec();
        match self {
            Self::Raw => output::write(&bytes),
            Self::Hex => output::write(hex_dump(number, &bytes).as_bytes()),
            Self::Lines => output::write(line(number, &bytes).as_bytes()),
            Self::Json(document) => document.push(&MessageDocument {
                number,
                bytes: bytes.len(),
                hex: hex(&bytes),
            }),
        }
    }
}

fn line(number: u64, bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(PREVIEW_BYTES)];
    let more = if shown.len() < bytes.len() {
        " …"
    } else {
        ""
    };
    format!(
        "#{number} {} \"{}\"{more}\n",
        units::bytes(bytes.len() as u64),
        shown.escape_ascii()
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sixteen bytes to the line, with their offset and what they read as.
fn hex_dump(number: u64, bytes: &[u8]) -> String {
    let mut text = format!("#{number} {}\n", units::bytes(bytes.len() as u64));
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
        assert_eq!(line(3, b"good\nmorning"), "#3 12 B \"good\\nmorning\"\n");
        assert!(line(0, &[b'a'; 61]).ends_with("aaa\" …\n"));
    }

    #[test]
    fn dump_has_offset_codes_and_letters() {
        let dump = hex_dump(0, b"0123456789abcdefgh\x01");
        let lines: Vec<&str> = dump.lines().collect();
        assert_eq!(
            lines[1],
            "00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef"
        );
        assert!(
            lines[2].starts_with("00000010  67 68 01 ") && lines[2].ends_with("  gh."),
            "{dump}"
        );
        assert_eq!(hex(&[0, 255]), "00ff");
    }
}
