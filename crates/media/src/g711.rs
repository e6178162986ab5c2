//! G.711: eight bits for a sample of 16, in µ-law and A-law (ITU-T Recommendation G.711, 11/88).
//!
//! The WAV source compresses with it, the WAV sink expands. Expanding is a table of 256 values;
//! compressing is one of 8,192 or fewer steps, computed here by segment and interval as tables 1
//! and 2 of the Recommendation lay them out.

/// Added to a magnitude so that the segments of µ-law begin at powers of two.
const ULAW_BIAS: i32 = 33;
/// The largest magnitude of 14 bits that is not clipped.
const ULAW_CLIP: i32 = 8191 - ULAW_BIAS;

/// A 16-bit sample of the code `byte` in µ-law (table 2b; 14 bits, shifted to 16).
#[must_use]
pub const fn expand_ulaw(byte: u8) -> i16 {
    let code = !byte;
    let interval = (code & 0x0f) as i32;
    let segment = (code >> 4 & 7) as i32;
    let magnitude = (((interval << 1) + ULAW_BIAS) << segment) - ULAW_BIAS;
    (if code & 0x80 != 0 {
        -magnitude
    } else {
        magnitude
    } << 2) as i16
}

/// The code of `sample` in µ-law (table 2a).
#[must_use]
pub const fn compress_ulaw(sample: i16) -> u8 {
    let (is_negative, magnitude) = magnitude(sample);
    let magnitude = magnitude >> 2;
    let magnitude = if magnitude > ULAW_CLIP {
        ULAW_CLIP
    } else {
        magnitude
    } + ULAW_BIAS;
    // 33 has its highest bit at 5: segment 0.
    let segment = 26 - magnitude.leading_zeros();
    let interval = (magnitude >> (segment + 1)) & 0x0f;
    let code = (segment as u8) << 4 | interval as u8;
    !if is_negative { 0x80 | code } else { code }
}

/// A 16-bit sample of the code `byte` in A-law (table 1b; 13 bits, shifted to 16).
#[must_use]
pub const fn expand_alaw(byte: u8) -> i16 {
    // Even bits are inverted on the line.
    let code = byte ^ 0x55;
    let interval = (code & 0x0f) as i32;
    let segment = (code >> 4 & 7) as i32;
    let magnitude = if segment == 0 {
        (interval << 1) + 1
    } else {
        ((interval << 1) + 33) << (segment - 1)
    };
    (if code & 0x80 != 0 {
        magnitude
    } else {
        -magnitude
    } << 3) as i16
}

/// The code of `sample` in A-law (table 1a).
#[must_use]
pub const fn compress_alaw(sample: i16) -> u8 {
    let (is_negative, magnitude) = magnitude(sample);
    let magnitude = magnitude >> 4;
    let code = if magnitude < 32 {
        magnitude
    } else {
        let segment = 28 - magnitude.leading_zeros() as i32;
        segment << 4 | (magnitude >> (segment - 1) & 0x0f)
    } as u8;
    (if is_negative { code } else { 0x80 | code }) ^ 0x55
}

/// Sign and magnitude; negative samples are mirrored about -0.5, as in the reference code of ITU-T
/// G.191, so that both signs have the same intervals.
const fn magnitude(sample: i16) -> (bool, i32) {
    if sample < 0 {
        (true, !sample as i32)
    } else {
        (false, sample as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decision_values_of_the_recommendation_begin_their_intervals() {
        // Tables 1a and 2a: decision value, and the 8-bit code of the interval that begins there,
        // for positive values.
        for (value, code) in [
            (0, 0b1111_1111),
            (1, 0b1111_1110),
            (31, 0b1110_1111),
            (95, 0b1101_1111),
            (223, 0b1100_1111),
            (479, 0b1011_1111),
            (991, 0b1010_1111),
            (2015, 0b1001_1111),
            (4063, 0b1000_1111),
            (7903, 0b1000_0000),
        ] {
            assert_eq!(compress_ulaw(value << 2), code, "{value}");
            assert_eq!(compress_ulaw(!(value << 2)), code & 0x7f, "-{value}");
        }
        for (value, code) in [
            (0, 0b1000_0000),
            (64, 0b1010_0000),
            (128, 0b1011_0000),
            (256, 0b1100_0000),
            (512, 0b1101_0000),
            (1024, 0b1110_0000),
            (2048, 0b1111_0000),
            (3968, 0b1111_1111),
        ] {
            // The table's codes are those before the inversion of even bits.
            assert_eq!(compress_alaw(value << 3) ^ 0x55, code, "{value}");
            assert_eq!(compress_alaw(!(value << 3)) ^ 0x55, code & 0x7f, "-{value}");
        }
    }

    #[test]
    fn every_code_comes_back_and_every_sample_is_near_its_value() {
        for byte in 0..=255 {
            assert_eq!(compress_alaw(expand_alaw(byte)), byte);
            // The two zeros of µ-law have one value.
            let expected = if byte == 0x7f { 0xff } else { byte };
            assert_eq!(compress_ulaw(expand_ulaw(byte)), expected);
        }
        for sample in i16::MIN..=i16::MAX {
            let distance = |value: i16| (i32::from(value) - i32::from(sample)).abs();
            let allowed = i32::from(sample).abs() / 32;
            assert!(
                distance(expand_ulaw(compress_ulaw(sample))) <= allowed + 644,
                "{sample}"
            );
            assert!(
                distance(expand_alaw(compress_alaw(sample))) <= allowed + 16,
                "{sample}"
            );
        }
    }
}
