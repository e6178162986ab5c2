//! PVM's hostfiles: which hosts a machine has.
//!
//! A line names a host and its options; one that begins with `*` says what holds for those behind
//! it, one with `&` a host that is added later. `#` begins a comment. Options say how PVM starts
//! its daemons and what those do: hosts of a realm have agents instead, so they are read and not
//! used.

use std::collections::BTreeSet;

/// The most hosts: as many as task ids tell apart.
const HOSTS_MAX: usize = 4095;
/// The longest file.
const BYTES_MAX: usize = 1 << 20;
/// User, way of starting, daemon, programs, folder, debugger, address, machine.
const OPTIONS: [&str; 8] = ["lo", "so", "dx", "ep", "wd", "bx", "ip", "id"];
const SPEED: &str = "sp";

/// A host of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLine {
    /// As it is called.
    pub name: String,
    /// Only once it is asked for: `&`.
    pub is_later: bool,
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hostfile {
    /// In the order of the file.
    pub hosts: Vec<HostLine>,
    /// Options that it sets.
    pub options: BTreeSet<&'static str>,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the hostfile: {what}")]
pub struct BadHostfile {
    /// Where, from 1 on.
    pub line: usize,
    /// And what.
    pub what: String,
}

/// Reads a file.
///
/// # Errors
/// The first line that is wrong.
pub fn parse(text: &str) -> Result<Hostfile, BadHostfile> {
    let fail = |line: usize, what: String| BadHostfile { line, what };
    if text.len() > BYTES_MAX {
        return Err(fail(1, format!("it has more than {BYTES_MAX} bytes")));
    }
    let mut file = Hostfile::default();
    let mut seen = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (is_later, line) = match line.strip_prefix('&') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        for word in words {
            file.options
                .insert(option(word).map_err(|what| fail(number, what))?);
        }
        if name == "*" {
            continue;
        }
        // `$` asks for a second daemon on one host, which nothing here needs.
        let name = name.strip_prefix('$').unwrap_or(name);
        if name.is_empty() {
            return Err(fail(number, "there is no name of a host".to_owned()));
        }
        if !seen.insert(name) {
            return Err(fail(number, format!("host {name} is there twice")));
        }
        if file.hosts.len() == HOSTS_MAX {
            return Err(fail(number, format!("{HOSTS_MAX} hosts are the most")));
        }
        file.hosts.push(HostLine {
            name: name.to_owned(),
            is_later,
        });
    }
    Ok(file)
}

fn option(word: &str) -> Result<&'static str, String> {
    let Some((key, value)) = word.split_once('=') else {
        return Err(format!("`{word}` is no option: those are KEY=VALUE"));
    };
    if key == SPEED {
        let speed: Option<u32> = value.parse().ok();
        return match speed.filter(|speed| (1..=1_000_000).contains(speed)) {
            Some(_) => Ok(SPEED),
            None => Err(format!("`{value}` is no speed: those are 1 to 1000000")),
        };
    }
    let found = OPTIONS.into_iter().find(|known| *known == key);
    found.ok_or_else(|| format!("there is no option `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_manual_is_read() {
        let text = "\
# host file for testing on various platforms
fonebone
refuge
  # installed in /usr/local here
sigi.cs          dx=/usr/local/pvm3/lib/pvmd
*                lo=guest  so=pw
sn666.jrandom.com
cubie.misc.edu
& igor.firewall.com  lo=guest2 so=ms ep=bob/pvm3/bin/$PVM_ARCH sp=20
";
        let file = parse(text).expect("sound");
        let names: Vec<&str> = file.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "fonebone",
                "refuge",
                "sigi.cs",
                "sn666.jrandom.com",
                "cubie.misc.edu",
                "igor.firewall.com"
            ]
        );
        let later = file.hosts.iter().map(|host| host.is_later);
        assert_eq!(
            later.collect::<Vec<_>>(),
            [false, false, false, false, false, true]
        );
        assert_eq!(
            file.options.into_iter().collect::<Vec<_>>(),
            ["dx", "ep", "lo", "so", "sp"]
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, what) in [
            ("a\nb c", 2, "`c` is no option"),
            ("a xx=1", 1, "no option `xx`"),
            ("a sp=0", 1, "no speed"),
            ("* sp=fast", 1, "no speed"),
            ("a\n\na", 3, "host a is there twice"),
            ("&", 1, "no name"),
            ("$", 1, "no name"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.line, line, "{text}");
            assert!(error.what.contains(what), "{error}");
        }
        assert!(parse(&"#".repeat(BYTES_MAX + 1)).is_err());
    }
}
