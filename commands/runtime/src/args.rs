//! The options of every command.

use clap::{ArgAction, Args};

/// What every command understands.
#[derive(Args, Clone, Debug)]
pub struct Globals {
    /// The pool; USER/NAME is another user's, by name or number [default: default]
    #[arg(long, global = true, help_heading = GLOBAL, env = POOL_VARIABLE, value_name = "NAME")]
    pub pool: Option<String>,
    /// Print one JSON document on standard output and nothing else there
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Log more to standard error: -v informs, -vv explains, -vvv traces (RUST_LOG overrides)
    #[arg(short, long, global = true, help_heading = GLOBAL, action = ArgAction::Count)]
    pub verbose: u8,
}

const GLOBAL: &str = "Options of every command";
/// Says which pool where the option does not.
pub const POOL_VARIABLE: &str = "HYTHE_POOL";
/// The pool that is made on first use.
pub const DEFAULT_POOL: &str = "default";
