//! What other hosts may do here: rules, judged in order.
//!
//! A rule is a line `HOST PATTERN read|write|spawn|none`; host and channel are patterns of shells
//! (`*`, `?`, `[a-z]`). A later rule goes before an earlier one, and `none` takes everything away.
//! What no rule permits is refused. A program whose path has `..` in it is permitted by a rule that
//! names just that path, and by no other. Never decides who a host is.

use std::fmt;
use std::str::FromStr;

use glob::Pattern;
use hythe_terminal::escaped;
use serde::{Deserialize, Serialize};

use crate::HostName;

/// The most rules.
pub const RULES_MAX: usize = 1024;

/// Something that a host may be permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// It gets what is sent over the channel here.
    Read,
    /// What it sends over the channel is taken here.
    Write,
    /// It may start programs of the channel's name here.
    Spawn,
}

impl Right {
    /// What it is about, in messages.
    const fn object(self) -> &'static str {
        match self {
            Self::Read | Self::Write => "channel",
            Self::Spawn => "program",
        }
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rule {
    host: Pattern,
    channel: Pattern,
    /// `None`: nothing is permitted.
    right: Option<Right>,
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is no rule: {reason}; a rule is HOST PATTERN read|write|spawn|none",
    escaped(line)
)]
pub struct BadRule {
    line: String,
    reason: String,
}

/// The rules of this host, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights(Vec<Rule>);

/// Why a host may not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A rule takes it away.
    #[error(
        "host {host} may not {right} {} `{}` on host {here}: rule {number} there, `{rule}`, \
         refuses it",
        right.object(),
        escaped(channel)
    )]
    ByRule {
        /// Who asked.
        host: HostName,
        /// Who refuses.
        here: HostName,
        /// For what.
        right: Right,
        /// On which channel, or which program.
        channel: String,
        /// Number of the rule, from 1 on.
        number: usize,
        /// The rule.
        rule: String,
    },
    /// No rule gives it.
    #[error(
        "host {host} may not {right} {} `{}` on host {here}: no rule there permits it; run \
         `hythe host allow {host} '{}' {right}` on {here}",
        right.object(),
        escaped(channel),
        escaped(channel)
    )]
    NoRule {
        /// Who asked.
        host: HostName,
        /// Who refuses.
        here: HostName,
        /// For what.
        right: Right,
        /// On which channel, or which program.
        channel: String,
    },
}

impl Rights {
    /// Reads rules, a line each; empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// The first line that is no rule; too many.
    pub fn parse(text: &str) -> Result<Self, BadRule> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut rights = Self::default();
        for line in lines {
            rights.add(line.parse()?)?;
        }
        Ok(rights)
    }

    /// One more rule; it goes before all others.
    ///
    /// # Errors
    /// There are [`RULES_MAX`] already.
    pub fn add(&mut self, rule: Rule) -> Result<(), BadRule> {
        if self.0.len() >= RULES_MAX {
            return Err(BadRule {
                line: rule.to_string(),
                reason: format!("there are {RULES_MAX} already"),
            });
        }
        self.0.push(rule);
        Ok(())
    }

    /// The rules, in order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.0
    }

    /// May this host do that on host `here`?
    ///
    /// # Errors
    /// Which rule refuses it.
    pub fn judge(
        &self,
        here: &HostName,
        host: &HostName,
        channel: &str,
        right: Right,
    ) -> Result<(), Refusal> {
        let numbered = self.0.iter().enumerate().rev();
        // `*` stands for any text, so a pattern for a folder would permit what is outside.
        let needs_name = right == Right::Spawn && !is_plain(channel);
        let permits = |rule: &Rule| !needs_name || rule.channel.as_str() == channel;
        let decides = |rule: &Rule| {
            let is_given = |given| given == right && permits(rule);
            rule.is_about(host, channel) && rule.right.is_none_or(is_given)
        };
        let mut deciding = numbered.filter(|(_, rule)| decides(rule));
        match deciding.next() {
            Some((_, rule)) if rule.right.is_some() => Ok(()),
            Some((index, rule)) => Err(Refusal::ByRule {
                host: host.clone(),
                here: here.clone(),
                right,
                channel: channel.to_owned(),
                number: index + 1,
                rule: rule.to_string(),
            }),
            None => Err(Refusal::NoRule {
                host: host.clone(),
                here: here.clone(),
                right,
                channel: channel.to_owned(),
            }),
        }
    }
}

