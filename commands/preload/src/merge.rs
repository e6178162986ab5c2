//! `hythe preload merge`: one pack of several recordings.

use std::path::PathBuf;

use clap::Args;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::remedy;
use hythe_command::{output, units};
use hythe_preload::pack::{PAGE_BYTES, Union};
use hythe_preload::runs::off;
use hythe_terminal::escaped;
use serde::Serialize;

/// Which packs, and where to.
#[derive(Args, Debug)]
pub struct MergeArgs {
    /// The packs; the first one determines the order
    #[arg(required = true, num_args = 2.., value_name = "PACK")]
    packs: Vec<PathBuf>,
    /// The pack to write; it may be one of those that are merged
    #[arg(short, long, value_name = "PACK")]
    output: PathBuf,
    /// Replace the pack if there is one
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    pack: &'a PathBuf,
    merged: Vec<MergedDocument<'a>>,
    any_inode: bool,
    files: usize,
    extents: usize,
    pages: u64,
    bytes: u64,
    page_bytes: u64,
    /// The file that switches it off, which somebody made.
    switched_off: Option<PathBuf>,
}

#[derive(Serialize)]
struct MergedDocument<'a> {
    pack: &'a PathBuf,
    pages: u64,
    /// That no pack before it has.
    added_pages: u64,
}

pub(crate) fn run(args: &MergeArgs, globals: &Globals) -> Result<(), CliError> {
    if !args.force && args.output.symlink_metadata().is_ok() {
        return Err(CliError::Failed(format!(
            "{} is there already: choose another name, or say --force",
            escaped(&args.output)
        )));
    }
    let mut union = Union::default();
    let mut merged = Vec::new();
    for path in &args.packs {
        let pack = super::open(path)?;
        let added_pages = union.add(&pack).map_err(|error| {
            CliError::Failed(format!(
                "cannot merge {} with the packs before it: {error}{}",
                escaped(path),
                remedy::of_preload(&error)
            ))
        })?;
        merged.push(MergedDocument {
            pack: path,
            pages: pack.pages(),
            added_pages,
        });
    }
    let pack = union.into_pack();
    pack.write(&args.output)?;
    let still_off = off::forget_verdict(&args.output)?;
    let document = Document {
        pack: &args.output,
        merged,
        any_inode: pack.any_inode,
        files: pack.files.len(),
        extents: pack.extents.len(),
        pages: pack.pages(),
        bytes: pack.pages() * PAGE_BYTES,
        page_bytes: PAGE_BYTES,
        switched_off: still_off.then(|| off::path(&args.output)),
    };
    output::print(globals.json, &document, text)
}

fn text(document: &Document<'_>) -> String {
    let rows: Vec<Vec<String>> = document
        .merged
        .iter()
        .map(|merged| {
            vec![
                merged.pack.to_string_lossy().into_owned(),
                merged.pages.to_string(),
                merged.added_pages.to_string(),
            ]
        })
        .collect();
    let mut text = output::table(&["PACK", ">PAGES", ">ADDED"], &rows);
    text += &format!(
        "{}: {} in {} of {}\n",
        escaped(document.pack),
        units::bytes(document.bytes),
        units::counted(document.extents as u64, "extent"),
        units::counted(document.files as u64, "file")
    );
    if let Some(switch) = &document.switched_off {
        text += &format!(
            "{} keeps it from being read ahead; remove that to switch it on\n",
            escaped(switch)
        );
    }
    text
}
