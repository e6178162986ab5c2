//! The command line of `hythe-hostd`. People use `hythe host`, which has the same words.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use hythe_cluster::HostName;
use hythe_hostd::HostdError;
use hythe_hostd::membership::Addition;
use hythe_hostd::realm::Grant;

/// The agent of a host, which carries channels to other hosts.
#[derive(Debug, Parser)]
#[command(name = "hythe-hostd", version)]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Begin a realm, whose first host is this one
    Init {
        /// Name of this host [default: that of the system]
        #[arg(long)]
        name: Option<HostName>,
        /// Where other hosts reach it
        #[arg(long, value_name = "HOST[:PORT]")]
        address: Vec<String>,
    },
    /// Take a host into the realm over ssh, or the program in HYTHE_RSH, and start its agent
    Add(AddArguments),
    /// Put a host out of the realm
    Remove {
        /// Which
        name: HostName,
    },
    /// Permit a host something here, or take it away
    Allow(AllowArguments),
    /// Start the agent
    Start(StartArguments),
    /// Make a key and ask for its signature
    #[command(hide = true)]
    Join {
        /// Name of this host
        #[arg(long)]
        name: HostName,
        /// Whose authority asks, and has no host of this name
        #[arg(long)]
        realm: Option<String>,
    },
    /// Take what was signed from standard input
    #[command(hide = true)]
    Install,
}

#[derive(Debug, Args)]
pub(crate) struct AddArguments {
    /// As ssh is told it
    #[arg(value_name = "[USER@]HOST", required_unless_present = "hostfile")]
    target: Option<String>,
    /// Its name in the realm [default: HOST up to the first dot]
    #[arg(long)]
    name: Option<HostName>,
    /// Where its agent is reached [default: HOST]
    #[arg(long, value_name = "HOST[:PORT]")]
    address: Vec<String>,
    /// What it and the other hosts may do to each other [default: *:read,write]
    #[arg(long, value_name = "PATTERN:RIGHTS")]
    allow: Vec<String>,
    /// Add all hosts of a file with lines `HOST slots=N`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "name", "address"])]
    hostfile: Option<PathBuf>,
    /// How long each host may take
    #[arg(long, value_name = "SECONDS", value_parser = parse_timeout, default_value = "60")]
    timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct AllowArguments {
    /// Its name, or a pattern of names
    #[arg(required_unless_present_any = ["open", "close"])]
    host: Option<String>,
    /// Channels: a name, or a pattern of names
    #[arg(required_unless_present_any = ["open", "close"])]
    pattern: Option<String>,
    /// read, write, spawn or none
    #[arg(required_unless_present_any = ["open", "close"])]
    right: Option<String>,
    /// Open a channel to all Zenoh programs outside the realm that reach this host
    #[arg(long, value_name = "CHANNEL", conflicts_with_all = ["host", "pattern", "right", "close"])]
    open: Option<String>,
    /// Take that back
    #[arg(long, value_name = "CHANNEL", conflicts_with_all = ["host", "pattern", "right"])]
    close: Option<String>,
}

/// What is allowed, or no more.
pub(crate) enum Allowed<'a> {
    Rule {
        host: &'a str,
        pattern: &'a str,
        right: &'a str,
    },
    Open(&'a str),
    Close(&'a str),
}

impl AllowArguments {
    pub(crate) fn what(&self) -> Allowed<'_> {
        match (&self.open, &self.close) {
            (Some(channel), _) => Allowed::Open(channel),
            (None, Some(channel)) => Allowed::Close(channel),
            // All three are there then.
            (None, None) => Allowed::Rule {
                host: self.host.as_deref().unwrap_or_default(),
                pattern: self.pattern.as_deref().unwrap_or_default(),
                right: self.right.as_deref().unwrap_or_default(),
            },
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct StartArguments {
    /// Stay in the foreground
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Standard error is the log with this path: keep it within bounds
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Take connections there [default: all addresses, port 7450]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Be found there [default: all addresses, port 7451]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) discovery: Option<SocketAddr>,
    /// Find other hosts through the agent or router there, too
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) peer: Vec<String>,
    /// Do not look for other hosts by multicast
    #[arg(long)]
    pub(crate) no_scouting: bool,
    /// Link this LAN to others
    #[arg(long)]
    pub(crate) router: bool,
    /// Take a host for gone that is silent for so long; longer on hosts under heavy load
    #[arg(long, value_name = "SECONDS", value_parser = parse_lease, default_value = "2")]
    pub(crate) lease: Duration,
    /// Trust the link at this interface, where the other host trusts it, too: programs send over it
    /// in clear text
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) trusted: Vec<String>,
    /// Send no short messages by `AF_XDP` frames, also where `hythe host wire` serves the interface
    #[arg(long)]
    pub(crate) no_xdp: bool,
    /// Where programs outside the realm reach open channels [default: 127.0.0.1:7452]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) open_listen: Option<SocketAddr>,
    /// Connect to their Zenoh router or peer there, too
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) open_peer: Vec<String>,
    /// Pool whose channels reach other hosts [env: HYTHE_POOL]
    #[arg(long, default_value_t = default_pool())]
    pub(crate) pool: String,
}

