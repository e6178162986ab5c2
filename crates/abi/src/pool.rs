//! The control file of a pool (`spec/pool.md`): tables, cells, and where they stand.

use crate::{Descriptor, LINE_BYTES, PAGE_BYTES, round_up};

/// First eight bytes of a control file: "HYTHEPL" and a one.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HYTHEPL\x01");
/// Version of this layout.
pub const VERSION: u32 = 4;
/// Bytes of a name in any table, zero padded.
pub const NAME_BYTES: usize = 64;
/// Most regions of one pool.
pub const REGIONS_MAX: usize = 8;
/// Most slot classes of one region.
pub const CLASSES_MAX: usize = 8;
/// Descriptors in one queue segment of the queue arena.
pub const QUEUE_SEGMENT_DESCRIPTORS: usize = 32;
/// Most participants of one pool: their number has 8 bits in a cell, and 255 means nobody.
pub const PARTICIPANTS_MAX: u32 = 254;
/// "Nobody" where a participant's number is expected.
pub const NOBODY: u8 = 255;
/// Most references to one slot at a time (12 bits).
pub const REFERENCES_MAX: u32 = 4095;
/// Events of one channel: as many bits of a listener's cell; the rest say which opening of the port
/// they are for.
pub const EVENTS_MAX: u32 = 40;
/// Most participants at once on one endpoint of a core.
pub const CORE_PORTS_MAX: usize = 8;
/// Milliseconds in one unit of a hold word's `since`.
pub const SINCE_UNIT_MS: u64 = 128;

/// Offsets in the header (the first page of the control file).
pub mod header {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/pool.md"
    )]
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    /// 0: being made; 1: ready. Written last, with release.
    pub const READY: usize = 12;
    pub const POOL_ID: usize = 16;
    pub const CONTROL_BYTES: usize = 24;
    pub const PARTICIPANTS: usize = 32;
    pub const CHANNELS: usize = 36;
    pub const PORTS: usize = 40;
    pub const CONNECTIONS: usize = 44;
    pub const QUEUE_SEGMENTS: usize = 48;
    pub const SLOTS: usize = 52;
    pub const LINE_BYTES: usize = 56;
    /// Raised by one for each session handed out.
    pub const NEXT_SESSION: usize = 128;
    /// Raised by one each time a participant joins or leaves.
    pub const MEMBERSHIP: usize = 192;
    /// What participants do with memory when they map it: bit 0 touch every page, bit 1 lock it.
    pub const PREFAULT: usize = 256;
    /// High-water marks, see [`super::high_water`].
    pub const HIGH_WATER: usize = 3072;
}

/// Offsets of the high-water marks, counted from `header::HIGH_WATER`. Cells, at `8 i` those of
/// participants, channels, ports, connections and queue segments; at `REGIONS + REGION_BYTES r + 8
/// c` that of class c of region r.
pub mod high_water {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/pool.md"
    )]
    pub const REGIONS: usize = 64;
    pub const REGION_BYTES: usize = 64;
}

/// Offsets in a region record.
pub mod region {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/pool.md"
    )]
    pub const BYTES: usize = 512;
    /// Cell: status in bits 0..7, claiming participant in bits 8..15.
    pub const STATE: usize = 0;
    pub const REGION_BYTES: usize = 8;
    /// 0 memory of Linux, 1 memory shared with a core.
    pub const KIND: usize = 16;
    pub const CLASSES: usize = 20;
    /// The ledger's index of the region's slot 0.
    pub const LEDGER_BASE: usize = 24;
    pub const SLOTS: usize = 28;
    /// Size of the core link that belongs to the region; 0: none.
    pub const LINK_BYTES: usize = 32;
    /// Where the link stands in the region's file; 0: in a file of its own, `link.N`.
    pub const LINK_OFFSET: usize = 40;
    /// Where the segments stand in the region's file.
    pub const SEGMENTS_OFFSET: usize = 48;
    /// Size of the area of the segments; 0: none.
    pub const SEGMENTS_BYTES: usize = 56;
    pub const NAME: usize = 64;
    pub const CLASS_TABLE: usize = 128;
    pub const CLASS_BYTES: usize = 32;
    pub const CLASS_SLOT_BYTES: usize = 0;
    pub const CLASS_COUNT: usize = 4;
    pub const CLASS_FIRST: usize = 8;
    pub const CLASS_OFFSET: usize = 16;
}

