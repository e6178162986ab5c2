//! `hythe man DIR`: one page per command, as `hythe-pool-create.1`.

use std::fs;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use hythe_terminal::escaped;
use serde::Serialize;

use crate::args::Globals;
use crate::command_line;
use crate::error::CliError;
use crate::{output, units};

#[derive(Serialize)]
struct Document<'a> {
    directory: &'a Path,
    pages: Vec<String>,
}

pub(crate) fn run(directory: &Path, globals: &Globals) -> Result<(), CliError> {
    fs::create_dir_all(directory).map_err(CliError::file("make", directory))?;
    let mut hythe = command_line::whole()?;
    hythe.build();
    let mut pages = Vec::new();
    write_pages(&hythe, directory, &mut pages)?;
    output::print(globals.json, &Document { directory, pages }, |document| {
        let pages = units::counted(document.pages.len() as u64, "page");
        format!(
            "wrote {pages} into {}; read them with `man {}/hythe.1`",
            escaped(&directory),
            escaped(&directory)
        )
    })
}

fn write_pages(
    command: &Command,
    directory: &Path,
    pages: &mut Vec<String>,
) -> Result<(), CliError> {
    let written = Man::new(command.clone()).generate_to(directory);
    let path = written.map_err(CliError::file("write the man pages into", directory))?;
    let page = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    pages.extend(page);
    let mut shown = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set());
    shown.try_for_each(|inner| write_pages(inner, directory, pages))
}
