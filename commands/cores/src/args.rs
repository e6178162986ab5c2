//! The arguments of `hythe core`. Every command's help ends with an example, in `after_help`.

use clap::{Args, Subcommand};
use hythe::ClassPlan;
use hythe_command::units;

/// What can be done with cores.
#[derive(Debug, Subcommand)]
pub enum CoreCommand {
    /// List the boards there are, and what each lacks here
    #[command(after_help = "Example:\n  hythe core boards")]
    Boards,
    /// Start a board's core and keep it running until interrupted
    #[command(
        after_help = "Examples:\n  hythe core run hosted\n  hythe core run mps2-an386 --detach --restart\n  hythe core run mps2-an386 --as left"
    )]
    Run(CoreRunArgs),
    /// Show the cores that run, their endpoints and who is attached
    #[command(after_help = "Example:\n  hythe core status mps2-an386")]
    Status(CoreStatusArgs),
    /// Stop a core, wherever its agent runs
    #[command(after_help = "Example:\n  hythe core stop mps2-an386")]
    Stop(CoreStopArgs),
    /// Print what a core has said since it was started
    #[command(after_help = "Example:\n  hythe core log mps2-an386")]
    Log(CoreLogArgs),
    /// Test a core by hand or by a list of commands: open, run, test, state, tasks, task, shutdown,
    /// stop
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe core shell hosted\n",
            "  hythe core shell mps2-an386 -c 'open; run; test 1000 4096; shutdown; stop; quit'\n",
            "  echo 'open; run; test 1000 64 poll' | hythe core shell hosted --json",
        )
    )]
    Shell(CoreShellArgs),
    /// Show the segments: bytes that processes and a core see by address
    #[command(after_help = "Example:\n  hythe core segments mps2-an386")]
    Segments(CoreSegmentsArgs),
    /// List the tasks that a core's program has registered, with state, stack and run time
    #[command(
        after_help = "Examples:\n  hythe core tasks mps2-an386\n  hythe core tasks mps2-an386 --all"
    )]
    Tasks(CoreTasksArgs),
    /// Start, stop or kill a task of a core
    #[command(after_help = "Example:\n  hythe core task start mps2-an386 counter")]
    Task {
        /// What to do
        #[command(subcommand)]
        command: CoreTaskCommand,
    },
}

/// What can be done with a task.
#[derive(Debug, Subcommand)]
pub enum CoreTaskCommand {
    /// Start a task; done when it has run its first instruction
    #[command(after_help = "Example:\n  hythe core task start mps2-an386 counter 'from 1'")]
    Start(CoreTaskStartArgs),
    /// Ask a task to stop, and wait until it has
    #[command(after_help = "Example:\n  hythe core task stop mps2-an386 counter")]
    Stop(CoreTaskArgs),
    /// End a task that does not stop; what it held comes back
    #[command(after_help = "Example:\n  hythe core task kill mps2-an386 spinner")]
    Kill(CoreTaskArgs),
}

/// What to run, and how.
#[derive(Args, Debug)]
pub struct CoreRunArgs {
    /// The board
    pub(crate) board: String,
    /// Application to run; default: the first that the board names
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// The core's own name in the pool, with channels NAME/ENDPOINT; default: the board's name, and
    /// channels named as the endpoints
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// A class of slots of the core's region, as payload x count: 112Kx32; may be repeated;
    /// default: those of the board
    #[arg(long, value_name = "SIZExCOUNT", value_parser = units::parse_class)]
    pub(crate) class: Vec<ClassPlan>,
    /// Return when the core is up, and leave it running
    #[arg(long)]
    pub(crate) detach: bool,
    /// Start a core that died again, so many times; without a number, always
    #[arg(long, value_name = "TIMES", num_args = 0..=1, require_equals = true, default_missing_value = "4294967295")]
    pub(crate) restart: Option<u32>,
    /// Seconds that the core may take until it answers
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, default_value = "10")]
    pub(crate) start_timeout: std::time::Duration,
    /// For `--detach` itself: the process that stays
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub(crate) detached: bool,
}

/// Which core to look at.
#[derive(Args, Debug)]
pub struct CoreStatusArgs {
    /// The core: its board, or the name that it was given; default: all that run
    pub(crate) board: Option<String>,
}

/// Which core to stop.
#[derive(Args, Debug)]
pub struct CoreStopArgs {
    /// The core: its board, or the name that it was given
    pub(crate) board: String,
    /// Seconds that it may take
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, default_value = "10")]
    pub(crate) timeout: std::time::Duration,
}

/// Whose segments.
#[derive(Args, Debug)]
pub struct CoreSegmentsArgs {
    /// The core: its board, or the name that it was given; default: all that have memory for them
    pub(crate) board: Option<String>,
}

/// Whose tasks.
#[derive(Args, Debug)]
pub struct CoreTasksArgs {
    /// The core: its board, or the name that it was given
    pub(crate) board: String,
    /// The pool's processes, too
    #[arg(long)]
    pub(crate) all: bool,
}

/// Which task.
#[derive(Args, Debug)]
pub struct CoreTaskArgs {
    /// The core: its board, or the name that it was given
    pub(crate) board: String,
    /// The task, by name or number; of several that have the name, the first
    #[arg(value_name = "NAME")]
    pub(crate) task: String,
}

/// Which task, and what it is told.
#[derive(Args, Debug)]
pub struct CoreTaskStartArgs {
    #[command(flatten)]
    pub(crate) of: CoreTaskArgs,
    /// Text for the task, at most 63 bytes
    pub(crate) argument: Option<String>,
}

/// Whose log.
#[derive(Args, Debug)]
pub struct CoreLogArgs {
    /// The core: its board, or the name that it was given
    pub(crate) board: String,
}

/// Which core to test, and how.
#[derive(Args, Debug)]
pub struct CoreShellArgs {
    /// The board; or a core that runs, by the name that it was given
    pub(crate) board: String,
    /// Commands, with `;` or line breaks between them; default: those of standard input, which is
    /// edited line by line on a terminal. The first that fails ends the list
    #[arg(short, long = "commands", value_name = "COMMANDS")]
    pub(crate) commands: Option<String>,
    /// Seconds that the core may take until it answers
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, default_value = "10")]
    pub(crate) start_timeout: std::time::Duration,
}
