//! `hythe core segments`: the bytes that processes and cores see by address.

use hythe::Pool;
use hythe::core::control;
use hythe::core::segment::{BoardSegments, SegmentInfo, Segments};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_terminal::escaped;
use serde::Serialize;

#[derive(Serialize)]
struct Document {
    pool: String,
    boards: Vec<BoardDocument>,
}

/// The segments of one core.
#[derive(Serialize)]
pub(super) struct BoardDocument {
    board: String,
    area_bytes: u64,
    free_bytes: u64,
    largest_free_bytes: u64,
    segments: Vec<SegmentDocument>,
}

/// What the kernel does not tell of another user's segment is null.
#[derive(Serialize)]
struct SegmentDocument {
    key: String,
    id: i32,
    made_on: &'static str,
    size_bytes: usize,
    mode: Option<String>,
    attached_linux: Option<u64>,
    attached_core: u64,
    removed: Option<bool>,
    creator: String,
    uid: Option<u32>,
    created_unix_s: u64,
    /// Null: never.
    attached_unix_s: Option<i64>,
    detached_unix_s: Option<i64>,
    page: u64,
}

pub(super) fn run(board: Option<&str>, globals: &Globals) -> Result<(), CliError> {
    let pool = globals.open()?;
    let document = Document {
        pool: globals.pool_name().to_owned(),
        boards: list(&pool, board)?,
    };
    output::print(globals.json, &document, text)
}

/// Those of all cores, or of one.
pub(super) fn list(pool: &Pool, board: Option<&str>) -> Result<Vec<BoardDocument>, CliError> {
    let listed = Segments::open(pool, board)?.list()?;
    let alone = control::list_without_agent(pool);
    let documents = listed.into_iter().map(|listed| {
        let has_agent = alone.iter().all(|core| core.board != listed.board);
        BoardDocument::of(listed, has_agent)
    });
    Ok(documents.collect())
}

impl BoardDocument {
    /// A core whose agent is dead has segments attached that the kernel does not count for it.
    fn of(listed: BoardSegments, has_agent: bool) -> Self {
        let of = |info| SegmentDocument::of(info, has_agent);
        Self {
            board: listed.board,
            area_bytes: listed.area_bytes,
            free_bytes: listed.free_bytes,
            largest_free_bytes: listed.largest_free_bytes,
            segments: listed.segments.iter().map(of).collect(),
        }
    }
}

impl SegmentDocument {
    fn of(info: &SegmentInfo, has_agent: bool) -> Self {
        let of_core = if has_agent { info.attached_core } else { 0 };
        let status = info.status;
        let time = |seconds: i64| (seconds != 0).then_some(seconds);
        Self {
            key: format!("{:#010x}", info.key),
            id: info.id,
            made_on: if info.is_made_on_core {
                "core"
            } else {
                "linux"
            },
            size_bytes: info.bytes,
            mode: status.map(|status| format!("{:04o}", status.mode)),
            attached_linux: status.map(|status| status.attached.saturating_sub(of_core)),
            attached_core: info.attached_core,
            removed: status.map(|status| status.is_removed),
            creator: format!("{} (pid {})", info.creator.0, info.creator.1),
            uid: status.map(|status| status.user),
            created_unix_s: info.created,
            attached_unix_s: status.and_then(|status| time(status.attach_time)),
            detached_unix_s: status.and_then(|status| time(status.detach_time)),
            page: info.page,
        }
    }
}

fn text(document: &Document) -> String {
    boards_text(&document.boards)
}

/// For people.
pub(super) fn boards_text(boards: &[BoardDocument]) -> String {
    let boards = boards.iter().map(board_text);
    boards.collect::<Vec<_>>().join("\n")
}

fn board_text(board: &BoardDocument) -> String {
    let head = format!(
        "core `{}`: {} bytes for segments, {} free, the largest piece {}\n",
        escaped(&board.board),
        board.area_bytes,
        board.free_bytes,
        board.largest_free_bytes,
    );
    if board.segments.is_empty() {
        return head;
    }
    let rows: Vec<Vec<String>> = board.segments.iter().map(row).collect();
    let columns = [
        "KEY", "ID", "BYTES", "MODE", "LINUX", "CORE", "MADE BY", "STATE",
    ];
    head + &output::table(&columns, &rows)
}

fn row(segment: &SegmentDocument) -> Vec<String> {
    let unknown = || "?".to_owned();
    vec![
        segment.key.clone(),
        segment.id.to_string(),
        segment.size_bytes.to_string(),
        segment.mode.clone().unwrap_or_else(unknown),
        segment
            .attached_linux
            .map_or_else(unknown, |count| count.to_string()),
        segment.attached_core.to_string(),
        format!("{} {}", segment.made_on, escaped(&segment.creator)),
        if segment.removed == Some(true) {
            "removed"
        } else {
            ""
        }
        .to_owned(),
    ]
}
