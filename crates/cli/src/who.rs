//! `hythe who`: who holds which buffers, for how long, and which semaphores and queues hold
//! something. Fails if the ledger does not add up.

use hythe::inspect::{HeldBuffer, HolderKind, MemberIndex, MemberInfo, MemberStatus, Snapshot};
use hythe::{Liveness, Pool};
use hythe_terminal::escaped;
use serde::Serialize;

use crate::args::Globals;
use crate::error::CliError;
use crate::objects::{self, ObjectDocument};
use crate::{output, units};

#[derive(Serialize)]
struct Document {
    pool: String,
    holders: Vec<HolderDocument>,
    buffers: Vec<BufferDocument>,
    objects: Vec<ObjectDocument>,
    mismatches: Vec<MismatchDocument>,
}

/// A participant or queue with all it holds.
#[derive(Serialize)]
struct HolderDocument {
    holder: String,
    #[serde(flatten)]
    who: WhoDocument,
    buffers: u64,
    slot_bytes: u64,
    /// Not known of queues.
    longest_ms: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum WhoDocument {
    Participant {
        participant: u8,
        pid: Option<u32>,
        state: &'static str,
    },
    Queue {
        connection: u32,
    },
}

#[derive(Serialize)]
struct BufferDocument {
    region: u8,
    slot: u32,
    slot_bytes: u32,
    references: u32,
    /// Not known of queues.
    held_ms: Option<u64>,
    holder: String,
}

/// A slot whose count is not the sum of its holders.
#[derive(Debug, Serialize)]
pub(crate) struct MismatchDocument {
    ledger_slot: u32,
    counted: u32,
    found: u32,
    holders: Vec<String>,
}

pub(crate) fn run(globals: &Globals) -> Result<(), CliError> {
    let pool = globals.open()?;
    pool.finish_recoveries();
    let snapshot = pool.snapshot();
    let document = Document {
        pool: pool.options().name().to_owned(),
        holders: holders(&pool, &snapshot),
        buffers: buffers(&snapshot),
        objects: objects::holding(objects::list(&pool)?),
        mismatches: mismatches(&snapshot),
    };
    output::print(globals.json, &document, text)?;
    match document.mismatches.len() {
        0 => Ok(()),
        wrong => Err(CliError::Failed(format!(
            "the ledger of pool `{}` does not add up at {}: {}",
            document.pool,
            units::counted(wrong as u64, "slot"),
            unfinished(&pool, &snapshot)
                .unwrap_or_else(|| "a program with write access is broken".to_owned())
        ))),
    }
}

/// The reason why slots may not add up for now: a participant that died within a step, and is not
/// recovered yet.
pub(crate) fn unfinished(pool: &Pool, snapshot: &Snapshot) -> Option<String> {
    let is_unfinished = |member: &&MemberInfo| {
        member.status == MemberStatus::Recovering || pool.liveness(member) == Liveness::Dead
    };
    let member = snapshot.members.iter().find(is_unfinished)?;
    Some(format!(
        "{} (pid {}) has ended, and what it held is not given back yet; the next participant that \
         joins does that",
        escaped(&member.name),
        member.identity.pid
    ))
}

/// Slots that do not add up.
pub(crate) fn mismatches(snapshot: &Snapshot) -> Vec<MismatchDocument> {
    let wrong = snapshot.audit.mismatches.iter();
    wrong
        .map(|wrong| MismatchDocument {
            ledger_slot: wrong.slot.0,
            counted: wrong.counted,
            found: wrong.found,
            holders: snapshot
                .audit
                .holders
                .iter()
                .filter(|holder| holder.slot == wrong.slot)
                .map(|holder| format!("{} x {}", holder.count, snapshot.holder_name(holder.kind)))
                .collect(),
        })
        .collect()
}

fn holders(pool: &Pool, snapshot: &Snapshot) -> Vec<HolderDocument> {
    let mut found: Vec<(HolderKind, HolderDocument)> = Vec::new();
    for held in snapshot.held_buffers() {
        let known = found
            .iter()
            .position(|(kind, _)| *kind == held.holder)
            .unwrap_or_else(|| {
                let holder = HolderDocument {
                    holder: snapshot.holder_name(held.holder),
                    who: who(pool, snapshot, held.holder),
                    buffers: 0,
                    slot_bytes: 0,
                    longest_ms: None,
                };
                found.push((held.holder, holder));
                found.len() - 1
            });
        let holder = &mut found[known].1;
        holder.buffers += 1;
        holder.slot_bytes += u64::from(held.slot_bytes);
        holder.longest_ms = holder.longest_ms.max(held_ms(&held));
    }
    let mut holders: Vec<HolderDocument> = found.into_iter().map(|(_, holder)| holder).collect();
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.slot_bytes));
    holders
}

