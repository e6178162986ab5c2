//! `hythe preload show`: a pack in order, with its bytes and extents.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::{output, units};
use hythe_preload::pack::{Extent, PAGE_BYTES, Pack};
use hythe_terminal::escaped;
use serde::Serialize;

/// Which pack to show.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The pack
    pack: PathBuf,
}

#[derive(Serialize)]
struct Document<'a> {
    pack: &'a Path,
    any_inode: bool,
    bytes: u64,
    pages: u64,
    page_bytes: u64,
    files: Vec<FileDocument<'a>>,
    extents: Vec<ExtentDocument<'a>>,
}

#[derive(Serialize)]
struct FileDocument<'a> {
    path: &'a Path,
    size: u64,
    mtime_ns: i64,
    inode: u64,
    pages: u64,
}

#[derive(Serialize)]
struct ExtentDocument<'a> {
    path: &'a Path,
    first_page: u32,
    pages: u32,
}

pub(crate) fn run(args: &ShowArgs, globals: &Globals) -> Result<(), CliError> {
    let pack = super::open(&args.pack)?;
    output::print(globals.json, &document(&args.pack, &pack), text)
}

fn document<'a>(path: &'a Path, pack: &'a Pack) -> Document<'a> {
    let mut pages = vec![0; pack.files.len()];
    for extent in &pack.extents {
        pages[extent.file as usize] += u64::from(extent.pages);
    }
    let files = pack.files.iter().zip(pages);
    Document {
        pack: path,
        any_inode: pack.any_inode,
        bytes: pack.pages() * PAGE_BYTES,
        pages: pack.pages(),
        page_bytes: PAGE_BYTES,
        files: files
            .map(|(file, pages)| FileDocument {
                path: &file.path,
                size: file.size,
                mtime_ns: file.mtime_ns,
                inode: file.inode,
                pages,
            })
            .collect(),
        extents: pack
            .extents
            .iter()
            .map(|extent| ExtentDocument {
                path: path_of(pack, extent),
                first_page: extent.first_page,
                pages: extent.pages,
            })
            .collect(),
    }
}

/// An extent of a pack that was read names one of its files.
fn path_of<'a>(pack: &'a Pack, extent: &Extent) -> &'a Path {
    &pack.files[extent.file as usize].path
}

fn text(document: &Document<'_>) -> String {
    let mut text = String::new();
    let mut so_far = 0;
    // Writing into a string does not fail.
    let _ = writeln!(
        text,
        "{:>10} {:>10} {:>10}  file",
        "so far", "first page", "pages"
    );
    for extent in &document.extents {
        so_far += u64::from(extent.pages) * document.page_bytes;
        let _ = writeln!(
            text,
            "{:>10} {:>10} {:>10}  {}",
            units::bytes(so_far),
            extent.first_page,
            extent.pages,
            escaped(&extent.path)
        );
    }
    let inodes = match document.any_inode {
        true => ", whatever their inode numbers",
        false => "",
    };
    let _ = writeln!(
        text,
        "{} in {} extents of {} files{inodes}",
        units::bytes(document.bytes),
        document.extents.len(),
        document.files.len()
    );
    text
}
