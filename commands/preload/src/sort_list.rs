//! `hythe preload sort-list`: the layout of an image, by what was recorded.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::{output, units};
use hythe_preload::sort_list;
use hythe_terminal::escaped;

use super::tree::Tree;

/// Which list to print.
#[derive(Args, Debug)]
pub struct SortListArgs {
    /// The pack
    pack: PathBuf,
    /// The file system of the image
    #[arg(long = "for", value_name = "FS", value_enum, default_value_t = Image::Squashfs)]
    image: Image,
    /// Root of the image at the time of the recording: paths are relative to it, files outside of
    /// it are left out
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    root: PathBuf,
    /// Directory that the image is made of: files that are not in it are left out. For erofs the
    /// list has all of its files, directories first, then the needed ones
    #[arg(long, value_name = "DIRECTORY")]
    tree: Option<PathBuf>,
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
    let mut names: Vec<&[u8]> = sort_list::names(&pack, &args.root).collect();
    let root = escaped(&args.root);
    say_left_out(
        sort_list::elsewhere(&pack, &args.root),
        &format!("below {root}"),
    );
    let tree = match &args.tree {
        Some(path) => Some(Tree::below(path).map_err(CliError::file("list the tree", path))?),
        None => None,
    };
    if let Some(tree) = &tree {
        let (known, missing) = tree.known(&names);
        names = known;
        say_left_out(missing, "in the tree of the image");
    }
    if names.is_empty() && !pack.extents.is_empty() {
        return Err(CliError::Failed(format!(
            "no file of the pack is left to be listed: is {root} (--root) where the root of the image was when it was recorded? hythe preload show has the paths"
        )));
    }
    output::write_data(&match (args.image, tree) {
        (Image::Squashfs, _) => sort_list::for_mksquashfs(&names)?,
        (Image::Erofs, None) => sort_list::for_tar(&names),
        (Image::Erofs, Some(tree)) => tree.listed(&names),
    })
}

fn say_left_out(files: usize, place: &str) {
    if files > 0 {
        let files = units::counted(files as u64, "file");
        output::note(format!("{files} of the pack left out: not {place}"));
    }
}
