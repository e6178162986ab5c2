//! Model of the queue: entries and payloads count as plain memory, so every ordering between the
//! two sides has to hold.

#![cfg(loom)]

use hythe_abi::{Descriptor, Generation, Place, RegionIndex};
use hythe_memory::model::ModelMemory;
use hythe_memory::{Memory, Ordering};
use hythe_queue::{Consumer, Producer, QueueError, RingPlaces};
use loom::sync::Arc;
use loom::thread;

const PLACES: RingPlaces = RingPlaces {
    tail: 0,
    head: 4,
    entries: 8,
    capacity: 2,
};
/// Behind the entries: one word of payload for each of two slots.
const PAYLOAD: usize = PLACES.entries + 2 * Descriptor::BYTES;
const END: usize = PAYLOAD + 2 * 4;
/// The counters wrap on the second push.
const START: u32 = u32::MAX;

fn memory() -> Arc<ModelMemory> {
    let memory = ModelMemory::with_plain(END / 4, 0, PLACES.entries..END);
    memory.store(PLACES.tail, START, Ordering::Relaxed);
    memory.store(PLACES.head, START, Ordering::Relaxed);
    Arc::new(memory)
}

fn descriptor(number: u32) -> Descriptor {
    Descriptor {
        place: Place {
            region: RegionIndex(0),
            slot: number % 2,
        },
        generation: Generation(1 + number),
        offset: 256,
        length: 4,
    }
}

const fn payload(descriptor: Descriptor) -> usize {
    PAYLOAD + descriptor.place.slot as usize * 4
}

/// Writes a payload, then pushes. `returned`: ask for free capacity first, as the payload's slot
/// may still be in the reader's hands.
fn publish(memory: &ModelMemory, producer: &mut Producer, number: u32, returned: bool) {
    let descriptor = descriptor(number);
    while returned && producer.free_capacity(memory) == Ok(0) {
        thread::yield_now();
    }
    memory.store(payload(descriptor), 100 + number, Ordering::Relaxed);
    while producer.push(memory, descriptor) == Err(QueueError::Full) {
        thread::yield_now();
    }
}

fn consume(memory: &ModelMemory, consumer: &mut Consumer, number: u32) {
    let taken = loop {
        match consumer.peek(memory).expect("an honest producer") {
            Some(taken) => break taken,
            None => thread::yield_now(),
        }
    };
    assert_eq!(taken, descriptor(number));
    assert_eq!(memory.load(payload(taken), Ordering::Relaxed), 100 + number);
    consumer.advance(memory);
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

#[test]
fn loom_payloads_arrive_and_slots_come_back() {
    model(|| {
        let memory = memory();
        let own = Arc::clone(&memory);
        let reader = thread::spawn(move || {
            let mut consumer = Consumer::resume(PLACES, START);
            (0..3).for_each(|number| consume(&own, &mut consumer, number));
        });
        let mut producer = Producer::resume(PLACES, START, START);
        (0..3).for_each(|number| publish(&memory, &mut producer, number, true));
        reader.join().expect("reader");
    });
}

/// The push itself looks for free capacity: here the entry alone is reused, its slot is another.
#[test]
fn loom_an_entry_is_overwritten_after_it_was_read() {
    model(|| {
        let memory = memory();
        let own = Arc::clone(&memory);
        let reader = thread::spawn(move || {
            let mut consumer = Consumer::resume(PLACES, START);
            for _ in 0..3 {
                while consumer.peek(&*own).expect("an honest producer").is_none() {
                    thread::yield_now();
                }
                consumer.advance(&*own);
            }
        });
        let mut producer = Producer::resume(PLACES, START, START);
        for number in 0..3 {
            while producer.push(&*memory, descriptor(number)) == Err(QueueError::Full) {
                thread::yield_now();
            }
        }
        reader.join().expect("reader");
    });
}
