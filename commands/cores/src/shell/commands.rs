//! The commands of the shell, carried out: a session on one core.
//!
//! Between two commands a session holds the pool, the core if it started it, and its ports. Its end
//! takes back what it made, in whatever state it is: a core and a pool that were there before stay.
//! Never prints.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::args::CoreShellArgs;
use hythe::core::control::{self, AgentStatus};
use hythe::core::tasks::{CoreRegisters, TaskError, Tasks};
use hythe::core::{Board, Core, CoreError, CoreOptions, CoreState};
use hythe::inspect::Direction;
use hythe::{NodeError, Pool};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::objects::{self, ObjectDocument};
use hythe_command::stop::{LOOK, Stop};
use hythe_command::{output, units};
use hythe_terminal::escaped;
use serde::Serialize;

use super::peek::{self, Peeked};
use super::rpc::{self, Called};
use super::state::{self, Command, Possible, State};
use super::test::{Exchange, Ports, Tested};
use crate::registers;
use crate::segments::{self, BoardDocument};
use crate::status::{self, CoreDocument};
use crate::tasks::{self, Action, ActionDocument, TaskDocument};

/// How long a core that somebody else started may take to stop.
const STOP_BOUND: Duration = Duration::from_secs(10);

/// What a command has to tell.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Outcome {
    Opened(Opened),
    Runs(Runs),
    Tested(Tested),
    State(Box<BothSides>),
    Tasks { core_tasks: Vec<TaskDocument> },
    Task(ActionDocument),
    Segments { boards: Vec<BoardDocument> },
    Peeked(Peeked),
    Objects { objects: Vec<ObjectDocument> },
    Called(Called),
    Shut(Shut),
    Stopped { stopped: String },
    Help { possible: Vec<Possible> },
    Quit {},
}

#[derive(Serialize)]
pub(super) struct Opened {
    pool: String,
    /// What runs there, which somebody else started.
    program: Option<String>,
    /// What could run there; empty for a core that runs under a name of its own.
    apps: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct Runs {
    program: String,
    core_pid: u32,
    agent_pid: u32,
    /// By this session.
    started: bool,
    /// Then times say nothing about hardware. `None`: this is no board's name.
    emulated: Option<bool>,
    endpoints: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct Shut {
    /// Buffers that the core holds still, of others: ours are back.
    held_by_core: u32,
    /// Tasks that were started by name and have stopped. `None`: the program has no control of
    /// them, and was not asked.
    tasks_stopped: Option<u32>,
}

/// The registers of a link.
#[derive(Serialize)]
pub(super) struct BothSides {
    #[serde(flatten)]
    linux: CoreDocument,
    /// As the core says that it has them. `None`: its program cannot be asked.
    core_view: Option<registers::CoreViewDocument>,
}

/// A session.
pub(super) struct Session<'a> {
    args: &'a CoreShellArgs,
    globals: &'a Globals,
    stop: &'a Stop,
    state: State,
    // In this order: ports go before the core, and the core before its pool.
    ports: Option<Ports>,
    core: Option<Core>,
    pool: Option<OpenPool>,
}

struct OpenPool {
    pool: Pool,
    /// By this session.
    made: bool,
}

impl<'a> Session<'a> {
    pub(super) const fn new(args: &'a CoreShellArgs, globals: &'a Globals, stop: &'a Stop) -> Self {
        Self {
            args,
            globals,
            stop,
            state: State::Closed,
            ports: None,
            core: None,
            pool: None,
        }
    }

    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// Does what was asked for. The state stays what it was if that fails, unless it says
    /// otherwise.
    pub(super) fn execute(&mut self, command: Command) -> Result<Outcome, CliError> {
        match command {
            Command::Open => self.open().map(Outcome::Opened),
            Command::Run { app } => self.run(app.as_deref()).map(Outcome::Runs),
            Command::Test(exchange) => self.test(exchange).map(Outcome::Tested),
            Command::State => self.registers().map(|both| Outcome::State(Box::new(both))),
            Command::Tasks => {
                let core_tasks = tasks::list(&mut self.control()?)?;
                Ok(Outcome::Tasks { core_tasks })
            }
            Command::Task { name, action } => self.task(&name, &action).map(Outcome::Task),
            Command::Segments => {
                let boards = segments::list(self.pool()?, Some(self.board()))?;
                Ok(Outcome::Segments { boards })
            }
            Command::Peek(place) => {
                let (pool, board) = (self.pool()?, self.board());
                peek::peek(pool, board, &mut self.control()?, place).map(Outcome::Peeked)
            }
            Command::Objects => {
                let objects = objects::list(self.pool()?)?;
                Ok(Outcome::Objects { objects })
            }
            Command::Rpc(wanted) => {
                let status = control::status(self.pool()?, self.board())?;
                rpc::call(self.pool()?, &status, &wanted, self.stop).map(Outcome::Called)
            }
            Command::Shutdown => self.shutdown().map(Outcome::Shut),
            Command::Stop => self.stop_core(),
            Command::Help => Ok(Outcome::Help {
                possible: state::possible_now(self.state),
            }),
            Command::Quit => Ok(Outcome::Quit {}),
        }
    }

