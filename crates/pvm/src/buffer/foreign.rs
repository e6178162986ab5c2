//! Items as they lie in the memory of a machine of another data format.
//!
//! What all members of a group do with data (`pvm_reduce`, `pvm_gather`, `pvm_scatter`) is sent as
//! it lies in the sender's memory, so that nothing is lost between machines of one format: a `long`
//! of 8 bytes has 4 in XDR. Where the receiver's format is another, it converts what it gets.

use super::item::Kind;
use super::order::Order;
use super::{Buffer, HEADER_BYTES, NATIVE_FORMAT, format_of};
use crate::code::Code;

/// What differs between the memories of machines.
#[derive(Clone, Copy, Debug)]
struct Format {
    order: Order,
    long_bytes: usize,
}

impl Format {
    /// `None`: nobody has such a one.
    fn of(number: i32) -> Option<Self> {
        let all = [(8, false), (4, false), (8, true), (4, true)];
        let is_it = |(bytes, is_big): &(usize, bool)| format_of(*bytes, *is_big) == number;
        let (long_bytes, is_big) = all.into_iter().find(is_it)?;
        let order = match is_big {
            true => Order::Big,
            false => Order::Little,
        };
        Some(Self { order, long_bytes })
    }

    const fn part_bytes(self, kind: Kind) -> usize {
        match kind {
            Kind::Long | Kind::UnsignedLong => self.long_bytes,
            _ => kind.part_bytes(),
        }
    }

    /// Appends a number as it lies in memory here.
    fn append(self, to: &mut Vec<u8>, kind: Kind, number: &[u8]) -> Result<(), Code> {
        let mut digits = number.to_vec();
        if self.order == Order::Big {
            digits.reverse();
        }
        let resized = resized(digits, kind.part_bytes(), kind == Kind::Long);
        let mut digits = resized.ok_or(Code::OVERFLOW)?;
        if Order::NATIVE == Order::Big {
            digits.reverse();
        }
        to.extend_from_slice(&digits);
        Ok(())
    }
}

/// The same number in so many bytes, the one with the least weight first. `None`: it does not fit.
fn resized(mut number: Vec<u8>, bytes: usize, is_signed: bool) -> Option<Vec<u8>> {
    let is_negative = |number: &[u8]| is_signed && number.last().is_some_and(|it| *it >= 0x80);
    let fill = match is_negative(&number) {
        true => 0xff,
        false => 0,
    };
    let is_lost = number.iter().skip(bytes).any(|byte| *byte != fill);
    number.resize(bytes, fill);
    (!is_lost && is_negative(&number) == (fill == 0xff)).then_some(number)
}

