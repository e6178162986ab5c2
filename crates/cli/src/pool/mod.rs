//! `hythe pool`: pools as a whole. One file per command; `geometry` is how all of them show sizes.

mod create;
pub(crate) mod geometry;
mod list;
mod remove;
mod show;
mod unlink;

use crate::args::{Globals, PoolCommand};
use crate::error::CliError;

pub(crate) fn run(command: PoolCommand, globals: &Globals) -> Result<(), CliError> {
    match command {
        PoolCommand::List => list::run(globals),
        PoolCommand::Create(args) => create::run(&args, globals),
        PoolCommand::Show(args) => show::run(&args, globals),
        PoolCommand::Remove(args) => remove::run(&args, globals),
        PoolCommand::Unlink(args) => unlink::run(&args, globals),
    }
}
