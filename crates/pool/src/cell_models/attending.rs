//! Models of a connection whose record is used again: by a maker that leaves it for both sides,
//! because the port has closed, while the consumer has just found it; while a message waits in it;
//! while somebody looks at it.
//!
//! The steps are the shipped ones: connecting, leaving, emptying, sending, taking. The queue's
//! entries count as plain memory.

use hythe_abi::Descriptor;
use hythe_abi::pool::{connection, header};

use super::oldest::{generation, message, regions};
use super::*;
use crate::{ConnectionInfo, PortIndex, QueuePlan, Side};

const MAKER: u8 = A;
const CLOSING: u8 = B;
const OTHER: u8 = LIVING;
const PORT: PortIndex = PortIndex(0);
const OTHER_PORT: PortIndex = PortIndex(1);

/// One connection record, free; the maker has two references to slot X.
fn record() -> Shared {
    let layout = ControlLayout::new(LIMITS).expect("layout");
    let at = layout.connection(0);
    let mut places = vec![eight(at + connection::STATE), eight(layout.oldest(0))];
    places.extend([connection::MISSED, connection::COUNTED].map(|cell| eight(at + cell)));
    for member in 0..LIMITS.participants as usize {
        let intent = layout.participant(member) + participant::INTENT;
        places.push(intent..intent + INTENT_BYTES);
        places.push(eight(layout.hold(member, X.0 as usize)));
    }
    places.push(eight(layout.slot_cell(X.0 as usize)));
    // High-water marks of connections and queue segments.
    places.extend([3, 4].map(|table| eight(header::HIGH_WATER + table * 8)));
    let cells: usize = places.iter().map(Range::len).sum();
    places.push(at + connection::PRODUCER_PORT..at + connection::EVICTS_OLDEST + 8);
    places.extend([connection::TAIL, connection::HEAD].map(|word| eight(at + word)));
    for member in 0..LIMITS.participants as usize {
        places.push(eight(layout.participant(member) + participant::CHANGES));
    }
    places.push(layout.gap(0)..layout.gap(0) + 4 * 4);
    places.push(eight(layout.consumer_port(0)));
    let entries: usize = places.iter().map(Range::len).sum();
    let queue_segment = layout.queue_segment(0);
    places.push(queue_segment..queue_segment + 2 * Descriptor::BYTES);
    let bytes: usize = places.iter().map(Range::len).sum();
    let memory = ModelMemory::with_plain(bytes / 4, cells / 8, entries..bytes);
    let control = Arc::new(Control::over(Packed { memory, places }, layout));
    let counted = |count, upper| Counted {
        count,
        by: 0,
        sequence: 0,
        upper,
    };
    stand(&control, X, counted(2, generation(X).0));
    control
        .ledger()
        .set_hold(MemberIndex(MAKER), X, counted(2, 0));
    control
}

fn connect(control: &Shared, consumer: u8) -> ConnectionInfo {
    let made = member(MAKER).connect(&**control, PORT, MemberIndex(consumer), PORT, 2);
    made.expect("a free record")
}

#[test]
fn loom_a_connection_left_for_both_sides_is_touched_by_nobody() {
    for found in [false, true] {
        model(move || leave_and_use_again(found));
    }
}

/// `found`: the consumer attends to the connection before its maker leaves; else at the same time.
fn leave_and_use_again(found: bool) {
    let control = record();
    let first = connect(&control, CLOSING);
    assert!(!found || member(CLOSING).attend(&*control, &first));
    let own = Arc::clone(&control);
    let closing = thread::spawn(move || {
        let mut me = member(CLOSING);
        me.drain_own(&*own, &regions(), first).expect("sound");
        let (index, nonce) = (first.index, first.nonce);
        me.leave_connection(&*own, &regions(), index, nonce, Side::Consumer)
            .expect("sound");
    });
    let mut maker = member(MAKER);
    maker
        .leave_unattended(&*control, &regions(), &first)
        .expect("sound");
    // If the consumer attends to it, it is free when that one has left.
    let next = maker.connect(&*control, PORT, MemberIndex(OTHER), PORT, 2);
    if let Ok(next) = next {
        send(&control, next);
    }
    closing.join().expect("closing");
    let next = next.unwrap_or_else(|_| {
        let next = connect(&control, OTHER);
        send(&control, next);
        next
    });
    let mut end = control.tables().consumer_end(next);
    let taken = member(OTHER).take(&*control, &regions(), &mut end);
    let taken = taken.expect("sound").expect("it was sent");
    assert_eq!(taken.descriptor, message(0).1);
    assert_eq!(control.ledger().slot(X).0, 2);
}

