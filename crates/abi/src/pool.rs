//! The control file of a pool (`spec/pool.md`): tables, cells, and where they stand.

use crate::{Descriptor, LINE_BYTES, PAGE_BYTES, round_up};

/// First eight bytes of a control file: "HYTHEPL" and a one.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HYTHEPL\x01");
/// Version of this layout.
pub const VERSION: u32 = 1;
/// Bytes of a name in any table, zero padded.
pub const NAME_BYTES: usize = 64;
/// Most regions of one pool.
pub const REGIONS_MAX: usize = 8;
/// Most slot classes of one region.
pub const CLASSES_MAX: usize = 8;
/// Descriptors in one granule of the queue arena.
pub const GRANULE_DESCRIPTORS: usize = 32;
/// Most participants of one pool: their number has 8 bits in a cell, and 255 means nobody.
pub const PARTICIPANTS_MAX: u32 = 254;
/// "Nobody" where a participant's number is expected.
pub const NOBODY: u8 = 255;
/// Most references to one slot at a time (12 bits).
pub const REFERENCES_MAX: u32 = 4095;
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
    pub const GRANULES: usize = 48;
    pub const SLOTS: usize = 52;
    pub const LINE_BYTES: usize = 56;
    /// Raised by one for each session handed out.
    pub const NEXT_SESSION: usize = 128;
    /// Raised by one each time a participant joins or leaves.
    pub const MEMBERSHIP: usize = 192;
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
    /// 0 a process, 1 an endpoint of a core.
    pub const KIND: usize = 24;
    pub const UID: usize = 28;
    /// Cell: recovering participant's number plus one in bits 0..7, its session in 40..63; 0 nobody.
    pub const RECOVERER: usize = 32;
    pub const NAME: usize = 64;
    pub const BELL_COUNT: usize = 128;
    pub const BELL_SLEEPERS: usize = 132;
    /// Raised by one when a connection to or from this participant changes.
    pub const CHANGES: usize = 192;
    pub const INTENT: usize = 256;
}

/// Offsets in an intent, counted from `participant::INTENT`.
pub mod intent {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/pool.md"
    )]
    /// What is being done; 0: nothing.
    pub const OPERATION: usize = 0;
    /// Number of the last step that this participant began; the low 19 bits, never 0, are in its mark in a cell.
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
    /// The endpoint's participant number.
    pub const CORE_ROW: usize = 28;
    /// Cell: the participant attached to the endpoint, plus one, in 0..7; the endpoint's row, plus one, in 8..15; the
    /// participant's session in 40..63; 0 nobody.
    pub const ATTACHED: usize = 32;
    /// The participant that runs the core (its agent).
    pub const CORE_AGENT: usize = 40;
    /// Raised by one when the channel's ports or its core change.
    pub const EPOCH: usize = 64;
    pub const NAME: usize = 128;
    pub const TYPE_NAME: usize = 192;
}

/// Offsets in a port record.
pub mod port {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/pool.md"
    )]
    pub const BYTES: usize = 128;
    /// Cell: status 0..7, participant 8..15, kind 16..23 (1 publisher, 2 subscriber), session 40..63.
    pub const STATE: usize = 0;
    pub const CHANNEL: usize = 8;
    pub const DEPTH: usize = 12;
    /// 0 drop the newest; otherwise block, for at most this many milliseconds.
    pub const BLOCK_MS: usize = 16;
    /// Written by the port's owner only.
    pub const MESSAGES: usize = 64;
    pub const PAYLOAD_BYTES: usize = 72;
    pub const DROPPED: usize = 80;
    pub const VIOLATIONS: usize = 88;
}

/// Offsets in a connection record.
pub mod connection {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/pool.md"
    )]
    pub const BYTES: usize = 256;
    /// Cell: status 0..7, producer 8..15, consumer 16..23, who left 24..31 (bit 0 producer, bit 1 consumer), finalizer 32..39, nonce 40..63.
    pub const STATE: usize = 0;
    pub const PRODUCER_PORT: usize = 8;
    pub const CONSUMER_PORT: usize = 12;
    pub const GRANULE: usize = 16;
    pub const CAPACITY: usize = 20;
    /// Written by the producer.
    pub const TAIL: usize = 64;
    /// Written by the consumer.
    pub const HEAD: usize = 128;
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
    /// Granules of [`GRANULE_DESCRIPTORS`] descriptors for the queues of all connections.
    pub granules: u32,
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
    granule_owners: usize,
    ledger: usize,
    holds: usize,
    arena: usize,
    end: usize,
}

