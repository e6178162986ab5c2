//! One queue, both of whose ends are honest, and somebody who writes the counters and the entries:
//! whatever stands there, each side stays inside the queue and keeps its own count.
//!
//! `cargo +nightly fuzz run queue_counters`

#![no_main]

use hythe_abi::Descriptor;
use hythe_memory::{Mapped, Memory, Ordering};
use hythe_queue::{Consumer, Producer, QueueError, RingPlaces};

const PLACES: RingPlaces = RingPlaces {
    tail: 0,
    head: 64,
    entries: 128,
    capacity: 4,
};
const BYTES: usize = PLACES.entries + PLACES.capacity as usize * Descriptor::BYTES;
const GUARD: u32 = 0x5AFE_5AFE;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let memory = Mapped::anonymous(4096).expect("memory");
    for at in (BYTES..4096).step_by(4) {
        memory.store(at, GUARD, Ordering::Relaxed);
    }
    let steps = bytes.chunks_exact(6);
    let start = steps.clone().next().map_or(0, word);
    let mut producer = Producer::resume(PLACES, start, start);
    let mut consumer = Consumer::resume(PLACES, start);
    let (mut tail, mut head) = (start, start);
    for step in steps {
        match step[0] % 4 {
            0 => {
                let descriptor = Descriptor::from_words([word(step); 4]);
                match producer.push(&memory, descriptor) {
                    Ok(()) => tail = tail.wrapping_add(1),
                    Err(QueueError::Full | QueueError::Violated { .. }) => {}
                }
            }
            1 => match consumer.peek(&memory) {
                Ok(Some(_)) => {
                    consumer.advance(&memory);
                    head = head.wrapping_add(1);
                }
                Ok(None) | Err(_) => {}
            },
            2 => {
                let at = usize::from(step[1]) * 4 % BYTES;
                memory.store(at, word(step), Ordering::Relaxed);
            }
            _ => {
                // A side that died, and goes on from what stands there.
                let claimed =
                    [PLACES.tail, PLACES.head].map(|at| memory.load(at, Ordering::Acquire));
                if step[1] % 2 == 0 {
                    tail = claimed[0];
                    producer = Producer::resume(PLACES, tail, claimed[1]);
                    let free_capacity = producer.free_capacity(&memory).unwrap_or(0);
                    assert!(free_capacity <= PLACES.capacity);
                } else {
                    head = claimed[1];
                    consumer = Consumer::resume(PLACES, head);
                    let waiting = consumer.waiting(&memory).unwrap_or(0);
                    assert!(waiting <= PLACES.capacity);
                }
            }
        }
        assert_eq!((producer.tail(), consumer.head()), (tail, head));
    }
    for at in (BYTES..4096).step_by(4) {
        assert_eq!(memory.load(at, Ordering::Relaxed), GUARD);
    }
});

fn word(step: &[u8]) -> u32 {
    u32::from_le_bytes([step[2], step[3], step[4], step[5]])
}