    fn board(&self) -> &'a str {
        &self.args.board
    }

    fn pool(&self) -> Result<&Pool, CliError> {
        let open = self.pool.as_ref().map(|open| &open.pool);
        open.ok_or_else(|| CliError::Failed("no pool is open".to_owned()))
    }

    /// Who looks after the tasks, for one command: it holds a port of the core meanwhile.
    fn control(&self) -> Result<Tasks, CliError> {
        Ok(Tasks::open(self.pool()?, self.board(), "hythe core shell")?)
    }

    /// As [`Session::control`], of a program that may have no such endpoint.
    fn control_if_any(&self) -> Result<Option<Tasks>, CliError> {
        match Tasks::open(self.pool()?, self.board(), "hythe core shell") {
            Ok(tasks) => Ok(Some(tasks)),
            Err(TaskError::NoControl { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn task(&self, name: &str, action: &Action) -> Result<ActionDocument, CliError> {
        tasks::act(&mut self.control()?, name, action)
    }

    fn registers(&self) -> Result<BothSides, CliError> {
        let seen = match self.control_if_any()? {
            Some(mut tasks) => Some(tasks.registers()?),
            None => None,
        };
        let status = control::status(self.pool()?, self.board())?;
        let view = |seen: CoreRegisters| registers::CoreViewDocument::of(&seen, &status);
        Ok(BothSides {
            core_view: seen.map(view),
            linux: status::core(status),
        })
    }

    fn open(&mut self) -> Result<Opened, CliError> {
        let (pool, made) = self.globals.open_or_make(&self.globals.options())?;
        self.pool = Some(OpenPool { pool, made });
        let found = self.look();
        match found {
            Ok(_) => self.state = State::Opened,
            // A pool that was made for nothing goes at once.
            Err(_) => self.close_pool()?,
        }
        found
    }

    /// What there is: a core that runs, or a board that can.
    fn look(&self) -> Result<Opened, CliError> {
        let (program, apps) = match control::status(self.pool()?, self.board()) {
            Ok(status) => (Some(program(&status)), Vec::new()),
            Err(CoreError::NotRunning { .. }) => {
                let board = Board::find(self.board())?;
                (None, board.apps().to_vec())
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Opened {
            pool: self.globals.pool_name().to_owned(),
            program,
            apps,
        })
    }

    fn run(&mut self, app: Option<&str>) -> Result<Runs, CliError> {
        let running = match control::status(self.pool()?, self.board()) {
            Ok(status) => Some(program(&status)),
            Err(CoreError::NotRunning { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        match (running, app) {
            (Some(program), Some(app)) if program != app => match self.core.take() {
                Some(core) => {
                    core.stop()?;
                    self.start(Some(app))?;
                }
                None => {
                    return Err(CliError::Failed(format!(
                        "core {} runs {}, which this session did not start; `stop; open; run {}` \
                         replaces it",
                        escaped(self.board()),
                        escaped(&program),
                        escaped(app)
                    )));
                }
            },
            (Some(_), _) => {}
            (None, app) => self.start(app)?,
        }
        let (status, ports) = self.meet()?;
        self.ports = ports;
        self.state = State::Running;
        let endpoints = status.endpoints.iter();
        Ok(Runs {
            program: program(&status),
            core_pid: status.core_pid,
            agent_pid: status.agent.identity.pid,
            started: self.core.is_some(),
            emulated: Board::find(self.board())
                .ok()
                .map(|board| board.is_emulated()),
            endpoints: endpoints.map(|end| end.channel.clone()).collect(),
        })
    }

    /// Opens ports at the echo, if the program has one. A core that somebody else has started may
    /// still be on its way, or be started anew.
    fn meet(&self) -> Result<(AgentStatus, Option<Ports>), CliError> {
        let end = Instant::now() + self.args.start_timeout;
        loop {
            let status = control::status(self.pool()?, self.board())?;
            let met = match echo(&status) {
                _ if !status.is_up() => None,
                None => Some(Ok(None)),
                Some((ping, pong, _)) => match Ports::open(self.pool()?, &ping, &pong) {
                    // It died before its agent saw that.
                    Err(CliError::Node(NodeError::CoreSilent { .. })) => None,
                    opened => Some(opened.map(Some)),
                },
            };
            if let Some(ports) = met {
                return Ok((status, ports?));
            }
            if self.stop.asked() || Instant::now() >= end {
                return Err(self.not_up(&status));
            }
            self.stop.sleep_until(end.min(Instant::now() + LOOK));
        }
    }

    fn not_up(&self, status: &AgentStatus) -> CliError {
        CliError::Failed(match self.stop.asked() {
            true => "interrupted before the core was up".to_owned(),
            false => format!(
                "core {} has an agent, {}, but is not up after {} s (--start-timeout)",
                escaped(self.board()),
                escaped(&status.agent.name),
                self.args.start_timeout.as_secs_f64()
            ),
        })
    }

    /// Here and not as a process of its own: whatever ends this one ends the core.
    fn start(&mut self, app: Option<&str>) -> Result<(), CliError> {
        // One that died before is only in the way.
        drop(self.core.take());
        let board = Board::find(self.board())?;
        let mut options = CoreOptions::default().start_bound(self.args.start_timeout);
        if let Some(app) = app {
            options = options.app(app);
        }
        let stop = self.stop;
        let core = Core::start_unless(self.pool()?, &board, &options, || stop.asked())?;
        self.core = Some(core);
        Ok(())
    }

    fn test(&mut self, exchange: Exchange) -> Result<Tested, CliError> {
        // One of our own that has died is said to have, not to be missing.
        let core = self.core.as_ref();
        is_up(core, Some(self.pool()?), self.board()).map_err(CliError::Failed)?;
        let status = control::status(self.pool()?, self.board())?;
        let Some((ping, pong, max_bytes)) = echo(&status) else {
            return Err(CliError::Failed(format!(
                "program {} has no echo: endpoints `ping` and `pong`",
                escaped(&program(&status))
            )));
        };
        if max_bytes.is_some_and(|max| exchange.size_bytes > max as usize) {
            return Err(CliError::WrongUse(format!(
                "{} bytes are more than `{}` takes: {}",
                exchange.size_bytes,
                escaped(&ping),
                max_bytes.unwrap_or(0)
            )));
        }
        // An echo that came too late for one test would be the first of the next.
        let mut ports = match self.ports.take() {
            Some(ports) => ports,
            None => Ports::open(self.pool()?, &ping, &pong)?,
        };
        let attached = status.endpoints.iter().find(|end| end.channel == ping);
        let attached = attached.iter().flat_map(|end| &end.attached);
        let others: Vec<&str> = attached
            .filter(|attached| !ports.is_ours(attached))
            .map(String::as_str)
            .collect();
        if !others.is_empty() {
            self.ports = Some(ports);
            return Err(CliError::Failed(format!(
                "`{}` is used by {}, whose echoes would be taken for ours; test when they have \
                 ended",
                escaped(&ping),
                escaped(&others.join(", "))
            )));
        }
        let (core, open, board) = (self.core.as_ref(), self.pool.as_ref(), self.board());
        let is_up = || is_up(core, open.map(|open| &open.pool), board);
        let tested = ports.test(exchange, seed(), self.stop, &is_up)?;
        self.ports = Some(ports);
        Ok(tested)
    }

    fn shutdown(&mut self) -> Result<Shut, CliError> {
        // Whatever comes of it, the ports are gone.
        self.state = State::Shut;
        if let Some(ports) = self.ports.take() {
            ports.shut()?;
        }
        let stopped = match self.control_if_any()? {
            Some(mut tasks) => Some(tasks.shut_down()?.stopped),
            None => None,
        };
        let status = control::status(self.pool()?, self.board())?;
        // Where somebody else is attached, such as its agent, it has empty slots of theirs.
        let of_nobody = status
            .endpoints
            .iter()
            .filter(|end| end.attached.is_empty());
        Ok(Shut {
            held_by_core: of_nobody.map(|end| end.held).sum(),
            tasks_stopped: stopped,
        })
    }

    fn stop_core(&mut self) -> Result<Outcome, CliError> {
        self.ports = None;
        let stopped = match self.core.take() {
            Some(core) => core.stop(),
            None => control::stop(self.pool()?, self.board(), STOP_BOUND),
        };
        self.close_pool()?;
        self.state = State::Closed;
        stopped?;
        Ok(Outcome::Stopped {
            stopped: self.board().to_owned(),
        })
    }

    /// Takes back what the session made.
    ///
    /// # Errors
    /// Why the core that it started had ended before; what keeps its pool.
    pub(super) fn end(mut self) -> Result<(), CliError> {
        self.ports = None;
        let stopped = self.core.take().map_or(Ok(()), Core::stop);
        self.close_pool()?;
        Ok(stopped?)
    }

    fn close_pool(&mut self) -> Result<(), CliError> {
        let Some(OpenPool { pool, made }) = self.pool.take() else {
            return Ok(());
        };
        let options = pool.options().clone();
        drop(pool);
        if !made {
            return Ok(());
        }
        match Pool::remove(&options) {
            // Others have come meanwhile: it is theirs.
            Err(NodeError::InUse { .. }) => {
                hythe_command::tell_made(&options);
                Ok(())
            }
            removed => Ok(removed?),
        }
    }
}

/// Different for each test, and printed with it.
fn seed() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
    now.map_or(0, |now| now.as_nanos() as u32)
}

fn program(status: &AgentStatus) -> String {
    let link = status.link.as_ref();
    link.map_or_else(String::new, |link| link.name.clone())
}

/// The channels of the echo, and the largest message.
fn echo(status: &AgentStatus) -> Option<(String, String, Option<u32>)> {
    let find = |name: &str, direction| {
        let endpoint = status.endpoint(name);
        endpoint.filter(|end| end.direction == direction)
    };
    let ping = find("ping", Direction::ToCore)?;
    let pong = find("pong", Direction::FromCore)?;
    let records = status.link.iter().flat_map(|link| &link.endpoints);
    let mut records = records.filter(|record| record.index == ping.endpoint as usize);
    let max_bytes = records.next().map(|record| record.max_bytes);
    Some((ping.channel.clone(), pong.channel.clone(), max_bytes))
}

/// Can the core still answer? If not, why.
fn is_up(core: Option<&Core>, pool: Option<&Pool>, board: &str) -> Result<(), String> {
    if let Some(core) = core {
        let status = core.status();
        return match status.state {
            CoreState::Down | CoreState::Stopped => Err(status.reason.unwrap_or_default()),
            CoreState::Starting | CoreState::Up => Ok(()),
        };
    }
    let gone = || CoreError::NotRunning {
        board: board.to_owned(),
        death: None,
    };
    let status = pool
        .ok_or_else(gone)
        .and_then(|pool| control::status(pool, board));
    match status {
        Ok(status) if status.is_linked() => Ok(()),
        Ok(_) => Err(gone().to_string()),
        Err(error) => Err(error.to_string()),
    }
}

impl Outcome {
    /// For people.
    pub(super) fn text(&self, board: &str) -> String {
        match self {
            Self::Opened(opened) => opened.text(board),
            Self::Runs(runs) => runs.text(board),
            Self::Tested(tested) => tested_text(tested),
            Self::State(both) => both.text(),
            Self::Tasks { core_tasks } => tasks::tasks_text(core_tasks),
            Self::Task(done) => tasks::action_text(done),
            Self::Segments { boards } => segments::boards_text(boards),
            Self::Peeked(peeked) => peeked.text(),
            Self::Objects { objects } => objects::text(objects),
            Self::Called(called) => called.text(),
            Self::Shut(shut) => shut.text(),
            Self::Stopped { stopped } => format!("stopped {}", escaped(stopped)),
            Self::Help { possible } => {
                let rows = possible.iter();
                let rows = rows.map(|row| vec![row.command.clone(), row.does.to_owned()]);
                output::table(&["COMMAND", "DOES"], &rows.collect::<Vec<_>>())
            }
            Self::Quit {} => String::new(),
        }
    }
}

impl BothSides {
    fn text(&self) -> String {
        let linux = registers::text(&self.linux);
        match &self.core_view {
            Some(view) => linux + &view.text(),
            None => linux,
        }
    }
}

impl Shut {
    fn text(&self) -> String {
        let held = units::counted(self.held_by_core.into(), "buffer");
        let stopped = self.tasks_stopped.map_or_else(String::new, |count| {
            let (tasks, were) = match count {
                0 => ("no task".to_owned(), "was"),
                1 => ("1 task".to_owned(), "was"),
                count => (format!("{count} tasks"), "were"),
            };
            format!("; it has stopped {tasks} that {were} started by name")
        });
        format!(
            "the ports are closed, and all that was sent is back; the core holds {held}{stopped}"
        )
    }
}

impl Opened {
    fn text(&self, board: &str) -> String {
        let (board, pool) = (escaped(board), escaped(&self.pool));
        match &self.program {
            Some(program) => format!(
                "core {board} runs {} in pool {pool} already",
                escaped(program)
            ),
            None => format!(
                "board {board} can run {} in pool {pool}",
                escaped(&self.apps.join(", "))
            ),
        }
    }
}

impl Runs {
    fn text(&self, board: &str) -> String {
        format!(
            "core {} {} {}: process {}, agent {}, channels {}",
            escaped(board),
            if self.started { "runs" } else { "ran already:" },
            escaped(&self.program),
            self.core_pid,
            self.agent_pid,
            escaped(&self.endpoints.join(", "))
        )
    }
}

fn tested_text(tested: &Tested) -> String {
    format!(
        "{} of {} bytes came back unchanged, {} in place: {:.0} a second, p50 {} us, p99 {} us, by \
         {} (seed {})",
        units::counted(tested.messages, "message"),
        tested.size_bytes,
        tested.in_place,
        tested.messages_per_second,
        tested.p50_ns / 1000,
        tested.p99_ns / 1000,
        tested.wait,
        tested.seed
    )
}
