//! What most programs use: `use hythe::prelude::*;`.

pub use crate::{
    Lease, Node, Pool, PoolOptions, PortPolicy, Publisher, PublisherOptions, Sample, Subscriber,
    SubscriberOptions,
};
