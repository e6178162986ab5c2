//! `hythe core boards`: which boards there are, and what each lacks here.

use std::path::PathBuf;

use hythe::core as rtcore;
use hythe::core::{BoardKind, Listed};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_terminal::escaped;
use serde::Serialize;

#[derive(Serialize)]
struct Document {
    searched: Vec<PathBuf>,
    boards: Vec<BoardDocument>,
}

#[derive(Serialize)]
struct BoardDocument {
    name: String,
    #[serde(flatten)]
    board: Description,
    runnable: bool,
    missing: Vec<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Description {
    Readable {
        kind: &'static str,
        emulated: bool,
        summary: String,
        apps: Vec<String>,
    },
    Broken {
        error: String,
    },
}

pub(super) fn run(globals: &Globals) -> Result<(), CliError> {
    let boards = rtcore::list().into_iter().map(describe).collect();
    output::print(
        globals.json,
        &Document {
            searched: rtcore::search_path(),
            boards,
        },
        text,
    )
}

fn describe(listed: Listed) -> BoardDocument {
    let board = match listed.board {
        Ok(board) => Description::Readable {
            kind: match board.kind() {
                BoardKind::Process => "process",
                BoardKind::Qemu => "qemu",
            },
            emulated: board.is_emulated(),
            summary: board.summary().to_owned(),
            apps: board.apps().to_vec(),
        },
        Err(error) => Description::Broken { error },
    };
    let readable = matches!(board, Description::Readable { .. });
    BoardDocument {
        name: listed.name,
        board,
        runnable: readable && listed.missing.is_empty(),
        missing: listed.missing,
    }
}

fn text(document: &Document) -> String {
    if document.boards.is_empty() {
        let places: Vec<_> = document
            .searched
            .iter()
            .map(|place| escaped(place).to_string())
            .collect();
        return format!(
            "no boards in {}; `cargo xtask boards` builds them, HYTHE_BOARDS chooses another place",
            places.join(", ")
        );
    }
    let rows: Vec<Vec<String>> = document
        .boards
        .iter()
        .map(|found| {
            let (summary, apps) = match &found.board {
                Description::Readable { summary, apps, .. } => (summary.clone(), apps.join(", ")),
                Description::Broken { error } => (error.clone(), String::new()),
            };
            let state = match (&found.board, found.missing.as_slice()) {
                (Description::Broken { .. }, _) => "cannot be read".to_owned(),
                (_, []) => "runs here".to_owned(),
                (_, missing) => missing.join("; "),
            };
            vec![found.name.clone(), apps, state, summary]
        })
        .collect();
    output::table(&["BOARD", "APPLICATIONS", "HERE", "IS"], &rows)
}
