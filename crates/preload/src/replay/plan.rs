//! What is read, and in which order. Pure: handed facts, it returns extents.
//!
//! Most needed first where the budget cuts; inside what fits, window by window, the order in which
//! the device delivers fastest. A window bounds how much that is needed later may come before what
//! is needed now, should reading ahead be stopped. Never reads a page twice, never one that was not
//! asked for.

use hythe_sys::read_ahead::PhysicalExtent;

use crate::pack::{Extent, PAGE_BYTES};

/// Pages of a step: 128 KiB, the least that one `readahead` call loads on any block device in use.
pub(super) const STEP_PAGES: u32 = 32;
/// Pages that are put into the order of the device at a time: 32 MiB, a second of a fast SD card.
const WINDOW_PAGES: u64 = 8192;

/// Where a file lies on its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PhysicalMap {
    pub(super) device: u64,
    /// In the order of the file, without overlaps.
    pub(super) extents: Vec<PhysicalExtent>,
}

impl PhysicalMap {
    /// The address of a page, and how many pages from it on lie one behind the other. None: it has
    /// no address.
    fn at(&self, page: u32) -> Option<(u64, u32)> {
        let byte = u64::from(page) * PAGE_BYTES;
        let behind = self
            .extents
            .partition_point(|extent| extent.logical <= byte);
        let extent = self.extents.get(behind.checked_sub(1)?)?;
        let into = byte - extent.logical;
        let left = extent.bytes.checked_sub(into).filter(|left| *left > 0)?;
        let pages = u32::try_from(left.div_ceil(PAGE_BYTES)).unwrap_or(u32::MAX);
        Some((extent.physical.saturating_add(into), pages))
    }

    /// How many pages from `page` on have no address.
    fn gap_at(&self, page: u32) -> u32 {
        let byte = u64::from(page) * PAGE_BYTES;
        let next = self.extents.iter().find(|extent| extent.logical > byte);
        next.map_or(u32::MAX, |next| {
            u32::try_from((next.logical - byte).div_ceil(PAGE_BYTES)).unwrap_or(u32::MAX)
        })
    }
}

/// The runs of pages of `extent` for which `resident` is false.
pub(super) fn missing(extent: Extent, resident: &[bool]) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for (page, resident) in (extent.first_page..)
        .zip(resident)
        .take(extent.pages as usize)
    {
        if *resident {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.first_page + run.pages == page => run.pages += 1,
            _ => runs.push(Extent {
                file: extent.file,
                first_page: page,
                pages: 1,
            }),
        }
    }
    runs
}

/// The front of `wanted` that fits, and how many pages do not.
pub(crate) fn within_budget(wanted: &[Extent], budget_bytes: u64) -> (Vec<Extent>, u64) {
    let mut left = budget_bytes / PAGE_BYTES;
    let (mut taken, mut left_out) = (Vec::new(), 0);
    for extent in wanted {
        let pages = u64::from(extent.pages).min(left) as u32;
        if pages > 0 {
            taken.push(Extent { pages, ..*extent });
        }
        left -= u64::from(pages);
        left_out += u64::from(extent.pages - pages);
    }
    (taken, left_out)
}

/// The steps in which `taken` is read, each of at most [`STEP_PAGES`].
///
/// Files without a map follow in the order of first use: nothing is known about their device, or it
/// has no order (MTD).
pub(super) fn arrange<'a>(
    taken: &[Extent],
    map_of: impl Fn(u32) -> Option<&'a PhysicalMap>,
) -> Vec<Extent> {
    let mut steps = Vec::new();
    for window in windows(taken) {
        let mut pieces: Vec<(Address, Extent)> = window
            .into_iter()
            .flat_map(|extent| by_address(extent, map_of(extent.file)))
            .collect();
        // Stable: what has no address keeps its order.
        pieces.sort_by_key(|(address, _)| *address);
        steps.extend(in_steps(merged(
            pieces.into_iter().map(|(_, extent)| extent),
        )));
    }
    steps
}

/// Device and address; those without one stand behind those with one.
type Address = (bool, u64, u64);
const NO_ADDRESS: Address = (true, 0, 0);

fn windows(taken: &[Extent]) -> Vec<Vec<Extent>> {
    let mut windows = Vec::new();
    let (mut window, mut room) = (Vec::new(), WINDOW_PAGES);
    for extent in taken {
        let mut rest = *extent;
        while rest.pages > 0 {
            let pages = u64::from(rest.pages).min(room) as u32;
            window.push(split_off(&mut rest, pages));
            room -= u64::from(pages);
            if room == 0 {
                windows.push(std::mem::take(&mut window));
                room = WINDOW_PAGES;
            }
        }
    }
    if !window.is_empty() {
        windows.push(window);
    }
    windows
}

/// Takes the first `pages` pages off `rest`.
fn split_off(rest: &mut Extent, pages: u32) -> Extent {
    let front = Extent { pages, ..*rest };
    rest.first_page += pages;
    rest.pages -= pages;
    front
}

fn by_address(extent: Extent, map: Option<&PhysicalMap>) -> Vec<(Address, Extent)> {
    let Some(map) = map else {
        return vec![(NO_ADDRESS, extent)];
    };
    let (mut rest, mut pieces) = (extent, Vec::new());
    while rest.pages > 0 {
        let (address, run) = match map.at(rest.first_page) {
            Some((address, run)) => ((false, map.device, address), run),
            None => (NO_ADDRESS, map.gap_at(rest.first_page)),
        };
        let pages = run.clamp(1, rest.pages);
        pieces.push((address, split_off(&mut rest, pages)));
    }
    pieces
}

/// Neighbours in the list that are neighbours in their file become one.
pub(super) fn merged(extents: impl Iterator<Item = Extent>) -> Vec<Extent> {
    let mut whole: Vec<Extent> = Vec::new();
    for extent in extents {
        match whole.last_mut() {
            Some(last)
                if last.file == extent.file
                    && last.first_page + last.pages == extent.first_page =>
            {
                last.pages += extent.pages;
            }
            _ => whole.push(extent),
        }
    }
    whole
}

fn in_steps(extents: Vec<Extent>) -> impl Iterator<Item = Extent> {
    extents
        .into_iter()
        .flat_map(|extent| pieces(extent, STEP_PAGES))
}

/// `extent` in pieces of at most `most` pages.
pub(crate) fn pieces(extent: Extent, most: u32) -> impl Iterator<Item = Extent> {
    let mut rest = extent;
    std::iter::from_fn(move || {
        let pages = rest.pages.min(most);
        (pages > 0).then(|| split_off(&mut rest, pages))
    })
}

#[cfg(test)]
mod tests;