/// Offsets in a participant record.
pub mod participant {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/pool.md"
    )]
    pub const BYTES: usize = 512;
    /// Cell: process id in bits 0..31, status in 32..39, session in 40..63.
    pub const STATE: usize = 0;
    pub const START_TIME: usize = 8;
    pub const PID_NAMESPACE: usize = 16;
    /// 0 a process, 1 an endpoint of a core, and so on (spec/pool.md).
    pub const KIND: usize = 24;
    pub const UID: usize = 28;
    /// Cell: recovering participant's number plus one in bits 0..7, its session in 40..63; 0
    /// nobody.
    pub const RECOVERER: usize = 32;
    pub const NAME: usize = 64;
    pub const BELL_COUNT: usize = 128;
    pub const BELL_SLEEPERS: usize = 132;
    /// Raised by one when a connection to or from this participant changes.
    pub const CHANGES: usize = 192;
    pub const INTENT: usize = 256;
    /// Cell: the CPUs that it may run on, bit `cpu % 64` each; 0 not known. Written by its owner
    /// only.
    pub const CPUS: usize = 320;
    /// Of the agent of hosts: questions whether it has seen a port that has opened. Raised by one
    /// by whoever asks.
    pub const ASKED: usize = 328;
    /// How many of them it has answered: written by it only.
    pub const ANSWERED: usize = 332;
    /// From here on, cells of the rows of a core: counted since the row was made, by whoever is
    /// attached at that port, and by the agent in the row of the core as a whole.
    pub const CORE_VIOLATIONS: usize = 384;
    pub const CORE_FULL: usize = 392;
    pub const CORE_NO_SLOT: usize = 400;
    pub const CORE_LOST: usize = 408;
    pub const CORE_RINGS_IGNORED: usize = 416;
    pub const CORE_RENEWALS: usize = 424;
    /// Cell: number of the word that was impossible last 0..31 (`spec/link.md`), what stood there
    /// 32..63.
    pub const CORE_LAST_VIOLATION: usize = 432;
}

/// Offsets in an intent, counted from `participant::INTENT`.
pub mod intent {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/pool.md"
    )]
    /// What is being done; 0: nothing.
    pub const OPERATION: usize = 0;
    /// Number of the last step that this participant began; the low 19 bits, never 0, are in its
    /// mark in a cell.
    pub const SEQUENCE: usize = 4;
    pub const SLOT: usize = 8;
    pub const COUNT: usize = 12;
    pub const BEFORE: usize = 16;
    pub const CONNECTION: usize = 24;
    pub const POSITION: usize = 28;
    pub const ROW: usize = 32;
}

/// Offsets in a channel record.
pub mod channel {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/pool.md"
    )]
    pub const BYTES: usize = 256;
    /// Cell: status 0..7, claiming participant 8..15, hash of the name 32..63.
    pub const STATE: usize = 0;
    pub const TYPE_BYTES: usize = 8;
    pub const TYPE_ALIGN: usize = 12;
    /// Region of a core that the channel ends on, plus one; 0: none.
    pub const CORE_REGION: usize = 16;
    /// Endpoint of that core, and which way (1 to core, 2 from core).
    pub const CORE_ENDPOINT: usize = 20;
    pub const CORE_DIRECTION: usize = 24;
    /// The endpoint's participant number. Stays when the core goes; [`NOBODY`](super::NOBODY) in a
    /// new channel.
    pub const CORE_ROW: usize = 28;
    /// One cell for each port of the core's endpoint, see [`attached`]: the participant attached to
    /// it, plus one, in 0..7; the port's row, plus one, in 8..15, 0 while it is looked for; 16 it
    /// is being let go, and counts for nobody; the participant's session in 40..63; 0 nobody.
    const ATTACHED: usize = 32;
    /// The participant that runs the core (its agent).
    pub const CORE_AGENT: usize = 40;
    /// 0 publish/subscribe, 1 request/reply, 2 event.
    pub const KIND: usize = 44;
    pub const TYPE_VERSION: usize = 48;
    /// Raised by one when the channel's ports or its core change.
    pub const EPOCH: usize = 64;
    pub const NAME: usize = 128;
    pub const TYPE_NAME: usize = 192;

    /// The cell of a port of the core's endpoint: the first beside what names the core, the others
    /// behind the epoch.
    #[must_use]
    pub const fn attached(port: usize) -> usize {
        assert!(
            port < super::CORE_PORTS_MAX,
            "one of the ports of an endpoint"
        );
        if port == 0 {
            ATTACHED
        } else {
            EPOCH + 8 * port
        }
    }
}

