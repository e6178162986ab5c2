//! `hythe pool create`: makes a pool, and shows the sum that led to its size.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use hythe::{Geometry, GroupAccess, Node, Pool, PoolOptions, RegionIndex};
use hythe_terminal::escaped;
use serde::Serialize;

use super::geometry::{self, TermDocument};
use crate::args::{Globals, GroupAccessArg, PoolCreateArgs};
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
    let pool = Pool::open(&options)?;
    if args.card_region
        && let Err(error) = Node::join(&pool, "pool-create").and_then(|node| node.card_region())
    {
        drop(pool);
        // Somebody may have joined already: then it stays, as a pool without that region.
        let _ = Pool::remove(&options);
        return Err(error.into());
    }
    let terms = geometry::terms(&pool.snapshot());
    let region = pool.region_path(RegionIndex(0));
    let made = std::fs::metadata(&region).map_err(CliError::file("look at", &region))?;
    let mode = made.mode() & 0o7777;
    let document = Document {
        pool: options.name().to_owned(),
        path: options.path(),
        mode: format!("{mode:04o}"),
        bytes: geometry::total(&terms),
        terms,
    };
    output::print(globals.json, &document, |made| {
        format!(
            "made pool {} of {} in {}\n\n{}",
            made.pool,
            units::bytes(made.bytes),
            escaped(&made.path),
            geometry::terms_text(&made.terms)
        )
    })
}

fn planned(args: &PoolCreateArgs, globals: &Globals) -> Result<PoolOptions, CliError> {
    let mut options = args
        .which
        .options(globals)
        .mode(args.mode)
        .prefault(args.prefault)
        .lock(args.mlock);
    if let Some(group) = args.group {
        options = options.group(group);
    }
    // A mode with bits for the group has said it already.
    if args.group.is_some() && args.mode & 0o060 == 0 {
        options = options.group_access(match args.group_access {
            Some(GroupAccessArg::Write) => GroupAccess::Write,
            Some(GroupAccessArg::Read) | None => GroupAccess::Read,
        });
    }
    if let Some(mount) = &args.huge_pages {
        options = options.huge_pages(mount);
    }
    let mut limits = match (args.small, args.size) {
        (true, _) => Geometry::small_limits(),
        (false, Some(bytes)) => Geometry::default_limits_for(bytes),
        (false, None) => Geometry::default_limits(),
    };
    for limit in &args.limit {
        limit.apply(&mut limits);
    }
    if args.exact {
        let geometry = Geometry::with_classes(limits, &args.class);
        return Ok(options.geometry(geometry.map_err(hythe::NodeError::from)?));
    }
    for class in &args.class {
        options = options.class(class.payload_bytes, class.count);
    }
    if let Some(bytes) = args.size {
        options = options.bytes(bytes);
    }
    // Unless somebody chose, they follow from the memory there is.
    if args.small || !args.limit.is_empty() {
        options = options.limits(limits);
    }
    Ok(options)
}
