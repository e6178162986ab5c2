//! A way to load pages, by its name. Which one serves a file system: `methods`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A way to load pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// `readahead(2)` in steps of 128 KiB; what it leaves out is fetched.
    Readahead,
    /// `read(2)`. Marks pages as used, which hides from the report whether anybody else did.
    Read,
    /// Each page is fetched through a mapping: no copy, and no mark.
    Populate,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Readahead => "readahead",
            Self::Read => "read",
            Self::Populate => "populate",
        })
    }
}