/// Offsets in a port record.
pub mod port {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/pool.md"
    )]
    pub const BYTES: usize = 128;
    /// Cell: status 0..7, participant 8..15, kind 16..23 (1 publisher, 2 subscriber, 3 client, 4
    /// server, 5 notifier, 6 listener), session 40..63.
    pub const STATE: usize = 0;
    pub const CHANNEL: usize = 8;
    pub const DEPTH: usize = 12;
    /// 0 drop the newest; [`EVICT_OLDEST`]; otherwise block, for at most this many milliseconds.
    pub const BLOCK_MS: usize = 16;
    /// In `BLOCK_MS`: the oldest is dropped.
    pub const EVICT_OLDEST: u32 = u32::MAX;
    /// How many earlier messages a subscriber wants of each publisher.
    pub const HISTORY: usize = 20;
    /// What its owner wants of those who send to it: bit 0 ([`MARKS_WANTED`]), a mark for each
    /// message; bit 1 ([`NOBODY_NEW`]), no connection beside those that there are.
    pub const FLAGS: usize = 24;
    /// Cell of a listener: events 0..39, which opening of the port 40..63.
    pub const EVENTS: usize = 32;
    /// Written by the port's owner only.
    pub const MESSAGES: usize = 64;
    pub const PAYLOAD_BYTES: usize = 72;
    pub const DROPPED: usize = 80;
    pub const VIOLATIONS: usize = 88;
    pub const COPIES: usize = 96;
    pub const COPIED_BYTES: usize = 104;
    /// Bit of [`FLAGS`]: the port's owner waits for it together with others.
    pub const MARKS_WANTED: u32 = 1;
    /// Bit of [`FLAGS`]: the port's owner closes it unless somebody is connected.
    pub const NOBODY_NEW: u32 = 2;
}

/// Offsets in a connection record.
pub mod connection {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/pool.md"
    )]
    pub const BYTES: usize = 256;
    /// Cell: status 0..7, producer 8..15, consumer 16..23, who left 24..31 (bit 0 producer, bit 1
    /// consumer; bit 2: the consumer attends to it), finalizer 32..39, nonce 40..63.
    pub const STATE: usize = 0;
    pub const PRODUCER_PORT: usize = 8;
    pub const CONSUMER_PORT: usize = 12;
    pub const QUEUE_SEGMENT: usize = 16;
    pub const CAPACITY: usize = 20;
    /// 0: the head is the consumer's word `HEAD`; 1: it is the cell `OLDEST`.
    pub const EVICTS_OLDEST: usize = 24;
    /// 0: the producer is of this host. Else it stands for another one: [`STANDS_FOR_HOST`], and
    /// its session in bits 0..23.
    pub const PRODUCER_HOST: usize = 28;
    pub const STANDS_FOR_HOST: u32 = 1 << 31;
    /// Cell: messages of the producer that did not reach the consumer: dropped, evicted, or lost
    /// before they came to this pool. Written by the producer, in a line that is rarely written.
    pub const MISSED: usize = 32;
    /// Written by the producer.
    pub const TAIL: usize = 64;
    /// Written by the consumer.
    pub const HEAD: usize = 128;
    /// Cell: how many of `MISSED` the consumer's port has counted. Written by the consumer.
    pub const COUNTED: usize = 136;
    /// Counted cell: the head of a queue that evicts the oldest, which either side moves. Its upper
    /// bits are the low 24 bits of the head, its count the 8 bits above them.
    pub const OLDEST: usize = 192;
}

/// How many of each a pool has. Limits of tables, not products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Processes and core endpoints, at most [`PARTICIPANTS_MAX`].
    pub participants: u32,
    /// Named channels.
    pub channels: u32,
    /// Publishers and subscribers together.
    pub ports: u32,
    /// Pairs of a publisher and a subscriber.
    pub connections: u32,
    /// Queue segments of [`QUEUE_SEGMENT_DESCRIPTORS`] descriptors for the queues of all
    /// connections.
    pub queue_segments: u32,
    /// Slots of all regions together, those of later regions included.
    pub slots: u32,
}

