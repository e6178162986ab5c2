//! Records a command through the library, and reads ahead what it needed.
//!
//!     recorded record PACK COMMAND ARGUMENTS...    prints each extent: path, first page, pages
//!     recorded replay PACK                         prints how many pages, and what became of them
//!
//! As root. What a recording changes is put back by a process of its own, which is this program
//! again. `scripts/arm.sh` runs it on kernels of other machines; a person uses `hythe preload`.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hythe_preload::pack::Pack;
use hythe_preload::record::{Queue, Settings, Subject, record, stand_guard};
use hythe_preload::replay::{Options, SystemMemory, replay};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    let mode = words.first().and_then(|word| word.to_str());
    match (mode, &words[..]) {
        (Some("guard"), [_]) => Ok(stand_guard(std::io::stdin(), std::io::stdout())?),
        (Some("record"), [_, pack, command @ ..]) => record_into(Path::new(pack), command),
        (Some("replay"), [_, pack]) => read_ahead(Path::new(pack)),
        _ => Err("recorded record PACK COMMAND ARGUMENTS... | recorded replay PACK".into()),
    }
}

fn record_into(output: &Path, command: &[OsString]) -> Result<(), Box<dyn Error>> {
    let settings = Settings {
        guard: vec![env::current_exe()?.into(), "guard".into()],
        output: output.to_owned(),
        any_inode: false,
        exclude: Vec::new(),
        keep_caches: false,
        scratch: None,
        duration: None,
        until: None,
        output_to_errors: true,
        queue: Queue::Limited,
    };
    let (pack, account) = record(&Subject::Command(command.to_vec()), &settings, &|| false)?;
    pack.write(output)?;
    for extent in &pack.extents {
        let path: &PathBuf = &pack.files[extent.file as usize].path;
        println!("{} {} {}", path.display(), extent.first_page, extent.pages);
    }
    println!("by {}", account.method());
    match account.status {
        Some(status) if status.success() => Ok(()),
        status => Err(format!("the command did not end well: {status:?}").into()),
    }
}

fn read_ahead(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut memory = SystemMemory::new(Path::new("/proc"));
    let outcome = replay(
        &Pack::read(path)?,
        &Options::default(),
        &mut memory,
        &|_| {},
    )?;
    let pages = outcome.pages;
    println!(
        "asked {} loaded {} there {} changed {} failed {}",
        pages.asked, pages.loaded, pages.already_there, pages.changed, pages.failed
    );
    for system in &outcome.file_systems {
        println!("{} by {}: {}", system.kind, system.method, system.why);
    }
    Ok(())
}
