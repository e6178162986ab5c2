//! `hythe pool list`: this user's pools. One that cannot be opened is listed with the reason.

use std::path::PathBuf;

use hythe::{Pool, PoolOptions};
use serde::Serialize;

use super::geometry;
use crate::args::Globals;
use crate::error::CliError;
use crate::{output, units};

#[derive(Serialize)]
struct Document {
    pools: Vec<PoolDocument>,
}

#[derive(Serialize)]
struct PoolDocument {
    pool: String,
    path: PathBuf,
    #[serde(flatten)]
    state: State,
}

#[derive(Serialize)]
#[serde(untagged)]
enum State {
    Usable {
        bytes: u64,
        participants: usize,
        channels: usize,
        slots: u32,
        free: u32,
    },
    Broken {
        error: String,
    },
}

pub(crate) fn run(globals: &Globals) -> Result<(), CliError> {
    let names = Pool::list(&globals.options())?;
    let pools = names.into_iter().map(|name| look(&name)).collect();
    output::print(globals.json, &Document { pools }, text)
}

fn look(name: &str) -> PoolDocument {
    let options = PoolOptions::new(name);
    let state = match Pool::open(&options) {
        Ok(pool) => {
            let snapshot = pool.snapshot();
            State::Usable {
                bytes: geometry::total(&geometry::terms(&snapshot)),
                participants: snapshot.members.len(),
                channels: snapshot.channels.len(),
                slots: snapshot.audit.slots,
                free: snapshot.audit.free,
            }
        }
        Err(error) => State::Broken {
            error: error.to_string(),
        },
    };
    PoolDocument {
        pool: name.to_owned(),
        path: options.path(),
        state,
    }
}

fn text(document: &Document) -> String {
    if document.pools.is_empty() {
        return "no pools; `hythe pool create` makes one".to_owned();
    }
    let row = |pool: &PoolDocument| match &pool.state {
        State::Usable {
            bytes,
            participants,
            channels,
            slots,
            free,
        } => vec![
            pool.pool.clone(),
            units::bytes(*bytes),
            participants.to_string(),
            channels.to_string(),
            format!("{free}/{slots}"),
        ],
        State::Broken { error } => vec![pool.pool.clone(), error.clone()],
    };
    let rows: Vec<Vec<String>> = document.pools.iter().map(row).collect();
    output::table(
        &["POOL", "SIZE", "PARTICIPANTS", "CHANNELS", "FREE SLOTS"],
        &rows,
    )
}
