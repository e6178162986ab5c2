//! PVM's hostfiles: which hosts, and what holds on each.
//!
//! A line names a host and its options; one that begins with `*` says what holds for those behind
//! it, one with `&` a host that is not started yet. `#` begins a comment.

use std::collections::BTreeMap;

/// The most hosts: as many as task ids tell apart.
const HOSTS_MAX: usize = 4095;
/// The longest file.
const BYTES_MAX: usize = 1 << 20;

/// A host of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLine {
    /// As it is called.
    pub name: String,
    /// Only once it is asked for: `&`.
    pub is_later: bool,
    /// `lo`: the name of its user.
    pub login: Option<String>,
    /// `so`: `pw` or `ms`.
    pub start: Option<String>,
    /// `dx`: path of its daemon.
    pub daemon: Option<String>,
    /// `ep`: where programs are looked for, by colons.
    pub programs: Option<String>,
    /// `wd`: where they begin.
    pub directory: Option<String>,
    /// `sp`: its speed; 1,000 by default.
    pub speed: u32,
    /// `bx`: the debugger.
    pub debugger: Option<String>,
    /// `ip`: the name of its address.
    pub address: Option<String>,
    /// `id`: which machine.
    pub machine: Option<String>,
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hostfile {
    /// In the order of the file.
    pub hosts: Vec<HostLine>,
    /// What holds for hosts that are added later: the last `*` line.
    pub defaults: HostLine,
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

/// Reads a file. `variables` gives the value of `$NAME`.
///
/// # Errors
/// The first line that is wrong.
pub fn parse(
    text: &str,
    variables: impl Fn(&str) -> Option<String>,
) -> Result<Hostfile, BadHostfile> {
    let fail = |line: usize, what: String| BadHostfile { line, what };
    if text.len() > BYTES_MAX {
        return Err(fail(1, format!("it has more than {BYTES_MAX} bytes")));
    }
    let unset = HostLine {
        speed: 1000,
        ..HostLine::default()
    };
    let mut file = Hostfile {
        hosts: Vec::new(),
        defaults: unset.clone(),
    };
    let mut seen = BTreeMap::new();
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
        let is_default = name == "*";
        let mut host = match is_default {
            true => unset.clone(),
            false => file.defaults.clone(),
        };
        for word in words {
            set(&mut host, &expand(word, &variables)).map_err(|what| fail(number, what))?;
        }
        if is_default {
            file.defaults = host;
            continue;
        }
        // `$` asks for a second daemon on one host, which nothing here needs.
        let name = name.strip_prefix('$').unwrap_or(name);
        if name.is_empty() {
            return Err(fail(number, "there is no name of a host".to_owned()));
        }
        if let Some(first) = seen.insert(name.to_owned(), number) {
            return Err(fail(number, format!("line {first} has host {name}, too")));
        }
        if file.hosts.len() == HOSTS_MAX {
            return Err(fail(number, format!("{HOSTS_MAX} hosts are the most")));
        }
        name.clone_into(&mut host.name);
        host.is_later = is_later;
        file.hosts.push(host);
    }
    Ok(file)
}

fn set(host: &mut HostLine, word: &str) -> Result<(), String> {
    let Some((key, value)) = word.split_once('=') else {
        return Err(format!("`{word}` is no option: those are KEY=VALUE"));
    };
    let place = match key {
        "lo" => &mut host.login,
        "so" => &mut host.start,
        "dx" => &mut host.daemon,
        "ep" => &mut host.programs,
        "wd" => &mut host.directory,
        "bx" => &mut host.debugger,
        "ip" => &mut host.address,
        "id" => &mut host.machine,
        "sp" => {
            let speed = value.parse().ok();
            let speed = speed.filter(|speed| (1..=1_000_000).contains(speed));
            host.speed =
                speed.ok_or_else(|| format!("`{value}` is no speed: those are 1 to 1000000"))?;
            return Ok(());
        }
        _ => return Err(format!("there is no option `{key}`")),
    };
    *place = Some(value.to_owned());
    Ok(())
}

/// Puts values for `$NAME`; nothing for one that is not set.
fn expand(word: &str, variables: &impl Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::new();
    let mut rest = word;
    while let Some((before, behind)) = rest.split_once('$') {
        expanded.push_str(before);
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let end = behind.find(|character| !is_name(character));
        let (name, after) = behind.split_at(end.unwrap_or(behind.len()));
        expanded.push_str(&variables(name).unwrap_or_default());
        rest = after;
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_variable(_name: &str) -> Option<String> {
        None
    }

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
        let arch = |name: &str| (name == "PVM_ARCH").then(|| "LINUX64".to_owned());
        let file = parse(text, arch).expect("sound");
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
        assert_eq!(file.hosts[0].login, None);
        assert_eq!(file.hosts[0].speed, 1000);
        assert_eq!(
            file.hosts[2].daemon.as_deref(),
            Some("/usr/local/pvm3/lib/pvmd")
        );
        assert_eq!(file.hosts[3].login.as_deref(), Some("guest"));
        let later = &file.hosts[5];
        assert!(later.is_later && !file.hosts[4].is_later);
        assert_eq!(later.login.as_deref(), Some("guest2"));
        assert_eq!(later.programs.as_deref(), Some("bob/pvm3/bin/LINUX64"));
        assert_eq!(later.speed, 20);
        assert_eq!(file.defaults.start.as_deref(), Some("pw"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, what) in [
            ("a\nb c", 2, "`c` is no option"),
            ("a xx=1", 1, "no option `xx`"),
            ("a sp=0", 1, "no speed"),
            ("a\n\na", 3, "line 1 has host a"),
            ("&", 1, "no name"),
            ("$", 1, "no name"),
        ] {
            let error = parse(text, no_variable).expect_err(text);
            assert_eq!(error.line, line, "{text}");
            assert!(error.what.contains(what), "{error}");
        }
        assert!(parse(&"#".repeat(BYTES_MAX + 1), no_variable).is_err());
    }

    #[test]
    fn variables_are_put_in_and_unset_ones_are_nothing() {
        let home = |name: &str| (name == "HOME").then(|| "/root".to_owned());
        let file = parse("a ep=$HOME/bin:$NO_SUCH/x wd=$", home).expect("sound");
        assert_eq!(file.hosts[0].programs.as_deref(), Some("/root/bin:/x"));
        assert_eq!(file.hosts[0].directory.as_deref(), Some(""));
    }
}