/// Does the path of a program lead where it seems to: without `..`, and without `.` and nothing
/// behind its first slash, which would keep it from a rule that takes it away?
fn is_plain(path: &str) -> bool {
    let (first, rest) = path.split_once('/').unwrap_or((path, "plain"));
    first != ".." && !rest.split('/').any(|name| matches!(name, "" | "." | ".."))
}

impl fmt::Display for Rights {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rules = self.0.iter();
        rules.try_for_each(|rule| writeln!(formatter, "{rule}"))
    }
}

impl Rule {
    fn is_about(&self, host: &HostName, channel: &str) -> bool {
        self.host.matches(host.as_str()) && self.channel.matches(channel)
    }
}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(line: &str) -> Result<Self, BadRule> {
        let bad = |reason: String| BadRule {
            line: line.to_owned(),
            reason,
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let [host, channel, right] = words[..] else {
            return Err(bad(format!("it has {} words and not 3", words.len())));
        };
        let pattern = |text: &str| {
            let pattern = Pattern::new(text);
            pattern.map_err(|error| bad(format!("the pattern {}: {error}", escaped(text))))
        };
        let right = match right {
            "read" => Some(Right::Read),
            "write" => Some(Right::Write),
            "spawn" => Some(Right::Spawn),
            "none" => None,
            other => return Err(bad(format!("{} is no right", escaped(other)))),
        };
        Ok(Self {
            host: pattern(host)?,
            channel: pattern(channel)?,
            right,
        })
    }
}

impl TryFrom<String> for Rule {
    type Error = BadRule;

    fn try_from(line: String) -> Result<Self, BadRule> {
        line.parse()
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.to_string()
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            channel,
            right,
        } = self;
        match right {
            Some(right) => write!(formatter, "{host} {channel} {right}"),
            None => write!(formatter, "{host} {channel} none"),
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Spawn => "spawn",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> HostName {
        name.parse().expect("a name")
    }

    #[test]
    fn last_rule_that_decides_wins_and_is_named() {
        let text =
            "# rules\ncam-* video/* read\ncam-2 * none\n\ncam-2 video/low read\n* in write\n";
        let rights = Rights::parse(text).expect("rules");
        let judge = |name, channel, right| rights.judge(&host("hub"), &host(name), channel, right);
        assert_eq!(judge("cam-1", "video/high", Right::Read), Ok(()));
        assert_eq!(judge("cam-2", "video/low", Right::Read), Ok(()));
        assert_eq!(judge("cam-2", "in", Right::Write), Ok(()));
        let by_rule = judge("cam-2", "video/high", Right::Read).expect_err("refused");
        assert_eq!(
            by_rule.to_string(),
            "host cam-2 may not read channel `video/high` on host hub: rule 2 there, `cam-2 * \
             none`, refuses it"
        );
        let no_rule = judge("cam-1", "video/high", Right::Write).expect_err("refused");
        assert_eq!(
            no_rule.to_string(),
            "host cam-1 may not write channel `video/high` on host hub: no rule there permits it; \
             run `hythe host allow cam-1 'video/high' write` on hub"
        );
        let spawn = judge("cam-1", "solve", Right::Spawn).expect_err("refused");
        assert_eq!(
            spawn.to_string(),
            "host cam-1 may not spawn program `solve` on host hub: no rule there permits it; \
             run `hythe host allow cam-1 'solve' spawn` on hub"
        );
        assert_eq!(Rights::parse(&rights.to_string()), Ok(rights));
    }

    #[test]
    fn pattern_for_programs_of_a_folder_leads_to_no_other() {
        let text = "* /opt/* spawn\n* ./* spawn\n* /opt/secret/* none\n* /opt/../bin/ls spawn\n\
                    * * read\n";
        let rights = Rights::parse(text).expect("rules");
        let may = |program, right| {
            rights
                .judge(&host("hub"), &host("a"), program, right)
                .is_ok()
        };
        for program in ["/opt/a", "/opt/a/b..", "./solve", "/opt/../bin/ls"] {
            assert!(may(program, Right::Spawn), "{program}");
        }
        for program in [
            "/opt/../bin/sh",
            "/opt/a/../../bin/ls",
            "/opt/..",
            "./../sh",
            "../sh",
            "/opt/secret/a",
            "/opt//secret/a",
            "/opt/./secret/a",
            "/opt/",
        ] {
            assert!(!may(program, Right::Spawn), "{program}");
        }
        assert!(may("../channel", Right::Read));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for bad in ["a b", "a b c d", "a b all", "[ b read", "a *** read"] {
            assert!(Rights::parse(bad).is_err(), "{bad}");
        }
        let many = "a b read\n".repeat(RULES_MAX + 1);
        assert!(Rights::parse(&many).is_err());
    }
}
