//! The words shared with an RTOS core (`spec/link.md`).

use crate::pool::CORE_PORTS_MAX;
use crate::{Descriptor, LINE_BYTES, round_up};

/// Magic of the Linux section: "HYLL".
pub const LINUX_MAGIC: u32 = 0x4C4C_5948;
/// Magic of the core section: "HYLC".
pub const CORE_MAGIC: u32 = 0x434C_5948;
/// Version of this layout.
pub const VERSION: u32 = 2;
/// Most endpoints of one link.
pub const ENDPOINTS_MAX: u32 = 16;
/// Most slot classes of a link's region.
pub const CLASSES_MAX: usize = 4;
/// Bytes of a name in shared words, zero padded.
pub const NAME_BYTES: usize = 32;
/// Bytes of an endpoint record in the core section.
pub const ENDPOINT_BYTES: usize = 64;
/// Bytes of an entry in a queue.
pub const ENTRY_BYTES: usize = 32;

/// Offsets in the header line of the Linux section.
pub mod linux_header {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/link.md"
    )]
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 4;
    pub const LINE_BYTES: usize = 8;
    pub const SECTION_BYTES: usize = 12;
    pub const ENDPOINTS: usize = 16;
    pub const CAPACITY: usize = 20;
    pub const REGION: usize = 24;
    pub const REGION_BYTES: usize = 28;
    pub const CLASSES: usize = 32;
    pub const HEADROOM: usize = 36;
    pub const SESSION: usize = 40;
    pub const PORTS: usize = 44;
}

/// Offsets in the header line of the core section.
pub mod core_header {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/link.md"
    )]
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 4;
    pub const SESSION: usize = 8;
    pub const STATE: usize = 12;
    pub const REASON: usize = 16;
    pub const ECHO: usize = 20;
    pub const ENDPOINTS: usize = 24;
    pub const LINE_BYTES: usize = 28;
    pub const NAME: usize = 32;
}

/// Offsets in the bell line of either section, counted from the line.
pub mod bell_line {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/link.md"
    )]
    pub const COUNT: usize = 0;
    /// In the core section only.
    pub const WANTED: usize = 4;
    /// In the Linux section only.
    pub const CHANGES: usize = 8;
}

/// Offsets in an endpoint record.
pub mod endpoint_record {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/link.md"
    )]
    pub const NAME: usize = 0;
    pub const DIRECTION: usize = 32;
    pub const MAX_BYTES: usize = 36;
    pub const TYPE: usize = 40;
    pub const KIND: usize = 44;
    /// From here on, what the core counts at the endpoint; each wraps.
    pub const VIOLATIONS: usize = 48;
    pub const FULL: usize = 52;
    pub const NO_SLOT: usize = 56;
    pub const DROPPED: usize = 60;
}

/// Offsets in a flow line of either section.
pub mod flow_line {
    #![allow(
        missing_docs,
        reason = "the names are those of the table in spec/link.md"
    )]
    /// `session` in the Linux section, `echo` in the core section.
    pub const SESSION: usize = 0;
    pub const START: usize = 4;
    pub const TAIL: usize = 8;
    pub const HEAD: usize = 12;
    /// In the Linux section.
    pub const WINDOW: usize = 16;
    /// In the core section.
    pub const DROPPED: usize = 16;
    pub const RAISED_LOW: usize = 20;
    pub const RAISED_HIGH: usize = 24;
    pub const SEEN_LOW: usize = 28;
    pub const SEEN_HIGH: usize = 32;
    /// In the Linux section.
    pub const WANTED: usize = 36;
    /// In the Linux section.
    pub const DOORBELL: usize = 40;
}

/// One endpoint and one port of it: a line of words in each section, and two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The endpoint.
    pub endpoint: usize,
    /// The port, below the link's number of them.
    pub port: usize,
}

/// What stands in a queue of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The buffer.
    pub descriptor: Descriptor,
    /// Number of the participant whose row of the ledger answers for it.
    pub account: u32,
    /// How many references of that row it stands for.
    pub references: u32,
    /// Belongs to the message.
    pub tag: u64,
}

