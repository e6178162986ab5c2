//! The record of one histogram: read, checked, never repaired.

use hdrhistogram::Histogram;

use crate::LatencyError;

const MAGIC: u32 = 0x4748_5948;
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 64;
const PAIR_BYTES: usize = 8;
const NAME: std::ops::Range<usize> = 32..60;
const CHECKSUM_AT: usize = 60;
const PRECISION_BITS_MAX: u32 = 12;
const VALUE_BITS_MAX: u32 = 32;
/// Significant digits of what percentiles are asked of: finer than any core's.
const DIGITS: u8 = 4;

/// One latency as a core measured it, in ticks of its clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreHistogram {
    /// What was measured.
    pub name: String,
    /// Ticks of the core's clock in a second; not 0.
    pub tick_hz: u32,
    /// Each power of two is cut into `2^precision_bits` buckets.
    pub precision_bits: u32,
    /// Values of `2^value_bits` and more are counted in the last bucket.
    pub value_bits: u32,
    /// Samples.
    pub count: u32,
    /// Those of them that are too large for a bucket of their own.
    pub overflow: u32,
    /// The smallest, exactly; 0 without samples.
    pub min: u32,
    /// The largest, exactly; 0 without samples.
    pub max: u32,
    /// Buckets with samples, ascending: which, and how many.
    pub pairs: Vec<(u32, u32)>,
}

/// How many buckets a histogram of these parameters has.
#[must_use]
pub const fn bucket_count(precision_bits: u32, value_bits: u32) -> u32 {
    (value_bits - precision_bits + 1) << precision_bits
}

/// The bucket of a value.
#[must_use]
pub const fn bucket(precision_bits: u32, value_bits: u32, value: u32) -> u32 {
    if value_bits < VALUE_BITS_MAX && value >> value_bits != 0 {
        return bucket_count(precision_bits, value_bits) - 1;
    }
    if value >> precision_bits == 0 {
        return value;
    }
    let shift = value.ilog2() - precision_bits;
    (shift << precision_bits) + (value >> shift)
}

/// The largest value of a bucket.
#[must_use]
pub const fn highest_of(precision_bits: u32, bucket: u32) -> u32 {
    let per_power = 1 << precision_bits;
    if bucket < per_power {
        return bucket;
    }
    let shift = (bucket >> precision_bits) - 1;
    let lowest = (per_power + (bucket & (per_power - 1))) << shift;
    lowest + ((1 << shift) - 1)
}

impl CoreHistogram {
    /// Reads one record.
    ///
    /// # Errors
    /// [`LatencyError::Histogram`] with the first thing that is wrong.
    pub fn read(record: &[u8]) -> Result<Self, LatencyError> {
        let refuse = |what: String| Err(LatencyError::Histogram { what });
        if record.len() < HEADER_BYTES {
            let bytes = record.len();
            return refuse(format!("{bytes} bytes, less than a header of 64"));
        }
        let word = |at: usize| word(record, at);
        if word(0) != MAGIC {
            return refuse(format!("magic {:#010x}, not {MAGIC:#010x}", word(0)));
        }
        let version = word(4) as u16;
        if version != VERSION {
            return refuse(format!("version {version}, this program reads {VERSION}"));
        }
        let pairs = word(12) as usize;
        let bytes = pairs
            .checked_mul(PAIR_BYTES)
            .and_then(|bytes| bytes.checked_add(HEADER_BYTES));
        if bytes != Some(record.len()) {
            let found = record.len();
            return refuse(format!("{found} bytes do not hold {pairs} pairs"));
        }
        let found = checksum(record);
        if word(CHECKSUM_AT) != found {
            return refuse(format!(
                "checksum {:#010x}, the bytes have {found:#010x}",
                word(CHECKSUM_AT)
            ));
        }
        let histogram = Self {
            name: name(&record[NAME]).map_err(|what| LatencyError::Histogram { what })?,
            tick_hz: word(8),
            precision_bits: u32::from(record[6]),
            value_bits: u32::from(record[7]),
            count: word(16),
            overflow: word(20),
            min: word(24),
            max: word(28),
            pairs: record[HEADER_BYTES..]
                .chunks_exact(PAIR_BYTES)
                .map(|pair| (self::word(pair, 0), self::word(pair, 4)))
                .collect(),
        };
        match histogram.disagreement() {
            None => Ok(histogram),
            Some(what) => refuse(what),
        }
    }

