//! Owners of the memory for queues, in queue segments of 32 descriptors.
//!
//! Connection number i has queue segment i: a queue of the usual depth always fits, and making it
//! looks for nothing. Deeper queues share the queue segments behind those; a consumer gets at most
//! half of them, so that no subscriber keeps deep queues from all others. Called when connections
//! are made and freed, and by subscribers that want to know beforehand.

use hythe_abi::pool::QUEUE_SEGMENT_DESCRIPTORS;
use hythe_memory::{Memory, Ordering};

use super::Tables;
use super::connections::{DEPTH_MAX, queue_segments_for};
use super::members::MemberIndex;
use crate::PoolError;
use crate::control::Control;

const DESCRIPTORS: u32 = QUEUE_SEGMENT_DESCRIPTORS as u32;

impl<'c, M: Memory> Tables<'c, M> {
    /// The deepest queue that can be made now to a consumer which has `queues` of them to make.
    pub fn deepest_queue(self, consumer: MemberIndex, queues: u32) -> u32 {
        let deep = self.layout().limits().queue_segments - self.layout().first_deep_queue_segment();
        let used: u32 = self
            .connections()
            .filter(|info| info.consumer == consumer)
            .map(|info| queue_segments_for(info.places.capacity))
            .filter(|&queue_segments| queue_segments > 1)
            .sum();
        // Half of them, of which each of the queues gets a power of two.
        let each = (deep / 2).saturating_sub(used) / queues.max(1);
        match each.checked_ilog2() {
            None | Some(0) => DESCRIPTORS,
            Some(power) => (DESCRIPTORS << power).min(DEPTH_MAX),
        }
    }
}

/// The capacity of a queue for `depth` descriptors to this consumer. Two publishers that ask at the
/// same instant may both be let past the consumer's half.
pub(crate) fn check_depth<M: Memory>(
    control: &Control<M>,
    consumer: MemberIndex,
    depth: u32,
) -> Result<u32, PoolError> {
    let capacity = depth.clamp(2, DEPTH_MAX).next_power_of_two();
    if depth <= DESCRIPTORS {
        return Ok(capacity);
    }
    let free_capacity = control.tables().deepest_queue(consumer, 1);
    if depth > free_capacity {
        return Err(PoolError::QueueTooDeep {
            depth,
            free_capacity,
        });
    }
    Ok(capacity)
}

/// The first queue segment of a queue for connection number `index`.
pub(crate) fn take<M: Memory>(
    control: &Control<M>,
    index: u32,
    capacity: u32,
) -> Result<u32, PoolError> {
    let (count, first_deep) = (
        queue_segments_for(capacity),
        control.layout().first_deep_queue_segment(),
    );
    if count == 1 && index < first_deep {
        return Ok(index);
    }
    take_deep(control, index, count).ok_or(PoolError::TableFull {
        what: "queue segment for deep queues",
        limit: control.layout().limits().queue_segments - first_deep,
    })
}

/// Takes `count` queue segments in a row, first fit.
fn take_deep<M: Memory>(control: &Control<M>, index: u32, count: u32) -> Option<u32> {
    let (memory, layout) = (control.memory(), control.layout());
    let owner = u64::from(index) + 1;
    let mut first = layout.first_deep_queue_segment();
    while first + count <= layout.limits().queue_segments {
        let mine = |queue_segment: &u32| {
            let cell = layout.queue_segment_owner(*queue_segment as usize);
            memory.replace_cell(cell, 0, owner).is_ok()
        };
        let claimed = (first..first + count).take_while(mine).count() as u32;
        if claimed == count {
            return Some(first);
        }
        for queue_segment in first..first + claimed {
            let cell = layout.queue_segment_owner(queue_segment as usize);
            memory.store_cell(cell, 0, Ordering::Release);
        }
        first += claimed + 1;
    }
    None
}

/// Gives back what connection number `index` has of the queue segments for deep queues, all or a
/// part of what it asked for.
pub(crate) fn free<M: Memory>(control: &Control<M>, index: u32) {
    let (memory, layout) = (control.memory(), control.layout());
    let owner = u64::from(index) + 1;
    for queue_segment in layout.first_deep_queue_segment()..layout.limits().queue_segments {
        let cell = layout.queue_segment_owner(queue_segment as usize);
        if memory.load_cell(cell, Ordering::Acquire) == owner {
            // If it is not ours any more, somebody else has given it back for us.
            let _ = memory.replace_cell(cell, owner, 0);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{ClassPlan, Geometry, Identity, Member, MemberKind, PortIndex};
    use hythe_abi::pool::Limits;
    use hythe_memory::Mapped;

    const LIMITS: Limits = Limits {
        participants: 4,
        channels: 1,
        ports: 4,
        connections: 8,
        queue_segments: 8 + 16,
        slots: 1,
    };

    fn pool() -> Control<Mapped> {
        let plan = [ClassPlan {
            payload_bytes: 768,
            count: 1,
        }];
        let geometry = Geometry::with_classes(LIMITS, &plan).expect("geometry");
        let bytes = geometry.layout().expect("layout").bytes();
        let memory = Mapped::anonymous(bytes).expect("memory");
        Control::create(memory, &geometry, 1).expect("control")
    }

    fn join(control: &Control<Mapped>) -> Member {
        let identity = Identity {
            pid: 1,
            start_time: 2,
            pid_namespace: 3,
            uid: 4,
        };
        Member::join(control, MemberKind::Process, identity, "m").expect("room")
    }

    #[test]
    fn greedy_consumer_gets_half_and_usual_queues_always_fit() {
        let control = pool();
        let (mut maker, greedy, other) = (join(&control), join(&control), join(&control));
        let port = PortIndex(0);
        let mut connect =
            |to: &Member, depth| maker.connect(&control, port, to.index(), port, depth);
        // 16 queue segments for deep queues, 8 of them for one consumer.
        assert_eq!(control.tables().deepest_queue(greedy.index(), 1), 256);
        assert_eq!(control.tables().deepest_queue(greedy.index(), 3), 64);
        let (depth, free_capacity) = (257, 256);
        let refused = connect(&greedy, depth);
        assert_eq!(
            refused,
            Err(PoolError::QueueTooDeep {
                depth,
                free_capacity
            })
        );
        assert_eq!(
            connect(&greedy, 256)
                .expect("all of its half")
                .places
                .capacity,
            256
        );
        let (depth, free_capacity) = (33, 32);
        let refused = connect(&greedy, depth);
        assert_eq!(
            refused,
            Err(PoolError::QueueTooDeep {
                depth,
                free_capacity
            })
        );
        connect(&other, 200).expect("the other half");
        let refused = connect(&other, depth);
        assert_eq!(
            refused,
            Err(PoolError::QueueTooDeep {
                depth,
                free_capacity
            })
        );
        for _ in 2..LIMITS.connections {
            connect(&greedy, 32).expect("the queue segment of the connection");
        }
        let refused = connect(&other, 2);
        let full = PoolError::TableFull {
            what: "connection",
            limit: LIMITS.connections,
        };
        assert_eq!(refused, Err(full));
    }
}