/// Where each table of a control file stands. Every offset is from the start of the file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlLayout {
    limits: Limits,
    participants: usize,
    witnesses: usize,
    channels: usize,
    ports: usize,
    connections: usize,
    queue_segment_owners: usize,
    channel_hashes: usize,
    port_channels: usize,
    consumer_ports: usize,
    marks: usize,
    ledger: usize,
    holds: usize,
    /// From one participant's hold records to the next's.
    hold_stride: usize,
    arena: usize,
    gaps: usize,
    end: usize,
}

impl ControlLayout {
    /// Lays out the tables; `None` if a limit is zero, too large, or the sum does not fit the
    /// addresses of this program.
    #[must_use]
    pub const fn new(limits: Limits) -> Option<Self> {
        if limits.participants == 0 || limits.participants > PARTICIPANTS_MAX {
            return None;
        }
        if limits.channels == 0 || limits.ports == 0 || limits.connections == 0 {
            return None;
        }
        if limits.queue_segments == 0 || limits.slots == 0 || limits.slots > crate::Place::SLOT_MAX
        {
            return None;
        }
        // 2^20 of anything else is far past use and keeps every sum in `lay_out` inside 64 bits.
        if limits.channels > 1 << 20 || limits.ports > 1 << 20 {
            return None;
        }
        if limits.connections > 1 << 20 || limits.queue_segments > 1 << 20 {
            return None;
        }
        Self::lay_out(limits)
    }

    /// In 64 bits also where `usize` has 32: a pool that a larger machine can use must be refused
    /// there, not laid out wrongly.
    const fn lay_out(limits: Limits) -> Option<Self> {
        let participants = (PAGE_BYTES + REGIONS_MAX * region::BYTES) as u64;
        let witnesses = participants + table(limits.participants, participant::BYTES);
        let channels = page(witnesses + table(limits.participants, witness_stride(limits)));
        let ports = channels + table(limits.channels, channel::BYTES);
        let connections = ports + table(limits.ports, port::BYTES);
        let queue_segment_owners = connections + table(limits.connections, connection::BYTES);
        let channel_hashes = lines(queue_segment_owners + table(limits.queue_segments, 8));
        let port_channels = lines(channel_hashes + table(limits.channels, 4));
        let consumer_ports = lines(port_channels + table(limits.ports, 4));
        let marks = lines(consumer_ports + table(limits.connections, 4));
        let ledger = page(marks + table(limits.participants, mark_stride(limits)));
        let holds = page(ledger + table(limits.slots, LINE_BYTES));
        let arena = page(holds + table(limits.participants, hold_stride(limits)));
        let gaps = arena
            + table(
                limits.queue_segments,
                QUEUE_SEGMENT_DESCRIPTORS * Descriptor::BYTES,
            );
        let end = page(gaps + table(limits.queue_segments, QUEUE_SEGMENT_DESCRIPTORS * 4));
        if end > isize::MAX as u64 {
            return None;
        }
        // No offset is larger than the end.
        Some(Self {
            limits,
            participants: participants as usize,
            witnesses: witnesses as usize,
            channels: channels as usize,
            ports: ports as usize,
            connections: connections as usize,
            queue_segment_owners: queue_segment_owners as usize,
            channel_hashes: channel_hashes as usize,
            port_channels: port_channels as usize,
            consumer_ports: consumer_ports as usize,
            marks: marks as usize,
            ledger: ledger as usize,
            holds: holds as usize,
            hold_stride: hold_stride(limits),
            arena: arena as usize,
            gaps: gaps as usize,
            end: end as usize,
        })
    }

