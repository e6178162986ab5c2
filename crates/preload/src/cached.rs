//! An extent of a pack as pages of this machine: which of them are in the page cache, and bringing one there.
//!
//! Packs count pages of 4096 bytes; a machine may have larger ones, and then several of a pack's are one of the machine's. The loading
//! threads, the survey and the finish call it. Never maps more than [`MAPPED_PAGES`] at a time: an address space may be small.

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
    /// Bytes between the start of the mapping and the extent.
    lead: u64,
}

impl Cached {
    pub(crate) fn map(file: impl AsFd, extent: Extent) -> io::Result<Self> {
        let begins = u64::from(extent.first_page) * PAGE_BYTES;
        let lead = begins % page_size() as u64;
        let bytes = lead + u64::from(extent.pages) * PAGE_BYTES;
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        Ok(Self {
            pages: FilePages::map(file, begins - lead, bytes)?,
            extent,
            lead,
        })
    }

    /// For each page of the extent whether it is there.
    pub(crate) fn resident(&self) -> io::Result<Vec<bool>> {
        let machine = self.pages.resident()?;
        let pages = 0..self.extent.pages;
        Ok(pages.map(|page| machine[self.machine_page(page)]).collect())
    }

    /// Which page of the mapping holds page `page` of the extent.
    fn machine_page(&self, page: u32) -> usize {
        // Fits: an offset into a mapping.
        ((self.lead + u64::from(page) * PAGE_BYTES) / page_size() as u64) as usize
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
