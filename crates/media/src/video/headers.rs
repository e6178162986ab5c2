//! Headers of slices: which begin a picture, and where in display order it belongs.

use super::{Codec, FrameRate, h264, h265};

/// Why a header is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It does not follow the standard, or needs parameter sets that never came: pass over it.
    Damaged,
    /// The stream is sound, but its display order cannot be told here.
    Unsupported(&'static str),
}

/// A picture as its first slice describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Its place among the pictures since the last restart; counts up, by any step.
    pub(crate) order: i64,
    /// All pictures before it in decoding order are shown before it.
    pub(crate) restarts: bool,
    /// Most pictures that come before another one in decoding order and behind it in display order.
    pub(crate) reordered_max: usize,
}

/// What a slice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// The first of a picture.
    Begins(Picture),
    /// Another one of the same picture.
    Continues,
}

/// Parameter sets seen so far, and the state that orders pictures.
pub(crate) enum Headers {
    H264(Box<h264::Headers>),
    H265(Box<h265::Headers>),
}

impl Headers {
    pub(crate) fn new(codec: Codec) -> Self {
        match codec {
            Codec::H264 => Self::H264(Box::default()),
            Codec::H265 => Self::H265(Box::default()),
        }
    }

    /// Takes a sequence parameter set.
    pub(crate) fn sequence_set(&mut self, nal: &[u8]) -> Result<(), Trouble> {
        match self {
            Self::H264(headers) => headers.sequence_set(nal),
            Self::H265(headers) => headers.sequence_set(nal),
        }
    }

    /// Takes a picture parameter set.
    pub(crate) fn picture_set(&mut self, nal: &[u8]) -> Result<(), Trouble> {
        match self {
            Self::H264(headers) => headers.picture_set(nal),
            Self::H265(headers) => headers.picture_set(nal),
        }
    }

    /// Takes a slice.
    pub(crate) fn slice(&mut self, nal: &[u8]) -> Result<Slice, Trouble> {
        match self {
            Self::H264(headers) => headers.slice(nal),
            Self::H265(headers) => headers.slice(nal),
        }
    }

    /// The next slice begins a picture, whatever its header says.
    pub(crate) fn end_picture(&mut self) {
        match self {
            Self::H264(headers) => headers.end_picture(),
            Self::H265(_) => {} // its slices say it themselves
        }
    }

    /// The sequence ended: the next picture is not ordered among those before it.
    pub(crate) fn end_sequence(&mut self) {
        match self {
            Self::H264(_) => {} // an IDR picture follows (H.264, section 7.4.1.2.1)
            Self::H265(headers) => headers.end_sequence(),
        }
    }

    /// Frames per second, where a sequence parameter set says it.
    pub(crate) fn frame_rate(&self) -> Option<FrameRate> {
        match self {
            Self::H264(headers) => headers.frame_rate(),
            Self::H265(headers) => headers.frame_rate(),
        }
    }
}

/// Completes the picture order count of which a slice has the low bits: the value nearest to the one before (H.264, formula 8-3;
/// H.265, formula 8-1).
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

    /// What x264 and x265 write for 320x240 at 25 frames per second: parameter sets, key frame, P frame, B frame.
    const STREAMS: [(Codec, [&str; 5]); 2] = [
        (
            Codec::H264,
            [
                "6764000dacd94141fb011000000300100000030320f1429960",
                "68ebe3cb22c0",
                "6588840047dae3985bd757da423e838996cb",
                "419a236c457fbc87b3c361ce8e783a9dff60",
                "019e626a42dfdfd355b678ebffd922ff4168",
            ],
        ),
        (
            Codec::H265,
            [
                "42010101600000030090000003000003003ca00a080f16595924932bc05a020000030002000003003210",
                "4401c172b46240",
                "2801af1d20bcbcbb5fa4627b5f808166bd83",
                "0201d0195f84318e10564e7ae190ae49aba9",
                "0201e04497e1848412fd044da0fcbc938ca9",
            ],
        ),
    ];

    fn bytes(hexadecimal: &str) -> Vec<u8> {
        let digits = hexadecimal.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.map(byte).collect()
    }

    fn orders(codec: Codec, nals: &[Vec<u8>]) -> Vec<Result<Slice, Trouble>> {
        let mut headers = Headers::new(codec);
        let _ = headers.sequence_set(&nals[0]);
        let _ = headers.picture_set(&nals[1]);
        nals[2..].iter().map(|nal| headers.slice(nal)).collect()
    }

    #[test]
    fn headers_of_encoders_are_understood() {
        for (codec, stream) in STREAMS {
            let nals = stream.map(bytes);
            let mut headers = Headers::new(codec);
            headers.sequence_set(&nals[0]).unwrap();
            assert_eq!(headers.frame_rate(), FrameRate::new(25, 1), "{codec:?}");
            let begun: Vec<_> = orders(codec, &nals)
                .into_iter()
                .map(|slice| match slice {
                    Ok(Slice::Begins(picture)) => {
                        (picture.order, picture.restarts, picture.reordered_max)
                    }
                    other => panic!("{codec:?}: {other:?}"),
                })
                .collect();
            let (key, forward, between) = (begun[0], begun[1], begun[2]);
            assert_eq!((key.0, key.1, key.2), (0, true, 2), "{codec:?}");
            assert!(
                between.0 < forward.0 && between.0 > 0 && !forward.1,
                "{codec:?}: {begun:?}"
            );
        }
    }

    #[test]
    fn damaged_headers_are_refused_or_read_but_never_panic() {
        let mut seed = 0x5eed_u64;
        let mut dice = |bound: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % bound
        };
        for (codec, stream) in STREAMS {
            for _ in 0..30_000 {
                let mut nals = stream.map(bytes);
                for _ in 0..1 + dice(4) {
                    let nal = &mut nals[dice(5)];
                    let at = 1 + dice(nal.len() - 1);
                    match dice(4) {
                        0 => nal[at] = [0, 0xff][dice(2)],
                        1 if at > 2 => nal.truncate(at),
                        2 => nal[at..].fill_with(|| dice(256) as u8),
                        _ => nal[at] ^= 1 << dice(8),
                    }
                }
                let _ = orders(codec, &nals);
            }
        }
    }
}