    /// The limits this was laid out for.
    #[must_use]
    #[inline]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Size of the control file.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.end
    }

    /// Each part of the sum with its size, in the order of the file.
    #[must_use]
    pub const fn terms(&self) -> [(&'static str, usize); 10] {
        [
            ("header and regions", self.participants),
            ("participants", self.channels - self.participants),
            ("channels", self.ports - self.channels),
            ("ports", self.connections - self.ports),
            ("connections", self.channel_hashes - self.connections),
            ("indexes", self.marks - self.channel_hashes),
            ("marks", self.ledger - self.marks),
            ("ledger", self.holds - self.ledger),
            ("hold records", self.arena - self.holds),
            ("queues", self.end - self.arena),
        ]
    }

    /// Record of a region.
    #[must_use]
    pub const fn region(&self, index: usize) -> usize {
        PAGE_BYTES + index * region::BYTES
    }

    /// Record of a participant.
    #[must_use]
    #[inline]
    pub const fn participant(&self, index: usize) -> usize {
        self.participants + index * participant::BYTES
    }

    /// The word in which `witness` notes the last operation of `actor` that it has seen in a cell.
    /// Each witness writes its own lines.
    #[must_use]
    #[inline]
    pub const fn witness(&self, witness: usize, actor: usize) -> usize {
        self.witnesses + witness * witness_stride(self.limits) + actor * 4
    }

    /// Record of a channel.
    #[must_use]
    #[inline]
    pub const fn channel(&self, index: usize) -> usize {
        self.channels + index * channel::BYTES
    }

    /// Record of a port.
    #[must_use]
    #[inline]
    pub const fn port(&self, index: usize) -> usize {
        self.ports + index * port::BYTES
    }

    /// Record of a connection.
    #[must_use]
    #[inline]
    pub const fn connection(&self, index: usize) -> usize {
        self.connections + index * connection::BYTES
    }

    /// The head cell of a connection's queue that evicts the oldest.
    #[must_use]
    pub const fn oldest(&self, connection: usize) -> usize {
        self.connection(connection) + connection::OLDEST
    }

    /// The first queue segment that belongs to no connection by number: queue segments below have
    /// the number of their connection.
    #[must_use]
    pub const fn first_deep_queue_segment(&self) -> u32 {
        if self.limits.queue_segments < self.limits.connections {
            self.limits.queue_segments
        } else {
            self.limits.connections
        }
    }

    /// Cell naming the connection that owns a queue segment, plus one; 0: free.
    #[must_use]
    #[inline]
    pub const fn queue_segment_owner(&self, queue_segment: usize) -> usize {
        self.queue_segment_owners + queue_segment * 8
    }

    /// Index word of a channel: the hash of its name, also in its state. The words of all records
    /// of a table stand side by side: searching them reads a sixteenth of the lines at most.
    #[must_use]
    #[inline]
    pub const fn channel_hash(&self, channel: usize) -> usize {
        self.channel_hashes + channel * 4
    }

    /// Index word of a port: its channel's number, plus one; 0: the record is free.
    #[must_use]
    #[inline]
    pub const fn port_channel(&self, port: usize) -> usize {
        self.port_channels + port * 4
    }

    /// Index word of a connection: its consumer's port, plus one; 0: the record is free.
    #[must_use]
    #[inline]
    pub const fn consumer_port(&self, connection: usize) -> usize {
        self.consumer_ports + connection * 4
    }

    /// Summary of a participant's marks: bit b says that one of its cells `b * span` to `b * span +
    /// span - 1` may hold a mark, where `span` is [`mark_span`](Self::mark_span).
    #[must_use]
    pub const fn mark_summary(&self, participant: usize) -> usize {
        self.marks + participant * mark_stride(self.limits)
    }

    /// A cell of a participant's marks: bit b stands for port `64 * cell + b`.
    #[must_use]
    pub const fn mark_cell(&self, participant: usize, cell: usize) -> usize {
        self.mark_summary(participant) + LINE_BYTES + cell * 8
    }

    /// How many cells of marks a participant has.
    #[must_use]
    pub const fn mark_cells(&self) -> usize {
        mark_cells(self.limits)
    }

    /// How many of them share one bit of the summary.
    #[must_use]
    pub const fn mark_span(&self) -> usize {
        self.mark_cells().div_ceil(64)
    }

    /// First descriptor of a queue segment.
    #[must_use]
    #[inline]
    pub const fn queue_segment(&self, queue_segment: usize) -> usize {
        self.arena + queue_segment * QUEUE_SEGMENT_DESCRIPTORS * Descriptor::BYTES
    }

    /// Gap word of the first descriptor of a queue segment; those of the others follow. It counts
    /// the messages that were not pushed before this descriptor, since the connection was made,
    /// modulo 2^32.
    #[must_use]
    #[inline]
    pub const fn gap(&self, queue_segment: usize) -> usize {
        self.gaps + queue_segment * QUEUE_SEGMENT_DESCRIPTORS * 4
    }

    /// The ledger's cell of a slot.
    #[must_use]
    #[inline]
    pub const fn slot_cell(&self, slot: usize) -> usize {
        self.ledger + slot * LINE_BYTES
    }

    /// The cell that counts a participant's holds on a slot.
    #[must_use]
    #[inline]
    pub const fn hold(&self, participant: usize, slot: usize) -> usize {
        self.holds + participant * self.hold_stride + slot * 8
    }
}

