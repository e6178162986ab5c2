//! What the header of a slice says, whichever codec it is of: `h264` and `h265` read it.

/// Why a header is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It does not follow the standard, or needs parameter sets that never came: pass over it.
    Damaged,
    /// The stream is sound, but its display order cannot be told here.
    Unsupported(&'static str),
}

/// A picture as its first slice describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Its place among the pictures since the last restart; counts up, by any step.
    pub order: i64,
    /// All pictures before it in decoding order are shown before it.
    pub restarts: bool,
    /// Most pictures that come before another one in decoding order and behind it in display order.
    pub reordered_max: usize,
}

/// What a slice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// The first of a picture.
    Begins(Picture),
    /// Another one of the same picture.
    Continues,
}

/// Completes the picture order count of which a slice has the low bits: the value nearest to the
/// one before (H.264, formula 8-3; H.265, formula 8-1).
pub(crate) fn nearest(before: i64, low: u32, low_bits: u32) -> i64 {
    let range = 1_i64 << low_bits;
    let difference = (i64::from(low) - before).rem_euclid(range);
    // Half the range away is upwards: both formulas ask for "greater than" only on the way down.
    if difference > range / 2 {
        before + difference - range
    } else {
        before + difference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formula 8-3 of H.264 as it stands.
    fn by_the_letter(before: i64, low: i64, range: i64) -> i64 {
        let (before_low, before_high) =
            (before.rem_euclid(range), before - before.rem_euclid(range));
        let high = if low < before_low && before_low - low >= range / 2 {
            before_high + range
        } else if low > before_low && low - before_low > range / 2 {
            before_high - range
        } else {
            before_high
        };
        high + low
    }

    #[test]
    fn counts_are_completed_as_the_standards_say() {
        for before in -40..40 {
            for low in 0..16 {
                let expected = by_the_letter(before, i64::from(low), 16);
                assert_eq!(nearest(before, low, 4), expected, "{low} after {before}");
            }
        }
    }
}
