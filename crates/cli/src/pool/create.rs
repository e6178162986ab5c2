//! `hythe pool create`: makes a pool, and shows the sum that led to its size.

use std::path::PathBuf;

use hythe::{Geometry, Pool, PoolOptions};
use serde::Serialize;

use super::geometry::{self, TermDocument};
use crate::args::{Globals, PoolCreateArgs};
use crate::error::CliError;
use crate::{output, units};

#[derive(Serialize)]
struct Document {
    pool: String,
    path: PathBuf,
    mode: String,
    bytes: u64,
    terms: Vec<TermDocument>,
}

pub(crate) fn run(args: &PoolCreateArgs, globals: &Globals) -> Result<(), CliError> {
    let options = planned(args, globals)?;
    if !Pool::create(&options)? {
        return Err(CliError::Failed(format!(
            "pool `{name}` exists already: `hythe pool show {name}` shows it, `hythe pool remove {name}` removes it",
            name = options.name()
        )));
    }
    let terms = geometry::terms(&Pool::open(&options)?.snapshot());
    let document = Document {
        pool: options.name().to_owned(),
        path: options.path(),
        mode: format!("{:04o}", args.mode),
        bytes: geometry::total(&terms),
        terms,
    };
    output::print(globals.json, &document, |made| {
        format!(
            "made pool {} of {} in {}\n\n{}",
            made.pool,
            units::bytes(made.bytes),
            made.path.display(),
            geometry::terms_text(&made.terms)
        )
    })
}

fn planned(args: &PoolCreateArgs, globals: &Globals) -> Result<PoolOptions, CliError> {
    let mut options = args.which.options(globals).mode(args.mode);
    if let Some(bytes) = args.size {
        options = options.bytes(bytes);
    }
    if !args.class.is_empty() {
        let geometry = Geometry::with_classes(Geometry::default_limits(), &args.class);
        options = options.geometry(geometry.map_err(hythe::NodeError::from)?);
    }
    Ok(options)
}
