//! What the bench and an end say to each other, as far as all scenarios have it in common.

use std::fmt::Debug;
use std::net::IpAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// What an end is told, one line of JSON each.
pub(crate) trait Order: Serialize {
    /// What it may find out.
    type Outcome: Serialize + DeserializeOwned + Debug;

    /// Put up a link's end and know the other. Answer: [`Answer::Ready`].
    fn join(link: Link) -> Self;
}

/// What an end says, one line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer<T> {
    /// Done, and nothing to say.
    Ready,
    /// Done, and this came of it.
    Result(T),
    /// It cannot, and why.
    Failed(String),
}

/// One end of the link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) interface: String,
    /// With the length of the prefix.
    pub(crate) address: String,
    pub(crate) other_address: String,
    pub(crate) other_mac: String,
}

impl Link {
    /// Of this end.
    pub(crate) fn own_ip(&self) -> Result<IpAddr, BenchError> {
        ip(&self.address)
    }

    /// Of the other end.
    pub(crate) fn other_ip(&self) -> Result<IpAddr, BenchError> {
        ip(&self.other_address)
    }
}

fn ip(address: &str) -> Result<IpAddr, BenchError> {
    let bare = address.split('/').next().unwrap_or_default();
    bare.parse()
        .map_err(|_| BenchError::WrongUse(format!("{address} is no address")))
}
