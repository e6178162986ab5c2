//! What a core's figures depend on (`spec/histogram.md`, "Conditions").

use std::collections::BTreeMap;

use crate::LatencyError;

const FIRST_LINE: &str = "hythe-latency/1";
/// A result without them is none.
const REQUIRED: [&str; 11] = [
    "board",
    "rtos",
    "clock",
    "clock_hz",
    "tick_hz",
    "preemption",
    "time_slicing",
    "stack_checks",
    "compiler",
    "flags",
    "load",
];

/// What a core says of itself before its histograms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// By key, as it was said.
    pub values: BTreeMap<String, String>,
    /// How many histograms follow.
    pub histograms: usize,
}

impl Conditions {
    /// Reads the text.
    ///
    /// # Errors
    /// [`LatencyError::Conditions`] with the first thing that is wrong.
    pub fn read(record: &[u8]) -> Result<Self, LatencyError> {
        read(record).map_err(|what| LatencyError::Conditions { what })
    }
}

fn read(record: &[u8]) -> Result<Conditions, String> {
    let text = std::str::from_utf8(record).map_err(|_| "it is no text".to_owned())?;
    let Some((body, checksum)) = text.rsplit_once("checksum=") else {
        return Err("no checksum".to_owned());
    };
    let computed = format!("{:08x}\n", crc32c::crc32c(body.as_bytes()));
    if checksum != computed {
        return Err(format!("checksum {checksum:?}, the text has {computed:?}"));
    }
    let mut lines = body.lines();
    let first = lines.next().unwrap_or_default();
    if first != FIRST_LINE {
        return Err(format!("it begins with {first:?}, not {FIRST_LINE:?}"));
    }
    let mut values = BTreeMap::new();
    for line in lines {
        let Some((key, value)) = line.split_once('=') else {
            return Err(format!("{line:?} is no `key=value`"));
        };
        let plain = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'.'
        };
        if key.is_empty() || !key.bytes().all(plain) {
            return Err(format!("{key:?} is no key"));
        }
        if values.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!("{key} twice"));
        }
    }
    if let Some(missing) = REQUIRED.iter().find(|key| !values.contains_key(**key)) {
        return Err(format!("{missing} is missing"));
    }
    let histograms = values.remove("histograms").unwrap_or_default();
    let histograms = histograms
        .parse()
        .map_err(|_| format!("{histograms:?} histograms"))?;
    Ok(Conditions { values, histograms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(change: impl Fn(&str) -> String) -> Vec<u8> {
        let values: String = REQUIRED.iter().map(|key| format!("{key}=1\n")).collect();
        let body = change(&format!(
            "hythe-latency/1\n{values}histograms=8\ndiscarded.task_switch=2\n"
        ));
        let checksum = crc32c::crc32c(body.as_bytes());
        format!("{body}checksum={checksum:08x}\n").into_bytes()
    }

    #[test]
    fn what_is_said_is_kept() {
        let conditions = Conditions::read(&text(str::to_owned)).expect("good");
        assert_eq!(conditions.histograms, 8);
        assert_eq!(conditions.values["discarded.task_switch"], "2");
        assert_eq!(conditions.values.len(), REQUIRED.len() + 1);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |from: &str, to: &str| {
            let changed = text(|text| {
                assert!(text.contains(from), "{from}");
                text.replace(from, to)
            });
            Conditions::read(&changed).expect_err(to).to_string()
        };
        assert!(refused("latency/1", "latency/2").contains("latency/2"));
        assert!(refused("tick_hz=1\n", "").contains("tick_hz is missing"));
        assert!(refused("tick_hz=1", "tick_hz=1\ntick_hz=1").contains("twice"));
        assert!(refused("board=", "Board=").contains("Board"));
        assert!(refused("board=1", "board").contains("key=value"));
        assert!(refused("histograms=8", "histograms=some").contains("some"));
        let whole = text(str::to_owned);
        for end in 0..whole.len() {
            Conditions::read(&whole[..end]).expect_err("cut");
        }
    }
}
