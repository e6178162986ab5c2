//! Hythe: one pool of shared memory, from flash to wire.
//!
//! The facade that applications use: [`Pool`] and [`Node`] with channels between processes, [`rtcore`] for RTOS cores,
//! [`media`] for RTP, whose protocol alone is [`rtp`], [`recording`] for channels kept in files.
//!
//! Never adds behaviour of its own: it only gathers the crates of the hops under one name. The one thing that it does is in
//! [`Node::join`]: it registers the hops with the node.

mod node;

pub use node::Node;

pub use hythe_media as media;
pub use hythe_node::{
    Audit, ChannelIndex, ChannelInfo, ChannelKind, ChannelType, ClassHighWater, ClassPlan, Client,
    ClientOptions, ConnectionIndex, ConnectionInfo, CoreBinding, CoreRegionPlan, Direction, Event,
    EventId, EventSet, Exhausted, Geometry, GroupAccess, HEADROOM_BYTES, HeldBuffer, HighWater,
    HolderKind, Interest, LargerPool, Lease, Limits, LinkPlace, Listener, Liveness, MemberIndex,
    MemberInfo, MemberKind, MemberStatus, Misfit, NodeError, Notifier, PIECES_PER_CALL,
    PendingReply, Pieces, Place, Pool, PoolError, PoolOptions, PortIndex, PortInfo, PortKind,
    PortPolicy, PortStatistics, Published, Publisher, PublisherOptions, Recovered, RegionGeometry,
    RegionIndex, RegionKind, Reply, Request, Responder, Sample, Server, ServerLoss, ServerOptions,
    Share, SizeBound, SlotClass, Snapshot, Subscriber, SubscriberOptions, Term, Token, TrustPeers,
    Waitable, Waiter, WireOptions, default_bytes, default_root, faults, group_id, identity_of,
    monotonic_ns, own_identity, typed, user_id,
};
pub use hythe_recording as recording;
pub use hythe_rtcore as rtcore;
pub use hythe_rtp as rtp;
