//! Index words: one for each channel, port and connection, side by side, so that a search among
//! thousands of records reads few cache lines.
//!
//! Called wherever a table is searched for records of one name, channel or port, or for a free
//! one. An index word only says which records to read; the record itself decides. A peer that
//! writes nonsense here hides records, as it can by writing into the records themselves. Never
//! read for each message.

use hythe_memory::{Memory, Ordering};

use super::Tables;
use super::channels::ChannelIndex;
use super::connections::ConnectionIndex;
use super::ports::PortIndex;

/// The index word of a free port or connection.
const FREE: u32 = 0;

/// What the index word of a record in use is: the number that it is found by, plus one.
const fn word_for(number: u32) -> u32 {
    number.wrapping_add(1)
}

impl<'c, M: Memory> Tables<'c, M> {
    /// The records whose channel had a name of this hash last, by their numbers.
    pub(crate) fn channels_by_hash(self, hash: u32) -> impl Iterator<Item = u32> + use<'c, M> {
        let (memory, layout) = (self.memory(), self.layout());
        // Relaxed, here and below: whoever needs the newest words puts a full barrier in front, or
        // has acquired what their writers released behind them.
        (0..layout.limits().channels).filter(move |&index| {
            memory.load(layout.channel_hash(index as usize), Ordering::Relaxed) == hash
        })
    }

    /// Notes the hash of a claimed channel. Stays behind the channel: clearing it could hide the
    /// channel from those that look for claims of its name.
    pub(crate) fn note_channel_hash(self, index: u32, hash: u32) {
        let at = self.layout().channel_hash(index as usize);
        self.memory().store(at, hash, Ordering::Relaxed);
    }

    /// The records that may be ports of a channel, by their numbers.
    pub(crate) fn ports_by_channel(
        self,
        channel: ChannelIndex,
    ) -> impl Iterator<Item = u32> + use<'c, M> {
        let (memory, layout) = (self.memory(), self.layout());
        let wanted = word_for(channel.0);
        (0..layout.limits().ports).filter(move |&index| {
            memory.load(layout.port_channel(index as usize), Ordering::Relaxed) == wanted
        })
    }

    /// Notes the channel of a claimed port, or that its record is about to be free.
    pub(crate) fn note_port_channel(self, index: PortIndex, channel: Option<ChannelIndex>) {
        let at = self.layout().port_channel(index.0 as usize);
        let word = channel.map_or(FREE, |channel| word_for(channel.0));
        self.memory().store(at, word, Ordering::Relaxed);
    }

    /// The records that may be connections to a port, by their numbers.
    pub(crate) fn connections_by_port(
        self,
        port: PortIndex,
    ) -> impl Iterator<Item = u32> + use<'c, M> {
        let (memory, layout) = (self.memory(), self.layout());
        let wanted = word_for(port.0);
        (0..layout.limits().connections).filter(move |&index| {
            memory.load(layout.consumer_port(index as usize), Ordering::Relaxed) == wanted
        })
    }

    /// Notes the consumer's port of a claimed connection, or that its record is about to be free.
    pub(crate) fn note_consumer_port(self, index: ConnectionIndex, port: Option<PortIndex>) {
        let at = self.layout().consumer_port(index.0 as usize);
        let word = port.map_or(FREE, |port| word_for(port.0));
        self.memory().store(at, word, Ordering::Relaxed);
    }

    /// The first port's record that `claim` takes.
    pub(crate) fn claim_port<T>(self, claim: impl FnMut(u32) -> Option<T>) -> Option<T> {
        let (memory, layout) = (self.memory(), self.layout());
        let word = |index: u32| memory.load(layout.port_channel(index as usize), Ordering::Relaxed);
        claim_first(layout.limits().ports, word, claim)
    }

    /// The first connection's record that `claim` takes.
    pub(crate) fn claim_connection<T>(self, claim: impl FnMut(u32) -> Option<T>) -> Option<T> {
        let (memory, layout) = (self.memory(), self.layout());
        let word =
            |index: u32| memory.load(layout.consumer_port(index as usize), Ordering::Relaxed);
        claim_first(layout.limits().connections, word, claim)
    }
}