impl Buffer {
    /// Makes a raw message of so many items one as this machine would have packed it.
    ///
    /// # Errors
    /// [`Code::MISMATCH`]: it has more or fewer bytes; [`Code::BAD_MESSAGE`]: nobody has its data
    /// format; [`Code::OVERFLOW`]: a `long` does not fit here.
    pub fn make_native(&mut self, kind: Kind, count: usize) -> Result<(), Code> {
        let format = Format::of(self.info.encoding).ok_or(Code::BAD_MESSAGE)?;
        let part_bytes = format.part_bytes(kind);
        let parts = count.checked_mul(kind.parts());
        if parts.and_then(|parts| parts.checked_mul(part_bytes)) != Some(self.len()) {
            return Err(Code::MISMATCH);
        }
        if self.info.encoding == NATIVE_FORMAT {
            return Ok(());
        }
        let mut converted = vec![0; HEADER_BYTES];
        converted.reserve(count.saturating_mul(kind.bytes()));
        for number in self.body().chunks_exact(part_bytes) {
            format.append(&mut converted, kind, number)?;
        }
        self.bytes = converted;
        self.info.encoding = NATIVE_FORMAT;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Info;
    use super::*;

    fn packed(pointer_bytes: usize, is_big_endian: bool, body: &[u8]) -> Buffer {
        let encoding = format_of(pointer_bytes, is_big_endian);
        Buffer::with_body(
            Info {
                encoding,
                ..Info::default()
            },
            body,
        )
    }

    fn native(mut message: Buffer, kind: Kind, count: usize) -> Result<Vec<u8>, Code> {
        message.make_native(kind, count)?;
        assert_eq!(message.info.encoding, NATIVE_FORMAT);
        Ok(message.body().to_vec())
    }

    #[test]
    fn numbers_of_machines_of_each_order_are_what_they_were_there() {
        for is_big in [false, true] {
            let order = |little: &[u8]| -> Vec<u8> {
                let mut bytes = little.to_vec();
                if is_big {
                    bytes.reverse();
                }
                bytes
            };
            let short = packed(8, is_big, &order(&(-2_i16).to_le_bytes()));
            let wanted = (-2_i16).to_ne_bytes().to_vec();
            assert_eq!(native(short, Kind::Short, 1), Ok(wanted));
            let int = packed(4, is_big, &order(&0x0102_0304_u32.to_le_bytes()));
            let wanted = 0x0102_0304_u32.to_ne_bytes().to_vec();
            assert_eq!(native(int, Kind::UnsignedInt, 1), Ok(wanted));
            let numbers = [1.5_f64, -0.1];
            let body: Vec<u8> = numbers.map(|one| order(&one.to_le_bytes())).concat();
            let wanted = numbers.map(f64::to_ne_bytes).concat();
            let double = packed(8, is_big, &body);
            assert_eq!(native(double.clone(), Kind::Double, 2), Ok(wanted.clone()));
            assert_eq!(native(double, Kind::DoubleComplex, 1), Ok(wanted));
            let body: Vec<u8> = [1.5_f32, 2.5].map(|one| order(&one.to_le_bytes())).concat();
            let wanted = [1.5_f32, 2.5].map(f32::to_ne_bytes).concat();
            assert_eq!(
                native(packed(4, is_big, &body), Kind::Complex, 1),
                Ok(wanted)
            );
            let bytes = packed(4, is_big, b"abc");
            assert_eq!(native(bytes, Kind::Byte, 3), Ok(b"abc".to_vec()));
        }
    }

    #[test]
    fn long_is_as_long_as_here_or_does_not_fit() {
        let long = |value: i64| std::ffi::c_long::try_from(value);
        for is_big in [false, true] {
            for value in [0, 1, -1, i64::from(i32::MIN), i64::from(i32::MAX)] {
                let wanted = long(value).expect("in 4 bytes").to_ne_bytes().to_vec();
                let (short, whole) = match is_big {
                    false => ((value as i32).to_le_bytes(), value.to_le_bytes()),
                    true => ((value as i32).to_be_bytes(), value.to_be_bytes()),
                };
                let there = packed(4, is_big, &short);
                assert_eq!(native(there, Kind::Long, 1), Ok(wanted.clone()), "{value}");
                let there = packed(8, is_big, &whole);
                assert_eq!(native(there, Kind::Long, 1), Ok(wanted), "{value}");
            }
            for value in [i64::MIN, i64::MAX, 1 << 31, -(1 << 31) - 1] {
                let whole = match is_big {
                    false => value.to_le_bytes(),
                    true => value.to_be_bytes(),
                };
                let wanted = long(value).map(|value| value.to_ne_bytes().to_vec());
                let there = packed(8, is_big, &whole);
                let found = native(there, Kind::Long, 1);
                assert_eq!(found, wanted.map_err(|_| Code::OVERFLOW), "{value}");
            }
            let most = packed(4, is_big, &[0xff; 4]);
            let wanted = std::ffi::c_ulong::from(u32::MAX).to_ne_bytes().to_vec();
            assert_eq!(native(most, Kind::UnsignedLong, 1), Ok(wanted));
        }
    }

    #[test]
    fn number_that_becomes_shorter_loses_nothing_or_is_refused() {
        for (is_signed, value, fits) in [
            (true, i64::from(i32::MAX), true),
            (true, i64::from(i32::MAX) + 1, false),
            (true, i64::from(i32::MIN), true),
            (true, i64::from(i32::MIN) - 1, false),
            (false, i64::from(u32::MAX), true),
            (false, i64::from(u32::MAX) + 1, false),
            (false, -1, false),
        ] {
            let found = resized(value.to_le_bytes().to_vec(), 4, is_signed);
            let wanted = fits.then(|| (value as u32).to_le_bytes().to_vec());
            assert_eq!(found, wanted, "{value}");
        }
    }

    #[test]
    fn another_count_and_another_format_are_refused() {
        let ints = || packed(8, true, &[0; 8]);
        for count in [0, 1, 3, usize::MAX] {
            assert_eq!(native(ints(), Kind::Int, count), Err(Code::MISMATCH));
        }
        let mut strange = ints();
        strange.info.encoding = 7;
        assert_eq!(native(strange, Kind::Int, 2), Err(Code::BAD_MESSAGE));
    }
}
