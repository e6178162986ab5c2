//! A core that lies in what it asks: the core is stopped, and the test writes requests into its
//! queue as it would. A server takes none that is not one, counts each, and has lost no slot.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::support::link_memory::{LinkMemory, slots};
use crate::support::{LONG, World, board, eventually, signal, start};
use hythe_abi::link::{ENTRY_BYTES, Entry, Flow, LinkLayout, flow_line};
use hythe_abi::request::{Header, MessageKind};
use hythe_abi::{Descriptor, DescriptorMark};
use hythe_memory::{Mapped, Memory, Ordering};
use hythe_node::{Pool, RegionIndex, Server, ServerOptions};
use hythe_rtcore::{ViolatedWord, Violation, control};
use rustix::process::Signal;

const QUERY: usize = 7;
const LARGEST: u32 = 64 << 10;
/// Between a session that the core broke and the next.
const SESSION_PAUSE: Duration = Duration::from_millis(20);

/// The core's side of port 0 of `query`.
struct Impostor {
    link: Mapped,
    layout: LinkLayout,
    slots: Mapped,
    pool: Pool,
    region: RegionIndex,
    flow: Flow,
}

impl Impostor {
    fn new(pool: &Pool, region: RegionIndex) -> Self {
        let LinkMemory { words, layout } = LinkMemory::of(pool, region);
        Self {
            link: words,
            layout,
            slots: slots(pool, region),
            pool: pool.clone(),
            region,
            flow: Flow {
                endpoint: QUERY,
                port: 0,
            },
        }
    }

    fn at(&self, entries: usize, number: u32) -> usize {
        entries + number as usize % self.layout.capacity() * ENTRY_BYTES
    }

    /// The next entry of Linux.
    fn take(&self) -> Entry {
        let tail = self.layout.linux_flow(self.flow) + flow_line::TAIL;
        let head = self.layout.core_flow(self.flow) + flow_line::HEAD;
        let number = self.link.load(head, Ordering::Relaxed);
        assert_ne!(self.link.load(tail, Ordering::Acquire), number, "nothing");
        let at = self.at(self.layout.linux_entries(self.flow), number);
        let words = std::array::from_fn(|word| self.link.load(at + 4 * word, Ordering::Relaxed));
        self.link
            .store(head, number.wrapping_add(1), Ordering::Release);
        Entry::from_words(words)
    }

    fn push(&self, entry: Entry) {
        let tail = self.layout.core_flow(self.flow) + flow_line::TAIL;
        let number = self.link.load(tail, Ordering::Relaxed);
        let at = self.at(self.layout.core_entries(self.flow), number);
        for (word, value) in entry.to_words().into_iter().enumerate() {
            self.link.store(at + 4 * word, value, Ordering::Relaxed);
        }
        self.link
            .store(tail, number.wrapping_add(1), Ordering::Release);
    }

    /// Answers the session that Linux has begun, with a tail that is out of range. Returns it.
    fn break_session(&self) -> Option<u32> {
        let (ours, theirs) = (
            self.layout.core_flow(self.flow),
            self.layout.linux_flow(self.flow),
        );
        let load = |at| self.link.load(at, Ordering::Acquire);
        let store = |at, value| self.link.store(at, value, Ordering::Release);
        let session = load(theirs + flow_line::SESSION);
        store(ours + flow_line::HEAD, load(theirs + flow_line::START));
        store(ours + flow_line::START, 0);
        store(ours + flow_line::TAIL, u32::MAX);
        store(ours + flow_line::SESSION, session);
        (session != 0).then_some(session)
    }

    /// Makes a request of an empty slot. Its header has this number.
    fn request(&self, empty: Entry, tag: u64, number: u64) -> Entry {
        let geometry = self.pool.region(self.region).expect("region");
        let slot = geometry.slot_offset(empty.descriptor.place.slot);
        let header = Header {
            kind: MessageKind::Request,
            number,
        };
        self.slots.write(slot.expect("a slot"), &header.to_bytes());
        let descriptor = Descriptor {
            length: 4,
            ..empty.descriptor
        };
        Entry {
            descriptor,
            tag,
            ..empty
        }
    }
}