impl Entry {
    /// Words of an entry.
    pub const WORDS: usize = ENTRY_BYTES / 4;

    /// Decodes eight words; nothing is checked.
    #[must_use]
    pub const fn from_words(words: [u32; Self::WORDS]) -> Self {
        let [
            place,
            generation,
            offset,
            length,
            account,
            references,
            low,
            high,
        ] = words;
        Self {
            descriptor: Descriptor::from_words([place, generation, offset, length]),
            account,
            references,
            tag: low as u64 | (high as u64) << 32,
        }
    }

    /// Encodes.
    #[must_use]
    pub const fn to_words(self) -> [u32; Self::WORDS] {
        let [place, generation, offset, length] = self.descriptor.to_words();
        let (low, high) = (self.tag as u32, (self.tag >> 32) as u32);
        [
            place,
            generation,
            offset,
            length,
            self.account,
            self.references,
            low,
            high,
        ]
    }
}

/// `state` in the core header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreState {
    /// Not started, or between two sessions.
    Down,
    /// Answered the Linux session in `echo`.
    Up,
    /// Refused it; `reason` says why.
    Refused,
}

impl CoreState {
    /// Reads the word; anything unknown is `Down`.
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        match word {
            1 => Self::Up,
            2 => Self::Refused,
            _ => Self::Down,
        }
    }
}

/// What an endpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointKind {
    /// Messages of publishers and subscribers.
    Messages,
    /// Requests: of Linux clients, which the core answers, or of the core, which Linux servers do.
    Requests,
    /// Events of notifiers and listeners: no payload.
    Events,
}

impl EndpointKind {
    /// Reads the word of an endpoint record.
    #[must_use]
    pub const fn from_word(word: u32) -> Option<Self> {
        match word {
            0 => Some(Self::Messages),
            1 => Some(Self::Requests),
            2 => Some(Self::Events),
            _ => None,
        }
    }
}

/// Which way the payload of an endpoint travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Linux publishes, the core takes.
    ToCore,
    /// The core publishes, Linux takes.
    FromCore,
}

impl Direction {
    /// Reads the word of an endpoint record.
    #[must_use]
    pub const fn from_word(word: u32) -> Option<Self> {
        match word {
            1 => Some(Self::ToCore),
            2 => Some(Self::FromCore),
            _ => None,
        }
    }

    /// The word of an endpoint record.
    #[must_use]
    pub const fn to_word(self) -> u32 {
        match self {
            Self::ToCore => 1,
            Self::FromCore => 2,
        }
    }
}

/// Where everything stands in the two sections of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLayout {
    endpoints: usize,
    ports: usize,
    capacity: usize,
    section_bytes: usize,
}

impl LinkLayout {
    /// The layout for `endpoints` (1 to 16), each with `ports` (1 to 8) and for each of these a
    /// pair of queues of `capacity` (a power of two, 2 to 4096), in sections of `section_bytes`;
    /// `None` if that does not fit.
    #[must_use]
    pub const fn new(
        endpoints: u32,
        ports: u32,
        capacity: u32,
        section_bytes: usize,
    ) -> Option<Self> {
        if endpoints == 0 || endpoints > ENDPOINTS_MAX {
            return None;
        }
        if ports == 0 || ports > CORE_PORTS_MAX as u32 {
            return None;
        }
        if !capacity.is_power_of_two() || capacity < 2 || capacity > 4096 {
            return None;
        }
        let layout = Self {
            endpoints: endpoints as usize,
            ports: ports as usize,
            capacity: capacity as usize,
            section_bytes,
        };
        if !section_bytes.is_multiple_of(LINE_BYTES)
            || layout.needed_section_bytes() > section_bytes
        {
            return None;
        }
        Some(layout)
    }

    /// Bytes that the larger section needs.
    #[must_use]
    pub const fn needed_section_bytes(&self) -> usize {
        self.first_core_entry() - self.section_bytes + self.entries_bytes()
    }

