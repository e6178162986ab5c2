//! What a core sees, mapped once more: its link and its slots, as it could write them.

use hythe_abi::link::{LinkLayout, linux_header};
use hythe_memory::{Access, Mapped, Memory, Ordering};
use hythe_node::{Pool, RegionIndex};

/// The link of a core.
pub struct LinkMemory {
    pub words: Mapped,
    pub layout: LinkLayout,
}

impl LinkMemory {
    /// Of the core that shares this region: behind its slots, or in a file of its own.
    pub fn of(pool: &Pool, region: RegionIndex) -> Self {
        let place = pool.region(region).and_then(|region| region.link);
        let place = place.expect("a link");
        let kind = if place.offset == 0 { "link" } else { "region" };
        let words = map(pool, kind, region, (place.offset, place.bytes as usize));
        let word = |at| words.load(at, Ordering::Acquire);
        let layout = LinkLayout::new(
            word(linux_header::ENDPOINTS),
            word(linux_header::PORTS),
            word(linux_header::CAPACITY),
            word(linux_header::SECTION_BYTES) as usize,
        );
        Self {
            layout: layout.expect("a layout"),
            words,
        }
    }
}

/// The slots of a core.
pub fn slots(pool: &Pool, region: RegionIndex) -> Mapped {
    let bytes = pool.region(region).expect("a region").bytes as usize;
    map(pool, "region", region, (0, bytes))
}

fn map(pool: &Pool, kind: &str, region: RegionIndex, (at, bytes): (u64, usize)) -> Mapped {
    let path = pool.path().join(format!("{kind}.{}", region.0));
    let file = std::fs::File::options().read(true).write(true).open(path);
    Mapped::file(file.expect("its file"), at, bytes, Access::Write).expect("mapped")
}
