//! Looking at the files of a pack before anything is read: which are still what was recorded, which
//! of their pages are missing, and where they lie.
//!
//! Never holds a file open: a pack may list more files than a process may open. Whoever loads
//! checks again.

use std::os::fd::AsFd;

use hythe_sys::read_ahead::physical_extents;
use serde::Serialize;

use super::files::{NotThat, Opened, Root};
use super::plan::{self, PhysicalMap};
use crate::cached::{Cached, MAPPED_PAGES};
use crate::pack::{Extent, Pack};

/// What there is to do.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// What is not in the page cache, in the order of the pack.
    pub(super) missing: Vec<Extent>,
    /// Pages that are.
    pub(super) already_there: u64,
    pub(super) changed: Vec<Changed>,
    pub(super) changed_pages: u64,
    files: Vec<Option<Facts>>,
}

/// A file that is not what was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Where it is, or was.
    pub path: String,
    /// In what it differs.
    pub why: String,
}

/// What is known of a file that is still what was recorded.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) device: u64,
    pub(super) residency_visible: bool,
    map: Option<PhysicalMap>,
}

impl Survey {
    pub(super) fn facts(&self, file: u32) -> Option<&Facts> {
        self.files.get(file as usize)?.as_ref()
    }

    /// Where a file lies, if its file system tells.
    pub(super) fn map_of(&self, file: u32) -> Option<&PhysicalMap> {
        self.facts(file)?.map.as_ref()
    }
}

pub(super) fn survey(pack: &Pack, root: &Root) -> Survey {
    let mut extents_of: Vec<Vec<usize>> = vec![Vec::new(); pack.files.len()];
    for (index, extent) in pack.extents.iter().enumerate() {
        extents_of[extent.file as usize].push(index);
    }
    let mut survey = Survey::default();
    let mut missing: Vec<Vec<Extent>> = vec![Vec::new(); pack.extents.len()];
    for (file, indices) in pack.files.iter().zip(extents_of) {
        let pages = |index: &usize| u64::from(pack.extents[*index].pages);
        match root.open_unchanged(file, pack.any_inode) {
            Ok(opened) => {
                for index in &indices {
                    missing[*index] = missing_of(&opened, pack.extents[*index]);
                    let left: u64 = missing[*index].iter().map(|run| u64::from(run.pages)).sum();
                    survey.already_there += pages(index) - left;
                }
                let wanted = indices.iter().any(|index| !missing[*index].is_empty());
                survey.files.push(Some(facts(&opened, wanted)));
            }
            Err(why) => {
                survey.changed_pages += indices.iter().map(pages).sum::<u64>();
                survey.changed.push(changed(root, file, &why));
                survey.files.push(None);
            }
        }
    }
    survey.missing = missing.into_iter().flatten().collect();
    survey
}

fn changed(root: &Root, file: &crate::pack::PackFile, why: &NotThat) -> Changed {
    Changed {
        path: root.shown(&file.path).to_string_lossy().into_owned(),
        why: why.to_string(),
    }
}

fn facts(opened: &Opened, wanted: bool) -> Facts {
    // What need not be read needs no place. Where there is no map, the order of first use serves.
    let extents = wanted
        .then(|| physical_extents(&opened.file).ok())
        .flatten();
    let map = extents
        .filter(|extents| !extents.is_empty())
        .map(|extents| PhysicalMap {
            device: opened.device,
            extents,
        });
    Facts {
        device: opened.device,
        residency_visible: opened.residency_visible,
        map,
    }
}

/// What of an extent is to be read. Where it cannot be seen, all of it: reading what is there costs
/// little.
fn missing_of(opened: &Opened, extent: Extent) -> Vec<Extent> {
    let look = |piece: Extent| {
        let resident = opened
            .residency_visible
            .then(|| Cached::map(opened.file.as_fd(), piece).and_then(|pages| pages.resident()));
        match resident {
            Some(Ok(resident)) => plan::missing(piece, &resident),
            _ => vec![piece],
        }
    };
    plan::merged(plan::pieces(extent, MAPPED_PAGES).flat_map(look))
}
