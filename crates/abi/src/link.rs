//! The words shared with an RTOS core (`spec/link.md`).

use crate::{Descriptor, LINE_BYTES, round_up};

/// Magic of the Linux section: "HYLL".
pub const LINUX_MAGIC: u32 = 0x4C4C_5948;
/// Magic of the core section: "HYLC".
pub const CORE_MAGIC: u32 = 0x434C_5948;
/// Version of this layout.
pub const VERSION: u32 = 1;
/// Most endpoints of one link.
pub const ENDPOINTS_MAX: u32 = 16;
/// Most slot classes of a link's region.
pub const CLASSES_MAX: usize = 4;
/// Bytes of a name in shared words, zero padded.
pub const NAME_BYTES: usize = 32;
/// Bytes of an endpoint record in the core section.
pub const ENDPOINT_BYTES: usize = 64;

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
    pub const WANTED: usize = 4;
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
    capacity: usize,
    section_bytes: usize,
}

impl LinkLayout {
    /// The layout for `endpoints` (1 to 16) queues pairs of `capacity` (a power of two, 2 to 4096)
    /// in sections of `section_bytes`; `None` if that does not fit.
    #[must_use]
    pub const fn new(endpoints: u32, capacity: u32, section_bytes: usize) -> Option<Self> {
        if endpoints == 0 || endpoints > ENDPOINTS_MAX {
            return None;
        }
        if !capacity.is_power_of_two() || capacity < 2 || capacity > 4096 {
            return None;
        }
        let layout = Self {
            endpoints: endpoints as usize,
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
        self.core_entries(0) - self.section_bytes + self.entries_bytes()
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

    /// Descriptors in each queue.
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

    /// Flow line of `endpoint` in the Linux section.
    #[must_use]
    pub const fn linux_flow(&self, endpoint: usize) -> usize {
        (3 + endpoint) * LINE_BYTES
    }

    /// First entry of the queue Linux -> core of `endpoint`.
    #[must_use]
    pub const fn linux_entries(&self, endpoint: usize) -> usize {
        self.linux_flow(self.endpoints) + endpoint * self.capacity * Descriptor::BYTES
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

    /// Flow line of `endpoint` in the core section.
    #[must_use]
    pub const fn core_flow(&self, endpoint: usize) -> usize {
        let records = round_up(self.endpoints * ENDPOINT_BYTES, LINE_BYTES);
        self.section_bytes + 2 * LINE_BYTES + records + endpoint * LINE_BYTES
    }

    /// First entry of the queue core -> Linux of `endpoint`.
    #[must_use]
    pub const fn core_entries(&self, endpoint: usize) -> usize {
        self.core_flow(self.endpoints) + endpoint * self.capacity * Descriptor::BYTES
    }

    const fn entries_bytes(&self) -> usize {
        self.endpoints * self.capacity * Descriptor::BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_do_not_overlap() {
        let layout = LinkLayout::new(8, 64, 16384).expect("fits");
        assert_eq!(layout.linux_entries(0), 11 * 64);
        assert!(layout.linux_entries(8) <= layout.core_header());
        assert_eq!(layout.core_flow(0), 16384 + 10 * 64);
        assert_eq!(
            layout.core_entries(8),
            16384 + layout.needed_section_bytes()
        );
        assert!(layout.core_entries(8) <= layout.bytes());
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(LinkLayout::new(0, 64, 16384), None);
        assert_eq!(LinkLayout::new(17, 64, 65536), None);
        assert_eq!(LinkLayout::new(8, 48, 16384), None);
        assert_eq!(LinkLayout::new(8, 64, 8192), None);
        assert_eq!(LinkLayout::new(8, 64, 16384 + 4), None);
    }
}
