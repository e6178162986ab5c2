//! The four bytes in front of every MPEG audio frame (ISO/IEC 11172-3, 2.4.1.3; 13818-3 for the
//! lower sampling rates; "2.5" is the customary extension to 8 to 12 kHz).

/// How many bytes a header has.
pub const HEADER_BYTES: usize = 4;

/// Bit rates by the 4-bit index, in kbit/s divided by two, for MPEG-1 layers III, II and I.
const HALF_RATES_1: [[u8; 15]; 3] = [
    [0, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160],
    [
        0, 16, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192,
    ],
    [
        0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224,
    ],
];

/// The same for MPEG-2 and 2.5.
const HALF_RATES_2: [[u8; 15]; 3] = [
    [0, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80],
    [0, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80],
    [0, 16, 24, 28, 32, 40, 48, 56, 64, 72, 80, 88, 96, 112, 128],
];

/// Which MPEG audio standard a frame follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// MPEG-1: 32, 44.1 and 48 kHz.
    Mpeg1,
    /// MPEG-2: 16, 22.05 and 24 kHz.
    Mpeg2,
    /// The extension to 8, 11.025 and 12 kHz.
    Mpeg25,
}

/// The layer of a frame; "MP3" is layer III.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Layer I.
    One,
    /// Layer II.
    Two,
    /// Layer III.
    Three,
}

/// A header that passed [`Header::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header([u8; HEADER_BYTES]);

impl Header {
    /// The longest frame of any layer, padding included: layer II, 384 kbit/s at 32 kHz.
    pub const LONGEST_BYTES: usize = 1729;