fn held_ms(held: &HeldBuffer) -> Option<u64> {
    matches!(held.holder, HolderKind::Member(_)).then_some(held.held_ms)
}

fn time(ms: Option<u64>) -> String {
    ms.map_or_else(String::new, units::milliseconds)
}

fn who(pool: &Pool, snapshot: &Snapshot, holder: HolderKind) -> WhoDocument {
    match holder {
        HolderKind::Member(index) => participant(pool, snapshot, index),
        HolderKind::Queue(index) => WhoDocument::Queue {
            connection: index.0,
        },
    }
}

fn participant(pool: &Pool, snapshot: &Snapshot, index: MemberIndex) -> WhoDocument {
    let member = snapshot.members.iter().find(|member| member.index == index);
    WhoDocument::Participant {
        participant: index.0,
        pid: member.map(|member| member.identity.pid),
        state: member.map_or("gone", |member| state(pool.liveness(member))),
    }
}

/// What to call the state of a participant's process.
pub(crate) const fn state(liveness: Liveness) -> &'static str {
    match liveness {
        Liveness::Alive => "alive",
        Liveness::Dead => "dead",
        Liveness::Unknown => "unknown",
    }
}

fn buffers(snapshot: &Snapshot) -> Vec<BufferDocument> {
    let mut buffers: Vec<BufferDocument> = snapshot
        .held_buffers()
        .into_iter()
        .map(|held| BufferDocument {
            region: held.place.region.0,
            slot: held.place.slot,
            slot_bytes: held.slot_bytes,
            references: held.count,
            held_ms: held_ms(&held),
            holder: snapshot.holder_name(held.holder),
        })
        .collect();
    buffers.sort_by_key(|buffer| std::cmp::Reverse(buffer.held_ms));
    buffers
}

fn text(document: &Document) -> String {
    if document.buffers.is_empty() && document.mismatches.is_empty() {
        return format!(
            "nobody holds a buffer of pool {}\n{}",
            escaped(&document.pool),
            objects::section(&document.objects)
        );
    }
    let holders = document.holders.iter().map(|holder| {
        let remark = match &holder.who {
            WhoDocument::Participant { state: "dead", .. } => {
                "dead: given back when the next participant looks"
            }
            _ => "",
        };
        vec![
            holder.holder.clone(),
            holder.buffers.to_string(),
            units::bytes(holder.slot_bytes),
            time(holder.longest_ms),
            remark.to_owned(),
        ]
    });
    let buffers = document.buffers.iter().map(|buffer| {
        vec![
            format!("{}.{}", buffer.region, buffer.slot),
            units::bytes(buffer.slot_bytes.into()),
            buffer.references.to_string(),
            time(buffer.held_ms),
            buffer.holder.clone(),
        ]
    });
    let wrong = document.mismatches.iter().map(|wrong| {
        let found = wrong.holders.join(", ");
        format!(
            "slot {} of the ledger counts {}, but {} answer for it: {}\n",
            wrong.ledger_slot,
            wrong.counted,
            wrong.found,
            escaped(&found)
        )
    });
    format!(
        "{}\n{}{}{}",
        output::table(
            &["HOLDER", ">BUFFERS", ">SLOTS' SIZE", ">LONGEST", ""],
            &holders.collect::<Vec<_>>()
        ),
        output::table(
            &["BUFFER", ">SLOT", ">REFERENCES", ">HELD FOR", "HOLDER"],
            &buffers.collect::<Vec<_>>()
        ),
        objects::section(&document.objects),
        wrong.collect::<String>(),
    )
}
