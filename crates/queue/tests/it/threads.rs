//! Threads at full speed over real memory, with payloads of plain bytes: for Miri, which reports a
//! data race where an ordering is missing. The loom models try every interleaving, but of atomics
//! only.

#![cfg(not(loom))]

use std::thread;

use hythe_abi::{Descriptor, Generation, Place, RegionIndex};
use hythe_memory::{Mapped, Memory, Ordering};
use hythe_queue::{Bell, Consumer, EventCell, Producer, RingPlaces};

const PLACES: RingPlaces = RingPlaces {
    tail: 0,
    head: 64,
    entries: 128,
    capacity: 4,
};
/// Behind the entries.
const PAYLOADS: usize = 256;
const PAYLOAD_BYTES: usize = 24;
/// Miri takes about a millisecond for each.
const MESSAGES: u32 = if cfg!(miri) { 200 } else { 100_000 };
/// A bound for each wait, should the other side have failed: far more turns than it takes.
const TURNS_MAX: u32 = if cfg!(miri) { 10_000 } else { 100_000_000 };
/// The counters wrap on the way.
const START: u32 = u32::MAX - 100;

/// A slot for each entry: its payload may be written again when the entry is free.
fn descriptor(number: u32) -> Descriptor {
    Descriptor {
        place: Place {
            region: RegionIndex(0),
            slot: number % PLACES.capacity,
        },
        generation: Generation(1 + number),
        offset: 256,
        length: PAYLOAD_BYTES as u32,
    }
}

const fn payload(descriptor: Descriptor) -> usize {
    PAYLOADS + descriptor.place.slot as usize * PAYLOAD_BYTES
}

/// Polls without a pause: what the other thread does shall happen between any two polls.
fn yield_until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..TURNS_MAX {
        if let Some(found) = look() {
            return found;
        }
        thread::yield_now();
    }
    panic!("nothing moves any more");
}

fn produce(memory: &Mapped) {
    let mut producer = Producer::resume(PLACES, START, START);
    for number in 0..MESSAGES {
        let descriptor = descriptor(number);
        // Free capacity first: the payload's slot may still be in the reader's hands.
        yield_until(|| (producer.free_capacity(memory) != Ok(0)).then_some(()));
        memory.write(payload(descriptor), &[number as u8; PAYLOAD_BYTES]);
        producer
            .push(memory, descriptor)
            .expect("there was free capacity");
    }
}

fn consume(memory: &Mapped) {
    let mut consumer = Consumer::resume(PLACES, START);
    for number in 0..MESSAGES {
        let taken = yield_until(|| consumer.peek(memory).expect("an honest producer"));
        assert_eq!(taken, descriptor(number));
        let mut bytes = [0; PAYLOAD_BYTES];
        memory.read(payload(taken), &mut bytes);
        assert_eq!(bytes, [number as u8; PAYLOAD_BYTES]);
        consumer.advance(memory);
    }
}

#[test]
fn payloads_arrive_and_slots_come_back() {
    let memory = Mapped::anonymous(4096).expect("memory");
    memory.store(PLACES.tail, START, Ordering::Relaxed);
    memory.store(PLACES.head, START, Ordering::Relaxed);
    thread::scope(|scope| {
        scope.spawn(|| produce(&memory));
        consume(&memory);
    });
}

/// Each notifier writes its own bytes once, then raises its event.
#[test]
fn event_publishes_earlier_writes() {
    const NOTIFIERS: usize = 3;
    let memory = Mapped::anonymous(4096).expect("memory");
    EventCell::begin(&memory, 0);
    let cell = EventCell::now(&memory, 0);
    let at = |event: usize| PAYLOADS + event * PAYLOAD_BYTES;
    thread::scope(|scope| {
        for event in 0..NOTIFIERS {
            let memory = &memory;
            scope.spawn(move || {
                memory.write(at(event), &[1 + event as u8; PAYLOAD_BYTES]);
                cell.raise(memory, 1 << event).expect("open");
            });
        }
        let mut seen = 0;
        while seen != (1 << NOTIFIERS) - 1 {
            let taken = yield_until(|| Some(cell.take(&memory)).filter(|&taken| taken != 0));
            assert_eq!(taken & seen, 0, "each was raised once");
            for event in (0..NOTIFIERS).filter(|event| taken & 1 << event != 0) {
                let mut bytes = [0; PAYLOAD_BYTES];
                memory.read(at(event), &mut bytes);
                assert_eq!(bytes, [1 + event as u8; PAYLOAD_BYTES]);
            }
            seen |= taken;
        }
    });
}

#[test]
fn ring_publishes_earlier_writes() {
    const BELL: Bell = Bell {
        count: 0,
        sleepers: 4,
    };
    let rings: [fn(&Mapped) -> bool; 2] = [
        |memory| BELL.ring(memory),
        |memory| {
            BELL.ring_always(memory);
            true
        },
    ];
    for ring in rings {
        let memory = Mapped::anonymous(4096).expect("memory");
        let ticket = BELL.lie_down(&memory);
        thread::scope(|scope| {
            scope.spawn(|| {
                memory.write(PAYLOADS, &[7; PAYLOAD_BYTES]);
                assert!(ring(&memory), "somebody sleeps");
            });
            yield_until(|| (!BELL.is_quiet(&memory, ticket)).then_some(()));
            let mut bytes = [0; PAYLOAD_BYTES];
            memory.read(PAYLOADS, &mut bytes);
            assert_eq!(bytes, [7; PAYLOAD_BYTES]);
        });
    }
}
