//! Headers of slices of either codec: which begin a picture, and where in display order it belongs.

use super::slice::{Slice, Trouble};
use super::{Codec, FrameRate, h264, h265};

/// Parameter sets seen so far, and the state that orders pictures.
pub struct Headers(Kind);

enum Kind {
    H264(Box<h264::Headers>),
    H265(Box<h265::Headers>),
}

impl Headers {
    /// None seen yet.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        Self(match codec {
            Codec::H264 => Kind::H264(Box::default()),
            Codec::H265 => Kind::H265(Box::default()),
        })
    }

    /// Takes a sequence parameter set.
    ///
    /// # Errors
    ///
    /// [`Trouble`] with its header.
    pub fn sequence_set(&mut self, nal: &[u8]) -> Result<(), Trouble> {
        match &mut self.0 {
            Kind::H264(headers) => headers.sequence_set(nal),
            Kind::H265(headers) => headers.sequence_set(nal),
        }
    }

    /// Takes a picture parameter set.
    ///
    /// # Errors
    ///
    /// [`Trouble`] with its header.
    pub fn picture_set(&mut self, nal: &[u8]) -> Result<(), Trouble> {
        match &mut self.0 {
            Kind::H264(headers) => headers.picture_set(nal),
            Kind::H265(headers) => headers.picture_set(nal),
        }
    }

    /// Takes a slice.
    ///
    /// # Errors
    ///
    /// [`Trouble`] with its header.
    pub fn slice(&mut self, nal: &[u8]) -> Result<Slice, Trouble> {
        match &mut self.0 {
            Kind::H264(headers) => headers.slice(nal),
            Kind::H265(headers) => headers.slice(nal),
        }
    }

    /// The next slice begins a picture, whatever its header says.
    pub fn end_picture(&mut self) {
        match &mut self.0 {
            Kind::H264(headers) => headers.end_picture(),
            Kind::H265(_) => {} // its slices say it themselves
        }
    }

    /// The sequence ended: the next picture is not ordered among those before it.
    pub fn end_sequence(&mut self) {
        match &mut self.0 {
            Kind::H264(_) => {} // an IDR picture follows (H.264, section 7.4.1.2.1)
            Kind::H265(headers) => headers.end_sequence(),
        }
    }

    /// Frames per second, where a sequence parameter set says it.
    #[must_use]
    pub fn frame_rate(&self) -> Option<FrameRate> {
        match &self.0 {
            Kind::H264(headers) => headers.frame_rate(),
            Kind::H265(headers) => headers.frame_rate(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What x264 and x265 write for 320x240 at 25 frames per second: parameter sets, key frame, P
    /// frame, B frame.
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
