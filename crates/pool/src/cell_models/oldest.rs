//! Models of queues that evict the oldest: the consumer takes, the producer drops and pushes, one
//! of them dies in its swap.
//!
//! The steps are the shipped ones. In the first model the queue's entries and the payload count as
//! plain memory: without a drop, nobody may read an entry while it is written. In the others a read
//! may meet a write, as it may in truth; what it read must then count for nothing.

use hythe_abi::pool::{QUEUE_SEGMENT_DESCRIPTORS, connection};
use hythe_abi::{Descriptor, Generation, HEADROOM_BYTES, Place, RegionIndex};
use hythe_queue::{Consumer, Producer, RingPlaces};

use super::*;
use crate::{
    ConnectionEnd, ConnectionIndex, ConnectionInfo, PortIndex, RegionGeometry, RegionKind, Regions,
    SendError, SlotClass,
};

const PRODUCER: u8 = A;
const CONSUMER: u8 = LIVING;
const CAPACITY: u32 = 2;
/// The tail wraps on the second push, and so does the head, through both parts of its cell.
const START: u32 = u32::MAX;

/// The queue between the two, with two references of each to both slots; `plain`: entries and
/// payload are plain memory.
fn queue(plain: bool) -> Shared {
    let layout = ControlLayout::new(LIMITS).expect("layout");
    let mut places = vec![eight(layout.oldest(0))];
    for member in [PRODUCER, CONSUMER].map(usize::from) {
        let intent = layout.participant(member) + participant::INTENT;
        places.push(intent..intent + INTENT_BYTES);
        let witness = layout.witness(member, 0);
        places.push(witness..witness + 16);
        places.extend([X, Y].map(|slot| eight(layout.hold(member, slot.0 as usize))));
    }
    let other = layout.witness(B.into(), 0);
    places.push(other..other + 16);
    places.extend([X, Y].map(|slot| eight(layout.slot_cell(slot.0 as usize))));
    let cells: usize = places.iter().map(Range::len).sum();
    places.push(eight(layout.connection(0) + connection::TAIL));
    places.push(layout.gap(0)..layout.gap(0) + CAPACITY as usize * 4);
    let entries = layout.queue_segment(0);
    let tracked: usize = places.iter().map(Range::len).sum();
    places.push(entries..entries + CAPACITY as usize * Descriptor::BYTES);
    places.push(eight(PAYLOAD));
    let bytes: usize = places.iter().map(Range::len).sum();
    let tracked = if plain { tracked..bytes } else { 0..0 };
    let memory = ModelMemory::with_plain(bytes / 4, cells / 8, tracked);
    let control = Arc::new(Control::over(Packed { memory, places }, layout));
    for slot in [X, Y] {
        let cell = Counted {
            count: 4,
            by: 0,
            sequence: 0,
            upper: generation(slot).0,
        };
        stand(&control, slot, cell);
        for member in [PRODUCER, CONSUMER] {
            let held = Counted {
                count: 2,
                by: 0,
                sequence: 0,
                upper: 0,
            };
            control.ledger().set_hold(MemberIndex(member), slot, held);
        }
    }
    let memory = control.memory();
    let info = info(&control);
    memory.store(info.places.tail, START, Ordering::Relaxed);
    let head = Counted {
        count: START >> 24,
        by: 0,
        sequence: 0,
        upper: START & 0xFF_FFFF,
    };
    memory.store_cell(
        control.layout().oldest(0),
        head.to_bits(),
        Ordering::Relaxed,
    );
    control
}

pub(super) const fn generation(slot: LedgerSlot) -> Generation {
    Generation(1 + slot.0)
}

fn info(control: &Shared) -> ConnectionInfo {
    let layout = control.layout();
    ConnectionInfo {
        index: ConnectionIndex(0),
        nonce: 1,
        producer: MemberIndex(PRODUCER),
        consumer: MemberIndex(CONSUMER),
        producer_port: PortIndex(0),
        consumer_port: PortIndex(0),
        producer_left: false,
        consumer_left: false,
        places: RingPlaces {
            tail: layout.connection(0) + connection::TAIL,
            head: layout.connection(0) + connection::HEAD,
            entries: layout.queue_segment(0),
            capacity: CAPACITY,
        },
        gaps: layout.gap(0),
        evicts_oldest: true,
        producer_host: None,
    }
}

fn pushing(control: &Shared, tail: u32) -> ConnectionEnd<Producer> {
    let info = info(control);
    ConnectionEnd {
        info,
        queue: Producer::resume(info.places, tail, START),
        gap: 0,
    }
}

fn taking(control: &Shared) -> ConnectionEnd<Consumer> {
    let info = info(control);
    ConnectionEnd {
        info,
        queue: Consumer::resume(info.places, START),
        gap: 0,
    }
}

pub(super) fn regions() -> Regions {
    assert!(CAPACITY as usize <= QUEUE_SEGMENT_DESCRIPTORS);
    Regions::of(RegionGeometry {
        index: RegionIndex(0),
        kind: RegionKind::Linux,
        name: String::new(),
        bytes: 4096,
        ledger_base: 0,
        slots: 2,
        classes: vec![SlotClass {
            slot_bytes: 1024,
            count: 2,
            first: 0,
            offset: 0,
        }],
        link: None,
        segments: None,
    })
}

