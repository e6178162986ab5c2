//! `hythe-jobs`: what `hythe run`, `hythe tasks` and `hythe kill` become.

mod mpirun;

use std::process::ExitCode;

use clap::Subcommand;
use hythe_command::args::Globals;
use hythe_command::commands::{KILL, RUN, TASK_PART, TASKS};
use hythe_command::{CliError, CommandLine};
use hythe_jobs_command as jobs;
use hythe_jobs_command::{KillArgs, PartArgs, PartRunnerArgs, RunArgs, RunnerArgs};

#[derive(Debug, Subcommand)]
enum JobsCommand {
    #[command(about = RUN.about, after_help = RUN.examples)]
    Run(RunArgs),
    /// The process that is the parent of a job's tasks
    #[command(hide = true)]
    TaskRunner(RunnerArgs),
    #[command(hide = true, about = TASK_PART.about)]
    TaskPart(PartArgs),
    /// The process that is their parent
    #[command(hide = true)]
    TaskPartRunner(PartRunnerArgs),
    #[command(about = TASKS.about, after_help = TASKS.examples)]
    Tasks,
    #[command(about = KILL.about, after_help = KILL.examples)]
    Kill(KillArgs),
}

fn main() -> ExitCode {
    let line = command_line();
    ExitCode::from(line.main_with(|words| mpirun::parse(&line, words), |_| None, run))
}

fn command_line() -> CommandLine {
    CommandLine::of_several(RUN.program.name, JobsCommand::augment_subcommands)
}

fn run(command: JobsCommand, globals: &Globals) -> Result<(), CliError> {
    match command {
        JobsCommand::Run(args) => jobs::run(&args, globals),
        JobsCommand::TaskRunner(args) => jobs::run_runner(&args, globals),
        JobsCommand::TaskPart(args) => jobs::run_part(&args, globals),
        JobsCommand::TaskPartRunner(args) => jobs::run_part_runner(&args, globals),
        JobsCommand::Tasks => jobs::list(globals),
        JobsCommand::Kill(args) => jobs::kill(&args, globals),
    }
}
