//! `hythe tasks`: the tasks that run in a pool.

use hythe_cluster::tasks::{self, TaskInfo};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use serde::Serialize;

#[derive(Serialize)]
struct Document {
    tasks: Vec<TaskInfo>,
    /// Why the tasks of some jobs are not among them.
    missing: Vec<String>,
}

/// `hythe tasks`.
///
/// # Errors
///
/// What cannot be done, with what to do about it.
pub fn run(globals: &Globals) -> Result<(), CliError> {
    let (tasks, silent) = tasks::list(&globals.open_to_use()?)?;
    let missing = silent.iter().map(ToString::to_string).collect();
    output::print(globals.json, &Document { tasks, missing }, |document| {
        let rows: Vec<Vec<String>> = document.tasks.iter().map(row).collect();
        let mut text = match rows.is_empty() {
            true => "no task runs\n".to_owned(),
            false => output::table(
                &[
                    "TASK", ">RANK", ">OF", "HOST", ">PID", ">RUNNING", "PROGRAM",
                ],
                &rows,
            ),
        };
        for reason in &document.missing {
            text.push_str(&format!("tasks are missing: {reason}\n"));
        }
        text
    })
}

fn row(info: &TaskInfo) -> Vec<String> {
    vec![
        info.task.to_string(),
        info.rank.to_string(),
        info.size.to_string(),
        info.host.clone(),
        info.pid.to_string(),
        format!(
            "{}.{} s",
            info.running_ms / 1000,
            info.running_ms % 1000 / 100
        ),
        info.program.clone(),
    ]
}
