//! `hythe pool remove`: removes a pool that nobody uses, or any with `--force`.

use hythe::{NodeError, Pool};
use hythe_terminal::escaped;
use serde::Serialize;

use crate::args::{Globals, PoolRemoveArgs};
use crate::error::CliError;
use crate::output;

/// Whoever wants a pool removed does not want it made.
fn advised(error: NodeError) -> CliError {
    match error {
        NodeError::NoSuchPool { name, root } => CliError::Failed(format!(
            "there is no pool `{}` in {} to be removed: `hythe pool list` shows those there are",
            escaped(&name),
            escaped(&root)
        )),
        other => other.into(),
    }
}

#[derive(Serialize)]
struct Document {
    removed: String,
}

pub(crate) fn run(args: &PoolRemoveArgs, globals: &Globals) -> Result<(), CliError> {
    let options = args.which.options(globals);
    let removed = if args.force {
        Pool::remove_by_force(&options)
    } else {
        Pool::remove(&options)
    };
    removed.map_err(advised)?;
    let document = Document {
        removed: options.name().to_owned(),
    };
    output::print(globals.json, &document, |document| {
        format!("removed pool {}", document.removed)
    })
}
