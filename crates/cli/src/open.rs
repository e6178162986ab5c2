//! Which pool a command works on.

use hythe::{Node, Pool, PoolOptions};

use crate::args::{DEFAULT_POOL, Globals, PoolNameArgs};
use crate::error::CliError;

impl Globals {
    /// The pool chosen by `--pool` or `HYTHE_POOL`.
    pub(crate) fn options(&self) -> PoolOptions {
        PoolOptions::new(&self.pool)
    }

    /// The pool to look at. It must exist.
    pub(crate) fn open(&self) -> Result<Pool, CliError> {
        Ok(Pool::open(&self.options())?)
    }

    /// The pool to take part in. The default pool is made on first use.
    pub(crate) fn open_to_use(&self) -> Result<Pool, CliError> {
        let options = self.options();
        let opened = if self.pool == DEFAULT_POOL {
            Pool::open_or_create(&options)
        } else {
            Pool::open(&options)
        };
        Ok(opened?)
    }

    /// Takes part in the pool under the name of a command.
    pub(crate) fn join(&self, command: &str) -> Result<Node, CliError> {
        Ok(Node::join(&self.open_to_use()?, command)?)
    }
}

impl PoolNameArgs {
    /// The pool named by position, else that of `--pool`.
    pub(crate) fn options(&self, globals: &Globals) -> PoolOptions {
        self.name
            .as_deref()
            .map_or_else(|| globals.options(), PoolOptions::new)
    }
}