impl ControlLayout {
    /// Lays out the tables; `None` if a limit is zero, too large, or the sum does not fit.
    #[must_use]
    pub const fn new(limits: Limits) -> Option<Self> {
        if limits.participants == 0 || limits.participants > PARTICIPANTS_MAX {
            return None;
        }
        if limits.channels == 0 || limits.ports == 0 || limits.connections == 0 {
            return None;
        }
        if limits.granules == 0 || limits.slots == 0 || limits.slots > crate::Place::SLOT_MAX {
            return None;
        }
        // 2^20 of anything else is far past use and keeps every product below inside 64 bits.
        if limits.channels > 1 << 20 || limits.ports > 1 << 20 {
            return None;
        }
        if limits.connections > 1 << 20 || limits.granules > 1 << 20 {
            return None;
        }
        Some(Self::lay_out(limits))
    }

    const fn lay_out(limits: Limits) -> Self {
        let participants = PAGE_BYTES + REGIONS_MAX * region::BYTES;
        let witnesses = participants + limits.participants as usize * participant::BYTES;
        let channels = page(witnesses + limits.participants as usize * witness_stride(limits));
        let ports = channels + limits.channels as usize * channel::BYTES;
        let connections = ports + limits.ports as usize * port::BYTES;
        let granule_owners = connections + limits.connections as usize * connection::BYTES;
        let ledger = page(granule_owners + limits.granules as usize * 8);
        let holds = page(ledger + limits.slots as usize * LINE_BYTES);
        let arena = page(holds + limits.participants as usize * hold_stride(limits));
        let end = page(arena + limits.granules as usize * GRANULE_DESCRIPTORS * Descriptor::BYTES);
        Self {
            limits,
            participants,
            witnesses,
            channels,
            ports,
            connections,
            granule_owners,
            ledger,
            holds,
            arena,
            end,
        }
    }

    /// The limits this was laid out for.
    #[must_use]
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
    pub const fn terms(&self) -> [(&'static str, usize); 8] {
        [
            ("header and regions", self.participants),
            ("participants", self.channels - self.participants),
            ("channels", self.ports - self.channels),
            ("ports", self.connections - self.ports),
            ("connections", self.ledger - self.connections),
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
    pub const fn participant(&self, index: usize) -> usize {
        self.participants + index * participant::BYTES
    }

    /// The word in which `witness` notes the last operation of `actor` that it has seen in a cell. Each witness writes its own lines.
    #[must_use]
    pub const fn witness(&self, witness: usize, actor: usize) -> usize {
        self.witnesses + witness * witness_stride(self.limits) + actor * 4
    }

    /// Record of a channel.
    #[must_use]
    pub const fn channel(&self, index: usize) -> usize {
        self.channels + index * channel::BYTES
    }

    /// Record of a port.
    #[must_use]
    pub const fn port(&self, index: usize) -> usize {
        self.ports + index * port::BYTES
    }

    /// Record of a connection.
    #[must_use]
    pub const fn connection(&self, index: usize) -> usize {
        self.connections + index * connection::BYTES
    }

    /// Cell naming the connection that owns a granule, plus one; 0: free.
    #[must_use]
    pub const fn granule_owner(&self, granule: usize) -> usize {
        self.granule_owners + granule * 8
    }

    /// First descriptor of a granule.
    #[must_use]
    pub const fn granule(&self, granule: usize) -> usize {
        self.arena + granule * GRANULE_DESCRIPTORS * Descriptor::BYTES
    }

    /// The ledger's cell of a slot.
    #[must_use]
    pub const fn slot_cell(&self, slot: usize) -> usize {
        self.ledger + slot * LINE_BYTES
    }

    /// The cell that counts a participant's holds on a slot.
    #[must_use]
    pub const fn hold(&self, participant: usize, slot: usize) -> usize {
        self.holds + participant * hold_stride(self.limits) + slot * 8
    }
}

const fn page(bytes: usize) -> usize {
    round_up(bytes, PAGE_BYTES)
}

const fn witness_stride(limits: Limits) -> usize {
    round_up(limits.participants as usize * 4, LINE_BYTES)
}

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
        granules: 4096,
        slots: 5000,
    };

    #[test]
    fn tables_follow_each_other() {
        let layout = ControlLayout::new(LIMITS).expect("fits");
        assert!(layout.participant(96) <= layout.witness(0, 0));
        assert!(layout.witness(95, 95) < layout.channel(0));
        assert!(layout.channel(1024) <= layout.port(0));
        assert!(layout.port(4096) <= layout.connection(0));
        assert!(layout.connection(4096) <= layout.granule_owner(0));
        assert!(layout.granule_owner(4096) <= layout.slot_cell(0));
        assert!(layout.slot_cell(5000) <= layout.hold(0, 0));
        assert!(layout.hold(95, 4999) < layout.granule(0));
        assert!(layout.granule(4096) <= layout.bytes());
        let sum: usize = layout.terms().iter().map(|term| term.1).sum();
        assert_eq!(sum, layout.bytes());
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
}