/// Tries the records that index words say are free, and then all: a participant that died between
/// the index word and the state leaves a free record that is not indexed as such.
fn claim_first<T>(
    count: u32,
    word: impl Fn(u32) -> u32,
    mut claim: impl FnMut(u32) -> Option<T>,
) -> Option<T> {
    let indexed = (0..count)
        .filter(|&index| word(index) == FREE)
        .find_map(&mut claim);
    indexed.or_else(|| (0..count).find_map(claim))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scene;
    use crate::{
        ChannelType, ClassPlan, Control, Geometry, Identity, Member, MemberKind, PoolError,
        PortKind, PortPolicy,
    };
    use hythe_abi::LINE_BYTES;
    use hythe_abi::pool::Limits;
    use hythe_memory::Mapped;
    use std::cell::RefCell;
    use std::collections::HashSet;

    const POLICY: PortPolicy = PortPolicy::DropNewest;

    #[test]
    fn free_records_are_claimed_whatever_their_index_words_say() {
        let control = scene::control();
        let mut member = scene::join(&control);
        let raw = ChannelType::default();
        let channel = member.open_channel(&control, "c", &raw).expect("made");
        let tables = control.tables();
        // As left behind by a participant that died in between.
        for index in 0..scene::LIMITS.ports {
            tables.note_port_channel(PortIndex(index), Some(channel));
        }
        for index in 0..scene::LIMITS.connections {
            tables.note_consumer_port(ConnectionIndex(index), Some(PortIndex(0)));
        }
        assert_eq!(tables.ports_of_channel(channel).count(), 0);
        assert_eq!(tables.connections_to(PortIndex(0)).count(), 0);
        let mut ports = Vec::new();
        for _ in 0..scene::LIMITS.ports {
            let port = member.open_port(&control, channel, PortKind::Subscriber, 2, POLICY);
            ports.push(port.expect("a free record"));
        }
        assert_eq!(tables.ports_of_channel(channel).count(), ports.len());
        let refused = member.open_port(&control, channel, PortKind::Subscriber, 2, POLICY);
        assert!(matches!(refused, Err(PoolError::TableFull { .. })));
        let (me, port) = (member.index(), ports[0]);
        let made = member.connect(&control, port, me, port, 2).expect("free");
        assert_eq!(tables.connections_to(port).next(), Some(made));
    }

    #[test]
    fn records_are_found_by_their_index_words_until_they_are_free() {
        let control = scene::control();
        let mut member = scene::join(&control);
        let raw = ChannelType::default();
        let channel = member.open_channel(&control, "c", &raw).expect("made");
        let tables = control.tables();
        let found = tables.find_channel("c").expect("found");
        assert_eq!(found.index, channel);
        let port = member.open_port(&control, channel, PortKind::Subscriber, 2, POLICY);
        let port = port.expect("a free record");
        assert_eq!(tables.ports_by_channel(channel).count(), 1);
        let me = member.index();
        member.connect(&control, port, me, port, 2).expect("free");
        assert_eq!(tables.connections_by_port(port).count(), 1);
        scene::with_region(&control, |regions, _| {
            member.depart(&control, regions).expect("sound");
        });
        assert_eq!(tables.ports_by_channel(channel).count(), 0);
        assert_eq!(tables.connections_by_port(port).count(), 0);
        assert_eq!(tables.find_channel("c"), None);
    }

    /// Notes which cache lines are read.
    struct Noting {
        memory: Mapped,
        lines: RefCell<HashSet<usize>>,
    }

    impl Noting {
        fn note(&self, at: usize) {
            self.lines.borrow_mut().insert(at / LINE_BYTES);
        }
    }

    impl Memory for Noting {
        fn bytes(&self) -> usize {
            self.memory.bytes()
        }
        fn load(&self, at: usize, order: Ordering) -> u32 {
            self.note(at);
            self.memory.load(at, order)
        }
        fn store(&self, at: usize, value: u32, order: Ordering) {
            self.memory.store(at, value, order);
        }
        fn add(&self, at: usize, value: u32, order: Ordering) -> u32 {
            self.memory.add(at, value, order)
        }
        fn load_cell(&self, at: usize, order: Ordering) -> u64 {
            self.note(at);
            self.memory.load_cell(at, order)
        }
        fn store_cell(&self, at: usize, value: u64, order: Ordering) {
            self.memory.store_cell(at, value, order);
        }
        fn replace_cell(&self, at: usize, current: u64, new: u64) -> Result<(), u64> {
            self.note(at);
            self.memory.replace_cell(at, current, new)
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri takes minutes for thousands of records")]
    fn ports_open_and_close_without_reading_other_records() {
        let limits = Limits {
            participants: 2,
            channels: 1000,
            ports: 2000,
            connections: 2000,
            queue_segments: 2000,
            slots: 1,
        };
        let plan = [ClassPlan {
            payload_bytes: 768,
            count: 1,
        }];
        let geometry = Geometry::with_classes(limits, &plan).expect("geometry");
        let layout = geometry.layout().expect("layout");
        let memory = Mapped::anonymous(layout.bytes()).expect("memory");
        Control::create(memory.clone(), &geometry, 7).expect("control");
        let lines = RefCell::default();
        let control = Control::over(Noting { memory, lines }, layout);
        let process = Identity {
            pid: 1,
            start_time: 2,
            pid_namespace: 3,
            uid: 4,
        };
        let mut member = Member::join(&control, MemberKind::Process, process, "a").expect("free");
        let raw = ChannelType::default();
        let (me, kind) = (member.index(), PortKind::Subscriber);
        let mut last = None;
        for number in 0..999 {
            let name = format!("channel {number}");
            let channel = member.open_channel(&control, &name, &raw).expect("made");
            for _ in 0..2 {
                let port = member.open_port(&control, channel, kind, 2, POLICY);
                let port = port.expect("a free record");
                let made = member.connect(&control, port, me, port, 2);
                made.expect("a free record");
                last = Some((channel, port));
            }
        }
        let (channel, port) = last.expect("opened");
        let tables = control.tables();
        let mut read = |what: &str, step: &mut dyn FnMut(&mut Member)| {
            control.memory().lines.borrow_mut().clear();
            step(&mut member);
            let lines = control.memory().lines.borrow().len();
            // The index words of 2,000 records, and a few records.
            let most = 2000 * 4 / LINE_BYTES + 40;
            assert!(lines <= most, "{what}: {lines} lines, not {most} at most");
        };
        read("find a channel", &mut |_| {
            assert!(tables.find_channel("channel 998").is_some());
        });
        read("open a port", &mut |member| {
            let opened = member.open_port(&control, channel, kind, 2, POLICY);
            opened.expect("a free record");
        });
        read("connect", &mut |member| {
            let made = member.connect(&control, port, me, port, 2);
            made.expect("a free record");
        });
        read("find connections", &mut |_| {
            assert_eq!(tables.connections_to(port).count(), 2);
        });
        read("close a port", &mut |member| {
            member.free_port(&control, port)
        });
    }
}
