//! What the commands of jobs take.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use clap::Args;
use hythe_cluster::HostName;
use hythe_cluster::tasks::{JobHost, TaskId};
use hythe_command::error::CliError;

use super::hosts::{hosts, hosts_of_pvm};

/// What to run.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// How many tasks; default: 1, or as many as all hosts together have slots, but for `--pvm`
    #[arg(short = 'n', long, visible_alias = "np", value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=512))]
    pub count: Option<u32>,
    /// Run them on these hosts of the realm in turn: HOST, or HOST:SLOTS for more than one at a
    /// time; `localhost` is this one
    #[arg(short = 'H', long, visible_alias = "host")]
    #[arg(value_name = "HOST[:SLOTS]", value_delimiter = ',')]
    pub(crate) hosts: Vec<String>,
    /// Run them on the hosts of this file, lines HOST or HOST slots=N; with `--pvm` a hostfile of
    /// PVM, whose program begins on this host
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    pub(crate) hostfile: Option<PathBuf>,
    /// Give the tasks this variable of the environment, NAME or NAME=VALUE; may be repeated. On
    /// this host they have all that `hythe run` has, on others what the agent there has
    #[arg(short = 'x', long = "export", value_name = "NAME[=VALUE]")]
    pub(crate) export: Vec<OsString>,
    /// Begin in this directory, on all hosts
    #[arg(long, value_name = "DIR")]
    pub(crate) wdir: Option<PathBuf>,
    /// Give the tasks a pipe as standard output, and not a terminal; C programs then print when
    /// they end, and nothing when they abort
    #[arg(long)]
    pub(crate) no_pty: bool,
    /// Put the rank in front of each line that a task prints
    #[arg(long)]
    pub(crate) label: bool,
    /// Go on with the others when a task fails, and exit with its code at the end
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Keep the job, also without tasks, until this command is asked to end: other programs may
    /// enrol in it, and spawn
    #[arg(long)]
    pub(crate) stay: bool,
    /// The program is one for PVM: it finds libpvm3.so.3 on Hythe's tasks, and its machine is the
    /// pool's, with the hosts that are named
    #[arg(long)]
    pub(crate) pvm: bool,
    /// The program, and its arguments; with `--stay` it may be left out
    #[arg(
        value_name = "PROGRAM",
        required_unless_present = "stay",
        trailing_var_arg = true
    )]
    pub program: Vec<OsString>,
}

/// What a runner takes.
#[derive(Args, Debug)]
pub struct RunnerArgs {
    /// Its parent, for which the job runs
    #[arg(long, value_name = "PID")]
    pub(crate) front: u32,
    #[command(flatten)]
    pub(crate) job: RunArgs,
}

/// What a part of a job of another host takes.
#[derive(Args, Clone, Debug)]
pub struct PartArgs {
    /// The host of the job
    #[arg(long, value_name = "HOST")]
    pub(crate) from: HostName,
    /// The number of the job, with that of its host in the realm in front
    #[arg(long, value_name = "NUMBER")]
    pub(crate) job: u32,
    /// This host
    #[arg(long, value_name = "HOST")]
    pub(crate) host: HostName,
}

/// The same, for the process that is the parent of the tasks.
#[derive(Args, Debug)]
pub struct PartRunnerArgs {
    /// Its parent, which supervises it
    #[arg(long, value_name = "PID")]
    pub(crate) front: u32,
    #[command(flatten)]
    pub(crate) part: PartArgs,
}

/// Which task, and what to send.
#[derive(Args, Debug)]
pub struct KillArgs {
    /// The task, as `hythe tasks` shows it
    #[arg(value_name = "TASK")]
    pub(crate) task: TaskId,
    /// The signal, by name or number
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM", value_parser = parse_signal)]
    pub(crate) signal: i32,
}

impl RunArgs {
    /// The program as it was named, and its arguments.
    pub(crate) fn program(&self) -> (&OsStr, &[OsString]) {
        match self.program.split_first() {
            Some((program, arguments)) => (program, arguments),
            // A job that stays may begin without tasks.
            None => (OsStr::new(""), &[]),
        }
    }

    /// On which hosts; none: on this one.
    pub(crate) fn hosts(&self) -> Result<Vec<JobHost>, CliError> {
        match &self.hostfile {
            Some(path) if self.pvm => hosts_of_pvm(path),
            path => hosts(&self.hosts, path.as_deref()),
        }
    }

    /// How many tasks the job begins with.
    pub(crate) fn tasks(&self) -> Result<u32, CliError> {
        if self.program.is_empty() {
            return Ok(0);
        }
        let slots: u32 = self.hosts()?.iter().map(|host| host.slots).sum();
        let all = match self.pvm {
            // Others are spawned.
            true => 1,
            false => 1.max(slots),
        };
        Ok(self.count.unwrap_or(all))
    }

    /// Where the tasks begin, on any host. `None`: where this process is.
    pub(crate) fn directory(&self) -> Result<Option<PathBuf>, CliError> {
        let absolute = self.wdir.as_ref().map(std::path::absolute).transpose();
        absolute.map_err(CliError::file(
            "find",
            self.wdir.clone().unwrap_or_default(),
        ))
    }

    /// The variables to set, with their values.
    pub(crate) fn environment(&self) -> Result<Vec<(OsString, OsString)>, CliError> {
        let one = |export: &OsString| {
            let bytes = export.as_bytes();
            let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
                Some(at) => (
                    &bytes[..at],
                    Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned()),
                ),
                None => (bytes, None),
            };
            let name = OsStr::from_bytes(name);
            let value = value.or_else(|| std::env::var_os(name));
            match value {
                Some(value) if !name.is_empty() => Ok((name.to_owned(), value)),
                _ => Err(CliError::WrongUse(format!(
                    "-x {}: there is no such variable in the environment; set it, or give its \
                     value: -x NAME=VALUE",
                    hythe_terminal::escaped(export)
                ))),
            }
        };
        self.export.iter().map(one).collect()
    }
}

/// A name with or without `SIG`, or a number.
fn parse_signal(text: &str) -> Result<i32, String> {
    let is_named = |number: &i32| {
        let wanted = text.to_ascii_uppercase();
        signal_hook::low_level::signal_name(*number)
            .is_some_and(|name| name == wanted || name.strip_prefix("SIG") == Some(&wanted))
    };
    let by_number = || text.parse().ok().filter(|number| (1..=64).contains(number));
    let found = (1..=64).find(is_named).or_else(by_number);
    found
        .ok_or_else(|| "it is no signal; TERM, KILL, INT, USR1 and 9, for instance, are".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, number) in [("TERM", 15), ("sigkill", 9), ("9", 9), ("USR1", 10)] {
            assert_eq!(parse_signal(text), Ok(number), "{text}");
        }
        for bad in ["", "0", "-1", "65", "SIG", "TERMS"] {
            assert!(parse_signal(bad).is_err(), "{bad}");
        }
    }
}
