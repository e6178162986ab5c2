//! `hythe core tasks` and `hythe core task`: the tasks that a core's program has registered.

use crate::args::{CoreTaskCommand, CoreTasksArgs};
use hythe::core::tasks::{TaskFault, TaskInfo, TaskState, Tasks};
use hythe::inspect::MemberKind;
use hythe::{Liveness, Pool};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::{output, units};
use hythe_terminal::escaped;
use serde::Serialize;

/// Under which name the command joins the pool.
const NAME: &str = "hythe core tasks";

#[derive(Serialize)]
struct Document {
    board: String,
    core_tasks: Vec<TaskDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    participants: Option<Vec<ParticipantDocument>>,
}

/// A task of a core.
#[derive(Serialize)]
pub(super) struct TaskDocument {
    number: u32,
    name: String,
    state: &'static str,
    priority: u32,
    stack_bytes: u32,
    /// Null: this core cannot tell.
    stack_free_least_bytes: Option<u32>,
    run_time_us: u64,
    starts: u32,
    kills: u32,
    held: u32,
    buffers_returned: u32,
    requests_forgotten: u32,
    permanent: bool,
    asked_to_stop: bool,
    /// Why the processor stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<FaultDocument>,
}

/// Addresses are the core's.
#[derive(Serialize)]
struct FaultDocument {
    kind: &'static str,
    address: String,
    /// Null: not known.
    pc: Option<String>,
}

/// A process of the pool.
#[derive(Serialize)]
struct ParticipantDocument {
    participant: u8,
    name: String,
    pid: u32,
    state: &'static str,
}

/// What became of a task.
#[derive(Serialize)]
pub(super) struct ActionDocument {
    pub(super) task: String,
    pub(super) number: u32,
    pub(super) action: &'static str,
    pub(super) result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) buffers_returned: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requests_forgotten: Option<u32>,
}

/// What is to be done with a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start { argument: String },
    Stop,
    Kill,
}

pub(super) fn run(args: &CoreTasksArgs, globals: &Globals) -> Result<(), CliError> {
    let pool = globals.open()?;
    // Before this command takes part itself.
    let participants = args.all.then(|| participants(&pool));
    let mut tasks = Tasks::open(&pool, &args.board, NAME)?;
    let document = Document {
        board: args.board.clone(),
        core_tasks: list(&mut tasks)?,
        participants,
    };
    output::print(globals.json, &document, text)
}

pub(super) fn run_one(command: &CoreTaskCommand, globals: &Globals) -> Result<(), CliError> {
    let (args, action) = match command {
        CoreTaskCommand::Start(args) => {
            let argument = args.argument.clone().unwrap_or_default();
            (&args.of, Action::Start { argument })
        }
        CoreTaskCommand::Stop(args) => (args, Action::Stop),
        CoreTaskCommand::Kill(args) => (args, Action::Kill),
    };
    let pool = globals.open()?;
    let mut tasks = Tasks::open(&pool, &args.board, NAME)?;
    let document = act(&mut tasks, &args.task, &action)?;
    output::print(globals.json, &document, action_text)
}

/// All tasks of a core.
pub(super) fn list(tasks: &mut Tasks) -> Result<Vec<TaskDocument>, CliError> {
    let listed = tasks.list()?;
    Ok(listed.into_iter().map(TaskDocument::of).collect())
}

/// Starts, stops or kills a task.
pub(super) fn act(
    tasks: &mut Tasks,
    task: &str,
    action: &Action,
) -> Result<ActionDocument, CliError> {
    let done = |number, action, result| ActionDocument {
        task: task.to_owned(),
        number,
        action,
        result,
        buffers_returned: None,
        requests_forgotten: None,
    };
    Ok(match action {
        Action::Start { argument } => done(tasks.start(task, argument)?, "start", "running"),
        Action::Stop => done(tasks.stop(task)?, "stop", "stopped"),
        Action::Kill => {
            let killed = tasks.kill(task)?;
            ActionDocument {
                buffers_returned: Some(killed.buffers_returned),
                requests_forgotten: Some(killed.requests_forgotten),
                ..done(killed.number, "kill", "killed")
            }
        }
    })
}

