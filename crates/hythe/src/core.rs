//! RTOS cores: the agent that runs them, what they are asked, and the memory that is shared with
//! them.

pub use hythe_rtcore::{
    BellStatus, Board, BoardKind, Core, CoreCounters, CoreCounts, CoreError, CoreOptions,
    CoreState, CoreStatus, EndpointRecord, FlowStatus, LinkPlan, LinkState, LinkStatus,
    LinkTimeouts, Listed, QueueStatus, Repeatable, Requirement, SharedFile, SlotPlan, Span,
    ViolatedWord, Violation, control, join, join_with, list, run_alone, search_path, segment,
    tasks,
};