/// The server does not take it, and has counted one more violation.
fn is_refused(server: &mut Server, what: &str) {
    let before = server.statistics().violations;
    let request = server.try_take().expect("no damage");
    assert!(request.is_none(), "{what}");
    assert_eq!(server.statistics().violations, before + 1, "{what}");
}

#[test]
fn what_is_no_request_is_counted_and_loses_no_slot() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let core = start(&world, &board);
    let node = hythe_rtcore::join(&world.pool, "server").expect("joins");
    let options = ServerOptions::default().depth(8);
    let mut server = node.server("query", &options).expect("a server");
    signal(core.status().pid, Signal::STOP);
    let impostor = Impostor::new(&world.pool, core.region());

    let good = impostor.request(impostor.take(), 11, 11);
    impostor.push(good);
    let open = server.take(LONG).expect("sound").expect("a request");
    let with = |what: &str, server: &mut Server, change: &dyn Fn(&mut Entry)| {
        let mut entry = impostor.request(impostor.take(), 12, 12);
        change(&mut entry);
        impostor.push(entry);
        is_refused(server, what);
    };
    with("no number", &mut server, &|entry| entry.tag = 0);
    with("a number that is open", &mut server, &|entry| {
        entry.tag = 11
    });
    with("too long", &mut server, &|entry| {
        entry.descriptor.length = LARGEST + 1;
    });
    with("no header", &mut server, &|entry| {
        let geometry = impostor.pool.region(impostor.region).expect("region");
        let slot = geometry.slot_offset(entry.descriptor.place.slot);
        impostor.slots.write(slot.expect("a slot"), &[0; 16]);
        entry.tag = 13;
    });
    // What is not given back stays with the core: the window shrinks, and all of it comes back at
    // the end.
    with("another row", &mut server, &|entry| entry.account += 1);
    with("references", &mut server, &|entry| entry.references = 2);
    // Its number is another than it says.
    let confused = impostor.request(impostor.take(), 14, 15);
    impostor.push(confused);
    let request = server.take(LONG).expect("sound").expect("a request");
    assert!(!request.reply_in_kind().expect("no damage"));
    // A slot that the core does not have, and a credit.
    impostor.push(confused);
    is_refused(&mut server, "given back twice");
    let mut credit = good;
    credit.descriptor.length = u32::MAX;
    assert_eq!(credit.descriptor.mark(), Some(DescriptorMark::Credit));
    impostor.push(credit);
    is_refused(&mut server, "a credit");
    assert_eq!(world.pool.snapshot().audit.mismatches, []);
    // In the row of the core, too: all but the header, which only the server looks at.
    let counted = control::status(&world.pool, board.name()).expect("its agent lives");
    let last = Violation::last_of(&counted.counters).expect("counted");
    assert_eq!(
        (counted.counters.violations, last.word),
        (7, ViolatedWord::Entry)
    );

    // The one that is good is answered still: with its number, in its slot.
    assert!(open.reply_in_kind().expect("no damage"));
    eventually("a reply", || impostor.take().tag == 11);
    drop((server, node));
    // It is stopped, and so has to be ended.
    let _ = core.stop();
    world.assert_clean();
}

#[test]
fn core_that_breaks_each_session_gets_another_one_now_and_then() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let core = start(&world, &board);
    let node = hythe_rtcore::join(&world.pool, "server").expect("joins");
    let mut server = node
        .server("query", &ServerOptions::default())
        .expect("a server");
    signal(core.status().pid, Signal::STOP);
    let impostor = Impostor::new(&world.pool, core.region());
    let (start, mut sessions) = (Instant::now(), BTreeSet::new());
    eventually("ten sessions", || {
        for _ in 0..1000 {
            sessions.extend(impostor.break_session());
            assert!(server.try_take().expect("no damage").is_none());
        }
        sessions.len() >= 10
    });
    // The one that was broken first was there before.
    let pauses = sessions.len() as u32 - 1;
    let took = start.elapsed();
    assert!(
        took >= pauses * SESSION_PAUSE,
        "{pauses} more in {took:?}: as many as the core likes"
    );
    drop((server, node));
    // It is stopped, and so has to be ended.
    let _ = core.stop();
    world.assert_clean();
}
