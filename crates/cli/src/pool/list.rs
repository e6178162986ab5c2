//! `hythe pool list`: this user's pools, and those of others that are in use. One that cannot be
//! opened is listed with the reason.

use std::path::PathBuf;

use hythe::{Pool, PoolOptions};
use serde::Serialize;

use super::geometry;
use crate::args::Globals;
use crate::error::CliError;
use crate::other_users::{self, OtherPool};
use crate::{output, units};

#[derive(Serialize)]
struct Document {
    pools: Vec<PoolDocument>,
    /// Those of other users that somebody takes part in.
    other_pools: Vec<OtherPool>,
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
    let other_pools = other_users::pools(globals);
    output::print(globals.json, &Document { pools, other_pools }, text)
}

fn look(name: &str) -> PoolDocument {
    let options = PoolOptions::new(name);
    let state = match Pool::open(&options) {
        Ok(pool) => {
            pool.finish_recoveries();
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
    let own = match rows.is_empty() {
        true => "no pools; `hythe pool create` makes one\n".to_owned(),
        false => output::table(
            &["POOL", "SIZE", "PARTICIPANTS", "CHANNELS", "FREE SLOTS"],
            &rows,
        ),
    };
    own + &other_users::text(&document.other_pools)
}
