//! Model of a connection to a port that closes meanwhile: its maker leaves it for both sides and uses the record again, while the
//! consumer has just found it.
//!
//! The steps are the shipped ones: connecting, leaving, emptying, sending, taking.

use hythe_abi::Descriptor;
use hythe_abi::pool::{connection, header};

use super::oldest::{generation, message, regions};
use super::*;
use crate::connections::{ConnectionInfo, Side};
use crate::ports::PortIndex;

const MAKER: u8 = A;
const CLOSING: u8 = B;
const OTHER: u8 = LIVING;
const PORT: PortIndex = PortIndex(0);

/// One connection record, free; the maker has two references to slot X.
fn record() -> Shared {
    let layout = ControlLayout::new(LIMITS).expect("layout");
    let at = layout.connection(0);
    let mut places = vec![eight(at + connection::STATE), eight(layout.oldest(0))];
    for member in 0..LIMITS.participants as usize {
        let intent = layout.participant(member) + participant::INTENT;
        places.push(intent..intent + INTENT_BYTES);
        places.push(eight(layout.hold(member, X.0 as usize)));
    }
    places.push(eight(layout.slot_cell(X.0 as usize)));
    // High-water marks of connections and granules.
    places.extend([3, 4].map(|table| eight(header::HIGH_WATER + table * 8)));
    let cells: usize = places.iter().map(Range::len).sum();
    places.push(at + connection::PRODUCER_PORT..at + connection::DROPS_OLDEST + 8);
    places.extend([connection::TAIL, connection::HEAD].map(|word| eight(at + word)));
    let granule = layout.granule(0);
    places.push(granule..granule + 2 * Descriptor::BYTES);
    for member in 0..LIMITS.participants as usize {
        places.push(eight(layout.participant(member) + participant::CHANGES));
    }
    let bytes: usize = places.iter().map(Range::len).sum();
    let memory = ModelMemory::new(bytes / 4, cells / 8);
    let control = Arc::new(Control::over(Packed { memory, places }, layout));
    let counted = |count, upper| Counted {
        count,
        by: 0,
        sequence: 0,
        upper,
    };
    stand(&control, X, counted(2, generation(X).0));
    set_hold(&control, MAKER, X, counted(2, 0));
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
    let mut end = control.consumer_end(next);
    let taken = member(OTHER).take(&*control, &regions(), &mut end);
    let taken = taken.expect("sound").expect("it was sent");
    assert_eq!(taken.descriptor, message(0).1);
    assert_eq!(control.slot(X).0, 2);
}

/// What is sent through it arrives where it should.
fn send(control: &Shared, info: ConnectionInfo) {
    let (slot, descriptor) = message(0);
    let mut end = control.producer_end(info);
    member(MAKER)
        .send(&**control, &mut end, slot, descriptor)
        .expect("room");
}