/// An empty variable names none.
fn default_pool() -> String {
    hythe_sys::environment::text("HYTHE_POOL").unwrap_or_else(|| "default".to_owned())
}

impl AddArguments {
    /// They come from a file.
    pub(crate) const fn are_several(&self) -> bool {
        self.hostfile.is_some()
    }

    /// The hosts to add.
    pub(crate) fn all(&self) -> Result<Vec<Addition>, HostdError> {
        let grants = self.allow.iter().map(|text| grant(text));
        let grants: Vec<Grant> = grants.collect::<Result<_, _>>()?;
        let addition = |target: &str, slots| Addition {
            target: target.to_owned(),
            name: self.name.clone(),
            addresses: self.address.clone(),
            slots,
            grants: grants.clone(),
            timeout: self.timeout,
        };
        let Some(path) = &self.hostfile else {
            return Ok(self.target.iter().map(|one| addition(one, None)).collect());
        };
        let text = std::fs::read_to_string(path).map_err(|source| HostdError::File {
            path: path.clone(),
            source,
        })?;
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or(""));
        let lines = lines.map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<&str> = lines.collect();
        if lines.is_empty() {
            return Err(HostdError::Damaged {
                path: path.clone(),
                reason: "it names no host: a line is HOST or HOST slots=N".to_owned(),
            });
        }
        lines
            .into_iter()
            .map(|line| {
                let (target, slots) = host_line(line).map_err(|reason| HostdError::Damaged {
                    path: path.clone(),
                    reason: format!("`{line}`: {reason}"),
                })?;
                Ok(addition(target, slots))
            })
            .collect()
    }
}

/// `HOST`, or `HOST slots=N`, with blanks around `=` or without; `max_slots=N` is the most.
fn host_line(line: &str) -> Result<(&str, Option<u32>), String> {
    let (target, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let (mut slots, mut slots_max) = (None, u32::MAX);
    let spaced = rest.replace('=', " = ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    for option in words.chunks(3) {
        let number = |count: &str| {
            let number = count.parse::<u32>();
            let number = number.map_err(|error| format!("slots: {error}"));
            number.and_then(|number| match number {
                0 => Err("slots: 0 are none".to_owned()),
                number => Ok(number),
            })
        };
        match option {
            ["slots", "=", count] => slots = Some(number(count)?),
            ["max_slots" | "max-slots", "=", count] => slots_max = number(count)?,
            _ => return Err("a line is HOST or HOST slots=N".to_owned()),
        }
    }
    Ok((target, slots.map(|slots: u32| slots.min(slots_max))))
}

impl StartArguments {
    /// The first interface that is trusted and not there.
    ///
    /// # Errors
    /// What there is.
    pub(crate) fn check_trusted(&self) -> Result<(), HostdError> {
        let there = pnet_datalink::interfaces();
        let is_there = |name: &String| there.iter().any(|one| one.name == *name);
        match self.trusted.iter().find(|name| !is_there(name)) {
            None => Ok(()),
            Some(missing) => {
                let names: Vec<&str> = there.iter().map(|one| one.name.as_str()).collect();
                Err(HostdError::Agent(format!(
                    "--trusted {}: there is no such interface; there are: {}",
                    hythe_terminal::escaped(missing),
                    names.join(", ")
                )))
            }
        }
    }

    /// The same, for a program that is to stay.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec!["--pool".to_owned(), self.pool.clone()];
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([name.to_owned(), value]);
            }
        };
        add("--listen", self.listen.map(|address| address.to_string()));
        let discovery = self.discovery.map(|address| address.to_string());
        add("--discovery", discovery);
        add("--lease", Some(self.lease.as_secs_f64().to_string()));
        let open_listen = self.open_listen.map(|address| address.to_string());
        add("--open-listen", open_listen);
        for (name, peers) in [("--peer", &self.peer), ("--open-peer", &self.open_peer)] {
            for peer in peers {
                add(name, Some(peer.clone()));
            }
        }
        for interface in &self.trusted {
            add("--trusted", Some(interface.clone()));
        }
        let flags = [
            ("--no-scouting", self.no_scouting),
            ("--router", self.router),
            ("--no-xdp", self.no_xdp),
        ];
        let given = flags.iter().filter(|(_, is_given)| *is_given);
        words.extend(given.map(|(name, _)| (*name).to_owned()));
        words
    }
}

/// Other hosts say something each half second.
fn parse_lease(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().unwrap_or(0.0);
    match (1.0..=3600.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("a lease is 1 to 3600 seconds".to_owned()),
    }
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().unwrap_or(0.0);
    match (0.001..=86_400.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("a timeout is 0.001 to 86400 seconds".to_owned()),
    }
}

fn grant(text: &str) -> Result<Grant, HostdError> {
    let bad = || {
        HostdError::Agent(format!(
            "`{text}` is not PATTERN:RIGHTS, such as *:read,write"
        ))
    };
    let (pattern, rights) = text.rsplit_once(':').ok_or_else(bad)?;
    let is_right = |word: &str| matches!(word, "read" | "write");
    match rights.split(',').all(is_right) && !pattern.is_empty() {
        true => Ok(Grant {
            pattern: pattern.to_owned(),
            rights: rights.to_owned(),
        }),
        false => Err(bad()),
    }
}
