//! `hythe core run`: the agent of a core, in the foreground until it is told to stop or the core
//! dies for good.

use std::time::Instant;

use crate::args::CoreRunArgs;
use hythe::core::{Board, Core, CoreOptions, CoreState, CoreStatus};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output::{self, Growing};
use hythe_command::stop::{LOOK, Stop};
use hythe_command::units;
use serde::Serialize;

/// What a core that is up is known by.
#[derive(Serialize)]
struct UpDocument<'a> {
    pool: &'a str,
    board: &'a str,
    /// The board's, or that of `--as`.
    name: &'a str,
    agent_pid: u32,
    core_pid: u32,
    endpoints: Vec<String>,
}

#[derive(Serialize)]
struct EventDocument<'a> {
    seconds: f64,
    state: &'static str,
    reason: Option<&'a str>,
    core_pid: u32,
    restarts: u32,
}

#[derive(Serialize)]
struct Tail {
    restarts: u32,
}

pub(super) fn run(args: &CoreRunArgs, globals: &Globals) -> Result<(), CliError> {
    if args.detached {
        // The terminal that started us may go; its Ctrl-C is not meant for us.
        let session = rustix::process::setsid();
        session.map_err(|error| CliError::Failed(format!("cannot leave the terminal: {error}")))?;
    }
    let stop = Stop::on_signals()?;
    let board = Board::find(&args.board)?;
    let pool = globals.open_to_use()?;
    let core = Core::start_unless(&pool, &board, &options(args), || stop.asked())?;
    let started = core.status();
    let up = UpDocument {
        pool: pool.options().name(),
        board: board.name(),
        name: core.name(),
        agent_pid: std::process::id(),
        core_pid: started.pid,
        endpoints: started.endpoints.clone(),
    };
    if args.detached {
        output::print(globals.json, &up, text)?;
        // Whoever could stop it looks for it in the pool.
        let ends = || stop.asked() || !pool.is_found();
        attend(&core, started, &ends, &mut |_| Ok(()))?;
        return Ok(core.stop()?);
    }
    let mut document = globals
        .json
        .then(|| Growing::begin(&up, "events"))
        .transpose()?;
    if document.is_none() {
        output::say(&format!("{}\nCtrl-C stops it\n", text(&up)))?;
    }
    let start = Instant::now();
    let attended = attend(
        &core,
        started,
        &|| stop.asked(),
        &mut |now| match &mut document {
            Some(document) => document.push(&event(start, now)),
            None => output::say(&line(core.name(), now)),
        },
    );
    let restarts = core.status().restarts;
    // Stopped first: a closed pipe must not keep the core alive.
    let core_name = core.name().to_owned();
    let stopped = core.stop();
    attended?;
    match document {
        Some(document) => document.end(&Tail { restarts })?,
        None if stopped.is_ok() => output::say(&format!("core {core_name} is stopped\n"))?,
        None => {}
    }
    Ok(stopped?)
}

fn options(args: &CoreRunArgs) -> CoreOptions {
    let mut options = CoreOptions::default()
        .start_bound(args.start_timeout)
        .restarts(args.restart.unwrap_or(0))
        .outlives_agent(true);
    if !args.class.is_empty() {
        options = options.classes(&args.class);
    }
    if let Some(app) = &args.app {
        options = options.app(app);
    }
    if let Some(name) = &args.name {
        options = options.name(name);
    }
    options
}

/// Tells each change of the core's status, until it is to end or the core is gone for good.
fn attend(
    core: &Core,
    started: CoreStatus,
    ends: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&CoreStatus) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut last = started;
    while !ends() && last.state != CoreState::Stopped {
        if core.wait_until(LOOK, |now| *now != last) {
            last = core.status();
            tell(&last)?;
        }
    }
    Ok(())
}

const fn state(state: CoreState) -> &'static str {
    match state {
        CoreState::Starting => "starting",
        CoreState::Up => "up",
        CoreState::Down => "down",
        CoreState::Stopped => "stopped",
    }
}

fn event(start: Instant, now: &CoreStatus) -> EventDocument<'_> {
    EventDocument {
        seconds: start.elapsed().as_secs_f64(),
        state: state(now.state),
        reason: now.reason.as_deref(),
        core_pid: now.pid,
        restarts: now.restarts,
    }
}

fn line(board: &str, now: &CoreStatus) -> String {
    let reason = now
        .reason
        .as_ref()
        .map_or_else(String::new, |reason| format!(": {reason}"));
    let again = if now.restarts > 0 {
        format!(
            ", started again {}",
            units::counted(now.restarts.into(), "time")
        )
    } else {
        String::new()
    };
    format!(
        "board {board} is {}{reason} (process {}{again})\n",
        state(now.state),
        now.pid
    )
}

fn text(up: &UpDocument<'_>) -> String {
    format!(
        "board {} is up in pool {}: process {}, agent {}, channels {}",
        up.board,
        up.pool,
        up.core_pid,
        up.agent_pid,
        up.endpoints.join(", ")
    )
}