const fn page(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE_BYTES as u64)
}

const fn lines(bytes: u64) -> u64 {
    bytes.next_multiple_of(LINE_BYTES as u64)
}

const fn table(count: u32, record_bytes: usize) -> u64 {
    count as u64 * record_bytes as u64
}

#[inline]
const fn witness_stride(limits: Limits) -> usize {
    round_up(limits.participants as usize * 4, LINE_BYTES)
}

const fn mark_cells(limits: Limits) -> usize {
    (limits.ports as usize).div_ceil(64)
}

/// A line for the summary, so that looking at it reads one line, and lines for the cells.
const fn mark_stride(limits: Limits) -> usize {
    LINE_BYTES + round_up(mark_cells(limits) * 8, LINE_BYTES)
}

#[inline]
const fn hold_stride(limits: Limits) -> usize {
    round_up(limits.slots as usize * 8, LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        participants: 96,
        channels: 1024,
        ports: 4096,
        connections: 4096,
        queue_segments: 4096,
        slots: 5000,
    };

    #[test]
    fn tables_follow_each_other() {
        let layout = ControlLayout::new(LIMITS).expect("fits");
        assert!(layout.participant(96) <= layout.witness(0, 0));
        assert!(layout.witness(95, 95) < layout.channel(0));
        assert!(layout.channel(1024) <= layout.port(0));
        assert!(layout.port(4096) <= layout.connection(0));
        assert!(layout.connection(4096) <= layout.queue_segment_owner(0));
        assert!(layout.queue_segment_owner(4096) <= layout.channel_hash(0));
        assert!(layout.channel_hash(1024) <= layout.port_channel(0));
        assert!(layout.port_channel(4096) <= layout.consumer_port(0));
        assert!(layout.consumer_port(4096) <= layout.mark_summary(0));
        assert!(layout.mark_cell(95, 63) < layout.slot_cell(0));
        assert!(layout.slot_cell(5000) <= layout.hold(0, 0));
        assert!(layout.hold(95, 4999) < layout.queue_segment(0));
        assert!(layout.queue_segment(4096) <= layout.gap(0));
        assert!(layout.gap(4096) <= layout.bytes());
        let sum: usize = layout.terms().iter().map(|term| term.1).sum();
        assert_eq!(sum, layout.bytes());
    }

    #[test]
    fn every_port_has_a_mark_and_every_cell_a_bit_in_the_summary() {
        for ports in [1, 63, 64, 65, 4096, 4097, 1 << 20] {
            let layout = ControlLayout::new(Limits { ports, ..LIMITS }).expect("fits");
            let last = (ports as usize - 1) / 64;
            assert_eq!(last + 1, layout.mark_cells());
            assert!(last / layout.mark_span() < 64, "{ports} ports");
            assert!(layout.mark_cell(0, last) < layout.mark_summary(1));
            assert!(layout.mark_summary(1).is_multiple_of(LINE_BYTES));
        }
    }

    #[test]
    fn limits_are_checked() {
        assert_eq!(
            ControlLayout::new(Limits {
                participants: 255,
                ..LIMITS
            }),
            None
        );
        assert_eq!(ControlLayout::new(Limits { slots: 0, ..LIMITS }), None);
        assert_eq!(
            ControlLayout::new(Limits {
                connections: 1 << 21,
                ..LIMITS
            }),
            None
        );
    }

    #[test]
    fn what_32_bits_cannot_address_is_refused_there() {
        // 254 rows of 2^21 hold words are 4 GiB less 32 MiB: past what a 32-bit process can map,
        // and not past 2^32.
        for (slots, participants) in [(1 << 21, 254), (1 << 22, 254), (1 << 23, 128)] {
            let limits = Limits {
                participants,
                slots,
                ..LIMITS
            };
            let layout = ControlLayout::new(limits);
            assert_eq!(layout.is_some(), usize::BITS >= 64, "{limits:?}");
        }
        let limits = Limits {
            slots: 1 << 16,
            ..LIMITS
        };
        let layout = ControlLayout::new(limits).expect("fits everywhere");
        assert!(layout.bytes() > 96 << 19);
    }
}
