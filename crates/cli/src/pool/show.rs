//! `hythe pool show`: geometry with the sum that led to it, regions, use.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use hythe::inspect::Snapshot;
use hythe::{Pool, RegionIndex};
use hythe_terminal::escaped;
use serde::Serialize;

use super::geometry::{self, RegionDocument, TermDocument};
use crate::args::{Globals, PoolNameArgs};
use crate::error::CliError;
use crate::objects::{self, ObjectDocument};
use crate::who::{MismatchDocument, mismatches};
use crate::{output, units};

#[derive(Serialize)]
struct Document {
    pool: String,
    path: PathBuf,
    id: String,
    mode: String,
    owner: u32,
    group: u32,
    bytes: u64,
    terms: Vec<TermDocument>,
    regions: Vec<RegionDocument>,
    slots: SlotsDocument,
    mismatches: Vec<MismatchDocument>,
    tables: Vec<TableDocument>,
    objects: Vec<ObjectDocument>,
}

#[derive(Serialize)]
struct SlotsDocument {
    total: u32,
    free: u32,
    held: u32,
    queued: u32,
}

#[derive(Serialize)]
struct TableDocument {
    table: &'static str,
    used: usize,
    /// The most that was in use at once.
    highest: u32,
    limit: u32,
}

pub(crate) fn run(args: &PoolNameArgs, globals: &Globals) -> Result<(), CliError> {
    let options = args.options(globals);
    let pool = Pool::open(&options)?;
    let region = pool.region_path(RegionIndex(0));
    let file = std::fs::metadata(&region).map_err(CliError::file("look at", &region))?;
    pool.finish_recoveries();
    let snapshot = pool.snapshot();
    let terms = geometry::terms(&snapshot);
    let audit = &snapshot.audit;
    let document = Document {
        pool: options.name().to_owned(),
        path: options.path(),
        id: format!("{:016x}", snapshot.pool_id),
        mode: format!("{:04o}", file.mode() & 0o7777),
        owner: file.uid(),
        group: file.gid(),
        bytes: geometry::total(&terms),
        terms,
        regions: geometry::regions(&snapshot),
        slots: SlotsDocument {
            total: audit.slots,
            free: audit.free,
            held: audit.held,
            queued: audit.queued,
        },
        mismatches: mismatches(&snapshot),
        tables: tables(&snapshot),
        objects: objects::list(&pool)?,
    };
    output::print(globals.json, &document, text)
}

fn tables(snapshot: &Snapshot) -> Vec<TableDocument> {
    let limits = snapshot.limits;
    let marks = &snapshot.high_water;
    let table = |table, used, highest, limit| TableDocument {
        table,
        used,
        highest,
        limit,
    };
    let (slots, queue_segments) = (snapshot.audit.slots, queue_segments_in_use(snapshot));
    vec![
        table(
            "participants",
            snapshot.members.len(),
            marks.participants,
            limits.participants,
        ),
        table(
            "channels",
            snapshot.channels.len(),
            marks.channels,
            limits.channels,
        ),
        table("ports", snapshot.ports.len(), marks.ports, limits.ports),
        table(
            "connections",
            snapshot.connections.len(),
            marks.connections,
            limits.connections,
        ),
        table(
            "queue-segments",
            queue_segments,
            marks.queue_segments,
            limits.queue_segments,
        ),
        // Slots of regions: a region is never removed.
        table("slots", slots as usize, slots, limits.slots),
    ]
}

/// Queue segments that the queues of all connections take.
fn queue_segments_in_use(snapshot: &Snapshot) -> usize {
    let connections = snapshot.connections.iter();
    connections
        .map(|connection| connection.queue_segments() as usize)
        .sum()
}

fn text(shown: &Document) -> String {
    let SlotsDocument {
        total,
        free,
        held,
        queued,
    } = shown.slots;
    let ledger = if shown.mismatches.is_empty() {
        "the ledger adds up".to_owned()
    } else {
        let slots = units::counted(shown.mismatches.len() as u64, "slot");
        format!("THE LEDGER DOES NOT ADD UP at {slots} (`hythe who` names them)")
    };
    let rows: Vec<Vec<String>> = shown
        .tables
        .iter()
        .map(|table| {
            vec![
                table.table.to_owned(),
                table.used.to_string(),
                table.highest.to_string(),
                table.limit.to_string(),
            ]
        })
        .collect();
    format!(
        "pool {}, {}, in {} (mode {}, owner {}, group {}, id {})\n\n{}\n{}\n{}\n{free} free + {held} held + {queued} queued = {total} slots; {ledger}\n{}",
        escaped(&shown.pool),
        units::bytes(shown.bytes),
        escaped(&shown.path),
        shown.mode,
        shown.owner,
        shown.group,
        shown.id,
        geometry::terms_text(&shown.terms),
        geometry::regions_text(&shown.regions),
        output::table(&["TABLE", ">USED", ">HIGHEST", ">LIMIT"], &rows),
        objects::section(&shown.objects),
    )
}