/// What is sent through it arrives where it should.
fn send(control: &Shared, info: ConnectionInfo) {
    let (slot, descriptor) = message(0);
    let mut end = control.tables().producer_end(info);
    member(MAKER)
        .send(&**control, &mut end, slot, descriptor)
        .expect("room");
}

/// Both leave while a message waits: whoever frees the record has read it by then.
#[test]
fn loom_what_waits_is_read_before_the_record_is_used_again() {
    model(|| {
        let control = record();
        let first = connect(&control, CLOSING);
        send(&control, first);
        let own = Arc::clone(&control);
        let closing = thread::spawn(move || {
            let mut me = member(CLOSING);
            me.drain_own(&*own, &regions(), first).expect("sound");
            let (index, nonce) = (first.index, first.nonce);
            me.leave_connection(&*own, &regions(), index, nonce, Side::Consumer)
                .expect("sound");
        });
        let mut maker = member(MAKER);
        let (index, nonce) = (first.index, first.nonce);
        maker
            .leave_connection(&*control, &regions(), index, nonce, Side::Producer)
            .expect("sound");
        let next = maker.connect(&*control, PORT, MemberIndex(OTHER), PORT, 2);
        if let Ok(next) = next {
            send(&control, next);
        }
        closing.join().expect("closing");
        assert_eq!(
            control.ledger().slot(X).0,
            1,
            "what waited was released once"
        );
    });
}

/// Somebody looks at the record while its connection ends and the next is made: it sees one of
/// them, whole, or neither.
#[test]
fn loom_a_record_that_is_made_anew_is_seen_whole_or_not_at_all() {
    model(|| {
        let control = record();
        let first = connect(&control, CLOSING);
        send(&control, first);
        let mut end = control.tables().consumer_end(first);
        let taken = member(CLOSING).take(&*control, &regions(), &mut end);
        taken.expect("sound").expect("it was sent");
        let own = Arc::clone(&control);
        let looking = thread::spawn(move || {
            let found = own.tables().connection(first.index)?;
            Some((found, own.tables().consumer_end(found).queue.head()))
        });
        let mut maker = member(MAKER);
        maker
            .leave_unattended(&*control, &regions(), &first)
            .expect("sound");
        let plan = QueuePlan {
            capacity: 4,
            evicts_oldest: false,
        };
        let next = maker.connect(&*control, OTHER_PORT, MemberIndex(OTHER), OTHER_PORT, plan);
        let next = next.expect("it was freed");
        let Some((found, head)) = looking.join().expect("looking") else {
            return;
        };
        if found.nonce == next.nonce {
            assert_eq!((found, head), (next, 0));
        } else {
            let left = (found.producer_left, found.consumer_left);
            let before = ConnectionInfo {
                producer_left: left.0,
                consumer_left: left.1,
                ..first
            };
            assert_eq!(found, before);
        }
    });
}

/// A producer that goes on with an end made anew overwrites only what was read.
#[test]
fn loom_an_end_made_anew_overwrites_only_what_was_read() {
    model(|| {
        let control = record();
        let info = connect(&control, OTHER);
        for _ in 0..2 {
            send(&control, info);
        }
        let own = Arc::clone(&control);
        // Made here: loom turns two accesses round only if none of the same thread to the same word
        // stands between them.
        let mut end = control.tables().consumer_end(info);
        let taking = thread::spawn(move || {
            let taken = member(OTHER).take(&*own, &regions(), &mut end);
            assert_eq!(
                taken.expect("sound").expect("two wait").descriptor,
                message(0).1
            );
        });
        // Full, or no longer full by now.
        let mut end = control.tables().producer_end(info);
        let _ = end.queue.push(control.memory(), message(0).1);
        taking.join().expect("taking");
    });
}
