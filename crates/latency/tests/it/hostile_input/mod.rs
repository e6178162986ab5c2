//! What holds for every reader of what a core or an emulator says, whatever it is given: no panic,
//! no more out than in, and what is taken agrees with itself. Used by `hostile.rs` with
//! seeds, and by the fuzz targets.
#![allow(dead_code, reason = "each fuzz target uses a part of it")]

use hythe_latency::core::{Conditions, CoreHistogram, serial};
use hythe_latency::outside::{self, Period, Samples};

/// Records of a core, as they came; and with their checksums put right, so that what lies behind
/// those is reached, too.
pub(crate) fn record(bytes: &[u8]) {
    one_record(bytes);
    if let Some(mended) = mended_histogram(bytes) {
        one_record(&mended);
    }
    one_record(&mended_conditions(bytes));
}

fn one_record(bytes: &[u8]) {
    if let Ok(histogram) = CoreHistogram::read(bytes) {
        let ns = histogram.to_nanoseconds();
        assert_eq!(ns.len(), u64::from(histogram.count));
        assert!(histogram.min <= histogram.max && !histogram.name.is_empty());
        if histogram.count > 0 {
            assert!(ns.equivalent(ns.max(), histogram.ns(histogram.max)));
            assert!(ns.min() >= ns.lowest_equivalent(histogram.ns(histogram.min)));
        }
    }
    if let Ok(conditions) = Conditions::read(bytes) {
        let said: usize = conditions
            .values
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        assert!(said < bytes.len());
    }
}

/// With the number of pairs that the bytes hold, and their checksum. None: there is no room for a
/// header.
fn mended_histogram(bytes: &[u8]) -> Option<Vec<u8>> {
    let pairs = bytes.len().checked_sub(64)? / 8;
    let mut mended = bytes[..64 + 8 * pairs].to_vec();
    mended[12..16].copy_from_slice(&u32::try_from(pairs).ok()?.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&mended[..60]), &mended[64..]);
    mended[60..64].copy_from_slice(&checksum.to_le_bytes());
    Some(mended)
}

fn mended_conditions(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let body = text
        .rsplit_once("checksum=")
        .map_or(&*text, |(body, _)| body);
    let checksum = crc32c::crc32c(body.as_bytes());
    format!("{body}checksum={checksum:08x}\n").into_bytes()
}

/// What came over a serial line.
pub(crate) fn console(bytes: &[u8]) {
    let console = String::from_utf8_lossy(bytes);
    let Ok(records) = serial::records(&console) else {
        return;
    };
    let taken: usize = records.iter().map(Vec::len).sum();
    assert!(2 * taken <= console.len(), "more than was read");
    for record in &records {
        one_record(record);
    }
    // Written as the page says, they are the same again.
    let written: String = records.iter().map(|record| lines(record)).collect();
    assert_eq!(serial::records(&written).expect("by the page"), records);
}

/// A record as a core writes it on a serial line.
pub(crate) fn lines(record: &[u8]) -> String {
    let line = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("@{digits}\n")
    };
    record.chunks(32).map(line).collect::<String>() + "@.\n"
}

/// An emulator's record, behind what came out of the pin: one byte says how many those are.
pub(crate) fn record_log(bytes: &[u8]) {
    let Some((&count, rest)) = bytes.split_first() else {
        return;
    };
    let (pin, log) = rest.split_at(rest.len().min(count.into()));
    let Ok(edges) = outside::edges(log, pin) else {
        return;
    };
    assert_eq!(edges.len(), pin.len());
    assert!(edges.is_sorted_by_key(|edge| edge.instruction));
    let intervals = outside::intervals(&edges, 32);
    let mut samples = 0;
    for interval in intervals.values() {
        samples += interval.histogram.len();
        fit_together(interval);
    }
    assert!(2 * samples <= edges.len() as u64);
    for letter in [b'a', b'g'] {
        let period = Period {
            ticks: u32::from(count) + 1,
            tick_hz: 25_000_000,
        };
        if let Ok(alarms) = outside::alarms(&edges, letter, period, 32) {
            let seen = edges.iter().filter(|edge| edge.letter == letter).count();
            assert_eq!(alarms.lateness.histogram.len(), seen as u64);
            fit_together(&alarms.lateness);
        }
    }
}

/// The largest are among all, with the largest of all, in order.
fn fit_together(samples: &Samples) {
    let Samples {
        histogram,
        outliers,
        lasted_ns,
    } = samples;
    assert_eq!(outliers.is_empty(), histogram.is_empty());
    assert!(outliers.len() <= 256 && outliers.len() as u64 <= histogram.len());
    assert!(outliers.is_sorted_by_key(|outlier| outlier.at_ns));
    let largest = outliers.iter().map(|outlier| outlier.value).max();
    let mut ends = outliers
        .iter()
        .map(|late| late.at_ns.saturating_add(late.value));
    assert!(ends.all(|end| end <= *lasted_ns));
    assert!(largest.is_none_or(|largest| histogram.equivalent(largest, histogram.max())));
}
