//! `hythe preload sort-list`: the layout of an image, by what was recorded.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hythe_preload::sort_list;

use crate::args::Globals;
use crate::error::CliError;
use crate::output;

/// Which list to print.
#[derive(Args, Debug)]
pub(crate) struct SortListArgs {
    /// The pack
    pack: PathBuf,
    /// The file system of the image
    #[arg(long = "for", value_name = "FS", value_enum, default_value_t = Image::Squashfs)]
    image: Image,
}

/// Kinds of images that are laid out by a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Image {
    /// `mksquashfs -sort`: path and priority, one per line
    Squashfs,
    /// `tar --null -T`, for mkfs.erofs 1.8 or newer: paths, each ended by a zero byte
    Erofs,
}

pub(crate) fn run(args: &SortListArgs, globals: &Globals) -> Result<(), CliError> {
    if globals.json {
        return Err(CliError::WrongUse(
            "a sort list is for an image builder and has no JSON form; hythe preload show --json has the same order".to_owned(),
        ));
    }
    let pack = super::open(&args.pack)?;
    output::write(&match args.image {
        Image::Squashfs => sort_list::for_mksquashfs(&pack)?,
        Image::Erofs => sort_list::for_tar(&pack),
    })
}
