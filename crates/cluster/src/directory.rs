//! The seam to whoever knows which hosts there are.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::Duration;

use crate::HostName;

/// Something about another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryEvent {
    /// It is there, and can be reached at these addresses; also when they change.
    Seen {
        /// Which.
        host: HostName,
        /// Where.
        addresses: Vec<SocketAddr>,
    },
    /// It is not there any more, as far as can be told.
    Gone {
        /// Which.
        host: HostName,
    },
    /// It should be there, whether it is seen or not: it is dialled at these addresses, too.
    Listed {
        /// Which.
        host: HostName,
        /// Where; or why that is not known.
        addresses: Result<Vec<SocketAddr>, String>,
    },
    /// It need not be there any more.
    Unlisted {
        /// Which.
        host: HostName,
    },
}

/// Knows which hosts there are. This host was declared when it was made.
pub trait Directory: Debug + Send + Sync {
    /// The next change, waiting for at most `timeout`. Begins with all hosts that are there.
    ///
    /// # Errors
    /// It has come to its end: why.
    fn next(&self, timeout: Duration) -> Result<Option<DirectoryEvent>, String>;
}
