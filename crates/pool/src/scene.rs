//! A small pool in anonymous memory, for the unit tests of this crate.

use hythe_abi::pool::Limits;
use hythe_memory::Mapped;

use crate::{
    ClassPlan, Control, Geometry, Identity, Member, MemberKind, PoolError, RegionGeometry, Regions,
};

pub(crate) const SLOTS: u32 = 2;
pub(crate) const PAYLOAD_BYTES: usize = 768;
pub(crate) const LIMITS: Limits = Limits {
    participants: 2,
    channels: 2,
    ports: 2,
    connections: 1,
    queue_segments: 5,
    slots: 1,
};

/// The pool, and the memory behind it.
pub(crate) fn pool() -> (Control<Mapped>, Mapped) {
    pool_of(ClassPlan {
        payload_bytes: PAYLOAD_BYTES,
        count: SLOTS,
    })
}

/// The same with other slots.
pub(crate) fn pool_of(class: ClassPlan) -> (Control<Mapped>, Mapped) {
    let plan = [class];
    let geometry = Geometry::with_classes(LIMITS, &plan).expect("geometry");
    let bytes = geometry.layout().expect("layout").bytes();
    let memory = Mapped::anonymous(bytes).expect("memory");
    (
        Control::create(memory.clone(), &geometry, 7).expect("control"),
        memory,
    )
}

pub(crate) fn control() -> Control<Mapped> {
    pool().0
}

pub(crate) fn try_join(control: &Control<Mapped>, name: &str) -> Result<Member, PoolError> {
    let identity = Identity {
        pid: 1,
        start_time: 2,
        pid_namespace: 3,
        uid: 4,
    };
    Member::join(control, MemberKind::Process, identity, name)
}

pub(crate) fn join(control: &Control<Mapped>) -> Member {
    try_join(control, "tester").expect("join")
}

/// Runs `check` with the only region.
pub(crate) fn with_region<T>(
    control: &Control<Mapped>,
    check: impl FnOnce(&Regions, &RegionGeometry) -> T,
) -> T {
    let regions = Regions::read(control).expect("regions");
    let region = regions.region(hythe_abi::RegionIndex(0)).expect("region 0");
    check(&regions, region)
}