/// Every word of a message differs from those of its neighbours.
pub(super) fn message(number: u32) -> (LedgerSlot, Descriptor) {
    let slot = if number.is_multiple_of(2) { X } else { Y };
    let descriptor = Descriptor {
        place: Place {
            region: RegionIndex(0),
            slot: slot.0,
        },
        generation: generation(slot),
        offset: HEADROOM_BYTES + number,
        length: 1 + number,
    };
    (slot, descriptor)
}

fn send(control: &Shared, end: &mut ConnectionEnd<Producer>, number: u32) -> Result<(), SendError> {
    let (slot, descriptor) = message(number);
    member(PRODUCER).send(control, end, slot, descriptor)
}

/// Sends, and evicts the oldest if the queue is full; returns the number of the evicted message.
fn push(control: &Shared, end: &mut ConnectionEnd<Producer>, number: u32) -> Option<u32> {
    match send(control, end, number) {
        Ok(()) => return None,
        Err(SendError::Full) => {}
        Err(refused) => panic!("{refused}"),
    }
    let dropped = member(PRODUCER).evict_oldest(control, &regions(), end);
    let dropped = dropped.expect("an honest consumer");
    send(control, end, number).expect("room");
    dropped.map(|dropped| number_of(dropped.descriptor))
}

fn take(control: &Shared, end: &mut ConnectionEnd<Consumer>) -> Option<u32> {
    let taken = member(CONSUMER).take(control, &regions(), end);
    let taken = taken.expect("an honest producer")?;
    Some(number_of(taken.descriptor))
}

fn number_of(found: Descriptor) -> u32 {
    let number = found.length - 1;
    assert_eq!(found, message(number).1, "torn");
    number
}

/// References that the two hold on both slots: what is in the queue is not among them.
fn held(control: &Shared) -> u32 {
    let count = |by: u8, slot| member(by).holds(control, slot);
    [X, Y]
        .map(|slot| count(PRODUCER, slot) + count(CONSUMER, slot))
        .iter()
        .sum()
}

/// Nobody drops: the consumer's swap lets the producer overwrite what was read, and the payload
/// comes with the tail.
#[test]
fn loom_head_cell_entry_is_overwritten_after_read() {
    model(|| {
        let control = queue(true);
        let own = Arc::clone(&control);
        let consumer = thread::spawn(move || {
            let mut end = taking(&own);
            for number in 0..3 {
                let taken = loop {
                    match take(&own, &mut end) {
                        Some(taken) => break taken,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(taken, number);
                if number == 0 {
                    assert_eq!(own.memory().load(PAYLOAD, Ordering::Relaxed), 7);
                }
            }
        });
        let mut end = pushing(&control, START);
        control.memory().store(PAYLOAD, 7, Ordering::Relaxed);
        for number in 0..3 {
            while send(&control, &mut end, number) == Err(SendError::Full) {
                thread::yield_now();
            }
        }
        consumer.join().expect("consumer");
    });
}

/// Full, and both want the oldest: each message is taken once or dropped once, whole and in order,
/// and counted by who has it.
#[test]
fn loom_each_message_is_taken_or_dropped_once() {
    model(|| {
        let control = queue(false);
        let mut end = pushing(&control, START);
        for number in 0..CAPACITY {
            assert_eq!(push(&control, &mut end, number), None);
        }
        let own = Arc::clone(&control);
        let consumer = thread::spawn(move || {
            let mut end = taking(&own);
            let mut taken = vec![take(&own, &mut end).expect("two wait")];
            taken.extend(take(&own, &mut end));
            (taken, end)
        });
        let mut dropped = Vec::new();
        dropped.extend(push(&control, &mut end, 2));
        let (mut taken, mut end) = consumer.join().expect("consumer");
        while let Some(number) = take(&control, &mut end) {
            taken.push(number);
        }
        assert!(taken.is_sorted(), "{taken:?}");
        let mut all = [taken, dropped].concat();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
        assert_eq!(held(&control), 8);
    });
}

/// The consumer begins a take, and dies in front of its swap, or behind it.
fn die_in_take(control: &Shared, behind: bool) -> Death {
    let slot = message(0).0;
    let step = Step {
        slot: slot.0,
        count: 1,
        row: 0,
        ..Step::default()
    };
    let mark = journal::begin(control, MemberIndex(CONSUMER), Operation::TakeOldest, step);
    if behind {
        let next = START.wrapping_add(1);
        let at = control.layout().oldest(0);
        let on = |found: Counted| {
            let still = found.upper == START & 0xFF_FFFF && found.count == START >> 24;
            still.then_some((next >> 24, next & 0xFF_FFFF))
        };
        // The producer may be faster.
        let _ = cell::change(control.memory(), control.layout(), at, mark, on);
    }
    Death { step, mark }
}

/// The producer goes on where the dead has moved the head, or has not: it is known which, also
/// afterwards.
#[test]
fn loom_a_dead_take_of_the_oldest_is_known() {
    for behind in [false, true] {
        model(move || {
            let control = queue(false);
            let mut end = pushing(&control, START);
            for number in 0..CAPACITY {
                push(&control, &mut end, number);
            }
            let own = Arc::clone(&control);
            let consumer = thread::spawn(move || die_in_take(&own, behind));
            let first = push(&control, &mut end, 2);
            let death = consumer.join().expect("the dead");
            // The first is gone in any case: to the producer, or to the dead.
            let took = first != Some(0) && behind;
            let known =
                || recovery::happened(&control, Operation::TakeOldest, death.step, death.mark);
            assert_eq!(known(), took);
            push(&control, &mut end, 3);
            assert_eq!(known(), took, "forgotten later");
        });
    }
}
