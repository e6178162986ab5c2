//! What is measured: a system, a way of waiting, what is done with the payload.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// Channels of a pool, over the core link.
    Hythe,
    /// The same, with its rings through the agent: where else they do not pass it.
    Agent,
    /// Fragments of 496 bytes, copied in and out, as RPMsg does it.
    Copy,
}

/// How both sides wait for their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// They look again and again.
    Poll,
    /// They sleep until the doorbell rings.
    Bell,
}

/// What is done with the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Payload {
    /// Written once before the run, then only forwarded.
    Untouched,
    /// Written by each sender and read by each receiver every time.
    Filled,
}

/// Which way the rings of both sides go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Rings {
    /// Processes and the core ring each other.
    Eventfd,
    /// The agent passes them on.
    Agent,
}

/// One case: `system/wait/payload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) system: System,
    pub(crate) wait: Wait,
    pub(crate) payload: Payload,
}

/// All of them; the systems that are compared stand next to each other: what disturbs one of them
/// disturbs the other.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for &payload in Payload::value_variants() {
        for &wait in Wait::value_variants() {
            let systems = System::value_variants().iter();
            // Who polls is not rung, whichever way.
            let differ = systems.filter(|&&system| system != System::Agent || wait == Wait::Bell);
            cases.extend(differ.map(|&system| Case {
                system,
                wait,
                payload,
            }));
        }
    }
    cases
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (system, wait, payload) = (self.system, self.wait, self.payload);
        write!(out, "{}/{}/{}", word(system), word(wait), word(payload))
    }
}

/// The word for it on the command line, in cases and in ratios.
pub(super) fn word(value: impl ValueEnum) -> String {
    let word = value.to_possible_value();
    word.map_or_else(String::new, |word| word.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_there_once_and_systems_stand_side_by_side() {
        let names: Vec<String> = all().iter().map(Case::to_string).collect();
        let expected = [
            "hythe/poll/untouched",
            "copy/poll/untouched",
            "hythe/bell/untouched",
            "agent/bell/untouched",
            "copy/bell/untouched",
            "hythe/poll/filled",
            "copy/poll/filled",
            "hythe/bell/filled",
            "agent/bell/filled",
            "copy/bell/filled",
        ];
        assert_eq!(names, expected);
    }
}
