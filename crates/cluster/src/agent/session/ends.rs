//! How many ends either host has on which channels: told to the other so that people see them.
//!
//! Nothing is decided by it: which streams there are follows from what is wanted (`channels`).

use std::collections::BTreeMap;

use super::channels::{CHANNELS_MAX, check_count};
use super::{Session, lock};
use crate::Right;
use crate::agent::local::{ChannelKey, LocalEnds};
use crate::error::ClusterError;
use crate::frame::{EndKind, Ends};

/// The ends of both hosts of a session.
#[derive(Debug, Default)]
pub(super) struct HostEnds {
    /// What this side has told of its own.
    told: BTreeMap<ChannelKey, Ends>,
    /// What the other has told.
    theirs: BTreeMap<ChannelKey, Ends>,
}

impl HostEnds {
    pub(super) fn theirs(&self) -> Vec<Ends> {
        self.theirs.values().cloned().collect()
    }
}

/// Tells the other side what has changed of what it may know.
pub(super) fn update(session: &Session, local: &LocalEnds) -> Result<(), ClusterError> {
    let shown = local.counts.iter();
    let shown = shown.map(|(key, ends)| (key, permitted(session, ends)));
    let shown: BTreeMap<&ChannelKey, Ends> = shown
        .filter(|(_, ends)| !ends.is_none())
        .take(CHANNELS_MAX)
        .collect();
    let mut ends = lock(&session.ends);
    let before = std::mem::take(&mut ends.told);
    for (key, gone) in &before {
        if !shown.contains_key(key) {
            session.outbox.count(Ends {
                sending: 0,
                receiving: 0,
                ..gone.clone()
            })?;
        }
    }
    for (key, now) in shown {
        if before.get(key) != Some(&now) {
            session.outbox.count(now.clone())?;
        }
        ends.told.insert(key.clone(), now);
    }
    Ok(())
}

/// Of these ends, those that the other side may know.
fn permitted(session: &Session, ends: &Ends) -> Ends {
    let (context, host) = (&session.context, &session.record.name);
    let may = |right| context.judge(host, &ends.channel, right).is_ok();
    let counted = |count: u32, right| if count > 0 && may(right) { count } else { 0 };
    Ends {
        sending: counted(ends.sending, Right::Read),
        receiving: counted(ends.receiving, Right::Write),
        ..ends.clone()
    }
}

/// The other side has these now.
pub(super) fn came(session: &Session, told: Ends) -> Result<(), ClusterError> {
    let key = told.key();
    if key.kind == EndKind::Reply {
        let what = "the other host tells of ends of replies: requests have them";
        return Err(ClusterError::Unexpected(what.to_owned()));
    }
    let mut ends = lock(&session.ends);
    if told.is_none() {
        ends.theirs.remove(&key);
        return Ok(());
    }
    check_count(&ends.theirs, &key, "channels that it has ends on")?;
    ends.theirs.insert(key, told);
    Ok(())
}