    /// Bytes of both sections.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        2 * self.section_bytes
    }

    /// Bytes of one section.
    #[must_use]
    pub const fn section_bytes(&self) -> usize {
        self.section_bytes
    }

    /// Endpoints of the link.
    #[must_use]
    pub const fn endpoints(&self) -> usize {
        self.endpoints
    }

    /// Ports of each endpoint.
    #[must_use]
    pub const fn ports(&self) -> usize {
        self.ports
    }

    /// Flows of the link.
    #[must_use]
    pub const fn flows(&self) -> usize {
        self.endpoints * self.ports
    }

    /// Entries in each queue.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// The Linux bell line.
    #[must_use]
    pub const fn linux_bell(&self) -> usize {
        LINE_BYTES
    }

    /// The line of class words in the Linux section; class `i` is 16 bytes further.
    #[must_use]
    pub const fn classes(&self) -> usize {
        2 * LINE_BYTES
    }

    /// Line of a flow in the Linux section.
    #[must_use]
    pub const fn linux_flow(&self, flow: Flow) -> usize {
        (3 + self.index(flow)) * LINE_BYTES
    }

    /// First entry of the queue Linux -> core of a flow.
    #[must_use]
    pub const fn linux_entries(&self, flow: Flow) -> usize {
        (3 + self.flows()) * LINE_BYTES + self.index(flow) * self.capacity * ENTRY_BYTES
    }

    /// The core's header line.
    #[must_use]
    pub const fn core_header(&self) -> usize {
        self.section_bytes
    }

    /// The core's bell line.
    #[must_use]
    pub const fn core_bell(&self) -> usize {
        self.section_bytes + LINE_BYTES
    }

    /// Record of `endpoint` in the core section.
    #[must_use]
    pub const fn endpoint_record(&self, endpoint: usize) -> usize {
        self.section_bytes + 2 * LINE_BYTES + endpoint * ENDPOINT_BYTES
    }

    /// Line of a flow in the core section.
    #[must_use]
    pub const fn core_flow(&self, flow: Flow) -> usize {
        self.first_core_flow() + self.index(flow) * LINE_BYTES
    }

    /// First entry of the queue core -> Linux of a flow.
    #[must_use]
    pub const fn core_entries(&self, flow: Flow) -> usize {
        self.first_core_entry() + self.index(flow) * self.capacity * ENTRY_BYTES
    }

    const fn first_core_flow(&self) -> usize {
        let records = round_up(self.endpoints * ENDPOINT_BYTES, LINE_BYTES);
        self.section_bytes + 2 * LINE_BYTES + records
    }

    const fn first_core_entry(&self) -> usize {
        self.first_core_flow() + self.flows() * LINE_BYTES
    }

    const fn index(&self, flow: Flow) -> usize {
        flow.endpoint * self.ports + flow.port
    }

    const fn entries_bytes(&self) -> usize {
        self.flows() * self.capacity * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_do_not_overlap() {
        let layout = LinkLayout::new(8, 2, 64, 65536).expect("fits");
        let flow = |endpoint, port| Flow { endpoint, port };
        assert_eq!(layout.linux_flow(flow(1, 1)), 6 * 64);
        assert_eq!(layout.linux_entries(flow(0, 0)), 19 * 64);
        assert_eq!(layout.linux_entries(flow(0, 1)), 19 * 64 + 64 * 32);
        assert!(layout.linux_entries(flow(8, 0)) <= layout.core_header());
        assert_eq!(layout.core_flow(flow(0, 0)), 65536 + 10 * 64);
        assert_eq!(
            layout.core_entries(flow(8, 0)),
            65536 + layout.needed_section_bytes()
        );
        assert!(layout.core_entries(flow(8, 0)) <= layout.bytes());
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(LinkLayout::new(0, 8, 64, 1 << 20), None);
        assert_eq!(LinkLayout::new(17, 8, 64, 1 << 20), None);
        assert_eq!(LinkLayout::new(8, 0, 64, 1 << 20), None);
        assert_eq!(LinkLayout::new(8, 9, 64, 1 << 20), None);
        assert_eq!(LinkLayout::new(8, 8, 48, 1 << 20), None);
        assert_eq!(LinkLayout::new(8, 8, 64, 65536), None);
        assert_eq!(LinkLayout::new(8, 8, 64, (1 << 20) + 4), None);
    }
}
