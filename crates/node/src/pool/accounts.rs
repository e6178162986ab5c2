//! Numbers of users and groups by name, from the machine's own files.
//!
//! For options that people type. Accounts that only a directory service knows are given by number.

use std::fs;

/// The number of a user: a number as it is, or a name in `/etc/passwd`.
#[must_use]
pub fn user_id(name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| look_up("/etc/passwd", name))
}

/// The number of a group: a number as it is, or a name in `/etc/group`.
#[must_use]
pub fn group_id(name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| look_up("/etc/group", name))
}

/// In both files a line is `name:password:number:...`.
fn look_up(path: &str, name: &str) -> Option<u32> {
    let text = fs::read_to_string(path).ok()?;
    number_in(&text, name)
}

fn number_in(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let text = "root:x:0:0:root:/root:/bin/sh\n# video\nvideo:*:44:\nbroken\n::7\n";
        assert_eq!(number_in(text, "root"), Some(0));
        assert_eq!(number_in(text, "video"), Some(44));
        for missing in ["roo", "broken", "root:x", "nobody-here"] {
            assert_eq!(number_in(text, missing), None, "{missing}");
        }
        assert_eq!(user_id("65534"), Some(65534));
        assert_eq!(group_id("-1"), None);
    }
}
