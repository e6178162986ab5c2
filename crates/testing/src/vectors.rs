//! Files of golden vectors in `spec/vectors/`: groups of statements, a line each.
//!
//! ```text
//! # what is to be read by people
//! [pack.player]
//! pages = 7
//! hex = 4859
//! ```

use std::collections::HashMap;
use std::fmt::Debug;
use std::str::FromStr;

/// A group: its statements by their names.
pub type Group = HashMap<String, String>;

/// The groups of `text` whose names begin with `prefix`, with those names, in order.
#[must_use]
pub fn groups(text: &str, prefix: &str) -> Vec<(String, Group)> {
    let mut found: Vec<(String, Group)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            found.push((name.trim_end_matches(']').to_owned(), Group::new()));
        } else if let (Some(group), Some((key, value))) = (found.last_mut(), line.split_once(" = "))
        {
            group.1.insert(key.to_owned(), value.to_owned());
        }
    }
    found.retain(|(name, _)| name.starts_with(prefix));
    found
}

/// What `hex` spells; `-` is nothing.
///
/// # Panics
///
/// If it is no pairs of hexadecimal digits.
#[must_use]
pub fn bytes(hex: &str) -> Vec<u8> {
    let hex = if hex == "-" { "" } else { hex };
    let pairs = (0..hex.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits"))
        .collect()
}

/// A number of the type that is asked for.
///
/// # Panics
///
/// If it is none.
#[must_use]
pub fn number<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().expect("a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_the_beginning_of_their_names() {
        let text = "# x = y\n[a.1]\nn = 7\nhex = 00ff\n\n[b]\nn = 1\n[a.2]\nhex = -\n";
        let found = groups(text, "a.");
        assert_eq!(found.len(), 2);
        assert_eq!(
            (&found[0].0[..], number::<u32>(&found[0].1["n"])),
            ("a.1", 7)
        );
        assert_eq!(bytes(&found[0].1["hex"]), [0, 0xff]);
        assert_eq!(
            (&found[1].0[..], bytes(&found[1].1["hex"])),
            ("a.2", Vec::new())
        );
    }
}
