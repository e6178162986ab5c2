//! `hythe pool remove`: removes a pool that nobody uses, or any with `--force`.

use hythe::Pool;
use serde::Serialize;

use crate::args::{Globals, PoolRemoveArgs};
use crate::error::CliError;
use crate::output;

#[derive(Serialize)]
struct Document {
    removed: String,
}

pub(crate) fn run(args: &PoolRemoveArgs, globals: &Globals) -> Result<(), CliError> {
    let options = args.which.options(globals);
    if args.force {
        Pool::remove_by_force(&options)?;
    } else {
        Pool::remove(&options)?;
    }
    let document = Document {
        removed: options.name().to_owned(),
    };
    output::print(globals.json, &document, |document| {
        format!("removed pool {}", document.removed)
    })
}
