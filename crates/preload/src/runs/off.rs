//! Switching a pack off: a file `PACK.off` beside it, which `replay` and `preload-init` honour by
//! being there.
//!
//! Its text is for people. One that was only written to leave a run unread, to compare with, says
//! so in its first line, and is taken away after that run. A verdict goes when the pack is recorded
//! anew: it was about another one. What somebody else put there is never taken away: who removes it
//! switches the pack on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat};
use hythe_sys::regular_file::read_regular;

use super::history::{self, Entry, Verdict, beside};
use super::{Advice, mark};
use crate::PreloadError;
use crate::whole_file::write_whole;

/// Of a text for people.
const REASON_MAX_BYTES: u64 = 64 << 10;
const FOR_ONE_RUN: &str = "Left unread for one run, to compare with.";
const VERDICT: &str = "Reading ahead by this pack is off since ";

/// Where the switch of `pack` is.
#[must_use]
pub fn path(pack: &Path) -> PathBuf {
    beside(pack, ".off")
}

/// Why `pack` is switched off, in the words of whoever did it. None: it is not.
///
/// # Errors
/// The switch is there and cannot be read.
pub fn reason(pack: &Path) -> Result<Option<String>, PreloadError> {
    let path = path(pack);
    match read_regular(&path, REASON_MAX_BYTES) {
        Ok(text) => Ok(Some(String::from_utf8_lossy(&text).trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PreloadError::file("read", path)(error)),
    }
}

/// Switches `pack` off because of `reason`, and enters that into its history.
///
/// # Errors
/// The directory of the pack cannot be written, or is full.
pub fn switch_off(pack: &Path, reason: &str) -> Result<(), PreloadError> {
    let unix_s = unix_s();
    let text = format!(
        "{VERDICT}{}: {reason}.\nRemove this file to switch it on again.\n",
        date(unix_s)
    );
    // The switch first: if only the other fails, the verdict is given again when it is taken away.
    write_whole(&path(pack), text.as_bytes())?;
    let verdict = Verdict {
        unix_s,
        pack: mark::pack_checksum(pack)?,
        reason: reason.to_owned(),
    };
    history::append(pack, Entry::SwitchedOff(verdict))?;
    Ok(())
}

/// Sets the switch for the next start-up as `advice` says: for packs that are read by
/// `preload-init`, which judges nothing.
///
/// # Errors
/// As [`switch_off`].
pub fn set_for_next(pack: &Path, advice: &Advice) -> Result<(), PreloadError> {
    let ours = reason(pack)?.is_some_and(|text| text.starts_with(FOR_ONE_RUN));
    match advice {
        Advice::Read if ours => {
            let path = path(pack);
            fs::remove_file(&path).map_err(PreloadError::file("remove", path))
        }
        Advice::Read => Ok(()),
        Advice::LeaveUnread { why } => {
            let text = format!("{FOR_ONE_RUN} {why}\n");
            write_whole(&path(pack), text.as_bytes())
        }
        Advice::SwitchOff { reason } => switch_off(pack, reason),
    }
}

/// `pack` was recorded anew: a switch that was set by judging the old one is taken away. True: it
/// is off nevertheless, by somebody else.
///
/// # Errors
/// The switch cannot be read or removed.
pub fn forget_verdict(pack: &Path) -> Result<bool, PreloadError> {
    let Some(text) = reason(pack)? else {
        return Ok(false);
    };
    if !text.starts_with(VERDICT) && !text.starts_with(FOR_ONE_RUN) {
        return Ok(true);
    }
    let path = path(pack);
    fs::remove_file(&path).map_err(PreloadError::file("remove", path))?;
    Ok(false)
}

pub(super) fn unix_s() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock before 1970 was never set.
    since_1970.map_or(0, |time| time.as_secs())
}

/// `2026-02-03T04:05:06Z`.
#[must_use]
pub fn date(unix_s: u64) -> String {
    i64::try_from(unix_s)
        .ok()
        .and_then(|seconds| DateTime::from_timestamp(seconds, 0))
        .map(|date| date.to_rfc3339_opts(SecondsFormat::Secs, true))
        .unwrap_or_else(|| format!("{unix_s} s after 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::Pack;

    #[test]
    fn new_recording_clears_verdicts_and_keeps_manual_off() {
        let directory = tempfile::tempdir().unwrap();
        let pack = directory.path().join("boot.pack");
        Pack::default().write(&pack).unwrap();
        assert!(!forget_verdict(&pack).unwrap());
        let unread = Advice::LeaveUnread {
            why: "none is known".to_owned(),
        };
        let verdict = Advice::SwitchOff {
            reason: "it did not help".to_owned(),
        };
        for advice in [unread, verdict] {
            set_for_next(&pack, &advice).unwrap();
            assert!(reason(&pack).unwrap().is_some());
            assert!(!forget_verdict(&pack).unwrap());
            assert_eq!(reason(&pack).unwrap(), None);
        }
        for text in ["", "not on this board\n"] {
            fs::write(path(&pack), text).unwrap();
            assert!(forget_verdict(&pack).unwrap());
            assert_eq!(fs::read_to_string(path(&pack)).unwrap(), text);
        }
    }

    #[test]
    fn dates_read_well() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(1_770_091_506), "2026-02-03T04:05:06Z");
        assert_eq!(date(u64::MAX), "18446744073709551615 s after 1970");
    }
}
