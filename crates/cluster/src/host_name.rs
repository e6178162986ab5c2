//! Names of hosts: what certificates, rights and participants call them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name: `host NAME` is the name of a participant, of at most 64 bytes.
const NAME_BYTES_MAX: usize = 59;

/// The name of a host of a realm: 1 to 59 lower-case letters, digits, `-` and `.`; the first and
/// the last are a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

/// A text that is no host's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is no name of a host: use 1 to 59 lower-case letters, digits, - and ., with a letter or \
     digit at both ends",
    hythe_terminal::escaped(.0)
)]
pub struct BadHostName(String);

impl HostName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for HostName {
    type Error = BadHostName;

    fn try_from(name: String) -> Result<Self, BadHostName> {
        let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_inner = |byte: &u8| is_plain(byte) || matches!(byte, b'-' | b'.');
        let bytes = name.as_bytes();
        let ends_well = bytes.first().is_some_and(is_plain) && bytes.last().is_some_and(is_plain);
        match bytes.len() <= NAME_BYTES_MAX && ends_well && bytes.iter().all(is_inner) {
            true => Ok(Self(name)),
            false => Err(BadHostName(name)),
        }
    }
}

impl FromStr for HostName {
    type Err = BadHostName;

    fn from_str(name: &str) -> Result<Self, BadHostName> {
        name.to_owned().try_into()
    }
}

impl From<HostName> for String {
    fn from(name: HostName) -> Self {
        name.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_dns_in_lower_case() {
        for good in ["a", "7", "cam-1", "cam-1.lan", &"a".repeat(59)] {
            assert_eq!(good.parse::<HostName>().map(String::from), Ok(good.into()));
        }
        for bad in ["", "A", "-a", "a.", "a b", "a/b", "ä", &"a".repeat(60)] {
            assert!(bad.parse::<HostName>().is_err(), "{bad}");
        }
    }
}
