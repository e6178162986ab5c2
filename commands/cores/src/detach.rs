//! `hythe core run --detach`: starts the agent as a process of its own, and returns when the core
//! is up.
//!
//! The agent is this program again, without a terminal. It says on its standard output when the
//! core is up, or ends with an error; both are passed on.

use std::io::{self, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::args::CoreRunArgs;
use hythe::core::Board;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_command::stop::Stop;

pub(super) fn run(args: &CoreRunArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    Board::find(&args.board)?;
    // Here, so that whoever looks at this command is told if it makes the pool.
    drop(globals.open_to_use()?);
    let program = std::env::current_exe().map_err(CliError::file("find", "this program"))?;
    let mut command = Command::new(&program);
    command.args([
        "run",
        "--detached",
        &args.board,
        "--pool",
        globals.pool_name(),
    ]);
    command.arg(format!(
        "--start-timeout={}",
        args.start_timeout.as_secs_f64()
    ));
    if let Some(app) = &args.app {
        command.arg(format!("--app={app}"));
    }
    for class in &args.class {
        command.arg(format!("--class={}x{}", class.payload_bytes, class.count));
    }
    if let Some(name) = &args.name {
        command.arg(format!("--as={name}"));
    }
    if let Some(times) = args.restart {
        command.arg(format!("--restart={times}"));
    }
    if globals.json {
        command.arg("--json");
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut agent = command.spawn().map_err(CliError::file("start", program))?;
    let said = hear(&mut agent, globals.json, &stop);
    let said = said.map_err(CliError::file("hear", "the agent"))?;
    match said {
        Some(said) => output::write(&said),
        None => Err(failed(&mut agent, &stop)),
    }
}

/// What the agent says when the core is up: a line, or a JSON document. `None`: it ended before, or
/// somebody asked to stop.
fn hear(agent: &mut Child, json: bool, stop: &Stop) -> io::Result<Option<Vec<u8>>> {
    let Some(mut output) = agent.stdout.take() else {
        return Ok(None);
    };
    let mut said = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if !stop.wait_readable(std::os::fd::AsFd::as_fd(&output))? {
            return Ok(None);
        }
        let read = output.read(&mut piece)?;
        said.extend_from_slice(&piece[..read]);
        let whole = if json {
            serde_json::from_slice::<serde_json::Value>(&said).is_ok()
        } else {
            said.ends_with(b"\n")
        };
        match (whole, read) {
            (true, _) => return Ok(Some(said)),
            (false, 0) => return Ok(None),
            (false, _) => {}
        }
    }
}

/// Why the agent did not get there. It is not left behind.
fn failed(agent: &mut Child, stop: &Stop) -> CliError {
    if stop.asked() {
        if let Some(pid) = i32::try_from(agent.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        {
            // Gone already is as good.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = agent.wait();
        return CliError::Failed(
            "interrupted before the core was up; the agent is stopped".to_owned(),
        );
    }
    let said = agent.stderr.take().map(read_all).unwrap_or_default();
    let status = agent.wait().ok().and_then(|status| status.code());
    let said = said.trim().trim_start_matches("hythe: ");
    match status {
        Some(2) => CliError::WrongUse(said.to_owned()),
        _ if said.is_empty() => CliError::Failed("the agent ended without a word".to_owned()),
        _ => CliError::Failed(said.to_owned()),
    }
}

fn read_all(mut from: ChildStderr) -> String {
    let mut said = Vec::new();
    // What could be read is what there is to tell.
    let _ = from.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}
