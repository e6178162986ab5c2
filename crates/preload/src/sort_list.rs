//! Lists by which image builders lay out files in the order in which they are needed.
//!
//! One recording then serves both: the image is laid out by it, and read ahead by it (with
//! [`Pack::any_inode`], since a new image numbers its inodes anew). Called by `hythe preload
//! sort-list`. Never looks at the files.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::PreloadError;
use crate::pack::{Pack, PackFile};

/// Priorities of mksquashfs are 16 bits, and files without one have 0.
const PRIORITY_MAX: usize = 32_767;

/// The files that are needed, in order, named from `root`: where the root of the image was when it
/// was recorded, `/` of a system that ran. Files elsewhere are not among them.
pub fn names<'a>(pack: &'a Pack, root: &'a Path) -> impl Iterator<Item = &'a [u8]> {
    let below = in_order(pack).filter_map(move |file| file.path.strip_prefix(root).ok());
    below.map(|name| name.as_os_str().as_bytes())
}

/// How many files are needed and not below `root`.
#[must_use]
pub fn elsewhere(pack: &Pack, root: &Path) -> usize {
    in_order(pack).count() - names(pack, root).count()
}

/// For `mksquashfs -sort FILE`: a path below the source directory and a priority per line, highest
/// first. Behind the first 32,766 files the rest share the last priority above that of files that
/// are not in the pack.
///
/// # Errors
/// [`PreloadError::Unlisted`] for a name that such a line cannot hold.
pub fn for_mksquashfs(names: &[&[u8]]) -> Result<Vec<u8>, PreloadError> {
    let mut list = Vec::new();
    for (place, name) in names.iter().enumerate() {
        if name.contains(&b'\n') {
            return Err(PreloadError::Unlisted {
                path: Path::new(OsStr::from_bytes(name)).to_owned(),
            });
        }
        for byte in *name {
            if matches!(byte, b' ' | b'\t' | b'\\' | b'#' | b'"') {
                list.push(b'\\');
            }
            list.push(*byte);
        }
        let priority = PRIORITY_MAX.saturating_sub(place).max(1);
        list.extend(format!(" {priority}\n").bytes());
    }
    Ok(list)
}

/// For `tar --null --files-from FILE`, whose order mkfs.erofs keeps (`--tar=f --sort=none
/// -E^inline_data`, from erofs-utils 1.8 on, without compression): paths below the source
/// directory, each ended by a zero byte.
#[must_use]
pub fn for_tar(names: &[&[u8]]) -> Vec<u8> {
    let names = names.iter();
    names
        .flat_map(|name| name.iter().copied().chain([0]))
        .collect()
}

/// Files by their first extent; those without one are not needed.
fn in_order(pack: &Pack) -> impl Iterator<Item = &PackFile> {
    let mut listed = HashSet::new();
    pack.extents
        .iter()
        .filter(move |extent| listed.insert(extent.file))
        .filter_map(|extent| pack.files.get(extent.file as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::Extent;

    fn pack(paths: &[&str], order: &[u32]) -> Pack {
        let file = |path: &&str| PackFile {
            path: path.into(),
            size: 1 << 20,
            mtime_ns: 0,
            inode: 1,
        };
        let extent = |(at, file): (usize, &u32)| Extent {
            file: *file,
            first_page: at as u32,
            pages: 1,
        };
        Pack {
            files: paths.iter().map(file).collect(),
            extents: order.iter().enumerate().map(extent).collect(),
            ..Pack::default()
        }
    }

    fn listed<'a>(pack: &'a Pack, root: &'a str) -> Vec<&'a [u8]> {
        names(pack, Path::new(root)).collect()
    }

    #[test]
    fn files_come_in_the_order_of_their_first_extents_each_once() {
        let pack = pack(&["/bin/a", "/etc/b c", "/unused"], &[1, 0, 1]);
        let names = listed(&pack, "/");
        let list = for_mksquashfs(&names).expect("good names");
        assert_eq!(list, b"etc/b\\ c 32767\nbin/a 32766\n");
        assert_eq!(for_tar(&names), b"etc/b c\0bin/a\0");
        assert_eq!(elsewhere(&pack, Path::new("/")), 0);
    }

    #[test]
    fn sort_list_names_files_from_image_root() {
        let pack = pack(
            &["/image/a", "/imaged/b", "/image/etc/c", "/image/unused"],
            &[1, 2, 0],
        );
        for root in ["/image", "/image/"] {
            assert_eq!(listed(&pack, root), [&b"etc/c"[..], b"a"]);
            assert_eq!(elsewhere(&pack, Path::new(root)), 1);
        }
    }

    #[test]
    fn name_that_no_line_can_hold_is_refused_and_named() {
        let refused = for_mksquashfs(&[b"a\nb"]).expect_err("refused");
        assert!(refused.to_string().contains("a\\nb"), "{refused}");
    }

    #[test]
    fn priorities_end_above_that_of_other_files() {
        let paths: Vec<String> = (0..40_000).map(|number| format!("/{number}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let order: Vec<u32> = (0..40_000).collect();
        let list = for_mksquashfs(&listed(&pack(&paths, &order), "/")).expect("good names");
        let list = String::from_utf8(list).expect("text");
        assert!(list.ends_with("\n39999 1\n"), "the last is 1");
        assert!(list.contains("\n32766 1\n") && list.contains("\n32765 2\n"));
    }
}