    /// What does not fit together.
    fn disagreement(&self) -> Option<String> {
        let (precision, values) = (self.precision_bits, self.value_bits);
        if !(1..=PRECISION_BITS_MAX).contains(&precision) {
            return Some(format!(
                "precision of {precision} bits, 1 to 12 are possible"
            ));
        }
        if values <= precision || values > VALUE_BITS_MAX {
            return Some(format!(
                "values of {values} bits, with a precision of {precision}"
            ));
        }
        if self.tick_hz == 0 {
            return Some("a clock of 0 ticks a second".to_owned());
        }
        self.disagreement_of_pairs()
    }

    fn disagreement_of_pairs(&self) -> Option<String> {
        let buckets = bucket_count(self.precision_bits, self.value_bits);
        for pair in self.pairs.windows(2) {
            if pair[0].0 >= pair[1].0 {
                return Some(format!(
                    "buckets out of order: {} before {}",
                    pair[0].0, pair[1].0
                ));
            }
        }
        if let Some((index, _)) = self.pairs.iter().find(|(index, _)| *index >= buckets) {
            return Some(format!("bucket {index} of {buckets}"));
        }
        if let Some((index, _)) = self.pairs.iter().find(|(_, count)| *count == 0) {
            return Some(format!("bucket {index} without samples"));
        }
        let sum: u64 = self.pairs.iter().map(|(_, count)| u64::from(*count)).sum();
        if sum != u64::from(self.count) {
            return Some(format!("{} samples, the buckets hold {sum}", self.count));
        }
        let last = self.pairs.last().filter(|(index, _)| *index == buckets - 1);
        let last = last.map_or(0, |(_, count)| *count);
        if self.overflow > last {
            return Some(format!(
                "overflow of {}, the last bucket holds {last}",
                self.overflow
            ));
        }
        let of = |value| bucket(self.precision_bits, self.value_bits, value);
        let (first, last) = match (self.pairs.first(), self.pairs.last()) {
            (Some(first), Some(last)) => (first.0, last.0),
            _ => (0, 0),
        };
        if of(self.min) != first {
            return Some(format!(
                "the smallest is {}, the first bucket {first}",
                self.min
            ));
        }
        if of(self.max) != last || self.min > self.max {
            return Some(format!(
                "the largest is {}, the last bucket {last}",
                self.max
            ));
        }
        None
    }

    /// Ticks in nanoseconds, to the nearest.
    #[must_use]
    pub fn ns(&self, ticks: u32) -> u64 {
        let hz = u64::from(self.tick_hz);
        (u64::from(ticks) * 1_000_000_000 + hz / 2) / hz
    }

    /// In nanoseconds, each sample as the largest value of its bucket, and none larger than `max`;
    /// those of `overflow` as `max`.
    #[must_use]
    pub fn to_nanoseconds(&self) -> Histogram<u64> {
        #[allow(
            clippy::expect_used,
            reason = "proof: 4 digits are documented as valid"
        )]
        let mut histogram = Histogram::new(DIGITS).expect("a constant");
        // A histogram that resizes itself takes every value.
        let mut record = |ticks: u32, count: u32| {
            let _ = histogram.record_n(self.ns(ticks), u64::from(count));
        };
        // They are all in the last bucket, and its largest value says nothing of them.
        let mut overflow = self.overflow;
        for &(index, count) in self.pairs.iter().rev() {
            let ticks = highest_of(self.precision_bits, index).min(self.max);
            let own = count - overflow.min(count);
            record(ticks, own);
            record(self.max, count - own);
            overflow = 0;
        }
        histogram
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(
        crc32c::crc32c(&record[..CHECKSUM_AT]),
        &record[HEADER_BYTES..],
    )
}

fn name(field: &[u8]) -> Result<String, String> {
    let end = field.iter().position(|byte| *byte == 0);
    let (name, rest) = field.split_at(end.unwrap_or(field.len()));
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
    if name.is_empty() || !name.iter().all(plain) || rest.iter().any(|byte| *byte != 0) {
        let name = String::from_utf8_lossy(field);
        return Err(format!(
            "the name {:?} is none",
            name.trim_end_matches('\0')
        ));
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}
