//! An extent of a pack as pages of this machine: which of them are in the page cache, and bringing
//! one there.
//!
//! Packs count pages of 4096 bytes; a machine may have larger ones, and then several of a pack's
//! are one of the machine's. The loading threads, the survey and the finish call it. Never maps
//! more than [`MAPPED_PAGES`] at a time: an address space may be small.

use std::io;
use std::os::fd::AsFd;

use hythe_sys::file_pages::{FilePages, Sink};
use rustix::param::page_size;

use crate::pack::{Extent, PAGE_BYTES};

/// Most pages of an extent that are mapped at a time: 64 MiB.
pub(crate) const MAPPED_PAGES: u32 = 16_384;

/// An extent, mapped.
#[derive(Debug)]
pub(crate) struct Cached {
    pages: FilePages,
    extent: Extent,
    places: Places,
}

/// Where pages of an extent are in its mapping.
#[derive(Clone, Copy, Debug)]
struct Places {
    /// Bytes between the start of the mapping and the extent.
    lead: u64,
    /// Of the machine.
    page_bytes: u64,
}

impl Cached {
    pub(crate) fn map(file: impl AsFd, extent: Extent) -> io::Result<Self> {
        let begins = u64::from(extent.first_page) * PAGE_BYTES;
        let page_bytes = page_size() as u64;
        let lead = begins % page_bytes;
        let bytes = lead + u64::from(extent.pages) * PAGE_BYTES;
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        Ok(Self {
            pages: FilePages::map(file, begins - lead, bytes)?,
            extent,
            places: Places { lead, page_bytes },
        })
    }

    /// For each page of the extent whether it is there.
    pub(crate) fn resident(&self) -> io::Result<Vec<bool>> {
        let machine = self.pages.resident()?;
        let pages = 0..self.extent.pages;
        Ok(pages.map(|page| machine[self.machine_page(page)]).collect())
    }

    fn machine_page(&self, page: u32) -> usize {
        self.places.machine_page(page)
    }

    /// Pages of the extent in front of those that come with page `page`, being of the same page of
    /// the machine.
    pub(crate) fn before_those_with(&self, page: u32) -> u32 {
        self.places.before_those_with(page)
    }

    /// Waits until page `page` of the extent is there; reads it if nobody does.
    pub(crate) fn fetch(&self, page: u32, sink: &Sink) -> io::Result<()> {
        self.pages.fetch(self.machine_page(page), sink)
    }

    /// Number of the page of the address space that holds page `page` of the extent.
    pub(crate) fn virtual_page(&self, page: u32) -> u64 {
        (self.pages.first_virtual_page() + self.machine_page(page)) as u64
    }
}

impl Places {
    /// Which page of the mapping holds page `page` of the extent.
    fn machine_page(self, page: u32) -> usize {
        // Fits: an offset into a mapping.
        ((self.lead + u64::from(page) * PAGE_BYTES) / self.page_bytes) as usize
    }

    fn before_those_with(self, page: u32) -> u32 {
        let begins = self.machine_page(page) as u64 * self.page_bytes;
        // Fits: less than `page`.
        (begins.saturating_sub(self.lead) / PAGE_BYTES) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_pages_of_a_pack_are_one_of_a_larger_machine() {
        let places = |lead_pages: u64, page_bytes: u64| Places {
            lead: lead_pages * PAGE_BYTES,
            page_bytes,
        };
        let small = places(0, PAGE_BYTES);
        assert_eq!((small.machine_page(7), small.before_those_with(7)), (7, 7));
        // The extent begins at the last quarter of a page of 16 KiB.
        let large = places(3, 4 * PAGE_BYTES);
        let pages: Vec<usize> = (0..6).map(|page| large.machine_page(page)).collect();
        assert_eq!(pages, [0, 1, 1, 1, 1, 2]);
        let before: Vec<u32> = (0..6).map(|page| large.before_those_with(page)).collect();
        assert_eq!(before, [0, 1, 1, 1, 1, 5]);
        assert_eq!(places(1, 16 * PAGE_BYTES).before_those_with(14), 0);
    }
}
