//! `rpc` of the shell: one call of a method of the core's program, argument and result in
//! hexadecimal.

use std::time::{Duration, Instant};

use hythe::core::control::AgentStatus;
use hythe::request::ClientOptions;
use hythe::rpc::{Caller, is_method};
use hythe::{Node, NodeError, Pool};
use hythe_command::error::CliError;
use hythe_command::stop::{LOOK, Stop};
use hythe_command::units;
use hythe_terminal::escaped;
use serde::Serialize;

/// How long a method may take.
const BOUND: Duration = Duration::from_secs(10);

/// What is called, with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) method: u32,
    pub(super) argument: Vec<u8>,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub(super) struct Called {
    method: u32,
    argument_bytes: usize,
    result_bytes: usize,
    /// In hexadecimal.
    result: String,
    round_trip_ns: u64,
}

/// Reads method and argument; the argument may stand in several words, or in none.
pub(super) fn read(words: &[&str]) -> Result<Wanted, String> {
    let Some((method, argument)) = words.split_first() else {
        return Err("a method has a number".to_owned());
    };
    let number = match method.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => method.parse().ok(),
    };
    let method = number.filter(|&number| is_method(number)).ok_or_else(|| {
        let method = escaped(method);
        format!("`{method}` is no number of a method: 1 to 0x7fffffff are")
    })?;
    let argument = argument.concat();
    let pairs = argument.as_bytes().chunks(2).map(|pair| {
        let text = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2);
        // A sign is no digit.
        let text = text.filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()));
        text.and_then(|pair| u8::from_str_radix(pair, 16).ok())
    });
    let argument = pairs.collect::<Option<_>>().ok_or_else(|| {
        let argument = escaped(&argument);
        format!("`{argument}` is not hexadecimal, with two digits to a byte")
    })?;
    Ok(Wanted { method, argument })
}

/// Calls, and waits for the result until somebody wants the session to end.
pub(super) fn call(
    pool: &Pool,
    status: &AgentStatus,
    wanted: &Wanted,
    stop: &Stop,
) -> Result<Called, CliError> {
    let endpoint = status.endpoint("core/calls").ok_or_else(|| {
        let board = escaped(&status.board);
        CliError::Failed(format!(
            "the program of core {board} has no endpoint `core/calls`: it serves no calls; \
             `run p1` runs one that does"
        ))
    })?;
    let node = Node::join(pool, "hythe core shell")?;
    let mut client = node.client(&endpoint.channel, &ClientOptions::default())?;
    let mut caller = Caller::new(&mut client);
    let start = Instant::now();
    let called = caller.begin(wanted.method, &wanted.argument, BOUND)?;
    loop {
        if let Some(result) = caller.wait(called, LOOK)? {
            let bytes = result.to_vec();
            return Ok(Called {
                method: wanted.method,
                argument_bytes: wanted.argument.len(),
                result_bytes: bytes.len(),
                result: units::hex(&bytes),
                round_trip_ns: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            });
        }
        if stop.asked() {
            return Err(CliError::Failed("the call was interrupted".to_owned()));
        }
        if start.elapsed() >= BOUND {
            return Err(CliError::Node(NodeError::NoReply {
                channel: endpoint.channel.clone(),
                waited_ms: BOUND.as_secs() * 1000,
                server: format!("core {}", status.board),
            }));
        }
    }
}

impl Called {
    /// For people.
    pub(super) fn text(&self) -> String {
        let bytes = units::counted(self.result_bytes as u64, "byte");
        let time = self.round_trip_ns / 1000;
        let colon = if self.result.is_empty() { "" } else { ": " };
        format!(
            "method {} returned {bytes} after {time} us{colon}{}",
            self.method, self.result
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_and_its_bytes_are_read() {
        let read = |words: &[&str]| read(words).expect("good");
        let wanted = |method, argument: &[u8]| Wanted {
            method,
            argument: argument.to_vec(),
        };
        assert_eq!(read(&["8"]), wanted(8, b""));
        assert_eq!(
            read(&["0x7fffffff", "00fF"]),
            wanted(0x7FFF_FFFF, &[0, 0xFF])
        );
        assert_eq!(read(&["1", "61", "6263"]), wanted(1, b"abc"));
    }

    #[test]
    fn what_is_no_method_or_no_bytes_is_named() {
        for (words, wrong) in [
            (&[][..], "has a number"),
            (&["0"], "`0` is no number"),
            (&["0x80000000"], "`0x80000000` is no number"),
            (&["one"], "`one` is no number"),
            (&["1", "616"], "`616` is not hexadecimal"),
            (&["1", "+1"], "`+1` is not"),
            (&["1", "0x61"], "`0x61` is not"),
            (&["1", "6ä"], "is not hexadecimal"),
        ] {
            let text = read(words).expect_err("wrong");
            assert!(text.contains(wrong), "{words:?}: {text}");
        }
    }
}