    /// Reads the header at the start of `bytes`; `None` if there is none or `bytes` is too short.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header = *bytes.first_chunk::<HEADER_BYTES>()?;
        let sync = header[0] == 0xff && (header[1] & 0xf0 == 0xf0 || header[1] & 0xfe == 0xe2);
        let layer = header[1] & 0x06 != 0;
        let bitrate = header[2] & 0xf0 != 0xf0;
        let rate = header[2] & 0x0c != 0x0c;
        (sync && layer && bitrate && rate).then_some(Self(header))
    }

    /// Whether `bytes` starts with a header of the same stream: same version, layer and sampling
    /// rate, and both or neither in free format. Bit rate and channels may change.
    #[must_use]
    pub fn is_continued_by(self, bytes: &[u8]) -> Option<Self> {
        let next = Self::parse(bytes)?;
        let same_kind = (self.0[1] ^ next.0[1]) & 0xfe == 0;
        let same_rate = (self.0[2] ^ next.0[2]) & 0x0c == 0;
        let same_format = self.is_free_format() == next.is_free_format();
        (same_kind && same_rate && same_format).then_some(next)
    }

    /// The standard that the frame follows.
    #[must_use]
    pub fn version(self) -> Version {
        match self.0[1] & 0x18 {
            0x18 => Version::Mpeg1,
            0x10 => Version::Mpeg2,
            _ => Version::Mpeg25,
        }
    }

    /// The layer of the frame.
    #[must_use]
    pub fn layer(self) -> Layer {
        match self.0[1] & 0x06 {
            0x06 => Layer::One,
            0x04 => Layer::Two,
            _ => Layer::Three,
        }
    }

    /// Whether the header leaves the bit rate open ("free format").
    #[must_use]
    pub fn is_free_format(self) -> bool {
        self.0[2] & 0xf0 == 0
    }

    /// Bits per second; 0 in free format.
    #[must_use]
    pub fn bits_per_second(self) -> u32 {
        let rates = if self.version() == Version::Mpeg1 {
            &HALF_RATES_1
        } else {
            &HALF_RATES_2
        };
        let row = match self.layer() {
            Layer::Three => 0,
            Layer::Two => 1,
            Layer::One => 2,
        };
        u32::from(rates[row][usize::from(self.0[2] >> 4)]) * 2000
    }

    /// Samples per second and channel.
    #[must_use]
    pub fn samples_per_second(self) -> u32 {
        let base = match self.0[2] & 0x0c {
            0x00 => 44_100,
            0x04 => 48_000,
            _ => 32_000,
        };
        match self.version() {
            Version::Mpeg1 => base,
            Version::Mpeg2 => base / 2,
            Version::Mpeg25 => base / 4,
        }
    }

    /// 1 or 2.
    #[must_use]
    pub fn channels(self) -> u8 {
        if self.0[3] & 0xc0 == 0xc0 { 1 } else { 2 }
    }

    /// Samples per channel that the frame decodes to.
    #[must_use]
    pub fn samples(self) -> u32 {
        match (self.layer(), self.version()) {
            (Layer::One, _) => 384,
            (Layer::Three, Version::Mpeg2 | Version::Mpeg25) => 576,
            _ => 1152,
        }
    }

    /// Whether 16 bits of check sum follow the header.
    #[must_use]
    pub fn has_crc(self) -> bool {
        self.0[1] & 1 == 0
    }

    /// How long the frame is, header and padding included; `None` in free format, where the header
    /// does not say.
    #[must_use]
    pub fn frame_bytes(self) -> Option<usize> {
        let bits = self.samples() * self.bits_per_second() / 1000 * 125;
        let bytes = bits / self.samples_per_second();
        let whole = if self.layer() == Layer::One {
            bytes & !3
        } else {
            bytes
        } as usize;
        (whole != 0).then(|| whole + self.padding_bytes())
    }

    /// The padding that the header asks for.
    #[must_use]
    pub fn padding_bytes(self) -> usize {
        match (self.0[2] & 0x02 != 0, self.layer()) {
            (false, _) => 0,
            (true, Layer::One) => 4,
            (true, _) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 128 kbit/s, 44.1 kHz, joint stereo, no check sum.
    const COMMON: [u8; 4] = [0xff, 0xfb, 0x90, 0x64];

    #[test]
    fn common_header_reads_as_it_should() {
        let header = Header::parse(&COMMON).unwrap();
        assert_eq!(header.version(), Version::Mpeg1);
        assert_eq!(header.layer(), Layer::Three);
        assert_eq!(header.bits_per_second(), 128_000);
        assert_eq!(header.samples_per_second(), 44_100);
        assert_eq!((header.channels(), header.samples()), (2, 1152));
        assert_eq!(header.frame_bytes(), Some(417));
        assert!(!header.has_crc());
        let padded = Header::parse(&[0xff, 0xfb, 0x92, 0x64]).unwrap();
        assert_eq!(padded.frame_bytes(), Some(418));
    }

    #[test]
    fn lower_rates_and_mono() {
        let header = Header::parse(&[0xff, 0xe3, 0x88, 0xc0]).unwrap();
        assert_eq!(header.version(), Version::Mpeg25);
        assert_eq!(header.samples_per_second(), 8_000);
        assert_eq!((header.channels(), header.samples()), (1, 576));
        assert_eq!(header.frame_bytes(), Some(576));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for bytes in [
            [0xfe, 0xfb, 0x90, 0x64], // no sync
            [0xff, 0xeb, 0x90, 0x64], // reserved version
            [0xff, 0xf9, 0x90, 0x64], // reserved layer
            [0xff, 0xfb, 0xf0, 0x64], // bit rate 15
            [0xff, 0xfb, 0x9c, 0x64], // sampling rate 3
        ] {
            assert_eq!(Header::parse(&bytes), None, "{bytes:02x?}");
        }
        assert_eq!(Header::parse(&COMMON[..3]), None);
    }

    #[test]
    fn no_frame_is_longer_than_the_constant_says() {
        let mut longest = 0;
        for second in 0xe0..=0xff {
            for third in 0..=0xff {
                let header = Header::parse(&[0xff, second, third, 0]);
                longest = longest.max(header.and_then(Header::frame_bytes).unwrap_or(0));
            }
        }
        assert_eq!(longest, Header::LONGEST_BYTES);
    }
}
