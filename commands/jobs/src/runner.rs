//! The runner of `hythe run`: the parent of the tasks.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use hythe_cluster::tasks::{JobEnd, JobOptions, Output, Runner, TaskEnd, TaskError};
use hythe_command::args::Globals;
use hythe_command::error::CliError;

use super::print::Printer;
use super::{RunArgs, RunnerArgs, pvm};

/// The process that is the parent of a job's tasks.
///
/// # Errors
///
/// What cannot be done, with what to do about it.
pub fn run(args: &RunnerArgs, globals: &Globals) -> Result<(), CliError> {
    let signals = passed_on()?;
    let pool = globals.open()?;
    let mut options = options(&args.job, globals)?;
    // Served until the job has ended.
    let mut _machine = None;
    if args.job.pvm {
        _machine = pvm::serve(&args.job, &pool, &mut options)?;
    }
    let runner = Runner::new(&pool, options, Some(args.front))?;
    let printer = Arc::new(Printer::begin(&args.job, globals, runner.job())?);
    let printing = Arc::clone(&printer);
    match runner.run(signals, move |output: &Output| printing.print(output)) {
        Ok(end) => {
            printer.end(&end.tasks, end.exit_code())?;
            judge(&end, &args.job)
        }
        Err(TaskError::System { source, .. })
            if source.kind() == std::io::ErrorKind::BrokenPipe =>
        {
            Err(CliError::Output(source))
        }
        Err(error) => {
            printer.end(&[], 1)?;
            Err(error.into())
        }
    }
}

fn options(args: &RunArgs, globals: &Globals) -> Result<JobOptions, CliError> {
    let (program, arguments) = args.program();
    let mut environment = args.environment()?;
    environment.push(("HYTHE_POOL".into(), globals.pool_name().into()));
    let count = args.tasks()?;
    let host = rustix::system::uname();
    Ok(JobOptions {
        program: program.to_owned(),
        arguments: arguments.to_vec(),
        count,
        environment,
        keeps_going: args.keep_going,
        whole_lines: count > 1 || args.stay || args.label || globals.json,
        has_terminal: !args.no_pty,
        directory: args.directory()?,
        stays: args.stay,
        host: host.nodename().to_string_lossy().into_owned(),
        hosts: args.hosts()?,
    })
}

/// Becomes readable with each signal that this process gets.
fn passed_on() -> Result<UnixStream, CliError> {
    let (mut signals, job_control) = super::signals()?;
    let pair = UnixStream::pair();
    let (mut to, from) = pair.map_err(|source| CliError::System {
        action: "pass on signals",
        source,
    })?;
    super::spawn(move || {
        for number in signals.forever() {
            let number = job_control.latest(number);
            let byte = u8::try_from(number).unwrap_or(0);
            if to.write_all(&[byte]).is_err() {
                return;
            }
        }
    })?;
    Ok(from)
}

/// The first task that failed is named, and its code is the command's.
fn judge(end: &JobEnd, args: &RunArgs) -> Result<(), CliError> {
    if end.left_running > 0 {
        return Err(CliError::Failed(format!(
            "{} processes of the job cannot be ended; `ps` shows them",
            end.left_running
        )));
    }
    let failed = end.tasks.iter().find(|task| task.exit_code() != 0);
    let Some(failed) = failed else { return Ok(()) };
    let others = match end.tasks.len() {
        1 => "",
        _ if args.keep_going || args.stay => "; the others went on",
        _ => "; the others were ended",
    };
    Err(CliError::TaskFailed {
        code: failed.exit_code(),
        text: format!(
            "task {} (rank {}) {}{others}",
            failed.task,
            failed.rank,
            how(failed)
        ),
    })
}

fn how(end: &TaskEnd) -> String {
    match (end.code, end.signal) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => match signal_hook::low_level::signal_name(signal) {
            Some(name) => format!("was killed by {name}"),
            None => format!("was killed by signal {signal}"),
        },
        (None, None) if end.is_lost => "was lost with its host, or with the link to it".to_owned(),
        (None, None) => "ended in a way that is not known".to_owned(),
    }
}
