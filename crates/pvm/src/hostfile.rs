//! PVM's hostfiles: which hosts a machine has.
//!
//! A line names a host and its options; one that begins with `*` says what holds for those behind
//! it, until the next such line, and for hosts that it does not name; one with `&` a host that is
//! added later. `#` begins a comment. What says how PVM starts its daemons is read and not used:
//! hosts of a realm have agents instead.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The most hosts: as many as task ids tell apart.
const HOSTS_MAX: usize = 4095;
/// The longest file.
const BYTES_MAX: usize = 1 << 20;
/// User, way of starting, daemon, debugger, address, machine.
const UNUSED: [&str; 6] = ["lo", "so", "dx", "bx", "ip", "id"];
/// Of a host that says nothing else.
const SPEED: u32 = 1000;
/// The most folders of one host, each of which its agent is asked about.
const FOLDERS_MAX: usize = 16;

/// What a file says of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// `sp=`: its speed, compared to that of others.
    pub speed: u32,
    /// `ep=`: where programs are looked for first, as they are named: `$NAME` is that host's.
    pub folders: Vec<String>,
    /// `wd=`: where tasks begin.
    pub directory: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            speed: SPEED,
            folders: Vec::new(),
            directory: None,
        }
    }
}

/// A host of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLine {
    /// As it is called.
    pub name: String,
    /// Only once it is asked for: `&`.
    pub is_later: bool,
    /// What holds for it.
    pub settings: Settings,
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hostfile {
    /// In the order of the file.
    pub hosts: Vec<HostLine>,
    /// What holds for hosts that it does not name: its last line `*`.
    pub others: Settings,
    /// Options that it sets, and that are not used.
    pub unused: BTreeSet<&'static str>,
}

impl Hostfile {
    /// What holds for each host that it names.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<String, Settings> {
        let hosts = self.hosts.iter();
        hosts
            .map(|host| (host.name.clone(), host.settings.clone()))
            .collect()
    }
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
        let is_for_others = name == "*";
        let mut settings = match is_for_others {
            true => Settings::default(),
            false => file.others.clone(),
        };
        for word in words {
            let unused = option(word, &mut settings).map_err(|what| fail(number, what))?;
            file.unused.extend(unused);
        }
        if is_for_others {
            file.others = settings;
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
            settings,
        });
    }
    Ok(file)
}

/// Its name, if it is one that is not used.
fn option(word: &str, settings: &mut Settings) -> Result<Option<&'static str>, String> {
    let Some((key, value)) = word.split_once('=') else {
        return Err(format!("`{word}` is no option: those are KEY=VALUE"));
    };
    match key {
        "sp" => {
            let speed: Option<u32> = value.parse().ok();
            let speed = speed.filter(|speed| (1..=1_000_000).contains(speed));
            settings.speed =
                speed.ok_or_else(|| format!("`{value}` is no speed: those are 1 to 1000000"))?;
        }
        "ep" => {
            let folders = value.split(':').filter(|folder| !folder.is_empty());
            settings.folders = folders.map(str::to_owned).collect();
            if settings.folders.len() > FOLDERS_MAX {
                return Err(format!("`ep=` has more than {FOLDERS_MAX} folders"));
            }
        }
        "wd" => settings.directory = (!value.is_empty()).then(|| value.to_owned()),
        _ => {
            let found = UNUSED.into_iter().find(|known| *known == key);
            return match found {
                Some(unused) => Ok(Some(unused)),
                None => Err(format!("there is no option `{key}`")),
            };
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_the_manual_is_read() {
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
            file.unused.into_iter().collect::<Vec<_>>(),
            ["dx", "lo", "so"]
        );
        let igor = &file.hosts[5].settings;
        assert_eq!((igor.speed, &igor.directory), (20, &None));
        assert_eq!(igor.folders, ["bob/pvm3/bin/$PVM_ARCH"]);
    }

    #[test]
    fn line_with_a_star_holds_until_the_next() {
        let text = "a\n* ep=/x::~/y wd=/w sp=7\nb\n& c sp=9 ep=/z\n* sp=5\nd wd=$HOME/d\n";
        let file = parse(text).expect("sound");
        let settings = |speed, folders: &[&str], directory: Option<&str>| Settings {
            speed,
            folders: folders.iter().map(|one| (*one).to_owned()).collect(),
            directory: directory.map(str::to_owned),
        };
        let wanted = [
            ("a", Settings::default()),
            ("b", settings(7, &["/x", "~/y"], Some("/w"))),
            ("c", settings(9, &["/z"], Some("/w"))),
            ("d", settings(5, &[], Some("$HOME/d"))),
        ];
        let wanted = wanted.map(|(name, settings)| (name.to_owned(), settings));
        assert_eq!(file.settings(), BTreeMap::from(wanted));
        assert_eq!(file.others, settings(5, &[], None));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, what) in [
            ("a\nb c", 2, "`c` is no option"),
            ("a xx=1", 1, "no option `xx`"),
            ("a sp=0", 1, "no speed"),
            ("* sp=fast", 1, "no speed"),
            ("a\n\na", 3, "host a is there twice"),
            ("* sp=1000001", 1, "no speed"),
            ("a ep=1:2:3:4:5:6:7:8:9:a:b:c:d:e:f:g:h", 1, "16 folders"),
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
