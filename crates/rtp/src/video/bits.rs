//! Reads bits of a NAL unit, and refuses Exp-Golomb numbers that no header of H.264 or H.265 has.
//!
//! The parsers of `h264-reader` add such numbers up without a check; below [`GOLOMB_MAX`] no sum of
//! theirs can overflow.

use h264_reader::rbsp::{self, BitRead, BitReader, BitReaderError, ByteReader};
use std::num::NonZeroUsize;

/// Largest number believed. Nothing that is read here reaches it: macroblocks of a frame end at
/// 139,264.
const GOLOMB_MAX: u32 = 1 << 24;

/// Reads the bits of a NAL unit behind its header, without emulation prevention bytes.
pub(crate) struct Bits<'n>(BitReader<ByteReader<&'n [u8]>>);

impl<'n> Bits<'n> {
    /// At the first bit behind the header of `header_bytes` bytes.
    pub(crate) fn behind_header(nal: &'n [u8], header_bytes: usize) -> Self {
        let bytes = match NonZeroUsize::new(header_bytes) {
            Some(skip) => ByteReader::skipping_bytes(nal, skip),
            None => ByteReader::without_skip(nal),
        };
        Self(BitReader::new(bytes))
    }
}

impl BitRead for Bits<'_> {
    fn read_ue(&mut self, name: &'static str) -> Result<u32, BitReaderError> {
        let value = self.0.read_ue(name)?;
        if value > GOLOMB_MAX {
            return Err(BitReaderError::ExpGolombTooLarge(name));
        }
        Ok(value)
    }

    fn read_se(&mut self, name: &'static str) -> Result<i32, BitReaderError> {
        let value = self.0.read_se(name)?;
        if value.unsigned_abs() > GOLOMB_MAX {
            return Err(BitReaderError::ExpGolombTooLarge(name));
        }
        Ok(value)
    }

    fn read_bit(&mut self, name: &'static str) -> Result<bool, BitReaderError> {
        self.0.read_bit(name)
    }

    fn read<const BITS: u32, I: rbsp::Integer>(
        &mut self,
        name: &'static str,
    ) -> Result<I, BitReaderError> {
        self.0.read::<BITS, I>(name)
    }

    fn read_var<I: rbsp::Integer>(
        &mut self,
        bit_count: u32,
        name: &'static str,
    ) -> Result<I, BitReaderError> {
        self.0.read_var(bit_count, name)
    }

    fn read_to<V: rbsp::Primitive>(&mut self, name: &'static str) -> Result<V, BitReaderError> {
        self.0.read_to(name)
    }

    fn skip(&mut self, bit_count: u32, name: &'static str) -> Result<(), BitReaderError> {
        self.0.skip(bit_count, name)
    }

    fn byte_aligned(&self) -> bool {
        self.0.byte_aligned()
    }

    fn has_more_rbsp_data(&mut self, name: &'static str) -> Result<bool, BitReaderError> {
        self.0.has_more_rbsp_data(name)
    }

    fn finish_rbsp(self) -> Result<(), BitReaderError> {
        self.0.finish_rbsp()
    }

    fn finish_sei_payload(self) -> Result<(), BitReaderError> {
        self.0.finish_sei_payload()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_any_header_are_refused() {
        // 24 zeros, a one, 24 zeros: 2^24 - 1, the largest of that length.
        let small = [0x67, 0, 0, 3, 0, 0x80, 0, 0, 3, 0, 0x80];
        let value = Bits::behind_header(&small, 1).read_ue("value").unwrap();
        assert_eq!(value, (1 << 24) - 1);
        let large = [0x67, 0, 0, 3, 0, 0x40, 0, 0, 3, 0, 0x40];
        let refused = Bits::behind_header(&large, 1).read_ue("value");
        assert!(matches!(
            refused,
            Err(BitReaderError::ExpGolombTooLarge("value"))
        ));
        let refused = Bits::behind_header(&[0x67], 1).read_ue("value");
        assert!(matches!(
            refused,
            Err(BitReaderError::ReaderError("value", _))
        ));
    }
}
