//! Which pool a command works on.

use std::io::ErrorKind;

use hythe::{Node, NodeError, Pool, PoolOptions};

use crate::args::{DEFAULT_POOL, Globals, PoolNameArgs};
use crate::error::CliError;

impl Globals {
    /// The pool chosen by `--pool` or `HYTHE_POOL`.
    pub(crate) fn options(&self) -> PoolOptions {
        PoolOptions::new(self.pool_name())
    }

    /// Its name.
    pub(crate) fn pool_name(&self) -> &str {
        self.pool.as_deref().unwrap_or(DEFAULT_POOL)
    }

    /// The pool to look at. It must exist.
    pub(crate) fn open(&self) -> Result<Pool, CliError> {
        Ok(Pool::open(&self.options())?)
    }

    /// The pool to take part in. The default pool is made on first use.
    pub(crate) fn open_to_use(&self) -> Result<Pool, CliError> {
        Ok(self.open_to_use_as(&self.options())?)
    }

    /// The same with other options for it.
    pub(crate) fn open_to_use_as(&self, options: &PoolOptions) -> Result<Pool, NodeError> {
        match Pool::open(options) {
            Err(error) if self.pool_name() == DEFAULT_POOL && is_missing(&error) => {}
            opened => return opened,
        }
        if Pool::create(options)? {
            tell_made(options);
        }
        Pool::open(options)
    }

    /// Takes part in the pool under the name of a command.
    pub(crate) fn join(&self, command: &str) -> Result<Node, CliError> {
        Ok(Node::join(&self.open_to_use()?, command)?)
    }
}

fn is_missing(error: &NodeError) -> bool {
    match error {
        NodeError::NoSuchPool { .. } => true,
        NodeError::File { source, .. } => source.kind() == ErrorKind::NotFound,
        _ => false,
    }
}

/// A pool that stays when the command ends is memory that somebody has to give back.
fn tell_made(options: &PoolOptions) {
    crate::output::note(format!(
        "made pool `{name}` in {}; it stays until `hythe pool remove {name}`",
        options.path().display(),
        name = options.name()
    ));
}

impl PoolNameArgs {
    /// The pool named by position, else that of `--pool`.
    pub(crate) fn options(&self, globals: &Globals) -> PoolOptions {
        self.name
            .as_deref()
            .map_or_else(|| globals.options(), PoolOptions::new)
    }
}
