//! Pools of other users that somebody takes part in: for who looks at an idle pool of their own,
//! as root does under `sudo`. Only what this user may open is found. Never makes anything.

use hythe::{Liveness, Pool, PoolOptions};
use serde::Serialize;

use crate::args::Globals;

/// A pool of another user that is in use.
#[derive(Debug, Serialize)]
pub(crate) struct OtherPool {
    /// As `--pool` takes it.
    pub(crate) pool: String,
    pub(crate) participants: usize,
}

/// Those below the root of pools, by user and name.
pub(crate) fn pools(globals: &Globals) -> Vec<OtherPool> {
    // A pool is ROOT/USER/NAME.
    let path = globals.options().path();
    let root = path.ancestors().nth(2);
    let Some(entries) = root.and_then(|root| std::fs::read_dir(root).ok()) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut users: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
    users.sort_unstable();
    let me = rustix::process::getuid().as_raw();
    let others = users.into_iter().filter(|user| *user != me);
    others.flat_map(of_user).collect()
}

fn of_user(user: u32) -> Vec<OtherPool> {
    let options = |name: &str| PoolOptions::new(name).owner(user);
    // What may not be listed or opened is not named.
    let names = Pool::list(&options("default")).unwrap_or_default();
    let pools = names.into_iter().filter_map(|name| {
        let pool = Pool::open(&options(&name)).ok()?;
        let members = pool.snapshot().members;
        let living = members
            .iter()
            .filter(|member| pool.liveness(member) != Liveness::Dead);
        let participants = living.count();
        (participants > 0).then(|| OtherPool {
            pool: format!("{user}/{name}"),
            participants,
        })
    });
    pools.collect()
}

/// A line for each, or nothing.
pub(crate) fn text(pools: &[OtherPool]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for OtherPool { pool, participants } in pools {
        let pool = hythe_terminal::escaped(pool);
        let participants = match participants {
            1 => "1 participant".to_owned(),
            many => format!("{many} participants"),
        };
        // A String takes everything.
        let _ = writeln!(
            text,
            "pool {pool} of another user has {participants}: `hythe list --pool {pool}`"
        );
    }
    text
}
