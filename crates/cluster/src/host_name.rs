//! Names of hosts: what certificates, rights and participants call them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name: `host NAME` is the name of a participant, of at most 64 bytes.
const NAME_BYTES_MAX: usize = 59;

/// The name of a host of a realm: 1 to 59 lower-case letters, digits, `-` and `.`; each part
/// between dots begins and ends with a letter or a digit, and the last is not made of digits alone.
/// TLS takes such names, and for others no connection could be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

/// A text that is no host's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is no name of a host: use 1 to 59 lower-case letters, digits, - and ., with a letter or \
     digit at both ends of each part, and not only digits in the last (such as cam-1.lan, not an \
     address)",
    shown(.0)
)]
pub struct BadHostName(String);

fn shown(name: &str) -> String {
    match name.is_empty() {
        true => "an empty text".to_owned(),
        false => hythe_terminal::escaped(name).to_string(),
    }
}

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
        let is_part = |part: &str| {
            let bytes = part.as_bytes();
            let mut ends = bytes.first().into_iter().chain(bytes.last());
            !bytes.is_empty()
                && ends.all(is_plain)
                && bytes.iter().all(|byte| is_plain(byte) || *byte == b'-')
        };
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
        let is_good = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_part) && !is_number;
        match is_good {
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
        for good in ["a", "7a", "cam-1", "1.cam-1.lan", &"a".repeat(59)] {
            assert_eq!(good.parse::<HostName>().map(String::from), Ok(good.into()));
        }
        for bad in [
            "",
            "A",
            "-a",
            "a.",
            "a..b",
            "a-.b",
            "a b",
            "a/b",
            "ä",
            "7",
            "192.0.2.7",
            "cam.1",
            &"a".repeat(60),
        ] {
            assert!(bad.parse::<HostName>().is_err(), "{bad}");
        }
    }
}
