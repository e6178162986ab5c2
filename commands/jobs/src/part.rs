//! A part of another host's job, which the agent of this host starts: two processes, as a job has.

use std::io;
use std::os::fd::AsFd as _;
use std::process::Command;

use hythe_cluster::tasks::{Part, PartOptions, Supervised};
use hythe_command::args::Globals;
use hythe_command::error::CliError;

use super::{PartArgs, PartRunnerArgs, pvm};

/// The one that supervises the other, and ends what that leaves when it is killed.
pub fn run(args: &PartArgs, globals: &Globals) -> Result<(), CliError> {
    let failed = |error: io::Error| CliError::Failed(format!("cannot start the part: {error}"));
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg("task-part-runner");
    command.arg("--front").arg(std::process::id().to_string());
    command.arg("--pool").arg(globals.pool_name());
    command.arg("--job").arg(args.job.to_string());
    command.args(["--from", args.from.as_str(), "--host", args.host.as_str()]);
    let part = Supervised::start(&mut command).map_err(failed)?;
    let (status, left_running) = part.wait().map_err(failed)?;
    match status.success() && left_running == 0 {
        true => Ok(()),
        false => Err(CliError::Failed(format!(
            "the part of a job of host {} ended ({status}); {left_running} processes are left",
            args.from
        ))),
    }
}

/// The parent of the tasks. Its standard input is the connection to the runner.
pub fn run_runner(args: &PartRunnerArgs, globals: &Globals) -> Result<(), CliError> {
    let runner = io::stdin().as_fd().try_clone_to_owned();
    let runner = runner.map_err(|error| CliError::Failed(format!("no connection: {error}")))?;
    let options = PartOptions {
        from: args.part.from.clone(),
        host: args.part.host.clone(),
        job: args.part.job,
        pool_name: globals.pool_name().to_owned(),
        front: args.front,
        adapt: pvm::adapt,
    };
    match Part::new(&globals.open()?, options, runner)?.run() {
        0 => Ok(()),
        left => Err(CliError::Failed(format!(
            "{left} processes of the job cannot be ended; `ps` shows them"
        ))),
    }
}
