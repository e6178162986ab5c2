//! What most programs use: `use hythe::prelude::*;`.

pub use crate::event::EventId;
pub use crate::request::ClientOptions;
pub use crate::{
    Lease, Node, NodeError, Pool, PoolOptions, PortPolicy, Publisher, PublisherOptions, Sample,
    Subscriber, SubscriberOptions, TrustPeers,
};