impl TaskDocument {
    fn of(info: TaskInfo) -> Self {
        Self {
            number: info.number,
            name: info.name,
            // Which of them has the processor at one instant says nothing.
            state: match info.state {
                TaskState::Starting => "ready",
                state => state.name(),
            },
            priority: info.priority,
            stack_bytes: info.stack_bytes,
            stack_free_least_bytes: info.stack_free_least_bytes,
            run_time_us: u64::try_from(info.run_time.as_micros()).unwrap_or(u64::MAX),
            starts: info.starts,
            kills: info.kills,
            held: info.held,
            buffers_returned: info.buffers_returned,
            requests_forgotten: info.requests_forgotten,
            permanent: info.is_permanent,
            asked_to_stop: info.is_asked_to_stop,
            fault: info.fault.map(FaultDocument::of),
        }
    }
}

impl FaultDocument {
    fn of(fault: TaskFault) -> Self {
        let hexadecimal = |address: u32| format!("{address:#010x}");
        Self {
            kind: fault.kind.name(),
            address: hexadecimal(fault.address),
            pc: fault.pc.map(hexadecimal),
        }
    }
}

fn participants(pool: &Pool) -> Vec<ParticipantDocument> {
    let members = pool.snapshot().members.into_iter();
    let processes = members.filter(|member| member.kind == MemberKind::Process);
    let rows = processes.map(|member| ParticipantDocument {
        participant: member.index.0,
        pid: member.identity.pid,
        state: match pool.liveness(&member) {
            Liveness::Alive => "alive",
            Liveness::Dead => "dead",
            Liveness::Unknown => "unknown",
        },
        name: member.name,
    });
    rows.collect()
}

fn text(document: &Document) -> String {
    let mut text = tasks_text(&document.core_tasks);
    if let Some(participants) = &document.participants {
        let rows = participants.iter().map(|one| {
            vec![
                one.participant.to_string(),
                escaped(&one.name).to_string(),
                one.state.to_owned(),
                one.pid.to_string(),
            ]
        });
        let columns = [">PARTICIPANT", "NAME", "STATE", ">PID"];
        text.push('\n');
        text.push_str(&output::table(&columns, &rows.collect::<Vec<_>>()));
    }
    text
}

/// The table of tasks, for people.
pub(super) fn tasks_text(tasks: &[TaskDocument]) -> String {
    if tasks.is_empty() {
        return "no task is registered\n".to_owned();
    }
    let rows: Vec<Vec<String>> = tasks.iter().map(row).collect();
    output::table(
        &[
            ">TASK",
            "NAME",
            "STATE",
            ">PRIORITY",
            ">STACK",
            ">FREE",
            ">RUN TIME",
            ">STARTS",
            ">KILLS",
            ">HOLDS",
        ],
        &rows,
    )
}

fn row(task: &TaskDocument) -> Vec<String> {
    let lives = !["stopped", "killed", "faulted"].contains(&task.state);
    let state = match &task.fault {
        Some(fault) => format!("{} ({} at {})", task.state, fault.kind, fault.address),
        None if task.asked_to_stop && lives => format!("{} (asked to stop)", task.state),
        None => task.state.to_owned(),
    };
    vec![
        task.number.to_string(),
        escaped(&task.name).to_string(),
        state,
        task.priority.to_string(),
        task.stack_bytes.to_string(),
        task.stack_free_least_bytes
            .map_or_else(|| "?".to_owned(), |bytes| bytes.to_string()),
        units::milliseconds(task.run_time_us / 1000),
        task.starts.to_string(),
        task.kills.to_string(),
        task.held.to_string(),
    ]
}

/// What became of a task, for people.
pub(super) fn action_text(done: &ActionDocument) -> String {
    let back = match (done.buffers_returned, done.requests_forgotten) {
        (Some(buffers), Some(requests)) => format!(
            "; it held {}, and had {} open",
            units::counted(buffers.into(), "buffer"),
            units::counted(requests.into(), "request")
        ),
        _ => String::new(),
    };
    let (task, number, result) = (escaped(&done.task), done.number, done.result);
    let is = if result == "running" {
        "is"
    } else {
        "has been"
    };
    let is = if result == "stopped" { "has" } else { is };
    format!("task {task} ({number}) {is} {result}{back}")
}
