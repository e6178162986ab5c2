//! Which pool a command works on.

use std::io::ErrorKind;

use hythe::{Node, NodeError, Pool, PoolOptions};

use crate::args::{DEFAULT_POOL, Globals};
use crate::error::CliError;

impl Globals {
    /// The pool chosen by `--pool` or `HYTHE_POOL`.
    pub fn options(&self) -> PoolOptions {
        PoolOptions::new(self.pool_name())
    }

    /// Its name.
    pub fn pool_name(&self) -> &str {
        self.pool.as_deref().unwrap_or(DEFAULT_POOL)
    }

    /// The pool to look at. It must exist.
    pub fn open(&self) -> Result<Pool, CliError> {
        Ok(Pool::open(&self.options())?)
    }

    /// The pool to take part in. The default pool is made on first use.
    pub fn open_to_use(&self) -> Result<Pool, CliError> {
        Ok(self.open_to_use_as(&self.options())?)
    }

    /// The same with other options for it.
    pub fn open_to_use_as(&self, options: &PoolOptions) -> Result<Pool, NodeError> {
        let (pool, made) = self.open_or_make(options)?;
        if made {
            tell_made(options);
        }
        Ok(pool)
    }

    /// The same without a word about it. True: it was made here.
    pub fn open_or_make(&self, options: &PoolOptions) -> Result<(Pool, bool), NodeError> {
        match Pool::open(options) {
            Err(error) if self.pool_name() == DEFAULT_POOL && is_missing(&error) => {}
            opened => return Ok((opened?, false)),
        }
        let made = Pool::create(options)?;
        Ok((Pool::open(options)?, made))
    }

    /// Takes part in the pool under the name of a command.
    pub fn join(&self, command: &str) -> Result<Node, CliError> {
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
pub fn tell_made(options: &PoolOptions) {
    crate::output::note(format!(
        "made pool `{name}` in {}; it stays until `hythe pool remove {name}`",
        options.path().display(),
        name = options.name()
    ));
}
