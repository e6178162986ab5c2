//! `hythe run`, as it was called: starts the runner, passes on signals and what is typed, and ends
//! what a killed runner leaves.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Read as _, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use hythe_cluster::tasks::Supervised;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::stop::LOOK;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use signal_hook::consts::SIGTSTP;
use signal_hook::low_level::emulate_default_handler;

use super::{RunArgs, pvm};

/// `hythe run`.
///
/// # Errors
///
/// What cannot be done, with what to do about it.
pub fn run(args: &RunArgs, globals: &Globals) -> Result<(), CliError> {
    args.environment()?;
    args.tasks()?;
    if args.pvm {
        pvm::library_path()?;
    }
    // Made here, if it has to be, so that it is said once.
    drop(globals.open_to_use()?);
    let (mut signals, job_control) = super::signals()?;
    let is_typed = io::stdin().is_terminal();
    let mut command = command(args, globals)?;
    if is_typed {
        // The runner is in another process group, which may not read from the terminal.
        command.stdin(Stdio::piped());
    }
    let failed = |source: io::Error| CliError::System {
        action: "start the runner",
        source,
    };
    let mut runner = Supervised::start(&mut command).map_err(failed)?;
    if let Some(mut to) = runner.take_stdin() {
        super::spawn(move || {
            // Ends when the first task no longer reads, or with this process.
            let _ = pass_on_typed(&mut to);
        })?;
    }
    let signal = runner.signaller().map_err(failed)?;
    let last = Arc::new(AtomicI32::new(0));
    let passed_on = Arc::clone(&last);
    super::spawn(move || {
        for number in signals.forever() {
            let number = job_control.latest(number);
            passed_on.store(number, Ordering::Relaxed);
            signal(number);
            if number == SIGTSTP {
                // The shell sees this process stop, until it continues it.
                let _ = emulate_default_handler(number);
            }
        }
    })?;
    let (status, left_running) = runner.wait().map_err(failed)?;
    if left_running > 0 {
        return Err(CliError::Failed(format!(
            "{left_running} processes of the job cannot be ended; `ps` shows them"
        )));
    }
    ended(status, last.load(Ordering::Relaxed))
}

/// Passes on what is typed. In the background nothing is read: that would stop this process.
fn pass_on_typed(to: &mut impl Write) -> io::Result<()> {
    let mut stdin = io::stdin();
    let mut bytes = [0; 4096];
    loop {
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        match rustix::event::poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // One that is not the terminal of this process can be read at any time.
        let owner = tcgetpgrp(&stdin);
        if owner.is_ok_and(|owner| owner != getpgrp()) {
            std::thread::sleep(LOOK);
            continue;
        }
        match stdin.read(&mut bytes)? {
            0 => return Ok(()),
            read => to.write_all(&bytes[..read])?,
        }
    }
}

/// What the runner's end means. It has said what there is to say, unless it was killed.
fn ended(status: ExitStatus, passed_on: i32) -> Result<(), CliError> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(CliError::Reported(u8::try_from(code).unwrap_or(1))),
        // It came before the runner listened for it.
        (None, Some(signal)) if signal == passed_on => {
            Err(CliError::Reported(u8::try_from(128 + signal).unwrap_or(1)))
        }
        (None, signal) => Err(CliError::Failed(format!(
            "the runner of the job was killed by signal {}; its tasks were ended",
            signal.unwrap_or(0)
        ))),
    }
}

fn command(args: &RunArgs, globals: &Globals) -> Result<Command, CliError> {
    let own = std::env::current_exe();
    let own =
        own.map_err(|error| CliError::Failed(format!("cannot find this program: {error}")))?;
    let mut command = Command::new(own);
    // A terminal's signals come to this process alone, which passes them on once.
    command.process_group(0);
    command.arg("task-runner");
    command.arg("--front").arg(std::process::id().to_string());
    command.arg("--pool").arg(globals.pool_name());
    if let Some(count) = args.count {
        command.arg("--count").arg(count.to_string());
    }
    if !args.hosts.is_empty() {
        command.arg("--hosts").arg(args.hosts.join(","));
    }
    if let Some(path) = &args.hostfile {
        command.arg("--hostfile").arg(path);
    }
    if let Some(path) = args.directory()? {
        command.arg("--wdir").arg(path);
    }
    let flags = [
        (globals.json, "--json"),
        (args.label, "--label"),
        (args.keep_going, "--keep-going"),
        (args.stay, "--stay"),
        (args.pvm, "--pvm"),
        (args.no_pty, "--no-pty"),
    ];
    command.args(
        flags
            .iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, flag)| flag),
    );
    command.args((0..globals.verbose).map(|_| "-v"));
    for export in &args.export {
        let mut word = OsString::from("--export=");
        word.push(export);
        command.arg(word);
    }
    command.arg("--").args(&args.program);
    Ok(command)
}
