//! What a core wrote that it should not have: which word, and what stands there.
//!
//! Found by attachments and by the agent, counted in the ledger's rows of the core
//! (`spec/pool.md`), shown by `core status`. Decides nothing.

use std::fmt;

use hythe_pool::CoreCounters;

/// A word that a core is not to write so, by its number in `spec/link.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ViolatedWord {
    /// An entry names a buffer, an account or references that the core did not have.
    Entry,
    /// The end of a queue to Linux is out of range.
    Tail,
    /// The beginning of a queue to the core is out of range.
    Head,
    /// The count of messages that a port missed went back.
    Dropped,
    /// The core section does not begin with its magic.
    Magic,
    /// The core section is of another version.
    Version,
    /// No state is so called.
    State,
    /// The core says that it answered a session that is not the agent's.
    Echo,
    /// An endpoint's record is not the one that the core was met with.
    Record,
    /// The echo of a flow is no session that was ever handed out.
    FlowEcho,
    /// A word that only Linux writes is not what Linux wrote.
    LinuxSection,
    /// A message to the agent's services is no call of theirs.
    Call,
}

impl ViolatedWord {
    const ALL: [Self; 12] = [
        Self::Entry,
        Self::Tail,
        Self::Head,
        Self::Dropped,
        Self::Magic,
        Self::Version,
        Self::State,
        Self::Echo,
        Self::Record,
        Self::FlowEcho,
        Self::LinuxSection,
        Self::Call,
    ];

    /// Its number.
    #[must_use]
    pub const fn to_number(self) -> u32 {
        self as u32 + 1
    }

    /// The word with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|word| word.to_number() == number)
    }

    /// Its name for programs that read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Tail => "tail",
            Self::Head => "head",
            Self::Dropped => "dropped",
            Self::Magic => "magic",
            Self::Version => "version",
            Self::State => "state",
            Self::Echo => "echo",
            Self::Record => "endpoint record",
            Self::FlowEcho => "flow echo",
            Self::LinuxSection => "linux section",
            Self::Call => "call",
        }
    }
}

/// A word of a link that was impossible, and what stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub word: ViolatedWord,
    /// What stood there; of an entry its first word, of a record its number, of the Linux section
    /// the offset of the word.
    pub value: u32,
}

impl Violation {
    /// The last that was counted, if one was.
    #[must_use]
    pub fn last_of(counters: &CoreCounters) -> Option<Self> {
        let word = ViolatedWord::from_number(counters.last_violation)?;
        let value = counters.last_value;
        Some(Self { word, value })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        match self.word {
            ViolatedWord::Entry => write!(
                f,
                "an entry of slot {} in region {} that the core did not have",
                value & 0x00FF_FFFF,
                value >> 24
            ),
            ViolatedWord::Tail => write!(f, "`tail` of a queue to Linux is {value}: out of range"),
            ViolatedWord::Head => {
                write!(f, "`head` of a queue to the core is {value}: out of range")
            }
            ViolatedWord::Dropped => write!(f, "`dropped` of a flow went back to {value}"),
            ViolatedWord::Magic => write!(f, "`magic` of the core section is {value:#010x}"),
            ViolatedWord::Version => write!(f, "`version` of the core section is {value}"),
            ViolatedWord::State => write!(f, "`state` of the core is {value}: 0 to 2 are possible"),
            ViolatedWord::Echo => {
                write!(
                    f,
                    "`echo` of the core is {value}, which is not the agent's session"
                )
            }
            ViolatedWord::Record => write!(f, "the record of endpoint {value} was changed"),
            ViolatedWord::FlowEcho => {
                write!(f, "`echo` of a flow is {value}, which no session ever was")
            }
            ViolatedWord::LinuxSection => {
                write!(
                    f,
                    "the word at {value} of the Linux section was overwritten"
                )
            }
            ViolatedWord::Call => write!(f, "a message to the agent's services is no call"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_words_are_one_to_one() {
        for word in ViolatedWord::ALL {
            assert_eq!(ViolatedWord::from_number(word.to_number()), Some(word));
        }
        assert_eq!(ViolatedWord::from_number(0), None);
        assert_eq!(ViolatedWord::from_number(13), None);
        assert_eq!(ViolatedWord::LinuxSection.to_number(), 11);
        assert_eq!(ViolatedWord::Call.to_number(), 12);
    }
}
